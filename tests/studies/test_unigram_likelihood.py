"""Verdicts on made-up likelihoods, and the positive control of the reversed text."""

from typing import Any

import numpy as np
import pytest

from arithmetext import sources
from arithmetext.evaluation.codec import from_json, to_json
from arithmetext.evaluation.estimates import Estimate
from arithmetext.evaluation.likelihood import CONTROLS, ControlComparison
from arithmetext.evaluation.separation import overlap, summarise_control
from arithmetext.evaluation.subjects import EvaluatedModel
from arithmetext.models.hmm import HMM, HMMConfig
from arithmetext.paper.runs import TrainingFacts
from arithmetext.paper.studies import unigram_likelihood as study
from arithmetext.paper.study import all_studies
from arithmetext.text.splits import splits
from arithmetext.tokens import WordTokens

from .cases import Case, draw, edited, outcomes

HOW = study.SequenceSettings(
    98 * 10**9, tuple(2 << k for k in range(8)), sequences=60, blocks=10, seed=0
)
REVERSAL = study.ReversalSettings(10**5, 128, sequences=50, seed=0)
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
            for text in study.TEXTS
            for kind in ("text", "reversed")
        }

    return study.compare_readers({"forward": arrays(1), "backward": arrays(-1)})


def result(stand_in: str = "") -> study.Result:
    facts = TrainingFacts(1, 1.0, "cpu", "a word", stand_in)
    return study.summarise([made_up(k) for k in range(3)], HOW, facts, readers(3), REVERSAL)


RESULT = result()
STUDY = all_studies()["unigram_likelihood"]


def test_all_claims_can_agree() -> None:
    assert outcomes(STUDY, RESULT) == dict.fromkeys(KEYS, True)
    assert outcomes(STUDY, result("It is small.")) == dict.fromkeys(KEYS, None)


# Lengths are 2, 4, 8, …; there are three seeds. The last separations are those of the greatest
# length: random tokens, shuffled words, words shuffled in eights, backwards, a word deleted.
CASES: list[Case] = [
    ({"short_overlap": Estimate(0.45, 0.42, 0.49)}, {"short-overlap": False}),
    ({"short_overlap": Estimate(0.52, 0.48, 0.56)}, {"short-overlap": None}),
    ({"short_overlap": Estimate(0.53, 0.51, 0.55)}, {}),
    ({"random.-1.distances": [0.0] * 3}, {"grows": False}),
    ({"random.3.distances.1": 1e9}, {"grows": False}),
    ({"random.5.disjoint.1": False}, {"long-disjoint": False}),  # 64 tokens
    ({"random.4.disjoint.1": False}, {}),  # 32 tokens
    ({"random": RESULT.random[:5]}, {"long-disjoint": False}),  # none is longer
    ({"separations.-4.auc": Estimate(0.5, 0.49, 0.51)}, {"word-order": None}),
    ({"separations.-3.auc": Estimate(0.5, 0.49, 0.51)}, {"word-order": None}),
    ({"separations.-3.auc": Estimate(0.4, 0.39, 0.41)}, {"word-order": False}),
    ({"separations.-4.auc": Estimate(0.6, 0.51, 0.69)}, {}),
    ({"separations.-2.auc": Estimate(0.4, 0.39, 0.41), "backwards": Estimate(-9, -10, -8)}, {}),
]


@pytest.mark.parametrize("case", CASES)
def test_each_claim_can_differ(case: Case) -> None:
    edits, expected = case
    assert outcomes(STUDY, edited(RESULT, edits)) == dict.fromkeys(KEYS, True) | expected


def test_disjoint_from_the_length_after_the_last_overlap() -> None:
    def since(*disjoint: bool) -> int | None:
        rows = [study.Separation(2 << k, [1.0], [each, True]) for k, each in enumerate(disjoint)]
        return study.disjoint_from(rows)

    assert since(True, True) == 2
    assert since(True, False, True, True) == 8
    assert since(True, False) is None


@pytest.mark.parametrize(
    ("middle", "words"), [(0.0, "does not tell"), (-0.3, "tells"), (0.3, "tells")]
)
def test_word_order_says_whether_the_direction_is_told(middle: float, words: str) -> None:
    """Decided on pairs; the area of all sequences is wider."""
    backwards = Estimate(middle, middle - 0.1, middle + 0.1)
    *_, order = study.verdicts(edited(RESULT, {"backwards": backwards}))
    assert f"The likelihood {words} the direction" in order.why


