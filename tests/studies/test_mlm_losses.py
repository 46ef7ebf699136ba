import pytest

from arithmetext.evaluation.learning import NO_PLATEAU, plateau_length
from arithmetext.paper.runs import Record
from arithmetext.paper.studies._training_runs import TrainingRun, summarise
from arithmetext.paper.studies.mlm_losses import compare
from arithmetext.paper.study import all_studies
from test_learning import curve

from .cases import Case, check, committed, draw, edited, outcomes

# The committed result as if all runs had the paper's positions and left their plateau; as they are,
# they decide nothing.
PAPERS = {
    f"{field}.{size}{value}": new
    for size in (64, 256)
    for field, value, new in (
        ("best_masked", ".record.config.model.positions", "learned"),
        ("masked_lengths", ".ended", True),
    )
}

# Plateaus end at steps 71 and 115. The lengths of plateaus are 140.7 and 115.9 in masked modelling,
# 7.4 and 5.7 in next-token prediction.
CASES: list[Case] = [
    (
        {"best_masked.64.curve.plateau": None},
        {"plateau": False, "ends-later-for-larger-d": False},
    ),
    ({"best_masked.256.curve.plateau.end": 78.0}, {"ends-later-for-larger-d": False}),
    ({"best_masked.256.curve.plateau.end": 79.0}, {}),
    ({"best_masked.256.record.config.training.batch": 8192}, {"ends-later-for-larger-d": False}),
    ({"masked_lengths.64.ratio": 7.3}, {"more-evident": False}),
    ({"masked_lengths.256.ratio": 5.6}, {"more-evident": False}),
    ({"masked_lengths.256.ratio": 5.8}, {}),
    ({"masked_lengths.256.ended": False}, {"more-evident": None}),
    ({"masked_lengths.256.ended": False, "masked_lengths.64.ratio": 7.3}, {"more-evident": False}),
    # A plateau that has not ended may become longer.
    ({"masked_lengths.64.ended": False, "masked_lengths.64.ratio": 7.3}, {"more-evident": None}),
    ({"causal_lengths.64.ended": False}, {"more-evident": None}),
    ({"causal.64.record.config.model.layers": 2}, {"more-evident": None}),
    (
        {"masked_like_causal.64.record.config.model.layers": 2, "masked_lengths.64.ratio": 7.3},
        {"more-evident": None},
    ),
    ({"masked_lengths.64": NO_PLATEAU}, {"more-evident": False}),
    ({"causal_lengths.64.ratio": 141.0}, {"more-evident": False}),
    ({"causal_lengths.64": NO_PLATEAU}, {}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("mlm_losses", case, PAPERS)


def test_rotary_positions_decide_nothing() -> None:
    study, result = all_studies()["mlm_losses"], committed("mlm_losses")
    assert set(outcomes(study, result).values()) == {None}
    assert "rotary positions (paper: learned)" in study.verdicts(result)[0].why
    assert set(outcomes(study, edited(result, PAPERS)).values()) == {True}


@pytest.mark.parametrize(
    "edits",
    [
        {f"best_masked.{size}.record.validation": [] for size in (64, 256)},
        {f"best_masked.{size}.curve.plateau": None for size in (64, 256)},
        {f"masked_lengths.{size}": NO_PLATEAU for size in (64, 256)},
    ],
)
def test_missing_numbers_are_drawn(edits: dict[str, object]) -> None:
    draw("mlm_losses", edited(committed("mlm_losses"), edits))


def run(positions: str, *steps: int) -> TrainingRun:
    config = {"model": {"positions": positions}}
    training = curve(*((step, 1.2) for step in steps))
    return summarise(Record(config, {}, 1.0, 1, 1.0, training, []))


def test_masked_runs_are_compared_with_the_best_masked_runs() -> None:
    best, masked, causal = run("rotary", 5, 300), run("learned", 5), run("learned", 5, 100)
    result = compare({64: best}, {64: masked}, {64: causal}, {64: 3.0})
    assert result.masked_lengths[64] == plateau_length(masked.curve, best.curve)
    assert result.causal_lengths[64] == plateau_length(causal.curve)
    assert result.masked_lengths[64].ratio > result.causal_lengths[64].ratio
    assert result.other_runs == {64: masked}
    assert compare({64: best}, {64: best}, {64: causal}, {64: 3.0}).other_runs == {}


def test_tokens_per_word_come_from_the_last_validation() -> None:
    rows = [
        {"validation_loss": 3.0, "validation_nats_per_word": 3.3},
        {"validation_loss": 2.0, "validation_nats_per_word": 3.0},
    ]
    training = curve((5, 1.2))
    assert summarise(Record({}, {}, 1.0, 1, 1.0, training, rows)).tokens_per_word == 1.5
    gaps = [{"validation_loss": 2.0, "validation_nats_per_word": None}]
    assert summarise(Record({}, {}, 1.0, 1, 1.0, training, gaps)).tokens_per_word is None
    assert summarise(Record({}, {}, 1.0, 1, 1.0, training, [])).tokens_per_word is None
