"""Word accuracy and divergence against the inverse temperature, for the GPT-2 and the HMM."""

from dataclasses import dataclass
from math import inf

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import intervals_overlap
from ...evaluation.evaluate import BETAS
from ...evaluation.temperatures import BestBeta, BetaQuality, best_beta, quality_by_beta
from ..figures import COLOURS, LINES, MARKERS, beta_axis, beta_position, plot_estimates
from ..runs import Comparison, PromptSettings, comparison
from ..study import Table, Verdict
from ..wording import (
    format_beta,
    format_estimate,
    format_integer,
    format_number,
    format_percent,
    format_percents,
    join,
)

TITLE = "Accuracy and divergence against β"
ORDER = 120
COST = {"laptop": 25, "gpu": 120}

PAPER_BEST = {"accuracy": (3.3, 10.0), "kl_paper": (1.4, 3.3)}  # the paper's best β
MOST_MALFORMED = 0.0025  # the paper's upper bound for the share of malformed words
LABELLED = (0.1, 0.2, 0.5, 1.0, 2.0, 3.3, 5.0, 10.0)  # β with a label at the axis


@dataclass(frozen=True)
class Settings(Comparison):
    betas: tuple[float, ...]  # in increasing order
    generated: int  # tokens


@dataclass(frozen=True)
class Result:
    at: int
    generated: int
    generation: PromptSettings
    curves: dict[str, list[BetaQuality]]  # by model
    best: dict[str, dict[str, BestBeta]]  # by model and measure
    accuracy_ratio: float  # the GPT-2's best accuracy divided by the HMM's
    most_malformed: float  # the β at which the GPT-2 makes the most malformed words
    most_malformed_elsewhere: float  # as `most_malformed`, but without the lowest β

    def row(self, model: str, beta: float) -> BetaQuality:
        return next(row for row in self.curves[model] if row.beta == beta)

    def best_row(self, model: str, measure: str) -> BetaQuality:
        return self.row(model, self.best[model][measure].beta)


def settings(scale: str) -> Settings:
    return Settings(**vars(comparison(scale)), betas=(*BETAS, inf), generated=32)


def run(settings: Settings) -> Result:
    how, curves = settings.generation, {}
    for name, trained in settings.models.items():
        model, prompts = trained.load().model, trained.prompts(settings.at, how)
        curves[name] = quality_by_beta(
            model, prompts, settings.generated, settings.betas, seed=how.seed, stride=how.stride
        )
    return summarise(settings, curves)


def summarise(settings: Settings, curves: dict[str, list[BetaQuality]]) -> Result:
    measures = (*PAPER_BEST, "jensen_shannon")
    best = {name: {m: best_beta(rows, m) for m in measures} for name, rows in curves.items()}
    gpt, hmm = (max(row.accuracy.value or 0 for row in curves[name]) for name in ("GPT-2", "HMM"))
    malformed = {row.beta: row.malformed.value or 0 for row in curves["GPT-2"]}
    _, *others = malformed
    return Result(
        settings.at,
        settings.generated,
        settings.generation,
        curves,
        best,
        accuracy_ratio=gpt / max(hmm, 1e-9),
        most_malformed=max(malformed, key=lambda beta: malformed[beta]),
        most_malformed_elsewhere=max(others, key=lambda beta: malformed[beta]),
    )


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    labels = ("share of words that are right", "the paper's $\\mathrm{KL}^w$ in nats")
    for axes, (measure, best), label in zip(panels, PAPER_BEST.items(), labels, strict=True):
        axes.axvspan(*best, color="0.9", label="best in the paper")
        _plot_measure(axes, result, measure)
        axes.set(ylim=(min(0, axes.get_ylim()[0]), None), ylabel=label)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return figure


def _plot_measure(axes: Axes, result: Result, measure: str) -> None:
    """One curve for each model; the HMM's is slightly to the right, and β = ∞ is not connected."""
    curves = zip(result.curves.items(), COLOURS, (LINES[0], LINES[3]), MARKERS, strict=False)
    for (name, rows), colour, line, marker in curves:
        betas = [row.beta for row in rows]
        style = {"color": colour, "ls": line, "marker": marker, "lw": 1.3, "ms": 4}
        for infinite in (False, True):
            part = [row for row in rows if (row.beta == inf) == infinite]
            x = [beta_position(row.beta, betas) * (1.05 if name == "HMM" else 1) for row in part]
            estimates = [row.estimate(measure) for row in part]
            plot_estimates(axes, x, estimates, label=None if infinite else name, **style)
    beta_axis(axes, betas, LABELLED)


