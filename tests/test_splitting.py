"""Scoring after splitting the text: two clusters, and which prompts are in the low one."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from arithmetext.evaluation.prompts import TextPrompts, draw
from arithmetext.evaluation.splitting import SplitScores, split_accuracy, split_scores, true_texts
from arithmetext.evaluation.words import accuracies
from arithmetext.models.oracle import Oracle
from arithmetext.text.sieve import words
from arithmetext.tokens import BPE, WordTokens

AT, PROMPTS, WORDS = 10**13, 96, 1000


@cache
def predict() -> tuple[TextPrompts, Tensor]:
    """BPE prompts and the likeliest words of an oracle after them, as tokens.

    It is a model as good as the paper's that cannot slip. The first word is the likeliest one that
    begins with the unfinished word of the prompt.
    """
    oracle = Oracle.estimate(19, AT, tokens=WordTokens.commonest(256), count=2**18)
    bpe = BPE.train(256, lines=256)
    prompts = draw(bpe, (AT, AT + 10**6), number=PROMPTS, length=128, following=8, seed=1)

    @cache
    def likeliest(evidence: tuple[int, int], begun: str = "") -> str:
        found, chances = oracle.distribution(*evidence)
        spelled = (f"{found[i]:b}" for i in np.argsort(-chances))
        return next(word for word in spelled if word.startswith(begun))

    rows = []
    for n, begun in zip(prompts.integers.tolist(), prompts.begun(), strict=True):
        first, *others = oracle.evidence(np.arange(n, n + WORDS, dtype=np.uint64))
        rest = likeliest(first, begun)[len(begun) :]
        text = " ".join([rest, *map(likeliest, others)]) + " "
        rows.append(torch.from_numpy(bpe.encode_text(text).astype(np.int64)))
    length = min(map(len, rows))
    return prompts, torch.stack([row[:length] for row in rows])


@cache
def scores() -> SplitScores:
    return split_scores(*predict())


def test_the_low_cluster_is_where_only_one_text_begins_with_a_space() -> None:
    """Prompt by prompt, and no prompt lies between the two clusters."""
    low = scores().split < 0.12
    assert low.tolist() == scores().first_differs.tolist()
    assert 5 < low.sum() < PROMPTS / 2
    assert scores().split[~low].min() > 0.3


def test_with_the_integers_known_there_is_one_cluster() -> None:
    """The prompts of the low cluster are as easy as the others."""
    prompts, tokens = predict()
    predicted = prompts.words_after(tokens)
    known = accuracies(predicted, prompts.true_words([len(row) for row in predicted]))
    assert known.min() > 0.3 and scores().split_at_spaces.min() > 0.3
    low = scores().first_differs
    assert known[low].mean() == pytest.approx(known[~low].mean(), abs=0.02)
    assert scores().split_at_spaces == pytest.approx(known, abs=0.003)
    assert scores().split[~low] == pytest.approx(known[~low], abs=0.003)


def reference(generated: str, true: str) -> tuple[float, float, bool]:
    """The two scorings and the first character, one character at a time."""

    def cut(text: str, keep_empty: bool) -> list[str]:
        parts, part = [], ""
        for letter in text + " ":
            if letter != " ":
                part += letter
            else:
                if part or keep_empty:
                    parts.append(part)
                part = ""
        return parts

    found = []
    for keep_empty in (False, True):
        ours, theirs = cut(generated, keep_empty), cut(true, keep_empty)
        right = 0
        for i in range(len(ours)):
            right += i < len(theirs) and ours[i] == theirs[i]
        found.append(right / len(ours) if ours else 0.0)
    return found[0], found[1], (generated[0] == " ") != (true[0] == " ")


def test_against_a_reference() -> None:
    prompts, tokens = predict()
    texts = [prompts.tokenizer.text(row) for row in tokens.numpy()]
    for i, (begun, n, text) in enumerate(
        zip(prompts.begun(), prompts.integers.tolist(), texts, strict=True)
    ):
        spelled = "".join(f"{word:b} " for word in words(n, n + WORDS + 9).tolist())
        assert spelled.startswith(begun)
        found = (scores().split[i], scores().split_at_spaces[i], scores().first_differs[i])
        assert found == reference(text, spelled[len(begun) :])


sentences = st.text(" 01", min_size=1)


@given(sentences, sentences)
def test_any_text_is_scored_like_the_reference(generated: str, true: str) -> None:
    split, at_spaces, _ = reference(generated, true)
    assert split_accuracy(generated, true) == split
    assert split_accuracy(generated, true, " ") == at_spaces


@given(
    st.lists(st.sampled_from(["10", "1010", "1100", "101010"]), min_size=1, max_size=20),
    st.lists(st.sampled_from(["10", "1010", "1100", "101010"]), min_size=1, max_size=20),
    st.integers(0, 8),
    st.integers(0, 8),
)
def test_a_first_space_shifts_every_later_word(
    ours: list[str], truth: list[str], cut: int, true_cut: int
) -> None:
    """A text that begins inside its first word, which may be over: then its first is a space.

    If both or neither begin with a space, splitting with and without an argument find the same hits
    (but for the empty word before a space). Otherwise the text without the space is one word
    behind.
    """
    generated, true = " ".join(ours)[cut:], " ".join(truth)[true_cut:]
    if not generated or not true:
        return
    words_, true_words = generated.split(), true.split()

    def hits(one: list[str], other: list[str]) -> int:
        return sum(a == b for a, b in zip(one, other, strict=False))

    kept, true_kept = generated.split(" "), true.split(" ")
    space, true_space = kept[0] == "", true_kept[0] == ""
    if space == true_space:
        assert hits(words_, true_words) == hits(kept, true_kept) - space
    elif space:
        assert hits(words_, true_words) == hits(kept[1:], true_kept)
    else:
        assert hits(words_, true_words) == hits(kept, true_kept[1:])


def test_the_true_text_scores_one_and_one_word_late_scores_like_chance() -> None:
    """Nothing but the first space is wrong in the second text."""
    prompts, _ = predict()
    [text, *_] = true_texts(prompts, [WORDS] * PROMPTS)
    rest = text.lstrip(" ")
    assert split_accuracy(text, text) == split_accuracy(text, text, " ") == 1
    late = " ".join(["", *rest.split()[1:]])  # as if the unfinished word were over
    assert split_accuracy(late, rest) < 0.12
    assert split_accuracy(late, rest, " ") > 0.99


def test_one_token_a_word_never_begins_with_a_space() -> None:
    """Each token holds its space, so both texts begin with a word, and there is one cluster."""
    tokenizer = WordTokens.commonest(256)
    prompts = draw(tokenizer, (AT, AT + 10**6), number=8, length=64, following=200)
    found = split_scores(prompts, prompts.following)
    assert not found.first_differs.any()
    assert np.array_equal(found.split, np.ones(8))
