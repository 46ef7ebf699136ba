"""numpy's Philox generator inside kernels: the same random numbers, drawn without the GIL.

A call of numpy's generators takes microseconds and gives the GIL away and back, which stalls a
thread that launches kernels of a GPU. These kernels draw for a whole batch at once. They give what
`windows.generator` gives (tested against numpy).
"""

from typing import Any

import numpy as np

from ..compiled import kernel

_U = np.uint64
_LOW = _U(0xFFFFFFFF)

# The state: a counter of four words, a key of two words, four words of output, how many of these
# are used up, whether half a word is left over, and this half.
_KEY, _OUTPUT, _USED, _HALF_LEFT, _HALF = 4, 6, 10, 11, 12


@kernel
def philox(seed: Any, purpose: Any, i: Any, k: Any) -> Any:
    """The state of `generator(seed, purpose, i, k)`."""
    state = np.zeros(13, np.uint64)
    state[2], state[3], state[_KEY], state[_KEY + 1], state[_USED] = i, k, seed, purpose, 4
    return state


@kernel
def _product(a: Any, b: Any) -> Any:
    """The high and the low 64 bits of a · b."""
    middle = (a >> _U(32)) * (b & _LOW) + ((a & _LOW) * (b & _LOW) >> _U(32))
    other = (a & _LOW) * (b >> _U(32)) + (middle & _LOW)
    return (a >> _U(32)) * (b >> _U(32)) + (middle >> _U(32)) + (other >> _U(32)), a * b


@kernel
def _next_64(state: Any) -> Any:
    """64 random bits."""
    if state[_USED] == 4:
        for word in range(4):  # add 1 to the counter
            state[word] += _U(1)
            if state[word]:
                break
        a, b, c, d = state[0], state[1], state[2], state[3]
        key_0, key_1 = state[_KEY], state[_KEY + 1]
        for _ in range(10):
            high_0, low_0 = _product(_U(0xD2E7470EE14C6C93), a)
            high_1, low_1 = _product(_U(0xCA5A826395121157), c)
            a, b, c, d = high_1 ^ b ^ key_0, low_1, high_0 ^ d ^ key_1, low_0
            key_0 += _U(0x9E3779B97F4A7C15)
            key_1 += _U(0xBB67AE8584CAA73B)
        state[_OUTPUT], state[_OUTPUT + 1], state[_OUTPUT + 2], state[_OUTPUT + 3] = a, b, c, d
        state[_USED] = 0
    state[_USED] += _U(1)
    return state[_OUTPUT - 1 + np.int64(state[_USED])]


@kernel
def _next_32(state: Any) -> Any:
    """32 random bits: half of 64, whose other half comes next."""
    state[_HALF_LEFT] ^= _U(1)
    if state[_HALF_LEFT]:
        bits = _next_64(state)
        state[_HALF] = bits >> _U(32)
        return bits & _LOW
    return state[_HALF]


@kernel
def below(state: Any, n: Any) -> Any:
    """A random integer from 0 to n - 1, 1 ≤ n < 2^63, as `integers(n)` draws it (Lemire 2019)."""
    n = _U(n)
    if n == _U(1):
        return np.int64(0)
    if n > _LOW + _U(1):
        high, low = _product(_next_64(state), n)
        while low < n and low < (_U(0) - n) % n:
            high, low = _product(_next_64(state), n)
        return np.int64(high)
    if n == _LOW + _U(1):
        return np.int64(_next_32(state))
    product = _next_32(state) * n
    while product & _LOW < n and product & _LOW < (_LOW + _U(1) - n) % n:
        product = _next_32(state) * n
    return np.int64(product >> _U(32))


@kernel
def uniform(state: Any) -> Any:
    """A random number from 0 to 1, as `random()` draws it."""
    return np.float64(_next_64(state) >> _U(11)) * 2.0**-53


@kernel
def choose(state: Any, length: Any, chosen: Any) -> Any:
    """Positions below `length`, all different, in increasing order.

    They are those of `choice(length, len(chosen), replace=False)`, which also shuffles them.
    """
    count = len(chosen)
    taken = np.zeros(length, np.bool_)
    if length > 10_000 and count > length // 50:  # shuffle all, and take the last
        order = np.arange(length)
        for i in range(length - 1, max(length - count, 1) - 1, -1):
            j = below(state, i + 1)
            order[i], order[j] = order[j], order[i]
        for i in range(length - count, length):
            taken[order[i]] = True
    else:  # Floyd's algorithm
        for i in range(length - count, length):
            j = below(state, i + 1)
            taken[i if taken[j] else j] = True
        for i in range(count - 1, 0, -1):  # the shuffle
            below(state, i + 1)
    at = 0
    for i in range(length):
        if taken[i]:
            chosen[at] = i
            at += 1
