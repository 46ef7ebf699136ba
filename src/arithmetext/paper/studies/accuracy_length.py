"""Word accuracy against the length generated, far beyond the training text."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ...evaluation.codec import to_json
from ...evaluation.estimates import Estimate, bootstrap, meets, said, share, within
from ...evaluation.evaluate import alignment, by_tokens
from ...integers import format_integer
from ...search.residues import curve
from ..figures import COLOURS, LINES, MARKS
from ..runs import FAR, NEAR, continuations, continuing, ntp, training
from ..study import Verdict

TITLE = "Accuracy against the length generated"
PLACE = 110
COST = {"laptop": 90, "gpu": 370}

TRAINED = 10**11  # the paper's text; what it tests beyond is far
SETTLED = (0.35, 0.45)  # near 0.4
MAJORITY = (0.3, 0.5)  # around 0.4, for a single continuation
LOW = 0.12  # just below 0.1, with room for the chance of a single continuation
STEADY = 0.02  # a change of accuracy that is none

Floats = NDArray[np.float64]


def settings(scale: str) -> dict[str, Any]:
    return {
        "model": ntp(scale),
        "scales": [NEAR, *FAR],
        "continuing": continuing(scale),
        "bounds": [1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61],
        "integers": 2**21 if scale == "laptop" else 2**24,
    }


def run(settings: dict[str, Any]) -> dict[str, Any]:
    rows = []
    for at in settings["scales"]:
        prompts, made = continuations(settings["model"], at, settings["continuing"])
        rows.append(
            {
                "at": at,
                "by_tokens": to_json(by_tokens(prompts, made)),
                "alignment": to_json(alignment(prompts, made)),
                "oracles": _oracles(at, settings),
            }
        )
    learned = training(settings["model"])
    return {"scales": rows, "training": learned, **settings["continuing"]}


def _oracles(at: int, settings: dict[str, Any]) -> dict[str, float]:
    """The accuracy of those who know n modulo the primes up to a bound (search/residues.py)."""
    scores = curve(at, settings["bounds"], count=settings["integers"])
    return {str(score.bound): score.accuracy for score in scores}


def plot(data: dict[str, Any]) -> Figure:
    # The clouds become an image inside the picture, since thousands of marks weigh too much.
    figure = Figure(figsize=(9.6, 4.2), layout="constrained", dpi=200)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _by_length(left, data["scales"])
    _whole(right, data["scales"])
    return figure


def _like(scales: Sequence[dict[str, Any]]) -> str:
    """The bound whose oracle is most like the model, over all scales."""
    ours = _column([scale["by_tokens"][-1]["accuracy"] for scale in scales], "value")
    bounds: list[str] = list(scales[0]["oracles"])
    theirs = np.array([[scale["oracles"][bound] for scale in scales] for bound in bounds])
    return bounds[int(np.square(theirs - ours).sum(1).argmin())]


def _by_length(axes: Axes, scales: list[dict[str, Any]]) -> None:
    random = np.random.default_rng(0)
    sides = np.linspace(-0.27, 0.27, len(scales))
    styles = zip(scales, sides, COLOURS, LINES, MARKS, strict=False)
    for scale, side, colour, line, mark in styles:
        tokens = np.array([row["tokens"] for row in scale["by_tokens"]])
        beside = tokens * 2.0**side
        cloud = [
            (x * 2 ** random.uniform(-0.08, 0.08), value)
            for x, row in zip(beside, scale["by_tokens"], strict=True)
            for value in row["each"]
            if value is not None
        ]
        axes.scatter(
            [x for x, _ in cloud],
            [value for _, value in cloud],
            s=7,
            marker=mark,
            color=colour,
            alpha=0.2,
            linewidths=0,
            rasterized=True,
        )
        means = [row["accuracy"] for row in scale["by_tokens"]]
        value, low, high = (_column(means, key) for key in ("value", "low", "high"))
        axes.errorbar(
            beside,
            value,
            yerr=[value - low, high - value],
            color=colour,
            linestyle=line,
            marker=mark,
            ms=5,
            mec="white",
            mew=0.6,
            capsize=2,
            label=format_integer(scale["at"]),
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks(tokens)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.minorticks_off()
    axes.set_xlabel("tokens generated")
    axes.set_ylabel("word accuracy")
    axes.set_ylim(-0.03, 1.2)
    axes.set_yticks(np.linspace(0, 1, 6))
    axes.grid(alpha=0.3)
    axes.legend(title="integers near", ncols=4, loc="upper right", fontsize=8, title_fontsize=8)


def _whole(axes: Axes, scales: list[dict[str, Any]]) -> None:
    """Whole continuations as a swarm: side by side where several have the same accuracy."""
    bound = _like(scales)
    for place, (scale, colour, mark) in enumerate(zip(scales, COLOURS, MARKS, strict=False)):
        each = sorted(scale["alignment"]["each"], key=lambda one: one["accuracy"])
        values = np.array([one["accuracy"] for one in each])
        slipped = np.array([one["slips"] > 0 for one in each], bool)
        _, first, among = np.unique(values // 0.01, return_index=True, return_counts=True)
        rank = np.arange(len(values)) - np.repeat(first, among)
        step = min(0.045, 0.9 / among.max(initial=1))  # never into the next column
        x = place + step * ((rank + 1) // 2) * (-1.0) ** rank
        axes.scatter(x[~slipped], values[~slipped], s=9, marker=mark, color=colour, linewidths=0)
        axes.scatter(x[slipped], values[slipped], s=22, marker="x", color="black", linewidths=1)
        chance = scale["alignment"]["chance"]["value"]
        ends = (place - 0.48, place + 0.48)
        axes.hlines(chance, *ends, color="black", linestyle="--", lw=1)
        axes.hlines(scale["oracles"][bound], *ends, color="black", lw=1)
    axes.scatter([], [], s=9, color="0.4", label="in step to the end")
    axes.scatter([], [], s=22, marker="x", color="black", linewidths=1, label="slipped")
    axes.plot([], [], "-", color="black", lw=1, label=f"knows n modulo primes to {bound}")
    axes.plot([], [], "--", color="black", lw=1, label="chance")
    axes.set_xticks(range(len(scales)), [format_integer(scale["at"]) for scale in scales])
    axes.set_xlim(-0.6, len(scales) - 0.4)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.2)
    axes.set_xlabel("integers near")
    axes.set_ylabel("word accuracy of a whole continuation")
    axes.grid(alpha=0.3)
    axes.legend(ncols=2, loc="upper center", fontsize=8, handletextpad=0.5, columnspacing=1)


def caption(data: dict[str, Any]) -> str:
    scales = data["scales"]
    last = [scale["by_tokens"][-1] for scale in scales]
    means = [row["accuracy"]["value"] for row in last]
    low, collapsed, slipped, everything = _low(scales)
    return (
        f"Word accuracy of the likeliest continuation (β = ∞) of {data['prompts']} prompts of"
        f" {data['tokens']} tokens (each {data['training']['token']}) near each of"
        f" {_places(scales)}, seed {data['seed']}. Left:"
        " against the number of tokens generated, each prompt a point and their mean a line, with"
        " 95 % intervals from the bootstrap over prompts; the scales are drawn side by side. Right:"
        f" each continuation of {last[0]['tokens']} tokens, those found to have left out or added"
        " words (slipped) as crosses; as a dashed line the share that unrelated text of the same"
        " frequencies would have right, as a full one that of an oracle which knows n modulo the"
        f" powers of the primes up to {_like(scales)}, of all such oracles the most like the model."
        f" The means end at {min(means):.3f} to {max(means):.3f}; of {everything} continuations"
        f" {low} have less than {LOW}, {collapsed} are no better than chance and {slipped} slip."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    header = ["integers near", "tokens", "word accuracy", "low", "high", "standard deviation"]
    header += ["least", "quarter below", "median", "quarter above", "greatest", "prompts"]
    bound = _like(data["scales"])
    header.append(f"oracle of primes to {bound}")
    rows = []
    for scale in data["scales"]:
        for row in scale["by_tokens"]:
            each = _column([{"one": value} for value in row["each"] if value is not None], "one")
            spread = [each.std(), *np.quantile(each, np.linspace(0, 1, 5))] if len(each) else []
            numbers = [row["accuracy"][key] for key in ("value", "low", "high")] + spread
            shown = ["" if number is None else round(float(number), 4) for number in numbers]
            shown += [""] * (9 - len(shown))
            oracle = round(scale["oracles"][bound], 4)
            rows.append([format_integer(scale["at"]), row["tokens"], *shown, len(each), oracle])
    return header, rows


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    far = [scale for scale in data["scales"] if scale["at"] > TRAINED]
    return [
        *(_settles(scale, data["training"]) for scale in far),
        _scale_does_not_matter(far, _like(data["scales"])),
        _highest_for_few(far, data["training"]),
        _varies_for_few(far),
        _stabilises(far),
        _two_clusters(far),
        _chance(far),
    ]


def _settles(scale: dict[str, Any], learned: dict[str, Any]) -> Verdict:
    last = scale["by_tokens"][-1]
    accuracy = Estimate(**last["accuracy"])
    slip = scale["alignment"]
    return Verdict(
        claim=f"The word accuracy settles near 0.4 (near {format_integer(scale['at'])}).",
        paper="around 0.4",
        ours=f"{said(accuracy)} over {last['tokens']} tokens (agrees if the interval meets"
        f" {SETTLED[0]} to {SETTLED[1]})",
        agrees=meets(accuracy, *SETTLED),
        why=f"Trained for {learned['seconds'] / 60:.1f} minutes on {learned['tokens'] / 1e6:.3g}"
        f" million tokens. With each word at its own shift it is {said(slip['realigned_accuracy'])}"
        f"; {said(slip['slipped'])} of the continuations slip.",
    )


def _scale_does_not_matter(far: list[dict[str, Any]], bound: str) -> Verdict:
    first, last = (_each(scale, -1) for scale in (far[0], far[-1]))
    change = bootstrap(lambda a, b: b.mean() - a.mean(), first, last)
    means = ", ".join(
        f"{scale['by_tokens'][-1]['accuracy']['value']:.3f} near {format_integer(scale['at'])}"
        for scale in far
    )
    return Verdict(
        claim=f"The accuracy does not depend on the scale, from {format_integer(far[0]['at'])} to"
        f" {format_integer(far[-1]['at'])}.",
        paper="not affected",
        ours=f"{means}; from the first to the last it changes by {said(change)} (agrees if the"
        f" interval is within ±{STEADY})",
        agrees=within(change, -STEADY, STEADY),
        why=f"An oracle that knows n modulo the powers of the primes up to {bound}, of all the most"
        " like the model, has"
        f" {', '.join(format(scale['oracles'][bound], '.3f') for scale in far)}: by so much the"
        " text itself changes.",
    )


def _highest_for_few(far: list[dict[str, Any]], learned: dict[str, Any]) -> Verdict:
    lengths = [row["tokens"] for row in far[0]["by_tokens"]]
    means = [np.concatenate([_each(scale, i) for scale in far]).mean() for i in range(len(lengths))]
    best = int(np.argmax(means))
    fall = bootstrap(lambda pairs: (pairs[:, 0] - pairs[:, 1]).mean(), _pairs(far, 0, -1))
    return Verdict(
        claim="The accuracy is highest on average when few tokens are generated.",
        paper="it is",
        ours=f"highest at {_tokens(lengths[best])}, {means[best]:.3f}; {_tokens(lengths[0])} less"
        f" {lengths[-1]}: {said(fall)}, the same prompts near {_places(far)} (agrees if it is"
        " highest at 8 or fewer and the interval is above 0)",
        agrees=lengths[best] <= 8 and fall.low is not None and fall.low > 0,
        why="A prompt may end inside a word, so the first token may be just the rest of one that is"
        " half spelled."
        if learned["token"] != "a word"
        else "Here every token is a word.",
    )


def _varies_for_few(far: list[dict[str, Any]]) -> Verdict:
    lengths = [row["tokens"] for row in far[0]["by_tokens"]]
    pairs = _pairs(far, 0, -1)
    few, many = (bootstrap(np.std, column) for column in pairs.T)
    excess = bootstrap(lambda both: both[:, 0].std() - both[:, 1].std(), pairs)
    return Verdict(
        claim="The accuracy varies more between prompts when few tokens are generated.",
        paper="it does",
        ours=f"standard deviation {said(few)} at {_tokens(lengths[0])}, {said(many)} at"
        f" {lengths[-1]} (agrees if the interval of the difference, {said(excess)}, is above 0)",
        agrees=excess.low is not None and excess.low > 0,
        why="A share of one or two words varies by chance alone, whatever the model knows.",
    )


def _stabilises(far: list[dict[str, Any]]) -> Verdict:
    lengths = [row["tokens"] for row in far[0]["by_tokens"]]
    quarter = max(0, len(lengths) - 3)
    pairs = _pairs(far, quarter, -1)
    change = bootstrap(lambda both: (both[:, 1] - both[:, 0]).mean(), pairs)
    before, after = pairs.mean(0)
    return Verdict(
        claim="As more is generated, the accuracy becomes largely independent of the length.",
        paper="it does",
        ours=f"{before:.3f} over {_tokens(lengths[quarter])}, {after:.3f} over {lengths[-1]}:"
        f" changes by {said(change)} (agrees if the interval is within ±{STEADY})",
        agrees=within(change, -STEADY, STEADY),
        why="The accuracy over all tokens, as the paper has it, averages over those before and"
        " falls more slowly than that of the last words.",
    )


def _two_clusters(far: list[dict[str, Any]]) -> Verdict:
    each = [one for scale in far for one in scale["alignment"]["each"]]
    low = [one["collapsed"] or one["accuracy"] < LOW for one in each]
    high = [MAJORITY[0] <= one["accuracy"] <= MAJORITY[1] for one in each]
    between = [
        not is_low and one["accuracy"] < MAJORITY[0] for one, is_low in zip(each, low, strict=True)
    ]
    collapsed = share([one["collapsed"] for one in each])
    explained = sum(_explained(scale) for scale in far)
    count = sum(one["collapsed"] for one in each)
    return Verdict(
        claim="Whole continuations have either around 0.4 (the majority) or just below 0.1.",
        paper="two clusters",
        ours=f"of {len(each)}, {sum(high)} have {MAJORITY[0]} to {MAJORITY[1]}, {sum(low)} have"
        f" collapsed or have less than {LOW}, {sum(between)} are between; collapsed, no better"
        f" than chance: {said(collapsed)} (agrees if most are in the first group, some in the"
        " second, and fewer between than there)",
        agrees=sum(high) > len(each) / 2 and sum(between) < sum(low),
        why=f"Of the {count} that have collapsed, {explained} are well above chance with each word"
        " at its own shift: such have left out or added words, and need not be hard to predict."
        " One that slips later has an accuracy between the two groups.",
    )


def _chance(far: list[dict[str, Any]]) -> Verdict:
    values = [scale["alignment"]["chance"]["value"] for scale in far]
    found = ", ".join(
        f"{said(Estimate(**scale['alignment']['chance']))} near {format_integer(scale['at'])}"
        for scale in far
    )
    return Verdict(
        claim="Random prediction is right just below one time in ten.",
        paper="just below 0.1",
        ours=f"{found} (agrees if the mean of these is from 0.08 to 0.1)",
        agrees=0.08 <= float(np.mean(values)) <= 0.1,
        why="This is Σ f̂ f over all words, with the frequencies of what was generated and of what"
        " stands there; it depends on the model.",
    )


def _each(scale: dict[str, Any], length: int) -> Floats:
    """The accuracy of each prompt that has a word by then."""
    values = scale["by_tokens"][length]["each"]
    return np.array([value for value in values if value is not None], np.float64)


def _pairs(scales: list[dict[str, Any]], first: int, second: int) -> Floats:
    """The accuracies of the same prompts at two lengths, of all scales."""
    pairs = [
        pair
        for scale in scales
        for pair in zip(*(scale["by_tokens"][i]["each"] for i in (first, second)), strict=True)
        if None not in pair
    ]
    return np.array(pairs, np.float64).reshape(-1, 2)


def _low(scales: list[dict[str, Any]]) -> tuple[int, int, int, int]:
    """How many continuations are low, collapsed, slipped, and how many there are."""
    each = [one for scale in scales for one in scale["alignment"]["each"]]
    return (
        sum(one["accuracy"] < LOW for one in each),
        sum(one["collapsed"] for one in each),
        sum(one["slips"] > 0 for one in each),
        len(each),
    )


def _explained(scale: dict[str, Any]) -> int:
    """How many of the collapsed continuations a slip explains."""
    collapsed: int = sum(one["collapsed"] for one in scale["alignment"]["each"])
    explained: float | None = scale["alignment"]["explained_by_shift"]["value"]
    return round((explained or 0) * collapsed)


def _column(rows: Sequence[dict[str, Any]], key: str) -> Floats:
    return np.array([row[key] for row in rows], np.float64)


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count} tokens"


def _places(scales: Sequence[dict[str, Any]]) -> str:
    *others, last = (format_integer(scale["at"]) for scale in scales)
    return f"{', '.join(others)} and {last}" if others else last
