"""`nt tokenizer …`: words to tokens and back."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from .cli_options import AsJson, at_least
from .errors import InputError
from .integers import parse_integer

app = typer.Typer(
    help="Train, use and look at tokenizers: byte-pair encoding, or one token a word.",
    no_args_is_help=True,
)

TokenizerFile = Annotated[Path, typer.Argument(metavar="FILE", help="A tokenizer.json.")]


@app.command()
def train(
    size: Annotated[
        int, typer.Option(parser=at_least(3), metavar="D", help="How many tokens, 3 or more.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The tokenizer.json to write.")],
    words: Annotated[
        bool, typer.Option("--words", help="One token a word for the commonest words, not BPE.")
    ] = False,
    lines: Annotated[
        int,
        typer.Option(parser=at_least(1), metavar="K", help="Lines of 128 words to train BPE on."),
    ] = 8192,
    seed: Annotated[int, typer.Option(parser=at_least(0), metavar="K", help="Of the sample.")] = 0,
) -> None:
    """Train a tokenizer on the paper's training ranges and write it.

    Hugging Face tokenizers and transformers load the file and give the same ids.
    """
    from .tokens import BPE, WordTokens

    tokenizer = WordTokens.commonest(size) if words else BPE.train(size, lines=lines, seed=seed)
    tokenizer.save(out)


@app.command()
def encode(file: TokenizerFile) -> None:
    """Read words from standard input, print their token ids.

    Words are separated by spaces or line ends, as `nt words` prints them.
    """
    from .tokens import load

    tokenizer = load(file)
    text = "".join(f"{word} " for word in sys.stdin.read().split())
    print(*tokenizer.encode_text(text).tolist())


@app.command()
def decode(file: TokenizerFile) -> None:
    """Read token ids from standard input, print the words, one a line.

    Words that are no Dyck words are printed as they are, and counted on standard error.
    """
    import numpy as np

    from .tokens import load

    tokenizer = load(file)
    try:
        ids = np.array([int(number) for number in sys.stdin.read().split()], np.int64)
    except ValueError as error:
        raise InputError(f"ids are whole numbers: {error}") from None
    except OverflowError:
        raise InputError(f"only 0 to {tokenizer.size - 1} stand for text") from None
    text = tokenizer.text(ids)
    decoded = tokenizer.decode(ids)
    # Words end with a space; what comes after the last one is not finished.
    *whole, unfinished = text.split(" ")
    sys.stdout.write("".join(f"{word}\n" for word in whole))
    if unfinished:
        print(f"unfinished: {unfinished}", file=sys.stderr)
    if len(decoded.malformed):
        print(f"malformed: {len(decoded.malformed)} of {len(whole)} words", file=sys.stderr)


@app.command()
def show(
    file: TokenizerFile,
    at: Annotated[str, typer.Option(metavar="N", help="The integers to show begin here.")] = "2",
    count: Annotated[
        int, typer.Option(parser=at_least(1), metavar="K", help="How many integers to show.")
    ] = 30,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a picture.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the tokens, how much they hold, and how a stretch of integers is cut into them."""
    from .text.sieve import words
    from .tokens import BPE, load
    from .tokens.picture import svg_picture, text_picture
    from .tokens.tokenizer import TRAINED_TO

    tokenizer = load(file)
    first = parse_integer(at)
    shown = words(first, first + count)
    tokens = [tokenizer.vocabulary[i] for i in tokenizer.encode(shown)]
    if svg is not None:
        from .files import write_whole

        write_whole(svg, svg_picture(tokens, first))
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
        print(json.dumps(figures | {"vocabulary": tokenizer.vocabulary}))
        return
    print(
        f"{tokenizer.size} tokens ({figures['kind']}), mask token {tokenizer.mask_id}\n"
        f"{figures['words_per_token']:.3f} words and {figures['characters_per_token']:.2f}"
        " characters a token, over 1e6 integers from 1e10\n"
    )
    if isinstance(tokenizer, BPE):
        print("first merges:")
        for new, (a, b) in list(enumerate(tokenizer.merges, start=3))[:12]:
            left, right = _visible(tokenizer.vocabulary[a]), _visible(tokenizer.vocabulary[b])
            print(f"  {new:5}  {left} + {right}")
        print()
    longest = sorted(enumerate(tokenizer.vocabulary), key=lambda item: -len(item[1]))[:5]
    print("longest tokens:")
    for number, token in longest:
        print(f"  {number:5}  {_visible(token)}")
    print(f"\nfrom {first}:\n{text_picture(tokens, first)}")


def _visible(token: str) -> str:
    return token.replace(" ", "·")