def caption(result: Result) -> str:
    how = result.generation
    last = {name: rows[-1] for name, rows in result.curves.items()}
    left_out = [f"{_left_out(row)} of the true words for the {name}" for name, row in last.items()]
    return (
        "Left: share of words that are right. Right: the paper's KL^w, a divergence of the word"
        f" frequencies from the true frequencies. {how.prompts} prompts of {how.tokens} tokens near"
        f" {format_integer(result.at)} are continued by {result.generated} tokens at each inverse"
        f" temperature β, seed {how.seed}. Bars are 95 % intervals (bootstrap over prompts). Grey"
        " marks the β that are best in the paper. KL^w sums only over words that were generated,"
        " so a low value may mean that much is left out: at β ="
        f" {format_beta(last['GPT-2'].beta)}, {join(left_out)}."
    )


def _left_out(row: BetaQuality) -> str:
    return format_percent(row.kl_left_out.value or 0)


def table(result: Result) -> Table:
    columns = {
        "accuracy": "accuracy",
        "kl_paper": "KL^w of the paper (nats)",
        "kl_left_out": "true words it leaves out",
        "kl_infinite": "prompts with infinite KL divergence",
        "jensen_shannon": "Jensen–Shannon (nats)",
        "malformed": "malformed words",
    }
    rows = [
        [name, format_beta(row.beta), *(format_estimate(row.estimate(m), 4) for m in columns)]
        for name, rows in result.curves.items()
        for row in rows
    ]
    return ["model", "β", *columns.values()], rows


def verdicts(result: Result) -> list[Verdict]:
    return [
        _best_range(result, "accuracy", "Word accuracy", "best-accuracy"),
        _best_range(result, "kl_paper", "KL^w", "best-kl"),
        _worse_below_1(result, "accuracy", "Word accuracy", "accuracy-worse-below-1"),
        _worse_below_1(result, "kl_paper", "KL^w", "kl-worse-below-1"),
        *_malformed(result),
        *_against_hmm(result),
    ]


def _best_range(result: Result, measure: str, name: str, key: str) -> Verdict:
    least, greatest = PAPER_BEST[measure]
    rows, best_betas = result.curves["GPT-2"], result.best["GPT-2"]
    best, as_good = result.best_row("GPT-2", measure), best_betas[measure].as_good
    claimed = [row.beta for row in rows if least <= row.beta <= greatest]
    others = [row.beta for row in rows if row.beta not in claimed]
    worse = [beta for beta in others if beta not in as_good]
    why = f"{len(worse)} of the {len(others)} β outside the paper's range are clearly worse."
    if measure == "kl_paper":
        why += (
            f" KL^w leaves out true words that were never generated: {_left_out(best)} at"
            f" β = {format_beta(best.beta)} and {_left_out(rows[0])} at"
            f" {format_beta(rows[0].beta)}. The Jensen–Shannon divergence leaves out nothing; it is"
            f" least at β = {format_beta(best_betas['jensen_shannon'].beta)}."
        )
    return Verdict(
        key=key,
        claim=f"{name} is best for {least:g} ≤ β ≤ {greatest:g}.",
        paper=f"{least:g} to {greatest:g}",
        ours=f"best at β = {format_beta(best.beta)}, {format_estimate(best.estimate(measure))}; as"
        f" good (the intervals overlap) at β = {', '.join(map(format_beta, as_good))}",
        criterion="all β of the paper's range are as good as the best, and at least half of the"
        " other β are not",
        agrees=set(claimed) <= set(as_good) and 2 * len(worse) >= len(others),
        why=why,
    )


