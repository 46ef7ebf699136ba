"""Word accuracy and divergence against the inverse temperature, with the HMM."""

from collections.abc import Sequence
from math import inf
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.codec import to_json
from ...evaluation.estimates import said
from ...evaluation.evaluate import BETAS, quality
from ...evaluation.generation import continued
from ...integers import format_integer
from ..figures import COLOURS, LINES, MARKS
from ..runs import FAR, continuing, hmm, model, ntp, prompts
from ..study import Verdict

TITLE = "Accuracy and divergence against β"
PLACE = 120
COST = {"laptop": 25, "gpu": 120}

# The paper's best β for accuracy and KL^w, and its bound for malformed words.
BEST = {"accuracy": (3.3, 10.0), "kl_paper": (1.4, 3.3)}
MALFORMED = 0.0025
SHOWN = (0.1, 0.2, 0.5, 1.0, 2.0, 3.3, 5.0, 10.0)  # the β that are written at the axis

Rows = list[dict[str, Any]]


def settings(scale: str) -> dict[str, Any]:
    return {
        "GPT-2": ntp(scale),
        "HMM": hmm(scale),
        "at": FAR[0],
        "betas": [*BETAS, "inf"],
        "generated": 32,
        "continuing": continuing(scale),
    }


def run(settings: dict[str, Any]) -> dict[str, Any]:
    how = settings["continuing"]
    curves = {}
    for name in ("GPT-2", "HMM"):
        it = model(settings[name])
        drawn = prompts(settings[name], settings["at"], how)
        curves[name] = [
            {
                "beta": beta,
                **to_json(
                    quality(
                        continued(
                            it.model,
                            drawn,
                            settings["generated"],
                            beta=float(beta),
                            seed=how["seed"],
                            stride=how["forget"],
                        )
                    )
                ),
            }
            for beta in settings["betas"]
        ]
    return {"at": settings["at"], "generated": settings["generated"], "curves": curves, **how}


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    labels = ("share of words that are right", "the paper's $\\mathrm{KL}^w$ in nats")
    for axes, (what, best), label in zip(panels, BEST.items(), labels, strict=True):
        axes.axvspan(*best, color="0.9", label="best in the paper")
        for (name, rows), colour, line, mark in zip(
            data["curves"].items(), COLOURS, (LINES[0], LINES[3]), MARKS, strict=False
        ):
            style = {"color": colour, "marker": mark, "ls": line}
            _draw(axes, rows, what, name, style, 1 if name == "GPT-2" else 1.05)
        _scale(axes, next(iter(data["curves"].values())))
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
        axes.set_ylabel(label)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return figure


def _draw(axes: Axes, rows: Rows, what: str, name: str, style: Any, aside: float) -> None:
    """Values with intervals, a little aside of those of others; infinity stands apart."""
    for infinite in (False, True):
        part = [row for row in rows if (_beta(row) == inf) == infinite]
        values = [row[what]["value"] for row in part]
        axes.errorbar(
            [aside * _place(row, rows) for row in part],
            values,
            yerr=[
                [value - row[what]["low"] for value, row in zip(values, part, strict=True)],
                [row[what]["high"] - value for value, row in zip(values, part, strict=True)],
            ],
            lw=1.3,
            ms=4,
            capsize=2,
            label=None if infinite else name,
            **style,
        )


def _scale(axes: Axes, rows: Rows) -> None:
    """β on a logarithmic axis, and infinity beyond a break at its right."""
    finite = [_beta(row) for row in rows if _beta(row) < inf]
    axes.set_xscale("log")
    axes.minorticks_off()
    ticks = {_place(row, rows): f"{_beta(row):g}" for row in rows if _beta(row) in SHOWN}
    if len(finite) < len(rows):
        end = _place({"beta": inf}, rows)
        ticks[end] = "∞"
        middle = (max(finite) * end) ** 0.5
        at_axis = axes.get_xaxis_transform()
        axes.text(middle, 0, "//", transform=at_axis, ha="center", va="center", fontsize=11)
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set_xlabel("inverse temperature β")
    axes.grid(alpha=0.3)


def _beta(row: dict[str, Any]) -> float:
    return float(row["beta"])


