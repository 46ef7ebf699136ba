"""Shifts: real text that loses or gains words, noise, and every path of small examples."""

import itertools
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from arithmetext.errors import InputError
from arithmetext.evaluation import alignment
from arithmetext.evaluation.alignment import align, align_prompts
from arithmetext.models.oracle import Oracle
from arithmetext.text.sieve import Words, words
from arithmetext.tokens import WordTokens

AT, COUNT, MARGIN = 10**9, 600, 64


def packed(*sentence: int) -> Words:
    return np.array(sentence, np.uint64)


def text(first: int, count: int = COUNT) -> Words:
    """True words, from `first` words after AT on."""
    return words(AT + first, AT + first + count, threads=1)


def around(first: int = 0, count: int = COUNT) -> Words:
    return text(first - MARGIN, count + 2 * MARGIN)


def slipping(*steps: tuple[int, int]) -> Words:
    """The true text with words omitted (positive steps) or inserted before some positions."""
    places = np.arange(COUNT)
    for before, step in steps:
        places[before:] += step
    return text(-MARGIN, COUNT + 2 * MARGIN)[MARGIN + places]


def right(predicted: Words, shifts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which words are right at these shifts."""
    return np.equal(around()[MARGIN + np.arange(COUNT) + shifts], predicted)


def test_perfect_predictions_never_slip() -> None:
    firsts = [0, 10_000, 20_000]
    found = align_prompts([text(f) for f in firsts], [around(f) for f in firsts], MARGIN)
    assert found.accuracy.tolist() == found.realigned.tolist() == [1, 1, 1]
    assert found.slips.tolist() == found.last_shift.tolist() == [0, 0, 0]
    assert not found.collapsed.any() and not found.explained.any()
    assert not align(text(0), around(), MARGIN).any()


@pytest.mark.parametrize("shift", [1, -1, 5, -63, 63])
def test_predictions_shifted_from_the_first_word(shift: int) -> None:
    """A continuation with omitted words scores like noise until it is aligned."""
    predicted = text(shift)
    assert set(align(predicted, around(), MARGIN).tolist()) == {shift}
    found = align_prompts([predicted], [around()], MARGIN)
    assert found.accuracy[0] < 0.11
    assert found.realigned[0] == 1
    assert found.slips[0] == 1
    assert found.last_shift[0] == shift
    assert found.collapsed[0] and found.explained[0]


def test_a_shift_by_a_multiple_of_36_is_no_collapse() -> None:
    """Integers that differ by 36 have equal words so often that accuracy stays above chance."""
    found = align_prompts([text(36)], [around()], MARGIN)
    assert 0.15 < found.accuracy[0] < 0.25
    assert found.realigned[0] == 1 and found.last_shift[0] == 36
    assert not found.collapsed[0] and not found.explained[0]


def test_shifts_beyond_the_margin_are_not_found() -> None:
    """With a margin of 4, a shift of 4 is found and a shift of 5 is not."""
    found = align_prompts([text(5)], [text(-4, COUNT + 8)], 4)
    assert found.collapsed[0]
    assert found.realigned[0] < 0.5
    assert align_prompts([text(4)], [text(-4, COUNT + 8)], 4).realigned[0] == 1


@pytest.mark.parametrize("step", [1, -1, 3])
def test_a_slip_in_the_middle(step: int) -> None:
    predicted = slipping((300, step))
    shifts = align(predicted, around(), MARGIN)
    # Words next to the slip may be right at both shifts, and which they get is not decided.
    assert not shifts[:290].any()
    assert set(shifts[310:].tolist()) == {step}
    assert right(predicted, shifts).all()
    found = align_prompts([predicted], [around()], MARGIN)
    assert found.slips[0] == 1 and found.last_shift[0] == step
    assert 0.5 <= found.accuracy[0] < 0.7
    assert not found.collapsed[0] and not found.explained[0]  # half of it is right


def test_several_slips() -> None:
    predicted = slipping((20, 1), (200, -3), (400, 2), (500, 7))
    shifts = align(predicted, around(), MARGIN)
    for begin, end, shift in (0, 12, 0), (30, 190, 1), (210, 390, -2), (410, 490, 0), (510, 600, 7):
        assert set(shifts[begin:end].tolist()) == {shift}
    found = align_prompts([predicted], [around()], MARGIN)
    assert found.slips[0] == 4
    assert found.last_shift[0] == 7
    assert found.realigned[0] == 1


def test_a_model_with_accuracy_two_fifths() -> None:
    """Its slips are found too, up to the words that tell one shift from another."""
    random = np.random.default_rng(0)
    predicted = np.where(random.random(COUNT) < 0.4, slipping((5, 2)), random.permutation(text(0)))
    predicted[::50] = 0  # malformed words are no hindrance
    shifts = align(predicted, around(), MARGIN)
    assert set(shifts[60:].tolist()) == {2}
    found = align_prompts([predicted], [around()], MARGIN)
    assert found.collapsed[0] and found.explained[0]
    assert found.realigned[0] == np.mean(right(predicted, shifts)) > 0.35


def test_noise_gets_shift_0() -> None:
    """128 sentences of the true words in random order, as long as the paper's."""
    random = np.random.default_rng(0)
    texts = [around(10_000 * i, 1750) for i in range(128)]
    noise = [random.permutation(t[MARGIN:-MARGIN]) for t in texts]
    found = align_prompts(noise, texts, MARGIN)
    assert np.count_nonzero(found.slips) <= 3
    assert np.count_nonzero(found.collapsed) >= 115  # one in 44 is above two deviations
    assert not found.explained.any()
    # Not by luck alone: were it shifted, the same words in their order would be explained.
    shifted = [t[MARGIN + 1 : MARGIN + 1751] for t in texts]
    assert align_prompts(shifted, texts, MARGIN).explained.all()


def test_text_from_elsewhere_is_in_step_modulo_small_squares() -> None:
    """36 · 25 · 49 · k + 5 further on, and right one time in four at a shift of 5."""
    predicted = text(36 * 25 * 49 * 8 + 5, 1750)
    found = align_prompts([predicted], [around(0, 1750)], MARGIN)
    assert np.mean(align(predicted, around(0, 1750), MARGIN) % 36 == 5) > 0.5
    assert found.explained[0] and 0.2 < found.realigned[0] < 0.4


def test_chance_and_its_deviations_by_hand() -> None:
    """2 is two of four words where it stands three times of four; no other is in both."""
    predicted, true = packed(10, 2, 2, 0), packed(2, 2, 12, 2)
    found = align_prompts([predicted], [true], 0)
    assert found.accuracy.tolist() == found.realigned.tolist() == [1 / 4]
    assert found.chance.tolist() == [2 / 4 * 3 / 4]
    assert found.collapsed.tolist() == [True]  # 0.25 ≤ 0.375 + 2 · 0.242
    # 16 words, 4 each of 4: chance is 1/4, a deviation √(3/16/16) = 0.108, two above it 0.467.
    true = packed(2, 2, 2, 2, 10, 10, 10, 10, 12, 12, 12, 12, 42, 42, 42, 42)
    half = packed(10, 10, 10, 10, 2, 2, 2, 2, *true[8:])
    less = packed(10, 10, 10, 10, 12, 2, 2, 2, 2, *true[9:])
    found = align_prompts([half, less], [true, true], 0)
    assert found.chance.tolist() == [1 / 4, 1 / 4]
    assert found.accuracy.tolist() == [8 / 16, 7 / 16]
    assert found.collapsed.tolist() == [False, True]
    # 8 each of 2: chance is 1/2, a deviation 1/8, two above it 3/4, which is still chance.
    true = packed(2, 2, 2, 2, 2, 2, 2, 2, 10, 10, 10, 10, 10, 10, 10, 10)
    four, two = true.copy(), true.copy()
    four[[0, 1, 8, 9]] = 10, 10, 2, 2
    two[[0, 8]] = 10, 2
    found = align_prompts([four, two], [true, true], 0)
    assert found.accuracy.tolist() == [12 / 16, 14 / 16]
    assert found.collapsed.tolist() == [True, False]


def test_explained_is_four_deviations_above_chance() -> None:
    """The first words of a sentence one word off; the rest is noise that hides them."""
    rest = np.random.default_rng(0).permutation(text(0))
    for own, explained in (0, False), (20, False), (150, True):
        predicted = np.concatenate([text(1)[:own], rest[own:]])
        found = align_prompts([predicted], [around()], MARGIN)
        chance = found.chance[0]
        bound = chance + 4 * math.sqrt(chance * (1 - chance) / COUNT)
        assert found.collapsed[0]
        assert found.slips[0] == (own > 0)
        assert found.explained[0] == (found.realigned[0] > bound) == explained


def test_one_word_over_and_over_is_chance() -> None:
    """Even a very common word is right equally often at any shift."""
    true = text(0)
    for word in 2, 42, 10:
        found = align_prompts([np.full(COUNT, word, np.uint64)], [around()], MARGIN)
        assert found.accuracy[0] == found.chance[0] == np.mean(true == word)
        assert found.collapsed[0] and not found.explained[0] and not found.slips[0]


def test_no_words_and_no_prompts() -> None:
    found = align_prompts([packed(), text(0)], [around(0, 0), around()], MARGIN)
    assert found.accuracy.tolist() == found.realigned.tolist() == [0, 1]
    assert found.chance[0] == 0
    assert found.collapsed.tolist() == [True, False]
    assert found.slips.tolist() == found.last_shift.tolist() == [0, 0]
    assert not found.explained.any()
    assert len(align_prompts([], [], MARGIN).collapsed) == 0
    assert align(packed(), packed(), 0).dtype == np.int64


def test_prompts_are_aligned_independently() -> None:
    predicted = [text(1), slipping((100, 2)), text(0), packed()]
    texts = [around(), around(), around(), around(0, 0)]
    together = align_prompts(predicted, texts, MARGIN)
    for i in range(4):
        alone = align_prompts([predicted[i]], [texts[i]], MARGIN)
        for name, values in vars(alone).items():
            assert values[0] == getattr(together, name)[i], name


def test_a_text_of_the_wrong_length_raises() -> None:
    for margin in 0, 2, -1:
        with pytest.raises(InputError, match=rf"^2 words and a margin of {margin} on both sides"):
            align(packed(2, 2), packed(2, 2, 2, 2), margin)


# Slips made on purpose


@cache
def oracle_continuations() -> tuple[list[Words], list[Words]]:
    """Predictions as good as the paper's that cannot slip, and the text around them.

    The oracle knows n modulo the powers of the primes up to 19. Its errors are not independent:
    it takes similar words for each other, as trained models do.
    """
    at, count = 10**13, 1200
    oracle = Oracle.estimate(19, at, tokens=WordTokens.commonest(256), count=2**18)

    @cache
    def likeliest(evidence: tuple[int, int]) -> int:
        kinds, chances = oracle.distribution(*evidence)
        return int(kinds[chances.argmax()])

    starts = [at + MARGIN + 15_000 * k for k in range(64)]
    known = [oracle.evidence(np.arange(n, n + count, dtype=np.uint64)) for n in starts]
    predicted = [packed(*map(likeliest, row)) for row in known]
    return predicted, [words(n - MARGIN, n + count + MARGIN, threads=1) for n in starts]


def inject_slip(predicted: Words, at: int, omitted: int) -> Words:
    """Omit words from `at` on; if `omitted` is negative, repeat so many words before `at`."""
    return np.concatenate([predicted[:at], predicted[at + omitted :]])


def injected_slips_found(
    predicted: Sequence[Words],
    around: Sequence[Words],
    margin: int,
    *,
    omitted: int,
    words_after: int,
) -> NDArray[np.bool_]:
    """Whether alignment finds a slip made on purpose, [prompts]: the last shift is `omitted`.

    Each continuation gets one slip, with `words_after` words after it.
    """
    slipping, texts = [], []
    for made, text in zip(predicted, around, strict=True):
        length = len(made) - max(0, omitted)
        slipping.append(inject_slip(made, length - words_after, omitted)[:length])
        texts.append(text[: length + 2 * margin])
    found: NDArray[np.bool_] = align_prompts(slipping, texts, margin).last_shift == omitted
    return found


def found_share(omitted: int, words_after: int) -> float:
    found = injected_slips_found(
        *oracle_continuations(), MARGIN, omitted=omitted, words_after=words_after
    )
    return float(found.mean())


def test_continuations_without_slips_have_none() -> None:
    found = align_prompts(*oracle_continuations(), MARGIN)
    assert found.accuracy.mean() == pytest.approx(0.42, abs=0.02)
    assert not found.slips.any()


@pytest.mark.parametrize("omitted", [1, -1, 2, -2, 8, 36, -36])
def test_injected_slips_are_found(omitted: int) -> None:
    """All of them if 300 words follow; few if 25 words follow, too few to tell."""
    assert found_share(omitted, 300) == 1
    assert found_share(omitted, 25) < 0.3
    assert found_share(omitted, 150) >= (0.8 if abs(omitted) == 36 else 0.98)


def test_words_before_a_slip_do_not_hide_it() -> None:
    """The place in the continuation does not matter, only how many words follow."""
    predicted, texts = oracle_continuations()
    for before in 1, 50, 400:
        short = [words_[: before + 200] for words_ in predicted]
        cut = [text[: before + 200 + 2 * MARGIN] for text in texts]
        found = injected_slips_found(short, cut, MARGIN, omitted=-1, words_after=200)
        assert found.mean() >= 0.98


@given(st.integers(0, 30), st.integers(1, 9))
def test_an_injected_slip_shifts_every_later_word(at: int, size: int) -> None:
    text_ = np.arange(100, dtype=np.uint64)
    omitting = inject_slip(text_, at, size)
    assert omitting.tolist() == [*range(at), *range(at + size, 100)]
    repeating = inject_slip(text_, at + size, -size)
    assert repeating.tolist() == [*range(at + size), *range(at, 100)]


# Predictions that repeat themselves


@pytest.mark.parametrize("period", [4, 36, 900])
@pytest.mark.parametrize("late", [0, 1, -4])
def test_a_model_of_residues_slips_only_where_it_was_made_to(period: int, late: int) -> None:
    """A model that knows n modulo the period: a shift by the period must not be found."""
    base = 10**9
    seen = words(base, base + 10**5)
    residues = (base + np.arange(len(seen))) % period
    commonest = [np.unique(seen[residues == r], return_counts=True) for r in range(period)]
    table = np.array([kinds[counts.argmax()] for kinds, counts in commonest], np.uint64)
    starts = [base + 10**6 + 1777 * k for k in range(20)]
    predicted = [table[(n + late + np.arange(1000)) % period] for n in starts]
    found = align_prompts(predicted, [words(n - 64, n + 1064) for n in starts], 64)
    if late % period == 0:
        assert not found.slips.any() and not found.last_shift.any()
    elif period == 4:  # too little is known to be sure
        assert set(found.last_shift.tolist()) <= {0, late}
    else:
        assert (found.last_shift == late).all() and (found.slips == 1).all()
        assert (found.realigned > found.accuracy + 0.05).all()


# Every path of small examples

LOST = None


def score(path: list[int | None], predicted: list[int], true: list[int], margin: int) -> float:
    """The score of a path: a shift for each word, or LOST."""
    total = 0.0
    before: int | None = 0  # one may begin in step there
    for i, (shift, word) in enumerate(zip(path, predicted, strict=True)):
        if shift is not LOST:
            f = (true.count(word) + 0.5) / (len(true) + 1)
            wide = alignment.SHIFT_COST * math.sqrt(abs(shift))
            total -= 0 if shift == before else alignment.JUMP_COST + wide
            same = word == true[margin + i + shift]
            total += math.log(0.4 / f) if same else math.log(0.6 / (1 - f))
        before = shift
    return total


@given(st.data(), st.integers(0, 2), st.sampled_from([0.1, 0.4, 1.0, 16.0]))
def test_no_other_path_scores_higher(data: st.DataObject, margin: int, jump: float) -> None:
    count = data.draw(st.integers(1, 4))
    letters = st.sampled_from([2, 10, 12, 42])
    predicted = data.draw(st.lists(letters | st.just(0), min_size=count, max_size=count))
    size = count + 2 * margin
    true = data.draw(st.lists(letters, min_size=size, max_size=size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment, "JUMP_COST", jump)
        patch.setattr(alignment, "SHIFT_COST", jump / 3)
        shifts = align(packed(*predicted), packed(*true), margin).tolist()
        every = range(-margin, margin + 1)
        best = max(
            score(list(path), predicted, true, margin)
            for path in itertools.product([LOST, *every], repeat=count)
        )
        # The shifts do not say which words are unrelated; those that are follow the word before.
        own = -math.inf
        for lost in itertools.product([True, False], repeat=count):
            path = [LOST if gone else shift for gone, shift in zip(lost, shifts, strict=True)]
            if all(
                shift == before
                for gone, shift, before in zip(lost, shifts, [0, *shifts], strict=False)
                if gone
            ):
                own = max(own, score(path, predicted, true, margin))
    assert all(shift in every for shift in shifts)
    assert own == pytest.approx(best, abs=1e-9)
