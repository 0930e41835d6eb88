"""The truth about a small world: all its states, and the exact values of a policy in them.

A world without chance is enumerated through `snapshot` and `restore`. Values are exact in float64
under the rule that training has too: an episode that is cut at the step limit is worth nothing
from there on. So they depend on the steps that are left, and are computed backwards from none.
Without a limit they solve a linear system.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gagpo.envs.base import Env

MAX_STATES = 100_000


@dataclass(frozen=True, slots=True)
class StateGraph:
    """Every state that an episode can reach. State 0 is the start; actions are in one flat column.

    keys        N state keys
    offsets     (N + 1,) int64: the actions of state s are offsets[s] to offsets[s + 1]; a state
                where episodes end has none
    commands    P commands, sorted within a state
    next_state  (P,) int64
    reward      (P,) float64
    terminated  (P,) bool
    """

    keys: tuple[str, ...]
    offsets: np.ndarray
    commands: tuple[str, ...]
    next_state: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray

    @property
    def num_states(self) -> int:
        return len(self.keys)

    @property
    def state(self) -> np.ndarray:
        """(P,) int64, the state that each action is taken in."""
        return np.repeat(np.arange(self.num_states), np.diff(self.offsets))


@dataclass(frozen=True, slots=True)
class Values:
    """Of a policy: state values V (N,), action values Q (P,) and advantages A = Q - V (P,), float64."""

    value: np.ndarray
    action_value: np.ndarray
    advantage: np.ndarray


def enumerate_states(env: Env, max_states: int = MAX_STATES) -> StateGraph:
    """Walk through everything that can happen before the step limit, breadth first.

    The environment must have no chance in it and keep the contract (`gagpo.envs.check`). Raises
    ValueError beyond `max_states` states.
    """
    env.reset(seed=0)
    index = {env.state_key(): 0}
    snapshots, alive = [env.snapshot()], [True]
    commands, offsets = [], [0]
    edges: list[tuple[int, float, bool]] = []
    for number, snapshot in enumerate(snapshots):  # grows while it is walked
        env.restore(snapshot)
        for command in env.admissible() if alive[number] else ():
            env.restore(snapshot)
            _, reward, terminated, truncated, _ = env.step(command)
            key = env.state_key()
            if key not in index:
                if len(index) >= max_states:
                    raise ValueError(f"states: more than {max_states} in {env.task_id!r}; raise max_states")
                index[key] = len(index)
                snapshots.append(env.snapshot())
                # Breadth first: who comes here at the limit cannot come here before it.
                alive.append(not (terminated or truncated))
            commands.append(command)
            edges.append((index[key], float(reward), bool(terminated)))
        offsets.append(len(edges))
    next_state, reward, terminated = (np.array(column) for column in zip(*edges, strict=True))
    return StateGraph(tuple(index), np.array(offsets), tuple(commands), next_state, reward, terminated)


def uniform(graph: StateGraph) -> np.ndarray:
    """(P,) float64, the policy that takes every command of a state equally often."""
    return 1.0 / np.diff(graph.offsets)[graph.state]


def policy_of(graph: StateGraph, choose: Callable[[str, tuple[str, ...]], np.ndarray]) -> np.ndarray:
    """(P,) float64, the policy `choose(state key, commands)`, which gives a probability to each command."""
    parts = []
    for s, (start, end) in enumerate(zip(graph.offsets[:-1], graph.offsets[1:], strict=True)):
        if start < end:
            parts.append(np.asarray(choose(graph.keys[s], graph.commands[start:end]), float))
            if parts[-1].shape != (end - start,) or abs(parts[-1].sum() - 1) > 1e-6 or parts[-1].min() < 0:
                raise ValueError(
                    f"policy: {parts[-1]!r} in state {graph.keys[s]!r}; expected {end - start} probabilities"
                )
    return np.concatenate(parts)


def evaluate(graph: StateGraph, policy: np.ndarray, gamma: float) -> Values:
    """Values without a step limit: V = r + gamma P V, solved (densely: for some thousands of states).

    policy (P,) probabilities, summing to 1 in each state; 0 <= gamma < 1.
    """
    if not 0 <= gamma < 1:
        raise ValueError(f"gamma: {gamma}; expected at least 0 and less than 1 where no step limit ends it")
    _check_policy(graph, policy)
    num = graph.num_states
    goes_on = policy * ~graph.terminated
    system = np.eye(num)
    np.subtract.at(system, (graph.state, graph.next_state), gamma * goes_on)
    reward = np.bincount(graph.state, policy * graph.reward, num)
    return _values(graph, np.linalg.solve(system, reward), gamma)


def evaluate_until(graph: StateGraph, policy: np.ndarray, gamma: float, num_steps: int) -> list[Values]:
    """Values with 1, 2, ... `num_steps` steps left before the episode is cut; element k has k + 1 left.

    policy (P,) probabilities; 0 <= gamma <= 1. In a reset environment element max_steps - 1 holds.
    """
    _check_policy(graph, policy)
    every, value = [], np.zeros(graph.num_states)
    for _ in range(num_steps):
        action_value = _action_value(graph, value, gamma)
        value = np.bincount(graph.state, policy * action_value, graph.num_states)
        every.append(Values(value, action_value, action_value - value[graph.state]))
    return every


def optimal(graph: StateGraph, gamma: float, num_steps: int) -> np.ndarray:
    """(N,) float64, the best value that `num_steps` steps can reach from each state."""
    value = np.zeros(graph.num_states)
    acting = np.unique(graph.state)
    for _ in range(num_steps):
        best = np.full(graph.num_states, -np.inf)
        np.maximum.at(best, graph.state, _action_value(graph, value, gamma))
        value[acting] = best[acting]
    return value


def _values(graph: StateGraph, value: np.ndarray, gamma: float) -> Values:
    action_value = _action_value(graph, value, gamma)
    return Values(value, action_value, action_value - value[graph.state])


def _action_value(graph: StateGraph, value: np.ndarray, gamma: float) -> np.ndarray:
    return graph.reward + gamma * np.where(graph.terminated, 0.0, value[graph.next_state])


def _check_policy(graph: StateGraph, policy: np.ndarray) -> None:
    if policy.shape != graph.reward.shape:
        raise ValueError(f"policy: {policy.shape}; expected {graph.reward.shape}, one for each action")
    total = np.bincount(graph.state, policy, graph.num_states)[np.unique(graph.state)]
    if policy.min() < 0 or np.abs(total - 1).max() > 1e-6:
        raise ValueError("policy: not a probability in each state")
