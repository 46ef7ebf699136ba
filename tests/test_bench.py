"""`nt bench`: which subjects there are, and how speeds are compared."""

from collections.abc import Callable
from pathlib import Path

from arithmetext import bench
from arithmetext.bench.comparison import compare


def test_every_subject_has_a_file() -> None:
    folder = Path(bench.__file__).parent
    others = {"__init__", "comparison", "hugging_face"}
    assert {path.stem for path in folder.glob("*.py")} - others == set(bench.SUBJECTS)


def test_the_best_of_several_rounds_counts() -> None:
    def timer(*seconds: float) -> Callable[[], float]:
        return iter(seconds).__next__

    report = compare(
        {
            "ours": {"few": timer(3.0, 1.0), "many": timer(8.0, 9.0)},
            "peer": {"few": timer(4.0, 5.0)},
        },
        {"few": 2_000_000, "many": 4_000_000},
        unit="millions a second",
        conditions={"text": "none"},
        rounds=2,
    )
    assert report["conditions"].pop("machine")
    assert report == {
        "conditions": {"best of": 2, "text": "none"},
        "unit": "millions a second",
        "ours": {"few": 2.0, "many": 0.5},
        "peers": {"peer": {"few": 0.5}},
        "ratio": {"peer": {"few": 4.0}},
    }
