import pytest

from arithmetext.evaluation.learning import LossCurve, loss_curve
from arithmetext.paper.runs import Record
from arithmetext.paper.studies._losses import TrainingRun, summarise
from arithmetext.paper.studies.mlm_losses import NO_PLATEAU, compare, plateau_length
from test_learning import curve

from .cases import Case, check, committed, draw, edited

# Plateaus end at steps 71 and 115. Their lengths are 140.7 and 115.9, those of next-token
# prediction 7.4 and 5.7.
CASES: list[Case] = [
    (
        {"trained.64.curve.plateau": None},
        {"plateau": False, "ends-later-for-larger-d": False},
    ),
    ({"trained.256.curve.plateau.end": 78.0}, {"ends-later-for-larger-d": False}),
    ({"trained.256.curve.plateau.end": 79.0}, {}),
    ({"trained.256.record.config.training.batch": 8192}, {"ends-later-for-larger-d": False}),
    ({"masked_lengths.64.ratio": 7.3}, {"more-evident": False}),
    ({"masked_lengths.256.ratio": 5.6}, {"more-evident": False}),
    ({"masked_lengths.256.ratio": 5.8, "masked_lengths.256.ended": True}, {}),
    ({"masked_lengths.64": NO_PLATEAU}, {"more-evident": False}),
    ({"causal_lengths.64.ratio": 141.0}, {"more-evident": False}),
    ({"causal_lengths.64": NO_PLATEAU}, {}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("mlm_losses", case)


@pytest.mark.parametrize(
    "edits",
    [
        {f"trained.{size}.record.validation": [] for size in (64, 256)},
        {f"trained.{size}.curve.plateau": None for size in (64, 256)},
        {f"masked_lengths.{size}": NO_PLATEAU for size in (64, 256)},
    ],
)
def test_missing_numbers_are_drawn(edits: dict[str, object]) -> None:
    draw("mlm_losses", edited(committed("mlm_losses"), edits))


def falling(*steps: int) -> LossCurve:
    """A loss that falls by 1.2 around each of these steps."""
    return loss_curve(curve(*((step, 1.2) for step in steps)))


def test_a_plateau_between_two_falls() -> None:
    found = plateau_length(falling(5, 300), falling(5, 300))
    assert found.ended and 5 < found.ratio < 60


def test_a_plateau_at_the_end_counts_if_another_run_gets_below_it() -> None:
    found = plateau_length(falling(5), falling(5, 300))
    assert not found.ended and found.ratio > 100
    assert plateau_length(falling(5), falling(5)) == NO_PLATEAU


def test_without_another_run_a_plateau_at_the_end_counts_if_it_is_the_only_one() -> None:
    assert plateau_length(falling(5, 100), None).ended
    assert not plateau_length(falling(5), None).ended


def test_the_longer_of_two_plateaus_counts() -> None:
    """The run pauses between its falls, and rests at its end, where another run goes on."""
    early = falling(5, 20)
    assert early.plateau is not None
    lasting = plateau_length(early, falling(5, 20, 300))
    assert not lasting.ended
    assert lasting.ratio > early.plateau.end / early.plateau.begin


@pytest.mark.parametrize(
    ("masked", "trained", "causal", "longer"),
    [
        ((5, 100), (5, 100), (5, 50), True),
        ((5, 100), (5, 100), (5, 100), False),
        ((5, 100), (5, 100), (5, 150), False),
        ((5, 100), (5, 300), (5, 150), False),
        ((50,), (50,), (5, 50), False),
        ((5,), (5,), (5, 50), False),
        ((5,), (5, 300), (5, 150), True),
        ((900,), (5, 100), (5, 100), False),
        ((5, 300), (5, 300), (50,), False),
        ((5, 300), (5, 300), (2000,), True),
    ],
)
def test_which_task_has_the_longer_plateau(
    masked: tuple[int, ...], trained: tuple[int, ...], causal: tuple[int, ...], longer: bool
) -> None:
    """Each curve falls around the given steps."""
    ours = plateau_length(falling(*masked), falling(*trained))
    assert (ours.ratio > plateau_length(falling(*causal), None).ratio) == longer


def run(positions: str, *steps: int) -> TrainingRun:
    config = {"model": {"positions": positions}}
    training = curve(*((step, 1.2) for step in steps))
    return summarise(Record(config, {}, 1.0, 1, 1.0, training, []))


def test_masked_runs_are_compared_with_those_that_learn() -> None:
    trained, masked, causal = run("rotary", 5, 300), run("learned", 5), run("learned", 5, 100)
    result = compare({64: trained}, {64: masked}, {64: causal}, {64: 3.0})
    assert result.masked_lengths[64] == plateau_length(masked.curve, trained.curve)
    assert result.causal_lengths[64] == plateau_length(causal.curve, None)
    assert result.masked_lengths[64].ratio > result.causal_lengths[64].ratio
    assert result.other_runs == {64: masked}
    assert compare({64: trained}, {64: trained}, {64: causal}, {64: 3.0}).other_runs == {}


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
