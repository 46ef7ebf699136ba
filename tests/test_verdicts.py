"""Verdicts of studies: each can come out both ways, by what its claim is about and nothing else."""

from typing import Any

import pytest

from arithmetext.evaluation import estimates as intervals
from arithmetext.integers import format_integer
from arithmetext.paper.study import Verdict, all_studies
from as_the_paper_says import BUILDERS as ALL_BUILDERS
from as_the_paper_says import MEASURES, UNKNOWN, Data, about

# Studies whose results are still plain data; the others have tests in tests/studies.
STUDIES = {name: study for name, study in all_studies().items() if not hasattr(study, "Result")}
BUILDERS = {name: build for name, build in ALL_BUILDERS.items() if name in STUDIES}

NO_CORNER_ELSEWHERE = {
    "free": (60, 0, 40, 5, 5),
    "other": (60, 0, 5, 5, 5),
    "rest": (5, 0, 5, 5, 5),
}
BLIND = (5, 30, 5, 5, 5)  # the same words whatever stands there, those of the corner most
ALL_SETTLE = ["near 1e13", "near 1e14", "near 1e15"]
WHOLE_12 = ("10 1010 ", "10 1100", " 1100", " 1010", " ", "10 ", "110010 ", "10 1010")
CUT_12_OTHERWISE = ("10 1010 ", "10 1100", " 1100", " 1010 ", "10 ", "1100", "10 ", "10 1010")
NO_SINGLE_WORD = ("10 1010 ", "10 1100", " 1100 1010", " ", "10 11", "00", "10 ", "10 1010")
CUT_6_ONLY = ("10 10", "10 10 1100", " 1100", " 1010", " ", "10 ", "110010 ", "10 1010")

