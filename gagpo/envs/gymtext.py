"""Environments of Gymnasium played in words, with snapshots that are exact copies.

A `View` says what an environment looks like in words. `AnsiView` serves every environment with
discrete actions that draws itself as text; MiniGrid has a better one in `gagpo.envs.minigrid`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import blake2b
from types import ModuleType
from typing import Any, Protocol

import numpy as np

NOTHING_HAPPENS = "Nothing happens."
AT_CURSOR = re.compile(r"\x1b\[4\dm(.*?)\x1b\[0m")  # what is drawn on a coloured ground
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class View(Protocol):
    """An environment in words. `env` is always the bare one, without Gymnasium's wrappers.

    commands   one for each action number
    """

    commands: tuple[str, ...]

    def goal(self, env: Any) -> str:
        """The task, after a reset."""

    def describe(self, env: Any) -> str:
        """What the player sees."""

    def key(self, env: Any) -> str:
        """Identity of the state, random draws and number of steps aside."""

    def copy(self, env: Any) -> Any:
        """The same state again; no step of one changes the other."""

    def plan(self, env: Any, key: Callable[[Any], str]) -> list[int]:
        """Action numbers that win from here, empty where none are known; `env` is a copy to play with."""

    def render(self, env: Any) -> str:
        """The whole state for a person."""


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """A snapshot: nobody plays `env`, it is only copied. Two snapshots are equal if they are the same."""

    env: Any
    num_steps: int
    ended: bool
    won: bool


class GymText:
    """One environment of Gymnasium from one seed, played by text commands.

    The seed belongs to the task, so every reset starts the same way, and what is chance in it comes
    the same way again for the same commands; where a step has drawn, the key tells how far the draws
    are. Winning is an end with a positive reward and pays `success_reward`; other rewards are left
    out, since they may count steps, and so is the environment's own step limit. All commands are
    admissible everywhere: the environment takes them all, even where they change nothing.
    """

    def __init__(
        self, env: Any, view: View, task_id: str, seed: int, *, max_steps: int, success_reward: float
    ) -> None:
        self._env, self._view, self.task_id = env.unwrapped, view, task_id
        self._seed, self.max_steps, self.success_reward = seed, max_steps, success_reward
        self._plan: dict[str, int | None] = {}
        self.reset()
        self.goal = view.goal(self._env)
        self._draws = _draws(self._env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict]:
        """Start over; `seed` changes nothing, `options` are the environment's."""
        self._env.reset(seed=self._seed, options=options)
        self._num_steps, self._ended, self._won = 0, False, False
        return self._view.describe(self._env), {"won": False}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        """Returns (observation, reward, terminated, truncated, info); info has "won" and "valid".

        Raises ValueError after the end of the trajectory."""
        if self._ended or self._num_steps >= self.max_steps:
            raise ValueError(f"step: the trajectory of {self.task_id!r} has ended; reset or restore first")
        self._num_steps += 1
        command, observation = action.strip(), NOTHING_HAPPENS
        valid = command in self._view.commands
        if valid:
            _, reward, self._ended, _, _ = self._env.step(self._view.commands.index(command))
            self._ended = bool(self._ended)
            self._won = self._ended and float(reward) > 0
            observation = self._view.describe(self._env)
        truncated = not self._ended and self._num_steps >= self.max_steps
        pays = self.success_reward if self._won else 0.0
        return observation, pays, self._ended, truncated, {"won": self._won, "valid": valid}

    def state_key(self) -> str:
        return self._key(self._env)

    def admissible(self) -> tuple[str, ...]:
        return tuple(sorted(self._view.commands))

    def snapshot(self) -> Copy:
        """The whole environment, its generator and the number of steps taken included."""
        return Copy(self._view.copy(self._env), self._num_steps, self._ended, self._won)

    def restore(self, snapshot: Copy) -> None:
        """Go back to a snapshot of this task, of this or of another environment."""
        self._env = self._view.copy(snapshot.env)
        self._num_steps, self._ended, self._won = snapshot.num_steps, snapshot.ended, snapshot.won

    def expert(self) -> str | None:
        """The next command of a plan that wins; None at the end and where the view knows none.

        A plan is kept, and made anew where the player has left it."""
        key = self.state_key()
        if not self._ended and key not in self._plan:
            env = self._view.copy(self._env)
            actions = self._view.plan(self._view.copy(env), self._key)
            self._plan[key] = None
            for action in actions:
                self._plan[self._key(env)] = action
                env.step(action)
        action = None if self._ended else self._plan[key]
        return None if action is None else self._view.commands[action]

    def render(self) -> str:
        return f"goal: {self.goal}\n{self._view.render(self._env)}"

    def _key(self, env: Any) -> str:
        draws = _draws(env)
        return self._view.key(env) + ("" if draws == self._draws else f" {digest(draws)}")


