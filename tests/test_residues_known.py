"""When residues are known, by a model whose words tell which prime powers divide n."""

import numpy as np
import pytest
import torch

from arithmetext.evaluation.filters import WindowSettings
from arithmetext.evaluation.phases import PhaseSettings, residues_known
from arithmetext.evaluation.subjects import EvaluatedModel
from arithmetext.models.config import PhasesConfig
from arithmetext.models.phases import Phases
from arithmetext.text.splits import TRAINED_TO, splits
from arithmetext.tokens import WordTokens

HOW = PhaseSettings(
    fitted=WindowSettings(at=98 * 10**9, windows=6, blocks=2, seed=1),
    tested=WindowSettings(at=10**13, windows=4, blocks=2, seed=0),
)


@pytest.fixture(scope="module")
def model() -> EvaluatedModel:
    """Its evidence on 2 and 4 is whether the word begins with 11: an exponent above 1."""
    tokenizer = WordTokens.commonest(256)
    network = Phases(PhasesConfig(layers=1, width=4, bound=4, context=256), vocabulary=256).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        for name, parameter in network.named_parameters():
            if name.endswith("norm.weight"):
                parameter.fill_(1)
        high = [token.startswith("11") for token in tokenizer.vocabulary]
        network.tokens.weight[:, 0] = torch.where(torch.tensor(high), 1.0, -1.0)
        evidence = network.blocks[0].evidence
        evidence.up.weight[:, 0] = 2
        # Of the periods 2, 3 and 4; much for the words with 11, little against the others.
        evidence.periods.own[:] = torch.tensor([0.2, 0.0, 0.2])[:, None]
    seen = splits(TRAINED_TO)
    return EvaluatedModel("made up", network, tokenizer, 256, seen.train, seen.seen)


def test_places_without_words_do_not_count(
    model: EvaluatedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a word is spelled, a window has fewer words than tokens."""
    every = WordTokens([], None)  # all words are spelled
    spelled = EvaluatedModel("made up", model.model, every, 256, model.trained, model.seen)
    known = residues_known(spelled, HOW)["known"]
    assert not np.isnan(known[2]).any()
    assert np.isnan(known[-3:]).all()  # fewer than 64 words


def test_what_the_words_tell_is_known(model: EvaluatedModel) -> None:
    found = residues_known(model, HOW)
    assert found["known"].shape == (8, 3, 4)  # after 2, 4, … 256 words; 2, 3, 4; windows
    known = found["known"].mean(2)
    assert np.isnan(known[0]).tolist() == [False, True, True]
    assert found["residue"].tolist()[::2] == [0, 0]  # of 2 and of 4
    assert known[-1, 0] > 0.95 and known[-1, 2] > 0.95
    assert known[-1, 1] == pytest.approx(1 / 3)  # nothing speaks for a residue modulo 3
    assert known[2, 2] < known[-1, 2]
    assert (found["layer"] == 0).all()
