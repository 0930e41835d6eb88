"""Exact values: the whole state graph of a small world, and V, Q and A under any policy.

The states are the world's own state keys, without the number of steps taken. Two questions can
be asked of them. `solve` answers for episodes without a step limit, by one linear solve.
`solve_horizon` answers for episodes that are cut after a given number of steps, the value after
the cut being 0; values then depend on the steps left, and come by backward induction.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from gagpo.envs.base import Env

MAX_STATES = 1000


class Outcome(NamedTuple):
    """One way a command can turn out. `snapshot` is of the state after it."""

    probability: float
    snapshot: Hashable
    reward: float
    terminated: bool


class ChanceEnv(Env, Protocol):
    """A world with chance must tell it, for one play of a command shows one outcome only."""

    def outcomes(self, command: str) -> Sequence[Outcome]:
        """Every outcome of an admissible command here; the probabilities sum to 1."""

    def reseed(self, seed: int) -> None:
        """Stay in this state; whatever is drawn from here on follows from `seed`. A snapshot holds
        the draws to come, so that without this all plays from it would go the same way."""


class State(NamedTuple):
    """A state in which a command can be given: what a policy may look at.

    `restore(snapshot)` shows it to whoever asks more. `observation` is what was shown on the way
    into it, the first one in a state graph; None where that is not known (after `outcomes`).
    """

    key: str
    commands: tuple[str, ...]
    snapshot: Hashable
    observation: str | None = None
    goal: str = ""
    task_id: str = ""


Policy = Callable[[State], Sequence[float]]


@dataclass(frozen=True, slots=True, eq=False)
class StateGraph:
    """S states, the start first, in order of their distance from it; P pairs of state and command.

    states       (S,)   those reachable from the start that do not end the task
    pair_state   (P,)   int64    the state of each pair; pairs lie in the order of states, commands
    transition   (P, S) float64  probability of the next state; a row sums to 1 less that of the end
    reward       (P,)   float64  mean reward of the pair
    """

    states: tuple[State, ...]
    pair_state: np.ndarray
    transition: np.ndarray
    reward: np.ndarray

    @property
    def index(self) -> dict[str, int]:
        """{state key: row}."""
        return {state.key: row for row, state in enumerate(self.states)}

    def pair(self, key: str, command: str) -> int:
        """The row of a state key and a command. Raises KeyError or ValueError for unknown ones."""
        row = self.index[key]
        return int(np.searchsorted(self.pair_state, row)) + self.states[row].commands.index(command)


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """What a policy is worth. With s the state of pair p:

    value      V(s) = sum over p of s of pi_p Q(p)                       (S,) float64
    q          Q(p) = reward_p + gamma sum over s' of transition V(s')   (P,) float64
    advantage  A(p) = Q(p) - V(s)                                        (P,) float64
    """

    value: np.ndarray
    q: np.ndarray
    advantage: np.ndarray


def enumerate_states(env: Env, *, max_states: int = MAX_STATES) -> StateGraph:
    """The state graph from the start of `env` (which is reset), by snapshot and restore.

    Raises ValueError where there are more than `max_states` states, where the step limit of `env`
    hides some, and where equal state keys have other commands. An `env` without `outcomes` is
    taken to be without chance.
    """
    states = [state_of(env, env.reset(seed=0)[0])]
    index = {states[0].key: 0}
    pair_state: list[int] = []
    reward: list[float] = []
    entries: list[tuple[int, int, float]] = []  # (pair, next state, probability)
    for row, state in enumerate(states):  # grows while it is walked
        if not state.commands:
            raise ValueError(f"admissible: empty in state {state.key!r} of task {env.task_id!r}")
        for command in state.commands:
            pair_state.append(row)
            reward.append(0.0)
            for outcome, observation in outcomes_of(env, state, command):
                reward[-1] += outcome.probability * outcome.reward
                if outcome.terminated:
                    continue
                env.restore(outcome.snapshot)
                found = state_of(env, observation)
                after = index.setdefault(found.key, len(states))
                if after == len(states):
                    if len(states) == max_states:
                        raise ValueError(
                            f"max_states: task {env.task_id!r} has more than {max_states} states"
                        )
                    states.append(found)
                elif states[after].commands != found.commands:
                    raise ValueError(f"state_key: {found.key!r} of task {env.task_id!r} has two command sets")
                entries.append((len(reward) - 1, after, outcome.probability))
    transition = np.zeros((len(reward), len(states)))
    for pair, after, probability in entries:
        transition[pair, after] += probability
    return StateGraph(tuple(states), np.array(pair_state), transition, np.array(reward))


def state_of(env: Env, observation: str | None = None) -> State:
    """The present state of `env`, in which `observation` was shown."""
    return State(env.state_key(), env.admissible(), env.snapshot(), observation, env.goal, env.task_id)


def uniform(state: State) -> Sequence[float]:
    """The policy that draws every admissible command alike."""
    return [1 / len(state.commands)] * len(state.commands)


def solve(graph: StateGraph, policy: Policy, gamma: float) -> Values:
    """The values of `policy` for episodes that only the task ends: (1 - gamma P_pi) V = r_pi.

    Raises ValueError for gamma = 1 where the policy can play for ever: V is then not defined.
    """
    chance = _probabilities(graph, policy)
    check_gamma(gamma)
    mix = _per_state(graph, chance)
    step = mix @ graph.transition
    if gamma == 1 and not np.all(_may_end(step)):
        raise ValueError("gamma: 1, but the policy can play for ever; expected below 1, or use solve_horizon")
    value = np.linalg.solve(np.eye(len(step)) - gamma * step, mix @ graph.reward)
    return _values(graph, value, graph.reward + gamma * graph.transition @ value)


def solve_horizon(graph: StateGraph, policy: Policy, gamma: float, horizon: int) -> list[Values]:
    """The values of `policy` with 0, 1, ... `horizon` steps left; with none left all of them are 0.

    For an environment with that step limit, [horizon - t] holds the values after t steps, where
    an episode that is cut counts as ended ("truncation: terminal").
    """
    check_gamma(gamma)
    if horizon < 0:
        raise ValueError(f"horizon: {horizon}; expected 0 or more")
    mix = _per_state(graph, _probabilities(graph, policy))
    value = np.zeros(len(graph.states))
    found = [_values(graph, value, np.zeros(len(graph.reward)))]
    for _ in range(horizon):
        q = graph.reward + gamma * graph.transition @ found[-1].value
        found.append(_values(graph, mix @ q, q))
    return found


def visits(graph: StateGraph, policy: Policy, horizon: int) -> np.ndarray:
    """(horizon, S) float64: how likely `policy` is in each state after 0, 1 ... horizon - 1 steps.

    d_0 is 1 in the start, d_{t+1}(s') = sum over pairs of d_t(s) pi(c | s) transition(s' | s, c); what
    a row lacks to 1 are episodes that have ended.
    """
    step = _per_state(graph, _probabilities(graph, policy)) @ graph.transition
    found = np.zeros((horizon, len(graph.states)))
    found[:1, 0] = 1.0
    for t in range(1, horizon):
        found[t] = found[t - 1] @ step
    return found


def optimal(graph: StateGraph, gamma: float) -> tuple[Policy, Values]:
    """A best deterministic policy and its values, by policy iteration; gamma is below 1."""
    check_gamma(gamma)
    if gamma == 1:
        raise ValueError("gamma: 1; expected below 1, since a best policy must not put things off")
    starts = np.searchsorted(graph.pair_state, np.arange(len(graph.states)))
    chosen = {state.key: 0 for state in graph.states}

    def policy(state: State) -> Sequence[float]:
        return np.eye(len(state.commands))[chosen[state.key]]

    while True:
        values, changed = solve(graph, policy, gamma), False
        # Only a real gain moves the choice: what rounding makes of a tie would move it for ever.
        least = 1e-12 * max(1.0, float(np.abs(values.q).max()))
        for state, start in zip(graph.states, starts, strict=True):
            gains = values.advantage[start : start + len(state.commands)]
            if gains.max() > least:
                chosen[state.key], changed = int(gains.argmax()), True
        if not changed:
            return policy, values


def outcomes_of(env: Env, state: State, command: str) -> list[tuple[Outcome, str | None]]:
    """Every outcome of a command in `state`, with what is shown after it where that is known."""
    env.restore(state.snapshot)
    if hasattr(env, "outcomes"):
        return [(outcome, None) for outcome in env.outcomes(command)]
    try:
        observation, reward, terminated, _, _ = env.step(command)
    except ValueError as error:
        raise ValueError(
            f"max_steps: too few to visit every state of task {env.task_id!r}; expected as many "
            f"as there can be states ({error})"
        ) from error
    return [(Outcome(1.0, env.snapshot(), float(reward), terminated), observation)]


def probabilities(state: State, policy: Policy) -> np.ndarray:
    """(commands,) float64, what `policy` says in `state`. Raises ValueError where it is no distribution."""
    row = np.asarray(policy(state), np.float64)
    if row.shape != (len(state.commands),) or not (np.all(row >= 0) and abs(row.sum() - 1) < 1e-9):
        raise ValueError(
            f"policy: {row.tolist()} in state {state.key!r}; expected {len(state.commands)} "
            "probabilities with sum 1, one for each command"
        )
    return row


def _probabilities(graph: StateGraph, policy: Policy) -> np.ndarray:
    """(P,) float64, the probability of each pair's command in its state."""
    return np.concatenate([probabilities(state, policy) for state in graph.states])


def _per_state(graph: StateGraph, chance: np.ndarray) -> np.ndarray:
    """(S, P): sums over the pairs of each state, weighed by `chance`."""
    mix = np.zeros((len(graph.states), len(chance)))
    mix[graph.pair_state, np.arange(len(chance))] = chance
    return mix


def _values(graph: StateGraph, value: np.ndarray, q: np.ndarray) -> Values:
    return Values(value, q, q - value[graph.pair_state])


def _may_end(step: np.ndarray) -> np.ndarray:
    """(S,) bool: from this state the end is reached with a probability above 0."""
    ends = step.sum(1) < 1 - 1e-9
    for _ in range(len(step)):
        ends |= (step > 0) @ ends
    return ends


def check_gamma(gamma: float) -> None:
    """Refuse a discount that is none."""
    if not 0 <= gamma <= 1:
        raise ValueError(f"gamma: {gamma}; expected between 0 and 1")