# A change, and a part of every claim that must then differ; all others must still agree.
CASES: dict[str, list[tuple[Data, list[str]]]] = {
    "accuracy_length": [
        ({"ends": (0.4, 0.4, 0.35)}, ["depend on the scale"]),
        ({"ends": (0.4, 0.4, 0.33)}, ["near 1e15", "depend on the scale"]),
        ({"ends": (0.47, 0.4, 0.47)}, ["near 1e13", "near 1e15"]),
        ({"ends": (0.33,) * 3}, ALL_SETTLE),
        ({"ends": (0.34, 0.34, 0.34), "spread": 0.02}, []),
        ({"first": (0.1, 0.7)}, ["highest on average"]),
        ({"second": 0.8}, []),
        ({"second": 0.8, "lengths": (1, 16, 64, 128, 256)}, ["highest on average"]),
        ({"first": (0.7, 0.7)}, ["varies more"]),
        ({"quarter": 0.028}, ["independent of the length"]),
        ({"quarter": -0.028}, ["independent of the length"]),
        ({"quarter": 0.01}, []),
        ({"whole": [0.4] * 10}, ["either around 0.4"]),
        ({"whole": [0.4] * 5 + [0.05] * 5}, ["either around 0.4"]),
        ({"whole": [0.4] * 4 + [0.6] * 5 + [0.05]}, ["either around 0.4"]),
        ({"whole": [0.4] * 8 + [0.2, 0.05]}, ["either around 0.4"]),
        ({"whole": [0.4] * 9 + [0.15], "collapsed": [9]}, []),
        ({"chance": (0.11,) * 3}, ["Random prediction"]),
        ({"chance": (0.07,) * 3}, ["Random prediction"]),
        ({"chance": (0.09, 0.1, 0.105)}, []),
    ],
    "accuracy_beta": [
        ({"accuracy": {2: 0.6}}, ["best word accuracy"]),
        ({"accuracy": {5: 0.3}}, ["best word accuracy"]),
        ({"accuracy": {0.5: 0.4, 1: 0.4, 2: 0.4}}, ["best word accuracy"]),
        ({"accuracy": {2: 0.4, "inf": 0.4}}, []),
        ({"accuracy": {3.3: 0.385}}, []),
        ({"kl": {5: 0.01}}, ["best KL"]),
        ({"kl": {5: -0.2}}, []),
        ({"kl": {3.3: 0.1}}, ["best KL"]),
        ({"accuracy": {0.1: 0.24}}, ["Word accuracy gets worse"]),
        ({"accuracy": {0.1: 0.3}}, ["Word accuracy gets worse"]),
        ({"kl": {0.1: 0.21}}, ["KL^w gets worse"]),
        ({"kl": {0.1: 0.15}}, ["KL^w gets worse"]),
        ({"malformed": 0.003}, ["Malformed words stay below"]),
        ({"malformed": about(0.003, 0.001)}, []),
        ({"at": 0.5}, ["Malformed words are commonest"]),
        ({"hmm_accuracy": 0.21}, ["far better than the HMM"]),
        ({"hmm_accuracy": about(0.19, 0.25)}, ["far better than the HMM"]),
        ({"hmm_kl": {1: 0.3, "inf": 0.5}}, []),
        ({"hmm_kl": {1: 0.5, "inf": 0.3}}, []),
        ({"hmm_kl": 0.33}, ["about the same KL"]),
        ({"hmm_kl": 0.27}, ["about the same KL"]),
    ],
    "precision_recall": [
        ({"gpt": {"10": {"precision": 0.6}}}, ["GPT-2 has the share of 0.3137", "For 10 "]),
        ({"gpt": {"10": {"recall": 0.1}}}, ["GPT-2 has the share of 0.2759", "For 10 "]),
        ({"gpt": {"10": {"f1": 0.22}}}, ["For 10 "]),
        ({"gpt": {"10": {"f1": 0.38}}}, ["For 10 "]),
        ({"hmm": {"10": {"precision": 0.3}}}, ["HMM has the share of 0.0377"]),
        ({"hmm": {"10": {"recall": 0.3}}}, ["HMM has the share of 0.0345"]),
        ({"gpt": {"10": {"precision": 0.22, "recall": 0.4}}}, ["For 10 "]),
        ({"gpt": {"10": {"precision": 0.26, "recall": 0.34}}}, []),
        ({"gpt": {"10101010": {"f1": 0.38}}}, ["1010, 101010 and 10101010"]),
        ({"gpt": {"10101010": {"recall": 0.2}}}, ["1010, 101010 and 10101010"]),
        ({"gpt": {"1010": {"precision": 0.7}}}, ["1010, 101010 and 10101010"]),
        ({"gpt": {"1010": {"f1": 0.52}}}, ["1010, 101010 and 10101010"]),
        ({"gpt": {"101010": None}}, ["1010, 101010 and 10101010"]),
        ({"hmm": {"1100": {"f1": 0.21}}}, ["below 0.2"]),
        ({"hmm": {"1100": {"f1": 0.21, "true": 29}}}, []),
        ({"gpt": {"1100" + "10" * k: {"f1": 0.05} for k in range(5)}}, ["clearly outperforms"]),
        (
            {m: {"1100" + "10" * k: {"f1": 0.0} for k in range(10)} for m in ("gpt", "hmm")},
            [],
        ),
    ],
    "prime_positions": [
        ({"hmm_right": (0.31, 0.04)}, ["generated where primes stand, more"]),
        ({"hmm_right": (0.04, 0.31)}, ["standing where primes are generated, more"]),
        ({"right": (about(0.06, 0.05), 0.3)}, ["generated where primes stand, more"]),
        ({"generated": [("1010", 560), ("1100", 440)]}, ["(generated where primes stand)"]),
        ({"standing": [("1010", 560), ("1100", 440)]}, ["(standing where primes are generated)"]),
        ({"standing": [("1010", 7), ("1100", 3)]}, ["(standing where primes are generated)"]),
        ({"standing": [("10", 900), ("1010", 70), ("1100", 30)]}, []),
        ({"standing": [("10", 900), ("1010", 50), ("1100", 50)]}, ["(standing where primes"]),
    ],
    "confusion_matrix": [
        ({"corner": (60, 5, 5, 40, 5)}, ["at a prime or another square-free", "Most errors"]),
        ({"other": (60, 5, 5, 40, 5)}, ["Most errors"]),
        ({"other": (60, 5, 5, 20, 40)}, ["Most errors"]),
        ({"corner": (5, 5, 100, 5, 5)}, ["the corner of 10"]),
        ({"corner": (5, 5, 100, 5, 5)} | NO_CORNER_ELSEWHERE, []),
        (
            {"corner": (30, 30, 5, 5, 5)} | dict.fromkeys(("free", "other", "rest"), BLIND),
            ["the corner of 10", "at a prime or another square-free", "Most errors"],
        ),
    ],
    "unigram_likelihood": [
        ({"gaps": (0.55, 0.8, 2, 4)}, ["largely overlap"]),
        ({"gaps": (0.35, 0.8, 2, 4)}, []),
        ({"gaps": (0.1, 0.8, 4, 2)}, ["grows monotonically"]),
        ({"stray": 64}, ["Beyond 32 tokens"]),
        ({"lengths": (2, 8, 16, 32)}, ["Beyond 32 tokens"]),
        ({"areas": {"shuffled": 0.505}}, ["order of the words"]),
        ({"areas": {"shuffled in eights": 0.505}}, ["order of the words"]),
        ({"areas": {"backwards": 0.9, "deleted": 0.5}}, []),
    ],
    "square_free_runs": [
        ({"areas": {5: 0.905}}, ["much less likely"]),
        ({"areas": {2: 0.99, 3: 0.99}}, []),
        ({"gpt": {2: (-3.3, -3.3)}}, ["runs of two or three lie within"]),
        ({"gpt": {3: (-2.7, -2.7)}}, ["runs of two or three lie within"]),
        ({"gpt": {3: (-3.0, -3.3)}}, ["runs of two or three lie within"]),
        ({"gpt": {4: (-3.0, -3.0)}}, ["separates runs"]),
        ({"gpt": {5: (-3.06, -3.06)}}, ["separates runs"]),
        ({"gpt": {5: (-3.2, -3.0)}}, []),
        ({"hmm": {4: (-3.3, -3.3)}}, ["inside the bulk"]),
        ({"hmm": {5: (-3.0, -3.3)}}, ["inside the bulk"]),
    ],
    "mlm_accuracy": [
        ({"cells": {(0.15, 5): about(0.4, 0.3)}}, ["More than 0.4"]),
        ({"cells": {(0.15, 5): 0.39}}, ["More than 0.4", "Fewer"]),
        ({"top": 0.42}, ["More than 0.4"]),
        ({"by_share": 0.8}, ["More than 0.3"]),
        ({"by_share": 0.6}, []),
        ({"top": 0.34}, ["More than 0.4", "More than 0.3"]),
        ({"cells": {(0.6, 0.1): 0.5}}, ["Fewer"]),
        ({"by_share": 0.0}, ["Fewer"]),
        ({"by_heat": 0.0}, ["Fewer"]),
    ],
    "mlm_losses": [
        ({"falls": {64: (50,)}}, ["rests on a plateau", "extends further", "more evident"]),
        ({"falls": {256: (5, 100)}}, ["extends further", "more evident"]),
        ({"causal": {64: (5, 100)}}, ["more evident"]),
        ({"causal": {256: (50,)}}, ["more evident"]),
        ({"causal": {256: (2000,)}}, []),
        ({"masked": {64: (5,), 256: (5,)}}, []),
        ({"masked": {64: (5,), 256: (5, 100)}}, ["more evident"]),
        ({"masked": {64: (900,), 256: (5,)}, "causal": {64: (5, 100)}}, ["more evident"]),
        (
            {"masked": {64: (5,)}, "falls": {64: (5,)}},
            ["rests on a plateau", "extends further", "more evident"],
        ),
        ({"batch": 8192}, ["extends further"]),
    ],
    "ntp_losses": [
        ({"falls": {1024: (50,)}}, ["brief plateau", "extends further"]),
        ({"falls": {256: (5, 1200)}}, ["extends further"]),
        ({"falls": {1024: (5, 310)}}, ["extends further"]),
        ({"parameters": 8.9e7}, ["8.7e7 trainable"]),
        ({"parameters": 8.5e7}, ["8.7e7 trainable"]),
        ({"parameters": 8.8e7}, []),
    ],
    "tokenization": [
        ({"tokens": CUT_12_OTHERWISE}, ["cut into eight tokens"]),
        ({"tokens": WHOLE_12}, ["cut into eight tokens", "a part of one"]),
        ({"tokens": NO_SINGLE_WORD}, ["cut into eight tokens", "a part of one"]),
        ({"tokens": CUT_6_ONLY}, ["cut into eight tokens", "a part of one"]),
        ({"vocabulary": (" ", "0", "1", "110")}, ["what merges add"]),
        ({"vocabulary": (" ", "0", "1", "10", "10")}, ["what merges add"]),
        ({"vocabulary": ("0", "1", " ", "10")}, ["what merges add"]),
        ({"attention": (0, 0, 0.3, 0, 0, 0, 0.29, 0.41)}, ["looks most"]),
    ],
    "dataset_splits": [
        ({"longer": {3: 4}}, ["Of each chunk", "In all"]),
        ({"longer": {3: 4, 4: -4}}, ["Of each chunk"]),
        ({"gone": [2]}, ["is cut into"]),
        ({"gone": [10]}, ["is cut into", "Of each chunk"]),
        ({"tested": 9}, ["Of each chunk"]),
        ({"powers": (12, 13, 14)}, ["Three windows"]),
        ({"words": 10**6}, ["Three windows"]),
        ({"starts": (10**13, 10**13 + 5, 10**15)}, ["Nothing"]),
    ],
    "orientation": [
        *(
            ({"above": {n: 2.9}}, [f"oriented (from {format_integer(n)})"])
            for n in (2, 10**8, 10**10)
        ),
        ({"above": {10**13: -9.0}}, ["oriented (from 1e13)"]),
        ({"above": {10**13: 2.9}, "spread": 0.9}, []),
    ],
    "dictionary_growth": [
        ({"at": 2000, "then": 4000}, ["more than 2000"]),
        ({"then": 32660}, ["sublinearly"]),
    ],
    "decided_sentences": [
        ({"changes": {"a": {"first": [2, 9], "count": 2}}}, ["“a” begins at 2"]),
        ({"changes": {"a": {"count": 2}}}, ["“a” begins at 2"]),
        ({"changes": {"b": {"first": [9], "count": 1}}}, ["“b” never occurs"]),
    ],
    "js_divergence": [
        ({"between": (1, 999)}, ["between the first chunk and the last"]),
        ({"maximum": 0.02386}, ["about 0.0238"]),
        ({"n": 10**9, "chunks": 100, "between": (1, 100)}, ["about 0.0238"]),
    ],
    "rank_frequency": [
        ({"zipf": 0.6}, ["Zipf's law"]),
        ({"kept": 15}, ["hierarchy"]),
        ({"kept": 16}, []),
    ],
    "walks": [
        ({"after": (1.9, 1.8, 1.1, 1.1)}, ["(from 2)"]),
        ({"before": (1.5, 1.5, 1.0, 1.0)}, ["(from 2)"]),
        ({"far": 1.1}, ["(from 1e10)"]),
    ],
    "baselines": [
        ({"hmm": 0.13}, ["random guess"]),
        ({"far": 0.13}, ["random guess"]),
    ],
    "locator": [({"expected": 1e-9}, ["several valid continuations"])],
}

