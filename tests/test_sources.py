"""Which source files a result depends on, and which changes count."""

import hashlib
import inspect
import shutil
import sys
from pathlib import Path

import pytest

from arithmetext import sources
from arithmetext.paper import study as studies
from arithmetext.training import recipes, run_cache
from conftest import changed

ROOT = sources.ROOT

# A small package with every kind of import.
FILES = {
    "__init__.py": "from .a import one\n__version__ = '1'\n",
    "a.py": "import numpy\none = 1\n",
    "b.py": "from . import c\nfrom .sub import name\ntwo = 2\n",
    "c.py": "def f():\n    from .d import four\n    return four\n",
    "d.py": "from arithmetext.e import five\nimport arithmetext.g\nfour = 4\n",
    "e.py": "from .b import two\nfive = 5\n",  # back to where it began
    "g.py": "seven = 7\n",
    "h.py": "x = 1\n",
    "version.py": "from . import __version__\n",
    "sub/__init__.py": "from .inner import name\n",
    "sub/inner.py": "if TYPE_CHECKING:\n    from ..h import x\nname = 'n'\n",
    "sub/other.py": "from .. import a\n",
}

CODE = '''"""About the module."""

import math  # for its logarithm

TEXT = """two

lines  """  # of text


class Thing:
    """About the class."""

    def value(self) -> str:
        """What β is:
        a letter."""
        # Nothing to compute.
        return f"β # {math.pi}"  # not a comment


def nothing() -> None:
    """Do nothing."""
'''

STRIPPED = '''import math
TEXT = """two

lines  """
class Thing:
    def value(self) -> str:
        return f"β # {math.pi}"
def nothing() -> None:'''

FUNCTIONS = """
import math
from . import g
from .d import four
from .sub import name as called

FEW: list[int] = [1, 2]
MANY = len(FEW)
LABEL = "many"
FEW.append(3)


def run(x):
    def inner():
        from .h import x
        return math.log(x) + helper()
    return inner() + four


@staticmethod
def helper():
    return MANY


def plot():
    return called, g, LABEL
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small package in place of ours."""
    root = tmp_path / "arithmetext"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(sources, "ROOT", root)
    return root


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of our package, to be changed."""
    root = tmp_path / "arithmetext"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "ROOT", root)
    return root


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    sources._read.cache_clear()
    sources._imported.cache_clear()


def test_imports_are_followed_wherever_they_are(package: Path) -> None:
    reached = ["b.py", "c.py", "d.py", "e.py", "g.py", "h.py", "sub/__init__.py", "sub/inner.py"]
    assert sorted(sources.of_module("b")) == reached
    assert sorted(sources.of_module("sub.other")) == ["a.py", "sub/other.py"]
    assert sorted(sources.of_module("version")) == ["__init__.py", "a.py", "version.py"]


def test_sources_cover_what_loaded_modules_use() -> None:
    """A check from the other side: on loaded modules, not on their source text."""
    studies.all_studies()
    loaded = {name: each for name, each in sys.modules.items() if name.startswith("arithmetext.")}
    files = {name: Path(str(each.__file__)) for name, each in loaded.items()}
    seen = 0
    for name, module in loaded.items():
        known = sources.of_module(name.removeprefix("arithmetext."))
        for value in vars(module).values():
            if inspect.ismodule(value):  # a package has modules that only others import
                owner = "" if hasattr(module, "__path__") else value.__name__
            else:
                owner = str(getattr(value, "__module__", ""))
            if owner in files:
                assert files[owner].relative_to(ROOT).as_posix() in known, (name, owner)
                seen += owner != name
    assert seen > 300


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""About the module."""\n\n', ""),
        ("  # for its logarithm", ""),
        ("# of text", "# of any text; β"),
        ("        # Nothing to compute.\n", "\n\n"),
        ('"""What β is:\n        a letter."""', '"""A letter."""  # β'),
        ('    """Do nothing."""\n', '    """Do nothing.\n\n    At all.\n    """\n\n\n'),
        ("class Thing:\n", "class Thing:   \n"),
    ],
)
def test_comments_docstrings_and_blank_lines_do_not_count(
    package: Path, old: str, new: str
) -> None:
    (package / "a.py").write_text(CODE, encoding="utf-8")
    before = sources.of_module("a")
    change(package / "a.py", old, new)
    assert sources.of_module("a") == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("math.pi", "math.e"),
        ("β # {", "β #  {"),
        ("two\n\nlines", "two\nlines"),
        ('lines  """', 'lines """'),
        ("import math", "import cmath as math"),
        ("    def value", "    @property\n    def value"),
    ],
)
def test_every_other_change_counts(package: Path, old: str, new: str) -> None:
    (package / "a.py").write_text(CODE, encoding="utf-8")
    before = sources.of_module("a")
    change(package / "a.py", old, new)
    assert sources.changed(before, sources.of_module("a")) == ["a.py"]


