"""Prompts with runs of square-free words, and a control that the paper does not have."""

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import above
from ...evaluation.square_free import RunPrompts, StretchesSummary, TruePrompts, impossible, runs
from ...text.splits import unseen
from ..figures import LINES, legend_above, plot_estimates, ridges, styles
from ..runs import TESTS_FAR, TrainedModel, hmm, ntp
from ..study import Table, Verdict
from ..wording import format_estimate, format_integer, format_percent

TITLE = "Four square-free words in a row"
ORDER = 145
COST = {"laptop": 10, "gpu": 20}

LONGEST_RUN = 3  # one of any four consecutive integers is divisible by 4

# The styles of the GPT-2 and of the HMM, whose line is dash-dotted as in the paper.
_STYLES = (styles()[0], styles()[1] | {"ls": LINES[2]})
_KINDS = {
    "true": "as in\nthe text",
    "here": "allowed\nhere",
    "elsewhere": "allowed\nelsewhere",
    "impossible": "impossible",
}


@dataclass(frozen=True)
class Settings:
    models: dict[str, TrainedModel]
    at: int
    tokens: int
    sequences: int
    seed: int


@dataclass(frozen=True)
class Likelihoods:
    """The likelihoods that one model gives to prompts and to replaced words."""

    true: TruePrompts
    runs: list[RunPrompts]  # the shortest first
    impossible: StretchesSummary


@dataclass(frozen=True)
class Result:
    at: int
    tokens: int
    sequences: int
    seed: int
    models: dict[str, Likelihoods]


def settings(scale: str) -> Settings:
    tokens, sequences = (256, 128) if scale == "laptop" else (1024, 512)
    models = {"GPT-2": ntp(scale), "HMM": hmm(scale)}
    return Settings(models, TESTS_FAR[0], tokens, sequences, seed=0)


def run(settings: Settings) -> Result:
    models = {name: _measure(model, settings) for name, model in settings.models.items()}
    return Result(settings.at, settings.tokens, settings.sequences, settings.seed, models)


def _measure(model: TrainedModel, settings: Settings) -> Likelihoods:
    subject = model.load()
    test = unseen(settings.at, subject.seen)
    inputs = subject.model, subject.tokenizer, [test], subject.trained
    number, length, seed = settings.sequences, settings.tokens, settings.seed
    scored = runs(*inputs, way="by frequency", number=number, length=length, seed=seed)
    stretches = impossible(*inputs, number=number, length=length, seed=seed)
    return Likelihoods(*scored.distributions(), stretches.summary())


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _plot_histograms(left, result.models)
    for (name, likelihoods), style in zip(result.models.items(), _STYLES, strict=True):
        nats = [likelihoods.impossible.nats[kind] for kind in _KINDS]
        plot_estimates(right, range(len(_KINDS)), nats, label=name, **style)
    right.set_xticks(range(len(_KINDS)), list(_KINDS.values()), fontsize=9)
    right.set_xlim(-0.4, len(_KINDS) - 0.6)
    right.set_ylim(bottom=0)
    right.set_ylabel("cost of four words in nats")
    right.grid(alpha=0.3)
    for axes in (left, right):
        legend_above(axes, 2)
    return figure


def _plot_histograms(axes: Axes, models: dict[str, Likelihoods]) -> None:
    for likelihoods, style in zip(models.values(), _STYLES, strict=True):
        axes.axvspan(*likelihoods.true.middle, color=style["color"], alpha=0.12, lw=0)
    values = {
        name: [likelihoods.true.values, *(each.values for each in likelihoods.runs)]
        for name, likelihoods in models.items()
    }
    lengths = [each.run for each in models["GPT-2"].runs]
    names = ["true text", *(f"runs of {run}" for run in lengths)]
    ridges(axes, values, names, bins=90, styles=_STYLES)
    border = lengths.index(LONGEST_RUN) + 2
    axes.axhline(border, color="black", lw=1.2)
    beside = axes.get_yaxis_transform()
    for middle, label in (((border + len(lengths) + 1) / 2, "never occur"), (border / 2, "occur")):
        axes.text(1.01, middle, label, rotation=90, va="center", fontsize=9, transform=beside)
    axes.set_xlabel("log-likelihood in nats per token")


def caption(result: Result) -> str:
    control = result.models["GPT-2"].impossible
    return (
        f"Left: log-likelihoods of {result.sequences} true prompts of {result.tokens} tokens near"
        f" {format_integer(result.at)} (seed {result.seed}), and of as many prompts for each"
        " length of runs. Their words are drawn from the word frequencies: a run of square-free"
        f" words, then one that is not square-free, and so on. Runs longer than {LONGEST_RUN},"
        " above the black line, never occur. Shaded: the middle 95 % of the true prompts, for each"
        " model. All histograms have the same height. Right, a control: in the middle of the text"
        " four words are replaced. The new ones are square-free (impossible everywhere), or equally"
        " frequent and allowed at this place, or allowed only at other places. Their cost is the"
        f" negative log-likelihood, averaged over {control.left} of {control.asked} places, where"
        " such words exist, with intervals of 95 %. The step from allowed here to allowed elsewhere"
        " is the cost of the wrong place. The step from allowed elsewhere to impossible is the"
        " cost of breaking the rule."
    )


