"""The report page: well-formed, self-contained, reproducible, and faithful to the results."""

import csv
import io
import json
import re
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest
from matplotlib.figure import Figure

from arithmetext import InputError
from arithmetext.evaluation.codec import to_json
from arithmetext.paper import report
from arithmetext.paper.report import findings
from arithmetext.paper.study import Verdict, all_studies, load
from conftest import changed

RESULTS = Path(__file__).parents[1] / "results/h200/data"

SMALL: dict[str, dict[str, Any]] = {
    "walks": {"count": 10**5, "below": 10**7, "lags": [10**3, 10**4]},
    "decided_sentences": {"searched_to": 10**5},
    "dictionary_growth": {},
}
ODD = "<b>5 | \"6\" & '7' %20</b>"
VOID = {"meta", "link", "input"}
OUTCOMES = {True: "agrees", False: "differs", None: "untested"}


class Page(HTMLParser):
    """The elements and the text of a page; fails if tags are not nested properly."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute of {tag} occurs twice"
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    def classes(self, tag: str, first: str) -> list[str]:
        """The other classes of all elements of a class."""
        found = [a["class"].split() for t, a in self.elements if t == tag and "class" in a]
        return [" ".join(others) for kind, *others in found if kind == first]

    def all(self, name: str) -> list[str]:
        """The values of an attribute, in the order of the page."""
        return [attributes[name] for _, attributes in self.elements if name in attributes]

    def count(self, tag: str) -> int:
        return sum(found == tag for found, _ in self.elements)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def read(folder: Path) -> Page:
    return Page(report.build(folder).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of some real studies, made small."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "data").mkdir()
    for name, changes in SMALL.items():
        study = all_studies()[name]
        settings = changed(study.settings("laptop"), **changes)
        store(folder, name, settings=settings, data=study.run(settings))
    report.build(folder)
    return folder


def csv_rows(page: Page) -> list[list[str]]:
    """The rows of the only CSV in a page."""
    [address] = [h for h in page.all("href") if h.startswith("data:text/csv")]
    return list(csv.reader(io.StringIO(unquote(address.partition(",")[2]))))


def store(folder: Path, name: str, **parts: Any) -> None:
    """Store a result as `perform` does."""
    result = {"study": name, "settings": {}, "sources": {}, "seconds": 30.0, "data": {}} | parts
    (folder / "data").mkdir(exist_ok=True)
    (folder / f"data/{name}.json").write_text(json.dumps(to_json(result)))


@pytest.fixture
def page(folder: Path) -> Page:
    return Page((folder / "index.html").read_text(encoding="utf-8"))


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A study that tests may change, with a result; it is the only study."""

    def plot(data: dict[str, Any]) -> Figure:
        figure = Figure()
        figure.subplots().set_title("x < y & z")
        return figure

    study = SimpleNamespace(
        __name__="made_up",
        Result=dict[str, Any],
        TITLE=f"Title {ODD}",
        settings=lambda scale: {"scale": scale},
        plot=plot,
        in_short=lambda data: f"In short {ODD}",
        caption=lambda data: f"Caption {ODD}",
        table=lambda data: ([f"Header {ODD}", "n"], [[f"Cell {ODD}", 1]]),
        verdicts=lambda data: [
            Verdict(
                key="key",
                criterion=f"Criterion {ODD}",
                claim=f"Claim {ODD}",
                paper=f"Paper {ODD}",
                ours=f"Ours {ODD}",
                agrees=False,
                why=f"Why {ODD}",
            )
        ],
        folder=tmp_path,
    )
    monkeypatch.setattr(findings, "all_studies", lambda: {"made_up": study})
    store(tmp_path, "made_up", settings={"scale": "gpu"})
    return study


