"""`nt probe`: its table, its JSON and what it refuses, with a small model."""

import json

import pytest

from arithmetext.evaluation import probes, subjects
from arithmetext.evaluation.probes import CONTROLS, ORDERED, UNTRAINED, ProbeSettings
from conftest import Run
from test_interventions import AT, CONTEXT, LAYERS, subject


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> list[ProbeSettings]:
    """`nt` finds the small model under every name; the settings that probes are made with."""
    settings = []
    scores = probes.probe_scores

    def watch(model: subjects.EvaluatedModel, how: ProbeSettings) -> dict[str, object]:
        settings.append(how)
        return scores(model, how)

    monkeypatch.setattr(subjects, "subject", lambda name, at: subject())
    monkeypatch.setattr(probes, "probe_scores", watch)
    return settings


OPTIONS = "probe", "tiny", "--primes", "2,3", "--windows", 11, "--seeds", 2


def test_table(nt: Run, small: list[ProbeSettings]) -> None:
    answer = nt(*OPTIONS, "--at", AT)
    assert (answer.returncode, answer.stderr) == (0, "")
    first, empty, title, _, header, *rows = answer.stdout.splitlines()
    assert first == f"{subject().model.description} (tiny)" and not empty
    assert title == (
        f"n mod p near 9.8e10, positions {CONTEXT // 2} to {CONTEXT - 1}: accuracy after each layer"
    )
    names = ["p", "chance", "tokens", *map(str, range(1, LAYERS + 1)), "best", UNTRAINED]
    assert header.split() == [*names, *" ".join(ORDERED).split()]
    assert len({len(line) for line in (header, *rows)}) == 1
    assert [row.split()[:2] for row in rows] == [["2", "0.500"], ["3", "0.333"]]
    for row in rows:
        *layers, best = row.split()[2 : 3 + LAYERS + 1]
        assert best == max(layers)
    [how] = small
    # Test windows are shared equally by ten blocks; maps of the text have more to be fitted on.
    assert (how.windows, how.tested, how.token_windows, how.seeds) == (11, 20, 44, 2)


def test_json_has_the_numbers_of_the_table(nt: Run) -> None:
    answer = nt(*OPTIONS, "--at", AT, "--at", 10**12, "--json")
    assert answer.returncode == 0
    found = json.loads(answer.stdout)
    assert (found["windows"], found["tested"], found["seeds"]) == (11, 20, 2)
    assert found["positions"][-1] == [CONTEXT // 2, CONTEXT]
    rows = [(row["at"], row["modulus"], row["chance"]) for row in found["probes"]]
    assert rows == [(AT, 2, 1 / 2), (AT, 3, 1 / 3), (10**12, 2, 1 / 2), (10**12, 3, 1 / 3)]
    for row in found["probes"]:
        assert row["controls"].keys() == row["margins"].keys() == set(CONTROLS)
        best = max(value for value, _, _ in row["layers"][-1])
        for name, (value, low, high) in row["margins"].items():
            assert low <= value <= high
            assert value == pytest.approx(best - row["controls"][name][0])
    table = nt(*OPTIONS, "--at", AT).stdout.splitlines()
    shown = [line.split()[2 : 3 + LAYERS] for line in table[-2:]]
    layers = [row["layers"][-1] for row in found["probes"][:2]]
    assert shown == [[f"{value:.3f}" for value, _, _ in each] for each in layers]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--primes", "3,1"], "a modulus is from 2 to 1000, not 1"),
        (["--primes", "3,3"], "name one modulus or more, each once"),
        (["--primes", "3,x"], "not a number: 'x'"),
        (["--windows", "9"], "10"),
        (["--seeds", "0"], "1"),
    ],
)
def test_wrong_options_are_refused(
    nt: Run, small: list[ProbeSettings], options: list[str], message: str
) -> None:
    answer = nt("probe", "tiny", *options)
    assert answer.returncode == 2 and not answer.stdout
    assert message in answer.stderr
    assert not small


def test_a_model_without_training_text_is_refused(nt: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    answer = nt("probe", "oracle-13", "--primes", "3")
    assert answer.returncode == 2
    assert "oracle-13 has no training text to fit probes on" in answer.stderr
