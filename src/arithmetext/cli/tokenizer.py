"""`nt tokenizer`: train tokenizers, encode words and decode tokens."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from string import whitespace
from typing import TYPE_CHECKING, Annotated

import typer

from .. import cost
from ..errors import InputError
from ..integers import parse_integer
from .options import MOST_SEED, AsJson, Command, Group, at_least

if TYPE_CHECKING:
    from ..text.sieve import Words

PAPER_CONTEXT = 1024  # L, written into folders for transformers
DEFAULT_LINES = 8192  # of 128 words each
MOST_SHOWN = 10_000  # integers that `nt tokenizer show` can show
INPUT_BLOCK = 1 << 20  # characters of standard input to read at once

app = typer.Typer(
    cls=Group,
    name="tokenizer",
    help="Train and use tokenizers: byte-pair encoding or whole words.",
    no_args_is_help=True,
)

TokenizerFile = Annotated[Path, typer.Argument(metavar="FILE", help="A tokenizer.json.")]


@app.command(cls=Command)
def train(
    size: Annotated[
        int, typer.Option(parser=at_least(3), metavar="D", help="Number of tokens, 3 or more.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="PATH", help="FILE.json, or a folder for transformers' from_pretrained."
        ),
    ],
    words: Annotated[
        bool,
        typer.Option("--words", help="Instead of BPE: one token for each of the commonest words."),
    ] = False,
    lines: Annotated[
        int | None,
        typer.Option(
            parser=at_least(1),
            metavar="K",
            help="BPE: number of lines of 128 words to train on.  [default: 8192]",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            parser=at_least(0, MOST_SEED),
            metavar="K",
            help="BPE: random seed for choosing the lines.  [default: 0]",
        ),
    ] = None,
) -> None:
    """Train a tokenizer on the paper's training text and save it.

    Hugging Face tokenizers and transformers load the saved file or folder and give the same ids.
    """
    from ..tokens import BPE, WordTokens

    if words and (lines is not None or seed is not None):
        raise InputError(
            "--words counts all words and takes no sample: leave out --lines and --seed"
        )
    if not out.absolute().parent.is_dir():
        raise InputError(f"cannot write {out}: there is no folder {out.parent}")
    if not words:
        cost.check(cost.tokenizer(size, lines or DEFAULT_LINES))
    tokenizer = (
        WordTokens.commonest(size)
        if words
        else BPE.train(size, lines=lines or DEFAULT_LINES, seed=seed or 0)
    )
    if out.suffix == ".json":
        tokenizer.save(out)
    else:
        tokenizer.save_pretrained(out, context=PAPER_CONTEXT)


@app.command(cls=Command)
def encode(file: TokenizerFile) -> None:
    """Read words from standard input and print their token ids.

    Words are separated by spaces or line ends, as `nt words` prints them.
    """
    from ..tokens import load
    from ..tokens.spelling import read

    def packed() -> "Iterator[Words]":
        before = 0
        for text in _blocks():
            spelled = text.split()
            block = read("".join(f"{word} " for word in spelled), inside=False)
            for place in block.malformed[:1].tolist():
                wrong = spelled[place][:40]
                raise InputError(f"word {before + place + 1} is not a Dyck word: {wrong!r}")
            before += len(block.words)
            yield block.words

    for ids in load(file).encode_stream(packed()):
        if len(ids):
            print(*ids.tolist())


@app.command(cls=Command)
def decode(file: TokenizerFile) -> None:
    """Read token ids from standard input and print their words.

    Prints one word per line. Malformed words, which are not Dyck words, are printed too; standard
    error says how many there are.
    """
    import numpy as np

    from ..tokens import load
    from ..tokens.spelling import read

    tokenizer = load(file)
    unfinished, words, malformed = "", 0, 0
    for block in _blocks():
        try:
            ids = np.array([int(number) for number in block.split()], np.int64)
        except (ValueError, OverflowError):
            raise InputError(f"ids are whole numbers from 0 to {tokenizer.size - 1}") from None
        text = unfinished + tokenizer.text(ids)
        decoded = read(text, inside=False)
        unfinished = decoded.tail
        if len(unfinished) > INPUT_BLOCK:
            raise InputError(f"these ids are not a text: {INPUT_BLOCK} characters without a space")
        words += len(decoded.words)
        malformed += len(decoded.malformed)
        sys.stdout.write(text[: len(text) - len(unfinished)].replace(" ", "\n"))
    if unfinished:
        print(f"unfinished word at the end: {unfinished}", file=sys.stderr)
    if malformed:
        print(f"malformed: {malformed} of {words} words", file=sys.stderr)


def _blocks() -> Iterator[str]:
    """Standard input in blocks of about a megabyte that end between words."""
    if sys.stdin is None:
        raise InputError("standard input is closed")
    sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    rest = ""
    while piece := sys.stdin.read(INPUT_BLOCK):
        place = max(map(piece.rfind, whitespace))
        if place < 0:
            if len(rest) + len(piece) >= INPUT_BLOCK:  # the input is endless, or not text
                raise InputError(
                    f"the input has {INPUT_BLOCK} characters without a space or line end"
                )
            rest += piece
            continue
        yield rest + piece[:place]
        rest = piece[place:]
    yield rest


@app.command(cls=Command)
def show(
    file: TokenizerFile,
    at: Annotated[str, typer.Option(metavar="N", help="First integer to show.")] = "2",
    count: Annotated[
        int,
        typer.Option(
            parser=at_least(1, MOST_SHOWN), metavar="K", help="Number of integers to show."
        ),
    ] = 30,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an SVG picture.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a tokenizer's tokens and how it splits integers."""
    from ..text.sieve import words
    from ..text.splits import TRAINED_TO
    from ..tokens import BPE, load
    from ..tokens.picture import svg_picture, text_picture

    tokenizer = load(file)
    first = parse_integer(at)
    shown = words(first, first + count)
    tokens = [tokenizer.vocabulary[i] for i in tokenizer.encode(shown)]
    if svg is not None:
        from ..files import write_whole

        write_whole(svg, svg_picture(tokens, first))
        if not as_json:
            return
    sample = words(TRAINED_TO // 10, TRAINED_TO // 10 + 10**6)
    ids = tokenizer.encode(sample)
    characters = sum(len(tokenizer.vocabulary[i]) for i in ids.tolist())
    figures = {
        "kind": "bpe" if isinstance(tokenizer, BPE) else "words",
        "size": tokenizer.size,
        "mask_id": tokenizer.mask_id,
        "words_per_token": len(sample) / len(ids),
        "characters_per_token": characters / len(ids),
        "record": tokenizer.record,
    }
    if as_json:
        merges = tokenizer.merges if isinstance(tokenizer, BPE) else []
        print(json.dumps(figures | {"vocabulary": tokenizer.vocabulary, "merges": merges}))
        return
    print(
        f"{tokenizer.size} tokens ({figures['kind']}), mask token {tokenizer.mask_id}\n"
        f"{figures['words_per_token']:.3f} words and {figures['characters_per_token']:.2f}"
        " characters per token, over 1e6 integers from 1e10\n"
    )
    if isinstance(tokenizer, BPE) and tokenizer.merges:
        print("first merges (--json has all):")
        for new, (a, b) in list(enumerate(tokenizer.merges, start=3))[:12]:
            left, right = _visible(tokenizer.vocabulary[a]), _visible(tokenizer.vocabulary[b])
            print(f"  {new:5}  {left} + {right}")
        print()
    longest = sorted(enumerate(tokenizer.vocabulary), key=lambda item: -len(item[1]))[:5]
    print("longest tokens:")
    for number, token in longest:
        print(f"  {number:5}  {_visible(token)}")
    print(f"\ntokens of the text from {first}:\n{text_picture(tokens, first)}")


def _visible(token: str) -> str:
    return token.replace(" ", "·")
