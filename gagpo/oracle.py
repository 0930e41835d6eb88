"""The truth about recorded steps: V, Q and A of a policy, for comparison with what credit says.

`values_of_steps` is exact and needs a world whose states can be enumerated. `sampled_values_of_steps`
plays: it forks rollouts from every recorded state, in any world with snapshots, and says how sure it
is. With `t` steps taken before the step and a step limit, values are those of an episode that has
the rest of the limit left, and the value after the cut is 0 ("truncation: terminal").

Rewards are the environment's: no penalty of the configuration is in them. A policy is a function
from a `State` to a probability for each of its commands. It must be a function of the state: a model
whose prompt shows earlier steps needs a world that shows them, too (`envs.wrappers.ShownHistory`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gagpo.envs.base import Env, World
from gagpo.envs.exact import (
    MAX_STATES,
    Policy,
    State,
    StateGraph,
    Values,
    enumerate_states,
    solve,
    solve_horizon,
)
from gagpo.forks import Estimate, Fork, Sampling, estimate, fork_returns, forks_here
from gagpo.table import Step, Trajectory


@dataclass(frozen=True, slots=True, eq=False)
class TrueValues:
    """Columns over S steps, in the order of the trajectories.

    value      (S,) float64  V(s_t) under the policy
    q          (S,) float64  Q(s_t, a_t): the recorded action, then the policy
    advantage  (S,) float64  A = Q - V
    *_interval (S, 2) float64  low and high; exact values are their own
    """

    value: np.ndarray
    q: np.ndarray
    advantage: np.ndarray
    value_interval: np.ndarray
    q_interval: np.ndarray
    advantage_interval: np.ndarray


@dataclass(frozen=True, slots=True)
class StateEstimate:
    """V of one state, and Q and A of each of its commands, by rollouts."""

    value: Estimate
    q: dict[str, Estimate]
    advantage: dict[str, Estimate]


@dataclass(frozen=True, slots=True)
class Tabular:
    """The policy of a table {task id: {state key: {command: probability}}}; what is not named is 0."""

    table: Mapping[str, Mapping[str, Mapping[str, float]]]

    def __call__(self, state: State) -> Sequence[float]:
        """Raises ValueError for a state that the table lacks, or where it names other commands."""
        row = self.table.get(state.task_id, {}).get(state.key)
        if row is None or not set(row) <= set(state.commands):
            found = "nothing" if row is None else ", ".join(sorted(row))
            raise ValueError(
                f"table: {found} for state {state.key!r} of task {state.task_id!r}; "
                f"expected probabilities of {', '.join(state.commands)}"
            )
        return [row.get(command, 0.0) for command in state.commands]


def values_of_steps(
    trajectories: Sequence[Trajectory],
    world: World,
    policy: Policy,
    gamma: float,
    *,
    step_limit: int | None,
    max_states: int = MAX_STATES,
) -> TrueValues:
    """Exact V, Q and A of every recorded step, looked up by its state key.

    `step_limit` is the one that the episodes were played under; None values episodes without any.
    `world` makes the tasks of the trajectories, with a step limit that hides none of their states.
    An action that was not valid stays in the state and costs a step. Raises ValueError for a state
    or a valid action that the world does not have.
    """
    solved: dict[str, _Solved] = {}
    value, q = [], []
    for trajectory in trajectories:
        task, num = trajectory.task_id, len(trajectory.steps)
        if task not in solved:
            solved[task] = _Solved(enumerate_states(world.make(task), max_states=max_states), policy, gamma)
        if step_limit is not None and num > step_limit:
            raise ValueError(f"step_limit: {step_limit}; a trajectory of task {task!r} has {num} steps")
        for t, step in enumerate(trajectory.steps):
            own = solved[task].of_step(step, task, None if step_limit is None else step_limit - t)
            value.append(own[0])
            q.append(own[1])
    columns = np.array(value, np.float64), np.array(q, np.float64)
    columns = (*columns, columns[1] - columns[0])
    return TrueValues(*columns, *(np.stack([x, x], 1) for x in columns))


class _Solved:
    """One task's states, and their values for each number of steps left, solved when asked for."""

    def __init__(self, graph: StateGraph, policy: Policy, gamma: float) -> None:
        self.graph, self.policy, self.gamma = graph, policy, gamma
        self.row = graph.index
        self.first_pair = np.searchsorted(graph.pair_state, np.arange(len(graph.states)))
        self._values: list[Values] = []

    def values(self, left: int | None) -> Values:
        """With `left` steps to go; None: without a limit. One task is asked one of the two ways."""
        if left is None and not self._values:
            self._values = [solve(self.graph, self.policy, self.gamma)]
        elif left is not None and len(self._values) <= left:
            self._values = solve_horizon(self.graph, self.policy, self.gamma, left)
        return self._values[left or 0]

    def of_step(self, step: Step, task_id: str, left: int | None) -> tuple[float, float]:
        """(V, Q) of a recorded step with `left` steps to go, itself included."""
        row = self.row.get(step.state_key)
        if row is None:
            raise ValueError(f"state_key: {step.state_key!r} is no state of task {task_id!r}")
        values = self.values(left)
        if not step.valid:
            after = self.values(None if left is None else left - 1)
            return values.value[row], self.gamma * after.value[row]
        commands = self.graph.states[row].commands
        command = step.action if step.action in commands else step.action.strip()
        if command not in commands:
            raise ValueError(
                f"action: {step.action!r} in state {step.state_key!r} of task {task_id!r} was valid; "
                f"expected one of {', '.join(commands)}"
            )
        return values.value[row], values.q[self.first_pair[row] + commands.index(command)]


