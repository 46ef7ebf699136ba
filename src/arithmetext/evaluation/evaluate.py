"""All metrics of a model in one window of the text, as plain data."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..models.language import LanguageModel
from ..text.splits import Range, unseen
from ..trees import unpack
from .alignment import align_prompts
from .codec import to_json
from .context import WORD_TOKENS, by_context
from .estimates import Estimate, ratio, share
from .generation import Continuations, continue_prompts
from .likelihood import compare_with_controls
from .masking import masked_accuracy
from .prompts import TextPrompts, draw
from .scoring import nats_and_words
from .separation import summarise_control, summarise_runs, summarise_stretches
from .square_free import impossible, runs
from .subjects import EvaluatedModel
from .words import (
    accuracies,
    confusion,
    divergences,
    malformed,
    word_counts,
    word_scores,
    words_confused_with,
)

BETAS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.3, 5.0, 10.0)  # and infinity
MASKING_SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)  # p_m
MAX_SHIFT = 64  # words by which a continuation may have slipped
SEQUENCES_PER_PROMPT = 4  # sequences scored for each prompt that is continued
FOLLOWING = 32  # tokens after each prompt that nats per word are measured on
MIN_CONTEXT = 64  # tokens that hold a stretch of four words and some context before it


def measure(subject: EvaluatedModel, at: int, *, prompts: int, seed: int) -> dict[str, Any]:
    """Measure a model in a window near `at` that it was not trained on."""
    window = unseen(at, subject.seen)
    place = {"at": at, "window": window}
    return place | {name: to_json(part) for name, part in _parts(subject, window, prompts, seed)}


def _parts(
    subject: EvaluatedModel, window: Range, number: int, seed: int
) -> Iterator[tuple[str, Any]]:
    model, tokenizer, length = subject.model, subject.tokenizer, subject.context
    sequences = SEQUENCES_PER_PROMPT * number
    if not model.causal:
        ids = draw(tokenizer, window, number=number, length=length, following=0, seed=seed).ids
        betas = (*BETAS, math.inf)
        yield (
            "masked",
            masked_accuracy(model, ids, masking_shares=MASKING_SHARES, betas=betas, seed=seed),
        )
        return
    # As many tokens follow as are generated, so that all true words are inside the window.
    drawn = draw(tokenizer, window, number=number, length=length, following=length, seed=seed)
    nats, words = nats_and_words(model, drawn.followed_by(FOLLOWING))
    yield "nats_per_word", ratio(nats.sum(1, dtype=np.float64), words)
    yield "generation", generation_metrics(model, drawn, seed)
    if model.can_score:
        scored = draw(
            tokenizer, window, number=sequences, length=length, following=WORD_TOKENS, seed=seed
        )
        yield "context", by_context(model, scored)
        lengths = doubling(2, length)
        inputs = (model, tokenizer, [window], subject.trained)
        compared = compare_with_controls(*inputs, lengths=lengths, number=sequences, seed=seed)
        yield "likelihood", [summarise_control(each) for each in compared]
        [scored_runs] = runs(
            *inputs, ways=("by frequency",), lengths=[length], number=sequences, seed=seed
        )
        yield "square_free_runs", summarise_runs(scored_runs)
        if length >= MIN_CONTEXT:
            stretches = impossible(*inputs, length=length, number=sequences, seed=seed)
            yield "impossible", summarise_stretches(stretches)


def doubling(first: int, last: int) -> list[int]:
    """first, 2 first, 4 first, … below `last`, then `last`; empty if last < first."""
    numbers = [first << k for k in range(last.bit_length()) if first << k < last]
    return [*numbers, last] if first <= last else []


def generation_metrics(model: LanguageModel, prompts: TextPrompts, seed: int) -> dict[str, Any]:
    """Metrics of prompts that are continued by as many tokens as they have."""
    count = prompts.length
    exact = continue_prompts(model, prompts, count)
    strides = {"exact": exact}
    block = max(1, count // 4) if model.windowed else 1
    if block > 1:
        strides["block"] = continue_prompts(model, prompts, count, stride=block)
    finite = () if model.deterministic else BETAS
    betas = {
        beta: continue_prompts(model, prompts, count, beta=beta, seed=seed, stride=block)
        for beta in finite
    }
    betas[math.inf] = strides.get("block", exact)
    return {
        "tokens": count,
        "slides": {name: quality(texts) for name, texts in strides.items()},
        "by_tokens": by_tokens(prompts, exact),
        "betas": [{"beta": beta, **vars(quality(texts))} for beta, texts in betas.items()],
        **_words(exact),
        "alignment": summarise_alignments(prompts, exact),
    }


@dataclass(frozen=True)
class Quality:
    """Word accuracy, malformed words and divergences of continuations (`words.Divergences`)."""

    accuracy: Estimate
    malformed: Estimate
    kl_paper: Estimate
    kl_left_out: Estimate
    kl_infinite: Estimate  # share of the prompts
    kl_where_finite: Estimate
    jensen_shannon: Estimate


def quality(continuations: Continuations) -> Quality:
    predicted, true = continuations.predicted, continuations.true
    distance = divergences(predicted, true)
    finite = np.isfinite(distance.proper)
    return Quality(
        accuracy=ratio(accuracies(predicted, true)),
        malformed=ratio(*malformed(predicted)),
        kl_paper=ratio(distance.paper),
        kl_left_out=ratio(distance.left_out),
        kl_infinite=share(~finite),
        kl_where_finite=ratio(np.where(finite, distance.proper, 0), finite),
        jensen_shannon=ratio(distance.shannon),
    )


def _words(continuations: Continuations) -> dict[str, Any]:
    """Metrics of each word; words are spelled out, and malformed words are called "malformed"."""
    predicted, true = continuations.predicted, continuations.true
    scores = word_scores(word_counts(predicted, true))
    labels, counts = confusion(predicted, true)
    generated, in_text = words_confused_with(predicted, true)
    spelled = [unpack(word) for word in labels]
    return {
        "words": [
            score._asdict()
            | {
                "word": unpack(score.word),
                "true": int(score.true),
                "predicted": int(score.predicted),
            }
            for score in scores
        ],
        "confusion": {
            "true": [*spelled, "others"],
            "generated": [*spelled, "others", "malformed"],
            "counts": counts,
        },
        "primes": {
            "generated": {unpack(word) or "malformed": count for word, count in generated},
            "standing": {unpack(word): count for word, count in in_text},
        },
    }


@dataclass(frozen=True)
class LengthAccuracy:
    """The word accuracy of the first tokens generated."""

    tokens: int
    accuracy: Estimate
    each: list[float | None]  # of each prompt; None if no word ends in these tokens


def by_tokens(prompts: TextPrompts, continuations: Continuations) -> list[LengthAccuracy]:
    """The accuracy of the first 1, 2, 4, … generated tokens, over all prompts and for each."""
    rows = []
    for count in doubling(1, continuations.tokens.shape[1]):
        predicted = prompts.words_after(continuations.tokens[:, :count])
        has_words = np.array([len(words) > 0 for words in predicted])
        each = accuracies(predicted, continuations.true)
        shown = [a if has else None for a, has in zip(each.tolist(), has_words, strict=True)]
        rows.append(LengthAccuracy(count, ratio(each * has_words, has_words), shown))
    return rows


@dataclass(frozen=True)
class AlignedContinuation:
    """One continuation, with fields as in `alignment.PromptAlignments`."""

    accuracy: float
    realigned: float
    collapsed: bool
    slips: int
    last_shift: int


@dataclass(frozen=True)
class AlignmentSummary:
    """Which continuations have collapsed, and how many of these a shift explains."""

    margin: int
    chance: Estimate
    collapsed: Estimate
    explained_by_shift: Estimate  # share of the collapsed continuations
    slipped: Estimate
    accuracy_of_slipped: Estimate
    accuracy_of_others: Estimate
    realigned_accuracy: Estimate
    slips_per_1000_words: Estimate
    last_shifts: dict[int, int]  # how many continuations end at each shift
    each: list[AlignedContinuation]


def summarise_alignments(prompts: TextPrompts, continuations: Continuations) -> AlignmentSummary:
    predicted = continuations.predicted
    counts = [len(words) for words in predicted]
    aligned = align_prompts(predicted, prompts.true_words(counts, margin=MAX_SHIFT), MAX_SHIFT)
    slipped = aligned.slips > 0
    shifts, numbers = np.unique(aligned.last_shift, return_counts=True)
    columns = (
        aligned.accuracy,
        aligned.realigned,
        aligned.collapsed,
        aligned.slips,
        aligned.last_shift,
    )
    return AlignmentSummary(
        margin=MAX_SHIFT,
        chance=ratio(aligned.chance),
        collapsed=share(aligned.collapsed),
        explained_by_shift=share(aligned.explained, aligned.collapsed),
        slipped=share(slipped),
        accuracy_of_slipped=ratio(aligned.accuracy * slipped, slipped),
        accuracy_of_others=ratio(aligned.accuracy * ~slipped, ~slipped),
        realigned_accuracy=ratio(aligned.realigned),
        slips_per_1000_words=ratio(1000 * aligned.slips, counts),
        last_shifts=dict(zip(shifts.tolist(), numbers.tolist(), strict=True)),
        each=[
            AlignedContinuation(*row)
            for row in zip(*(column.tolist() for column in columns), strict=True)
        ],
    )
