"""Metrics of predicted words, compared with counts by hand and with plain dictionaries."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arithmetext.errors import InputError
from arithmetext.evaluation.estimates import Estimate, rate, ratio, wilson
from arithmetext.evaluation.words import (
    Divergences,
    HighestF1,
    WordCounts,
    accuracies,
    compare_f1,
    confusion,
    confusion_by_prompt,
    divergences,
    highest_f1,
    hits,
    malformed,
    word_counts,
    word_scores,
    words_confused_with,
)
from arithmetext.text.sieve import Words, words

NONE = Estimate(None, None, None)


def packed(*sentence: int) -> Words:
    return np.array(sentence, np.uint64)


# Pairs, true → generated: 2 → 2, 12 → 10, 10 → 2, 2 → malformed; 10 → 10, 2 → 10; none; 42 → 56.
# The last words of the first and the third truth were never reached.
PREDICTED = [packed(2, 10, 2, 0), packed(10, 10), packed(), packed(56)]
TRUE = [packed(2, 12, 10, 2, 42), packed(10, 2), packed(2), packed(42)]


def test_accuracy_by_hand() -> None:
    assert [hits(p, t) for p, t in zip(PREDICTED, TRUE, strict=True)] == [1, 1, 0, 0]
    assert accuracies(PREDICTED, TRUE).tolist() == [1 / 4, 1 / 2, 0, 0]
    assert hits(packed(2, 2, 2), packed(2)) == 1


def test_malformed_words_by_hand() -> None:
    wrong, all_words = malformed(PREDICTED)
    assert wrong.tolist() == [1, 0, 0, 0]
    assert all_words.tolist() == [4, 2, 0, 1]
    assert ratio(wrong, all_words).value == 1 / 7


def test_divergences_by_hand() -> None:
    """The fifth prompt has 3/4 and 1/4 of two words where the truth has 1/4 and 3/4."""
    found = divergences([*PREDICTED, packed(2, 2, 2, 10)], [*TRUE, packed(2, 10, 10, 10, 2)])
    ln2, ln3 = math.log(2), math.log(3)
    # In the first, 2 is as common as it should be, and so is 10; 12 is not there at all.
    assert found.paper == pytest.approx([0, -ln2 / 2, 0, 0, ln3 / 2])
    assert found.left_out.tolist() == [1 / 4, 1 / 2, 1, 1, 0]
    assert found.proper[:4].tolist() == [math.inf] * 4
    assert found.proper[4] == pytest.approx(ln3 / 2)
    second = (math.log(2 / 3) / 2 + ln2 / 2) / 2 + math.log(4 / 3) / 2
    fifth = math.log(1 / 2) / 4 + 3 * math.log(3 / 2) / 4
    assert found.shannon == pytest.approx([ln2 / 4, second, ln2, ln2, fifth])


def test_word_scores_by_hand() -> None:
    scores = word_scores(word_counts(PREDICTED, TRUE))
    # 12 and 42 are equally common; nobody predicts them, and 56 stands nowhere.
    assert [(s.word, s.true, s.predicted) for s in scores] == [
        (2, 3, 2),
        (10, 2, 3),
        (12, 1, 0),
        (42, 1, 0),
        (56, 0, 1),
    ]
    assert [s.precision.value for s in scores] == [1 / 2, 1 / 3, None, None, 0]
    assert [s.recall.value for s in scores] == [1 / 3, 1 / 2, 0, 0, None]
    assert [s.f1.value for s in scores] == [2 / 5, 2 / 5, 0, 0, 0]
    # These are the counts of each prompt. In F1 a word that is right counts once.
    assert scores[0].precision == rate(np.array([[1, 0, 0, 0]]), np.array([[2, 0, 0, 0]]))
    assert scores[0].recall == rate(np.array([[1, 0, 0, 0]]), np.array([[2, 1, 0, 0]]))
    assert scores[1].precision == rate(np.array([[0, 1, 0, 0]]), np.array([[1, 2, 0, 0]]))
    assert scores[1].f1 == rate(np.array([[0, 1, 0, 0]]), np.array([[1, 1.5, 0, 0]]))
    assert scores[2].precision == NONE
    assert scores[4].recall == NONE


def test_confusion_by_hand() -> None:
    labels, counts = confusion(PREDICTED, TRUE, size=2)
    assert labels == [2, 10]
    assert counts.tolist() == [
        [1, 1, 0, 1],  # where 2 stands
        [1, 1, 0, 0],  # where 10 stands
        [0, 1, 1, 0],  # where 12 and 42 stand
    ]
    labels, counts = confusion(PREDICTED, TRUE)
    assert labels == [2, 10, 12, 42]  # there are no more
    assert counts.shape == (5, 6)


def test_primes_by_hand() -> None:
    assert words_confused_with(PREDICTED, TRUE) == ([(0, 1), (2, 1), (10, 1)], [(2, 1), (10, 1)])
    assert words_confused_with(PREDICTED, TRUE, word=10) == (
        [(2, 1), (10, 1)],
        [(2, 1), (10, 1), (12, 1)],
    )
    assert words_confused_with([packed(42, 42, 10, 2)], [packed(2, 2, 2, 42)]) == (
        [(42, 2), (10, 1)],
        [(42, 1)],
    )
    assert words_confused_with(PREDICTED, TRUE, word=240) == ([], [])


def test_perfect_predictions_have_perfect_scores() -> None:
    true = [words(at, at + 300, threads=1) for at in (10**6, 10**9, 10**12)]
    predicted = [t[:250] for t in true]
    assert accuracies(predicted, true).tolist() == [1, 1, 1]
    for values in divergences(predicted, true):
        assert values.tolist() == [0, 0, 0]
    scores = word_scores(word_counts(predicted, true))
    assert sum(s.true for s in scores) == 750
    assert all(s.precision.value == s.recall.value == s.f1.value == 1 for s in scores)
    # That a word was right each of the few times it came does not mean that it always will be.
    assert all(s.recall == wilson(s.true, s.true) and s.recall.low < 1 for s in scores)
    _, counts = confusion(predicted, true, size=5)
    assert counts[:5, :6].sum() == np.trace(counts[:5]) and counts[5].tolist()[:5] == [0] * 5
    primes = sum(int((p == 2).sum()) for p in predicted)
    assert words_confused_with(predicted, true) == ([(2, primes)], [(2, primes)])


def test_no_prompts() -> None:
    assert len(accuracies([], [])) == 0
    assert [len(values) for values in divergences([], [])] == [0] * 4
    assert word_scores(word_counts([], [])) == []
    assert confusion([], []).counts.tolist() == [[0, 0]]
    assert words_confused_with([], []) == ([], [])


def test_too_few_true_words_raise() -> None:
    for metric in divergences, word_counts, confusion, words_confused_with:
        with pytest.raises(InputError, match=r"^prompt 1: 2 predicted words, only 1 true$"):
            metric([packed(2), packed(2, 10)], [packed(2, 10), packed(2)])


# Against dictionaries

TRUE_WORDS = [2, 10, 12, 42, 44, 2**63 + 2**61]  # the last would be a negative int64
Sentences = list[tuple[Words, Words]]


@st.composite
def sentences(draw: st.DrawFn) -> Sentences:
    pairs = []
    for length in draw(st.lists(st.integers(0, 8), min_size=1, max_size=5)):
        said = draw(
            st.lists(st.sampled_from([0, 56, *TRUE_WORDS]), min_size=length, max_size=length)
        )
        there = draw(st.lists(st.sampled_from(TRUE_WORDS), min_size=length, max_size=length + 3))
        pairs.append((packed(*said), packed(*there)))
    return pairs


def both(pairs: Sentences) -> tuple[list[Words], list[Words]]:
    return [said for said, _ in pairs], [there for _, there in pairs]


def frequencies(sentence: Sequence[int]) -> dict[int, float]:
    return {word: count / len(sentence) for word, count in Counter(sentence).items()}


@given(sentences())
def test_divergences_equal_those_of_plain_dictionaries(pairs: Sentences) -> None:
    found = divergences(*both(pairs))
    for i, (said, there) in enumerate(pairs):
        p = frequencies(there[: len(said)].tolist())
        q = frequencies(said.tolist())
        mine = Divergences(*(values[i] for values in found))
        if not q:
            assert mine == (0, 1, math.inf, math.log(2))
            continue
        terms = [p[w] * math.log(p[w] / q[w]) for w in q if w in p]
        assert mine.paper == pytest.approx(sum(terms), abs=1e-12)
        assert mine.left_out == pytest.approx(sum(p[w] for w in p if w not in q), abs=1e-12)
        assert (mine.proper == math.inf) == (not p.keys() <= q.keys())
        if mine.proper < math.inf:
            assert mine.proper == mine.paper
        mixed = {w: (p.get(w, 0) + q.get(w, 0)) / 2 for w in p | q}
        shannon = sum(f[w] * math.log(f[w] / mixed[w]) / 2 for f in (p, q) for w in f)
        assert mine.shannon == pytest.approx(shannon, abs=1e-12)
        assert 0 <= mine.shannon <= math.log(2) + 1e-12


@given(sentences(), st.data())
def test_pooled_divergences_are_those_of_one_long_text(
    pairs: Sentences, data: st.DataObject
) -> None:
    """A prompt that counts twice is there twice."""
    predicted, true = both(pairs)
    times = data.draw(
        st.lists(st.integers(0, 3), min_size=len(pairs), max_size=len(pairs)).filter(any)
    )
    found = divergences(predicted, true, np.array([times], np.float64))
    true = [there[: len(said)] for said, there in pairs]
    said, there = (
        np.concatenate([part for part, k in zip(parts, times, strict=True) for _ in range(k)])
        for parts in (predicted, true)
    )
    for mine, one in zip(found, divergences([said], [there]), strict=True):
        assert mine == pytest.approx(one, abs=1e-12)


@given(sentences())
def test_confusion_by_prompt_is_that_of_each_prompt(pairs: Sentences) -> None:
    labels, counts = confusion_by_prompt(*both(pairs), size=3)
    for (said, there), cells in zip(pairs, counts, strict=True):
        for i, label in enumerate(labels):
            among = there[: len(said)] == label
            assert cells[i].sum() == among.sum()
            assert cells[i, -1] == (said[among] == 0).sum()
            assert [cells[i, j] for j in range(len(labels))] == [
                (said[among] == other).sum() for other in labels
            ]


def test_scores_over_seeds_count_each_prompt_of_each_seed() -> None:
    """Two seeds continue the same two prompts."""
    true = [packed(2, 2, 10), packed(10, 2, 2)] * 2
    first = [packed(2, 10, 10), packed(2, 12, 12)]
    second = [packed(2, 2, 10), packed(10, 2, 12)]
    score = {s.word: s for s in word_scores(word_counts([*first, *second], true, seeds=2))}[2]
    hit = np.array([[1, 0], [2, 1]])  # [seeds, prompts]
    assert (score.true, score.predicted) == (4, 2.5)  # means over seeds
    assert score.recall == rate(hit, np.array([[2, 2], [2, 2]]))
    assert score.precision == rate(hit, np.array([[1, 1], [2, 1]]))
    assert score.f1 == rate(2 * hit, np.array([[3, 3], [4, 3]]))


@given(sentences())
def test_scores_confusion_and_primes_count_the_same_pairs(pairs: Sentences) -> None:
    predicted, true = both(pairs)
    counts = Counter(
        (int(t), int(p)) for said, there in pairs for p, t in zip(said, there, strict=False)
    )
    scores = {s.word: s for s in word_scores(word_counts(predicted, true))}
    assert scores.keys() == {w for pair in counts for w in pair} - {0}
    for word, score in scores.items():
        right = counts[word, word]
        assert score.true == sum(n for (t, _), n in counts.items() if t == word)
        assert score.predicted == sum(n for (_, p), n in counts.items() if p == word)
        assert score.precision.value == (right / score.predicted if score.predicted else None)
        assert score.recall.value == (right / score.true if score.true else None)
        assert score.f1.value == 2 * right / (score.predicted + score.true)
    order = [(-s.true, s.word) for s in scores.values()]
    assert order == sorted(order)

    for size in 0, 2, 12:
        labels, cells = confusion(predicted, true, size=size)
        assert labels == [w for w, s in scores.items() if s.true][:size]
        assert cells.shape == (len(labels) + 1, len(labels) + 2)
        assert cells.sum() == counts.total()
        assert cells[:-1].sum(1).tolist() == [scores[w].true for w in labels]
        assert cells[:, :-2].sum(0).tolist() == [scores[w].predicted for w in labels]
        assert cells[:, -1].sum() == malformed(predicted)[0].sum()
        for i, t in enumerate(labels):
            assert cells[i, :-2].tolist() == [counts[t, p] for p in labels]
            assert cells[i, -1] == counts[t, 0]

    for word in 2, TRUE_WORDS[-1]:
        generated, standing = words_confused_with(predicted, true, word=word)
        assert dict(generated) == {p: n for (t, p), n in counts.items() if t == word}
        assert dict(standing) == {t: n for (t, p), n in counts.items() if p == word}
        for listed in generated, standing:
            assert listed == sorted(listed, key=lambda pair: (-pair[1], pair[0]))


@given(sentences())
def test_prompts_are_measured_independently(pairs: Sentences) -> None:
    together = divergences(*both(pairs))
    accuracy = accuracies(*both(pairs))
    for i, pair in enumerate(pairs):
        alone = divergences(*both([pair]))
        for one, all_of_them in zip(alone, together, strict=True):
            assert one[0] == pytest.approx(all_of_them[i], abs=1e-12)
        assert accuracies(*both([pair]))[0] == accuracy[i]


def counts_of(words: dict[int, tuple[int, int, int]], prompts: int = 50) -> WordCounts:
    """Equal prompts with these counts of each word: true, predicted, right."""
    each = np.array(list(words.values()))
    return WordCounts(packed(*words), np.tile(each, (2, prompts, 1, 1)))


def test_the_highest_f1_is_among_common_words() -> None:
    """Counted once for each occurrence in the text, whatever the number of seeds."""
    found = highest_f1(counts_of({2: (2, 2, 1), 10: (1, 1, 1), 12: (3, 0, 0)}), 100)
    assert (found.word, found.words, found.never_right) == (2, 2, 1)
    assert found.f1 == Estimate(0.5, 0.5, 0.5)
    assert highest_f1(counts_of({2: (1, 1, 1)}), 51) == HighestF1(None, NONE, 0, 0)


def test_the_interval_of_the_highest_f1_allows_for_the_choice() -> None:
    """Twenty words with the same chance: the highest is above, and its interval below, any one."""
    right = np.random.default_rng(0).binomial(1, 0.3, (1, 60, 20))
    each = np.stack([np.ones_like(right), np.ones_like(right), right], -1)
    counts = WordCounts(np.arange(2, 22, dtype=np.uint64), each)
    found = highest_f1(counts, 1)
    best = max(word_scores(counts), key=lambda score: score.f1.value or 0)
    assert (found.word, found.f1.value) == (best.word, best.f1.value)
    assert found.f1.high < best.f1.high  # another word may be the highest of a resample


def test_f1_is_compared_where_intervals_of_differences_are_clear() -> None:
    ours = counts_of({2: (4, 4, 2), 10: (4, 4, 1), 12: (4, 4, 0), 42: (1, 1, 1)})
    theirs = counts_of({2: (4, 4, 1), 10: (4, 4, 2), 12: (4, 4, 0), 42: (1, 1, 0)})
    assert compare_f1(ours, theirs, 100) == (2, 1, 1)
    random = np.random.default_rng(1)
    noisy = [
        WordCounts(
            packed(2),
            np.dstack([np.ones((1, 50, 2), int), random.integers(0, 2, (1, 50))])[:, :, None],
        )
        for _ in range(2)
    ]
    assert compare_f1(*noisy, 30) == (1, 0, 0)
