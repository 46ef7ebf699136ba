"""What each study would find if all were as the paper claims, and what may be changed in it."""

from collections.abc import Callable
from itertools import pairwise
from math import log
from typing import Any

from arithmetext.paper.studies.tokenization import PAPER_TOKENS
from test_learning import curve

Data = dict[str, Any]

UNKNOWN = {"value": None, "low": None, "high": None}
HOW = {"prompts": 20, "tokens": 256, "forget": 64, "seed": 0}
FAR = (10**13, 10**14, 10**15)
NEAR = 98 * 10**9


def about(value: Any, spread: float = 0.01) -> Data:
    """An estimate with its interval; one that is given stays as it is."""
    if isinstance(value, dict):
        return value
    return {"value": value, "low": value - spread, "high": value + spread}


def accuracy_length(
    *,
    first=(1.0, 0.4),
    second=0.5,
    quarter=0.0,
    ends=(0.4, 0.4, 0.4),
    spread=0.01,
    lengths=(1, 8, 64, 128, 256),
    whole=(*[0.4] * 8, 0.05, 0.05),
    collapsed=(),
    chance=(0.09, 0.09, 0.09),
) -> Data:
    """Twenty prompts near each scale; the nearest is far from all claims, which are not about it.

    They have `first` by turns, then all have `second`; `quarter` is what comes on top of the end
    two lengths before it.
    """

    def scale(at: int, end: float, by_chance: float) -> Data:
        few = [[first[i % 2] for i in range(20)], [second] * 20]
        many = [
            [end + aside + 0.01 * (-1) ** i for i in range(20)] for aside in (quarter, quarter / 2)
        ]
        each = [*few, *many, [end - 0.01 * (-1) ** i for i in range(20)]]
        return {
            "at": at,
            "by_tokens": [
                {"tokens": tokens, "accuracy": about(_mean(values), spread), "each": values}
                for tokens, values in zip(lengths, each, strict=True)
            ],
            "alignment": {
                "chance": about(by_chance),
                "explained_by_shift": UNKNOWN,
                "slipped": about(0.1),
                "realigned_accuracy": about(0.4),
                "each": [
                    {"accuracy": a, "collapsed": i in collapsed, "slips": i % 2}
                    for i, a in enumerate(whole)
                ],
            },
            "oracles": {"2": 0.25, "13": 0.4},
        }

    places = zip((NEAR, *FAR), (0.9, *ends), (0.5, *chance), strict=True)
    return {"scales": [scale(*place) for place in places], "training": _trained(), **HOW}


def accuracy_beta(
    *,
    accuracy=(),
    kl=(),
    malformed=0.001,
    at=0.1,
    elsewhere=0.0005,
    hmm_accuracy=0.1,
    hmm_kl=0.3,
) -> Data:
    """`accuracy` and `kl` are for some β; malformed words are most at one of them."""
    right = {0.1: 0.1, 0.5: 0.2, 1: 0.25, 2: 0.3, 3.3: 0.4, 5: 0.4, 10: 0.4, "inf": 0.3}
    apart = {0.1: 0.4, 0.5: 0.3, 1: 0.2, 2: 0.05, 3.3: 0.05, 5: 0.15, 10: 0.2, "inf": 0.3}
    right, apart = right | dict(accuracy), apart | dict(kl)
    theirs = hmm_kl if isinstance(hmm_kl, dict) else dict.fromkeys(right, hmm_kl)

    def row(beta: Any, accuracy: Any, divergence: Any, broken: Any) -> Data:
        return {
            "beta": beta,
            "accuracy": about(accuracy),
            "kl_paper": about(divergence),
            "malformed": about(broken, 0.0001),
            "kl_left_out": about(0.1),
            "kl_infinite": about(0.9),
            "kl_where_finite": UNKNOWN,
            "jensen_shannon": about(0.1),
        }

    curves = {
        "GPT-2": [row(b, right[b], apart[b], malformed if b == at else elsewhere) for b in right],
        "HMM": [row(b, hmm_accuracy, theirs.get(b, 0.9), 0.01) for b in right],
    }
    return {"at": FAR[0], "generated": 32, "curves": curves, **HOW}


