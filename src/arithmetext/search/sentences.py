"""Sentences, runs of consecutive words: where they occur, and where arithmetic forbids them."""

from collections.abc import Iterator
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from .. import trees
from ..compiled import kernel
from ..errors import InputError
from ..text.ranges import over_ranges, spans
from ..text.sieve import Words, check_range, piece_size, segment_size, words_in_buffer

Pattern = tuple[int, ...]  # packed words of a sentence; ANY matches any one word
ANY = 0

_PRIME = trees.pack("10")


def parse_sentence(text: str) -> Pattern:
    """Read words separated by spaces; `*` matches any one word.

    >>> parse_sentence("111000 10")
    (56, 2)
    """
    sentence = []
    for place, word in enumerate(text.split(), start=1):
        if word == "*":
            sentence.append(ANY)
            continue
        try:
            sentence.append(trees.tree_of_word(word).packed)
        except InputError as error:
            raise InputError(f"word {place} of the sentence: {error}") from None
        if sentence[-1] >= 2**63:
            raise InputError(f"word {place} of the sentence is longer than any word below 2^63")
    if not any(sentence):
        raise InputError('a sentence needs at least one word, such as "111000 10" or "10 * 10"')
    return tuple(sentence)


def find(
    sentence: Pattern,
    lo: int,
    hi: int,
    *,
    threads: int | None = None,
    cluster: str | None = None,
    title: str = "",
) -> Iterator[NDArray[np.int64]]:
    """Yield the starts of the sentence within lo ≤ n < hi in increasing order, piece by piece.

    The whole sentence lies within the range.
    """
    lo, hi = check_range(lo, hi)
    starts_end = hi - len(sentence) + 1
    if starts_end > lo:
        yield from over_ranges(
            partial(_starts, sentence=sentence),
            lo,
            starts_end,
            size=piece_size(hi),
            threads=threads,
            cluster=cluster,
            title=title,
        )


def _starts(lo: int, hi: int, *, sentence: Pattern) -> NDArray[np.int64]:
    # Compare the largest packed word first: this word is rare, so most places need one comparison.
    rarest = sentence.index(max(sentence))
    wanted = np.array(sentence, np.uint64)
    return np.concatenate(
        [
            a + _matches(words_in_buffer(a, b + len(sentence) - 1), wanted, rarest)
            for a, b in spans(lo, hi, segment_size(hi))
        ]
    )


@kernel
def _matches(words: Words, sentence: Words, rarest: int) -> NDArray[np.int64]:
    """The indices where the sentence begins; its word number `rarest` is compared first."""
    count = len(words) - len(sentence) + 1
    starts = np.empty(count, np.int64)  # pages never written to take no memory
    size = 0
    wanted = sentence[rarest]
    candidates = words[rarest : rarest + count]
    for i in range(count):
        if candidates[i] != wanted:
            continue
        for j in range(len(sentence)):
            if sentence[j] != 0 and words[i + j] != sentence[j]:
                break
        else:
            starts[size] = i
            size += 1
    return starts[:size]


def find_runs(
    kind: str, length: int, lo: int, hi: int, *, threads: int | None = None, title: str = ""
) -> Iterator[NDArray[np.int64]]:
    """Yield the starts of runs of `length` integers, all "square-free" or all the "same word"."""
    lo, hi = check_range(lo, hi)
    if length < 1:
        raise InputError(f"a run needs at least one word, not {length}")
    yield from over_ranges(
        partial(_run_starts, kind=kind, length=length, end=hi),
        lo,
        hi,
        size=piece_size(hi),
        threads=threads,
        title=title,
    )


def _run_starts(lo: int, hi: int, *, kind: str, length: int, end: int) -> NDArray[np.int64]:
    return np.concatenate(
        [
            a + _runs(words_in_buffer(a, min(b + length - 1, end)), length, kind == "square-free")
            for a, b in spans(lo, hi, segment_size(hi))
        ]
    )


@kernel
def _runs(words: Words, length: int, square_free: bool) -> NDArray[np.int64]:
    """The indices where runs begin."""
    starts = np.empty(len(words), np.int64)  # pages never written to take no memory
    size = 0
    run = 0
    for i in range(len(words)):
        if square_free:
            # Half of the digits are ones. If no bit 0, 2, 4, … is one, the word is 1010…10.
            run = run + 1 if words[i] & np.uint64(0x5555555555555555) == 0 else 0
        else:
            run = run + 1 if i > 0 and words[i] == words[i - 1] else 1
        if run >= length:
            starts[size] = i - length + 1
            size += 1
    return starts[:size]


def law(sentence: Pattern) -> str | None:
    """Where the sentence can occur and why, in words, if elementary arithmetic decides it."""
    restriction = _law(sentence)
    if restriction is None:
        return None
    reason, starts = restriction
    possible = f"can begin at {' or '.join(map(str, starts))} only" if starts else "never occurs"
    return f"{reason}: the sentence {possible}"


def possible_starts(sentence: Pattern) -> list[int] | None:
    """The only places where arithmetic lets the sentence begin; None if it does not decide that."""
    restriction = _law(sentence)
    return None if restriction is None else restriction[1]


def forbidden(sentence: Pattern) -> tuple[int, int, str] | None:
    """The shortest part of the sentence that cannot occur there: (first word, end, reason)."""
    if _law(sentence) is None:  # a law against a part is also a law against the whole
        return None
    for length in range(1, 10):  # the laws are about 4 or 9 consecutive words
        for first in range(len(sentence) - length + 1):
            part = sentence[first : first + length]
            restriction = _law(part) if any(part) else None
            if restriction is None:
                continue
            reason, starts = restriction
            # The part may begin at `start`, unless the sentence would then begin before 2.
            if all(start - first < 2 for start in starts):
                return first, first + length, reason
    return None


def _law(sentence: Pattern) -> tuple[str, list[int]] | None:
    """A reason why the sentence can begin only at certain places, and these places.

    Two arguments are tried. First, the word of a multiple of 2 begins with the child of 2, which is
    a leaf exactly if 4 does not divide the integer. The same holds for the child of 3, first or
    second in the word, and 9. If no residue of the first integer fits all words, the sentence never
    occurs. Second, if every residue that fits makes an even number prime, this number is 2.
    """
    for p in (2, 3):
        if not any(_fits(sentence, r, p) for r in range(p * p)):
            reason = f"one of any {p * p} consecutive integers is divisible by {p * p}"
            return f"{reason}, and no place in the sentence allows that", []
    primes = [j for j, word in enumerate(sentence) if word == _PRIME]
    starts = set()
    for residue in range(4):
        even = [j for j in primes if (residue + j) % 2 == 0]
        if even:
            starts.add(2 - even[0])
        elif _fits(sentence, residue, 2):
            return None
    reason = "an even number would have to be prime, and only 2 is"
    return reason, sorted(n for n in starts if n >= 2)


def _fits(sentence: Pattern, residue: int, p: int) -> bool:
    """Whether all words fit if the first integer is `residue` mod p²."""
    for j, word in enumerate(sentence):
        n = (residue + j) % (p * p)
        if word == ANY or n % p:
            continue
        # The child of 2 is the first one. The child of 3 is the first or the second.
        if (n != 0) not in _leaves(word)[: p - 1]:
            return False
    return True


@lru_cache(1 << 16)
def _leaves(word: int) -> list[bool]:
    """Whether each child of the word is a leaf."""
    return [not child.children for child in trees.tree_of_word(trees.unpack(word)).children]
