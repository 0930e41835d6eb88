"""The warm start: behaviour cloning on demonstrations, so that reinforcement finds something.

A demonstration is an episode in which the planner makes a share of the moves and chance the
others. All moves are cloned, the random ones too: the result explores, and is not yet good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from gagpo.batch import Row, collate, micro_batches
from gagpo.config import Config
from gagpo.envs.base import World
from gagpo.policy import Policy
from gagpo.rollout import Action, Turn, collect
from gagpo.table import Trajectory
from gagpo.weights import action_weights


class Demonstrator:
    """Plays the planner's move with probability `expert_share`, else a random admissible one.

    Implements `gagpo.rollout.Actor` with the policy's own tokens.
    """

    def __init__(self, policy: Policy, expert_share: float) -> None:
        self.policy, self.expert_share = policy, expert_share

    def encode(self, prompts: Sequence[str]) -> list[tuple[int, ...]]:
        """The prompts as the policy would see them."""
        return self.policy.encode(prompts)

    def act(self, turns: Sequence[Turn], temperature: float, seed: Sequence[int]) -> list[Action]:
        """A planner's or a random move for each turn; temperature has no part in it."""
        if self.policy.masked:
            self.policy.tries(turns)  # refuses what the policy could not learn from
        rng = np.random.default_rng(tuple(seed))
        return [self._move(turn, rng) for turn in turns]

    def _move(self, turn: Turn, rng: np.random.Generator) -> Action:
        expert = turn.env.expert() if rng.random() < self.expert_share else None
        command = expert or turn.admissible[rng.integers(len(turn.admissible))]
        ids = self.policy.command_ids(turn.goal, command)
        return Action(command, ids, (0.0,) * len(ids), cut_off=False)


def demonstrations(
    world: World,
    policy: Policy,
    config: Config,
    seed: Sequence[int],
    failures: dict[str, Exception] | None = None,
) -> list[Trajectory]:
    """`warm_episodes` demonstrations, each of another training task (`failures` as in `collect`)."""
    tasks = world.tasks("train", config.warm.warm_episodes, np.random.default_rng(tuple(seed)))
    actor = Demonstrator(policy, config.warm.expert_share)
    how = {"num_siblings": 1, "temperature": 1.0, "seed": seed, "failures": failures}
    return collect(world, actor, tasks, config.rollout, **how)


def clone(
    policy: Policy, rows: Sequence[Row], config: Config, seed: Sequence[int]
) -> Iterator[dict[str, float]]:
    """Maximise the likelihood of the rows' actions; yields the metrics of every update.

    clone_loss   mean negative logprob of an action token, in nats
    gradient_norm  before clipping
    """
    rng = np.random.default_rng(tuple(seed))
    parameters = [p for _, p in policy.trainable()]
    optimizer = torch.optim.AdamW(parameters, lr=config.warm.warm_learning_rate)
    for _ in range(config.warm.warm_updates):
        drawn = [rows[i] for i in rng.integers(len(rows), size=config.warm.warm_batch)]
        num_tokens = np.array([len(row.action_ids) for row in drawn])
        weights = action_weights("token", num_tokens, np.zeros_like(num_tokens)) / num_tokens
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for indices in micro_batches(drawn, config.optim.micro_batch_tokens):
            batch = collate([drawn[i] for i in indices], policy.pad_id, policy.device)
            logprobs, _ = policy.logprobs(batch, temperature=1.0)
            weight = torch.as_tensor(weights[indices], dtype=torch.float32, device=policy.device)
            loss = -(weight[:, None] * logprobs).sum()
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(parameters, config.optim.max_grad_norm)
        optimizer.step()
        yield {"clone_loss": total, "gradient_norm": float(norm)}
