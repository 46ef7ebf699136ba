"""Verdicts on made-up likelihoods: prompts that show the paper's observations, or do not."""

from typing import Any

import numpy as np
import pytest

from arithmetext.evaluation.codec import from_json, to_json
from arithmetext.evaluation.square_free import KINDS, RUNS, WAYS
from arithmetext.paper.studies import square_free_runs as study
from arithmetext.paper.study import all_studies

from .cases import draw, outcomes

PROMPTS = study.PromptsOfRuns(10**13, (16, 64), sequences=200, blocks=10, seed=0)
PLACES = 30

# The likelihoods of runs, relative to those of true prompts, in standard deviations: the HMM cannot
# tell, and the GPT-2 finds all runs unlikely, or those that never occur.
NOTHING = dict.fromkeys(RUNS, 0.0)
ALL_LOW = dict.fromkeys(RUNS, -5.0)
AS_IN_THE_PAPER = NOTHING | {4: -4.0, 5: -5.0, 6: -6.0}

Offsets = dict[tuple[str, int], dict[int, float]]


def arrays(offsets: Offsets, seed: int, places: int = PLACES) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    number = PROMPTS.sequences
    made = {f"{length} true": random.normal(size=number) for length in PROMPTS.lengths}
    for way in WAYS:
        for length in PROMPTS.lengths:
            for run, offset in offsets.get((way, length), NOTHING).items():
                made[f"{length} {way} {run}"] = random.normal(offset, size=number)
    return made | {f"four {kind}": random.normal(20, size=places) for kind in KINDS}


def result(
    gpt: Offsets, hmm: Offsets | None = None, *, stand_in: str = "", places: int = PLACES
) -> study.Result:
    outputs = {
        "GPT-2": [arrays(gpt, seed, places) for seed in range(3)],
        "HMM": [arrays(hmm or {}, seed, places) for seed in range(10, 12)],
    }
    return study.summarise(outputs, PROMPTS, stand_in)


def found(*args: Any, **named: Any) -> dict[str, bool | None]:
    return outcomes(all_studies()["square_free_runs"], result(*args, **named))


EVERYWHERE = [(way, length) for way in WAYS for length in PROMPTS.lengths]
INSERTED = ("inserted", 16)
KEYS = list(study.OBSERVATIONS)


def test_all_four_observations_can_agree() -> None:
    made = result({INSERTED: AS_IN_THE_PAPER})
    assert made.judged.name == "inserted, 16 tokens"
    assert outcomes(all_studies()["square_free_runs"], made) == dict.fromkeys(KEYS, True)
    assert made.seeds == {"GPT-2": 3, "HMM": 2}


@pytest.mark.parametrize(
    ("gpt", "hmm", "differing"),
    [
        (ALL_LOW, NOTHING, ["short-runs-within", "long-below-short"]),
        (ALL_LOW | {3: 0.0}, NOTHING, ["short-runs-within", "long-below-short"]),
        (AS_IN_THE_PAPER | {5: 0.0}, NOTHING, ["long-runs-unlikely", "long-below-short"]),
        (NOTHING, NOTHING, ["long-runs-unlikely", "long-below-short"]),
        (AS_IN_THE_PAPER, NOTHING | {4: -4.0}, ["hmm-long-runs-within"]),
        (AS_IN_THE_PAPER, NOTHING | {6: 4.0}, ["hmm-long-runs-within"]),
        (AS_IN_THE_PAPER, NOTHING | {2: -4.0}, []),
        # Runs of three are likelier than true prompts, so they are not within.
        (AS_IN_THE_PAPER | {3: 4.0}, NOTHING, ["short-runs-within"]),
        # All are unlikely, longer runs more so.
        ({2: -3.0, 3: -3.0, 4: -6.0, 5: -7.0, 6: -8.0}, NOTHING, ["short-runs-within"]),
    ],
)
def test_each_observation_can_differ(
    gpt: dict[int, float], hmm: dict[int, float], differing: list[str]
) -> None:
    """If all ways and lengths show the same."""
    outcome = found(dict.fromkeys(EVERYWHERE, gpt), dict.fromkeys(EVERYWHERE, hmm))
    assert outcome == {key: key not in differing for key in KEYS}


def test_an_interval_that_does_not_decide_is_not_tested() -> None:
    # The area of two normal distributions 1.812 standard deviations apart is 0.9.
    borderline = NOTHING | dict.fromkeys((4, 5, 6), -1.9)
    made = result(dict.fromkeys(EVERYWHERE, borderline))
    [verdict] = [v for v in study.verdicts(made) if v.key == "long-runs-unlikely"]
    assert verdict.agrees is None
    assert "does not decide" in verdict.why


def test_prompts_that_fit_the_description_are_judged() -> None:
    """Not those whose words are drawn by frequency; the longest of those that show as many."""
    assert result({("by frequency", 64): AS_IN_THE_PAPER}).judged.way != "by frequency"
    both = {("by residue", 16): AS_IN_THE_PAPER, ("by residue", 64): AS_IN_THE_PAPER}
    assert result(both).judged.name == "by residue, 64 tokens"
    more = {("by residue", 64): ALL_LOW, INSERTED: AS_IN_THE_PAPER}
    assert result(more).judged.name == "inserted, 16 tokens"


def test_verdicts_name_the_other_prompts_that_show_the_same() -> None:
    made = result({INSERTED: AS_IN_THE_PAPER, ("by frequency", 64): ALL_LOW})
    why = {verdict.key: verdict.why for verdict in study.verdicts(made)}
    assert "by frequency (64 tokens)" in why["long-runs-unlikely"]
    assert "Other prompts that show this one: none." in why["long-below-short"]


def test_a_small_model_tests_nothing() -> None:
    outcome = found({INSERTED: AS_IN_THE_PAPER}, stand_in="It is small.")
    assert outcome == dict.fromkeys(KEYS, None)


@pytest.mark.parametrize("places", [PLACES, 0])
def test_the_result_is_drawn_and_restored(places: int) -> None:
    made = result({INSERTED: AS_IN_THE_PAPER}, places=places)
    assert from_json(study.Result, to_json(made)) == made
    draw("square_free_runs", made)
    quoted = any("impossible words" in verdict.why for verdict in study.verdicts(made))
    assert quoted == bool(places)
