"""Verdicts on made-up likelihoods, and the positive control of the reversed text."""

from typing import Any

import numpy as np
import pytest

from arithmetext.evaluation.codec import from_json, to_json
from arithmetext.evaluation.estimates import Estimate
from arithmetext.evaluation.likelihood import CONTROLS, ControlComparison
from arithmetext.evaluation.subjects import EvaluatedModel
from arithmetext.models.hmm import HMM, HMMConfig
from arithmetext.paper.runs import TrainingFacts
from arithmetext.paper.studies import unigram_likelihood as study
from arithmetext.paper.study import all_studies
from arithmetext.text.splits import splits
from arithmetext.tokens import WordTokens

from .cases import draw, edited, outcomes

HOW = study.SequenceSettings(98 * 10**9, 256, sequences=60, blocks=10, seed=0)
REVERSAL = (study.ReversalSettings(10**5, 128, sequences=50, seed=0),)
KEYS = ["short-overlap", "grows", "long-disjoint", "word-order"]


def made_up(seed: int) -> dict[str, Any]:
    """Random tokens are less likely, the more so the longer; reversed text is as likely."""
    random = np.random.default_rng(seed)
    arrays = {}
    for length in HOW.lengths:
        arrays[f"{length} true"] = random.normal(size=HOW.sequences)
        for control in CONTROLS:
            offset = 0.0 if control == "backwards" else 0.25 * length
            arrays[f"{length} {control}"] = random.normal(-offset, size=HOW.sequences)
    return arrays


def readers(direction: float) -> list[study.Reversal]:
    random = np.random.default_rng(0)

    def arrays(sign: int) -> dict[str, Any]:
        return {
            f"{text} {kind}": random.normal(sign * direction * (kind == "text"), size=50)
            for text in ("read in training", "not read")
            for kind in ("text", "reversed")
        }

    return study.compare_readers(10**5, {"forward": arrays(1), "backward": arrays(-1)})


def result(stand_in: str = "") -> study.Result:
    facts = TrainingFacts(1, 1.0, "cpu", "a word", stand_in)
    return study.summarise([made_up(k) for k in range(3)], HOW, facts, readers(3), REVERSAL)


RESULT = result()
STUDY = all_studies()["unigram_likelihood"]


def path(control: str) -> str:
    """The path of the area of a control at the greatest length."""
    return f"separations.{len(RESULT.separations) - len(CONTROLS) + CONTROLS.index(control)}.auc"


def test_all_claims_can_agree() -> None:
    assert outcomes(STUDY, RESULT) == dict.fromkeys(KEYS, True)
    assert outcomes(STUDY, result("It is small.")) == dict.fromkeys(KEYS, None)


# Lengths are 2, 4, 8, …, 256; there are three seeds.
@pytest.mark.parametrize(
    ("edits", "differing"),
    [
        ({"random.0.overlaps.2": 0.45}, ["short-overlap"]),
        ({"random.0.overlaps": [0.51] * 3}, []),
        ({"random.-1.distances": RESULT.random[-2].distances}, ["grows"]),
        ({"random.3.distances.1": RESULT.random[4].distances[1] + 0.1}, ["grows"]),
        ({"random.5.disjoint.1": False}, ["long-disjoint"]),  # 64 tokens
        ({"random.4.disjoint.1": False}, []),  # 32 tokens
        ({"random": to_json(RESULT.random[:5])}, ["long-disjoint"]),  # none is longer
        ({f"{path('shuffled')}.low": 0.495}, ["word-order"]),
        ({f"{path('shuffled in eights')}.low": 0.495}, ["word-order"]),
        ({f"{path('shuffled')}.low": 0.51}, []),
        ({path("backwards"): Estimate(0.9, 0.89, 0.91)}, []),
    ],
)
def test_each_claim_can_differ(edits: dict[str, Any], differing: list[str]) -> None:
    assert outcomes(STUDY, edited(RESULT, edits)) == {key: key not in differing for key in KEYS}


def test_disjoint_from_the_length_after_the_last_overlap() -> None:
    def since(*disjoint: bool) -> int | None:
        rows = [
            study.Separation(2 << k, [0.0], [1.0], [each, True]) for k, each in enumerate(disjoint)
        ]
        return study.disjoint_from(rows)

    assert since(True, True) == 2
    assert since(True, False, True, True) == 8
    assert since(True, False) is None


@pytest.mark.parametrize(
    ("middle", "words"), [(0.5, "does not tell"), (0.3, "tells"), (0.7, "tells")]
)
def test_word_order_says_whether_the_direction_is_told(middle: float, words: str) -> None:
    backwards = Estimate(middle, middle - 0.01, middle + 0.01)
    *_, order = study.verdicts(edited(RESULT, {path("backwards"): backwards}))
    assert f"The likelihood {words} the direction" in order.why


def test_statistics_are_means_over_seeds() -> None:
    arrays = [made_up(k) for k in range(3)]
    each = [
        ControlComparison(256, "backwards", a["256 true"], a["256 backwards"]).summary()
        for a in arrays
    ]
    found = next(s for s in RESULT.separations if (s.length, s.control) == (256, "backwards"))
    assert found.auc.value == pytest.approx(np.mean([summary.auc.value for summary in each]))
    nats = [255 * (a["256 true"] - a["256 backwards"]).mean() for a in arrays]
    assert RESULT.backwards.value == pytest.approx(np.mean(nats))
    assert RESULT.random[3].overlaps[1] == pytest.approx(
        ControlComparison(16, "unigram", arrays[1]["16 true"], arrays[1]["16 unigram"])
        .distributions()
        .overlap
    )


def test_the_control_sees_a_direction_only_where_there_is_one() -> None:
    rows = {(row.text, row.reader): row for row in readers(1.5)}
    for text in ("read in training", "not read"):
        assert rows[text, "forward"].auc.low > 0.5 > rows[text, "backward"].auc.high
        assert rows[text, "forward minus backward"].nats.low > 2
        assert rows[text, "backward"].nats.high < 0
    for row in readers(0):
        assert row.auc.low < 0.5 < row.auc.high


def test_text_and_reversed_text_are_scored() -> None:
    """A model that predicts all tokens alike finds both directions equally likely."""
    n, text = 10**5, splits(10**5)
    tokenizer = WordTokens.commonest(64, x=n)
    model = HMM(HMMConfig(states=4, spread=0.0), vocabulary=64)
    for parameter in model.parameters():
        parameter.data.zero_()
    subject = EvaluatedModel("it", model, tokenizer, 128, text.train, text.seen)
    found = study.reversed_text(subject, study.ReversalSettings(n, 32, sequences=7, seed=1))
    for name in ("read in training", "not read"):
        for kind in ("text", "reversed"):
            np.testing.assert_allclose(found[f"{name} {kind}"], -31 * np.log(64), rtol=1e-5)


def test_the_result_is_drawn_and_restored() -> None:
    assert from_json(study.Result, to_json(RESULT)) == RESULT
    draw("unigram_likelihood", RESULT)
