"""Impossible stretches of words: how they are drawn, spliced into the text and scored."""

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from arithmetext.errors import InputError
from arithmetext.evaluation.codec import to_json
from arithmetext.evaluation.estimates import Estimate, wilson
from arithmetext.evaluation.separation import (
    SHORT_RUNS,
    RunSummary,
    auc,
    runs_over_seeds,
    stretches_over_seeds,
    summarise_runs,
    summarise_stretches,
)
from arithmetext.evaluation.square_free import (
    KINDS,
    RUNS,
    STRETCH_WORDS,
    WAYS,
    Pool,
    PromptsWithRuns,
    RunLikelihoods,
    Stretches,
    Way,
    WordSample,
    are_square_free,
    fitting,
    impossible,
    periodic,
    place_for_run,
    runs,
    runs_at,
    spliced,
)
from arithmetext.models.gpt import GPT, GPTConfig
from arithmetext.models.hmm import HMM, HMMConfig
from arithmetext.models.language import Prompts
from arithmetext.search.sentences import law
from arithmetext.text.sieve import Words, words
from arithmetext.tokens import BPE, Tokenizer, WordTokens
from arithmetext.tokens.spelling import spell
from arithmetext.trees import factor, pack, unpack
from conftest import tolerance
from stand_in import StandIn
from test_likelihood import TEXT, Table, bigrams, uniform

SAMPLES = {seed: WordSample(TEXT.train, seed) for seed in (0, 1, 3)}
SAMPLE = SAMPLES[0]
FREQUENCIES = SAMPLE.frequencies()


