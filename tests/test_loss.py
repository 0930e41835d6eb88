"""The objective: numbers worked by hand, gradients it must equal, and what must not reach it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from gagpo.batch import Batch, Row, collate
from gagpo.config import LossConfig
from gagpo.loss import LossStats, kl_k1, kl_k2, kl_k3, sequence_ppo_loss

CONFIG = LossConfig()
INF = float("inf")


def batch_of(ratios, advantage, weight=None, ref=None) -> tuple[torch.Tensor, Batch]:
    """Logprobs of -1 and a batch whose token ratios to the old policy are `ratios` (ragged)."""
    weight = weight or [1 / len(ratios)] * len(ratios)
    rows = [
        Row((1,), (2,) * len(r), None, a, w, -1 - np.log(r), None if ref is None else np.array(ref[i]))
        for i, (r, a, w) in enumerate(zip(ratios, advantage, weight, strict=True))
    ]
    batch = collate(rows, 0)
    return torch.full(batch.action_ids.shape, -1.0, requires_grad=True), batch


def run(ratios, advantage, config=CONFIG, **more):
    """(loss, gradient, statistics) at logprobs of -1."""
    logprobs, batch = batch_of(ratios, advantage, **more)
    loss, stats = sequence_ppo_loss(logprobs, batch, config)
    (grad,) = torch.autograd.grad(loss, logprobs)
    return float(loss.detach()), grad.tolist(), stats


def random_batch(seed: int = 0, num: int = 12, spread: float = 0.3) -> tuple[torch.Tensor, Batch]:
    rng = np.random.default_rng(seed)
    weight = rng.dirichlet(np.ones(num))
    rows = []
    for i in range(num):
        size = int(rng.integers(1, 7))
        old, ref = rng.normal(-1, spread, (2, size))
        rows.append(Row((1,) * 3, (2,) * size, None, rng.normal(), weight[i], old, ref))
    batch = collate(rows, 0)
    noise = torch.from_numpy(rng.normal(-1, spread, batch.action_ids.shape)).float()
    return noise.requires_grad_(), batch


def take(batch: Batch, rows: slice) -> Batch:
    return replace(
        batch,
        **{name: getattr(batch, name)[rows] for name in batch.__slots__ if getattr(batch, name) is not None},
    )


def test_hand_number():
    """Geometric means: sqrt(1.21 * 1) = 1.1 inside the clip, sqrt(4 * 1) = 2 clipped to 1.2.
    loss = -(1.1 * 3 * 0.25 + 1.2 * 2 * 0.75)."""
    loss, grad, stats = run([[1.21, 1.0], [4.0, 1.0]], [3, 2], weight=[0.25, 0.75])
    assert loss == pytest.approx(-(0.825 + 1.8), rel=1e-6)
    assert grad[0] == pytest.approx([-0.25 * 3 * 1.1 / 2] * 2, rel=1e-6)
    assert grad[1] == [0, 0]
    assert (stats.num_actions, stats.num_tokens, stats.num_clipped) == (2, 4, 1)
    assert stats.means()["ratio_mean"] == pytest.approx(1.55, rel=1e-6)
    assert stats.means()["ratio_max"] == pytest.approx(2, rel=1e-6)
    assert stats.means()["clip_fraction"] == 0.5
    half_logs = [math.log(1.1), math.log(2)]
    assert stats.means()["kl_k1"] == pytest.approx(-sum(half_logs) / 2, rel=1e-5)
    k3 = [1.21 - 1 - math.log(1.21), 4 - 1 - math.log(4)]
    assert stats.means()["kl_k3"] == pytest.approx(sum(k3) / 4, rel=1e-5)


@pytest.mark.parametrize("ratio", ["sequence", "token"])
def test_on_policy_the_gradient_is_length_normalised_reinforce(ratio):
    """d/d theta of -sum w A (1/n) sum log pi."""
    _, batch = random_batch()
    logprobs = batch.old_logprobs.clone().requires_grad_()
    loss, stats = sequence_ppo_loss(logprobs, batch, LossConfig(ratio=ratio))
    (grad,) = torch.autograd.grad(loss, logprobs)
    plain = batch.old_logprobs.clone().requires_grad_()
    mean_logprob = (plain * batch.action_mask).sum(1) / batch.action_mask.sum(1)
    (expected,) = torch.autograd.grad(-(batch.weight * batch.advantage * mean_logprob).sum(), plain)
    torch.testing.assert_close(grad, expected, rtol=1e-6, atol=1e-9)
    assert stats.num_clipped == 0 and stats.ratio_max == 1 and stats.kl_k3_sum == 0


@pytest.mark.parametrize("ratio", ["sequence", "token"])
@pytest.mark.parametrize("splits", [(5,), (1, 2, 11)])
def test_micro_batches_add_up_to_the_whole(ratio, splits):
    config = LossConfig(ratio=ratio, kl="k3", kl_coef=0.1, entropy_coef=0.01, dual_clip=1.1)
    logprobs, batch = random_batch()
    whole, whole_stats = sequence_ppo_loss(logprobs, batch, config, entropy=logprobs.square())
    (expected,) = torch.autograd.grad(whole, logprobs)
    grad, total, stats = torch.zeros_like(expected), 0.0, LossStats()
    for start, end in zip((0, *splits), (*splits, len(logprobs)), strict=True):
        rows = slice(start, end)
        part = logprobs[rows]
        loss, more = sequence_ppo_loss(part, take(batch, rows), config, entropy=part.square())
        grad += torch.autograd.grad(loss, logprobs)[0]
        total, stats = total + loss.item(), stats.merge(more)
    assert (grad - expected).abs().max() <= 1e-6 and expected.abs().max() > 1e-2
    assert total == pytest.approx(whole.item(), abs=1e-6)
    assert stats.means() == pytest.approx(whole_stats.means(), rel=1e-5)
    assert (stats.num_actions, stats.num_tokens) == (12, int(batch.action_mask.sum()))
    assert 0 < stats.num_clipped < 12


@pytest.mark.parametrize("ratio", ["sequence", "token"])
@pytest.mark.parametrize("kl", ["k2", "k3"])
@pytest.mark.parametrize("junk", [0.0, 55.5, INF, -INF, float("nan")])
def test_padding_is_inert_whatever_it_holds(ratio, kl, junk):
    """Three more columns, and junk in all padding: the same loss, the same gradient, 0 in padding."""
    config = LossConfig(ratio=ratio, kl=kl, entropy_coef=0.5)
    logprobs, batch = random_batch()
    entropy = logprobs.detach().square().requires_grad_()
    loss, stats = sequence_ppo_loss(logprobs, batch, config, entropy)
    expected = torch.autograd.grad(loss, (logprobs, entropy))

    def wider(values: torch.Tensor, fill: float) -> torch.Tensor:
        values = torch.where(batch.action_mask, values.detach(), fill)
        return torch.nn.functional.pad(values, (0, 3), value=fill)

    padded = replace(
        batch,
        action_pos=torch.nn.functional.pad(batch.action_pos, (0, 3)),
        action_ids=torch.nn.functional.pad(batch.action_ids, (0, 3)),
        action_mask=torch.nn.functional.pad(batch.action_mask, (0, 3)),
        old_logprobs=wider(batch.old_logprobs, junk),
        ref_logprobs=wider(batch.ref_logprobs, junk),
    )
    wide = [wider(values, junk).requires_grad_() for values in (logprobs, entropy)]
    wide_loss, wide_stats = sequence_ppo_loss(wide[0], padded, config, wide[1])
    assert float(wide_loss.detach()) == pytest.approx(float(loss.detach()), rel=1e-6)
    assert wide_stats.means() == pytest.approx(stats.means(), rel=1e-6)
    for grad, narrow in zip(torch.autograd.grad(wide_loss, wide), expected, strict=True):
        assert torch.all(grad[~padded.action_mask] == 0)
        torch.testing.assert_close(grad[padded.action_mask], narrow[batch.action_mask], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("ratio", ["sequence", "token"])
def test_a_fully_masked_row_counts_for_nothing(ratio):
    config = LossConfig(ratio=ratio, kl="k3", entropy_coef=0.5)
    logprobs, batch = random_batch()
    rest_loss, rest_stats = sequence_ppo_loss(
        logprobs[1:], take(batch, slice(1, None)), config, entropy=logprobs[1:].square()
    )
    mask = batch.action_mask.clone()
    mask[0] = False
    loss, stats = sequence_ppo_loss(
        logprobs, replace(batch, action_mask=mask), config, entropy=logprobs.square()
    )
    (grad,) = torch.autograd.grad(loss, logprobs)
    assert loss.item() == pytest.approx(rest_loss.item(), rel=1e-6)
    assert stats.means() == pytest.approx(rest_stats.means(), rel=1e-6)
    assert torch.all(grad[0] == 0) and torch.all(grad.isfinite())
    nothing, stats = sequence_ppo_loss(
        logprobs, replace(batch, action_mask=torch.zeros_like(mask)), config, entropy=logprobs
    )
    assert nothing.item() == 0 and stats == LossStats()


def test_there_is_no_gradient_beyond_the_clip_but_there_is_on_the_way_back():
    """Clipped: above for A > 0, below for A < 0. Never clipped: the other way round."""
    for ratios, advantage, clipped in (
        ([1.5], 1, True),
        ([0.5], 1, False),
        ([0.5], -1, True),
        ([1.5], -1, False),
        ([1.19], 1, False),
        ([0.81], -1, False),
    ):
        _, grad, stats = run([ratios], [advantage])
        expected = 0 if clipped else -advantage * ratios[0]
        assert grad[0] == pytest.approx([expected], rel=1e-5), (ratios, advantage)
        assert stats.num_clipped == clipped


def test_clip_low_and_clip_high_are_two_settings():
    config = LossConfig(clip_low=0.1, clip_high=0.4)
    assert run([[1.5]], [1], config)[0] == pytest.approx(-1.4, rel=1e-6)
    assert run([[1.3]], [1], config)[0] == pytest.approx(-1.3, rel=1e-6)
    assert run([[0.5]], [-1], config)[0] == pytest.approx(0.9, rel=1e-6)
    assert run([[0.85]], [-1], config)[0] == pytest.approx(0.9, rel=1e-6)


def test_dual_clip_bounds_what_a_negative_advantage_can_cost():
    """ratio 5, A = -2: plain cost 10, with dual_clip 3 it is 6 and constant."""
    loss, grad, stats = run([[5.0]], [-2])
    assert loss == pytest.approx(10, rel=1e-6) and grad[0] == pytest.approx([10], rel=1e-6)
    assert stats.num_clipped == 0
    loss, grad, stats = run([[5.0]], [-2], LossConfig(dual_clip=3))
    assert loss == pytest.approx(6, rel=1e-6) and grad == [[0]] and stats.num_clipped == 1
    assert run([[2.0]], [-2], LossConfig(dual_clip=3))[0] == pytest.approx(4, rel=1e-6)
    assert run([[5.0]], [2], LossConfig(dual_clip=3))[0] == pytest.approx(-2.4, rel=1e-6)


def test_token_ratios_tear_an_action_that_one_ratio_leaves_whole():
    """Tokens of ratio 2 and 1/2 with A = 1: the action's ratio is 1, so nothing is clipped and both
    tokens get the same gradient. Token by token 2 is clipped: J = (1.2 + 0.5) / 2."""
    loss, grad, stats = run([[2.0, 0.5]], [1])
    assert loss == pytest.approx(-1, rel=1e-6)
    assert grad[0] == pytest.approx([-0.5, -0.5], rel=1e-5)
    assert stats.means()["ratio_max"] == pytest.approx(1, rel=1e-6) and stats.num_clipped == 0
    loss, grad, stats = run([[2.0, 0.5]], [1], LossConfig(ratio="token"))
    assert loss == pytest.approx(-0.85, rel=1e-6)
    assert grad[0] == pytest.approx([0, -0.25], rel=1e-5)
    assert stats.means()["ratio_mean"] == pytest.approx(1.25, rel=1e-6)
    assert stats.means()["ratio_max"] == pytest.approx(2, rel=1e-6)
    assert stats.num_clipped == 1 and stats.num_actions == 1


def test_hopeless_ratios_stay_finite():
    logprobs, batch = batch_of([[1.0, 1.0]], [-1])
    far = logprobs.detach().add(500).requires_grad_()
    for ratio in ("sequence", "token"):
        loss, stats = sequence_ppo_loss(far, batch, LossConfig(ratio=ratio))
        (grad,) = torch.autograd.grad(loss, far)
        assert math.isfinite(loss.item()) and torch.all(grad.isfinite()) and math.isfinite(stats.kl_k3_sum)


def test_kl_estimators_by_hand():
    p, q = torch.tensor([math.log(0.5)]), torch.tensor([math.log(0.25)])
    assert float(kl_k1(p, q)) == pytest.approx(math.log(2), rel=1e-6)
    assert float(kl_k2(p, q)) == pytest.approx(math.log(2) ** 2 / 2, rel=1e-6)
    assert float(kl_k3(p, q)) == pytest.approx(0.5 - 1 + math.log(2), rel=1e-6)


def test_kl_estimators_mean_what_they_say_over_a_whole_distribution():
    """Exact expectations under p: values of k1 and k3 are KL(p||q); as losses k2 has the gradient of
    KL(p||q), and k3 that of KL(q||p)."""
    torch.manual_seed(0)
    logits = torch.randn(6, dtype=torch.float64, requires_grad=True)
    logq = torch.randn(6, dtype=torch.float64).log_softmax(0)
    logp = logits.log_softmax(0)
    p, q = logp.detach().exp(), logq.exp()
    forward = (logp.exp() * (logp - logq)).sum()
    backward = (q * (logq - logp)).sum()
    for estimate in (kl_k1, kl_k3):
        torch.testing.assert_close((p * estimate(logp, logq)).sum(), forward)
    for estimate, divergence in ((kl_k2, forward), (kl_k3, backward)):
        (grad,) = torch.autograd.grad((p * estimate(logp, logq)).sum(), logits, retain_graph=True)
        (expected,) = torch.autograd.grad(divergence, logits, retain_graph=True)
        torch.testing.assert_close(grad, expected)


@pytest.mark.parametrize(("kind", "number"), [("k2", (1 / 8 + 0) / 2), ("k3", (math.exp(-0.5) - 0.5) / 2)])
def test_the_kl_term_is_a_mean_over_the_tokens_of_an_action(kind, number):
    """Logprobs -1 -1, reference -1.5 -1: the second token adds nothing; zero advantage."""
    config = LossConfig(kl=kind, kl_coef=2.0)
    loss, _, stats = run([[1.0, 1.0]], [0], config, ref=[[-1.5, -1.0]])
    assert loss == pytest.approx(2 * number, rel=1e-5)
    assert stats.means()["ref_kl"] == pytest.approx((math.exp(-0.5) - 0.5) / 2, rel=1e-5)
    for silent in ("none", "k1"):
        assert run([[1.0, 1.0]], [0], replace(config, kl=silent), ref=[[-1.5, -1.0]])[0] == 0


def test_the_entropy_bonus_is_a_weighted_mean_over_actions():
    logprobs, batch = batch_of([[1.0, 1.0], [1.0]], [0, 0], weight=[0.25, 0.75])
    entropy = torch.tensor([[1.0, 3.0], [4.0, 99.0]], requires_grad=True)
    loss, stats = sequence_ppo_loss(logprobs, batch, LossConfig(entropy_coef=0.1), entropy)
    assert loss.item() == pytest.approx(-0.1 * (0.25 * 2 + 0.75 * 4), rel=1e-6)
    (grad,) = torch.autograd.grad(loss, entropy)
    assert grad.flatten().tolist() == pytest.approx([-0.0125, -0.0125, -0.075, 0], rel=1e-6)
    assert stats.means()["entropy"] == pytest.approx(3, rel=1e-6)
    silent, _ = sequence_ppo_loss(logprobs, batch, CONFIG, entropy)
    assert silent.item() == 0


def test_statistics_merge_by_sum_and_maximum():
    one = LossStats(1, 2, 1, 1.5, 1.5, 0.1, 0.2, 0.3, 0.4)
    two = LossStats(3, 4, 0, 2.5, 1.25, 0.3, 0.2, 0.1, 0.8)
    both = one.merge(two)
    assert (both.num_actions, both.num_tokens, both.num_clipped, both.ratio_max) == (4, 6, 1, 1.5)
    assert both.means() == pytest.approx(
        {
            "ratio_mean": 1.0,
            "ratio_max": 1.5,
            "clip_fraction": 0.25,
            "kl_k1": 0.1,
            "kl_k3": 0.1,
            "ref_kl": 0.1,
            "entropy": 0.3,
        }
    )


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"old_logprobs": None}, {}, "old_logprobs: None"),
        ({"ref_logprobs": None}, {"kl": "k3"}, "ref_logprobs: None; kl 'k3'"),
        ({}, {"entropy_coef": 0.1}, "entropy: None"),
    ],
)
def test_what_a_setting_needs_must_be_there(change, options, message):
    logprobs, batch = random_batch()
    with pytest.raises(ValueError, match=message):
        sequence_ppo_loss(logprobs, replace(batch, **change), LossConfig(**options))


def test_logprobs_must_fit_the_batch():
    logprobs, batch = random_batch()
    with pytest.raises(ValueError, match="logprobs: shape"):
        sequence_ppo_loss(logprobs[:, :1], batch, CONFIG)
    with pytest.raises(ValueError, match="too coarse"):
        sequence_ppo_loss(logprobs.bfloat16(), batch, CONFIG)
