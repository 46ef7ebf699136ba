"""Masked tokens, and how many of them a model predicts."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from arithmetext.errors import InputError
from arithmetext.evaluation import masking
from arithmetext.evaluation.estimates import Estimate
from arithmetext.evaluation.generation import sample
from arithmetext.evaluation.masking import (
    MaskedAccuracy,
    Steps,
    accuracy_grid,
    count_steps,
    masked_accuracy,
    masked_positions,
    pooled,
)
from arithmetext.models.gpt import GPT, GPTConfig

SIZE = 12  # tokens; the mask is one more


@pytest.fixture(scope="module")
def model() -> GPT:
    torch.manual_seed(0)
    config = GPTConfig(layers=1, heads=1, context=20, positions="rotary")
    model = GPT(config, vocabulary=SIZE + 1, causal=False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 4  # so that predictions differ
    return model.double()


@pytest.fixture(scope="module")
def ids() -> Tensor:
    return torch.randint(SIZE, (9, 20), generator=torch.Generator().manual_seed(3))


def values(found: list[MaskedAccuracy]) -> list[float]:
    return [each.accuracy.value or 0.0 for each in found]


def test_masked_positions_are_uniform() -> None:
    chosen = masked_positions(0.25, 40, range(400), seed=1).numpy()
    assert chosen.shape == (400, 10)
    assert (np.diff(chosen, axis=1) > 0).all()  # no position twice
    counts = np.bincount(chosen.flatten(), minlength=40)
    assert (np.abs(counts - 100) <= 5 * math.sqrt(400 * 0.25 * 0.75)).all()
    assert np.array_equal(chosen[7:9], masked_positions(0.25, 40, range(7, 9), seed=1).numpy())
    assert not np.array_equal(chosen, masked_positions(0.25, 40, range(400), seed=2).numpy())
    assert masked_positions(0.001, 40, range(2), seed=0).shape == (2, 1)


def test_accuracy_equals_a_loop_over_windows(model: GPT, ids: Tensor) -> None:
    """Each window is masked and predicted on its own, in a loop."""
    for share in (0.1, 0.5):
        chosen = masked_positions(share, 20, range(9), seed=5)
        greedy, cold = [], []
        for row, places in zip(ids, chosen, strict=True):
            altered = row.clone()
            altered[places] = SIZE
            logits = model(altered[None])[0, :, :SIZE].detach()
            hits = [int(logits[p].argmax() == row[p]) for p in places]
            chance = [float((2 * logits[p]).softmax(-1)[row[p]]) for p in places]
            greedy.append(np.mean(hits))
            cold.append(np.mean(chance))
        found = masked_accuracy(model, ids, masking_shares=[share], betas=[2.0, math.inf], seed=5)
        assert [(each.masked, each.beta) for each in found] == [(share, 2.0), (share, math.inf)]
        assert values(found) == pytest.approx([np.mean(cold), np.mean(greedy)])


def test_accuracy_equals_that_of_sampled_tokens(model: GPT, ids: Tensor) -> None:
    chosen = masked_positions(0.3, 20, range(9), seed=0)
    logits = model(ids.scatter(1, chosen, SIZE), chosen)[..., :SIZE].detach()
    logs, true = logits.flatten(0, 1).log_softmax(-1), ids.gather(1, chosen).flatten()
    random = torch.rand(3000, len(true), generator=torch.Generator().manual_seed(0)).double()
    share = np.mean([float((sample(logs, 0.7, c) == true).double().mean()) for c in random])
    [found] = values(masked_accuracy(model, ids, masking_shares=[0.3], betas=[0.7], seed=0))
    assert share == pytest.approx(found, abs=5 * 0.5 / math.sqrt(3000 * len(true)))


def test_large_beta_is_the_likeliest_token(model: GPT, ids: Tensor) -> None:
    found = values(masked_accuracy(model, ids, masking_shares=[0.4], betas=[1e5, math.inf], seed=0))
    assert found[0] == pytest.approx(found[1])
    [tiny] = values(masked_accuracy(model, ids, masking_shares=[0.4], betas=[1e-9], seed=0))
    assert tiny == pytest.approx(1 / SIZE)  # the mask is no answer


def test_results_do_not_depend_on_the_batch(
    model: GPT, ids: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"masking_shares": [0.2, 0.6], "betas": [1.0, math.inf], "seed": 2}
    together = masked_accuracy(model, ids, **options)
    monkeypatch.setattr(masking, "BATCH_TOKENS", 40)
    assert values(masked_accuracy(model, ids, **options)) == pytest.approx(values(together))


def test_a_model_of_next_tokens_raises(ids: Tensor) -> None:
    model = GPT(GPTConfig(layers=1, heads=1, context=20), vocabulary=SIZE, causal=True)
    with pytest.raises(InputError, match="does not predict masked ones"):
        masked_accuracy(model, ids, masking_shares=[0.1], betas=[1.0], seed=0)


def measured(accuracies: dict[tuple[float, float], float]) -> list[MaskedAccuracy]:
    """Accuracies by (p_m, β), with intervals of ± 0.002."""
    return [
        MaskedAccuracy(*place, Estimate(x, x - 0.002, x + 0.002)) for place, x in accuracies.items()
    ]


def test_a_grid_has_p_m_upwards_and_beta_downwards() -> None:
    cells = measured({(0.3, 1.0): 0.1, (0.1, 1.0): 0.2, (0.1, math.inf): 0.4, (0.3, math.inf): 0.3})
    masked, betas, estimates = grid = accuracy_grid(cells)
    assert (masked, betas) == ([0.1, 0.3], [math.inf, 1.0])
    assert grid.values.tolist() == [[0.4, 0.3], [0.2, 0.1]]
    assert estimates[0, 1] == pytest.approx([0.3, 0.298, 0.302])


def test_steps_to_larger_shares_and_temperatures() -> None:
    places = [(share, beta) for share in (0.1, 0.2, 0.4) for beta in (0.5, 1.0, 2.0, math.inf)]

    def steps(**accuracies: dict[tuple[float, float], float]) -> Steps:
        return count_steps([accuracy_grid(measured(each)) for each in accuracies.values()])

    flat = dict.fromkeys(places, 0.4)
    total = 3 * 3 + 2 * 4
    assert steps(near=flat, far=flat) == Steps(2 * total, 0, 0, 0)
    corner = (0.4, 0.5)  # the greatest share and temperature, at the end of two steps
    assert steps(near=flat | {corner: 0.401}) == Steps(total, 0, 0, 0)
    assert steps(near=flat | {corner: 0.41}) == Steps(total, 0, 0, clearly_up=2)
    assert steps(near=flat | {corner: 0.399}) == Steps(total, 2, 0, 0)
    assert steps(near=flat | {corner: 0.39}, far=flat) == Steps(2 * total, 2, 2, 0)


def test_errors_of_places_add_in_quadrature() -> None:
    near, far = (
        [MaskedAccuracy(0.1, 1.0, estimate)]
        for estimate in (Estimate(0.5, 0.47, 0.56), Estimate(0.3, 0.26, 0.38))
    )
    [cell] = pooled([near, far])
    assert cell.accuracy == pytest.approx((0.4, 0.4 - 0.05 / 2, 0.4 + 0.1 / 2))
    assert pooled([near]) == [MaskedAccuracy(0.1, 1.0, pytest.approx(near[0].accuracy))]
