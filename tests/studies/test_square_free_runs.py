"""Verdicts on made-up likelihoods: prompts that show the paper's observations, or do not."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from arithmetext import sources
from arithmetext.evaluation.codec import from_json, to_json
from arithmetext.evaluation.estimates import Estimate
from arithmetext.evaluation.square_free import RUNS, WAYS
from arithmetext.evaluation.subjects import EvaluatedModel
from arithmetext.models.hmm import HMM, HMMConfig
from arithmetext.paper.studies import square_free_runs as study
from arithmetext.paper.study import all_studies
from arithmetext.text.splits import splits
from arithmetext.tokens import WordTokens

from .cases import Case, draw, edited, outcomes

PROMPTS = study.PromptsOfRuns(10**13, (16, 1024), sequences=200, blocks=10, seed=0)

# The likelihoods of runs, relative to those of true prompts, in standard deviations: the HMM cannot
# tell, and the GPT-2 finds all runs unlikely, or those that never occur.
NOTHING = dict.fromkeys(RUNS, 0.0)
ALL_LOW = dict.fromkeys(RUNS, -5.0)
AS_IN_THE_PAPER = NOTHING | {4: -4.0, 5: -5.0, 6: -6.0}

Offsets = dict[tuple[str, int], dict[int, float]]


def arrays(offsets: Offsets, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    number = PROMPTS.sequences
    made = {f"{length} true": random.normal(size=number) for length in PROMPTS.lengths}
    for way in WAYS:
        for length in PROMPTS.lengths:
            for run, offset in offsets.get((way, length), NOTHING).items():
                made[f"{length} {way} {run}"] = random.normal(offset, size=number)
    return made


def result(
    gpt: Offsets, hmm: Offsets | None = None, filtered: Offsets | None = None
) -> study.Result:
    outputs = {
        "GPT-2": [arrays(gpt, seed) for seed in range(3)],
        "HMM": [arrays(hmm or {}, seed) for seed in range(10, 13)],
        study.FILTER: [arrays(filtered or {}, seed) for seed in range(20, 23)],
    }
    return study.summarise(outputs, PROMPTS, {"GPT-2": "", "HMM": ""})


def found(*args: Any, **named: Any) -> dict[str, bool | None]:
    return outcomes(all_studies()["square_free_runs"], result(*args, **named))


EVERYWHERE = [(way, length) for way in WAYS for length in PROMPTS.lengths]
PRIMARY = ("by residue", 1024)
KEYS = [*study.OBSERVATIONS, "same-prompts"]


def test_all_claims_can_agree() -> None:
    """On the prompts that were chosen in advance, whatever the others show."""
    made = result({PRIMARY: AS_IN_THE_PAPER})
    assert outcomes(all_studies()["square_free_runs"], made) == dict.fromkeys(KEYS, True)
    assert made.seeds == {"GPT-2": 3, "HMM": 3, study.FILTER: 3}
    assert (made.primary.way, made.primary.length) == PRIMARY


@pytest.mark.parametrize(
    ("gpt", "hmm", "differing"),
    [
        (ALL_LOW, NOTHING, ["short-runs-within", "long-below-short"]),
        (ALL_LOW | {2: 0.0}, NOTHING, ["short-runs-within", "long-below-short"]),
        (AS_IN_THE_PAPER | {5: 0.0}, NOTHING, ["long-runs-unlikely", "long-below-short"]),
        (NOTHING, NOTHING, ["long-runs-unlikely", "long-below-short"]),
        (AS_IN_THE_PAPER, NOTHING | {4: -4.0}, ["hmm-long-runs-within"]),
        (AS_IN_THE_PAPER, NOTHING | {2: -4.0}, []),
        # Likelier than true prompts is likely, but not inside their bulk.
        (AS_IN_THE_PAPER | {3: 4.0}, NOTHING, []),
        (AS_IN_THE_PAPER, NOTHING | {6: 4.0}, ["hmm-long-runs-within"]),
        # All are unlikely, longer runs more so.
        ({2: -4.0, 3: -4.0, 4: -8.0, 5: -8.0, 6: -8.0}, NOTHING, ["short-runs-within"]),
        # By residue, runs of two are improbable by construction.
        (AS_IN_THE_PAPER | {2: -5.0}, NOTHING, []),
    ],
)
def test_each_claim_can_differ(
    gpt: dict[int, float], hmm: dict[int, float], differing: list[str]
) -> None:
    """If all ways and lengths show the same."""
    hmms = dict.fromkeys(EVERYWHERE, hmm)
    outcome = found(dict.fromkeys(EVERYWHERE, gpt), hmms, hmms)
    missing = [*differing, "same-prompts"] if differing else []
    assert outcome == {key: key not in missing for key in KEYS}


# The GPT-2 finds long runs unlikely by residue only. The HMM finds them unlikely too, unless they
# are inserted into long text.
BY_RESIDUE = {
    (way, length): AS_IN_THE_PAPER if way == "by residue" else NOTHING for way, length in EVERYWHERE
}
UNLIKELY = dict.fromkeys(EVERYWHERE, AS_IN_THE_PAPER)


@cache
def unlikely_by_residue() -> study.Result:
    return result(BY_RESIDUE, UNLIKELY | {("inserted", 1024): NOTHING}, UNLIKELY)


OUTCOMES = dict.fromkeys(KEYS, True) | {"hmm-long-runs-within": None, "same-prompts": False}

# Positions 2 and 3 are those of prompts by residue, the latter primary; 4 and 5 of inserted runs.
GPT, HMM_RUNS = "scored.3.models.GPT-2", "scored.3.models.HMM.runs"
WIDE, HIGH = Estimate(0.5, 0.1, 0.95), Estimate(0.9, 0.85, 0.95)
CASES: list[Case] = [
    ({f"{GPT}.runs.3.above_low": WIDE}, {"long-runs-unlikely": None}),
    ({f"{GPT}.runs.1.above_low": WIDE}, {"short-runs-within": None}),
    (
        {f"scored.{i}.models.GPT-2.runs.1.above_low": Estimate(0, 0, 0.1) for i in range(2, 6)},
        {"short-runs-within": False},
    ),
    ({f"{GPT}.runs.0.above_low": WIDE}, {}),
    ({f"{GPT}.separation": WIDE}, {"long-below-short": None}),
    ({f"{HMM_RUNS}.{k}.in_bulk": HIGH for k in (3, 4)}, {}),
    (
        {f"{HMM_RUNS}.{k}.in_bulk": HIGH for k in (2, 3, 4)},
        {"hmm-long-runs-within": True, "same-prompts": True},
    ),
    (
        {f"scored.{i}.models.HMM.runs.2.in_bulk": Estimate(0, 0, 0.1) for i in (4, 5)},
        {"hmm-long-runs-within": False},
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_cases_turn_what_they_name(case: Case) -> None:
    edits, expected = case
    made = edited(unlikely_by_residue(), edits)
    assert outcomes(all_studies()["square_free_runs"], made) == OUTCOMES | expected


def test_a_claim_that_holds_for_other_prompts_only_is_not_tested() -> None:
    for place in (("inserted", 16), ("by residue", 16)):
        made = result(dict.fromkeys(EVERYWHERE, ALL_LOW) | {place: AS_IN_THE_PAPER})
        by_key = {verdict.key: verdict for verdict in study.verdicts(made)}
        for key in ("short-runs-within", "long-below-short"):
            assert by_key[key].agrees is None
            assert "depends on how the prompts are made" in by_key[key].why
            assert f"It holds for: {place[0]} (16 tokens)." in by_key[key].why
        assert by_key["long-runs-unlikely"].agrees is True
        assert by_key["same-prompts"].agrees is True
        assert by_key["same-prompts"].ours == f"all four hold for prompts {place[0]} (16 tokens)"


def test_prompts_that_do_not_fit_the_description_decide_no_observation() -> None:
    outcome = found(dict.fromkeys(EVERYWHERE, ALL_LOW) | {("by frequency", 1024): AS_IN_THE_PAPER})
    assert outcome["short-runs-within"] is outcome["long-below-short"] is False
    assert outcome["same-prompts"] is True


def test_four_observations_of_different_prompts_are_not_together() -> None:
    """The longest show that long runs are unlikely, shorter ones that short runs are not."""
    gpt = {(way, length): ALL_LOW if length == 1024 else NOTHING for way, length in EVERYWHERE}
    outcome = found(gpt)
    assert outcome["long-runs-unlikely"] is True
    assert outcome["short-runs-within"] is None
    assert outcome["same-prompts"] is False


def test_intervals_that_do_not_decide_are_not_tested() -> None:
    # 80 % of a normal distribution are below the 2.5 % quantile of one 2.8 deviations above.
    borderline = NOTHING | dict.fromkeys((4, 5, 6), -2.8)
    made = result(dict.fromkeys(EVERYWHERE, borderline))
    by_key = {verdict.key: verdict for verdict in study.verdicts(made)}
    for key in ("long-runs-unlikely", "same-prompts"):
        assert by_key[key].agrees is None
        assert by_key[key].why.startswith("Tested, not decided: ")


def test_primary_prompts_that_do_not_decide_are_not_said_to_differ_from_others() -> None:
    """Though the claim holds for other prompts."""
    borderline = NOTHING | dict.fromkeys((4, 5, 6), -2.8)
    made = result(dict.fromkeys(EVERYWHERE, AS_IN_THE_PAPER) | {PRIMARY: borderline})
    first, *_ = study.verdicts(made)
    assert first.agrees is None
    assert first.why.startswith("Tested, not decided: ")
    assert "inserted (16 and 1024 tokens)" in first.why


def test_the_filter_does_not_refute_what_the_hmm_shows_as_it_was_trained() -> None:
    low = dict.fromkeys(EVERYWHERE, ALL_LOW)
    assert found({PRIMARY: AS_IN_THE_PAPER}, None, low) == dict.fromkeys(KEYS, True)


def test_what_only_the_filter_shows_is_not_tested() -> None:
    low = dict.fromkeys(EVERYWHERE, ALL_LOW)
    made = result(
        dict.fromkeys(EVERYWHERE, AS_IN_THE_PAPER), low, low | {("inserted", 16): NOTHING}
    )
    by_key = {verdict.key: verdict for verdict in study.verdicts(made)}
    for key in ("hmm-long-runs-within", "same-prompts"):
        assert by_key[key].agrees is None
        assert "how the HMM is read, which the paper does not say" in by_key[key].why
        assert "inserted (16 tokens)" in by_key[key].why


def test_a_small_model_tests_none_of_its_claims() -> None:
    hmms, both = "hmm-long-runs-within", "same-prompts"
    made = result({PRIMARY: AS_IN_THE_PAPER})
    for stand_in, untested in (
        (("It is small.", ""), set(KEYS) - {hmms}),
        (("", "It is small."), {hmms, both}),
        (("One is small.", "It is small."), set(KEYS)),
    ):
        both_models = dict(zip(("GPT-2", "HMM"), stand_in, strict=True))
        verdicts = study.verdicts(edited(made, {"stand_in": both_models}))
        assert {each.key for each in verdicts if each.agrees is None} == untested
        whys = {each.key: each.why for each in verdicts}
        assert whys[both].startswith(" ".join(filter(None, stand_in)))
        assert whys[hmms].startswith(stand_in[1])


def test_runs_above_the_bulk_are_named() -> None:
    high = NOTHING | {3: 9.0, 5: 9.0}
    made = result({PRIMARY: AS_IN_THE_PAPER | {3: 9.0}}, {PRIMARY: high})
    by_key = {verdict.key: verdict for verdict in study.verdicts(made)}
    almost = "are likelier than almost all true prompts"
    assert f"; 100 % of runs of 5 {almost}; HMM as" in by_key["hmm-long-runs-within"].ours
    short = by_key["short-runs-within"]
    assert short.agrees
    assert "0 [0, 2] % of runs of 3 lie between" in short.why
    assert f"100 % of runs of 3 {almost}." in short.why


def test_an_hmm_is_scored_in_both_readings() -> None:
    """As it was trained, from one token, and as a filter of whole prompts."""
    text = splits(10**8)
    tokenizer = WordTokens.commonest(64)
    model = HMM(HMMConfig(states=8, spread=3.0), vocabulary=64)
    subject = EvaluatedModel("it", model, tokenizer, 128, text.train, text.seen)
    prompts = study.PromptsOfRuns(10**9, (8, 16), sequences=3, blocks=2, seed=0)
    one, whole = (
        study.run_likelihoods(subject, prompts),
        study.filtered_run_likelihoods(subject, prompts),
    )
    assert (
        one.keys()
        == whole.keys()
        == {
            f"{length} {kind}"
            for length in (8, 16)
            for kind in ("true", *(f"{way} {run}" for way in WAYS for run in RUNS))
        }
    )
    assert all(len(values) == 3 for values in one.values())
    assert not any(np.allclose(one[name], whole[name]) for name in one)


def test_statistics_leave_kept_likelihoods_valid() -> None:
    for function in ("run_likelihoods", "filtered_run_likelihoods"):
        files = sources.of_function("paper.studies.square_free_runs", function)
        assert "evaluation/square_free.py" in files
        assert not {"evaluation/separation.py", "evaluation/estimates.py"} & files.keys()


def test_the_result_is_drawn_and_restored() -> None:
    made = result({PRIMARY: AS_IN_THE_PAPER})
    assert from_json(study.Result, to_json(made)) == made
    draw("square_free_runs", made)
