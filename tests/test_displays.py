"""What notebooks show of trees, sentences, censuses, evaluations and run folders."""

import pickle
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arithmetext as api
from arithmetext import sources
from arithmetext.counting.census import unigram_entropy
from arithmetext.evaluation.report import Evaluation
from arithmetext.html import POINTS, WORDS
from arithmetext.training.run_folder import RunFolder
from conftest import Run
from tiny_runs import tiny

NAME = "<i>&\"'"  # a name that must be escaped


def parsed(html: str) -> ElementTree.Element:
    """HTML that is well formed and needs nothing besides itself."""
    root = ElementTree.fromstring(f"<body>{html}</body>")
    for element in root.iter():
        assert element.tag not in ("script", "style", "link", "img", "iframe", "i"), element.tag
        assert not {"id", "href", "src"} & set(element.attrib)
        assert not any(name.startswith("on") for name in element.attrib)
    assert not re.search(r"url\(|https?:", html)
    return root


def text(element: ElementTree.Element) -> str:
    return "".join(element.itertext())


def tables(html: str) -> list[list[list[str]]]:
    """The text of all cells, by table and row."""
    return [
        [[text(cell) for cell in row] for row in table.iter("tr")]
        for table in parsed(html).iter("table")
    ]


def drawn_edges(element: ElementTree.Element) -> int:
    return sum(each.tag.endswith("line") for each in element.iter())


# Trees


@given(st.integers(1, 10**12))
def test_the_picture_of_a_tree(n: int) -> None:
    svg = ElementTree.fromstring(api.tree(n)._repr_svg_())
    assert drawn_edges(svg) == api.tree(n).edges
    labels = [text(each) for each in svg.iter() if each.tag.endswith("text")]
    assert labels[0] == str(n) and len(labels) == api.tree(n).edges + 1
    assert not any(each.tag.endswith("style") for each in svg.iter())  # it would style the page


# Sentences


@given(st.integers(2, 10**13), st.integers(1, 40))
@settings(max_examples=25)
def test_a_sentence_is_its_words(lo: int, count: int) -> None:
    sentence = api.sentence(lo, lo + count)
    spelled = [api.word(n) for n in range(lo, lo + count)]
    assert list(sentence) == spelled == str(sentence).split(" ")
    assert len(sentence) == count
    assert eval(repr(sentence), {"Sentence": api.Sentence}) == sentence
    strip = parsed(sentence._repr_html_())[0]
    shown = zip(strip, range(lo, lo + min(count, WORDS)), spelled, strict=False)
    for cell, n, word in shown:
        assert text(cell) == f"{n}{word}"
        assert drawn_edges(cell) == len(word) // 2
    assert len(strip) == (count if count <= WORDS else WORDS + 1)


def test_a_long_sentence_is_shortened() -> None:
    strip = parsed(api.sentence(10**6, 10**15)._repr_html_())[0]  # no one makes all these words
    assert text(strip[-1]) == "… 999,999,999,000,000 words in all"


@pytest.mark.parametrize(("lo", "hi"), [(1, 5), (7, 7), (9, 2), (5, 2**63 + 1)])
def test_a_sentence_outside_the_text_is_refused(lo: int, hi: int) -> None:
    with pytest.raises(api.InputError):
        api.sentence(lo, hi)


# Censuses


def test_a_census_is_a_dict_that_knows_its_bound() -> None:
    census = api.census(100)
    assert census.x == 100
    assert census == dict(census) == api.count_words(2, 101)
    assert repr(census) == repr(dict(census))
    assert census.entropy == unigram_entropy(dict(census))
    again = pickle.loads(pickle.dumps(census))
    assert (again, again.x) == (census, 100)


@pytest.mark.parametrize("x", [2, 100, 10**6])
def test_the_table_of_a_census(x: int, nt: Run) -> None:
    census = api.census(x)
    [[titles, *rows]] = tables(census._repr_html_())
    assert titles == ["tree", "word", "count", "share", "least n"]
    printed = [line.split() for line in nt("census", x).stdout.splitlines()[1:-2]]
    assert [row[1:] for row in rows] == printed
    number = "1 word" if x == 2 else f"{len(census):,} words"
    assert f"{number}; {census.entropy:.6f} bits" in census._repr_html_()


# Evaluations


def estimate(value: float | None) -> dict[str, float | None]:
    return {"value": value, "low": value and value / 2, "high": value and value * 2}


def evaluation(**metrics: Any) -> Evaluation:
    metrics = {"at": 10**13, "window": (10**13, 10**13 + 10**6), **metrics}
    return Evaluation(NAME, "a <model>", 64, 8, 32, 3, metrics)