def _worse_below_1(result: Result, measure: str, name: str, key: str) -> Verdict:
    low, one = result.curves["GPT-2"][0], result.row("GPT-2", 1)
    at_low, at_one = low.estimate(measure), one.estimate(measure)
    return Verdict(
        key=key,
        claim=f"{name} gets worse when β < 1.",
        paper="it does",
        ours=f"{format_estimate(at_low)} at β = {format_beta(low.beta)} against"
        f" {format_estimate(at_one)} at β = 1",
        criterion="the value at the lower β is worse and the two intervals do not overlap",
        agrees=low.merit(measure) < one.merit(measure) and not intervals_overlap(at_low, at_one),
    )


def _malformed(result: Result) -> list[Verdict]:
    rows, bound = result.curves["GPT-2"], format_percent(MOST_MALFORMED, 2)
    most, hmm = (result.row(name, result.most_malformed) for name in ("GPT-2", "HMM"))
    other = result.row("GPT-2", result.most_malformed_elsewhere)
    lowest, elsewhere = rows[0].malformed.value or 0, other.malformed.value or 0
    any_malformed = max(lowest, elsewhere) > 0
    return [
        Verdict(
            key="few-malformed",
            claim=f"Malformed words stay below {bound} for all β ≥ 1/10.",
            paper=f"below {bound}",
            ours=f"at most {format_percents(most.malformed, 2)}, at β = {format_beta(most.beta)}",
            criterion="the whole interval is above the paper's bound at no β",
            agrees=all((row.malformed.low or 0) <= MOST_MALFORMED for row in rows),
            why=f"The HMM has {format_percent(hmm.malformed.value or 0, 2)} at the same β.",
        ),
        Verdict(
            key="most-malformed-at-lowest",
            claim="Malformed words are most common at the lowest β, 1/10.",
            paper="the highest value is reached there",
            ours=f"{format_percent(lowest, 2)} at β = {format_beta(rows[0].beta)}; elsewhere at"
            f" most {format_percent(elsewhere, 2)}, at β = {format_beta(other.beta)}",
            criterion="the share at the lowest β is higher than at any other β",
            agrees=lowest > elsewhere if any_malformed else None,
            why=""
            if any_malformed
            else "No word is malformed at any β; none can be if tokens are words.",
        ),
    ]


def _against_hmm(result: Result) -> list[Verdict]:
    gpt, hmm = (result.best_row(name, "accuracy") for name in ("GPT-2", "HMM"))
    gpt_last, hmm_last = (result.curves[name][-1] for name in ("GPT-2", "HMM"))
    hmm_one = result.row("HMM", 1)
    return [
        Verdict(
            key="outperforms-hmm",
            claim="GPT-2 predicts words far better than the HMM.",
            paper="largely outperforms it; the HMM is comparable to a random guess",
            ours=f"{format_estimate(gpt.accuracy)} against {format_estimate(hmm.accuracy)}, each at"
            f" its best β, {format_beta(gpt.beta)} and {format_beta(hmm.beta)}:"
            f" {result.accuracy_ratio:.1f} times as many words are right",
            criterion="at least twice as many words are right and the two intervals do not overlap",
            agrees=result.accuracy_ratio >= 2 and not intervals_overlap(gpt.accuracy, hmm.accuracy),
        ),
        Verdict(
            key="same-kl-as-hmm",
            claim="The HMM has about the same KL^w as GPT-2 at high β.",
            paper="approximately the same",
            ours=f"GPT-2 {format_estimate(gpt_last.kl_paper)} at β = {format_beta(gpt_last.beta)};"
            f" HMM {format_estimate(hmm_last.kl_paper)} at the same β and"
            f" {format_estimate(hmm_one.kl_paper)} at β = 1",
            criterion="the GPT-2's interval overlaps one of the HMM's two",
            agrees=any(
                intervals_overlap(gpt_last.kl_paper, row.kl_paper) for row in (hmm_last, hmm_one)
            ),
            why=f"KL^w leaves out {_left_out(hmm_last)} of the true words for the HMM and"
            f" {_left_out(gpt_last)} for GPT-2. Their Jensen–Shannon divergences are"
            f" {format_number(hmm_last.jensen_shannon.value)} and"
            f" {format_number(gpt_last.jensen_shannon.value)} nats. The paper does not say at which"
            " β its HMM was used.",
        ),
    ]