def test_digests_are_the_same_on_every_system(package: Path) -> None:
    """Under every version of Python, and with the line ends of Windows."""
    (package / "a.py").write_bytes(CODE.replace("\n", "\r\n").encode())
    digest = hashlib.sha256(STRIPPED.encode()).hexdigest()
    assert sources.of_module("a") == {"a.py": digest[:12]}


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ("math.log(x)", "math.exp(x)", True),
        ("import math", "import cmath as math", True),
        ("return MANY", "return 2 * MANY", True),
        ("@staticmethod\n", "", True),
        ("[1, 2]", "[1, 2, 4]", True),
        ("append(3)", "append(4)", True),
        ("called, g, LABEL", "called, g", False),
        ('"many"', '"few"', False),
        ("import name as called", "import name", False),
        ("def run(x):\n", 'def run(x):  # of x\n    """Run."""\n\n', False),
    ],
)
def test_only_what_a_function_uses_counts_in_its_own_file(
    package: Path, old: str, new: str, counts: bool
) -> None:
    (package / "f.py").write_text(FUNCTIONS)
    before = sources.of_function("f", "run")
    assert sorted(before) == sorted(["f.py", *sources.of_module("d")])  # which imports h
    change(package / "f.py", old, new)
    assert sources.changed(before, sources.of_function("f", "run")) == ["f.py"] * counts


def test_modules_that_a_function_does_not_use_do_not_count(package: Path) -> None:
    (package / "f.py").write_text(FUNCTIONS.replace("from .d import four\n", "four = 4\n"))
    assert sorted(sources.of_function("f", "run")) == ["f.py", "h.py"]


ADDED = ("\nimport ", "\nADDED = 1\nimport ")


def test_a_result_is_made_again_if_its_code_changes(
    tmp_path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = studies.all_studies()["decided_sentences"]
    small = changed(study.settings("laptop"), searched_to=1000)
    monkeypatch.setattr(study, "settings", lambda scale: small)
    own = copy / "paper/studies/decided_sentences.py"
    assert studies.why_recomputed(study, "laptop", tmp_path) == ""
    result = studies.perform(study, "laptop", tmp_path)
    for file, *changes in (
        (copy / "text/kernels.py", '"""', '"""More about it. '),
        (copy / "text/kernels.py", "\nimport ", "\n# A comment.\n\nimport "),
        (copy / "evaluation/words.py", *ADDED),  # it is not imported
        (own, 'TITLE = "', 'TITLE = "Some '),
        (own, "figsize=(7.2", "figsize=(9.2"),
    ):
        change(file, *changes)
        assert studies.cached_result(study, "laptop", tmp_path) == result
    for file, *changes in (
        (copy / "text/kernels.py", *ADDED),  # through others
        (copy / "search/sentences.py", *ADDED),
        (own, '"101010 101010"', '"1010 1010"'),  # a constant that `run` uses
        (own, "FIRST - len(first)", "6 - len(first)"),  # a helper
        (own, "hi = settings.searched_to + 1", "hi = settings.searched_to"),
    ):
        change(file, *changes)
        assert studies.cached_result(study, "laptop", tmp_path) is None
        why = studies.why_recomputed(study, "laptop", tmp_path)
        assert why == f"{file.relative_to(copy).as_posix()} changed"
        result = studies.perform(study, "laptop", tmp_path)
    for file in ("errors.py", "integers.py", "trees.py", "text/sieve.py", "text/ranges.py"):
        change(copy / file, "\n\n\n", "\n\nADDED = 1\n\n\n")
    smaller = changed(small, searched_to=100)
    monkeypatch.setattr(study, "settings", lambda scale: smaller)
    why = studies.why_recomputed(study, "laptop", tmp_path)
    assert why == "settings, errors.py, integers.py and 3 more changed"


def test_the_key_of_a_run_is_its_configuration_and_its_code(copy: Path) -> None:
    config, other = recipes.recipe("ntp-laptop"), recipes.recipe("mlm-laptop")
    before = run_cache._folder(config)
    assert run_cache._folder(other) != before
    change(copy / "models/gpt.py", '"""', '"""More about it. ')
    change(copy / "evaluation/words.py", *ADDED)  # it is not imported
    assert run_cache._folder(config) == before
    for file in ("models/gpt.py", "text/kernels.py", "training/optimizers.py"):
        change(copy / file, *ADDED)
        assert run_cache._folder(config) != before
        before = run_cache._folder(config)
    change(copy / "__init__.py", "_LAZY = {", '_LAZY = {"added": "trees",')  # what is public
    assert run_cache._folder(config) == before
    change(copy / "version.py", '__version__ = "', '__version__ = "1')
    assert run_cache._folder(config) != before


def test_estimates_of_cost_change_no_result() -> None:
    assert "counting/histograms.py" in sources.of_module("training.loop")
    assert "cost.py" not in sources.of_module("training.loop")