@pytest.fixture(scope="module", params=["bpe", "words"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return BPE.train(128, lines=256) if request.param == "bpe" else WordTokens.commonest(64)


@pytest.fixture(scope="module")
def pool() -> Pool:
    return Pool(*FREQUENCIES, 0)


def test_square_free_words() -> None:
    expected = [all(e == 1 for _, e in factor(n)) for n in range(2, 3000)]
    assert are_square_free(words(2, 3000)).tolist() == expected


def test_frequencies_are_those_of_training() -> None:
    kinds, shares = FREQUENCIES
    assert shares.sum() == pytest.approx(1)
    assert shares.min() >= 2**-18
    lo, _ = TEXT.train[5]
    text = words(lo, lo + 10**6)
    for word in ("10", "1010", "11001010"):
        share = shares[kinds == pack(word)]
        assert share == pytest.approx((text == pack(word)).mean(), rel=0.05)
    assert not np.array_equal(shares[:9], SAMPLES[1].frequencies()[1][:9])


# Runs


def lengths(text: Words) -> list[int]:
    """Lengths of the runs of square-free words, except cut-off runs; 0 between two other words."""
    letters = "".join("f" if free else "." for free in are_square_free(text).tolist())
    return [len(run) for run in letters.split(".")[1:-1]]


def prompts(tokenizer: Tokenizer, length: int = 60, seed: int = 0) -> PromptsWithRuns:
    return PromptsWithRuns(tokenizer, [TEXT.test], SAMPLES[seed], length=length, seed=seed)


each_way = pytest.mark.parametrize("way", WAYS)
each_run = pytest.mark.parametrize("run", RUNS)
integers_from = st.integers(2, 10**15)
seeds = st.integers(0, 2**32)


@each_run
def test_periodic_runs_begin_at_each_of_their_words(run: int) -> None:
    patterns = [periodic(run, 50, np.random.default_rng(seed)) for seed in range(60)]
    assert {int(np.argmin(pattern)) for pattern in patterns} == set(range(run + 1))
    for pattern in patterns:
        first = int(np.argmin(pattern))
        assert np.flatnonzero(~pattern).tolist() == list(range(first, 50, run + 1))


@given(integers_from, st.integers(20, 200), seeds)
def test_short_runs_by_residue_are_possible(start: int, count: int, seed: int) -> None:
    """Brute force: no multiple of 4 or 9 is square-free, and runs are as long as they can be."""
    integers = start + np.arange(count)
    may_be = [n % 4 > 0 and n % 9 > 0 for n in integers.tolist()]
    threes = runs_at(integers, 3, np.random.default_rng(seed))
    assert threes.tolist() == may_be
    twos = runs_at(integers, 2, np.random.default_rng(seed)).tolist()
    text = "".join("f" if free else "." for free in twos)
    assert "fff" not in text
    for i, n in enumerate(integers.tolist()[:-2]):
        if n % 4 == 1 and all(may_be[i : i + 3]):
            assert text[i : i + 3] in ("ff.", ".ff")
    changed = [n % 4 for n, was, now in zip(integers, may_be, twos, strict=True) if was != now]
    assert set(changed) <= {1, 3}
    assert all(was or not now for was, now in zip(may_be, twos, strict=True))


def test_runs_of_two_lack_their_first_word_as_often_as_their_last() -> None:
    integers = np.arange(36 * 2000)
    free = runs_at(integers, 2, np.random.default_rng(0))
    lost = integers[(integers % 4 > 0) & (integers % 9 > 0) & ~free] % 4
    assert len(lost) == 6 * 2000  # six of nine triples modulo 36 have no multiple of 9
    assert (lost == 1).mean() == pytest.approx(0.5, abs=0.03)


@given(integers_from, st.sampled_from(RUNS))
def test_a_run_is_inserted_between_words_that_are_not_square_free(n: int, run: int) -> None:
    place = place_for_run(run, n)
    assert n <= place < n + 36

    def fits(first: int) -> bool:
        misfits = [m % 4 == 0 or m % 9 == 0 for m in range(first - 1, first + run + 1)]
        return misfits[0] and misfits[-1] and (run > 3 or sum(misfits) == 2)

    assert fits(place)
    assert not any(map(fits, range(n, place)))
    misplaced = [m for m in range(place, place + run) if m % 4 == 0 or m % 9 == 0]
    assert len(misplaced) == (run > 3)  # exactly one word of a long run does not fit


@given(integers_from, seeds)
def test_words_drawn_at_integers_fit_them(start: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    integers = start + np.arange(72)
    free = random.random(72) < 0.5
    for n, word, wanted in zip(
        integers.tolist(),
        SAMPLE.draw_at(integers, free, random).tolist(),
        free.tolist(),
        strict=True,
    ):
        assert bool(are_square_free(np.array([word], np.uint64))[0]) == wanted
        impossible_there = wanted and (n % 4 == 0 or n % 9 == 0)
        assert fitting(word)[n % 36] == (not impossible_there) or word in SMOOTH


# Words of integers without a prime above 3, which `fitting` ignores.
SMOOTH = {int(words(n, n + 1)[0]) for a in range(24) for b in range(16) if (n := 2**a * 3**b) > 1}


def test_drawn_words_are_as_frequent_as_in_the_text() -> None:
    """Given square-free or not; and given the residue too, against the text of other integers."""
    kinds, shares = FREQUENCIES
    random = np.random.default_rng(0)
    for free in (True, False):
        which = are_square_free(kinds) == free
        drawn = SAMPLE.draw(np.full(30_000, free), random)
        expected = 30_000 * shares[which] / shares[which].sum()
        counts = np.array([(drawn == word).sum() for word in kinds[which]])
        assert counts.sum() == 30_000
        assert (np.abs(counts - expected) <= 5 * np.sqrt(expected) + 2).all()
    _, hi = TEXT.train[4]
    text, residues = words(hi - 10**6, hi), np.arange(hi - 10**6, hi) % 36
    for residue, free in ((1, True), (10, True), (6, True), (8, False), (9, False), (5, False)):
        there = text[(residues == residue) & (are_square_free(text) == free)]
        drawn = SAMPLE.draw_at(np.full(20_000, residue), np.full(20_000, free), random)
        sampled = len(there) * 2**18 / 10**6  # words of this kind in the sample, about
        for word in np.unique(there)[:6]:
            share = (there == word).mean()
            error = math.sqrt(share * (1 - share) / sampled)
            assert (drawn == word).mean() == pytest.approx(share, abs=5 * error + 0.01)


@each_way
@each_run
def test_prompts_have_runs_of_the_requested_length(
    tokenizer: Tokenizer, way: Way, run: int
) -> None:
    made = prompts(tokenizer)
    longest = set()
    for k in range(20):
        ids = made.made(way, run, k)
        assert (ids.dtype, ids.shape) == (np.int64, (60,))
        inside = tokenizer.decode(ids, inside=True)
        assert len(inside.malformed) == 0
        found = set(lengths(inside.words))
        longest.add(max(found))
        if way == "by frequency":
            assert found == {run}
        else:
            assert found <= set(range(4)) | {run}
        if run == 2 and way != "inserted":
            assert found <= {0, 1, 2}
        assert run in found
        if way == "inserted" and run > 3:
            assert lengths(inside.words).count(run) == 1
    assert longest == ({3} if run < 4 and way == "inserted" else {run})


@each_run
def test_only_the_run_differs_from_the_text(tokenizer: Tokenizer, run: int) -> None:
    """By brute force over all places of the true text where the prompt may stand."""
    made = prompts(tokenizer, 120)
    for k in range(10):
        true, start = made.sequences.words(k), made.sequences.start(k)
        ids = made.made("inserted", run, k)
        prompt = tokenizer.decode(ids, inside=True).words
        count = len(prompt)
        different = [
            np.flatnonzero(prompt != true[i : i + count]) for i in range(len(true) - count)
        ]
        at = min(range(len(different)), key=lambda i: len(different[i]))
        assert len(different[at]) <= run
        free = are_square_free(prompt)
        places = [
            i
            for i in range(1, count - run)
            if place_for_run(run, start + at + i) == start + at + i
            and free[i : i + run].all()
            and set(different[at]) <= set(range(i, i + run))
        ]
        assert places
        # The run is in the middle, half of the tokens before it and half after.
        ended = np.cumsum(tokenizer.words_ended[ids])
        first, last = (np.searchsorted(ended, np.add(places, j)) for j in (0, run))
        assert (np.abs(first + last - 120) <= 24).any()  # a word has 12 tokens or less, mostly


@each_way
def test_runs_are_scored(tokenizer: Tokenizer, way: Way) -> None:
    model = bigrams(tokenizer)
    [found] = runs(
        model, tokenizer, [TEXT.test], TEXT.train, ways=[way], number=20, lengths=[64], seed=3
    )
    assert (found.way, found.length) == (way, 64)
    assert list(found.runs) == list(RUNS)
    made = prompts(tokenizer, 64, seed=3)
    for k, run in ((0, 2), (7, 5)):
        for values, ids in (
            (found.true, made.true(k)),
            (found.runs[run], made.made(way, run, k)),
        ):
            pairs = pairwise(ids)
            expected = np.mean([float(model.logs[a, b]) for a, b in pairs])
            assert values[k] == pytest.approx(expected)
    summary = summarise_runs(found)
    json.dumps(to_json(summary))
    assert [each.run for each in summary.runs] == list(RUNS)
    assert summary.runs[1].mean.value == pytest.approx(found.runs[3].mean())


def test_a_prompt_is_decided_by_seed_way_run_length_and_number(tokenizer: Tokenizer) -> None:
    seen = set()
    for way in WAYS:
        for length, seed in ((40, 0), (41, 0), (40, 1)):
            made, again = (prompts(tokenizer, length, seed) for _ in range(2))
            for run in RUNS:
                assert np.array_equal(made.made(way, run, 2), again.made(way, run, 2))
                seen |= {made.made(way, run, k)[:30].tobytes() for k in (2, 3)}
    assert len(seen) == len(WAYS) * 3 * len(RUNS) * 2


def test_ways_and_lengths_are_scored_as_each_alone(tokenizer: Tokenizer) -> None:
    def scored(ways: Sequence[Way], lengths: list[int]) -> list[RunLikelihoods]:
        return runs(
            bigrams(tokenizer),
            tokenizer,
            [TEXT.test],
            TEXT.train,
            ways=ways,
            number=4,
            lengths=lengths,
            seed=3,
        )

    together = scored(WAYS, [32, 40])
    alone = [scored([way], [length])[0] for length in (32, 40) for way in WAYS]
    for one, other in zip(together, alone, strict=True):
        assert (one.way, one.length) == (other.way, other.length)
        np.testing.assert_allclose(one.true, other.true)
        for run in RUNS:
            np.testing.assert_allclose(one.runs[run], other.runs[run])


TRUE = np.linspace(-3.2, -2.8, 80)


def in_bulk(true: Any, values: Any) -> RunSummary:
    others = dict.fromkeys(RUNS, np.zeros_like(true))
    return summarise_runs(RunLikelihoods("inserted", 16, true, others | {2: values})).runs[0]


@pytest.mark.parametrize(
    ("values", "above", "inside"),
    [
        ((-3.0, -3.1), 1.0, 1.0),
        ((-3.3, -3.3), 0.0, 0.0),
        ((-2.7, -2.7), 1.0, 0.0),
        ((-3.0, -3.3), 0.5, 0.5),
        ((-3.0, -2.7), 1.0, 0.5),
    ],
)
def test_prompts_are_in_the_bulk_between_two_quantiles_of_the_true_ones(
    values: tuple[float, float], above: float, inside: float
) -> None:
    found = in_bulk(TRUE, np.array(values * 40))
    for estimate, expected in ((found.above_low, above), (found.in_bulk, inside)):
        if expected in (0, 1):
            assert estimate == wilson(80 * expected, 80)
        else:  # the quantiles do not matter here
            for end, other in zip(estimate, wilson(80 * expected, 80), strict=True):
                assert end == pytest.approx(other, abs=0.02)
    itself = in_bulk(TRUE, TRUE)
    assert (itself.above_low.value, itself.in_bulk.value) == (78 / 80, 76 / 80)


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_intervals_cover_though_the_quantiles_are_estimated(correlation: float) -> None:
    """Wilson's interval, for which the quantile is known, covers in less than 80 % of the cases."""
    random, normal = np.random.default_rng(0), NormalDist()
    offsets = dict(zip(RUNS, (-2.8, -1.0, 3.0, 0.0, 0.0), strict=True))
    covered = {run: np.zeros(3) for run in RUNS[:3]}
    for _ in range(100):
        true, other = random.normal(size=(2, 200))
        noise = correlation * true + sqrt(1 - correlation**2) * other
        values = {run: offset + noise for run, offset in offsets.items()}
        summary = summarise_runs(RunLikelihoods("inserted", 16, true, values))
        for found in summary.runs[:3]:
            low, high = (normal.inv_cdf(q) - offsets[found.run] for q in (0.025, 0.975))
            above, inside = 1 - normal.cdf(low), normal.cdf(high) - normal.cdf(low)
            known = wilson(200 * (found.in_bulk.value or 0), 200)
            ends = ((found.above_low, above), (found.in_bulk, inside), (known, inside))
            covered[found.run] += [each.low <= expected <= each.high for each, expected in ends]
    for counts in covered.values():
        assert counts[:2].min() >= 90
        assert counts[2] < 80


def test_separation_is_the_least_area_of_a_short_against_a_long_run() -> None:
    likelihoods = {
        2: [-3.0, -2.0],
        3: [-1.0, -1.0],
        4: [-5.0, -5.0],
        5: [-4.0, -2.5],
        6: [-9.0, -9.0],
    }
    arrays = {run: np.array(values) for run, values in likelihoods.items()}

    def separation(way: Way, **changed: Any) -> Estimate:
        values = arrays | {int(run[1]): values for run, values in changed.items()}
        return summarise_runs(RunLikelihoods(way, 16, np.zeros(2), values)).separation

    assert separation("inserted") == separation("by frequency") == auc(arrays[2], arrays[5])
    assert separation("inserted").value == 0.75
    assert separation("inserted", _3=arrays[6]) == auc(arrays[6], arrays[4])
    # By residue, runs of two do not count.
    assert separation("by residue").value == 1
    assert separation("by residue", _3=arrays[6]).value == 0


def test_runs_of_two_by_residue_are_improbable_by_construction() -> None:
    """Between multiples of 4 the text mostly has three square-free words, if none is excluded."""
    lo, _ = TEXT.test
    lo += -lo % 4
    free = are_square_free(words(lo, lo + 400_000)).reshape(-1, 4)[:, 1:]
    nines = (np.arange(lo, lo + 400_000) % 9 == 0).reshape(-1, 4)[:, 1:].any(1)
    assert free[~nines].all(1).mean() == pytest.approx(0.75, abs=0.02)
    assert SHORT_RUNS["by residue"] == (3,)


def test_summaries_are_averaged_over_seeds() -> None:
    random = np.random.default_rng(0)
    both = [
        RunLikelihoods(
            "inserted",
            16,
            random.normal(size=30),
            {run: random.normal(-1, size=30) for run in RUNS},
        )
        for _ in range(2)
    ]
    mean = runs_over_seeds(both)
    summaries = [summarise_runs(each) for each in both]
    assert mean.true.value == pytest.approx((both[0].true.mean() + both[1].true.mean()) / 2)
    for k, run in enumerate(RUNS):
        assert mean.runs[k].run == run
        for field in ("mean", "auc", "above_low", "in_bulk"):
            values = [getattr(each.runs[k], field).value for each in summaries]
            assert getattr(mean.runs[k], field).value == pytest.approx(sum(values) / 2)
    assert runs_over_seeds(both[:1]) == summaries[0]
    nats = {kind: random.normal(5, size=9) for kind in KINDS}
    one = Stretches(12, nats)
    assert stretches_over_seeds([one]) == summarise_stretches(one)
    two = stretches_over_seeds(
        [one, Stretches(12, {kind: 3 * values for kind, values in nats.items()})]
    )
    assert (two.asked, two.left) == (12, 9)
    assert two.nats["here"].value == pytest.approx(2 * nats["here"].mean())
    assert two.auc["here"].value == pytest.approx(summarise_stretches(one).auc["here"].value)


def test_runs_without_anything_to_score_raise() -> None:
    tokenizer = WordTokens.commonest(64)
    inputs = uniform(tokenizer), tokenizer, [TEXT.test], TEXT.train
    for number, length in ((0, 64), (3, 1)):
        with pytest.raises(InputError, match=r"^give a number of 1 or more"):
            runs(*inputs, ways=WAYS, number=number, lengths=[length], seed=0)
        with pytest.raises(InputError, match=r"^give a number of 1 or more"):
            impossible(*inputs, number=number, length=length, seed=0)


# What fits


def test_words_fit_exactly_where_they_occur() -> None:
    """Every word fits where it occurs; the most common words occur at every fitting residue."""
    smooth = [2**a * 3**b for a in range(20) for b in range(13)]
    numbers = np.setdiff1d(np.arange(2, 10**6), smooth)
    text = words(2, 10**6)[numbers - 2]
    pairs = np.unique(text * np.uint64(64) + (numbers % 36).astype(np.uint64))
    seen: dict[int, set[int]] = {}
    for pair in pairs.tolist():
        seen.setdefault(pair >> 6, set()).add(pair & 63)
    fits = {word: {r for r, fit in enumerate(fitting(word)) if fit} for word in seen}
    assert all(seen[word] <= fits[word] for word in seen)
    kinds, counts = np.unique(text, return_counts=True)
    for word in kinds[np.argsort(-counts)][:12].tolist():
        assert seen[word] == fits[word]


def test_stretches_forbidden_by_arithmetic_fit_nowhere() -> None:
    random = np.random.default_rng(0)
    kinds, shares = FREQUENCIES
    fitting_stretches = 0
    for _ in range(300):
        stretch = random.choice(kinds, STRETCH_WORDS, p=shares).tolist()
        rows = [fitting(word) for word in stretch]
        fits = any(all(rows[j][(r + j) % 36] for j in range(STRETCH_WORDS)) for r in range(36))
        if law(tuple(stretch)) is not None:
            fitting_stretches += 1
            assert not fits
    assert fitting_stretches > 30


# Stretches


def wrong_by_4(stretch: Words, n: int) -> list[bool]:
    """Which words do not begin like the multiple of 2 or 4 at their position."""
    wrong = []
    for m, word in enumerate(map(unpack, stretch.tolist()), start=n):
        twice = word.startswith("11") or word == "10"
        wrong.append(m % 2 == 0 and (twice if m % 4 else not word.startswith("11")))
    return wrong


def test_stretches_of_each_kind_are_as_described(pool: Pool) -> None:
    kinds, shares = FREQUENCIES
    logs = dict(zip(kinds.tolist(), np.log(shares).tolist(), strict=True))
    random = np.random.default_rng(0)
    left = 0
    seen = set()
    for n in range(10**8, 10**8 + 400):
        chosen = pool.choose(n, random)
        if chosen is None:
            continue
        left += 1
        tail = tuple(words(n - 24, n, threads=1).tolist())
        sentences = {kind: tuple(stretch.tolist()) for kind, stretch in chosen.items()}
        assert are_square_free(chosen["impossible"]).all()
        assert "never occurs" in str(law(sentences["impossible"]))
        assert law(sentences["elsewhere"]) is None
        assert "never occurs" in str(law(tail + sentences["elsewhere"]))
        assert law(tail + sentences["here"]) is None
        # By brute force over the residues: which of them fit the context, and the stretch after it?
        for kind, sentence in sentences.items():
            rows = [fitting(word) for word in tail + sentence]
            fits = {r for r in range(36) if all(row[(r + j) % 36] for j, row in enumerate(rows))}
            assert ((n - 24) % 36 in fits) == (kind == "here")
            assert bool(fits) == (kind == "here")
        alone = [fitting(word) for word in sentences["elsewhere"]]
        assert any(all(alone[j][(r + j) % 36] for j in range(STRETCH_WORDS)) for r in range(36))
        # Alike in how often words come, and in which of them do not fit.
        cost = {kind: sum(logs[word] for word in words) for kind, words in sentences.items()}
        assert max(cost.values()) - min(cost.values()) <= 0.2
        assert abs(cost["here"] - cost["impossible"]) <= 0.1 + 1e-9
        assert abs(cost["elsewhere"] - cost["impossible"]) <= 0.1 + 1e-9
        assert not any(wrong_by_4(chosen["here"], n))
        wrong = wrong_by_4(chosen["impossible"], n)
        assert wrong_by_4(chosen["elsewhere"], n) == wrong
        assert wrong[-n % 4]  # the multiple of 4
        fit = {
            kind: [fitting(word)[(n + j) % 36] for j, word in enumerate(sentence)]
            for kind, sentence in sentences.items()
        }
        assert fit["elsewhere"] == fit["impossible"]
        seen |= set(sentences.values())
    assert left > 150
    assert len(seen) > 2 * left  # they are not always the same


def put(tokenizer: Tokenizer, pool: Pool, n: int, length: int) -> tuple[list[Words], ...]:
    chosen = None
    random = np.random.default_rng(n)
    while chosen is None:
        chosen = pool.choose(n, random)
    before, after = words(n - 1500, n), words(n + STRETCH_WORDS, n + 1500)
    stretches = [{"true": words(n, n + STRETCH_WORDS), **chosen}[kind] for kind in KINDS]
    return stretches, *spliced(tokenizer, before, stretches, after, length)


def test_scored_tokens_are_those_of_the_stretch(tokenizer: Tokenizer, pool: Pool) -> None:
    for n in range(10**8, 10**8 + 60):
        stretches, ids, scored = put(tokenizer, pool, n, 100)
        assert ids.shape == scored.shape == (len(KINDS), 100)
        [first] = {int(np.argmax(row)) for row in scored}
        assert first > 30
        assert scored[:, -1].any()  # the longest ends the window
        assert (ids[:, :first] == ids[0, :first]).all()
        context = spell(words(n - 1500, n))
        for stretch, row, which in zip(stretches, ids, scored, strict=True):
            count = int(which.sum())
            assert which[first : first + count].all()
            before, here = (
                tokenizer.text(row[a:b]) for a, b in ((0, first), (first, first + count))
            )
            # Some letters of the context, all of the stretch, some of what follows.
            place = (before + here).rfind(spell(stretch))
            assert context.endswith((before + here)[: place or None])
            assert place >= len(before)
            border = place
            last = tokenizer.vocabulary[row[first + count - 1]]
            end = place + len(spell(stretch))
            assert 0 <= len(before + here) - end < len(last)
        # Nothing is scored in vain: the first token differs, or has a letter of the stretch.
        through = [len(tokenizer.text(row[: first + 1])) for row in ids]
        differs = (ids[:, first] != ids[0, first]).any()
        assert differs or max(through) > border


def test_a_window_without_context_raises(tokenizer: Tokenizer, pool: Pool) -> None:
    with pytest.raises(InputError, match="leave no context"):
        put(tokenizer, pool, 10**8, 3)


def test_a_uniform_model_pays_by_the_number_of_tokens(tokenizer: Tokenizer) -> None:
    found = impossible(
        uniform(tokenizer), tokenizer, [TEXT.test], TEXT.train, number=20, length=80, seed=0
    )
    assert list(found.nats) == list(KINDS)
    for nats in found.nats.values():
        counts = nats / math.log(tokenizer.size)
        np.testing.assert_allclose(counts, counts.round())
        assert counts.min() >= 2


class Fours(StandIn):
    """Knows the multiples of 4 by the words before, and of square-free words in a row nothing.

    It reads word tokens. A word that does not begin as it should at an even place costs 5 nats.
    """

    def __init__(self, tokenizer: WordTokens) -> None:
        self.begins = torch.tensor([token.startswith("11") for token in tokenizer.vocabulary])
        self.prime = tokenizer.vocabulary.index("10 ")
        self.ends = torch.tensor([" " in token for token in tokenizer.vocabulary])
        kinds, shares = FREQUENCIES
        frequency = dict(zip((unpack(w) + " " for w in kinds.tolist()), shares, strict=True))
        self.shares = torch.tensor([frequency.get(t, 1e-3) for t in tokenizer.vocabulary])

    def read(self, prompts: Prompts, *, stride: int = 1) -> "Fours":
        reading = object.__new__(Fours)
        reading.__dict__.update(self.__dict__)
        reading.rows = [prompts.ids]
        return reading

    def append(self, tokens: Tensor) -> None:
        self.rows.append(tokens[:, None])

    def log_probabilities(self) -> Tensor:
        out = []
        for row in torch.cat(self.rows, 1):
            ends = self.ends[row]
            places = torch.cumsum(ends, 0)[ends] - 1
            multiple = self.begins[row[ends]]
            count = len(places)
            scores = [
                (multiple[places % 4 == r].float().mean() if (places % 4 == r).any() else 0.0)
                for r in range(4)
            ]
            phase = (count - int(np.argmax([float(s) for s in scores]))) % 4
            penalty = torch.zeros(len(self.shares))
            if count >= 8 and phase == 0:
                penalty = (~self.begins) * 5.0
            elif count >= 8 and phase == 2:
                penalty = self.begins * 5.0
                penalty[self.prime] = 5.0
            out.append(self.shares.double().log() - penalty)
        return torch.stack(out).log_softmax(-1)


def test_a_model_of_the_period_pays_the_same_for_misplaced_words() -> None:
    """Words cost more where they do not fit; that they never occur in a row adds nothing."""
    tokenizer = WordTokens.commonest(250, x=10**8)
    found = impossible(
        Fours(tokenizer), tokenizer, [TEXT.test], TEXT.train, number=60, length=40, seed=0
    )
    summary = summarise_stretches(found)
    assert summary.auc["here"].low > 0.9
    assert summary.auc["elsewhere"].low < 0.5 < summary.auc["elsewhere"].high
    assert summary.nats["impossible"].low > summary.nats["here"].high + 3
    difference = found.nats["impossible"] - found.nats["elsewhere"]
    assert abs(difference.mean()) < 0.5


def test_which_way_shows_what_to_a_model_of_the_period() -> None:
    """It knows multiples of 4 only, yet seems to know that four square-free words never occur."""
    tokenizer = WordTokens.commonest(250, x=10**8)
    scored = runs(
        Fours(tokenizer),
        tokenizer,
        [TEXT.test],
        TEXT.train,
        ways=WAYS,
        number=10,
        lengths=[40],
        seed=0,
    )
    areas = {
        each.way: {row.run: row.auc.value for row in summarise_runs(each).runs} for each in scored
    }
    means = {each.way: {run: row.mean() for run, row in each.runs.items()} for each in scored}
    by_frequency, by_residue, inserted = (areas[way] for way in WAYS)
    # Words drawn by their frequencies break the period, except in runs of three.
    assert min(by_frequency[run] for run in RUNS if run != 3) > 0.9 > by_frequency[3]
    # Given the residue, only runs that never occur do.
    assert min(by_residue[run] for run in (4, 5, 6)) > 0.95 > by_residue[2] > by_residue[3]
    assert means["by residue"][2] > max(means["by residue"][run] for run in (4, 5, 6)) + 0.3
    assert means["by frequency"][2] < means["by frequency"][4] + 0.3
    # A single run among true words counts less.
    for run in (4, 5, 6):
        assert 0.5 < inserted[run] < by_residue[run]


def test_summary_of_stretches() -> None:
    nats = {
        "true": np.array([1.0, 1.0]),
        "here": np.array([2.0, 3.0]),
        "elsewhere": np.array([4.0, math.inf]),
        "impossible": np.array([4.0, 5.0]),
    }
    summary = summarise_stretches(Stretches(7, nats))
    assert (summary.asked, summary.left) == (7, 2)
    assert [summary.nats[kind].value for kind in KINDS] == [1, 2.5, None, 4.5]
    assert summary.auc["here"].value == summary.paired["here"].value == 1
    assert summary.auc["here"].low < 1
    assert summary.auc["elsewhere"].value == 0.375
    assert summary.paired["elsewhere"].value == 0.25
    json.dumps(to_json(summary))
    empty = summarise_stretches(Stretches(3, {kind: np.zeros(0) for kind in KINDS}))
    assert empty.left == 0
    assert empty.auc["here"].value is empty.nats["true"].value is None


@pytest.mark.parametrize("name", ["hmm", "gpt", "table"])
def test_stretches_do_not_depend_on_their_number(tokenizer: Tokenizer, name: str) -> None:
    torch.manual_seed(0)
    model: HMM | GPT | Table = bigrams(tokenizer)
    if name == "hmm":
        model = HMM(HMMConfig(states=8, conditioned="sequence"), vocabulary=tokenizer.size).double()
    elif name == "gpt":
        config = GPTConfig(layers=1, heads=1, context=128)
        model = GPT(config, vocabulary=tokenizer.size, causal=True).double()
    few, many = (
        impossible(model, tokenizer, [TEXT.test], TEXT.train, number=number, length=128, seed=4)
        for number in (8, 90)
    )
    left = len(few.nats["true"])
    assert 0 < left <= 8
    for kind in KINDS:
        np.testing.assert_allclose(
            few.nats[kind], many.nats[kind][:left], rtol=tolerance(tokenizer.size)
        )


def test_runs_do_not_depend_on_their_number(tokenizer: Tokenizer) -> None:
    torch.manual_seed(0)
    model = HMM(HMMConfig(states=8, conditioned="sequence"), vocabulary=tokenizer.size).double()
    close = {"rtol": tolerance(tokenizer.size)}
    inputs = model, tokenizer, [TEXT.test], TEXT.train
    few, many = (
        runs(*inputs, ways=WAYS, number=number, lengths=[32], seed=4) for number in (3, 12)
    )
    for one, other in zip(few, many, strict=True):
        np.testing.assert_allclose(one.true, other.true[:3], **close)
        for run in RUNS:
            np.testing.assert_allclose(one.runs[run], other.runs[run][:3], **close)
        assert len({round(float(values[0]), 9) for values in other.runs.values()}) == len(RUNS)
