"""Small tasks laid out as arrays: their truth is exact, and thousands of episodes are one call.

What `gagpo.rollout` plays turn by turn through environments is here drawn from the state graph, for
all episodes at once, and the truth about it comes from the same graph. Notation: G tasks, S states in
which a command can be given, E states that end a task, P pairs of state and command, all over all
tasks. Rows of states below S can be acted in, those from S to S + E are ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gagpo.envs.base import Env, World
from gagpo.envs.exact import (
    MAX_STATES,
    Policy,
    StateGraph,
    Values,
    enumerate_states,
    optimal,
    outcomes_of,
    probabilities,
    solve_horizon,
    uniform,
    visits,
)

PLANNER_GAMMA = 0.99  # below 1, so that the best policy does not put things off
MOST, HALVINGS = 0.9, 20  # of the share in a mixture, and how finely it is searched for


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """G tasks side by side. States and pairs of a task lie together, in the order of its graph.

    tasks           task ids
    graphs          the state graph of each task, slips included
    start           (G,)    the state that each task begins in
    pair_state      (P,)    the state of each pair
    first_pair      (S + 1,) the pairs of state s are first_pair[s] to first_pair[s + 1]
    command         (P,)    number of the command's text
    observation     (S + E,) number of the text that is shown in each state; -1 where it is not known
    won             (S + E,) bool: an end that pays, which counts as success
    outcome_chance  (P, O)  how likely each outcome is; rows are filled with 0
    outcome_state   (P, O)  the state after it
    outcome_reward  (P, O)
    """

    tasks: tuple[str, ...]
    graphs: tuple[StateGraph, ...]
    start: np.ndarray
    pair_state: np.ndarray
    first_pair: np.ndarray
    command: np.ndarray
    observation: np.ndarray
    won: np.ndarray
    outcome_chance: np.ndarray
    outcome_state: np.ndarray
    outcome_reward: np.ndarray

    @property
    def num_states(self) -> int:
        """S."""
        return len(self.first_pair) - 1

    @property
    def num_pairs(self) -> int:
        """P."""
        return len(self.pair_state)


def lay_out(world: World, tasks: Sequence[str], *, slip: float = 0.0, max_states: int = MAX_STATES) -> Board:
    """Every state of every task. `world` needs a step limit that hides none of them.

    With `slip`, a command is replaced with that chance by one drawn alike from all of its state, itself
    included: chance in a world that has none.
    """
    if not 0 <= slip <= 1:
        raise ValueError(f"slip: {slip}; expected between 0 and 1")
    if not tasks or len(set(tasks)) != len(tasks):
        raise ValueError("tasks: none, or an id occurs twice; expected different ids, at least one")
    texts: dict[str | None, int] = {None: -1}
    names: dict[tuple[int, str, bool], int] = {}  # (task, state key, it is an end)
    graphs, plays = zip(*(_explored(world.make(task), max_states) for task in tasks), strict=True)
    start, pair_state, command, shown = [], [], [], []
    for g, graph in enumerate(graphs):
        start.append(len(names))
        for state in graph.states:
            row = names.setdefault((g, state.key, False), len(names))
            shown.append(state.observation)
            pair_state += [row] * len(state.commands)
            command += [texts.setdefault(text, len(texts)) for text in state.commands]
    num_states, won = len(names), [False] * len(names)
    rows = []
    for g, (graph, play) in enumerate(zip(graphs, plays, strict=True)):
        own = []
        for outcomes in play:
            own.append([])
            for chance, key, ended, reward, text in outcomes:
                after = names.setdefault((g, key, ended), len(names))
                if after == len(won):
                    shown.append(text)
                    won.append(reward > 0)
                own[-1].append((chance, after, reward))
        rows += _slipped(own, graph.pair_state, slip) if slip else own
    first = np.searchsorted(pair_state, np.arange(num_states + 1))
    return Board(
        tasks=tuple(tasks),
        graphs=tuple(_slipping(graph, slip) for graph in graphs),
        start=np.array(start),
        pair_state=np.array(pair_state),
        first_pair=first,
        command=np.array(command),
        observation=np.array([texts.setdefault(text, len(texts)) for text in shown]),
        won=np.array(won),
        outcome_chance=_padded([[chance for chance, _, _ in row] for row in rows]),
        outcome_state=_padded([[after for _, after, _ in row] for row in rows]).astype(np.int64),
        outcome_reward=_padded([[reward for _, _, reward in row] for row in rows]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What a policy is worth on a board, by the number of steps left, up to the step limit H.

    value      (H + 1, S)  V
    advantage  (H + 1, P)  A = Q - V
    gradient   (P,)        g(s, b) = sum over t of d_t(s) pi(b | s) A_{H - t}(s, b), d_t being the chance to
                           be in s after t steps: the mean over episodes of `policy_gradient` with the
                           true A. For gamma 1 it is the gradient of the expected sum of rewards;
                           for less, states count as often as they are visited, undiscounted, as
                           the loss counts them.
    success    (G,)        how likely an episode of each task ends in success
    """

    value: np.ndarray
    advantage: np.ndarray
    gradient: np.ndarray
    success: np.ndarray