def test_statistics_are_means_over_seeds() -> None:
    arrays = [made_up(k) for k in range(3)]
    each = [
        summarise_control(ControlComparison(256, "backwards", a["256 true"], a["256 backwards"]))
        for a in arrays
    ]
    found = next(s for s in RESULT.separations if (s.length, s.control) == (256, "backwards"))
    assert found.auc.value == pytest.approx(np.mean([summary.auc.value for summary in each]))
    nats = [255 * (a["256 true"] - a["256 backwards"]).mean() for a in arrays]
    assert RESULT.backwards.value == pytest.approx(np.mean(nats))
    shared = [overlap(a["2 true"], a["2 unigram"]) for a in arrays]
    assert RESULT.short_overlap.value == pytest.approx(np.mean(shared))
    assert RESULT.short_overlap.low < min(shared) < RESULT.short_overlap.high


def test_an_overlap_that_is_not_decided_is_not_tested() -> None:
    first, *_ = study.verdicts(edited(RESULT, {"short_overlap": Estimate(0.52, 0.48, 0.56)}))
    assert first.agrees is None
    assert first.why == "Tested, not decided: the interval contains one half."


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_caption_speaks_of_seeds_if_there_are_several(seeds: int) -> None:
    caption = study.caption(edited(RESULT, {"seeds": seeds}))
    assert ("spread over seeds" in caption) == (seeds > 1)


@pytest.mark.parametrize(
    ("training", "following", "words"),
    [
        (3, 0, "that they memorised, not of new text (n..2n). A weaker direction"),
        (3, 3, "that they memorised, and of new text. A weaker direction"),
        (0, 0, "They do not tell the direction, not even"),
    ],
)
def test_the_caption_says_of_which_text_the_control_tells_the_direction(
    training: float, following: float, words: str
) -> None:
    rows = [
        *(row for row in readers(training) if row.text == "training range"),
        *(row for row in readers(following) if row.text == "next range"),
    ]
    assert words in study.caption(edited(RESULT, {"reversal": rows}))


def test_the_control_sees_a_direction_only_where_there_is_one() -> None:
    rows = {(row.text, row.reader): row for row in readers(1.5)}
    for text in study.TEXTS:
        assert rows[text, "forward"].auc.low > 0.5 > rows[text, "backward"].auc.high
        assert rows[text, study.BOTH].nats.low > 2
        assert rows[text, "backward"].nats.high < 0
    for row in readers(0):
        assert row.auc.low < 0.5 < row.auc.high


@pytest.mark.parametrize(("direction", "words"), [(3, "sees"), (0, "does not even see")])
def test_word_order_says_whether_the_control_works(direction: float, words: str) -> None:
    *_, order = study.verdicts(edited(RESULT, {"reversal": readers(direction)}))
    assert f"So the test {words} a direction" in order.why


def test_text_and_reversed_text_are_scored() -> None:
    """A model that predicts all tokens alike finds both directions equally likely."""
    n, text = 10**5, splits(10**5)
    tokenizer = WordTokens.commonest(64, x=n)
    model = HMM(HMMConfig(states=4, spread=0.0), vocabulary=64)
    for parameter in model.parameters():
        parameter.data.zero_()
    subject = EvaluatedModel("it", model, tokenizer, 128, text.train, text.seen)
    found = study.reversed_text(subject, study.ReversalSettings(n, 32, sequences=7, seed=1))
    for name in study.TEXTS:
        for kind in ("text", "reversed"):
            np.testing.assert_allclose(found[f"{name} {kind}"], -31 * np.log(64), rtol=1e-5)


def test_statistics_leave_kept_likelihoods_valid() -> None:
    for function in ("likelihoods", "reversed_text"):
        files = sources.of_function("paper.studies.unigram_likelihood", function)
        assert "evaluation/likelihood.py" in files
        assert not {"evaluation/separation.py", "evaluation/estimates.py"} & files.keys()


def test_the_result_is_drawn_and_restored() -> None:
    assert from_json(study.Result, to_json(RESULT)) == RESULT
    draw("unigram_likelihood", RESULT)
