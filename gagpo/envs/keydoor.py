"""A small world whose truth can be computed: fetch a key, unlock a door, reach the treasure.

Two rooms of ROWS x 2 cells share a wall with one locked door in it. The text says where the agent
is and what lies or stands there, but neither whether it holds the key nor what it passed: texts
that are equal can be of states that are not, as in greater worlds. A task has some dozens of
states, so `gagpo.envs.exact` enumerates them all.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from gagpo.config import WorldConfig
from gagpo.envs.base import SPLITS

ROWS, COLUMNS = 3, 4
WALL = 1  # it stands east of this column
MOVES = {"go north": (-1, 0), "go south": (1, 0), "go east": (0, 1), "go west": (0, -1)}
ALWAYS = ("look",)
GOAL = "fetch the key, unlock the door and reach the treasure."
NOTHING_HAPPENS = "Nothing happens."
TEXTS = (
    *("You are in row , column .", "There is a key.", "The treasure is here!"),
    *("A door leads east.", "A door leads west.", "It is locked.", "You take the key."),
    *("You unlock the door.", NOTHING_HAPPENS, GOAL, "take key unlock door", *MOVES, *ALWAYS),
)
UNSEEN_SHARE = 5  # one layout in five is unseen

Cell = tuple[int, int]


class Layout(NamedTuple):
    """What does not change: (row, column) of start, key and treasure, and the door's row."""

    start: Cell
    key: Cell
    treasure: Cell
    door_row: int


class State(NamedTuple):
    cell: Cell
    has_key: bool
    unlocked: bool


class KeyDoor:
    """One task. Reaching the treasure pays `success_reward`; the `max_steps`-th step truncates."""

    goal = GOAL

    def __init__(self, layout: Layout, task_id: str, *, max_steps: int, success_reward: float) -> None:
        self.layout, self.task_id = layout, task_id
        self.max_steps, self.success_reward = max_steps, success_reward
        self._state, self._num_steps = State(layout.start, False, False), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict]:
        """Start over; there is no chance in this world."""
        self.restore((State(self.layout.start, False, False), 0))
        return self._text(), {"won": False}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        """Returns (observation, reward, terminated, truncated, info). ValueError after the end."""
        if self._won() or self._num_steps >= self.max_steps:
            raise ValueError(f"step: the trajectory of {self.task_id!r} has ended; reset or restore first")
        self._num_steps += 1
        after = self._outcomes().get(action)
        text = NOTHING_HAPPENS
        if after is not None:
            text = {"take key": "You take the key. ", "unlock door": "You unlock the door. "}.get(action, "")
            self._state = after
            text += self._text()
        won = self._won()
        truncated = not won and self._num_steps >= self.max_steps
        info = {"won": won, "valid": after is not None}
        return text, self.success_reward if won else 0.0, won, truncated, info

    def state_key(self) -> str:
        """The cell, what is held and the door, in plain text."""
        (row, column), has_key, unlocked = self._state
        return f"{row},{column},{int(has_key)},{int(unlocked)}"

    def admissible(self) -> tuple[str, ...]:
        """The commands that are possible here, sorted."""
        return tuple(sorted(self._outcomes()))

    def snapshot(self) -> tuple[State, int]:
        """The state and the number of steps taken."""
        return self._state, self._num_steps

    def restore(self, snapshot: tuple[State, int]) -> None:
        """Go back to a snapshot of this task."""
        self._state, self._num_steps = snapshot

    def expert(self) -> str | None:
        """The first command of a shortest plan; None at the treasure."""
        queue, seen = deque([(self._state, None)]), {self._state}
        while queue:
            state, first = queue.popleft()
            if state.cell == self.layout.treasure:
                return first
            for command, after in self._outcomes(state).items():
                if after not in seen:
                    seen.add(after)
                    queue.append((after, first or command))
        return None

    def render(self) -> str:
        """The grid: A agent, k key, T treasure, D door (d unlocked), | wall."""
        lines = []
        for row in range(ROWS):
            line = ""
            for column in range(COLUMNS):
                line += self._sign((row, column))
                if column == WALL:
                    door = "d" if self._state.unlocked else "D"
                    line += door if row == self.layout.door_row else "|"
            lines.append(line)
        return "\n".join([*lines, f"holds: {'key' if self._state.has_key else 'nothing'}"])

    def _sign(self, cell: Cell) -> str:
        if cell == self._state.cell:
            return "A"
        if cell == self.layout.treasure:
            return "T"
        return "k" if cell == self.layout.key and not self._state.has_key else "."

    def _won(self) -> bool:
        return self._state.cell == self.layout.treasure

    def _outcomes(self, state: State | None = None) -> dict[str, State]:
        """The state after each admissible command."""
        state = state or self._state
        (row, column), has_key, unlocked = state
        outcomes = dict.fromkeys(ALWAYS, state)
        if state.cell == self.layout.key and not has_key:
            outcomes["take key"] = state._replace(has_key=True)
        at_door = row == self.layout.door_row and column in (WALL, WALL + 1)
        if at_door and has_key and not unlocked:
            outcomes["unlock door"] = state._replace(unlocked=True)
        for command, (down, right) in MOVES.items():
            there = (row + down, column + right)
            crosses = {column, there[1]} == {WALL, WALL + 1}
            inside = there[0] in range(ROWS) and there[1] in range(COLUMNS)
            if inside and (not crosses or (at_door and unlocked)):
                outcomes[command] = state._replace(cell=there)
        return outcomes

    def _text(self) -> str:
        (row, column), has_key, unlocked = self._state
        text = f"You are in row {row + 1}, column {column + 1}."
        if self._won():
            return f"{text} The treasure is here!"
        if (row, column) == self.layout.key and not has_key:
            text += " There is a key."
        if row == self.layout.door_row and column in (WALL, WALL + 1):
            text += f" A door leads {'east' if column == WALL else 'west'}."
            text += "" if unlocked else " It is locked."
        return text