def truth_of(board: Board, chance: np.ndarray, gamma: float, horizon: int) -> Truth:
    """The truth about the policy `chance` (P,), in episodes that are cut after `horizon` steps."""
    solved, here = [], []
    for graph, policy in zip(board.graphs, policies(board, chance), strict=True):
        solved.append(solve_horizon(graph, policy, gamma, horizon))
        here.append(visits(graph, policy, horizon))
    visited = np.concatenate(here, axis=1)
    advantage = _joined(solved, "advantage")
    wins = (board.outcome_chance * board.won[board.outcome_state]).sum(1)
    success = visited.sum(0)[board.pair_state] * chance * wins
    return Truth(
        value=_joined(solved, "value"),
        advantage=advantage,
        gradient=chance * (visited[:, board.pair_state] * advantage[:0:-1]).sum(0),
        success=np.add.reduceat(success, board.first_pair[board.start]),
    )


def policies(board: Board, chance: np.ndarray) -> list[Policy]:
    """For each task the policy that `chance` (P,), the probability of each pair's command, amounts to."""
    found = []
    for graph, start in zip(board.graphs, board.start, strict=True):
        pairs = board.first_pair[start : start + len(graph.states) + 1]
        rows = {s.key: chance[a:b] for s, a, b in zip(graph.states, pairs[:-1], pairs[1:], strict=True)}
        found.append(lambda state, rows=rows: rows[state.key])
    return found


def chances(board: Board, policy: Policy) -> np.ndarray:
    """(P,) float64, what a policy of states says of each pair."""
    return np.concatenate([probabilities(s, policy) for graph in board.graphs for s in graph.states])


def mixture(board: Board, success: float | None, horizon: int) -> np.ndarray:
    """(P,) float64, a policy that succeeds in every task as often as wanted, by mixing two.

    To succeed more often than the uniform policy, its moves are mixed with a planner's; to succeed less
    often, with moves drawn alike from all but the planner's (where there are others). A task has one
    share for all of its states, such that an episode succeeds within `horizon` steps with the
    chance `success`, as near as shares up to MOST allow: every command stays possible. None gives
    the uniform policy.
    """
    if success is not None and not 0 <= success <= 1:
        raise ValueError(f"success: {success!r}; expected between 0 and 1, or None")
    alike = chances(board, uniform)
    if success is None:
        return alike
    best = [optimal(graph, PLANNER_GAMMA)[0] for graph in board.graphs]
    plan = [probabilities(s, p) for g, p in zip(board.graphs, best, strict=True) for s in g.states]
    plan = np.concatenate(plan)
    num = np.diff(board.first_pair)[board.pair_state]
    astray = np.where(num > 1, (1 - plan) / np.maximum(num - 1, 1), 1.0)
    task = np.searchsorted(board.start, board.pair_state, "right") - 1

    def mixed(share: np.ndarray) -> np.ndarray:
        part = share[task]
        return (1 - abs(part)) * alike + abs(part) * np.where(part > 0, plan, astray)

    low, high = np.full((2, len(board.tasks)), [[-MOST], [MOST]])
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = truth_of(board, mixed(middle), 1.0, horizon).success < success
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return mixed((low + high) / 2)


Play = list[list[tuple[float, str, bool, float, str | None]]]


def _explored(env: Env, max_states: int) -> tuple[StateGraph, Play]:
    """The graph, and for each pair its outcomes: (chance, state key, it is an end, reward, text)."""
    graph, play = enumerate_states(env, max_states=max_states), []
    for state in graph.states:
        for command in state.commands:
            play.append([])
            for outcome, text in outcomes_of(env, state, command):
                env.restore(outcome.snapshot)
                play[-1].append(
                    (outcome.probability, env.state_key(), outcome.terminated, outcome.reward, text)
                )
    return graph, play


def _slipping(graph: StateGraph, slip: float) -> StateGraph:
    """The graph in which commands slip."""
    same = graph.pair_state[:, None] == graph.pair_state
    mix = (1 - slip) * np.eye(len(same)) + slip * same / same.sum(1, keepdims=True)
    return replace(graph, transition=mix @ graph.transition, reward=mix @ graph.reward)


def _slipped(rows: list[list[tuple]], pair_state: np.ndarray, slip: float) -> list[list[tuple]]:
    """The same of rows of outcomes: each row's own, then those of all commands of its state."""
    found = []
    for row, state in zip(rows, pair_state, strict=True):
        others = [rows[pair] for pair in np.flatnonzero(pair_state == state)]
        slips = [(slip / len(others) * o[0], *o[1:]) for other in others for o in other]
        found.append([((1 - slip) * o[0], *o[1:]) for o in row] + slips)
    return found


def _joined(solved: Sequence[Sequence[Values]], name: str) -> np.ndarray:
    """(H + 1, all tasks' columns), from each task's values for 0 to H steps left."""
    return np.concatenate([[getattr(values, name) for values in own] for own in solved], axis=1)


def _padded(rows: Sequence[Sequence[float]]) -> np.ndarray:
    """(rows, longest) float64, filled with 0."""
    found = np.zeros((len(rows), max(map(len, rows))))
    for values, row in zip(rows, found, strict=True):
        row[: len(values)] = values
    return found
