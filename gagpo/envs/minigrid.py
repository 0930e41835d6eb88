"""MiniGrid and BabyAI in words, and other environments of Gymnasium that draw themselves as text.

Needs the optional package minigrid, which is imported only when a world is made.
"""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from gagpo.config import WorldConfig
from gagpo.envs.base import SPLITS, plain_number
from gagpo.envs.grid_view import COMMANDS, GridView
from gagpo.envs.gymtext import NOTHING_HAPPENS, AnsiView, GymText, View, import_gymnasium, make_env
from gagpo.envs.seeded import MAX_SEED, split_of

LEVELS = (
    "MiniGrid-Empty-Random-5x5-v0",
    "MiniGrid-DoorKey-5x5-v0",
    "MiniGrid-FourRooms-v0",
    "BabyAI-GoToLocal-v0",
    "BabyAI-PickupLoc-v0",
)
NUM_PROBES, MAX_ATTEMPTS = 32, 2000  # layouts looked at to find those of a split
MISSIONS = """
    get go to fetch find reach pick up put open use a an the and then after you must avoid lava wall object
    ball box key door goal square green red blue purple yellow grey room next near of on in front behind your
    left right matching end hallway opening walls furthest
"""
SEEN = """
    you face carry nothing wall : ahead left right , ; . see a an at row column goal ball box key door floor
    lava open closed locked red green blue purple yellow grey east south west north here > < ^ v # ?
"""


class MiniGridWorld:
    """Tasks are named minigrid/<split>/<level>/<seed>; levels are ids of Gymnasium, `config.task_types`.

    A layout's first state says which split it belongs to, whatever its level and seed, so that no
    layout of "unseen" can occur in "train". A level that has one layout only is in one split.
    """

    def __init__(self, config: WorldConfig) -> None:
        self.config = config
        self.skipped: dict[str, int] = {}
        import_minigrid()
        self.levels = config.task_types or LEVELS
        self._views = {level: _view(make_env(level), level, config.full_view) for level in self.levels}

    def tasks(self, split: str, num: int, rng: np.random.Generator) -> list[str]:
        """`num` ids, none twice, spread evenly over the levels that have layouts of the split."""
        if split not in SPLITS:
            raise ValueError(f"split: {split!r}; expected one of {', '.join(SPLITS)}")
        levels = [level for level in self.levels if split in _splits(level)]
        if not levels:
            raise ValueError(
                f"task_types: none of {', '.join(self.levels)} has a layout for {split!r} "
                f"(looked at {NUM_PROBES} of each); expected a level that varies more"
            )
        order = rng.permutation(len(levels))
        seeds: dict[int, None] = {}
        while len(seeds) < num:
            seeds[int(rng.integers(MAX_SEED))] = None
        return [f"minigrid/{split}/{levels[order[i % len(order)]]}/{seed}" for i, seed in enumerate(seeds)]

    def make(self, task_id: str) -> GymText:
        """The level of a task id. Raises ValueError for an id that is not of this world."""
        split, level, seed = self._parts(task_id)
        return GymText(
            make_env(level),
            self._views[level],
            task_id,
            _layout(level, split, seed),
            max_steps=self.config.max_steps,
            success_reward=self.config.success_reward,
        )

    def task_type(self, task_id: str) -> str:
        return self._parts(task_id)[1]

    def words(self) -> set[str]:
        """The words of the views, and of missions: MiniGrid's own, and those that a few layouts show."""
        texts = [MISSIONS, SEEN, NOTHING_HAPPENS, *COMMANDS, " ".join(map(str, range(100)))]
        for level, view in self._views.items():
            env = make_env(level)
            for seed in range(NUM_PROBES):
                env.reset(seed=seed)
                texts += [view.goal(env), *view.commands]
                texts += [] if isinstance(view, GridView) else [view.describe(env)]
        marks = {mark for text in texts for mark in text if not mark.isalnum() and not mark.isspace()}
        spaced = " ".join(texts).lower().translate({ord(mark): " " for mark in marks})
        return {*spaced.split(), *marks}

    def _parts(self, task_id: str) -> tuple[str, str, int]:
        """(split, level, seed) of a task id, or a ValueError."""
        name, _, rest = task_id.partition("/")
        split, _, rest = rest.partition("/")
        level, _, seed = rest.rpartition("/")  # ids of Gymnasium may hold a slash
        number = plain_number(seed, MAX_SEED)
        if name != "minigrid" or split not in SPLITS or level not in self.levels or number is None:
            raise ValueError(
                f"task_id: {task_id!r:.200}; expected minigrid/<{'|'.join(SPLITS)}>/"
                f"<{'|'.join(self.levels)}>/<0 to {MAX_SEED - 1}>"
            )
        return split, level, number


def make_world(config: WorldConfig) -> MiniGridWorld:
    """Levels in words; of the dials it knows task_types, full_view, max_steps and success_reward."""
    return MiniGridWorld(config)


def import_minigrid() -> None:
    """Registers the levels, and says nothing: pygame greets on import, BabyAI tells of rejected layouts."""
    import_gymnasium()
    try:
        if "minigrid" not in sys.modules:
            with redirect_stdout(io.StringIO()):
                import minigrid  # noqa: F401
        import_module("minigrid.envs.babyai.core.roomgrid_level").print = _silent
    except ImportError as error:
        raise ValueError(
            "env: minigrid needs the package minigrid; install it with pip install minigrid"
        ) from error


def _silent(*_: object) -> None:
    """Stands where BabyAI looks for print."""


def _view(env: Any, level: str, full_view: bool) -> View:
    if hasattr(env, "gen_obs_grid"):
        return GridView(env, full_view)
    if env.render_mode == "ansi":
        return AnsiView(env, level)
    raise ValueError(
        f"task_types: {level!r} is no MiniGrid level and draws {env.metadata.get('render_modes')}; "
        "expected 'ansi' among them"
    )


def _layouts(level: str, seed: str) -> Iterator[tuple[int, str]]:
    """(Gymnasium's seed, split) of layout after layout."""
    env = make_env(level)
    view, attempt = _view(env, level, False), 0
    while True:
        number = random.Random(f"{seed}/{attempt}").randrange(MAX_SEED)
        env.reset(seed=number)
        yield number, split_of(view.key(env))
        attempt += 1


@lru_cache(maxsize=64)
def _splits(level: str) -> frozenset[str]:
    """The splits that layouts of a level fall into."""
    layouts = _layouts(level, "probe")
    return frozenset(split for _, (_, split) in zip(range(NUM_PROBES), layouts, strict=False))


@lru_cache(maxsize=4096)
def _layout(level: str, split: str, seed: int) -> int:
    """Gymnasium's seed of the first layout of this seed's sequence that falls into the split."""
    for _, (number, its_split) in zip(range(MAX_ATTEMPTS), _layouts(level, str(seed)), strict=False):
        if its_split == split:
            return number
    raise ValueError(f"task_id: level {level!r} has no layout for {split!r} among {MAX_ATTEMPTS}")