WHOLLY_KNOWN = ("accuracy_beta", "unigram_likelihood", "mlm_accuracy", "dataset_splits")
NO_SHARES = dict.fromkeys(MEASURES, UNKNOWN)

# Where little is known, and studies that always know all; what is not known does not agree, and
# what does not rest on it stays.
EDGES: list[tuple[str, Data, list[str]]] = [
    ("precision_recall", {"gpt": {"1100": {"predicted": 0, "precision": UNKNOWN}}}, []),
    ("precision_recall", {"gpt": {"11100100": {"true": 0, **NO_SHARES}}}, []),
    (
        "precision_recall",
        {"gpt": {"10": {"predicted": 0, "precision": UNKNOWN, "recall": 0.0, "f1": 0.0}}},
        ["share of 0.3137", "share of 0.2759", "For 10 "],
    ),
    (
        "precision_recall",
        {"gpt": {"10": None}},
        ["share of 0.3137", "share of 0.2759", "For 10 "],
    ),
    (
        "prime_positions",
        {"standing": [], "right": (0.3, UNKNOWN)},
        ["generated, more are 10", "(standing where primes are generated)"],
    ),
    (
        "prime_positions",
        {"hmm_standing": [], "hmm_right": (UNKNOWN, UNKNOWN)},
        ["generated where primes stand, more", "standing where primes are generated, more"],
    ),
    (
        "confusion_matrix",
        {"words": ()},
        ["the corner of 10", "at a prime or another", "Most errors"],
    ),
    ("square_free_runs", {"left": 0}, []),
    ("mlm_losses", {"validated": False}, []),
    ("mlm_losses", {"masked": {64: (5,), 256: (5,)}}, []),
    (
        "mlm_losses",
        {"falls": {64: (50,), 256: (50,)}},
        ["rests on", "extends further", "more evident"],
    ),
    ("ntp_losses", {"validated": False, "shape": (2, 2, 256)}, ["8.7e7 trainable"]),
    ("tokenization", {"distance": UNKNOWN}, []),
    *((name, {}, []) for name in WHOLLY_KNOWN),
]


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """No interval here is so near to a border that it takes a thousand."""
    monkeypatch.setattr(intervals, "RESAMPLES", 200)


