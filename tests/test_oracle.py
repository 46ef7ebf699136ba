"""The residue oracle: its kernels, its scores against known figures, and as a language model."""

import json
from collections import Counter, defaultdict
from itertools import pairwise
from math import inf, log

import flint
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arithmetext import trees
from arithmetext.counting.dictionary import dictionary_size
from arithmetext.counting.histograms import count_words
from arithmetext.errors import InputError
from arithmetext.models.language import Prompts
from arithmetext.models.oracle import SAMPLE, SPAN, Oracle
from arithmetext.search import residues
from arithmetext.text.kernels import CHILD_LENGTHS
from arithmetext.text.sieve import words
from arithmetext.tokens import WordTokens

# Figures from the lab notes, computed with coarser bins and rounded to three digits.
BOUNDS = [1, 2, 3, 7, 13, 31, 61, 127, 251, 509, 1021, 4099]
ACCURACY = {
    10**10: [0.198, 0.271, 0.332, 0.415, 0.450, 0.484, 0.501, 0.533, 0.592, 0.676, 0.759, 0.890],
    10**13: [0.184, 0.264, 0.301, 0.363, 0.401, 0.448, 0.473, 0.490, 0.505, 0.530, 0.571, 0.697],
}
NATS = {10**13: [2.85, 2.22, 1.85, 1.54, 1.41, 1.25, 1.15, 1.04, 0.94, 0.84, 0.74, 0.54]}
COARSER = 0.0015, 0.008  # the effect of their coarser bins and rounding: accuracy, nats

SCORED = 1 << 21


@pytest.fixture(scope="module")
def curves():
    return {at: residues.curve(at, BOUNDS, count=SCORED) for at in ACCURACY}


def smooth_and_rest(n, bound):
    """The smooth part, its word, and the rest of the word, by factoring n."""
    part, beginning, rest = 1, "", ""
    for p, e in flint.fmpz(n).factor():
        child = f"1{trees.word(int(e))}0"
        if p <= bound:
            part *= int(p) ** int(e)
            beginning += child
        else:
            rest += child
    return part, trees.pack(beginning) if beginning else 0, trees.pack(rest) if rest else 0


@given(
    st.one_of(
        st.integers(2, 10**4), st.integers(2, 10**15), st.sampled_from([2**40 - 9, 3**25 - 9])
    ),
    st.sampled_from([1, 2, 3, 4, 7, 61, 1021, 10**5]),
)
def test_smooth_parts_and_rests_are_those_of_the_factorisation(lo, bound):
    count = 20
    expected = [smooth_and_rest(n, bound) for n in range(lo, lo + count)]
    parts, lengths = np.ones(count, np.uint64), np.zeros(count, np.uint8)
    residues._extend_smooth_parts(lo, residues.primes_up_to(bound), CHILD_LENGTHS, parts, lengths)
    bins, rests = np.empty(count, np.uint64), np.empty(count, np.uint64)
    per_nat = residues.Grid(bound).per_nat
    residues._split(lo, words(lo, lo + count), parts, lengths, per_nat, bins, rests)
    assert parts.tolist() == [part for part, _, _ in expected]
    assert rests.tolist() == [rest for _, _, rest in expected]
    integers = np.arange(lo, lo + count, dtype=np.uint64)
    divided, beginnings = residues.smooth_parts(integers, bound)
    assert divided.tolist() == parts.tolist()
    assert beginnings.tolist() == [beginning for _, beginning, _ in expected]
    assert bins.tolist() == residues.Grid(bound).bins(integers, parts).tolist()


@given(st.sampled_from([2, 3, 13, 251, 65537]), st.integers(1, 3))
def test_powers_of_the_bound_are_edges_of_bins(bound, k):
    def interval(c):
        grid = residues.Grid(bound)
        [number] = grid.intervals(grid.bins(np.array([c], np.uint64), np.ones(1, np.uint64)))
        return number

    # The nearest integers that are no powers of the bound.
    assert interval(bound**k + 1) == k + 1
    assert bound**k == 2 or interval(bound**k - 1) == k