def precision_recall(*, gpt=(), hmm=()) -> Data:
    """Fourteen words, with changes to what is known of some; without those that are None."""
    free = ["1010", "101010", "10101010"]
    others = ["1100" + "10" * k for k in range(10)]

    def scores(changes: Any, **usual: float) -> list[Data]:
        words: dict[str, Data] = {
            "10": {"precision": usual["precision"], "recall": usual["recall"], "f1": usual["f1"]},
            **{word: dict.fromkeys(MEASURES, usual["free"]) for word in free},
            **{word: dict.fromkeys(MEASURES, usual["f1"]) for word in others},
        }
        for word, change in dict(changes).items():
            words[word] = words.get(word, dict.fromkeys(MEASURES, 0.0)) | (change or {})
        gone = [word for word, change in dict(changes).items() if change is None]
        return [
            {"word": word, "true": 100, "predicted": 100, **known}
            | {what: about(known[what]) for what in MEASURES}
            for word, known in words.items()
            if word not in gone
        ]

    ours = scores(gpt, precision=0.31, recall=0.28, f1=0.3, free=0.45)
    theirs = scores(hmm, precision=0.04, recall=0.04, f1=0.1, free=0.1)
    return {"at": FAR[0], "words": {"GPT-2": ours, "HMM": theirs}, **HOW}


MEASURES = ("precision", "recall", "f1")


def prime_positions(
    *,
    generated=(("10", 300), ("1010", 600), ("1100", 50), ("malformed", 50)),
    standing=(("10", 300), ("1010", 600), ("1100", 100)),
    right=(0.3, 0.3),
    square_free=(0.6, 0.6),
    hmm_standing=(("10", 40), ("1010", 300), ("1100", 660)),
    hmm_right=(0.04, 0.04),
) -> Data:
    def found(generated: Any, standing: Any, right: Any) -> Data:
        shares = zip(("generated", "standing"), map(about, right), strict=True)
        return {
            "generated": [list(pair) for pair in generated],
            "standing": [list(pair) for pair in standing],
            "right": dict(shares),
            "square_free": dict(zip(("generated", "standing"), square_free, strict=True)),
        }

    models = {
        "GPT-2": found(generated, standing, right),
        "HMM": found(hmm_standing, hmm_standing, hmm_right),
    }
    return {"at": FAR[0], "primes": models, **HOW}


def confusion_matrix(
    *,
    corner=(60, 40, 40, 5, 5),
    free=(60, 40, 40, 5, 5),
    other=(60, 5, 5, 20, 5),
    rest=(5, 5, 5, 5, 5),
    words=("1100", "101010", "111000", "10", "110010", "10101010", "1010"),
) -> Data:
    """For each kind of word that stands there, how often it is hit, and other words by kind."""
    kinds = {"10": "corner", "1010": "corner", "101010": "corner", "10101010": "free"}
    columns = [*words, "others", "malformed"]

    def matrix(**rows: Any) -> Data:
        counts = []
        for word in columns[:-1]:
            hit, *misses = rows["rest" if word == "others" else kinds.get(word, "other")]
            missed = dict(zip(("corner", "free", "other", "rest"), misses, strict=True))
            kind_of = {**dict.fromkeys(words, "other"), **kinds}
            row = [hit if c == word else missed[kind_of.get(c, "rest")] for c in columns]
            counts.append(row)
        return {"words": list(words), "counts": counts}

    flat = dict.fromkeys(("corner", "free", "other", "rest"), (10,) * 5)
    ours = matrix(corner=corner, free=free, other=other, rest=rest)
    return {"at": FAR[0], "confusion": {"GPT-2": ours, "HMM": matrix(**flat)}, **HOW}