def differing(study: str, data: Data) -> list[str]:
    """The claims that do not agree: those that differ, and those that are not tested."""
    verdicts = STUDIES[study].verdicts(data)
    assert verdicts
    return [verdict.claim for verdict in verdicts if verdict.agrees is not True]


def check(claims: list[str], parts: list[str]) -> None:
    """That just those claims differ which have these parts, in this order."""
    assert len(claims) == len(parts), claims
    for claim, part in zip(claims, parts, strict=True):
        assert part in claim


def draw(study: str, data: Data) -> None:
    """All that a reader sees; every row has as many cells as the header."""
    STUDIES[study].plot(data).draw_without_rendering()
    assert STUDIES[study].caption(data).endswith(".")
    header, rows = STUDIES[study].table(data)
    assert rows and {len(row) for row in rows} == {len(header)}


def test_no_study_is_left_out() -> None:
    assert BUILDERS.keys() == STUDIES.keys()


@pytest.mark.parametrize("study", BUILDERS)
def test_all_claims_agree_where_all_is_as_the_paper_says(study: str) -> None:
    assert differing(study, BUILDERS[study]()) == []


@pytest.mark.parametrize(
    ("study", "change", "parts"),
    [
        pytest.param(study, change, parts, id=f"{study}-{'-'.join(change)}-{k}")
        for study, cases in CASES.items()
        if study in STUDIES
        for k, (change, parts) in enumerate(cases)
    ],
)
def test_a_change_turns_the_claims_about_it(study: str, change: Data, parts: list[str]) -> None:
    check(differing(study, BUILDERS[study](**change)), parts)


