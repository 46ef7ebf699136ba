"""Find the source files that a module or function depends on, and compute a digest of each.

A cached result is reused only while the code that made it is unchanged. The dependencies of a file
are read from its import statements without running them, including imports inside functions and
imports for type checkers. A digest ignores comments, docstrings and blank lines, and it is the same
under every version of Python.
"""

import ast
import hashlib
import os
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from io import StringIO
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent

Sources = dict[str, str]  # file, such as "evaluation/words.py": its digest


def of_module(module: str) -> Sources:
    """The files of a module and of all modules that it imports, directly or indirectly.

    >>> list(of_module("integers"))
    ['errors.py', 'integers.py']
    """
    return _digests([_path(module)])


def of_function(module: str, function: str) -> Sources:
    """The files that a function depends on.

    The digest of its own file covers only the function and the top-level statements it uses.
    """
    path = _path(module)
    tree, lines = _read(path)
    others = [each for each in tree.body if not isinstance(each, ast.Import | ast.ImportFrom)]
    names = {function}
    used: list[ast.AST] = []
    while more := [each for each in others if each not in used and _matters(each, names)]:
        inside = [node for each in more for node in ast.walk(each)]
        names |= {node.id for node in inside if isinstance(node, ast.Name)}
        used += inside
    imports = [each for each in _imports(path, tree.body) if each.name in names]
    rows = _rows(each for each in others if each in used)
    code = [line for row, line in lines.items() if row in rows]
    code += [f"{each.name} from {each.origin}" for each in imports]
    paths = [each.file for each in [*imports, *_imports(path, used)] if each.file]
    return {_name(path): _digest(code)} | _digests(paths)


def changed(before: Sources, now: Sources) -> list[str]:
    """The files whose code differs, or which only one of the two has."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def listed(names: Sequence[str]) -> str:
    """At most three names, and how many more there are.

    >>> listed(["a.py"]), listed(["a.py", "b.py"]), listed(["a.py", "b.py", "c.py", "d.py"])
    ('a.py', 'a.py and b.py', 'a.py, b.py, c.py and 1 more')
    """
    shown = [*names[:3], f"{len(names) - 3} more"] if len(names) > 3 else [*names]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


class _Import(NamedTuple):
    """A name that an import statement defines."""

    name: str
    origin: str  # as it is written, such as "..counting.order orientation"
    file: Path | None  # None if the module is outside this package


def _imports(path: Path, nodes: Iterable[ast.AST]) -> Iterator[_Import]:
    """The names that import statements among these nodes define."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                yield _Import(name, alias.name, _file(_under(ROOT.parent, alias.name)))
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            base = _under(path.parents[node.level - 1] if node.level else ROOT.parent, module)
            for alias in node.names:
                yield _Import(
                    alias.asname or alias.name,
                    f"{'.' * node.level}{module} {alias.name}",
                    _file(base / alias.name) or _file(base),
                )


def _matters(statement: ast.stmt, names: set[str]) -> bool:
    """Whether a statement defines one of the names, or defines nothing.

    A statement that defines nothing may have side effects.
    """
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return statement.name in names
    inside = list(ast.walk(statement))
    defined = {
        node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    } | {alias.asname or alias.name for alias in inside if isinstance(alias, ast.alias)}
    return not defined or not defined.isdisjoint(names)


def _rows(statements: Iterable[ast.stmt]) -> set[int]:
    """The line numbers of these statements."""
    return {
        row
        for each in statements
        for row in range(
            min([each.lineno, *(d.lineno for d in getattr(each, "decorator_list", []))]),
            (each.end_lineno or each.lineno) + 1,
        )
    }


def _digests(paths: Iterable[Path]) -> Sources:
    """Digests of these files and of all files that they import."""
    due, files = list(paths), set[Path]()
    while due:
        path = due.pop()
        if path not in files:
            files.add(path)
            due += _imported(path)
    return {_name(path): _digest(_read(path)[1].values()) for path in sorted(files)}


@cache
def _imported(path: Path) -> list[Path]:
    tree, _ = _read(path)
    return [each.file for each in _imports(path, ast.walk(tree)) if each.file]


@cache
def _read(path: Path) -> tuple[ast.Module, dict[int, str]]:
    """A file's syntax tree, and its lines of code by number."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    return tree, _code(source, tree)


def _code(source: str, tree: ast.Module) -> dict[int, str]:
    """The lines of a source without comments, docstrings, blank lines and trailing spaces.

    The result does not depend on the version of Python, as printed syntax trees or tokens would.
    """
    lines = source.removesuffix("\n").split("\n")
    closed = set()  # lines that do not end inside a string
    for token in tokenize.generate_tokens(StringIO(source).readline):
        row = token.start[0]
        if token.type == tokenize.COMMENT:
            lines[row - 1] = lines[row - 1].removesuffix(token.string)
        elif token.type in (tokenize.NEWLINE, tokenize.NL):
            closed.add(row)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            first, last = text.lineno, text.end_lineno or text.lineno
            before = lines[first - 1].encode()[: text.col_offset]
            after = lines[last - 1].encode()[text.end_col_offset :]
            lines[first - 1 : last] = [(before + after).decode(), *[""] * (last - first)]
            closed |= set(range(first, last + 1))
    numbered = enumerate(lines, start=1)
    stripped = {row: line.rstrip() if row in closed else line for row, line in numbered}
    return {row: line for row, line in stripped.items() if line or row not in closed}


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _path(module: str) -> Path:
    path = _file(_under(ROOT, module))
    assert path is not None, module
    return path


def _under(folder: Path, module: str) -> Path:
    return folder.joinpath(*module.split("."))


def _file(module: Path) -> Path | None:
    """The file of a module or package of this project."""
    files = (module.with_suffix(".py"), module / "__init__.py")
    return next((path for path in files if path.is_relative_to(ROOT) and _exists(path)), None)


def _exists(path: Path) -> bool:
    """Whether there is a file of exactly this name, also on disks that ignore case."""
    return path.name in _names_in(path.parent)


@cache
def _names_in(folder: Path) -> set[str]:
    return set(os.listdir(folder)) if folder.is_dir() else set()


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
