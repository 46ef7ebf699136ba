"""Surrogate text: the text with the phase of every prime shifted at random.

In the real text the exponent of a prime p at n is v_p(n). In a surrogate it is v_p(n + a_p), where
a_p is a random p-adic integer, a pure function of (seed, p). So every prime and every power of it
keeps its period, and only its phase changes. The words are built as for integers: a child for each
prime, in increasing order, with the tree of its exponent.

By the Chinese remainder theorem, the real text has the phases of any finite set of primes somewhere
too. But the prime powers at n no longer multiply to n, so the size of n has to decide otherwise
whether a prime above √n is left.

**The rule for the last prime.** Let P be the product of the prime powers of the primes up to √n. In
the real text n/P is 1 or a prime above √n, which adds a last child `10`. In a surrogate n/P is any
number, and below 1 at 9 % of all n. Here the last child is added if P < n^0.63375; otherwise,
whether or not P exceeds n, the word stays as it is.

If nothing is shifted, any exponent from 1/2 to 1 gives the real text. This exponent makes last
primes as frequent as in the real text. Their share tends to ln 2 there (Dickman). In a surrogate
the exponents of different primes are independent, so the share of P < (√n)^x, for 1 ≤ x ≤ 2, tends
to e^−γ (2x − 1 − x ln x). This is ln 2 for x = 2 · 0.63375.
"""

from collections.abc import Sequence
from math import isqrt
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..errors import InputError
from ..progress import Advance, no_progress, progress
from .kernels import CHILD_LENGTHS, CHILDREN
from .philox import below, philox
from .ranges import over_ranges, spans
from .sieve import Words, base_primes, check_range, segment_size

LAST_PRIME_BELOW = 0.63375  # a last prime is added where P is less than n to this power

_PURPOSE = 5  # of random numbers: one more than those in `windows`
_MOST = (1 << 63) - 1
_DRAWN_AT_ONCE = 1 << 20  # shifts, between two updates of a progress bar
_U = np.uint64


class SurrogateWords(NamedTuple):
    """The words of a range, and what decided about the last prime of each."""

    words: Words
    products: NDArray[np.float64]  # P: of the prime powers of primes up to √n


