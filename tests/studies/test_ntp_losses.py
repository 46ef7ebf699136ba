import pytest

from arithmetext.paper.study import all_studies

from .cases import Case, check, committed, draw, edited, outcomes

# Plateaus end at steps 201, 243 and 272; each must end later than the one before by a tenth.
CASES: list[Case] = [
    (
        {"runs.1024.curve.plateau": None},
        {"plateau": False, "ends-later-for-larger-d": False},
    ),
    ({"runs.256.curve.plateau.end": 300.0}, {"ends-later-for-larger-d": False}),
    ({"runs.1024.curve.plateau.end": 266.0}, {"ends-later-for-larger-d": False}),
    ({"runs.1024.curve.plateau.end": 269.0}, {}),
    ({"runs.1024.record.config.training.batch": 8192}, {"ends-later-for-larger-d": False}),
    ({"parameters.1024": 89_000_000}, {"parameters": False}),
    ({"parameters.1024": 85_000_000}, {"parameters": False}),
    ({"parameters.1024": 88_000_000}, {}),
    (
        {"runs.256.record.config.model.layers": 2},
        {"plateau": None, "ends-later-for-larger-d": None, "parameters": None},
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("ntp_losses", case)


def test_small_models_without_validation_are_drawn() -> None:
    """Without validation the words per token are unknown, so the right plot stays empty."""
    edits = {
        f"runs.{size}.{field}": value
        for size in (64, 256, 1024)
        for field, value in {
            "record.validation": [],
            "tokens_per_word": None,
            "record.config.model.layers": 2,
        }.items()
    }
    result = edited(committed("ntp_losses"), edits)
    assert outcomes(all_studies()["ntp_losses"], result)["parameters"] is None
    draw("ntp_losses", result)
