"""The command line: parse, call, print. `nt --help` lists the commands."""

import atexit
import gc
import json
import os
import re
import sys
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from .. import __version__, cost, trees
from ..errors import InputError
from ..extras import what_to_install
from ..integers import parse_integer
from . import evaluate as cli_evaluate
from . import horizon as cli_baselines
from . import locate as cli_locate
from . import reproduce as cli_reproduce
from . import stats as cli_stats
from . import tokenizer as cli_tokenizer
from . import train as cli_train
from .options import AsJson, Cluster, Timeout, at_least, parse_range

app = typer.Typer(
    help="The arithmetic text: integers as trees and Dyck words, and what models learn from them."
    " Numbers may be written 360, 1_000, 1e13, 10^13, 10**13 or 2**64*3.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help in boxes would take twice as long to load
    context_settings={"help_option_names": ["-h", "--help"]},
)

Numbers = Annotated[list[str], typer.Argument(metavar="N...", help="Integers, 1 or larger.")]
app.add_typer(cli_stats.app, name="stats")
app.add_typer(cli_tokenizer.app, name="tokenizer")
app.command()(cli_baselines.horizon)
app.command()(cli_locate.locate)
app.command()(cli_train.train)
app.command()(cli_train.recipes)
app.command()(cli_evaluate.generate)
app.command()(cli_evaluate.evaluate)


def main() -> NoReturn:
    """Run the command line; bad input becomes one line on standard error and exit code 2."""
    if sys.stdout is None:
        _refuse("standard output is closed")
    # A terminal that knows no box characters gets question marks, not a traceback.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    # Loading numba makes hundreds of thousands of objects, none of them garbage. By default Python
    # would look through them again and again, and once more at the end: a quarter of the time that
    # a short command takes.
    gc.set_threshold(500_000)
    atexit.register(_skip_last_collection)
    try:
        # Not through the parser's own main, which would answer interrupts and pipes its own way.
        command = typer.main.get_command(app)
        with command.make_context("nt", sys.argv[1:]) as context:
            command.invoke(context)
        sys.stdout.flush()
        sys.exit(0)
    except InputError as error:
        _refuse(str(error))
    except KeyboardInterrupt:
        _leave("interrupted", 130)
    except BrokenPipeError:
        _leave("", 141)  # the reader of a pipe has seen enough
    except OSError as error:
        _refuse(": ".join(filter(None, [error.filename, error.strerror or str(error)])))
    except MemoryError:
        _refuse("this needs more memory than there is")
    except ModuleNotFoundError as error:
        if (extra := what_to_install(error)) is None:
            raise
        _refuse(extra)
    except Exception as error:
        # What the parser refuses, a missing or unknown option; and the end after help was printed.
        if hasattr(error, "format_message"):
            _refuse(_complaint(error))
        if hasattr(error, "exit_code"):
            sys.exit(error.exit_code)
        raise


def _skip_last_collection() -> None:
    """End without looking for garbage once more.

    Not so after training: processes that train together must end their connections in order.
    """
    if "torch" not in sys.modules:
        gc.freeze()


def _complaint(error: Any) -> str:
    """Why the parser refuses; for a name that it does not know, the nearest that it does."""
    message: str = error.format_message()
    unknown = re.match(r"No such (command|option):? '?(-*)([^\s']*)", message)
    if unknown is None:
        return message
    kind, dashes, name = unknown.groups()
    if dashes == "-" and name[:1].isdigit():
        return f"-{name} is negative: integers here begin at 1"
    context = error.ctx
    options = [each for p in context.command.get_params(context) for each in p.opts]
    known = {each[2:]: each for each in options if each.startswith("--")}
    if kind == "command":  # `nt help` and `nt version` mean the options of that name
        known |= {each: each for each in context.command.list_commands(context)}
    near = get_close_matches(name, known, n=1, cutoff=0.65)
    hint = f"did you mean {known[near[0]]}?" if near else f"see {context.command_path} --help"
    return f"no {kind} {dashes + name!r}: {hint}"


def _refuse(message: str) -> NoReturn:
    """Say in one line what is wrong; what it quotes may hold characters that move the cursor."""
    line = " ".join(message.split())
    _leave("".join(each if each.isprintable() else "?" for each in line), 2)