def sampled_values_of_steps(
    trajectories: Sequence[Trajectory],
    world: World,
    policy: Policy,
    gamma: float,
    sampling: Sampling | None = None,
) -> TrueValues:
    """V, Q and A of every recorded step by rollouts, with intervals as `sampling` says.

    `world` is the one that the trajectories were played in, step limit included. They are played
    again to find the snapshots; a ValueError says where a state is not the recorded one. A is
    the difference of two independent means. Equal steps at equal times share their rollouts.
    """
    sampling = sampling or Sampling()
    pairs = [pair for trajectory in trajectories for pair in _forks_of(trajectory, world)]
    returns = fork_returns([f for pair in pairs for f in pair], world, policy, gamma, sampling)
    known: dict[tuple[str, ...], Estimate] = {}

    def column(*which: int) -> tuple[np.ndarray, np.ndarray]:
        rows = []
        for pair in pairs:
            names = tuple(pair[k].name for k in which)
            if names not in known:
                known[names] = estimate([returns[n] for n in names], sampling, "".join(names))
            rows.append(known[names])
        table = np.array(rows, np.float64).reshape(-1, 3)
        return table[:, 0], table[:, 1:]

    (value, of_value), (q, of_q), (advantage, of_advantage) = column(0), column(1), column(1, 0)
    return TrueValues(value, q, advantage, of_value, of_q, of_advantage)


def sampled_values(
    env: Env,
    observation: str,
    world: World,
    policy: Policy,
    gamma: float,
    sampling: Sampling | None = None,
    *,
    num_steps: int,
) -> StateEstimate:
    """V of the state that `env` is in, and Q and A of each of its commands, by rollouts.

    `observation` was shown there, after `num_steps` steps; `world` makes the environments that are
    played, so that `env` is left as it is.
    """
    sampling = sampling or Sampling()
    own, *others = forks_here(env, observation, num_steps)
    returns = fork_returns([own, *others], world, policy, gamma, sampling)
    base = returns[own.name]
    return StateEstimate(
        value=estimate([base], sampling, own.name),
        q={f.command: estimate([returns[f.name]], sampling, f.name) for f in others},
        advantage={f.command: estimate([returns[f.name], base], sampling, f.name + own.name) for f in others},
    )


def _forks_of(trajectory: Trajectory, world: World) -> Iterator[tuple[Fork, Fork]]:
    """For each step the fork of its state and that of its action, by playing the trajectory again."""
    env = world.make(trajectory.task_id)
    env.reset(seed=trajectory.seed)
    for t, step in enumerate(trajectory.steps):
        if env.state_key() != step.state_key:
            raise ValueError(
                f"state_key: task {trajectory.task_id!r}, sibling {trajectory.sibling}, step {t}: played "
                f"again it is {env.state_key()!r}, not the recorded {step.state_key!r}"
            )
        played = step.action if step.valid else ""  # as the rollout did, or as good: it changes nothing
        place = (trajectory.task_id, step.state_key, t, step.observation)
        snapshot = env.snapshot()
        yield Fork(*place, None, snapshot), Fork(*place, played, snapshot)
        env.step(played)
