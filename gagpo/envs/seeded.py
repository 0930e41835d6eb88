"""Worlds whose tasks are generated from a seed: their ids and their splits by content.

A task id is <world>/<split>/<seed>. A hash of what was generated says which split it belongs to,
so no task of "unseen" can occur in "train", whatever the seeds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from difflib import get_close_matches
from hashlib import blake2b
from typing import Any

import numpy as np

from gagpo.config import WorldConfig
from gagpo.envs.base import SPLITS, plain_number

UNSEEN_SHARE = 5  # one content in five is unseen
MAX_SEED = 2**31


class SeededWorld:
    """The half of a `World` that all generated worlds with one task type share.

    A subclass names itself and adds `make` and `words`.
    """

    name: str

    def __init__(self, config: WorldConfig) -> None:
        for wanted in config.task_types:
            if wanted != self.name:
                near = (
                    f"; did you mean {self.name!r}?" if get_close_matches(wanted, [self.name], 1, 0.4) else ""
                )
                raise ValueError(f"task_types: {wanted!r}; env {self.name} has only {self.name!r}{near}")
        self.config = config
        self.skipped: dict[str, int] = {}

    def tasks(self, split: str, num: int, rng: np.random.Generator) -> list[str]:
        """`num` ids, none twice. Two ids can name the same content: small worlds repeat themselves."""
        if split not in SPLITS:
            raise ValueError(f"split: {split!r}; expected one of {', '.join(SPLITS)}")
        seeds: dict[int, None] = {}
        while len(seeds) < num:
            seeds[int(rng.integers(MAX_SEED))] = None
        return [f"{self.name}/{split}/{seed}" for seed in seeds]

    def task_type(self, task_id: str) -> str:
        """The only one: the world's name. Raises ValueError for an id that is not of this world."""
        self.parts(task_id)
        return self.name

    def parts(self, task_id: str) -> tuple[str, int]:
        """(split, seed) of a task id, or a ValueError."""
        name, split, seed = task_id.split("/") if task_id.count("/") == 2 else ("", "", "")
        number = plain_number(seed, MAX_SEED)
        if name != self.name or split not in SPLITS or number is None:
            raise ValueError(
                f"task_id: {task_id!r:.200}; expected {self.name}/<{'|'.join(SPLITS)}>/<0 to {MAX_SEED - 1}>"
            )
        return split, number


def first_of_split(generate: Callable[[random.Random], Any], split: str, seed: int) -> Any:
    """The first content of this seed's sequence that falls into the split; its repr is its identity."""
    attempt = 0
    while split_of(content := generate(random.Random(f"{seed}/{attempt}"))) != split:
        attempt += 1
    return content


def split_of(content: Any) -> str:
    """The split that a content belongs to."""
    digest = blake2b(repr(content).encode(), digest_size=8).digest()
    return "unseen" if int.from_bytes(digest, "big") % UNSEEN_SHARE == 0 else "train"