def make_world(config: WorldConfig) -> KeyDoorWorld:
    """The world of key-and-door tasks; of the dials only `max_steps` and `success_reward` apply."""
    return KeyDoorWorld(config)


def layouts(split: str) -> list[Layout]:
    """Every layout of a split, in a fixed order; a hash of the layout says which split it belongs to."""
    near = [(row, column) for row in range(ROWS) for column in range(WALL + 1)]
    far = [(row, column) for row in range(ROWS) for column in range(WALL + 1, COLUMNS)]
    every = (
        Layout(start, key, treasure, door_row)
        for start in near
        for key in near
        for treasure in far
        for door_row in range(ROWS)
    )
    return [layout for layout in every if (_digest(layout) % UNSEEN_SHARE == 0) == (split == "unseen")]


def _digest(layout: Layout) -> int:
    return int.from_bytes(blake2b(repr(tuple(layout)).encode(), digest_size=8).digest(), "big")


class KeyDoorWorld:
    """Tasks are named keydoor/<split>/<number of the layout>."""

    def __init__(self, config: WorldConfig) -> None:
        self.config = config
        self.skipped: dict[str, int] = {}
        self._layouts = {split: layouts(split) for split in SPLITS}

    def tasks(self, split: str, num: int, rng: np.random.Generator) -> list[str]:
        """`num` ids, none twice. Raises ValueError where the split has fewer layouts."""
        if split not in SPLITS:
            raise ValueError(f"split: {split!r}; expected one of {', '.join(SPLITS)}")
        there = len(self._layouts[split])
        if num > there:
            raise ValueError(f"tasks: {num} of split {split!r}; the key-door world has {there}")
        return [f"keydoor/{split}/{number}" for number in rng.choice(there, num, replace=False)]

    def make(self, task_id: str) -> KeyDoor:
        """The environment of a task id. Raises ValueError for an id that is not of this world."""
        world, _, rest = task_id.partition("/")
        split, _, number = rest.partition("/")
        known = self._layouts.get(split, []) if world == "keydoor" else []
        if not (
            number.isascii() and number.isdigit() and str(int(number)) == number and int(number) < len(known)
        ):
            raise ValueError(f"task_id: {task_id!r}; expected keydoor/<train|unseen>/<number of a layout>")
        config, layout = self.config, known[int(number)]
        return KeyDoor(layout, task_id, max_steps=config.max_steps, success_reward=config.success_reward)

    def task_type(self, task_id: str) -> str:
        return "keydoor"

    def words(self) -> set[str]:
        """Every word of this world's texts."""
        numbers = map(str, range(1, max(ROWS, COLUMNS) + 1))
        return {word for text in (*TEXTS, *numbers) for word in text.lower().split()}
