"""Generated household games of all six ALFWorld task types: the world that needs no download.

A house is a function of its task id and the dials in `WorldConfig`. Splits are made by content: a
hash of the whole problem says which split a house belongs to, so no house of "unseen" can occur in
"train", whatever the seeds and the dials.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from gagpo.config import WorldConfig
from gagpo.envs import wording
from gagpo.envs.base import SPLITS, plain_number
from gagpo.envs.game import Game
from gagpo.envs.houses import SENTENCES, check_num_objects, generate
from gagpo.envs.problem import TASK_TYPES, Problem
from gagpo.envs.rooms import FITS
from gagpo.envs.rules import Rules
from gagpo.envs.shortest import distance

UNSEEN_SHARE = 5  # one house in five is unseen
MAX_SEED = 2**31
MAX_DRAWS = 2000  # of houses in a row whose plans are too short or too long


def make_world(config: WorldConfig) -> HouseholdWorld:
    """The world of generated houses with the dials of `config`."""
    return HouseholdWorld(config)


class HouseholdWorld:
    """Tasks are named household/<split>/<task type>/<seed>; the dials complete their identity."""

    def __init__(self, config: WorldConfig) -> None:
        self.config = config
        self.skipped: dict[str, int] = {}
        self.task_types = check_task_types(config.task_types)
        for task_type in self.task_types:
            check_num_objects(task_type, config.num_objects, config.num_spares)

    def tasks(self, split: str, num: int, rng: np.random.Generator) -> list[str]:
        """`num` ids, none twice, with the task types as evenly spread as `num` allows.

        Raises ValueError where a task type seems to have no house with the wanted plans."""
        check_split(split)
        if not _dials(self.config).any_plan:  # here, for an error in `make` only costs its group
            for task_type in self.task_types:
                _house(task_type, split, 0, _dials(self.config))
        order = rng.permutation(len(self.task_types))
        seeds: dict[int, None] = {}
        while len(seeds) < num:
            seeds[int(rng.integers(MAX_SEED))] = None
        return [
            f"household/{split}/{self.task_types[order[i % len(order)]]}/{seed}"
            for i, seed in enumerate(seeds)
        ]

    def make(self, task_id: str) -> Game:
        """The game of a task id. Raises ValueError for an id that is not of this world."""
        split, task_type, seed = self._parts(task_id)
        config = self.config
        rules = _house(task_type, split, seed, _dials(config))
        return Game(rules, task_id, max_steps=config.max_steps, success_reward=config.success_reward)

    def task_type(self, task_id: str) -> str:
        return self._parts(task_id)[1]

    def words(self) -> set[str]:
        """Every token of the text of this world, whatever the dials."""
        types = {*FITS, *(type for fits in FITS.values() for type in fits)}
        sentences = (sentence.format(object="", place="") for sentence in SENTENCES.values())
        return wording.words((*types, *sentences))

    def _parts(self, task_id: str) -> tuple[str, str, int]:
        parts = task_id.split("/")
        expected = "household/<train|unseen>/<task type>/<seed>"
        if len(parts) != 4 or parts[0] != "household" or not (parts[3].isascii() and parts[3].isdigit()):
            raise ValueError(f"task_id: {task_id!r}; expected {expected}")
        check_split(parts[1])
        if parts[2] not in self.task_types:
            raise ValueError(
                f"task_id: {task_id!r} has task type {parts[2]!r}; "
                f"expected one of {', '.join(self.task_types)}"
            )
        seed = plain_number(parts[3], MAX_SEED)
        if seed is None:
            raise ValueError(f"task_id: {task_id!r:.200}; expected a seed of 0 to {MAX_SEED - 1}, plain")
        return parts[1], parts[2], seed


def check_task_types(wanted: Sequence[str]) -> tuple[str, ...]:
    """The wanted task types in their usual order; all of them where none is named."""
    for name in wanted:
        if name not in TASK_TYPES:
            near = get_close_matches(name, TASK_TYPES, 1, 0.4)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"task_types: {name!r}; expected some of {', '.join(TASK_TYPES)}{hint}")
    return tuple(type for type in TASK_TYPES if type in wanted or not wanted)


def check_split(split: str) -> None:
    if split not in SPLITS:
        raise ValueError(f"split: {split!r}; expected one of {', '.join(SPLITS)}")


def split_of(problem: Problem) -> str:
    """The split that a house belongs to by its content: everything but its seed."""
    content = (
        [(r.id, r.location) for r in problem.receptacles],
        [o.id for o in problem.objects],
        sorted(problem.inside),
        problem.sentence,
    )
    digest = blake2b(repr(content).encode(), digest_size=8).digest()
    return "unseen" if int.from_bytes(digest, "big") % UNSEEN_SHARE == 0 else "train"


class Dials(NamedTuple):
    """The settings that a house depends on."""

    sizes: tuple[int, int]
    kinds: tuple[tuple[str, int | None], ...]
    plan_steps: tuple[int, int | None]

    @property
    def any_plan(self) -> bool:
        return self.plan_steps == (0, None)


def _dials(config: WorldConfig) -> Dials:
    return Dials(
        (config.num_receptacles, config.num_objects),
        (("num_rooms", config.num_rooms), ("num_spares", config.num_spares)),
        (config.min_plan_steps, config.max_plan_steps),
    )


@lru_cache(maxsize=512)
def _house(task_type: str, split: str, seed: int, dials: Dials) -> Rules:
    """The first house of this seed's sequence whose content falls into the split and whose shortest
    plan is as long as wanted. Raises ValueError after MAX_DRAWS houses of the split."""
    least, most = dials.plan_steps
    lengths: list[int] = []
    attempt = 0
    while len(lengths) < MAX_DRAWS:
        rng = random.Random(f"{task_type}/{seed}/{attempt}")
        problem = generate(task_type, rng, *dials.sizes, **dict(dials.kinds))
        attempt += 1
        if split_of(problem) != split:
            continue
        rules = Rules(problem)
        if dials.any_plan:
            return rules
        lengths.append(distance(rules, rules.start))
        if least <= lengths[-1] and (most is None or lengths[-1] <= most):
            return rules
    raise ValueError(
        f"min_plan_steps, max_plan_steps: {least}, {most}; none of {MAX_DRAWS} houses of {task_type} "
        f"has such a plan: theirs have {min(lengths)} to {max(lengths)} steps"
    )