def test_ids_are_unique_and_every_reference_has_one(page: Page) -> None:
    ids = page.all("id")
    assert len(ids) == len(set(ids))
    named = ("aria-labelledby", "aria-describedby", "for")
    referred = [each for name in named for value in page.all(name) for each in value.split()]
    referred += [h[1:] for h in page.all("href") + page.all("xlink:href") if h.startswith("#")]
    values = (value for _, attributes in page.elements for value in attributes.values())
    referred += [found for value in values for found in re.findall(r"url\(#([^)]+)\)", value)]
    assert len(referred) > 20
    assert set(referred) <= set(ids)


def test_nothing_is_fetched(folder: Path, page: Page) -> None:
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert set(re.findall(r"\w+://[\w./]*", text)) == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    for address in page.all("href") + page.all("xlink:href") + page.all("src"):
        assert address.startswith(("#", "data:"))
    assert "@import" not in text
    assert "<script" not in text


def test_studies_come_in_the_order_of_the_paper(page: Page) -> None:
    order = [name for name in all_studies() if name in SMALL]
    assert [a["id"] for tag, a in page.elements if tag == "section"] == order
    assert [h[1:] for h in page.all("href") if h[1:] in order][-len(order) :] == order  # contents
    assert re.findall(r"Figure (\d+)\. ", page.text) == ["1", "2", "3"]


def test_figures_have_a_title_and_a_description(page: Page) -> None:
    pictures = [attributes for _, attributes in page.elements if attributes.get("role") == "img"]
    assert [p["aria-labelledby"] for p in pictures] == ["the-finding"] + [
        f"{name}-title" for name in all_studies() if name in SMALL
    ]
    assert page.count("svg") == page.count("figcaption") == page.count("figure") == len(SMALL) + 1
    assert page.count("caption") == len(SMALL)


def test_the_page_opens_with_three_sentences_and_a_figure(page: Page) -> None:
    opening = page.text[: page.text.index("Contents and filter")]
    said = opening.partition("This page tests")[2].partition("Figure")[0]
    assert re.fullmatch(
        r" the claims of .* and took 1 min 30 s together\. \d+ claims: [^.]*\. [^.]*\. ", said
    )
    first = next(name for name in all_studies() if name in SMALL)
    assert page.text.count(said.split(". ")[2]) == 2  # here, and in the card
    assert f"Figure 1: {all_studies()[first].TITLE}" in opening


def test_the_headline_is_the_accuracy_if_it_is_there(tmp_path: Path) -> None:
    names = ["dictionary_growth", "accuracy_length", "baselines"]
    results = {name: json.loads((RESULTS / f"{name}.json").read_text()) for name in names}
    for name, result in results.items():
        store(tmp_path, name, **result)
    page = read(tmp_path)
    assert "Figure 2: Accuracy against the length generated" in page.text
    study = all_studies()["accuracy_length"]
    found, _, _ = study.in_short(load(study, tmp_path / "data").data).partition(". ")
    assert page.text.index(found) < page.text.index("Contents and filter")
    # Its shapes are in the page once, and shown twice.
    assert page.all("id").count("accuracy_length-figure") == 1
    assert page.all("href").count("#accuracy_length-figure") == 1
    assert page.count("svg") == len(names) + 1


def test_every_claim_is_in_the_card_of_its_study_once(page: Page, folder: Path) -> None:
    cards = (folder / "index.html").read_text(encoding="utf-8").split("<section ")[1:]
    for name, card in zip([name for name in all_studies() if name in SMALL], cards, strict=True):
        assert f'id="{name}"' in card
        study = all_studies()[name]
        verdicts = study.verdicts(load(study, folder / "data").data)
        text = Page(f"<section {card.partition('</section>')[0]}</section>").text
        for verdict in verdicts:
            assert text.count(f"{verdict.outcome} {verdict.claim} Paper") == 1
            assert f"Paper{verdict.paper}Here{verdict.ours}" in text
            assert f"Agrees if {verdict.criterion}." in text
            assert verdict.why in text
        kinds = Page(card.partition(">")[2].partition("</section>")[0]).classes("li", "claim")
        assert kinds == [OUTCOMES[verdict.agrees] for verdict in verdicts]
        assert text.count("Agrees if ") == len(verdicts)