def _leave(message: str, code: int) -> NoReturn:
    """End without waiting for threads at work; what was printed so far is kept if it can be."""
    for stream, text in (sys.stdout, ""), (sys.stderr, f"nt: {message}\n" if message else ""):
        # A stream may be closed, its disk full, or its reader gone or interrupted.
        with suppress(AttributeError, OSError, ValueError, KeyboardInterrupt):
            stream.write(text)
            stream.flush()
    os._exit(code)


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def tree(
    numbers: Annotated[
        list[str] | None, typer.Argument(metavar="N...", help="Integers, 1 or larger.")
    ] = None,
    word: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="Draw the shape of a Dyck word and name its least n."),
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a picture.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a tree.")] = False,
    timeout: Timeout = 60,
) -> None:
    """Draw the tree of an integer, or of a word.

    The root is at the bottom; every node above it carries its prime, and above each prime stands
    the tree of its exponent.
    """
    from ..drawing import svg_drawing, text_drawing

    forest = [trees.tree(parse_integer(n), timeout=timeout) for n in numbers or []]
    forest += [trees.tree_of_word(w) for w in word or []]
    if not forest:
        raise InputError("nothing to draw: give an integer, or a word with --word")
    if as_json:
        for t in forest:
            print(json.dumps(_tree_json(t), ensure_ascii=False))
    if svg is not None:
        from ..files import write_whole

        write_whole(svg, svg_drawing(forest))
    if as_json or svg is not None:
        return
    for i, t in enumerate(forest):
        if i:
            print()
        print(text_drawing(t))
        print()
        if t.label is not None:
            print(f"{t.label} = {t.formula()}")
        else:
            print(f"least integer: {_least(t)}")
        print(
            f"word {t.word or '(empty)'}, height {t.height}, {_count(t.leaves, 'leaf', 'leaves')}"
        )


@app.command()
def word(numbers: Numbers, timeout: Timeout = 60) -> None:
    """Print the Dyck word of each integer, one a line.

    The word of 1 is empty.
    """
    # All of them before the first is printed: a mistake in the last one loses nothing.
    for w in [trees.word(parse_integer(n), timeout=timeout) for n in numbers]:
        print(w)


@app.command()
def words(
    start: Annotated[str, typer.Argument(metavar="START", help="The first integer, 2 or larger.")],
    count: Annotated[str, typer.Argument(metavar="COUNT", help="How many integers.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write .txt, or packed words as .npy or .npz."),
    ] = None,
) -> None:
    """Print or write to a file the words of consecutive integers."""
    from ..text import export, sieve

    lo, hi = parse_range(start, count)
    sieve.check_range(lo, hi)
    if out is not None:
        cost.check(cost.export(lo, hi, out.suffix), out.resolve().parent)
        export.export(out, lo, hi)
        return
    for _, piece in sieve.segments(lo, hi):
        sys.stdout.buffer.write(export.lines(piece))


@app.command()
def find(
    sentence: Annotated[
        str, typer.Argument(help='Words in quotes, such as "111000 10"; * is any.')
    ],
    start: Annotated[str, typer.Option("--from", metavar="N", help="Where to begin.")] = "2",
    stop: Annotated[str, typer.Option("--to", metavar="N", help="The last integer.")] = "1e9",
    count: Annotated[bool, typer.Option("--count", help="Only say how many there are.")] = False,
    cluster: Cluster = None,
) -> None:
    """Find every n where a sentence, a run of words, begins."""
    from ..search import sentences
    from ..text.ranges import spans

    wanted = sentences.parse_sentence(sentence)
    lo, hi = parse_integer(start), parse_integer(stop) + 1
    if hi <= lo:
        raise InputError(f"nothing to search: --to {stop} is below --from {start}")
    if cluster is None:
        cost.check(cost.visit(lo, hi, nanoseconds=1.0))
    found = 0
    for piece in sentences.find(wanted, lo, hi, cluster=cluster, title="searching"):
        found += len(piece)
        if not count:
            for a, b in spans(0, len(piece), 1 << 16):  # Python's integers take much memory
                print("\n".join(map(str, piece[a:b].tolist())), flush=True)
    if count:
        print(found)
    known = sentences.law(wanted)
    print(
        f"{_count(found, 'occurrence', 'occurrences')} in {lo}..{hi - 1}, every start examined;"
        + (f" by arithmetic, {known}." if known else " beyond that this search says nothing."),
        file=sys.stderr,
    )


