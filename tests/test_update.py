"""The optimiser's passes: what is left out changes nothing, and what is broken stops the run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from corridor import CorridorWorld

from gagpo.batch import Row, collate
from gagpo.config import Config, OptimConfig
from gagpo.policy import Policy
from gagpo.rollout import collect
from gagpo.update import Updater, check_ratio_is_one, learning_rate

SMALL = {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "learning_rate": 0.01}


def make(**settings) -> tuple[Updater, list[Row], np.ndarray]:
    """An updater, rows with random advantages (a third of them 0), and their trajectories."""
    config = Config.from_flat(SMALL | settings)
    policy = Policy.build(config, CorridorWorld())
    trajectories = collect(
        CorridorWorld(), policy, ["c-1", "c-2"], config.rollout, num_siblings=3, temperature=1.0, seed=(0,)
    )
    rows = policy.rows(trajectories)
    advantage = np.random.default_rng(0).normal(size=len(rows))
    advantage[::3] = 0
    old = policy.score(rows, 4096)
    rows = [
        replace(r, advantage=float(a), old_logprobs=o) for r, a, o in zip(rows, advantage, old, strict=True)
    ]
    trajectory = np.repeat(np.arange(len(trajectories)), [len(t.steps) for t in trajectories])
    return Updater(policy, config), rows, trajectory


def weights(updater: Updater) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for _, p in updater.parameters])


def gradient(updater: Updater, rows: list[Row]) -> torch.Tensor:
    updater._backward(rows, on_policy=True)
    return torch.cat([p.grad.flatten() for _, p in updater.parameters])


@pytest.mark.parametrize("loss_mean", ["action", "token", "trajectory"])
def test_leaving_out_rows_without_advantage_changes_no_gradient(loss_mean: str) -> None:
    updater, rows, trajectory = make(loss_mean=loss_mean, max_grad_norm=1e9)
    kept = updater._contributing(rows, np.arange(len(rows)), trajectory)
    assert len(kept) == sum(row.advantage != 0 for row in rows) < len(rows)
    updater.config = replace(updater.config, loss=replace(updater.config.loss, entropy_coef=1e-30))
    every = updater._contributing(rows, np.arange(len(rows)), trajectory)
    assert len(every) == len(rows) and sum(r.weight for r in every) == pytest.approx(1)
    assert torch.allclose(gradient(updater, kept), gradient(updater, every), atol=1e-7)


def test_micro_batches_give_the_gradient_of_the_whole() -> None:
    updater, rows, trajectory = make(max_grad_norm=1e9, micro_batch_tokens=100_000)
    kept = updater._contributing(rows, np.arange(len(rows)), trajectory)
    whole = gradient(updater, kept)
    updater.config = replace(updater.config, optim=replace(updater.config.optim, micro_batch_tokens=64))
    assert torch.allclose(gradient(updater, kept), whole, atol=1e-6) and whole.abs().max() > 1e-3


def test_an_update_raises_what_was_good_and_lowers_what_was_bad() -> None:
    updater, rows, trajectory = make(learning_rate=1e-3)
    best, worst = (f(range(len(rows)), key=lambda i: rows[i].advantage) for f in (max, min))
    for _ in range(20):
        metrics = updater.update(rows, trajectory, 1, np.random.default_rng(0))
        rows = [
            replace(r, old_logprobs=o) for r, o in zip(rows, updater.policy.score(rows, 4096), strict=True)
        ]
        if "first" not in locals():
            first = [row.old_logprobs.sum() for row in rows]
    last = [row.old_logprobs.sum() for row in rows]
    assert last[best] > first[best] and last[worst] < first[worst]
    assert metrics["num_updates"] == 1 and updater.num_updates == 20


def test_metrics_of_an_on_policy_update() -> None:
    updater, rows, trajectory = make()
    metrics = updater.update(rows, trajectory, 1, np.random.default_rng(0))
    assert metrics["ratio_mean"] == pytest.approx(1, abs=1e-5)
    assert metrics["clip_fraction"] == 0 and metrics["kl_k3"] == pytest.approx(0, abs=1e-9)
    assert metrics["num_trained"] == sum(row.advantage != 0 for row in rows)
    assert metrics["gradient_norm"] > 0 and metrics["learning_rate"] == 0.01


def test_several_updates_an_iteration_move_the_ratio() -> None:
    updater, rows, trajectory = make(num_minibatches=2, num_epochs=3)
    metrics = updater.update(rows, trajectory, 1, np.random.default_rng(0))
    assert metrics["num_updates"] == 6 == updater.num_updates
    assert metrics["ratio_max"] > 1.001


def test_no_signal_means_no_update() -> None:
    updater, rows, trajectory = make()
    before = weights(updater)
    metrics = updater.update(
        [replace(r, advantage=0.0) for r in rows], trajectory, 1, np.random.default_rng(0)
    )
    assert torch.equal(weights(updater), before)
    assert metrics["num_updates"] == 0 and metrics["num_trained"] == 0 and metrics["gradient_norm"] == 0


@pytest.mark.parametrize("fault", ["shift", "temperature", "mask", "nan"])
def test_the_canary_stops_a_run_whose_two_passes_disagree(fault: str) -> None:
    updater, rows, trajectory = make()
    if fault == "shift":
        rows = [replace(r, old_logprobs=np.roll(r.old_logprobs, 1)) for r in rows]
    elif fault == "temperature":
        updater.policy.temperature = 0.9
    elif fault == "mask":
        rows = [replace(r, allowed=None) for r in rows]
    else:
        rows = [replace(r, old_logprobs=np.full_like(r.old_logprobs, np.nan)) for r in rows]
    before = weights(updater)
    with pytest.raises(RuntimeError, match="importance ratio is not 1"):
        updater.update(rows, trajectory, 1, np.random.default_rng(0))
    assert torch.equal(weights(updater), before)


def test_the_canary_tolerates_rounding_and_no_more() -> None:
    updater, rows, _ = make()
    batch = collate(rows, updater.policy.pad_id)
    logprobs, _ = updater.policy.logprobs(batch)
    check_ratio_is_one(logprobs + 1e-6 * batch.action_mask, batch, torch.float32)
    with pytest.raises(RuntimeError, match=r"off by 0\.001; expected at most 1e-04"):
        check_ratio_is_one(logprobs + 1e-3 * batch.action_mask, batch, torch.float32)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_an_infinite_gradient_makes_no_update_and_three_in_a_row_end_the_run() -> None:
    updater, rows, trajectory = make()
    huge = [replace(r, advantage=r.advantage * 1e39) for r in rows]  # inf in float32
    before = weights(updater)
    for number in (1, 2):
        metrics = updater.update(huge, trajectory, number, np.random.default_rng(0))
        assert metrics["skipped_updates"] == 1 and metrics["num_updates"] == 0
    assert torch.equal(weights(updater), before) and updater.num_updates == 0
    updater.update(rows, trajectory, 3, np.random.default_rng(0))
    assert updater.num_updates == 1 and updater.skipped_in_a_row == 0, "a good one starts the count anew"


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_three_infinite_gradients_in_a_row_end_the_run() -> None:
    updater, rows, trajectory = make()
    huge = [replace(r, advantage=r.advantage * 1e39) for r in rows]
    with pytest.raises(FloatingPointError, match="3 updates in a row"):
        for _ in range(3):
            updater.update(huge, trajectory, 1, np.random.default_rng(0))


def test_learning_rates_by_hand() -> None:
    def rates(**settings) -> list[float]:
        return [learning_rate(OptimConfig(learning_rate=1.0, **settings), i, 4) for i in (1, 2, 3, 4)]

    assert rates() == [1, 1, 1, 1]
    assert rates(lr_schedule="linear") == [1, 0.75, 0.5, 0.25]
    assert rates(lr_schedule="cosine") == pytest.approx([1, 0.853553, 0.5, 0.146447], abs=1e-6)
    assert rates(lr_warmup=1) == [0.5, 1, 1, 1]
    assert rates(lr_schedule="linear", lr_warmup=1) == pytest.approx([0.5, 1, 2 / 3, 1 / 3])