def test_verdicts_are_counted(folder: Path, page: Page) -> None:
    kinds = page.classes("li", "claim")
    agree, differ = kinds.count("agrees"), kinds.count("differs")
    assert agree and differ
    counted = f"{agree + differ} claims: {agree} agree, {differ} differ"
    assert re.search(rf"together\. {counted}s?\. ", page.text)
    assert f"all {agree + differ} ✓ agrees {agree} ≠ differs {differ} ○ not tested" in page.text
    summary = report.summary(folder)
    assert summary.startswith(counted)
    assert summary.count("| ✓ agrees |\n") == agree
    assert summary.count("| ≠ differs |\n") == differ


def test_claims_that_are_not_tested_are_counted_separately(made_up: SimpleNamespace) -> None:
    verdict = partial(Verdict, key="key", paper="", ours="", criterion="")
    claims = [verdict(claim="A", agrees=each) for each in (True, False)]
    claims += [verdict(claim=c, agrees=None, why="Few.") for c in "BC"]
    made_up.verdicts = lambda data: claims
    page = read(made_up.folder)
    counted = "4 claims: 1 agrees, 1 differs, 2 not tested here"
    assert page.text.count(counted) == 3  # in the summary, the contents and the card
    assert "✓1 ≠1 ○2" in page.text
    assert page.classes("li", "claim") == ["agrees", "differs", "untested", "untested"]
    assert page.text.count("○ not tested here B") == page.text.count("○ not tested here C") == 1
    assert page.text.count("Few.") == 2
    summary = report.summary(made_up.folder)
    assert summary.startswith(counted)
    assert summary.count("| ○ not tested here: Few. |\n") == 2


def test_the_filter_keeps_cards_and_contents_with_a_matching_claim(
    made_up: SimpleNamespace,
) -> None:
    verdict = partial(Verdict, key="key", claim="A", paper="", ours="", criterion="", why="Few.")
    for outcomes, kinds in (
        ([None, True], "agrees untested"),
        ([False], "differs"),
        ([], ""),
    ):
        made_up.verdicts = lambda data, outcomes=outcomes: [verdict(agrees=a) for a in outcomes]
        page = read(made_up.folder)
        assert page.classes("section", "card") == page.classes("li", "entry") == [kinds]
    # Without claims there is nothing to choose among; else all are shown at first.
    assert "outcome" not in page.all("name")
    made_up.verdicts = lambda data: [verdict(agrees=True)]
    radios = [a for _, a in read(made_up.folder).elements if a.get("name") == "outcome"]
    assert [a["id"] for a in radios if "checked" in a] == ["show-all"]
    style = (Path(report.__file__).parent / "style.css").read_text()
    for radio in radios[1:]:
        kind = radio["id"].removeprefix("show-")
        hidden = f"body:has(#show-{kind}:checked) :is(.claim, .card, .entry):not(.{kind})"
        assert hidden in style
    assert "@supports not selector(:has(a)) { .filter { display: none; } }" in style


def test_times_are_added_up(page: Page) -> None:
    assert "took 1 min 30 s together" in page.text
    assert page.text.count("The study took 30.0 s.") == len(SMALL)


def test_custom_settings_are_named(page: Page) -> None:
    assert "ran at laptop or gpu or paper scale (with custom settings:" in page.text


def test_the_same_data_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    for path in (folder / "data").glob("*.json"):
        store(tmp_path, path.stem, **json.loads(path.read_text()))
    report.build(tmp_path)
    written = [path.relative_to(folder) for path in folder.rglob("*.*")]
    assert len(written) == 3 * len(SMALL) + 1
    for path in written:
        assert (tmp_path / path).read_bytes() == (folder / path).read_bytes()


def test_the_csv_in_the_page_equals_the_csv_file(folder: Path, page: Page) -> None:
    links = {a["download"]: a["href"] for _, a in page.elements if "download" in a}
    assert len(links) == len(SMALL)
    for name, address in links.items():
        kind, _, content = address.partition(",")
        assert kind == "data:text/csv;charset=utf-8"
        assert unquote(content) == (folder / "data" / name).read_text(encoding="utf-8")


