"""`nt train` and `nt recipes`: mistakes, the list of recipes, and imports."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from conftest import Run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "which recipe?"),
        (("ntp-labtop",), "did you mean ntp-laptop?"),
        (("ntp-laptop", "--set", "lr=1"), "did you mean training.lr?"),
        (("ntp-laptop", "--set", "training.lr"), "NAME=VALUE"),
        (("ntp-laptop", "--set", "training.lr=fast"), "training.lr is a number, not 'fast'"),
        (("ntp-laptop", "--set", "training.batch=1000"), "multiple of model.context"),
        (("ntp-laptop", "--set", "n=1e4", "--set", "tokens.size=16"), "raise n or lower model"),
        (("ntp-laptop", "--search-lr", "1e-3,quick"), "--search-lr takes rates"),
        (("--resume", "--out", "nowhere"), "cannot read nowhere/config.json"),
        (("ntp-laptop", "--out", f"{sys.executable}/run"), "cannot make the folder"),
    ],
)
def test_mistakes_are_named(
    arguments: tuple[str, ...], message: str, refused: Callable[..., str]
) -> None:
    assert message in refused("train", *arguments)


def test_recipes_are_listed(nt: Run) -> None:
    listed = nt("recipes").stdout
    assert "ntp-paper" in listed
    assert "mlm-laptop" in listed
    assert json.loads(nt("recipes", "--json").stdout)["ntp-paper"]["model"]["layers"] == 12


def test_text_and_tokens_are_used_without_torch() -> None:
    modules = (
        "arithmetext.text.sieve, arithmetext.tokens, arithmetext.cli, arithmetext.paper.report"
    )
    script = f"import {modules}, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
