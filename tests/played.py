"""Trajectories of small worlds for tests, played by a policy, with invalid actions now and then."""

from __future__ import annotations

import numpy as np

from gagpo.envs.exact import Policy, enumerate_states, optimal, probabilities, state_of
from gagpo.oracle import Tabular
from gagpo.table import Outcome, Step, Trajectory


def play(world, task_id: str, sibling: int, policy: Policy, invalid_share: float = 0.0) -> Trajectory:
    """One episode, recorded as a rollout records it."""
    rng = np.random.default_rng([sibling, len(task_id)])
    env = world.make(task_id)
    observation, info = env.reset(seed=sibling)
    steps: list[Step] = []
    terminated = truncated = False
    while not (terminated or truncated):
        state = state_of(env, observation)
        action = state.commands[rng.choice(len(state.commands), p=probabilities(state, policy))]
        action = "dance" if rng.random() < invalid_share else action
        observation, reward, terminated, truncated, info = env.step(action)
        seen = (state.observation, state.key, state.commands, action, (1,), (2,), (-0.5,))
        steps.append(Step(*seen, reward, info["valid"]))
    outcome = Outcome.TERMINATED if terminated else Outcome.TRUNCATED
    place = (env.goal, observation, env.state_key())
    return Trajectory(task_id, sibling, sibling, tuple(steps), outcome, info["won"], *place)


def half_good(world, tasks, share: float = 0.5) -> Tabular:
    """The best command with probability `share`, else any."""
    table = {}
    for task in tasks:
        graph = enumerate_states(world.make(task))
        best, _ = optimal(graph, 0.9)
        table[task] = {
            state.key: {
                command: share * chosen + (1 - share) / len(state.commands)
                for command, chosen in zip(state.commands, best(state), strict=True)
            }
            for state in graph.states
        }
    return Tabular(table)
