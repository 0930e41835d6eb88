"""The critic of PPO: a model of its own that predicts, before an action, what is still to come.

It reads the prompt of a step, without the action, and says V(s) at the prompt's last token. PPO's
code also clips how far a value may move in one iteration. We do not: the clip guards values that
share their trunk with the policy, and these share nothing.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gagpo.batch import length_groups, minibatches, pad
from gagpo.config import Config
from gagpo.credit.gae import lambda_returns
from gagpo.policy import Policy
from gagpo.stats import explained_variance
from gagpo.table import Credit, Outcome, StepTable, Trajectory
from gagpo.update import Learner, learning_rate

Prompts = Sequence[tuple[int, ...]]


class Critic(Learner):
    """A copy of the policy's trunk as it stands, with a linear head that begins as 0.

    Nothing is shared with the policy: what one learns does not move the other. With LoRA the
    copies of the adapters and the head learn, else everything does. Inside, values are in units of
    `scale` = max(success_reward, 1), so that head and gradients have the same size whatever a
    success is worth; outside, they are in units of the reward.
    """

    def __init__(self, policy: Policy, config: Config) -> None:
        self.config = config
        self.pad_id, self.device = policy.pad_id, policy.device
        self.scale = max(config.world.success_reward, 1.0)
        self.trunk = copy.deepcopy(policy.base.base_model)
        width = policy.base.get_output_embeddings().weight.shape[1]
        self.weight = torch.nn.Parameter(torch.zeros(width, device=self.device))
        self.bias = torch.nn.Parameter(torch.zeros((), device=self.device))
        trained = [(f"trunk.{name}", p) for name, p in self.trunk.named_parameters() if p.requires_grad]
        super().__init__(
            "critic", [*trained, ("head.weight", self.weight), ("head.bias", self.bias)], config.optim
        )

    def predict(self, prompts: Prompts) -> Tensor:
        """(B,) float32 in units of `scale`, with gradient: V of the state that each prompt shows."""
        ids, real = pad(prompts, self.pad_id)
        hidden = self.trunk(
            input_ids=torch.from_numpy(ids).to(self.device),
            attention_mask=torch.from_numpy(real.astype(np.int64)).to(self.device),
            use_cache=False,
        ).last_hidden_state
        rows, last = torch.arange(len(ids)), torch.from_numpy(real.sum(1) - 1)
        return hidden[rows, last].float() @ self.weight + self.bias

    @torch.no_grad()
    def values(self, prompts: Prompts) -> np.ndarray:
        """(N,) float64, V of the state that each prompt shows. FloatingPointError where one is not finite."""
        found = np.zeros(len(prompts))
        for indices in self._groups(prompts):
            found[indices] = self.predict([prompts[i] for i in indices]).cpu().numpy()
        found *= self.scale
        for i in np.flatnonzero(~np.isfinite(found)):
            raise FloatingPointError(f"critic: the value of prompt {i} of {len(found)} is {found[i]}")
        return found

    def valued(self, table: StepTable, trajectories: Sequence[Trajectory]) -> StepTable:
        """The table of `trajectories` with `critic_value` and, where truncation is to "bootstrap",
        `critic_final`: V of the final prompt where a limit cut the trajectory, else 0."""
        table = replace(table, critic_value=self.values(_prompts(trajectories)))
        if self.config.credit.truncation == "terminal":
            return table
        cut = [i for i, t in enumerate(trajectories) if t.outcome is Outcome.TRUNCATED]
        for trajectory in (trajectories[i] for i in cut):
            if not trajectory.final_prompt_ids:
                raise ValueError(
                    f"Trajectory.final_prompt_ids of task {trajectory.task_id!r}: empty; expected the "
                    "prompt after the cut (truncation 'bootstrap')"
                )
        final = np.zeros(len(trajectories))
        final[cut] = self.values([trajectories[i].final_prompt_ids for i in cut])
        return replace(table, critic_final=final)

    def learn(
        self,
        table: StepTable,
        credit: Credit,
        trajectories: Sequence[Trajectory],
        iteration: int,
        rng: np.random.Generator,
    ) -> dict[str, float]:
        """Passes over the iteration's steps towards their lambda-returns; returns the metrics.

        explained_variance  of the lambda-returns by the values that credit was assigned with
        and those of `update`
        """
        targets = lambda_returns(table, credit, self.config.credit)
        explained = explained_variance(targets, credit.value)
        return {
            "explained_variance": explained,
            **self.update(_prompts(trajectories), targets, iteration, rng),
        }

    def update(
        self, prompts: Prompts, targets: np.ndarray, iteration: int, rng: np.random.Generator
    ) -> dict[str, float]:
        """Move V of each of the S prompts towards its target (S,), in units of the reward.

        The loss is the mean over steps of ((V - target) / scale)^2; every step counts the same.

        value_loss             that mean over all passes, each step as it was before its update
        critic_gradient_norm   before clipping, the mean over the updates whose norm was finite
        critic_learning_rate   critic_learning_rate on the policy's schedule
        """
        settings, optim = self.config.critic, self.config.optim
        optim = replace(optim, learning_rate=settings.critic_learning_rate)
        rate = learning_rate(optim, iteration, self.config.run.iterations)
        self.set_rate(rate)
        losses, norms = 0.0, []
        for _ in range(settings.critic_epochs):
            for indices in minibatches(len(prompts), settings.critic_minibatches, rng):
                losses += len(indices) * self.backward([prompts[i] for i in indices], targets[indices])
                norms.append(self.clip())
                self.step(norms[-1])
        finite = [norm for norm in norms if math.isfinite(norm)]
        return {
            "value_loss": losses / (settings.critic_epochs * len(prompts)),
            "critic_gradient_norm": float(np.mean(finite)) if finite else 0.0,
            "critic_learning_rate": rate,
        }

    def backward(self, prompts: Prompts, targets: np.ndarray) -> float:
        """Gradients of one optimiser batch's loss, which is returned."""
        self.optimizer.zero_grad(set_to_none=True)
        wanted = torch.as_tensor(targets / self.scale, dtype=torch.float32, device=self.device)
        total = 0.0
        for indices in self._groups(prompts):
            error = self.predict([prompts[i] for i in indices]) - wanted[torch.from_numpy(indices)]
            loss = error.square().sum() / len(prompts)
            loss.backward()
            total += loss.item()
        return total

    def _groups(self, prompts: Prompts) -> list[np.ndarray]:
        """Indices of the prompts for forward passes of at most `micro_batch_tokens`."""
        return length_groups([len(ids) for ids in prompts], self.config.optim.micro_batch_tokens)


def _prompts(trajectories: Sequence[Trajectory]) -> list[tuple[int, ...]]:
    """What was shown before each step."""
    return [step.prompt_ids for trajectory in trajectories for step in trajectory.steps]