@pytest.mark.parametrize("at", ACCURACY)
def test_accuracy_equals_that_of_the_lab_notes(curves, at):
    for score, known in zip(curves[at], ACCURACY[at], strict=True):
        assert abs(score.accuracy - known) < 4 * score.accuracy_error + COARSER[0], score


def test_nats_equal_those_of_the_lab_notes(curves):
    for score, known in zip(curves[10**13], NATS[10**13], strict=True):
        assert abs(score.nats - known) < 4 * score.nats_error + COARSER[1], score


@pytest.mark.parametrize("at", ACCURACY)
def test_more_residues_are_never_worse(curves, at):
    for less, more in pairwise(curves[at]):
        assert more.accuracy > less.accuracy + 4 * more.accuracy_error
        assert more.nats < less.nats - 4 * more.nats_error


def test_standard_errors_are_binomial(curves):
    for score in curves[10**13]:
        variance = score.accuracy * (1 - score.accuracy)
        assert score.accuracy_error == pytest.approx((variance / SCORED) ** 0.5)
        assert 0 < score.nats_error < 3 / SCORED**0.5


def test_without_primes_the_oracle_is_the_unigram():
    at, count = 10**9, 1 << 20
    counts = np.array(list(count_words(at, at + count).values()))
    [score] = residues.curve(at, [1], count=count)
    entropy = log(count) - counts @ np.log(counts) / count
    assert score.accuracy == counts.max() / count
    # Scoring by the other half costs somewhat more: a few nats in total for every different word.
    assert 0 < score.nats - entropy < 6 * len(counts) / count


def test_with_all_primes_up_to_the_square_root_every_word_is_known():
    [score] = residues.curve(10**9, [31627], count=1 << 18)
    assert score.accuracy == 1
    assert score.nats < 1e-9


def test_the_two_halves_share_no_integer():
    stretch = residues._BLOCK
    lo = 50_000 * stretch
    [halves] = residues.count_rests(lo, lo + 4 * stretch, [1])
    for half, begins in zip(halves, [(0, 2), (1, 3)], strict=True):
        _, ranks = half.bins_and_ranks
        found = dict(
            zip(half.dictionary.words[ranks - np.uint64(1)].tolist(), half.counts, strict=True)
        )
        text = np.concatenate([words(lo + k * stretch, lo + (k + 1) * stretch) for k in begins])
        kinds, counts = np.unique(text, return_counts=True)
        assert found == dict(zip(kinds.tolist(), counts.tolist(), strict=True))


def test_every_half_is_scored_by_the_other(monkeypatch):
    score_keys = residues._score_keys
    pairs = []
    monkeypatch.setattr(
        residues, "_score_keys", lambda *halves: pairs.append(halves) or score_keys(*halves)
    )
    residues.curve(10**8, [3], count=1 << 16)
    [(a, b), (c, d)] = pairs
    assert a is d and b is c and a is not b
    assert a.counts.sum() + b.counts.sum() == 1 << 16


def test_rests_have_probabilities_that_sum_to_one():
    [(rests, _)] = residues.count_rests(10**9, 10**9 + (1 << 17), [7])
    ranks = np.arange(1, rests.dictionary.stride, dtype=np.uint64)
    for number in [150, 300, 331, 1000]:  # the last one was never seen
        p = rests.probabilities(np.full_like(ranks, number), ranks)
        assert p.min() > 0
        assert p.sum() == pytest.approx(1, abs=1e-9)
    # Between the bound and its square the rest is 10.
    [number] = rests.grid.bins(np.array([41], np.uint64), np.ones(1, np.uint64))
    p = rests.probabilities(np.full_like(ranks, number), ranks)
    assert rests.dictionary.words[p == 1].tolist() == [0b10]
    assert p.sum() == 1


@settings(max_examples=40)
@given(
    st.sets(st.integers(50, 120), min_size=1, max_size=6),
    st.lists(st.integers(50, 130), min_size=1, max_size=20),
)
def test_a_bin_without_counts_is_answered_by_the_nearest_counted_one(counted, asked):
    stride = residues.dictionary(10**6).stride  # with the bound 3, bins from 37 on are uncertain
    keys = np.array([k * int(stride) + 1 + k % 7 for k in counted], np.uint64)
    rests = residues.RestCounts(3, 10**6, keys, np.ones(len(keys), np.int64))
    nearest = [min(counted, key=lambda k, bin=bin: (abs(k - bin), k)) for bin in asked]
    bins = np.array(asked, np.uint64)
    assert rests.commonest(bins).tolist() == [1 + k % 7 for k in nearest]
    ranks = (1 + np.array(asked) % 7).astype(np.uint64)
    found = rests.probabilities(bins, ranks)
    assert found.tolist() == rests.probabilities(np.array(nearest, np.uint64), ranks).tolist()


