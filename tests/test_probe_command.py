"""`nt probe`: the table, the JSON, and what is refused before any probe is fitted."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arithmetext.evaluation import probes, subjects
from arithmetext.evaluation.estimates import Estimate, format_estimate
from arithmetext.evaluation.probes import (
    CONTROLS,
    ORDERED,
    UNTRAINED,
    Decoded,
    ProbeSettings,
    functions,
    position_ranges,
    probe_scores,
    summarise,
)
from arithmetext.models.files import save
from arithmetext.models.hmm import HMM, HMMConfig
from arithmetext.tokens import BPE
from conftest import Run

PLACES = 10**13, 98 * 10**9
OPTIONS = ["--primes", "4,3", "--windows", "11", "--seeds", "2", "--at", "1e13", "--at", "98e9"]
# Eleven windows to fit on, and the next multiple of ten to test on.
HOW = ProbeSettings(
    moduli=(4, 3), places=PLACES, windows=11, token_windows=44, tested=20, blocks=10, seeds=2
)


def decoded(run: Path) -> dict[int, list[Decoded]]:
    """What the command should print."""
    model = subjects.subject(str(run), PLACES[0])
    arrays = probe_scores(model, HOW)
    return {at: summarise([arrays], HOW, model.context, at) for at in PLACES}


def best_layer(found: Decoded) -> int:
    accuracies = [estimate.value for estimate in found.layers[-1]]
    return accuracies.index(max(accuracies, key=lambda value: value or 0))


def test_the_table_names_every_column(nt: Run, finished: Path) -> None:
    answer = nt("probe", finished, *OPTIONS)
    assert (answer.returncode, answer.stderr) == (0, "")
    about, *tables = answer.stdout.split("\n\n")
    assert about.startswith("GPT-2, 1 layer, ") and about.endswith(f"({finished})")
    expected = decoded(finished)
    for place, title, table in zip(("1e13", "9.8e10"), tables[::2], tables[1::2], strict=True):
        assert title == f"n mod p near {place}, positions 16 to 31: accuracy after each layer"
        header, *rows = table.splitlines()
        columns = ["modulus", "chance", "tokens", "1", "best layer", "untrained", *ORDERED]
        assert re.split("  +", header) == columns
        for row, found in zip(rows, expected[int(float(place))], strict=True):
            last, best = found.layers[-1], best_layer(found)
            values = [1 / found.modulus, *(estimate.value for estimate in last)]
            controls = [found.controls[name].value for name in (UNTRAINED, *ORDERED)]
            assert row.split() == [
                str(found.modulus),
                *(f"{value:.3f}" for value in values),
                f"{['tokens', '1'][best]}:",
                *format_estimate(last[best]).split(),
                *(f"{value:.3f}" for value in controls),
            ]


def test_json_names_layers_functions_and_intervals(nt: Run, finished: Path) -> None:
    made = json.loads(nt("probe", finished, *OPTIONS, "--json").stdout)
    rows = made.pop("probes")
    assert made.pop("model").startswith("GPT-2, ")
    assert made == {
        "run": str(finished),
        "positions": [list(each) for each in position_ranges(32)],
        "layers": ["tokens", 1],
        "windows": 11,
        "tested": 20,
        "seeds": 2,
    }
    assert [(row["at"], row["modulus"]) for row in rows] == [(a, m) for a in PLACES for m in (4, 3)]

    def named(estimate: Estimate) -> dict[str, Any]:
        return dict(zip(("value", "low", "high"), estimate, strict=True))

    every = [each for found in decoded(finished).values() for each in found]
    for row, found in zip(rows, every, strict=True):
        assert row["chance"] == 1 / row["modulus"]
        assert row["accuracy"] == [[named(each) for each in layers] for layers in found.layers]
        assert row["best_layer"] == ["tokens", 1][best_layer(found)]
        controls = {*CONTROLS, "counts of the last 64 tokens"} - {"counts"}
        assert set(row["controls"]) == set(row["margins"]) == controls
        assert row["controls"]["untrained"] == named(found.controls[UNTRAINED])
        # R² by layer.
        assert len(row["explained"]) == len(functions(found.modulus).names)
        for basis, first in ("class", 0), ("frequency", 1), ("character", 1):
            for k, values in enumerate(zip(*found.explained.get(basis, ()), strict=True)):
                assert row["explained"][f"{basis} {first + k}"] == list(values)
    assert "character 1" in rows[1]["explained"] and "character 1" not in rows[0]["explained"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--at", "1e13", "--at", "1e19"], "1e19 is too large: the text to test on would end"),
        # The tenth block begins 1.8 % further on.
        (["--at", "9.2e18"], "9.2e18 is too large: the text to test on would end beyond 2^63"),
        (["--at", "1e13", "--at", "5e10"], "the integers around 5e10 were used for training"),
        (["--at", "1e13", "--at", "10^13"], "--at names 1e13 twice"),
        (["--at", "-5"], "--at must be at least 2, not -5"),
        (["--at", "x"], "--at: not a number: 'x'"),
        (["--primes", ""], "--primes: an empty item (write 2,3,5)"),
        (["--primes", ","], "--primes: an empty item (write 2,3,5)"),
        (["--primes", "2,,3"], "--primes: an empty item (write 2,3,5)"),
        (["--primes", "2,x"], "--primes: not a number: 'x'"),
        (["--primes", "2,3,2"], "--primes names 2 twice"),
        (["--primes", "2,1"], "a modulus is from 2 to 1000, not 1"),
        (["--windows", "9"], "--windows must be at least 10, not 9"),
        (["--seeds", "0"], "--seeds must be at least 1, not 0"),
    ],
)
def test_bad_input_is_refused_before_probes_are_fitted(
    refused: Callable[..., str],
    finished: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    complaint: str,
) -> None:
    monkeypatch.setattr(probes, "probe_scores", None)
    assert refused("probe", finished, *arguments).startswith(f"nt: {complaint}")


@pytest.mark.parametrize("name", ["locator", "ngram-8", "oracle-13"])
def test_baselines_are_refused_before_they_are_made(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(subjects, "subject", None)
    assert refused("probe", name) == (
        f"nt: {name} has no residual stream: nt probe reads a trained model (a run's folder, or"
        " one of pretrained, longconv, record)"
    )


def test_a_trained_hmm_is_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    tokens = BPE.train(16, lines=64)
    save(HMM(HMMConfig(states=4, context=16), vocabulary=16), tokens, tmp_path / "hmm")
    assert (
        "hidden Markov model" in (answer := refused("probe", "hmm"))
        and "no residual stream" in answer
    )


def test_what_is_no_model_is_named(
    refused: Callable[..., str], finished: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    assert refused("probe", "empty") == "nt: empty holds no model: it has no config.json"
    for name in "''", "nowhere":  # baselines cannot be probed, so they are not offered
        assert refused("probe", name.strip("'")) == (
            f"nt: there is no folder {name}; models without a folder are: pretrained, longconv,"
            " record"
        )
    # Interrupted before the first checkpoint.
    for path in ("model", "checkpoints"):
        (finished / path).rename(tmp_path / path)
    assert refused("probe", "run") == (
        "nt: run has no model: its run is not finished, or the model was removed;"
        " nt train --resume --out run continues the run or writes the model again"
    )


def test_training_on_a_surrogate_is_said(nt: Run, finished: Path) -> None:
    config = finished / "config.json"
    trained_on = "The model was trained on this text."
    real = nt("generate", "run", "--words", 2, "--at", "1e10").stdout
    assert trained_on in real and "surrogate" not in real
    config.write_text(json.dumps(json.loads(config.read_text()) | {"surrogate": 7}))
    said = "trained on surrogate text 7 and tested on the real text"
    shown = nt("generate", "run", "--words", 2, "--at", "1e10").stdout
    assert said in shown.splitlines()[0] and trained_on not in shown
    few = ("--primes", 3, "--windows", 10, "--seeds", 1)
    assert said in nt("probe", "run", *few).stdout.splitlines()[0]
    assert json.loads(nt("probe", "run", *few, "--json").stdout)["model"].endswith(said)