def unigram_likelihood(
    *, gaps=(0.1, 0.8, 2.0, 4.0), lengths=(2, 32, 64, 128), stray=None, areas=()
) -> Data:
    """Ten true sequences of each length, ten drawn ones lower by a gap; one may be a stray."""
    values = []
    for length, gap in zip(lengths, gaps, strict=True):
        true = [-4 + k / 10 for k in range(10)]
        drawn = [value - gap for value in true]
        if length == stray:
            drawn[5] = min(true)
        values.append({"length": length, "true": true, "unigram": drawn})
    usual = {"unigram": 1.0, "shuffled": 0.8, "shuffled in eights": 0.7, "backwards": 0.5}
    figures = [
        {"length": length, "control": control, "true": about(-4.0), "other": about(-5.0)}
        | {"auc": about(0.5 if length == 2 else area), "paired": about(0.5)}
        for length in lengths
        for control, area in ({**usual, "deleted": 0.6} | dict(areas)).items()
    ]
    about_it = {"at": NEAR, "sequences": 10, "seed": 0, "training": _trained()}
    return about_it | {"figures": figures, "values": values}


def square_free_runs(*, gpt=(), hmm=(), areas=(), paired=0.8, left=10) -> Data:
    """Likelihoods by the length of runs, two by turns; true prompts have −3.2 to −2.8."""

    def found(levels: Any, areas: Any) -> Data:
        means = {run: _mean(level) for run, level in levels.items()}
        nats = dict(zip(("true", "here", "elsewhere", "impossible"), (10, 11, 20, 25), strict=True))
        some = (lambda value: about(value)) if left else (lambda value: UNKNOWN)
        return {
            "runs": {
                "true": about(-3.0),
                "runs": [
                    {"run": run, "mean": about(mean), "auc": about(areas[run])}
                    for run, mean in means.items()
                ],
            },
            "true": [-3.2, -3.0, -2.8],
            "values": {str(run): list(level) * 5 for run, level in levels.items()},
            "impossible": {
                "asked": 10,
                "left": left,
                "nats": {kind: some(value) for kind, value in nats.items()},
                "auc": {"here": some(0.9), "elsewhere": some(0.8)},
                "paired": {"here": some(0.9), "elsewhere": some(paired)},
            },
        }

    inside, outside = (-3.0, -3.1), (-5.0, -5.1)
    ours = {2: inside, 3: inside, 4: outside, 5: outside} | dict(gpt)
    theirs = {2: outside, 3: inside, 4: inside, 5: inside} | dict(hmm)
    usual = {2: 0.6, 3: 0.6, 4: 0.95, 5: 0.95} | dict(areas)
    models = {"GPT-2": found(ours, usual), "HMM": found(theirs, dict.fromkeys(usual, 0.5))}
    return {"at": FAR[0], "tokens": 256, "sequences": 10, "seed": 0, "models": models}


def mlm_accuracy(*, top=0.6, by_share=0.1, by_heat=0.05, cells=()) -> Data:
    """What falls with the share that is hidden and with β⁻¹; the last scale has all changes."""

    def cell(share: float, beta: Any, top: float, by_share: float, by_heat: float) -> Data:
        value = top - by_share * share - by_heat * min(1 / float(beta), 5)
        return {"masked": share, "beta": beta, "accuracy": about(value, 0.002)}

    grid = [(share, b) for share in (0.05, 0.15, 0.4, 0.6) for b in (0.1, 1, 2, 3.3, 5, 10, "inf")]
    usual = [cell(*place, 0.6, 0.1, 0.05) for place in grid]
    changed = [cell(*place, top, by_share, by_heat) for place in grid]
    for place, accuracy in dict(cells).items():
        changed[grid.index(place)]["accuracy"] = about(accuracy, 0.002)
    tables = {str(NEAR): usual, str(FAR[0]): changed}
    return {"windows": 64, "tokens": 256, "training": _trained(), "tables": tables}