def answers_by_counting(counted, asked, bound, shrink=1):
    """For each integer asked: its beginning, and the commonest rest in the nearest bin counted."""
    per_nat = residues.Grid(bound).per_nat
    rests = defaultdict(Counter)
    for n in counted:
        part, _, rest = smooth_and_rest(n, bound)
        if n // part > bound**2:
            rests[int(log(n / part) * per_nat)][rest] += 1
    answers = []
    for n in asked:
        part, beginning, rest = smooth_and_rest(n, bound)
        c = n // part / shrink
        if n > part and (shrink != 1 or c > bound**2):
            bin = int(log(n // part) * per_nat) - round(log(shrink) * per_nat)
            bin = max(bin, round(2 * log(bound) * per_nat))
            near = rests[min(rests, key=lambda k, bin=bin: (abs(k - bin), k))]
            # Of two equally common rests, the one whose least integer is smaller.
            rest = max(near, key=lambda rest: (near[rest], -trees.least(trees.unpack(rest))))
        answers.append(beginning << 2 * rest.bit_count() | rest)
    return answers


@pytest.mark.parametrize("bound", [3, 13])
@pytest.mark.parametrize("at", [10**6, 10**9])
def test_answers_are_those_found_by_counting(bound, at):
    counted, asked = range(2 * 10**6, 2 * 10**6 + 1000), range(at, at + 500)
    [rests] = residues.estimate(counted[0], counted[-1] + 1, [bound], below=at + 500)
    integers = np.array(asked, np.uint64)
    assert rests.answers(integers).tolist() == answers_by_counting(counted, asked, bound)


def test_transfer_scores_are_those_of_the_answers():
    at, place, count, bound = 10**6, 10**9, 1000, 7
    [found] = residues.transfer(at, [place], [bound], count=count)[place]
    true, places = words(place, place + count).tolist(), range(place, place + count)
    for score, shrink in [(found.frozen, 1), (found.size_unknown, 1000)]:
        answers = answers_by_counting(range(at, at + count), places, bound, shrink)
        assert score.accuracy == np.mean([a == b for a, b in zip(answers, true, strict=True)])
    assert [found.re_estimated] == residues.curve(place, [bound], count=count)
    [here] = residues.transfer(at, [at], [bound], count=count)[at]
    assert here.frozen == here.size_unknown  # at its own place the size makes no difference
    assert here.frozen.nats < here.re_estimated.nats  # it has counted what it is scored on


def test_frozen_oracles_fall_like_re_estimated_ones():
    """The accuracies and the costs in nats that the lab notes have for B = 19."""
    known = {10**13: (0.425, 0.03), 10**14: (0.411, 0.06), 10**15: (0.395, 0.09)}
    scores = residues.transfer(97 * 10**9, list(known), [19], count=1 << 20)
    for place, (accuracy, cost) in known.items():
        [found] = scores[place]
        assert abs(found.size_unknown.accuracy - accuracy) < 0.001 + 4 * found.frozen.accuracy_error
        costs = [s.nats - found.re_estimated.nats for s in (found.frozen, found.size_unknown)]
        assert costs[1] == pytest.approx(cost, abs=0.01)
        assert 0 < costs[0] < costs[1] / 2


@given(st.sampled_from([2, 7, 61]), st.integers(1, 10**15), st.floats(1, 10**4))
def test_shrinking_divides_the_cofactor(bound, c, factor):
    grid = residues.Grid(bound)
    [shrunk] = grid.shrink(np.array([bin_of(grid, c)], np.uint64), factor)
    if c == 1:
        assert shrunk == 1
    else:
        smaller = max(c / factor, bound**2 + 1e-9)
        assert abs(int(shrunk) - bin_of(grid, smaller)) <= 1


def bin_of(grid, c):
    return int(log(c) * grid.per_nat) + 1


@given(st.integers(1, 40), st.integers(0, 40), st.data())
def test_bisection_finds_the_least_good_index(end, least, data):
    least = min(least, end)
    start = data.draw(st.integers(0, end - 1))
    asked = []
    assert residues._least(lambda i: asked.append(i) or i >= least, start, end) == least
    assert all(0 <= i < end for i in asked)


def test_the_oracle_closest_to_a_model_over_all_scales() -> None:
    scales = [({2: a + 0.03, 13: a - 0.02, 19: a}, a) for a in (0.45, 0.43, 0.41, 0.4)]
    assert residues.closest_bound(scales) == 19
    scales[0][0][19] += 0.2
    assert residues.closest_bound(scales) == 13


def test_horizon_is_the_least_bound_that_is_good_enough():
    found = residues.find_horizon(10**10, accuracy=0.5, count=1 << 19)
    assert found.before.accuracy < 0.5 <= found.reached.accuracy
    assert found.before.bound < found.reached.bound
    assert not any(
        flint.fmpz(n).is_prime() for n in range(found.before.bound + 1, found.reached.bound)
    )
    assert 53 <= found.reached.bound <= 67  # 0.501 at 61
    found = residues.find_horizon(10**10, nats=1.1, count=1 << 19)
    assert found.before.nats > 1.1 >= found.reached.nats
    assert found.reached.bound == 31  # 1.097 there, 1.117 at 29
    assert residues.find_horizon(10**10, nats=2.8, count=1 << 18).before is None


TOKENS = WordTokens([0b10, 0b1010, 0b101010, 0b1100, 0b110010, 0b11001010])
AT = 10**9


@pytest.fixture(scope="module")
def oracle():
    return Oracle.estimate(7, AT, tokens=TOKENS, count=1 << 18)


def test_oracle_gives_the_true_word_its_probability(oracle):
    text = words(AT, AT + 2000)
    nats = 0.0
    for n, word in enumerate(text, start=AT):
        found, p = oracle.word_distribution(n)
        assert len(set(found.tolist())) == len(found)
        assert p.sum() == pytest.approx(1)
        _, beginning, _ = smooth_and_rest(n, 7)
        assert all(trees.unpack(w).startswith(trees.unpack(beginning)) for w in found[:5].tolist())
        nats -= log(p[found == word].item())
    [score] = residues.curve(AT, [7], count=1 << 20)
    assert nats / len(text) == pytest.approx(
        score.nats, abs=5 * score.nats_error * (1 << 10) / 2000**0.5
    )


def test_oracle_leaves_out_no_word_that_is_possible(oracle):
    n = next(n for n in range(AT, AT + SPAN) if smooth_and_rest(n, 7)[0] == 1)
    assert len(oracle.word_distribution(n)[0]) >= dictionary_size(n)


def test_oracle_is_not_estimated_from_what_it_answers_for(monkeypatch):
    estimate, asked = residues.estimate, []
    monkeypatch.setattr(
        "arithmetext.models.oracle.estimate",
        lambda lo, hi, bounds: asked.append((lo, hi)) or estimate(lo, hi, bounds),
    )
    oracle = Oracle.estimate(3, AT, tokens=TOKENS, count=1 << 12)
    [(lo, hi)] = asked
    assert hi - lo == oracle.rests.counts.sum() == 1 << 12
    oracle.word_distribution(lo - 1)
    for n in [AT - 1, lo, hi - 1, hi]:
        with pytest.raises(InputError, match="the oracle predicts"):
            oracle.word_distribution(n)


def test_a_smooth_integer_is_known_for_certain(oracle):
    n = next(n for n in range(AT, AT + SPAN) if smooth_and_rest(n, 7)[0] == n)
    found, p = oracle.word_distribution(n)
    assert found.tolist() == [trees.packed(n)]
    assert p.tolist() == [1]


def at_integers(integers):
    """Empty prompts, each before the word of one of these integers."""
    return Prompts(torch.zeros((len(integers), 0), dtype=torch.int64), np.array(integers))


def test_the_oracle_refuses_prompts_without_integers(oracle):
    with pytest.raises(InputError, match="needs the integers"):
        oracle.read(Prompts(torch.zeros((1, 4), dtype=torch.int64)))


def test_tokens_have_the_probabilities_of_the_words_they_spell(oracle):
    starts = [AT, AT + 1000, AT + 777_777]
    texts = [words(n, n + 12) for n in starts]
    ids = [TOKENS.encode(text).tolist() for text in texts]
    shortest = min(map(len, ids))
    assert any(token < 3 for row in ids for token in row[:shortest])
    reading = oracle.read(at_integers(starts))
    gathered = np.zeros((len(starts), shortest))
    for t in range(shortest):
        logs = reading.log_probabilities()
        assert logs.exp().sum(1).tolist() == pytest.approx([1, 1, 1])
        token = torch.tensor([row[t] for row in ids])
        gathered[:, t] = logs[torch.arange(3), token]
        reading.append(token)
    for start, text, logs in zip(starts, texts, gathered, strict=True):
        place = 0
        for n, word in enumerate(text, start=start):
            length = len(TOKENS.encode(np.array([word])))
            if place + length > shortest:
                break
            found, p = oracle.word_distribution(n)
            assert logs[place : place + length].sum() == pytest.approx(log(p[found == word].item()))
            place += length
        assert place > 3


@pytest.mark.parametrize(
    "tokens", [[0], [1, 0], [2, 3], [2, 2, 1, 1, 0], [2, 1, 1, 1, 0], [1, 2, 2, 0]]
)
def test_what_spells_no_word_is_impossible_and_ends_with_a_space(oracle, tokens):
    """A space alone, 0, a letter before the token of a word, 1100 that has a token, 1000, 011."""
    reading, other = oracle.read(at_integers([AT])), oracle.read(at_integers([AT + 1]))
    logs = []
    for token in tokens:
        now = reading.log_probabilities()[0].exp()
        assert now.sum().item() == pytest.approx(1)
        logs.append(float(now[token].log()))
        reading.append(torch.tensor([token]))
    assert min(logs) == -inf
    torch.testing.assert_close(reading.log_probabilities(), other.log_probabilities())


def test_oracle_needs_integers_of_its_scale():
    for at, count in [(10**6, SAMPLE), (10**9, 0)]:
        with pytest.raises(InputError, match="an oracle needs n of"):
            Oracle.estimate(7, at, tokens=TOKENS, count=count)


def test_bad_bounds_are_refused():
    for bounds in [[], [0], [3, 2], [2, 2], [10**8]]:
        with pytest.raises(InputError, match="bound"):
            residues.curve(10**9, bounds, count=1 << 10)


def test_command(nt):
    answer = nt("horizon", "--accuracy", "0.40", "--at", "1e13")
    assert answer.returncode == 0, answer
    assert answer.stdout.startswith("horizon 13: at 1e13")
    assert "0.383" in answer.stdout and "0.400" in answer.stdout
    answer = json.loads(nt("horizon", "--nats", "1.25", "--at", "10^13", "--json").stdout)
    assert answer["at"] == 10**13
    assert (answer["before"]["bound"], answer["reached"]["bound"]) == (31, 37)
    alone = nt("horizon", "--accuracy", "0.15", "--at", "1e7").stdout
    assert "the scale alone" in alone


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "one of the two"),
        (["--accuracy", "0.4", "--nats", "1"], "one of the two"),
        (["--accuracy", "0"], "above 0 and at most 1"),
        (["--accuracy", "1.01"], "above 0 and at most 1"),
        (["--accuracy", "nan"], "above 0 and at most 1"),
        (["--nats", "-1"], "above 0"),
        (["--nats", "inf"], "above 0"),
        (["--nats", "1e-9", "--at", "1e6"], "the primes up to 1415 are not enough"),
        (["--nats", "1", "--at", "1e5"], "1000000 or larger"),
        (["--nats", "1", "--at", "2^63"], "beyond 2^63"),
        (["--nats", "1", "--at", "many"], "not a number"),
    ],
)
def test_command_refuses(refused, arguments, complaint):
    assert complaint in refused("horizon", *arguments)
