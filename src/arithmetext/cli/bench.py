"""`nt bench`."""

import json
from typing import Annotated

import typer

from ..bench import SUBJECTS, measure
from ..errors import InputError
from .options import AsJson, one_of


def bench(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="SUBJECT",
            help="One of sieve, encode, train, hmm, generate, start and explore.",
            autocompletion=one_of(lambda: SUBJECTS),
        ),
    ] = "sieve",
    as_json: AsJson = False,
) -> None:
    """Measure speed beside other installed libraries.

    The other libraries are PARI/GP and primesieve for sieve; Hugging Face tokenizers, tiktoken,
    kitoken, fastokens and tokie for encode; Hugging Face's GPT-2 for train and generate;
    CTranslate2, on a CPU, for generate; hmmlearn, pomegranate and dynamax for hmm. The subject
    start measures how long short commands take; explore, how fast the explorer answers a hundred
    readers at once, alone and while it searches.
    """
    if subject not in SUBJECTS:
        raise InputError(f"nothing to measure called {subject!r}; try: {', '.join(SUBJECTS)}")
    figures = measure(subject)
    if as_json:
        print(json.dumps(figures, indent=1))
        return
    for name, value in figures["conditions"].items():
        print(f"{name}: {value}")
    print(f"\n{figures['unit']}; and ours ÷ theirs")
    for case, rate in figures["ours"].items():
        print(f"\n{case}\n  {'arithmetext':32} {rate:>10.4g}")
        for peer, cases in figures["peers"].items():
            if case in cases:
                ratio = figures["ratio"][peer][case]
                print(f"  {peer:32} {cases[case]:>10.4g} {ratio:>10.3g}")