class AnsiView:
    """An environment with discrete actions that draws itself as text: commands are "action 0" and on.

    What stands on a coloured ground is put in brackets, for there the player is."""

    def __init__(self, env: Any, level: str) -> None:
        self.commands = tuple(f"action {number}" for number in range(int(env.action_space.n)))
        self._level = level

    def goal(self, env: Any) -> str:
        return f"play {self._level}."

    def describe(self, env: Any) -> str:
        return COLOURS.sub("", AT_CURSOR.sub(r"[\1]", env.render())).strip("\n")

    def key(self, env: Any) -> str:
        """A digest of what is drawn and of every attribute that is a plain value."""
        return digest([self.describe(env), attributes(env)])

    def copy(self, env: Any) -> Any:
        return copy_sharing(env, {})

    def plan(self, env: Any, key: Callable[[Any], str]) -> list[int]:
        return []

    def render(self, env: Any) -> str:
        return self.describe(env)


def make_env(level: str) -> Any:
    """The bare environment of a Gymnasium id. Raises ValueError for an unknown or unfit one."""
    gymnasium = import_gymnasium()
    if level not in gymnasium.registry:
        near = get_close_matches(level, gymnasium.registry, 1, 0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"task_types: {level!r} is no environment that Gymnasium knows{hint}")
    try:
        env = gymnasium.make(level, disable_env_checker=True).unwrapped
        if "ansi" in env.metadata.get("render_modes", ()):
            env = gymnasium.make(level, render_mode="ansi", disable_env_checker=True).unwrapped
    except Exception as error:
        raise ValueError(f"task_types: {level!r} cannot be made: {error}") from error
    if not isinstance(env.action_space, gymnasium.spaces.Discrete):
        raise ValueError(f"task_types: {level!r} has actions {env.action_space}; expected discrete ones")
    return env


def import_gymnasium() -> ModuleType:
    try:
        import gymnasium
    except ImportError as error:
        raise ValueError(
            "env: this world needs the package gymnasium; install it with pip install gymnasium"
        ) from error
    return gymnasium


def copy_sharing(env: Any, shared: dict[int, object]) -> Any:
    """A deep copy, but for the spaces, which no step changes, and the parts whose copies are given, by id."""
    constants = (env.observation_space, env.action_space, env.spec)
    return deepcopy(env, {**shared, **{id(part): part for part in constants}})


def attributes(env: Any, value_of: Callable[[Any], Any] = lambda value: None) -> dict[str, Any]:
    """The plain attributes of an environment; `value_of` may say what others stand for."""
    left_out = ("step_count", "_np_random_seed")  # neither tells the future
    found = {k: plain(v, value_of) for k, v in sorted(vars(env).items()) if k not in left_out}
    return {k: value for k, value in found.items() if value is not None}


def plain(value: Any, value_of: Callable[[Any], Any] = lambda value: None) -> Any:
    """A value as JSON can hold it: numbers, texts, and lists of these."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(part, value_of) for part in value]
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, (int, float, str, bool)) else value_of(value)


def digest(value: Any) -> str:
    """32 hexadecimal digits that stand for a JSON value."""
    return blake2b(json.dumps(value).encode(), digest_size=16).hexdigest()


def _draws(env: Any) -> Any:
    return str(env.np_random.bit_generator.state)