def test_everything_is_escaped(made_up: SimpleNamespace) -> None:
    store(made_up.folder, "made_up", settings={f"Key {ODD}": [f"First {ODD}", f"Second {ODD}"]})
    page = read(made_up.folder)
    texts = ("Title", "In short", "Caption", "Claim", "Paper", "Ours", "Criterion", "Why")
    for part in (*texts, "Header", "Cell", "Key", "First", "Second"):
        assert f"{part} {ODD}" in page.text
    assert csv_rows(page) == [[f"Header {ODD}", "n"], [f"Cell {ODD}", "1"]]


def test_the_summary_is_a_table_whatever_the_claims_contain(made_up: SimpleNamespace) -> None:
    _, _, head, _, row = report.summary(made_up.folder).splitlines()
    assert len(re.split(r"(?<!\\)\|", row)) == len(head.split("|"))


def test_settings_are_readable(made_up: SimpleNamespace) -> None:
    settings = {
        "trained_models": {"GPT": ["ntp-laptop", "training.steps=4"], "HMM": ["hmm-paper"]},
        "at": [10**13, 16_777_216],
        "exact": True,
        "share": 0.25,
        "shift": -1,
        "limit": None,
    }
    store(made_up.folder, "made_up", settings=settings)
    page = read(made_up.folder)
    for shown in ("trained models", "ntp-laptop, training.steps=4", "1e13, 16,777,216"):
        assert shown in page.text
    assert page.count("dl") == 2 + 1  # one has the numbers of the claim
    assert page.count("dt") == page.count("dd") == 8 + 2
    assert not re.search(r"\['|\{'|True|None", page.text)


def test_a_study_may_have_no_verdicts_and_no_rows(made_up: SimpleNamespace) -> None:
    made_up.verdicts = lambda data: []
    made_up.table = lambda data: (["n"], [])
    page = read(made_up.folder)
    paper = "Testing Transformer Learnability on the Arithmetic Sequence of Rooted Trees"
    assert f"This page shows 1 study that tests no claim of {paper} with" in page.text
    assert "; the study ran at gpu scale and took 30.0 s. In short" in page.text
    assert "This study tests no claim of the paper." in page.text
    assert "0 claims" not in page.text
    assert report.summary(made_up.folder) == "1 study that tests no claim of the paper.\n"
    assert page.count("table") == 0
    assert page.all("download") == []
    assert (made_up.folder / "data/made_up.csv").read_text() == "n\n"


def test_long_tables_are_truncated_and_say_so(made_up: SimpleNamespace) -> None:
    made_up.table = lambda data: (["n", "share"], [[n, None] for n in range(1234)])
    made_up.verdicts = lambda data: []
    page = read(made_up.folder)
    assert "the first 200 of 1,234 rows; the CSV has all 1,234" in page.text
    assert page.count("tr") == 201
    assert len(csv_rows(page)) == 1235


@pytest.mark.parametrize("damaged", ['{"study": "made', '{"study": "made_up"}', "[]"])
def test_a_damaged_result_is_left_out(
    made_up: SimpleNamespace, damaged: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (made_up.folder / "data/made_up.json").write_text(damaged)
    with pytest.raises(InputError, match="no results"):
        report.build(made_up.folder)
    assert re.fullmatch(r"left out: .*made_up\.json does not fit .*\n", capsys.readouterr().err)
    assert not (made_up.folder / "index.html").exists()


def test_a_result_that_does_not_fit_does_not_hide_the_others(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (folder / "data").glob("*.json"):
        store(tmp_path, path.stem, **json.loads(path.read_text()))
    store(tmp_path, "walks", data={"count": 5})
    page = read(tmp_path)
    assert page.count("section") == len(SMALL) - 1
    assert "walks" not in page.all("id")
    assert capsys.readouterr().err.count("left out") == 1
    assert not (tmp_path / "figures/walks.svg").exists()