class Surrogate:
    """The surrogate text of a seed. With the seed None nothing is shifted: it is the real text.

    >>> [bin(word)[2:] for word in Surrogate(None).words(2, 7)]
    ['10', '10', '1100', '10', '1010']
    """

    def __init__(self, seed: int | None) -> None:
        if seed is not None and not 0 <= index(seed) <= _MOST:
            raise InputError(f"a seed is an integer from 0 to 2^63 - 1, not {seed}")
        self.seed = seed
        self._shifts = np.zeros(0, np.uint64)

    def words(self, lo: int, hi: int, *, threads: int | None = None) -> Words:
        """The packed words at lo ≤ n < hi, on all cores or on the given number of threads."""
        return self.words_and_products(lo, hi, threads=threads).words

    def words_and_products(self, lo: int, hi: int, *, threads: int | None = None) -> SurrogateWords:
        """The words at lo ≤ n < hi, and the product P at each n."""
        lo, hi = check_range(lo, hi)
        primes, shifts = self.shifts(isqrt(hi - 1))

        def segment(lo: int, hi: int) -> SurrogateWords:
            part = SurrogateWords(np.empty(hi - lo, np.uint64), np.empty(hi - lo))
            _fill_segment(lo, primes, shifts, CHILDREN, CHILD_LENGTHS, *part)
            return part

        pieces = over_ranges(segment, lo, hi, size=segment_size(hi), threads=threads)
        return SurrogateWords(*map(np.concatenate, zip(*pieces, strict=True)))

    def words_of_windows(self, starts: Sequence[int], length: int) -> Words:
        """The words at `length` integers from each start on, [windows, length].

        One kernel makes them all, so other threads hardly wait for the GIL.
        """
        _, end = check_range(min(starts), max(starts) + length)
        primes, shifts = self.shifts(isqrt(end - 1))
        out = np.empty((len(starts), length), np.uint64)
        _fill_windows(np.array(starts, np.int64), primes, shifts, CHILDREN, CHILD_LENGTHS, out)
        return out

    def prepare(self, hi: int) -> None:
        """Draw all shifts for words below `hi`, with a progress bar: near 2^63 it takes seconds."""
        limit = isqrt(hi - 1)
        with progress("primes", 1):  # one kernel: the bar cannot advance, only name the work
            number = len(base_primes(limit))
        with progress("phases", number, "primes") as advance:
            self.shifts(limit, advance)

    def shifts(
        self, limit: int, advance: Advance = no_progress
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
        """The primes p up to `limit`, and the shift a_p of each.

        A shift is known modulo the largest power of p below 2^63; higher powers of p divide nothing
        here. Shifts take 8 bytes a prime and are cached.
        """
        primes = base_primes(limit)
        # For a limit of another type, numpy would first convert all primes to that type.
        count = int(np.searchsorted(primes, np.uint32(limit), side="right"))
        shifts = self._shifts  # another thread may replace them
        if len(shifts) < count:
            # Draw a few more, so that slowly increasing limits rarely draw again.
            shifts = np.zeros(min(len(primes), count + count // 16 + 256), np.uint64)
            if self.seed is not None:
                for a, b in spans(0, len(shifts), _DRAWN_AT_ONCE):
                    _draw_shifts(_U(self.seed), primes[a:b], shifts[a:b])
                    advance(b - a)
            self._shifts = shifts
        return primes[:count], shifts[:count]


@kernel
def _largest_power(p: Any) -> Any:
    """The largest power of p below 2^63, and its exponent."""
    power, exponent = p, 1
    while power <= _MOST // p:
        power *= p
        exponent += 1
    return power, exponent


@kernel
def _draw_shifts(seed: Any, primes: Any, shifts: Any) -> None:
    for t in range(len(primes)):
        p = np.int64(primes[t])
        power, _ = _largest_power(p)
        shifts[t] = below(philox(seed, _U(_PURPOSE), _U(p), _U(0)), power)


@kernel
def _append(word: Any, child: Any, length: Any) -> Any:
    """The word with one more child; without it if a packed word has no room for it.

    Words below 2^63 have 40 digits at most. A surrogate has longer ones, but so rarely that none
    is known that needs more than the 64 digits of a packed word.
    """
    return word if word >> (_U(64) - length) else word << length | child


@kernel
def _fill_segment(
    lo: Any, primes: Any, shifts: Any, children: Any, lengths: Any, words: Any, products: Any
) -> None:
    """Write the words and products from `lo` on; `primes` has those up to √n for the last n."""
    m = len(words)
    words[:] = 0
    products[:] = 1
    for t in range(len(primes)):
        p, shift = np.int64(primes[t]), shifts[t]
        first = max(0, p * p - lo)  # p counts from p² on
        if first >= m:
            break
        i: Any = -np.int64((_U(lo) + shift) % _U(p))  # both are below 2^63
        if i < first:
            i += (first - i + p - 1) // p * p
        if i >= m:
            continue
        power, most = _largest_power(p)
        while i < m:
            rest = np.int64((_U(lo + i) + shift) % _U(power))
            exponent = 0
            while exponent < most and rest % p == 0:
                rest //= p
                exponent += 1
                products[i] *= p
            words[i] = _append(words[i], children[exponent], lengths[exponent])
            i += p
    for i in range(m):
        if products[i] < np.float64(lo + i) ** LAST_PRIME_BELOW:
            words[i] = _append(words[i], children[1], lengths[1])


@kernel
def _fill_windows(
    starts: Any, primes: Any, shifts: Any, children: Any, lengths: Any, out: Any
) -> None:
    """Write the words of windows of equal length to the rows of `out`, [windows, length]."""
    products = np.empty(out.shape[1])
    for k in range(len(starts)):
        _fill_segment(starts[k], primes, shifts, children, lengths, out[k], products)