@app.command()
def bench(
    subject: Annotated[
        str, typer.Argument(metavar="SUBJECT", help="sieve, encode, train, hmm, generate or start")
    ] = "sieve",
    as_json: AsJson = False,
) -> None:
    """Measure speed, side by side with the peers that are installed."""
    from .. import bench

    if subject not in bench.SUBJECTS:
        raise InputError(f"nothing to measure called {subject!r}; try: {', '.join(bench.SUBJECTS)}")
    figures = bench.SUBJECTS[subject]()
    if as_json:
        print(json.dumps(figures, indent=1))
        return
    for name, value in figures["conditions"].items():
        print(f"{name}: {value}")
    print(f"\n{figures['unit']}, then ours ÷ theirs")
    for case, rate in figures["ours"].items():
        print(f"\n{case}\n  {'arithmetext':32} {rate:>10.4g}")
        for peer, cases in figures["peers"].items():
            if case in cases:
                ratio = figures["ratio"][peer][case]
                print(f"  {peer:32} {cases[case]:>10.4g} {ratio:>10.3g}")


@app.command()
def census(
    x: Annotated[str, typer.Argument(metavar="X", help="The last integer counted.")],
    top: Annotated[
        int, typer.Option(parser=at_least(1), metavar="K", help="How many words to show.")
    ] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print every word as JSON.")] = False,
) -> None:
    """Count how often each word occurs among 2..X, exactly.

    It does not visit every integer: 1e13 takes seconds.
    """
    from ..counting.census import census as count
    from ..counting.census import unigram_entropy

    bound = parse_integer(x)
    cost.check(cost.census(bound))
    counts = count(bound)
    entropy = unigram_entropy(counts)
    if as_json:
        spelled = {trees.unpack(word): number for word, number in counts.items()}
        print(json.dumps({"x": bound, "entropy_bits": entropy, "counts": spelled}))
        return
    width = max(5, len(f"{bound:,}"))
    print(f"{'word':24} {'count':>{width}} {'share':>10}   least n")
    for packed, number in list(counts.items())[:top]:
        word = trees.unpack(packed)
        share = number / (bound - 1)
        print(f"{word:24} {number:>{width},} {share:10.5%}   {trees.least(word):,}")
    print(f"\n{_count(len(counts), 'word', 'words')}, {entropy:.6f} bits a word")


@app.command()
def dictionary(
    x: Annotated[str, typer.Argument(metavar="X", help="The last integer looked at.")],
    as_json: AsJson = False,
) -> None:
    """Count the different words of 2..X exactly, even for X = 1e30."""
    from ..counting.dictionary import dictionary_size

    bound = parse_integer(x)
    size = dictionary_size(bound)
    print(json.dumps({"x": bound, "words": size}) if as_json else size)


app.command()(cli_reproduce.reproduce)
app.command()(cli_reproduce.report)


def _tree_json(t: trees.Tree) -> dict[str, Any]:
    def node(t: trees.Tree) -> dict[str, Any]:
        labelled = {} if t.label is None else {"prime": t.label}
        return labelled | {"children": [node(child) for child in t.children]}

    about: dict[str, Any] = {"n": t.label} if t.label is not None else {"least": _least(t)}
    return about | {
        "word": t.word,
        "packed": t.packed,
        "height": t.height,
        "edges": t.edges,
        "leaves": t.leaves,
        "formula": t.formula() if t.label is not None else trees.least_labels(t).formula(),
        "children": [node(child) for child in t.children],
    }


def _least(shape: trees.Tree) -> int | str:
    """The least integer with this shape; as a formula where its digits would fill pages."""
    smallest = trees.least_labels(shape)
    try:
        return smallest.value
    except OverflowError:
        return smallest.formula()


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"
