"""What an environment and a world of tasks must offer, and how one is chosen by name."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gagpo.config import WorldConfig
from gagpo.plugins import load_plugin

SPLITS = ("train", "unseen")


@runtime_checkable
class Env(Protocol):
    """One task, played by text commands, in the manner of Gymnasium.

    `info` of `reset` and `step` holds "won" (bool): the goal is reached; that of `step` also
    "valid" (bool): the command was accepted, in whatever wording. An action that is not
    admissible changes nothing and is answered as the world answers nonsense. The same task
    starts the same way whatever the seed, where the world has no chance in it. A step after the
    end raises ValueError. `gagpo.envs.check` tests all of this.
    """

    task_id: str
    goal: str

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict]:
        """Start over. Returns (observation, info)."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        """Returns (observation, reward, terminated, truncated, info)."""

    def state_key(self) -> str:
        """Identity of the state: equal if and only if the state is."""

    def admissible(self) -> tuple[str, ...]:
        """The commands that the world accepts here, sorted."""

    def snapshot(self) -> Hashable:
        """The whole state, step count included, as a small immutable value."""

    def restore(self, snapshot: Hashable) -> None:
        """Go back to a snapshot of this task."""

    def expert(self) -> str | None:
        """The next command of a plan that reaches the goal from here; None where none is known."""

    def render(self) -> str:
        """The whole state for a person, in lines of text: more than the player sees."""


class World(Protocol):
    """A set of tasks in the splits "train" and "unseen", and how to play them.

    `skipped` counts, by reason, what was found on disk and cannot be played.
    """

    skipped: Mapping[str, int]

    def tasks(self, split: str, num: int, rng: np.random.Generator) -> list[str]:
        """Draw `num` task ids of a split; the splits share no task."""

    def make(self, task_id: str) -> Env:
        """The environment of a task."""

    def task_type(self, task_id: str) -> str:
        """The kind of task it is; evaluations report success by it."""

    def words(self) -> set[str]:
        """Every word that observations, goals and commands can hold (for a word-level tokenizer)."""


def plain_number(text: str, end: int) -> int | None:
    """The whole number below `end` that `text` is, in decimal digits without leading zeros, else None."""
    # Longer ones are not read: Python refuses thousands of digits.
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(end))):
        return None
    number = int(text)
    return number if number < end and str(number) == text else None


# name -> "module:function"; the function takes a WorldConfig and returns a World.
WORLDS: dict[str, str] = {
    "household": "gagpo.envs.household:make_world",
    "alfworld": "gagpo.envs.alfworld:make_world",
    "webshop": "gagpo.envs.webshop.world:make_world",
    "keydoor": "gagpo.envs.keydoor:make_world",
    "frozenlake": "gagpo.envs.tabular:make_world",
    "minigrid": "gagpo.envs.minigrid:make_world",
    "textworld": "gagpo.envs.textworld:make_world",
}
# Other packages add worlds by entry points of this group, named and written in the same way.
PLUGINS = "gagpo.worlds"


def make_world(config: WorldConfig) -> World:
    """The world that `config.env` names: one of WORLDS, else one that an installed package adds."""
    if config.env in WORLDS:
        module, function = WORLDS[config.env].split(":")
        make: Callable[[WorldConfig], World] = getattr(import_module(module), function)
    else:
        make = load_plugin("env", config.env, PLUGINS, WORLDS)
    return make(config)
