"""The clipped policy-gradient objective with one importance ratio for each action.

For an action a of n tokens with advantage A and weight w,

    ratio      rho = exp( (1/n) sum over its tokens of (log pi(token) - log pi_old(token)) )
    objective  J   = min( rho A, clip(rho, 1 - clip_low, 1 + clip_high) A )
    loss           = sum over actions of w * ( -J + kl_coef * KL - entropy_coef * entropy )

with the KL to the reference and the entropy as means over the action's tokens. The weights sum
to 1 over an optimiser batch (`gagpo.weights`), so the loss is a plain sum and the
gradients of micro-batches add up to that of the whole. Sources: GAGPO (arXiv 2605.13217);
the length-normalised ratio is GSPO's (arXiv 2507.18071); dual clip arXiv 1912.09729.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gagpo.batch import Batch
from gagpo.config import LossConfig

# exp(20) is 5e8: far beyond any clip, far below overflow in float32 even when squared or summed.
MAX_LOG_RATIO = 20.0


@dataclass(frozen=True, slots=True)
class LossStats:
    """Sums over the actions of a batch as plain numbers; `merge` adds those of micro-batches.

    Every `*_sum` is over actions, of the mean over the action's tokens, in nats where it is a
    logarithm. A ratio is the action's own with ratio "sequence", and the mean over its tokens
    with "token" (`ratio_max` is then over tokens). `num_clipped` counts the actions where the
    clip (dual clip included) changes the loss; with "token", at one of its tokens at least.
    """

    num_actions: int = 0
    num_tokens: int = 0
    num_clipped: int = 0
    ratio_sum: float = 0.0
    ratio_max: float = 0.0
    kl_k1_sum: float = 0.0
    kl_k3_sum: float = 0.0
    ref_kl_sum: float = 0.0
    entropy_sum: float = 0.0

    def merge(self, other: LossStats) -> LossStats:
        """The statistics of both batches together."""
        return LossStats(
            num_actions=self.num_actions + other.num_actions,
            num_tokens=self.num_tokens + other.num_tokens,
            num_clipped=self.num_clipped + other.num_clipped,
            ratio_sum=self.ratio_sum + other.ratio_sum,
            ratio_max=max(self.ratio_max, other.ratio_max),
            kl_k1_sum=self.kl_k1_sum + other.kl_k1_sum,
            kl_k3_sum=self.kl_k3_sum + other.kl_k3_sum,
            ref_kl_sum=self.ref_kl_sum + other.ref_kl_sum,
            entropy_sum=self.entropy_sum + other.entropy_sum,
        )

    def means(self) -> dict[str, float]:
        """Means over the actions: ratio_mean, ratio_max, clip_fraction, kl_k1 and kl_k3 (both
        estimate KL(old || current)), ref_kl (k3, 0 without a reference) and entropy, which is 0
        unless it was given."""
        num = max(self.num_actions, 1)
        return {
            "ratio_mean": self.ratio_sum / num,
            "ratio_max": self.ratio_max,
            "clip_fraction": self.num_clipped / num,
            "kl_k1": self.kl_k1_sum / num,
            "kl_k3": self.kl_k3_sum / num,
            "ref_kl": self.ref_kl_sum / num,
            "entropy": self.entropy_sum / num,
        }


def sequence_ppo_loss(
    logprobs: Tensor, batch: Batch, config: LossConfig, entropy: Tensor | None = None
) -> tuple[Tensor, LossStats]:
    """The loss of a (micro-)batch, a scalar with gradient, and its statistics.

    `logprobs` (B, A) are the current policy's of the action tokens, `entropy` (B, A) its entropy
    at their positions, in nats. Padding may hold anything, ±inf and NaN included: it reaches
    neither value nor gradient. An action without tokens is left out. With config.ratio "token"
    each token has its own ratio and clip, and J is the mean over the action's tokens.
    config.kl "k1" adds nothing here: k1 belongs into the reward. k3 as a loss has a biased
    gradient (that of the reverse divergence, when on policy); k2's is unbiased on policy.
    Rows with zero advantage may be dropped beforehand only without a KL and an entropy term.
    """
    _check(logprobs, batch, config, entropy)
    mask = batch.action_mask
    tokens = mask.sum(1)
    present = tokens > 0

    def action_mean(values: Tensor) -> Tensor:
        return torch.where(mask, values, 0.0).sum(1) / tokens.clamp(min=1)

    log_ratio = torch.where(mask, logprobs - batch.old_logprobs, 0.0)
    if config.ratio == "sequence":
        ratio = _exp(action_mean(log_ratio))
        objective, clipped = _clipped(ratio, batch.advantage, config)
        largest = ratio[present]
    else:
        token_ratio = _exp(log_ratio)
        token_objective, token_clipped = _clipped(token_ratio, batch.advantage[:, None], config)
        ratio, objective = action_mean(token_ratio), action_mean(token_objective)
        clipped = token_clipped.any(1)  # padding has ratio 1, which no clip changes
        largest = token_ratio[mask]

    cost = -objective
    ref_kl = torch.zeros_like(cost)
    if batch.ref_logprobs is not None:
        current, reference = (torch.where(mask, x, 0.0) for x in (logprobs, batch.ref_logprobs))
        ref_kl = action_mean(kl_k3(current, reference)).detach()
        if config.kl in ("k2", "k3"):
            estimate = kl_k2 if config.kl == "k2" else kl_k3
            cost = cost + config.kl_coef * action_mean(estimate(current, reference))
    mean_entropy = torch.zeros_like(cost) if entropy is None else action_mean(entropy)
    if config.entropy_coef > 0:
        cost = cost - config.entropy_coef * mean_entropy
    loss = (batch.weight * torch.where(present, cost, 0.0)).sum()

    with torch.no_grad():
        stats = LossStats(
            num_actions=int(present.sum()),
            num_tokens=int(tokens.sum()),
            num_clipped=int(clipped.sum()),
            ratio_sum=float(ratio[present].double().sum()),
            ratio_max=float(largest.max()) if largest.numel() else 0.0,
            kl_k1_sum=float(action_mean(-log_ratio).double().sum()),
            kl_k3_sum=float(action_mean(_exp(log_ratio) - 1 - log_ratio).double().sum()),
            ref_kl_sum=float(ref_kl.double().sum()),
            entropy_sum=float(mean_entropy.double().sum()),
        )
    return loss, stats


def kl_k1(logprobs: Tensor, ref_logprobs: Tensor) -> Tensor:
    """log(p/q) for tokens drawn from p: unbiased for KL(p || q), may be negative. For rewards."""
    return logprobs - ref_logprobs


def kl_k2(logprobs: Tensor, ref_logprobs: Tensor) -> Tensor:
    """log(p/q)^2 / 2: biased as a value, yet its gradient is that of KL(p || q) on policy."""
    return (logprobs - ref_logprobs).square() / 2


def kl_k3(logprobs: Tensor, ref_logprobs: Tensor) -> Tensor:
    """q/p - 1 - log(q/p): unbiased for KL(p || q) and never negative; as a loss its expected
    gradient is that of KL(q || p) instead. Source: J. Schulman, "Approximating KL divergence"."""
    log_ratio = ref_logprobs - logprobs
    return _exp(log_ratio) - 1 - log_ratio


def _exp(log_ratio: Tensor) -> Tensor:
    """exp of a log ratio that is held within ±MAX_LOG_RATIO; beyond it the gradient is 0."""
    return log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


def _clipped(ratio: Tensor, advantage: Tensor, config: LossConfig) -> tuple[Tensor, Tensor]:
    """The clipped objective and where the clip changed it, both in the shape of `ratio`."""
    plain = ratio * advantage
    objective = torch.minimum(plain, ratio.clamp(1 - config.clip_low, 1 + config.clip_high) * advantage)
    if config.dual_clip is not None:
        floored = torch.maximum(objective, config.dual_clip * advantage)
        objective = torch.where(advantage < 0, floored, objective)
    return objective, objective != plain


def _check(logprobs: Tensor, batch: Batch, config: LossConfig, entropy: Tensor | None) -> None:
    shape = tuple(batch.action_ids.shape)
    for name, values in (("logprobs", logprobs), ("entropy", entropy)):
        if values is not None and tuple(values.shape) != shape:
            raise ValueError(f"{name}: shape {tuple(values.shape)}; expected {shape} as batch.action_ids")
    if logprobs.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"logprobs: {logprobs.dtype}; expected torch.float32 (half precision is too coarse)")
    if batch.old_logprobs is None:
        raise ValueError("batch.old_logprobs: None; the loss needs the trainer's at collection")
    if batch.ref_logprobs is None and config.kl in ("k2", "k3"):
        raise ValueError(f"batch.ref_logprobs: None; kl {config.kl!r} needs the reference policy's")
    if entropy is None and config.entropy_coef > 0:
        raise ValueError(f"entropy: None; entropy_coef {config.entropy_coef} needs it")
