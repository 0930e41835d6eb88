"""Episodes drawn on a board, all at once, and the tables that estimators read of them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from gagpo.board import Board
from gagpo.table import StepTable

KEYS = ("exact", "observation", "history", "timed")


@dataclass(frozen=True, slots=True, eq=False)
class Walks:
    """N episodes of S steps, in the order of episodes, then of time. States and pairs are the board's.

    offsets    (N + 1,)  episode i owns rows offsets[i] to offsets[i + 1]
    task       (N,)      number of its task
    truncated  (N,) bool the step limit ended it
    success    (N,) bool it ended in a state that pays
    final      (N,)      the state after its last step
    state      (S,)      the state before the step
    pair       (S,)      that state and the command given
    time       (S,)      steps taken before
    reward     (S,) float64
    """

    offsets: np.ndarray
    task: np.ndarray
    truncated: np.ndarray
    success: np.ndarray
    final: np.ndarray
    state: np.ndarray
    pair: np.ndarray
    time: np.ndarray
    reward: np.ndarray

    def part(self, start: int, stop: int) -> Walks:
        """The episodes from number `start` to `stop`."""
        first, last = self.offsets[start], self.offsets[stop]
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        by_step = ("state", "pair", "time", "reward")
        parts = {n: c[first:last] if n in by_step else c[start:stop] for n, c in columns.items()}
        return Walks(**parts | {"offsets": self.offsets[start : stop + 1] - first})


def draw_walks(
    board: Board,
    chance: np.ndarray,
    task: np.ndarray,
    horizon: int,
    rng: np.random.Generator,
    *,
    reward_noise: float = 0.0,
) -> Walks:
    """One episode for each entry of `task` (N,), under the policy `chance` (P,), cut after `horizon` steps.

    `reward_noise` is the deviation of normal noise on every reward, in units of reward. Its mean is 0, so
    the truth stays what it is.
    """
    widest = int(np.diff(board.first_pair).max())
    place = np.arange(board.num_pairs) - board.first_pair[board.pair_state]
    commands = np.zeros((board.num_states, widest))
    commands[board.pair_state, place] = chance
    commands, outcomes = _thresholds(commands), _thresholds(board.outcome_chance)
    episode, state = np.arange(len(task)), board.start[task]
    final, columns = state.copy(), []
    for time in range(horizon):
        pair = board.first_pair[state] + _drawn(commands[state], rng)
        outcome = _drawn(outcomes[pair], rng)
        reward = board.outcome_reward[pair, outcome]
        columns.append((episode, state, pair, np.full(len(pair), time), reward))
        after = board.outcome_state[pair, outcome]
        final[episode] = after
        goes_on = after < board.num_states
        episode, state = episode[goes_on], after[goes_on]
        if len(state) == 0:
            break
    episode, state, pair, times, reward = (np.concatenate(c) for c in zip(*columns, strict=True))
    order = np.argsort(episode, kind="stable")  # within an episode, rows came in order of time
    reward = reward[order]
    if reward_noise:
        reward = reward + rng.normal(0.0, reward_noise, len(reward))
    return Walks(
        offsets=np.concatenate([[0], np.cumsum(np.bincount(episode, minlength=len(task)))]),
        task=task,
        truncated=final < board.num_states,
        success=board.won[final],
        final=final,
        state=state[order],
        pair=pair[order],
        time=times[order],
        reward=reward,
    )


def name_states(
    board: Board,
    walks: Walks,
    key: str = "exact",
    *,
    history: int = 2,
    unique_share: float = 0.0,
    rng: np.random.Generator | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(S,) and (N,) int64: numbers of the state before each step and after each episode; equal means same.

    key "exact" is the board's state; "observation" the text that is shown there; "history" that text
    after those and the commands of the last `history` steps, as `gagpo.state_keys.history_keys`;
    "timed" the state and the steps taken before it. With `unique_share`, each step's state is by that
    chance one of its own, as if a counter that means nothing stood in it; `rng` draws them.
    """
    if key not in KEYS:
        raise ValueError(f"key: {key!r}; expected one of {', '.join(KEYS)}")
    here, lengths = np.concatenate([walks.state, walks.final]), np.diff(walks.offsets)
    after = np.concatenate([walks.time, lengths])
    if key == "exact":
        names = here
    elif key == "timed":
        names = here * (int(after.max()) + 1) + after
    else:
        names = board.observation[here]
        if (names < 0).any():
            raise ValueError(f"key: {key!r}, but the world does not tell what is shown after a command")
    if key == "history":
        names = _with_history(names, board.command[walks.pair], walks.offsets, history)
    steps, finals = np.split(names, [len(walks.state)])
    if unique_share:
        if rng is None:
            raise ValueError("rng: None; expected a generator to draw the unique share with")
        alone = rng.random(len(steps)) < unique_share
        steps = np.where(alone, int(names.max()) + 1 + np.arange(len(steps)), steps)
    return steps, finals


def table_of(walks: Walks, steps: np.ndarray, finals: np.ndarray) -> StepTable:
    """The table of these episodes, with states as `name_states` numbers them; a group is a task."""
    return StepTable(
        offsets=walks.offsets,
        group=walks.task,
        truncated=walks.truncated,
        success=walks.success,
        reward=walks.reward,
        state=steps,
        final_state=finals,
        valid=np.ones(len(walks.state), bool),
    )


def _with_history(seen: np.ndarray, command: np.ndarray, offsets: np.ndarray, num_steps: int) -> np.ndarray:
    """(S + N,): numbers of (what is seen, and for the steps before: what was seen and done)."""
    num, lengths = len(command), np.diff(offsets)
    before = np.arange(-1, num + len(lengths) - 1)
    before[offsets[:-1]] = -1  # a first step has none before it
    before[num:] = offsets[1:] - 1
    back, names = np.arange(len(seen)), np.unique(seen, return_inverse=True)[1]
    for _ in range(num_steps):
        back = np.where(back < 0, -1, before[back])
        past = np.where(back < 0, 0, 1 + seen[back] * (command.max() + 1) + command[back])
        names = np.unique(names * (past.max() + 1) + past, return_inverse=True)[1]
    return names


def _thresholds(chance: np.ndarray) -> np.ndarray:
    """Cumulated chances of each row, infinite from its last possible place on: none beyond is drawn."""
    reached = np.cumsum(chance, 1)
    last = chance.shape[1] - 1 - np.argmax(chance[:, ::-1] > 0, 1)
    return np.where(np.arange(chance.shape[1]) >= last[:, None], np.inf, reached)


def _drawn(thresholds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One place of each row, by its chances."""
    return (rng.random(len(thresholds))[:, None] >= thresholds).sum(1)
