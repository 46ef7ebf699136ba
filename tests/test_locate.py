"""Locating windows of words: by the library, by `nt locate`, and as a language model."""

import json
import math
import re
from collections.abc import Callable
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import fmpz
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arithmetext import trees
from arithmetext.errors import InputError
from arithmetext.evaluation.generation import generate
from arithmetext.models.language import Prompts
from arithmetext.models.locator import Locator
from arithmetext.search import beam
from arithmetext.search.answers import Answer
from arithmetext.search.densities import POINTS_PER_NAT, density, split_first_child
from arithmetext.search.locate import (
    DEFAULT_BELOW,
    EFFORTS,
    EXHAUSTIVE_BELOW,
    Location,
    NearMatch,
    locate,
    nearest,
)
from arithmetext.search.sentences import ANY, forbidden, parse_sentence
from arithmetext.text import sieve
from arithmetext.text.sieve import Words, words
from arithmetext.tokens import BPE, WordTokens
from arithmetext.tokens.spelling import spell
from conftest import Run


def window(n: int, length: int) -> Words:
    return words(n, n + length, threads=1)


@given(n=st.integers(2, DEFAULT_BELOW - 1), length=st.integers(100, 400))
@settings(max_examples=30)
@example(n=DEFAULT_BELOW - 1, length=80)
@example(n=EXHAUSTIVE_BELOW - 40, length=80)  # across the end of the exhaustive comparison
@example(n=2**31 * 3**10 - 40, length=80)
def test_every_window_is_located(n: int, length: int) -> None:
    found = locate(window(n, length))
    assert found.places == [n]
    assert found.expected < 1e-20