def records(
    *,
    falls=(),
    batch=4096,
    validated=True,
    shape=(2, 2, 256),
    positions="rotary",
    sizes=(64, 256),
) -> Data:
    """Curves with a fall at step 5 and one later, or those that are given; the last has `batch`."""
    usual = {64: (5, 100), 256: (5, 300), 1024: (5, 900)} | dict(falls)
    names = ("layers", "heads", "context", "positions")
    model = dict(zip(names, (*shape, positions), strict=True))
    return {
        str(size): {
            **curve(*((step, 1.2) for step in usual[size])),
            "config": {
                "seed": 0,
                "model": model,
                "training": {
                    "steps": 4000,
                    "warmup": 20,
                    "batch": batch if size == sizes[-1] else 4096,
                },
            },
            "environment": {"device": "cpu"},
            "seconds": 10.0,
            "tokens": 4000 * 4096,
            "validation": [
                {"step": 4000, "validation_loss": 2.6, "validation_nats_per_word": 2.6 * validated}
            ]
            * validated,
        }
        for size in sizes
    }


def without_attention(trained: Data) -> dict[str, float]:
    return {size: 0.8 * log(int(size)) for size in trained}


def mlm_losses(*, masked=None, causal=(), **changes) -> Data:
    """`masked` is how the loss falls with the positions that next tokens have, if they differ."""
    shorter = {64: (5, 50), 256: (5, 150)} | dict(causal)
    trained = records(**changes)
    return {
        "trained": trained,
        "masked": records(falls=masked, positions="learned") if masked else trained,
        "causal": records(falls=shorter),
        "without_attention": without_attention(trained),
    }


def ntp_losses(*, parameters=8.7e7, **changes) -> Data:
    found = records(**({"shape": (12, 12, 1024), "sizes": (64, 256, 1024)} | changes))
    counts = dict.fromkeys(found, int(8.7e7)) | {"1024": int(parameters)}
    return {
        "records": found,
        "parameters": counts,
        "without_attention": without_attention(found),
        "n": 10**11,
        "single_words": 2.4,
    }


def tokenization(
    *,
    tokens=PAPER_TOKENS,
    vocabulary=(" ", "0", "1", "10", "1010", "10 "),
    attention=(0.05, 0.05, 0.1, 0.1, 0.05, 0.05, 0.2, 0.4),
    distance=1.0,
) -> Data:
    reach = [about(1.0 + (k % 4 == 0), 0.1) for k in range(13)]
    reach[2] = about(distance, 0.1)
    found = {"all": reach, "periodic": reach, "layer": 0, "head": 1}
    return {
        "integers": [5, 14],
        "tokens": list(tokens),
        "attention": [list(attention), list(attention)],
        "vocabulary": list(vocabulary),
        "windows": 32,
        "context": 256,
        "at": FAR[0],
        "seed": 0,
        "distances": {"own": found | {"swing": 0.1}, "next": found | {"swing": 0.2}},
        "counted": [10**10, 10**10 + 10**5],
        "words_per_token": {"64": 1.2},
    }


def dataset_splits(
    *,
    longer=(),
    gone=(),
    tested=10,
    powers=(13, 14, 15),
    starts=(10**13, 10**14, 10**15),
    words=10**6 + 1,
) -> Data:
    """A text of 4000 in chunks of 400; of some the training is longer, or the rest ends earlier."""
    named = [("test", None, start, words) for start in starts]
    for chunk in range(1, 11):
        start, more = 400 * (chunk - 1) + 1, dict(longer).get(chunk, 0)
        first = start + (chunk == 1)
        named.append(("training", chunk, first, start + 300 + more - first))
        use = "test" if chunk == tested else "validation"
        named.append((use, chunk, start + 300 + more, 100 - more - (chunk in gone)))
    ranges = [
        {"use": use, "chunk": chunk, "first": first, "last": first + count - 1, "words": count}
        for use, chunk, first, count in sorted(named, key=lambda each: each[2])
    ]
    between = [after["first"] - before["last"] - 1 for before, after in pairwise(ranges)]
    return {"n": 4000, "powers": list(powers), "ranges": ranges, "between": between}


def orientation(*, above=(), spread=1.0) -> Data:
    """How far the text of most integers is above the floor, by start; that of fewer is below."""
    starts = dict.fromkeys((2, 10**8, 10**10, 10**13), 9.0) | dict(above)
    return {
        "rows": [
            {"start": start, "count": count, "text": 20 + height, "floor": 20.0, "spread": spread}
            | {"one_way": 0.2}
            for start, most in starts.items()
            for count, height in ((10**9, most), (10**7, -9.0))
        ]
    }