def test_what_holds_by_construction_says_so() -> None:
    found = STUDIES["dataset_splits"].verdicts(BUILDERS["dataset_splits"]())
    assert {verdict.outcome for verdict in found} == {"agrees by construction"}
    found = STUDIES["dataset_splits"].verdicts(BUILDERS["dataset_splits"](tested=9))
    assert "differs" in {verdict.outcome for verdict in found}


@pytest.mark.parametrize("study", BUILDERS)
def test_every_claim_is_turned_by_some_change(study: str) -> None:
    claims = [verdict.claim for verdict in STUDIES[study].verdicts(BUILDERS[study]())]
    parts = [part for _, parts in CASES[study] for part in parts]
    assert [claim for claim in claims if not any(part in claim for part in parts)] == []


@pytest.mark.parametrize(
    ("study", "change", "parts"), [edge for edge in EDGES if edge[0] in STUDIES]
)
def test_what_is_known_is_drawn_and_judged(study: str, change: Data, parts: list[str]) -> None:
    data = BUILDERS[study](**change)
    check(differing(study, data), parts)
    draw(study, data)


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value encountered")
@pytest.mark.parametrize(
    ("known", "parts"), [(range(1, 20), []), ((), ["highest on average", "varies more"])]
)
def test_prompts_without_a_word_are_left_out(known: Any, parts: list[str]) -> None:
    data = BUILDERS["accuracy_length"]()
    for scale in data["scales"]:
        few = scale["by_tokens"][0]
        few["each"] = [value if i in known else None for i, value in enumerate(few["each"])]
        if not known:
            few["accuracy"] = UNKNOWN
    check(differing("accuracy_length", data), parts)
    said = [verdict.ours for verdict in STUDIES["accuracy_length"].verdicts(data)]
    assert not (known and any("nan" in words for words in said))
    draw("accuracy_length", data)


