from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from arithmetext.evaluation.estimates import Estimate, format_estimate
from arithmetext.evaluation.surrogate import TextSettings
from arithmetext.paper.runs import TrainingFacts, trained_models
from arithmetext.paper.studies.surrogate_text import (
    TESTED_ON,
    TRAINED_ON,
    Place,
    Result,
    Transfer,
    in_short,
    settings,
    summarise,
    table,
)

from .cases import Case

CASES: list[Case] = []  # the paper has no text of this kind, so there are no verdicts

TEXTS = TextSettings((98 * 10**9, 10**13), (1, 2), windows=12, blocks=4)
TESTED = TextSettings((98 * 10**9,), (), windows=12, blocks=4)
WITHOUT_CONTEXT = [[2.8, 2.9, 2.9], [2.9, 3.0, 3.0]]
SHARES = np.array([[0.7, 0.3, 0], [0.7, 0.2, 0.1], [0.7, 0.2, 0.1]])  # of kinds, by text
NATS = np.array([1.0, 1.5, 4.0])  # of a word, by kind

Sums = dict[str, NDArray[np.float64]]


def sums(more: NDArray[np.float64], random: np.random.Generator) -> Sums:
    """100 words a window; `more` nats for each of them, [places, texts]."""
    places, texts = more.shape
    words = np.broadcast_to(100 * SHARES[:texts], (TEXTS.windows, texts, 3))
    words = np.repeat(words.transpose(1, 0, 2)[None], places, 0)
    noise = random.normal(0, 0.01, words.shape[:-1])[..., None]
    nats = words * (NATS + more[..., None, None] + noise)
    return {"words": words, "nats": nats, "right": 0.4 * words}


def summarised(seeds: int) -> tuple[list[Place], Transfer]:
    """Surrogates cost 0.2 nats more than the shares of kinds say.

    The second model of a pair loses 0.05 nats more on the real text, 0.02 on surrogates.
    """
    random = np.random.default_rng(0)
    pairs = []
    for seed in range(seeds):
        worse = np.zeros((1, 3)) + 0.1 * seed
        pairs.append([sums(worse, random), sums(worse + np.array([0.05, 0.02, 0.02]), random)])
    found = [sums(np.array([[0, 0.2, 0.2], [0.1, 0.3, 0.3]]), random) for _ in range(seeds)]
    return summarise(found, WITHOUT_CONTEXT, TEXTS, pairs, TESTED)


def made_up() -> Result:
    training = TrainingFacts(10**6, 60.0, "cpu", "a word", stand_in="")
    return Result(*summarised(2), TEXTS, TESTED, 2, 2, training, training)


def close(estimate: Estimate, value: float) -> bool:
    """The interval contains the value and is narrow."""
    assert estimate.low is not None and estimate.high is not None
    return estimate.low <= value <= estimate.high < estimate.low + 0.05


def test_places() -> None:
    near, far = summarised(1)[0]
    real, surrogate = SHARES[:2] @ NATS
    for place, more in (near, 0.0), (far, 0.1):
        assert [text.surrogate for text in place.texts] == [None, 1, 2]
        assert close(place.texts[0].nats, real + more)
        assert close(place.more_nats, surrogate + 0.2 - real)
        assert place.more_accuracy.value == pytest.approx(0)
        assert place.texts[1].accuracy.value == pytest.approx(0.4)
        integers, surrogates = place.kinds["too large"]
        assert integers.share.value == 0 and integers.nats.value is None
        assert surrogates.share.value == pytest.approx(0.1)
        assert close(surrogates.nats, 4.2 + more)
    # The loss without context rises as much as the other losses: the worth of context stays.
    for place in near, far:
        assert close(place.kept, (2.9 - surrogate - 0.2) / (2.8 - real))


def test_transfer() -> None:
    [*_, transfer] = summarised(1)
    first, second = TRAINED_ON
    for j, (loss, more) in enumerate(zip(SHARES @ NATS, (0.05, 0.02, 0.02), strict=True)):
        assert close(transfer.nats[first][j], loss)
        assert close(transfer.nats[second][j], loss + more)
        assert close(transfer.more_nats[j], more)
        assert transfer.accuracy[first][j].value == pytest.approx(0.4)
    real, _, surrogate = SHARES @ NATS
    assert close(transfer.cost[first], surrogate - real)
    assert close(transfer.cost[second], surrogate - real - 0.03)
    assert close(transfer.saved, 0.03)


def test_intervals_have_the_spread_between_seeds() -> None:
    """Seeds differ by 0.1 nats, in both models of a pair."""
    one, two = (summarised(seeds)[1] for seeds in (1, 2))
    for name in TRAINED_ON:
        for before, after in zip(one.nats[name], two.nats[name], strict=True):
            assert (after.high or 0) - (after.value or 0) > 0.3  # t of one degree of freedom
            assert (before.high or 0) - (before.value or 0) < 0.02
    for each in (*two.more_nats, *two.cost.values(), two.saved):
        assert (each.high or 0) - (each.low or 0) < 0.2


def test_what_is_said() -> None:
    result = made_up()
    short = in_short(result)
    assert "Near 9.8e10, " in short
    for estimate in result.transfer.cost.values():
        assert format_estimate(estimate) in short
    _, rows = table(result)
    pairs = [row for row in rows if str(row[0]).endswith("(pair)")]
    difference = "another surrogate − the real text"
    assert [row[2] for row in pairs] == [*[*TESTED_ON, difference] * 2, *TESTED_ON]


@pytest.mark.parametrize("scale", ["laptop", "gpu"])
def test_models_of_a_pair_differ_in_their_text_alone(scale: str) -> None:
    chosen = settings(scale)
    for pair in chosen.pairs:
        real, shifted = (model.config for model in pair.models)
        assert real.surrogate is None
        assert shifted == replace(real, surrogate=pair.surrogates[0])
    used = [seed for pair in chosen.pairs for seed in pair.surrogates]
    assert len(set(used)) == len(used)
    assert len(trained_models(chosen)) == len(chosen.models) + 2 * len(chosen.pairs)