def dictionary_growth(*, at=3266, then=5272) -> Data:
    first = [2, 4, 6, 12, 16]
    return {"first_occurrences": first, "counted_at": [10**11, 10**12], "counts": [at, then]}


def decided_sentences(*, changes=()) -> Data:
    """Three sentences, of which the paper has two, with changes to what is known of some."""
    usual = {"a": ([2], [2], True), "b": ([], [], True), "c": ([], [7], False)}
    rows = [
        {"what": what, "expected": expected, "first": first, "in_paper": claimed, "why": "so"}
        | {"count": len(first)}
        | dict(changes).get(what, {})
        for what, (expected, first, claimed) in usual.items()
    ]
    return {"searched_to": 10**6, "decided": rows}


def js_divergence(*, between=(1000, 1), maximum=0.02384, n=10**11, chunks=1000) -> Data:
    return {"n": n, "chunks": chunks, "maximum": maximum, "maximum_between": list(between)}


def rank_frequency(*, zipf=1.0, parabola=0.3, kept=19) -> Data:
    """The commonest words at 1e9 and at 1e13, of which so many are the same."""
    words = [["10" * (k + 1), 100 - k] for k in range(20)]
    others = [["1100" + word, count] for word, count in words]
    fits = {"zipf": {"rms": zipf}, "parabola": {"rms": parabola}}
    tops = {"7": others, "9": words, "13": words[:kept] + others[kept:]}
    return {"fits": dict.fromkeys(tops, fits), "tops": tops}


def walks(*, before=(1.0, 1.0, 1.0, 1.0), after=(1.9, 1.8, 1.7, 1.1), far=1.5) -> Data:
    """The exponents of four words from 2, and of four from 1e10 that end with `far`."""
    bends = {2: zip(before, after, strict=True), 10**10: [(1.0, far)] * 4}
    return {
        "count": 10**8,
        "walks": [
            {"start": start, "crossover": {"before": one, "after": other}}
            for start, pairs in bends.items()
            for one, other in pairs
        ],
    }


def baselines(*, hmm=0.09, far=0.11) -> Data:
    """Accuracies at 1e10, 1e13 and 1e15, with an error of 0.01; `far` is the HMM's at 1e15."""
    models = {"HMM, one token": (0.5, hmm, far), "HMM, sequences": (0.3,) * 3}
    return {
        "curves": {
            str(scale): [[1, 0.2, 0.001, 2.8, 0.001], [61, 0.6, 0.001, 1.0, 0.001]]
            for scale in (10**10, 10**13, 10**15)
        },
        "marks": [
            {"model": name, "scale": scale, "accuracy": value, "accuracy_error": 0.01}
            | {"nats": 2.0, "nats_error": 0.01}
            for name, values in (models | {"commonest word": (0.2,) * 3}).items()
            for scale, value in zip((10**10, 10**13, 10**15), values, strict=True)
        ],
    }


def locator(*, expected=0.01) -> Data:
    """By chance a window of 12 words has ten places, one of 128 words so many."""
    chances = {12: 10.0, 128: expected}
    return {
        "rows": [
            {"scale": scale, "length": length, "found": 24, "windows": 25, "expected": chance}
            for scale in (10**9, 10**15)
            for length, chance in chances.items()
        ]
    }


def _mean(values: Any) -> float:
    return sum(values) / len(values)


def _trained() -> Data:
    return {"tokens": 10**6, "seconds": 60.0, "device": "cpu", "token": "a piece of text"}


BUILDERS: dict[str, Callable[..., Data]] = {
    build.__name__: build
    for build in (
        accuracy_length,
        accuracy_beta,
        precision_recall,
        prime_positions,
        confusion_matrix,
        unigram_likelihood,
        square_free_runs,
        mlm_accuracy,
        mlm_losses,
        ntp_losses,
        tokenization,
        dataset_splits,
        orientation,
        dictionary_growth,
        decided_sentences,
        js_divergence,
        rank_frequency,
        walks,
        baselines,
        locator,
    )
}