def test_the_tables_of_an_evaluation() -> None:
    scores = {name: estimate(0.25) for name in ("precision", "recall", "f1")}
    words = [
        {"word": word, "true": 5, "predicted": 7, **scores}
        for word in ["110010", "10"] + ["10"] * 30
    ]
    words[1]["precision"] = estimate(None)
    quality = {"accuracy": 0.4, "jensen_shannon": 0.125, "malformed": 0.0}
    made = {
        "slides": {"exact": {name: estimate(value) for name, value in quality.items()}},
        "alignment": {"collapsed": estimate(0.5), "slipped": estimate(0.1)},
        "words": words,
    }
    html = evaluation(generation=made, nats_per_word=estimate(2.0))._repr_html_()
    figures, (_, *rows) = tables(html)
    assert ["word accuracy of the continuations", "0.400 [0.200, 0.800]"] in figures
    assert ["nats per word, given the true words before it", "2.000 [1.000, 4.000]"] in figures
    assert rows[0] == ["", "110010", "5", "7", *["0.250 [0.125, 0.500]"] * 3]
    assert rows[1][4] == "–" and len(rows) == 12
    assert drawn_edges(parsed(html)) == 3 + 11
    assert text(parsed(html)).startswith(f"{NAME}: a <model>at 1e13: integers from 100")


def test_the_table_of_a_masked_model() -> None:
    rows = [
        {"masked": share, "beta": beta, "accuracy": estimate(share)}
        for share in (0.05, 0.5)
        for beta in (0.7, "inf")
    ]
    [table] = tables(evaluation(masked=rows)._repr_html_())
    assert table == [
        ["masked", "β = 0.7", "β = ∞"],
        ["5%", "0.050", "0.050"],
        ["50%", "0.500", "0.500"],
    ]


# Run folders


def test_a_run_folder_shows_its_losses(finished: Path) -> None:
    run = api.run_folder(finished)
    assert (run.folder, run.config, run.steps) == (finished, tiny("ntp", "training.steps=10"), 10)
    assert [step for step, _ in run.curve("loss")] == list(range(1, 11))
    assert [step for step, _ in run.curve("validation_loss")] == [5, 10]
    assert run.environment["torch"]
    root = parsed(run._repr_html_())
    last = run.curve("validation_loss")[-1][1]
    assert f"10 of 10 steps; validation loss {last:.4f} nats per token" in text(root)
    [line] = root.iter("polyline")
    assert len(list(root.iter("circle"))) == 2
    assert len(line.attrib["points"].split()) == 11


def test_the_curve_of_a_long_run_is_short_and_inside_the_picture() -> None:
    rows = [{"step": step, "loss": 5 - step / 1e4} for step in range(1, 10**4)]
    rows += [
        {"step": 5000, "validation_loss": 9.5},
        {"step": 6000, "validation_loss": float("nan")},
    ]
    root = parsed(RunFolder(Path(NAME), tiny(), rows, {})._repr_html_())
    assert text(root).startswith(NAME)
    [svg], [line] = root.iter("svg"), root.iter("polyline")
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert POINTS / 2 < len(points) <= POINTS + 1
    assert points == sorted(points)
    dots = [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in root.iter("circle")]
    assert len(dots) == 1 and dots[0][1] < min(y for _, y in points)  # 9.5 is the highest
    for x, y in [*points, *dots]:
        assert 0 < x < float(svg.attrib["width"]) and 0 < y < float(svg.attrib["height"])


@pytest.mark.parametrize("rows", [[], [{"step": 1, "loss": 2.0}], [{"step": 1, "loss": "high"}]])
def test_a_run_that_has_just_begun(rows: list[dict[str, Any]]) -> None:
    root = parsed(RunFolder(Path("run"), tiny(), rows, {})._repr_html_())
    assert f"{len(rows)} of 40 steps" in text(root)
    assert "validation loss" not in text(root)


def test_a_run_that_was_killed_has_the_rows_that_are_whole(finished: Path) -> None:
    path = finished / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    assert api.run_folder(str(finished)).steps == 10
    path.unlink()
    assert api.run_folder(finished).steps == 0


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", None, "is not the folder of a run: it has no config.json"),
        ("config.json", "[", "is not the configuration of a run"),
        ("environment.json", None, "cannot read .*environment.json: No such file"),
        ("environment.json", "{", "environment.json is damaged"),
        ("environment.json", "[1]", "environment.json is damaged"),
        ("environment.json", "[" * 100_000, "environment.json is damaged"),
        ("metrics.jsonl", "folder", "cannot read .*metrics.jsonl: Is a directory"),
    ],
)
def test_a_damaged_folder_is_refused(
    finished: Path, file: str, content: str | None, message: str
) -> None:
    (finished / file).unlink()
    if content == "folder":
        (finished / file).mkdir()
    elif content is not None:
        (finished / file).write_text(content)
    with pytest.raises(api.InputError, match=message) as refused:
        api.run_folder(finished)
    assert "\n" not in str(refused.value)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(api.InputError, match="nowhere is not the folder of a run"):
        api.run_folder(tmp_path / "nowhere")


# Sources


def test_a_change_of_a_picture_discards_no_cached_result() -> None:
    for module in ("trees", "counting.census", "text.sentence", "training.run_folder"):
        assert not {"html.py", "drawing.py"} & sources.of_module(module).keys()