def _place(row: dict[str, Any], rows: Rows) -> float:
    """Where a β is drawn: infinity at 2.5 times the last one."""
    finite = [_beta(each) for each in rows if _beta(each) < inf]
    return min(_beta(row), 2.5 * max(finite))


def _written(beta: float) -> str:
    return "∞" if beta == inf else f"{beta:g}"


def caption(data: dict[str, Any]) -> str:
    left_out = {name: rows[-1]["kl_left_out"]["value"] for name, rows in data["curves"].items()}
    last = _written(_beta(next(iter(data["curves"].values()))[-1]))
    return (
        f"Words that are right (left) and the divergence of their frequencies from the true ones"
        f" (right) in continuations of {data['prompts']} prompts of {data['tokens']} tokens near"
        f" {format_integer(data['at'])} by {data['generated']} tokens, against β; bars are 95 %"
        " intervals"
        f" (bootstrap over prompts), seed {data['seed']}. Grey: where the paper finds the best"
        " values. The paper's sum runs over the words that were generated, so that a low value may"
        " mean that much is left out: at β = "
        f"{last} "
        + " and ".join(
            f"{_percent(share)} of the true words for {n}" for n, share in left_out.items()
        )
        + "."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    columns = {
        "accuracy": "accuracy",
        "kl_paper": "KL^w of the paper (nats)",
        "kl_left_out": "true words it leaves out",
        "kl_infinite": "prompts where all of it is infinite",
        "jensen_shannon": "Jensen–Shannon (nats)",
        "malformed": "malformed words",
    }
    rows = [
        [name, _written(_beta(row)), *(said(row[what], 4) for what in columns)]
        for name, curve in data["curves"].items()
        for row in curve
    ]
    return ["model", "β", *columns.values()], rows


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    gpt, hmm = (data["curves"][name] for name in ("GPT-2", "HMM"))
    return [
        _best(gpt, "accuracy", "word accuracy"),
        _best(gpt, "kl_paper", "KL^w"),
        _degrades(gpt, "accuracy", "Word accuracy"),
        _degrades(gpt, "kl_paper", "KL^w"),
        _malformed(gpt, hmm),
        _most_malformed(gpt),
        _outperforms(gpt, hmm),
        _same_divergence(gpt, hmm),
    ]


def _value(row: dict[str, Any], what: str) -> float:
    return float(row[what]["value"])


def _merit(row: dict[str, Any], what: str) -> float:
    """More accuracy is better, and a divergence that is nearer to 0: cut off, it may be less."""
    value = _value(row, what)
    return value if what == "accuracy" else -abs(value)


def _overlap(one: dict[str, float], other: dict[str, float]) -> bool:
    return one["low"] <= other["high"] and other["low"] <= one["high"]


def _best(rows: Rows, what: str, name: str) -> Verdict:
    least, greatest = BEST[what]
    best = max(rows, key=lambda row: _merit(row, what))
    good = [_beta(row) for row in rows if _overlap(row[what], best[what])]
    claimed = [_beta(row) for row in rows if least <= _beta(row) <= greatest]
    others = [beta for beta in map(_beta, rows) if beta not in claimed]
    worse = [beta for beta in others if beta not in good]
    why = [f"Clearly worse: {len(worse)} of the {len(others)} β outside the paper's range."]
    if what == "kl_paper":
        shannon = min(rows, key=lambda row: _value(row, "jensen_shannon"))
        why.append(
            f"The paper's sum leaves out true words that were never generated,"
            f" {_percent(_value(best, 'kl_left_out'))} at β = {_written(_beta(best))} and"
            f" {_percent(_value(rows[0], 'kl_left_out'))} at {_written(_beta(rows[0]))}; the"
            " Jensen–Shannon divergence, which leaves out nothing, is least at"
            f" β = {_written(_beta(shannon))}."
        )
    return Verdict(
        claim=f"The best {name} is that for {least:g} ≤ β ≤ {greatest:g}.",
        paper=f"{least:g} to {greatest:g}",
        ours=f"best at β = {_written(_beta(best))}, {said(best[what])}; as good (the intervals"
        f" overlap) for β = {', '.join(map(_written, good))} (agrees if all of the paper's range"
        " is, and at least half of the other β are not)",
        agrees=set(claimed) <= set(good) and 2 * len(worse) >= len(others),
        why=" ".join(why),
    )


def _degrades(rows: Rows, what: str, name: str) -> Verdict:
    one = next(row for row in rows if _beta(row) == 1)
    low = min(rows, key=_beta)
    worse = _merit(low, what) < _merit(one, what)
    return Verdict(
        claim=f"{name} gets worse when β < 1.",
        paper="it does",
        ours=f"{said(low[what])} at β = {_written(_beta(low))} against {said(one[what])} at 1"
        " (agrees if it is worse and the intervals are apart)",
        agrees=worse and not _overlap(low[what], one[what]),
    )


def _malformed(gpt: Rows, hmm: Rows) -> Verdict:
    worst = max(gpt, key=lambda row: _value(row, "malformed"))
    same = next(row for row in hmm if row["beta"] == worst["beta"])
    part = {key: 100 * value for key, value in worst["malformed"].items()}
    return Verdict(
        claim=f"Malformed words stay below {_percent(MALFORMED, 2)} for all β ≥ 1/10.",
        paper=f"below {_percent(MALFORMED, 2)}",
        ours=f"at most {said(part, 2)} %, at β = {_written(_beta(worst))} (agrees if the intervals"
        " of all β reach down to that)",
        agrees=all(row["malformed"]["low"] <= MALFORMED for row in gpt),
        why=f"The HMM has {_percent(_value(same, 'malformed'), 2)} at the same β.",
    )


def _most_malformed(gpt: Rows) -> Verdict:
    flattest, *others = sorted(gpt, key=_beta)
    worst = max(others, key=lambda row: _value(row, "malformed"))
    shares = [_value(row, "malformed") for row in (flattest, worst)]
    return Verdict(
        claim="Malformed words are commonest at the lowest β, 1/10.",
        paper="the highest value is reached there",
        ours=f"{_percent(shares[0], 2)} at β = {_written(_beta(flattest))}; elsewhere at most"
        f" {_percent(shares[1], 2)}, at β = {_written(_beta(worst))} (agrees if the first is"
        " the highest)",
        agrees=shares[0] > shares[1] if any(shares) else None,
        why=""
        if any(shares)
        else "No word is malformed at any β; if every token is a word, none can be.",
    )


def _outperforms(gpt: Rows, hmm: Rows) -> Verdict:
    ours, theirs = (max(rows, key=lambda row: _value(row, "accuracy")) for rows in (gpt, hmm))
    ratio = _value(ours, "accuracy") / max(_value(theirs, "accuracy"), 1e-9)
    return Verdict(
        claim="GPT-2 predicts words far better than the HMM.",
        paper="largely outperforms it; the HMM is comparable to a random guess",
        ours=f"{said(ours['accuracy'])} against {said(theirs['accuracy'])}, each at its best β,"
        f" {_written(_beta(ours))} and {_written(_beta(theirs))}: {ratio:.1f} times as many"
        " (agrees if at least twice as many and the intervals are apart)",
        agrees=ratio >= 2 and not _overlap(ours["accuracy"], theirs["accuracy"]),
    )


def _same_divergence(gpt: Rows, hmm: Rows) -> Verdict:
    ours, theirs = (max(rows, key=_beta) for rows in (gpt, hmm))
    one = next(row for row in hmm if _beta(row) == 1)
    left_out = [_percent(_value(row, "kl_left_out")) for row in (theirs, ours)]
    shannon = [f"{_value(row, 'jensen_shannon'):.3f}" for row in (theirs, ours)]
    return Verdict(
        claim="The HMM has about the same KL^w as GPT-2 at high β.",
        paper="approximately the same",
        ours=f"GPT-2 {said(ours['kl_paper'])} at β = {_written(_beta(ours))}; HMM"
        f" {said(theirs['kl_paper'])} there and {said(one['kl_paper'])} at 1 (agrees if one of the"
        " two intervals overlaps)",
        agrees=any(_overlap(ours["kl_paper"], row["kl_paper"]) for row in (theirs, one)),
        why=f"The sum leaves out {left_out[0]} of the true words for the HMM and {left_out[1]} for"
        f" GPT-2; their Jensen–Shannon divergences are {shannon[0]} and {shannon[1]} nats. The"
        " paper does not say at which β its HMM was used.",
    )