def test_a_model_that_generated_no_words_has_no_scores() -> None:
    data = BUILDERS["precision_recall"]()
    data["words"]["HMM"] = []
    parts = ["share of 0.0377", "share of 0.0345", "below 0.2", "clearly outperforms"]
    check(differing("precision_recall", data), parts)
    draw("precision_recall", data)


@pytest.mark.parametrize(
    ("study", "change", "part"),
    [
        ("ntp_losses", {"shape": (2, 2, 256)}, "trainable parameters"),
        ("accuracy_beta", {"malformed": 0.0, "elsewhere": 0.0}, "commonest at the lowest"),
        ("js_divergence", {"n": 10**9, "between": (1, 1000)}, "about 0.0238"),
        ("js_divergence", {"chunks": 100, "between": (1, 100)}, "about 0.0238"),
        ("orientation", {"above": {10**10: 2.9}}, "oriented (from 1e10)"),
        ("orientation", {"above": {10**13: -9.0}}, "oriented (from 1e13)"),
    ],
)
def test_what_could_not_be_tested_says_so(study: str, change: Data, part: str) -> None:
    if study not in STUDIES:
        pytest.skip("tested in tests/studies")
    tried, untried = (STUDIES[study].verdicts(BUILDERS[study](**each)) for each in ({}, change))
    assert [verdict.claim for verdict in tried] == [verdict.claim for verdict in untried]
    [verdict] = [verdict for verdict in untried if verdict.outcome == "not tested here"]
    assert part in verdict.claim and verdict.why


def test_what_is_not_tested_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="needs a reason"):
        Verdict(claim="The text is oriented.", paper="", ours="", agrees=None)


@pytest.mark.parametrize(("area", "words"), [(0.5, "does not tell"), (0.3, "tells")])
def test_a_control_is_told_beside_the_verdict(area: float, words: str) -> None:
    *_, order = STUDIES["unigram_likelihood"].verdicts(
        BUILDERS["unigram_likelihood"](areas={"backwards": area})
    )
    assert f"The likelihood {words} the direction" in order.why
