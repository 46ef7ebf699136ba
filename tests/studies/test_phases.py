"""How soon residues are known, on made-up numbers: what the texts and figures make of them."""

from dataclasses import replace

from arithmetext.evaluation.estimates import Estimate
from arithmetext.models.config import PhasesConfig
from arithmetext.paper.runs import TrainingFacts
from arithmetext.paper.studies import phases as study
from arithmetext.paper.studies.phases import Result

from .cases import Case, draw

CASES: list[Case] = []  # the paper has no such model
FACTS = TrainingFacts(2**24, 1200.0, "cpu", "a whole word", stand_in="")
PERIODS = list(PhasesConfig().periods)
LENGTHS = [2**k for k in range(1, 14)]


def certain(value: float) -> Estimate:
    return Estimate(value, value - 0.01, value + 0.01)


def made_up() -> Result:
    """A period is known after it has come 30 times."""
    how = study.settings("gpu")
    known = [[None if q > n else float(q * 30 <= n) for q in PERIODS] for n in LENGTHS]
    return Result(
        periods=PERIODS,
        layers=[1 + k % 3 for k in range(len(PERIODS))],
        lengths=LENGTHS,
        known=known,
        sure=known,
        nats=[
            [certain(more - k / 8) for k in range(bits)] for more, bits in ((3, 13), (3.125, 12))
        ],
        tested=how.phases.tested,
        scored=how.scored,
        training=[FACTS, FACTS],
        sizes=[2_000_000, 4_000_000],
    )


def test_the_text_counts_what_is_known_at_the_end() -> None:
    known = sum(q * 30 <= 8192 for q in PERIODS)
    short = study.in_short(made_up())
    assert f"After 8,192 words near 1e13 the model knows n modulo {known} of the 117" in short
    assert "After 2,048 to 4,095 tokens a word costs it 1.625 [1.615, 1.635] nats" in short
    assert "and 1.750 [1.740, 1.760] a model with long convolutions" in short


def test_half_of_the_windows_are_enough() -> None:
    result = made_up()
    half = [[None if x is None else 0.5 for x in row] for row in result.sure]
    less = [[None if x is None else 0.49 for x in row] for row in result.sure]
    assert "modulo 117 of the 117" in study.in_short(replace(result, sure=half))
    assert "modulo 0 of the 117" in study.in_short(replace(result, sure=less))
    draw("phases", replace(result, known=half))


def test_the_table_has_a_row_for_each_period() -> None:
    header, rows = study.table(made_up())
    assert [row[0] for row in rows] == PERIODS
    assert all(len(row) == len(header) for row in rows)
