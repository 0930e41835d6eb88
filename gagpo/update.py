"""One iteration's optimiser passes: from rows with advantages to changed weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from gagpo.batch import Batch, Row, collate, micro_batches, minibatches
from gagpo.config import Config, OptimConfig
from gagpo.loss import LossStats, sequence_ppo_loss
from gagpo.policy import Policy
from gagpo.weights import action_weights

# Largest |ratio - 1| of a token at the first update of an iteration: rounding, which grows with the
# size of the logits. Half precision has three digits.
RATIO_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 5e-2}
MAX_SKIPPED_UPDATES = 3


class Learner:
    """Named parameters with an AdamW of their own, and how many updates it has made.

    `name` is what a failure is told of. Gradients are clipped to the settings' `max_grad_norm`.
    """

    def __init__(
        self, name: str, parameters: list[tuple[str, torch.nn.Parameter]], optim: OptimConfig
    ) -> None:
        self.name, self.parameters = name, parameters
        self.max_grad_norm = optim.max_grad_norm
        self.optimizer = torch.optim.AdamW(
            [p for _, p in parameters], lr=optim.learning_rate, weight_decay=optim.weight_decay
        )
        self.num_updates = 0
        self.skipped_in_a_row = 0

    def counters(self) -> dict[str, int]:
        """What a checkpoint keeps besides weights and optimiser; `set_counters` takes it back."""
        return {"num_updates": self.num_updates, "skipped_in_a_row": self.skipped_in_a_row}

    def set_counters(self, num_updates: int, skipped_in_a_row: int) -> None:
        self.num_updates, self.skipped_in_a_row = num_updates, skipped_in_a_row

    def set_rate(self, rate: float) -> None:
        """The learning rate of the updates to come."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def clip(self) -> float:
        """Clip the gradients; returns their norm before."""
        return float(torch.nn.utils.clip_grad_norm_([p for _, p in self.parameters], self.max_grad_norm))

    def step(self, norm: float) -> None:
        """An update, which is skipped where the gradient's `norm` is not finite; a
        FloatingPointError ends the run after three in a row."""
        if math.isfinite(norm):
            self.optimizer.step()
            self.num_updates += 1
            self.skipped_in_a_row = 0
            return
        self.skipped_in_a_row += 1
        if self.skipped_in_a_row >= MAX_SKIPPED_UPDATES:
            raise FloatingPointError(
                f"{self.name}: {self.skipped_in_a_row} updates in a row had a gradient that is not "
                "finite; the steps they came from are in the newest file under steps/"
            )


class Updater(Learner):
    """The optimiser of a policy."""

    def __init__(self, policy: Policy, config: Config) -> None:
        super().__init__("policy", policy.trainable(), config.optim)
        self.policy, self.config = policy, config

    def update(
        self, rows: Sequence[Row], trajectory: np.ndarray, iteration: int, rng: np.random.Generator
    ) -> dict[str, float]:
        """The optimiser's passes over the rows of an iteration; returns their metrics.

        `trajectory` (S,) numbers the trajectory of each row. Without rows nothing is updated.
        """
        optim = self.config.optim
        rate = learning_rate(optim, iteration, self.config.run.iterations)
        self.set_rate(rate)
        stats, norms = LossStats(), []
        for _ in range(optim.num_epochs if rows else 0):
            for indices in minibatches(len(rows), optim.num_minibatches, rng):
                chosen = self._contributing(rows, indices, trajectory)
                if not chosen:
                    continue
                part, norm = self._backward(chosen, on_policy=not norms)
                stats = stats.merge(part)
                norms.append(norm)
                self.step(norm)
        finite = [norm for norm in norms if math.isfinite(norm)]
        return {
            **stats.means(),
            "gradient_norm": float(np.mean(finite)) if finite else 0.0,
            "learning_rate": rate,
            "num_trained": float(stats.num_actions),
            "num_updates": float(len(finite)),
            "skipped_updates": float(len(norms) - len(finite)),
        }

    def _contributing(self, rows: Sequence[Row], indices: np.ndarray, trajectory: np.ndarray) -> list[Row]:
        """The rows of an optimiser batch, weighed, that can have a gradient.

        Without KL and entropy terms those are the ones with an advantage. The weights count the
        others too, so leaving them out changes nothing but the time.
        """
        loss = self.config.loss
        chosen = [rows[i] for i in indices]
        num_tokens = np.array([len(row.action_ids) for row in chosen])
        weights = action_weights(loss.loss_mean, num_tokens, trajectory[indices])
        chosen = [replace(row, weight=float(w)) for row, w in zip(chosen, weights, strict=True)]
        if loss.entropy_coef > 0 or loss.kl in ("k2", "k3"):
            return chosen
        return [row for row in chosen if row.advantage != 0]

    def _backward(self, rows: Sequence[Row], on_policy: bool) -> tuple[LossStats, float]:
        """Gradients of one optimiser batch, clipped; returns statistics and the norm before."""
        self.optimizer.zero_grad(set_to_none=True)
        stats = LossStats()
        for number, indices in enumerate(micro_batches(rows, self.config.optim.micro_batch_tokens)):
            batch = collate([rows[i] for i in indices], self.policy.pad_id, self.policy.device)
            logprobs, entropy = self.policy.logprobs(batch)
            if on_policy and number == 0:
                check_ratio_is_one(logprobs, batch, next(self.policy.model.parameters()).dtype)
            loss, part = sequence_ppo_loss(logprobs, batch, self.config.loss, entropy)
            loss.backward()
            stats = stats.merge(part)
        return stats, self.clip()


def learning_rate(optim: OptimConfig, iteration: int, last: int) -> float:
    """The rate of iteration 1 ... last: up over `lr_warmup` iterations, then as the schedule says.

    "linear" and "cosine" fall to 0 just after the last iteration.
    """
    rate = optim.learning_rate * min(1.0, iteration / (optim.lr_warmup + 1))
    passed = max(0, iteration - 1 - optim.lr_warmup) / max(1, last - optim.lr_warmup)
    if optim.lr_schedule == "linear":
        return rate * (1 - passed)
    if optim.lr_schedule == "cosine":
        return rate * (1 + math.cos(math.pi * passed)) / 2
    return rate


def check_ratio_is_one(logprobs: torch.Tensor, batch: Batch, dtype: torch.dtype) -> None:
    """The canary: before the first update, logprobs (B, A) and old_logprobs have equal weights.

    It looks at single tokens, since an action's ratio would hide two that were exchanged. A larger
    gap means that mask, position, template or temperature differ between the two passes, and then
    every importance ratio of the run is wrong. Raises a RuntimeError.
    """
    log_ratio = torch.where(batch.action_mask, logprobs.detach() - batch.old_logprobs, 0.0)
    gap = float(log_ratio.exp().sub(1).abs().max())
    if not gap <= RATIO_TOLERANCE[dtype]:
        raise RuntimeError(
            "the importance ratio is not 1 at an iteration's first update: a token's is off by "
            f"{gap:.2g}; expected at most {RATIO_TOLERANCE[dtype]:.0e}"
        )
