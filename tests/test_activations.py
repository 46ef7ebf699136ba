"""Windows with the integer of each token."""

import pytest
import torch

import arithmetext as nt
from arithmetext.errors import InputError
from arithmetext.evaluation.activations import LabelledWindows, labelled_windows
from arithmetext.tokens import WordTokens

TEXTS = [[(10**9, 10**9 + 10**6)], [(2 * 10**9, 2 * 10**9 + 10**6)], [(10**6, 2 * 10**6)]]
LENGTH = 40


def drawn(tokenizer: WordTokens, number: int = 7, seed: int = 0) -> LabelledWindows:
    return labelled_windows(tokenizer, TEXTS, number=number, length=LENGTH, seed=seed)


def test_tokens_spell_the_words_of_their_integers() -> None:
    tokenizer = WordTokens.commonest(32)
    windows = drawn(tokenizer)
    assert windows.ids.shape == windows.integers.shape == (7, LENGTH)
    for k, row in enumerate(zip(windows.ids.tolist(), windows.integers.tolist(), strict=True)):
        [(lo, hi)] = TEXTS[k % 3]
        spelled: dict[int, str] = {}
        for token, n in zip(*row, strict=True):
            spelled[n] = spelled.get(n, "") + tokenizer.vocabulary[token]
        first, *_, last = spelled
        assert lo <= first and last < hi
        assert list(spelled) == list(range(first, last + 1))
        assert f"{nt.word(first)} ".endswith(spelled.pop(first))
        assert f"{nt.word(last)} ".startswith(spelled.pop(last))
        assert spelled == {n: f"{nt.word(n)} " for n in spelled}


def test_windows_of_different_texts_begin_at_different_offsets() -> None:
    windows = drawn(WordTokens.commonest(32), number=6)
    starts = torch.tensor([lo for [(lo, _)] in TEXTS]).repeat(2)
    offsets = windows.integers[:, 0] - starts
    assert len(set(offsets.tolist())) == 6


def test_windows_depend_on_the_seed_alone() -> None:
    tokenizer = WordTokens.commonest(32)
    first, more, other = drawn(tokenizer), drawn(tokenizer, 12), drawn(tokenizer, seed=1)
    assert torch.equal(first.ids, more.ids[:7])
    assert torch.equal(first.integers, more.integers[:7])
    assert not torch.equal(first.integers, other.integers)


def test_batches_are_all_windows_in_turn() -> None:
    windows = drawn(WordTokens.commonest(32))
    parts, batches = zip(*windows.batches(), strict=True)
    assert [k for part in parts for k in range(7)[part]] == list(range(7))
    assert torch.equal(torch.cat([batch.ids for batch in batches]), windows.ids)
    assert torch.equal(torch.cat([batch.integers for batch in batches]), windows.integers)


def test_no_windows_are_refused() -> None:
    with pytest.raises(InputError, match="at least one window is needed, not 0"):
        drawn(WordTokens.commonest(32), number=0)