def table(result: Result) -> Table:
    header = ["model", "what", "mean", "unit", "area under the ROC curve"]
    header += ["within the middle 95 % of true prompts"]
    rows: list[list[str | float]] = []
    for name, likelihoods in result.models.items():
        unit = "log-likelihood, nats per token"
        rows.append([name, "true prompts", format_estimate(likelihoods.true.mean), unit, "", ""])
        for each in likelihoods.runs:
            area = f"{format_estimate(each.auc)} (true is likelier)"
            mean = format_estimate(each.mean)
            rows.append([name, f"runs of {each.run}", mean, unit, area, round(each.within, 3)])
        for kind, nats in likelihoods.impossible.nats.items():
            against = likelihoods.impossible.auc.get(kind)
            area = f"{format_estimate(against)} (likelier than impossible)" if against else ""
            what, unit = f"four words: {kind}", "cost of the four words, nats"
            rows.append([name, what, format_estimate(nats), unit, area, ""])
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    gpt, markov = result.models["GPT-2"], result.models["HMM"]
    possible = [each for each in gpt.runs if each.run <= LONGEST_RUN]
    never, markov_never = (
        [each for each in model.runs if each.run > LONGEST_RUN] for model in (gpt, markov)
    )
    least = min((each.auc for each in never), key=lambda area: area.value or 0)
    highest = max(each.mean.high or 0 for each in never)  # no log-likelihood is above 0
    return [
        Verdict(
            key="long-runs-unlikely",
            claim="Prompts with more than three square-free words in a row are much less likely"
            " than true prompts.",
            paper="very low likelihood",
            ours=f"{_means(never)} nats per token, true prompts: {format_estimate(gpt.true.mean)};"
            f" area under the ROC curve at least {format_estimate(least)}",
            criterion="the intervals of the areas for all these run lengths are above 0.9",
            agrees=all(above(each.auc, 0.9) for each in never),
        ),
        Verdict(
            key="short-runs-within",
            claim="Prompts with runs of two or three lie within the learned distribution.",
            paper="they do",
            ours=_within(possible),
            criterion="for both run lengths, more than half of the prompts lie in this range",
            agrees=all(each.within > 0.5 for each in possible),
            why="The words of these prompts are random, so these prompts occur nowhere in the text"
            " either. An area of 1 is as far outside as possible.",
        ),
        Verdict(
            key="long-below-short",
            claim="The likelihood separates runs of more than three from shorter runs.",
            paper="higher for two and three",
            ours=f"{_means(gpt.runs)} nats per token",
            criterion="the intervals of the means for runs of two and three are above all"
            " intervals for longer runs",
            agrees=all(above(each.mean, highest) for each in possible),
            why="A run of three and a word that is not square-free keep the text's period of four;"
            f" all other runs break it.{_cost(gpt.impossible)}",
        ),
        Verdict(
            key="hmm-long-runs-within",
            claim="The HMM places prompts with more than three square-free words in a row inside"
            " the bulk of the true prompts.",
            paper="it does",
            ours=_within(markov_never),
            criterion="for all run lengths, more than half of the prompts lie in this range",
            agrees=all(each.within > 0.5 for each in markov_never),
            why="Runs change the word frequencies. In long prompts even a model that knows only"
            " frequencies sees this. This HMM learned to predict from one token and reads the whole"
            " prompt here.",
        ),
    ]


def _means(prompts: list[RunPrompts]) -> str:
    return ", ".join(f"runs of {each.run}: {format_estimate(each.mean)}" for each in prompts)


def _within(prompts: list[RunPrompts]) -> str:
    shares = ", ".join(f"{format_percent(each.within)} of runs of {each.run}" for each in prompts)
    areas = "; ".join(format_estimate(each.auc) for each in prompts)
    return f"{shares} lie in the middle 95 % of the true prompts; areas under the ROC curve {areas}"


def _cost(control: StretchesSummary) -> str:
    if not control.left:
        return ""
    allowed, misplaced, impossible_words = (
        f"{control.nats[kind].value:.1f}" for kind in ("here", "elsewhere", "impossible")
    )
    return (
        " If four words of the text are replaced by others, all equally frequent, words allowed"
        f" here cost {allowed}, words allowed elsewhere {misplaced} and impossible words"
        f" {impossible_words} nats. In {format_estimate(control.paired['elsewhere'])} of the pairs"
        " the impossible words are less likely than the words allowed elsewhere."
    )
