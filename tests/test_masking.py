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
    predict_masked,
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


def test_what_is_kept_gives_the_accuracies(model: GPT, ids: Tensor) -> None:
    found = predict_masked(model, ids, masking_shares=[0.1, 0.4], betas=[1.0, math.inf], seed=3)
    for share, (once, greedy), logs, ranks, likeliest in zip((0.1, 0.4), *found, strict=True):
        true = ids.gather(1, masked_positions(share, 20, range(9), seed=3)).numpy()
        assert np.exp(logs).mean(1) == pytest.approx(once)
        assert (ranks == 0).mean(1) == pytest.approx(greedy)
        assert np.array_equal(likeliest == true, ranks == 0)
        assert ranks.max() < SIZE
    assert [logs.shape for logs in found.logs] == [(9, 2), (9, 8)]


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
    """The windows differ more than the steps, but by as much at every p_m and β."""
    flat = np.full((3, 4, 12), 0.4) + np.linspace(-0.2, 0.2, 12)
    total = 3 * 3 + 2 * 4
    noise = np.tile([0.001, -0.001, 0.002, -0.002], 3)

    def steps(*changes: float) -> Steps:
        """A place for each change, which is at the greatest share and temperature."""
        places = [flat.copy() for _ in changes]
        for place, change in zip(places, changes, strict=True):
            place[-1, 0] += (change + noise) if change else 0
        return count_steps(places, blocks=4)

    assert steps(0, 0) == Steps(2 * total, 0, 0)
    assert steps(0.0005, -0.0005) == Steps(2 * total, 0, 0)  # not decided
    assert steps(0.01) == Steps(total, 0, up=2)  # at the end of two steps
    assert steps(-0.01, 0) == Steps(2 * total, 2, up=0)
    assert steps(-0.01, 0.01, 0.01) == Steps(3 * total, 2, up=4)


def test_errors_of_places_add_in_quadrature() -> None:
    near, far = (
        [MaskedAccuracy(0.1, 1.0, estimate)]
        for estimate in (Estimate(0.5, 0.47, 0.56), Estimate(0.3, 0.26, 0.38))
    )
    [cell] = pooled([near, far], [2, 2])
    assert cell.accuracy == pytest.approx((0.4, 0.4 - 0.05 / 2, 0.4 + 0.1 / 2))
    [weighted] = pooled([near, far], [30, 10])
    error = math.hypot(0.75 * 0.03, 0.25 * 0.04)
    assert weighted.accuracy[:2] == pytest.approx((0.45, 0.45 - error))
    assert pooled([near], [7]) == [MaskedAccuracy(0.1, 1.0, pytest.approx(near[0].accuracy))]