@pytest.mark.parametrize("scale", [10**9, 10**11, 10**13])
def test_sixty_four_words_are_enough(scale: int) -> None:
    random = np.random.default_rng(scale)
    for n in random.integers(scale // 10, scale, 5).tolist():
        assert locate(window(n, 64), scale).places == [n]


@pytest.mark.parametrize("n", [2, 3, 4, 7, 8, 30, 60, 1000])
def test_the_start_of_the_text(n: int) -> None:
    found = locate(window(n, 40))
    assert found.places == [n] and found.complete


@pytest.mark.parametrize("k", [10, 20, 24, 25, 32, 40, 48, 49])
def test_across_powers_of_two(k: int) -> None:
    # 2^k has a single prime, and several exponents have the same word.
    assert locate(window(2**k - 32, 64)).places == [2**k - 32]


@pytest.mark.parametrize("n", [2**63 - 2**20, 2**62, 10**15, 10**15 + 10**6 - 127, 5 * 10**13])
def test_beyond_the_default_bound(n: int) -> None:
    assert locate(window(n, 200), 2**63).places == [n]


def test_large_integers_are_compared_without_a_sieve(monkeypatch: pytest.MonkeyPatch) -> None:
    """The primes up to √n would take seconds and 620 MB."""
    monkeypatch.setattr(sieve, "_primes", np.zeros(0, np.uint32))
    n = 9 * 10**18
    assert locate([trees.packed(m) for m in range(n, n + 100)], 2**63).places == [n]
    assert sieve._primes.max(initial=0) < 10**6


def test_the_bound_holds() -> None:
    found = locate(window(10**12, 128), 10**12)
    assert found.places == [] and found.complete
    assert locate(window(10**12, 128), 10**12 + 1).places == [10**12]
    assert locate(window(1000, 64), 1000).places == []


def test_a_window_of_millions_of_words() -> None:
    assert locate(words(2, 3_000_002), 10**7).places == [2]


# In turn: inside the stretch that the beam cannot reach, its last place, its first place, the last
# place that the beam can reach, and a place where it reaches its part of the window, not the whole.
@pytest.mark.parametrize(
    ("start", "length"), [(32, 96), (1, 64), (255, 256), (256, 256), (300, 400)]
)
def test_a_window_that_runs_past_the_end_of_the_sieve(start: int, length: int) -> None:
    n = 2**63 - start
    there = [trees.packed(n + i) for i in range(length)]
    assert locate(there, 2**63).places == [n]
    near = nearest([*there[:20], 2**20, *there[21:]], 2**63)
    assert near == NearMatch(n, [20], [there[20]])


def test_a_window_whose_known_words_lie_past_the_end_of_the_sieve() -> None:
    n = 2**63 - 5
    there = [ANY] * 10 + [trees.packed(n + i) for i in range(10, 60)]
    assert locate(there, 2**63).places == [n]
    assert locate(there, n, efforts=EFFORTS[:1]).places == []


HOLES = {
    "at the start": [(0, 256)],
    "many at the start": [(0, 10**4)],
    "in the middle": [(40, 300)],
    "many in the middle": [(10, 10**4)],
    "at the start and further on": [(0, 300), (310, 330), (340, 341)],
    "at the end": [(64, 5000)],
}


@pytest.mark.parametrize(
    ("holes", "n"),
    [("at the start", n) for n in (2, 3000, EXHAUSTIVE_BELOW - 5, EXHAUSTIVE_BELOW + 1, 10**15 - 1)]
    + [(holes, 10**12) for holes in HOLES],
)
def test_the_best_known_words_of_a_window_are_searched_for(holes: str, n: int) -> None:
    there = window(n, max(320, HOLES[holes][-1][1] + 80))
    for first, end in HOLES[holes]:
        there[first:end] = ANY
    found = locate(there)
    assert found.places == [n] and not found.too_short
    wrong = int(np.flatnonzero(there)[-30])
    altered = there.copy()
    altered[wrong] = 2**20
    near = nearest(altered)
    assert near is not None and (near.place, near.differs) == (n, [wrong])


def test_words_that_are_not_known() -> None:
    n = 271828182845904
    masked = window(n, 160)
    masked[::4] = ANY
    assert locate(masked).places == [n]


def test_all_places_of_a_short_window_are_given() -> None:
    found = locate([trees.pack(word) for word in ("111000", "10")], 10**6)
    assert found.places == [16, 256] and found.complete


def test_too_short_a_window_says_so() -> None:
    sentence = parse_sentence("1010 101010 1010")
    found = locate(sentence)
    assert found.too_short
    # The number expected agrees with counts in a sample.
    sample = words(10**15 - 10**7, 10**15)
    hits = np.flatnonzero(
        (sample[:-2] == sentence[0]) & (sample[1:-1] == sentence[1]) & (sample[2:] == sentence[2])
    )
    assert found.expected == pytest.approx(len(hits) / 1e7 * 1e15, rel=0.25)


@given(st.integers(10**8, 10**12), st.integers(64, 200))
@settings(max_examples=10)
def test_the_text_read_backwards_stands_nowhere(n: int, length: int) -> None:
    # It fits the residues of −n, so it is ruled out only when integers are tried one by one.
    assert locate(window(n, length)[::-1], 10**13).places == []


@pytest.mark.parametrize("length", [64, 100, 200])
def test_shuffled_words_are_shown_to_stand_nowhere(length: int) -> None:
    for seed in range(5):
        random = np.random.default_rng(seed)
        shuffled = random.permutation(window(int(random.integers(10**8, 10**12)), length))
        found = locate(shuffled)
        assert found.places == [] and found.complete


@pytest.mark.parametrize(("length", "wrong"), [(128, 1), (128, 10), (256, 8)])
def test_wrong_words_are_found(length: int, wrong: int) -> None:
    random = np.random.default_rng(length + wrong)
    n = int(random.integers(10**12, 10**13))
    altered = window(n, length)
    places = np.sort(random.choice(length, wrong, replace=False))
    altered[places] = np.where(altered[places] == 2, 10, 2)
    assert locate(altered).places == []
    near = nearest(altered)
    assert near is not None
    assert (near.place, near.differs) == (n, places.tolist())


def test_no_place_is_near_by_chance() -> None:
    assert nearest([2] * 40) is None
    assert nearest([ANY] * 40) is None
    assert nearest(parse_sentence("10 1010 1010 10 1010 10 10 1010")) is None


@pytest.mark.parametrize(
    "below", [10**6, 4 * 10**6, EXHAUSTIVE_BELOW, 5 * 10**6, 8 * 10**6, 10**9, 10**15]
)
def test_near_places_are_found_below_any_bound_and_not_by_chance(below: int) -> None:
    altered = window(1000, 64)
    altered[39] = 12
    near = nearest(altered, below)
    assert near is not None and (near.place, near.differs) == (1000, [39])
    assert nearest(window(10**12, 8), below) is None


def test_the_number_expected_by_chance_is_right_for_short_ranges() -> None:
    assert locate(window(5 * 10**6, 64), 6 * 10**6).expected < 1e-20


def test_a_wrong_word_in_a_long_window_is_found() -> None:
    altered = window(10**12, 20_000)
    altered[5000] = 2
    near = nearest(altered)
    assert near is not None and (near.place, near.differs) == (10**12, [5000])


def test_windows_without_known_words_and_bad_bounds_are_refused() -> None:
    with pytest.raises(InputError, match="needs words"):
        locate([ANY, ANY])
    for below in (2, 2**63 + 1):
        with pytest.raises(InputError, match="bound"):
            locate([2], below)


@pytest.mark.parametrize(
    ("sentence", "first", "end", "law"),
    [
        ("1100 101010 1010 101010 1010 1100", 1, 5, "divisible by 4"),
        ("1100 1010 10 10 1100", 2, 4, "only 2 is"),
        # One of the neighbours of an odd prime is divisible by 4.
        ("1100 1010 10 1010 1100", 1, 4, "only 2 is"),
        ("* * * 10 10", 3, 5, "only 2 is"),
    ],
)
def test_a_law_names_the_words_it_is_about(sentence: str, first: int, end: int, law: str) -> None:
    known = forbidden(parse_sentence(sentence))
    assert known is not None
    assert known[:2] == (first, end)
    assert law in known[2]


def test_a_law_that_allows_2_does_not_forbid_a_sentence_at_2() -> None:
    assert forbidden(parse_sentence("10 10 1100 10")) is None
    assert forbidden(parse_sentence("1010 10 10")) == (1, 3, ANY_LAW)


ANY_LAW = "an even number would have to be prime, and only 2 is"


def test_the_text_breaks_no_law() -> None:
    assert forbidden(tuple(window(10**9, 300).tolist())) is None


@pytest.mark.parametrize("scale", [10**10, 10**15])
def test_densities_are_those_of_the_text(scale: int) -> None:
    kinds, counts = np.unique(words(scale, scale + 10**6), return_counts=True)
    common = counts > 5000
    place = int(np.log(scale) * POINTS_PER_NAT)
    expected = [density(int(word))[0, place] * 1e6 for word in kinds[common]]
    assert np.allclose(counts[common], expected, rtol=0.2)
    assert sum(expected) == pytest.approx(counts[common].sum(), rel=0.06)


@given(st.integers(2, 10**6))
def test_splitting_off_children_gives_the_exponents(n: int) -> None:
    word = trees.packed(n)
    for _, exponent in fmpz(n).factor():
        exponents, word = split_first_child(word)
        assert exponent in exponents
        assert len({trees.packed(e) for e in exponents}) == 1
    assert word == 0


@pytest.mark.parametrize("power", [2, 3, 4])
@pytest.mark.parametrize("p", [11, 13, 17, 23, 41, 61])
def test_nothing_possible_is_ruled_out(p: int, power: int) -> None:
    """Smooth integers and powers, at the lower end of a range, where sizes rule out the most."""
    for smooth in (2**14, 2**9 * 3**5, 2**5 * 5**4 * 7**2, 3**13, 2**40 // p**power * 2):
        n = smooth * p**power
        if not EXHAUSTIVE_BELOW < n < 10**15:
            continue
        start = n - 37
        there = window(start, 100)
        floor = np.full(100, beam.IMPOSSIBLE)
        for lo in (start, max(EXHAUSTIVE_BELOW, start // 30)):
            hi = max(10**8, 900 * lo)
            found = beam.find_candidates(there, floor, lo, hi, beam.Effort(1 << 14, 1 << 22))
            assert start in found.candidates or not found.complete
        assert locate(there, 900 * start).places == [start]


# Small primes, and primes around the last one that has its own place on the grid of densities.
smooth_integers = st.lists(
    st.sampled_from([2, 2, 2, 3, 3, 5, 7, 11, 13, 17, 31, 37, 59, 61, 67, 71, 73, 79]), min_size=4
).map(lambda primes: max(n for n in accumulate(primes, mul) if n < 2**62))


@settings(max_examples=100)
@given(
    near=smooth_integers | st.integers(8, 61).flatmap(lambda k: st.integers(2**k, 2 ** (k + 1))),
    before=st.integers(0, 60),
    length=st.integers(1, 100),
    below=st.integers(1, 1000),
    above=st.integers(1, 1000),
    integers=st.sampled_from([0, 1 << 8, 1 << 16]),
    holes=st.sets(st.integers(0, 99), max_size=5),
)
@example(near=2**40, before=3, length=8, below=1, above=1000, integers=0, holes=set())
@example(near=2**30 * 3**5, before=3, length=8, below=1, above=1000, integers=0, holes=set())
@example(near=2**20 * 3**9, before=30, length=64, below=1000, above=1, integers=0, holes=set())
@example(
    near=67 * 71 * 73 * 79 * 83 * 89, before=3, length=8, below=1, above=9, integers=0, holes=set()
)
@example(near=2**63 - 1, before=0, length=1, below=9, above=999, integers=0, holes=set())
@example(near=2**63 - 101, before=0, length=100, below=1, above=1, integers=0, holes=set())
def test_true_residues_are_never_ruled_out(
    near: int, before: int, length: int, below: int, above: int, integers: int, holes: set[int]
) -> None:
    """If the beam keeps only the residues of n, they survive every step, and n is a candidate."""
    n = max(2, near - before)
    lo = max(2, n // below)
    hi = max(n + 1, min(lo * above, 2**63 - length + 1))
    there = np.array([trees.packed(n + i) for i in range(length)], np.uint64)
    there[[i for i in holes if i < length - 1]] = ANY
    floor = np.where(there == ANY, 0, beam.IMPOSSIBLE)
    score, levels = beam._score, 0

    def score_of_n(*args: Any) -> None:
        nonlocal levels
        score(*args)
        step, scores = args[-2:]
        true = -n % len(step.valuations)
        kept = scores[0, true]
        assert kept > beam.IMPOSSIBLE // 2, f"ruled out by {step.p}"
        scores[:] = beam.IMPOSSIBLE
        scores[0, true] = kept
        levels += 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam, "_score", score_of_n)
        found = beam.find_candidates(there, floor, lo, hi, beam.Effort(1, integers))
    assert levels >= 4
    assert n in found.candidates or len(found.candidates) == beam.MOST_CANDIDATES


@given(n=st.integers(2**22, 10**15 - 1), unknown=st.integers(0, 300))
@settings(max_examples=10)
def test_a_search_can_be_watched(n: int, unknown: int) -> None:
    """The last state of the search that finds n knows its residues."""
    there = np.concatenate([np.full(unknown, ANY, np.uint64), window(n + unknown, 96)])
    states: list[beam.BeamState] = []
    assert locate(there, watch=states.append) == locate(there)
    assert locate(there).places == [n]
    last = {}  # of the search through each range
    for state in states:
        last[state.lo] = state
        assert len(set(state.residues.tolist())) == len(state.residues)
        assert state.integers <= state.hi - state.lo + len(state.residues)
        for m in {state.p, 2} if state.p > 1 else {1}:
            shares = state.probabilities(m)
            assert len(shares) == m
            assert shares.sum() == pytest.approx(1 if len(state.residues) else 0)
    found = next(state for state in last.values() if state.lo <= n < state.hi)
    assert n % found.modulus in found.residues
    assert found.probabilities(3)[n % 3] == pytest.approx(1, abs=1e-6)


def test_the_probabilities_of_residues_are_weighted_by_scores() -> None:
    state = beam.BeamState(2, 100, 3, 6, np.array([1, 3, 5]), beam.in_units(np.log([1, 2, 1])))
    assert state.probabilities(2) == pytest.approx([0, 1])
    assert state.probabilities(3) == pytest.approx([0.5, 0.25, 0.25], rel=0.02)
    assert state.integers == 49
    assert state.moved(-1).residues.tolist() == [0, 2, 4]


@pytest.mark.parametrize("search", [locate, nearest])
def test_who_watches_a_search_can_stop_it(search: Callable[..., Any]) -> None:
    seen = []

    def stop(state: beam.BeamState) -> None:
        seen.append(state.p)
        raise KeyboardInterrupt

    altered = window(10**12, 64)
    altered[30] = 2**20
    with pytest.raises(KeyboardInterrupt):
        search(altered, watch=stop)
    assert seen == [1]


def test_searches_that_would_overflow_are_refused() -> None:
    floor = np.full(300, beam.IMPOSSIBLE)
    there = window(10**6, 300)
    for length, lo, hi in (257, 10**6, 10**7), (10, 2**62, 2**63 - 8), (10, 1, 5), (10, 5, 5):
        with pytest.raises(ValueError, match=f"no search for {length} words"):
            beam.find_candidates(there[:length], floor[:length], lo, hi, beam.Effort(1, 1))


@pytest.mark.parametrize("n", [29552610, 4782828, 999999826, 2**63 - 200, 2**63 - 201])
def test_windows_that_earlier_versions_missed(n: int) -> None:
    for below in (10**15 if n < 10**15 else 2**63, min(n + 10**6, 2**63)):
        assert locate(window(n, 200), below).places == [n]


def test_locate_reads_words_and_prints_n(nt: Run) -> None:
    answer = nt("locate", input=spell(window(31415926535897, 64)))
    assert answer.returncode == 0
    assert answer.stdout == "31415926535897\n"
    assert "1 place found. " in answer.stderr


def test_locate_reads_a_file_and_answers_as_json(nt: Run, tmp_path: Path) -> None:
    altered = window(10**12, 100)
    altered[30:32] = 2
    (tmp_path / "words.txt").write_text(spell(altered).replace(" ", "\n"))
    answer = nt("locate", "words.txt", "--json")
    assert answer.returncode == 1
    found = json.loads(answer.stdout)
    assert found["places"] == [] and found["complete"]
    assert (found["law"]["first_word"], found["law"]["last_word"]) == (31, 32)
    assert found["near"]["place"] == 10**12
    assert [d["word"] for d in found["near"]["differs"]] == [31, 32]


@pytest.mark.parametrize(
    ("places", "expected", "says"),
    [
        ([], 2e10, "about 2·10^10 places below 10^15 have these words."),
        ([], 1.44, "about 1.4 places below 10^15 have these words."),
        ([], math.inf, "very many places below 10^15 have these words."),
        ([7], 1e10, "have these words. 1 place found."),
        ([7], 7e-32, "is unlikely: by chance, practically none would be expected."),
        ([7], 0.02, "is unlikely: by chance, 0.02 would be expected."),
        ([], 0.02, "not found below 10^15, but not every place could be ruled out."),
    ],
)
def test_verdicts_are_plain(places: list[int], expected: float, says: str) -> None:
    verdict = Answer((2,), Location(10**15, places, False, expected)).verdict
    assert verdict.endswith(says)


def test_locate_says_why_not(nt: Run) -> None:
    answer = nt("locate", "--below", "1e12", input="1100 101010 1010 101010 1010 1100 10")
    assert answer.returncode == 1 and answer.stdout == ""
    assert "not in the text below 10^12" in answer.stderr
    assert "Words 2 to 5 (101010 1010 101010 1010) cannot occur here: one of" in answer.stderr
    answer = nt("locate", "--below", "1e12", input="1010 101010 1010")
    assert "too few to locate" in answer.stderr
    assert re.search(r"about \d(\.\d)?·10\^\d+ places below 10\^12 have", answer.stderr)
    answer = nt("locate", input="10")
    assert answer.stdout.count("\n") == 20
    answer = nt("locate", "--below", "999999999990", input=spell(window(999999999990, 64)))
    assert "below 999999999990" in answer.stderr


def test_locate_compares_words_beyond_the_end_of_the_sieve(nt: Run) -> None:
    there = [trees.word(2**63 - 32 + i) for i in range(96)]
    there[50] = "1111000010"
    answer = nt("locate", "--below", "2^63", input=" ".join(there))
    assert answer.returncode == 1
    assert f"the text at {2**63 - 32}: word 51 is {trees.word(2**63 + 18)} there" in answer.stderr


def test_locate_tells_a_wrong_word_from_a_law(nt: Run) -> None:
    altered = window(2, 64)
    altered[39] = 12
    answer = nt("locate", input=spell(altered))
    assert answer.returncode == 1
    assert "this is the text at 2: word 40 is" in answer.stderr
    assert "only 2 is" not in answer.stderr


def test_locate_refuses_what_is_not_words(
    refused: Callable[..., str], nt: Run, tmp_path: Path
) -> None:
    assert "missing.txt" in refused("locate", "missing.txt")
    for text, says in {
        "10 1010 abc": "word 3",
        "10 0110": "word 2",
        "": "pipe some in",
        "* *": "at least one word",
    }.items():
        (tmp_path / "words.txt").write_text(text)
        assert says in refused("locate", "words.txt")
    (tmp_path / "words.txt").write_bytes(b"\xff\xfe10")
    assert "not text" in refused("locate", "words.txt")
    (tmp_path / "words.txt").write_text("\ufeff10 1010 1100", encoding="utf-8")
    assert "bound" in refused("locate", "words.txt", "--below", "2")
    assert "bound" in refused("locate", "words.txt", "--below", "1e30")


TOKENIZERS = {"bpe": lambda: BPE.train(256, lines=512), "words": lambda: WordTokens.commonest(128)}


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_locator_predicts_every_token(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]()
    for n in (2, 10**13, 10**15):
        ids = tokenizer.encode(window(n, 3500)).astype(np.int64)
        starts = [0, 37, 500]
        prompts = np.stack([ids[start : start + 256] for start in starts])
        reading = Locator(tokenizer).read(Prompts(torch.from_numpy(prompts)))
        continued = generate(reading, 1300)
        for start, row in zip(starts, continued.numpy(), strict=True):
            assert np.array_equal(row, ids[start + 256 : start + 256 + 1300])


def test_the_locator_knows_nothing_of_another_text() -> None:
    tokenizer = WordTokens.commonest(128)
    ids = tokenizer.encode(window(10**13, 400)).astype(np.int64)
    prompts = torch.from_numpy(np.stack([ids[:200], ids[199::-1]]))
    reading = Locator(tokenizer).read(Prompts(prompts))
    known, unknown = reading.log_probabilities()
    assert known[ids[200]] == 0 and torch.isinf(known).sum() == tokenizer.size - 1
    assert torch.allclose(unknown.exp(), torch.full((128,), 1 / 128, dtype=torch.float64))
    other = (int(ids[200]) + 1) % 128
    reading.append(torch.tensor([other, other]))
    assert torch.allclose(reading.log_probabilities().exp().sum(1), torch.ones(2).double())
    assert not torch.isinf(reading.log_probabilities()).any()
