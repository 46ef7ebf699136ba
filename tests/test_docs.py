"""README.md and docs/: numbers are those of the results, links lead somewhere, examples work."""

import doctest
import importlib
import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from arithmetext.models.files import save
from arithmetext.paper import quotes
from arithmetext.text.splits import splits
from arithmetext.training.recipes import recipe
from conftest import Run

ROOT = Path(__file__).parents[1]
PAGES = quotes.pages(ROOT)


@pytest.fixture(scope="module")
def fill_in():
    return quotes.quoter(ROOT / "results" / "h200" / "data")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_quoted_numbers_are_those_of_the_results(page: Path, fill_in) -> None:
    text = page.read_text(encoding="utf-8")
    assert fill_in(text) == text, "run: python -m arithmetext.paper.quotes"


def test_quotes_are_filled_in(fill_in) -> None:
    quoted = fill_in(
        "a <!-- quote claims -->nothing<!-- end --> b <!-- quote claims --><!-- end -->"
    )
    first, second = re.findall(r"-->([^<]+)<!-- end", quoted)
    assert first == second and re.match(r"\d+ claims: \d+ agree", first)
    with pytest.raises(KeyError):
        fill_in("<!-- quote walks nowhere --><!-- end -->")
    assert quotes._format({"value": -0.03, "low": -0.034, "high": -0.026}) == (
        "−0.030 [−0.034, −0.026]"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    inside = [link for link in links if not link.startswith("http")]
    assert [link for link in inside if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_can_be_read_in_a_terminal(page: Path) -> None:
    """Lines of at most 100 characters, but for tables, links and quotes; short paragraphs."""
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"))
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines = [line for line in prose.splitlines() if not line.startswith(("|", "!["))]
    assert [line for line in lines if len(line) > 100] == []
    for block in re.split(r"\n\s*\n", "\n".join(lines)):
        paragraphs = re.split(r"\n(?=\s*(?:[-*]|\d+\.) )", block)
        assert all(len(part.strip().splitlines()) <= 5 for part in paragraphs), block


@pytest.mark.parametrize("page", ["README.md", "docs/number-theory.md"])
def test_commands_print_what_the_page_shows(nt: Run, page: str) -> None:
    """Every example that begins with `$ nt`; `…` stands for lines that are left out."""
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    shown = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.M) if part]
    assert len(shown) > 2
    for example in shown:
        command, _, expected = example.partition("\n")
        standard_input = ""
        for part in command.split(" | "):
            program, *arguments = shlex.split(part)
            assert program == "nt"
            answer = nt(*arguments, input=standard_input)
            assert answer.returncode == 0, answer.stderr
            standard_input = answer.stdout
        pattern = re.escape(expected.strip()).replace("…", ".*")
        assert re.fullmatch(pattern, answer.stdout.strip(), re.DOTALL), command


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_examples_for_pytorch_work(
    nt: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page docs/pytorch.md, from top to bottom, with an untrained model of the recipe."""
    for module in ("torchdata", "datasets", "pyarrow", "transformers"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    config = recipe("ntp-laptop")
    tokenizer = config.tokens.tokenizer(config.text, config.n)
    model = config.model.build(tokenizer.size, "ntp")
    save(model, tokenizer, tmp_path / "runs" / "ntp-laptop" / "model")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "pytorch.md").read_text("utf-8")
    names: dict[str, Any] = {}
    ran = 0
    for number, (kind, code) in enumerate(re.findall(r"```(\w*)\n(.*?)```", page, re.DOTALL)):
        if not kind:
            assert nt(*shlex.split(code)[1:]).returncode == 0
            continue
        lacking = {"transformer_lens", "nnsight"} & set(re.findall(r"^from (\w+)", code, re.M))
        if any(find_spec(module) is None for module in lacking):
            continue
        path = tmp_path / f"example{number}.py"  # nnsight reads the source of what it runs
        path.write_text(code, encoding="utf-8")
        exec(compile(code, path, "exec"), names)
        ran += 1
    assert ran >= 5
    assert names["dataset"].windows.tokenizer.size == 256
    assert names["dataset"].windows.ranges == list(splits(10**11).train)
    for name in {"cache", "hidden"} & names.keys():
        value = names[name]
        hidden = value["blocks.1.hook_resid_post"] if name == "cache" else value
        assert hidden.shape == (4, 256, 128)
    # Loaders stop their workers now. The garbage collector would wait 5 s for each of them.
    names.clear()


SOURCE = ROOT / "src"
WITH_EXAMPLES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if re.search(r">>> (?!.*SKIP)", path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_in_docstrings(module: str) -> None:
    outcome = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert outcome.attempted > 0 and outcome.failed == 0


def test_examples_of_number_theory() -> None:
    """Those that take less than a second, which the page shows with `>>>`."""
    text = (ROOT / "docs" / "number-theory.md").read_text(encoding="utf-8")
    examples = "\n".join(re.findall(r"```pycon\n(.*?)```", text, re.DOTALL))
    test = doctest.DocTestParser().get_doctest(examples, {}, "number-theory.md", None, 0)
    outcome = doctest.DocTestRunner().run(test)
    assert outcome.attempted > 5 and outcome.failed == 0
