"""Numbers and lists in words, written the same way in every caption and verdict."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ..evaluation.estimates import Estimate, format_beta, format_estimate
from ..integers import format_integer
from ..wording import plural

if TYPE_CHECKING:
    from .runs import PromptSettings

__all__ = [
    "cell",
    "describe_continuations",
    "describe_seeds",
    "format_beta",
    "format_estimate",
    "format_integer",
    "format_number",
    "format_percent",
    "format_percents",
    "format_share",
    "join",
    "models_in_words",
    "over_prompts_in_words",
    "plural",
    "seeds_in_words",
    "sentences",
    "undecided",
]


def join(parts: Iterable[str]) -> str:
    """
    >>> join(["a"]), join(["a", "b"]), join(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last


def sentences(*parts: str) -> str:
    """
    >>> sentences("One.", "", "Two.")
    'One. Two.'
    """
    return " ".join(filter(None, parts))


def undecided(agrees: bool | None, why: str) -> str:
    """Why a claim that was tested has no outcome; empty if it has one.

    >>> undecided(None, "the interval contains 0.2")
    'Tested, not decided: the interval contains 0.2.'
    """
    return f"Tested, not decided: {why}." if agrees is None else ""


def seeds_in_words(seeds: Mapping[str, int]) -> str:
    """
    >>> seeds_in_words({"GPT-2": 3, "HMM": 5})
    '3 of the GPT-2 and 5 of the HMM'
    """
    return join(f"{count} of the {name}" for name, count in seeds.items())


def describe_seeds(seeds: Mapping[str, int]) -> str:
    """A sentence for captions.

    >>> describe_seeds({"GPT-2": 3, "HMM": 5})
    'Seeds, taken together: 3 of the GPT-2 and 5 of the HMM.'
    >>> describe_seeds({"GPT-2": 1, "HMM": 1})
    'One seed of each model.'
    """
    if set(seeds.values()) == {1}:
        return "One seed of each model."
    return f"Seeds, taken together: {seeds_in_words(seeds)}."


def models_in_words(seeds: int) -> str:
    """A sentence for captions, of a model that was trained with so many seeds.

    >>> models_in_words(3)
    'Three models with different seeds, taken together; intervals are also over seeds.'
    >>> models_in_words(1)
    'One model.'
    """
    if seeds == 1:
        return "One model."
    number = {2: "Two", 3: "Three"}.get(seeds, str(seeds))
    return f"{number} models with different seeds, taken together; intervals are also over seeds."


def over_prompts_in_words(seeds: Mapping[str, int]) -> str:
    """What intervals are over.

    >>> over_prompts_in_words({"GPT-2": 1})
    'bootstrapped over prompts'
    """
    widened = max(seeds.values()) > 1
    return "bootstrapped over prompts" + ", widened by the spread over seeds" * widened


def format_number(value: float | None, digits: int = 3) -> str:
    """
    >>> format_number(0.42), format_number(None)
    ('0.420', 'not known')
    """
    return "not known" if value is None else f"{value:.{digits}f}"


def format_share(share: Estimate, undefined: str) -> str:
    """A share, or why it is undefined.

    >>> format_share(Estimate(None, None, None), "the HMM generates no prime")
    'undefined: the HMM generates no prime'
    """
    return f"undefined: {undefined}" if share.value is None else format_estimate(share)


def format_percent(share: float, digits: int = 0) -> str:
    """
    >>> format_percent(0.426), format_percent(0.00123, 1)
    ('43 %', '0.1 %')
    """
    return f"{100 * share:.{digits}f} %"


def format_range(values: Iterable[float], digits: int) -> str:
    """The least and the greatest value.

    >>> format_range([0.31, 0.284, 0.3], 2), format_range([1.0, 1.0], 1)
    ('0.28 to 0.31', '1.0')
    """
    ordered = sorted(values)
    low, high = (f"{value:.{digits}f}" for value in (ordered[0], ordered[-1]))
    return low if low == high else f"{low} to {high}"


def interval_header(name: str) -> list[str]:
    """The columns of an estimate in a table."""
    return [name, f"{name}, from", f"{name}, to"]


def cell(value: float | None) -> float | str:
    """A number in a table, rounded to four digits; empty if it is not known.

    >>> cell(0.123456), cell(None)
    (0.1235, '')
    """
    return "" if value is None else round(value, 4)


def format_percents(estimate: Estimate, digits: int = 0) -> str:
    """
    >>> format_percents(Estimate(0.0094, 0.0074, 0.0115), 2)
    '0.94 [0.74, 1.15] %'
    """
    percents = Estimate(*(None if part is None else 100 * part for part in estimate))
    return f"{format_estimate(percents, digits)} %"


def describe_continuations(at: int, how: "PromptSettings") -> str:
    """The continuations that studies of words compare (`runs.Comparison`), for captions."""
    return (
        f"{how.prompts} prompts of {how.tokens} tokens near {format_integer(at)} are continued by"
        " as many tokens. The GPT-2 takes the likeliest ones (β = ∞). The HMM samples (β = 1), and"
        " predicts from the last token, as it was trained."
    )
