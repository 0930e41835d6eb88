"""Official ALFWorld games as a world, played by this package's own rules, without TextWorld."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from gagpo.config import WorldConfig
from gagpo.envs import wording
from gagpo.envs.base import SPLITS
from gagpo.envs.game import Game
from gagpo.envs.household import check_split, check_task_types
from gagpo.envs.official import GameSource, OfficialGame, find_games, named
from gagpo.envs.pddl import read_problem
from gagpo.envs.problem import kind_of
from gagpo.envs.rules import Rules

HELD_OUT_SHARE = 5  # one game in five, at least one


def make_world(config: WorldConfig) -> AlfworldWorld:
    """The world of the official games that `config.games` and `config.unseen_games` name."""
    return AlfworldWorld(config)


class AlfworldWorld:
    """Tasks are the games found; ids are <official split>/<task>/<trial>.

    Where `unseen_games` is not given, a fifth of `games` is held out: those whose ids hash
    lowest, so that the choice depends on nothing else. `skipped` counts, by reason, the trials
    that could not be used.
    """

    def __init__(self, config: WorldConfig) -> None:
        self.config = config
        self.skipped: Counter[str] = Counter()
        if config.games is None:
            raise ValueError("games: not set; env alfworld needs a folder or packed file of official games")
        games = self._find(config.games, "games")
        if config.unseen_games is None:
            if len(games) < 2:
                raise ValueError(
                    f"games: {config.games!r} holds 1 game that can be used (skipped: {self._reasons()}); "
                    "expected at least 2, or unseen_games to be given"
                )
            unseen = _held_out(games)
            train = {task_id: game for task_id, game in games.items() if task_id not in unseen}
        else:
            train, unseen = games, self._find(config.unseen_games, "unseen_games")
            shared = sorted(train.keys() & unseen.keys())
            if shared:
                raise ValueError(f"unseen_games: {len(shared)} games are in games too, such as {shared[0]!r}")
        self._games: dict[str, GameSource] = train | unseen
        self._splits = dict(zip(SPLITS, (sorted(train), sorted(unseen)), strict=True))

    def tasks(self, split: str, num: int, rng: np.random.Generator) -> list[str]:
        """`num` different ids in random order; all of the split where it has no more than that."""
        check_split(split)
        ids = self._splits[split]
        return [ids[i] for i in rng.permutation(len(ids))[:num]]

    def make(self, task_id: str) -> Game:
        """The game of a task id. Raises ValueError for an unknown id or an unreadable problem."""
        source, config = self._source(task_id), self.config
        game = source.read()
        try:
            rules = _rules(game)
        except ValueError as error:
            raise ValueError(f"{named(source.file)}: game {task_id!r}: {error}") from error
        return Game(rules, task_id, max_steps=config.max_steps, success_reward=config.success_reward)

    def task_type(self, task_id: str) -> str:
        return self._source(task_id).task_type

    def words(self) -> set[str]:
        """Every token of the text of these games; reads all of them."""
        texts: set[str] = set()
        for source in self._games.values():
            game = source.read()
            names = game.pddl_problem.lower().replace("(", " ").replace(")", " ").split()
            texts |= {game.sentence, *(kind_of(name) for name in set(names) if "_bar_" in name)}
        return wording.words(texts)

    def _find(self, path: str, field: str) -> dict[str, GameSource]:
        found = find_games(path, field, self.skipped)
        task_types = check_task_types(self.config.task_types)
        games = {task_id: game for task_id, game in found.items() if game.task_type in task_types}
        if not games:
            raise ValueError(
                f"{field}: {path!r} holds no game of task types {', '.join(task_types)} "
                f"({len(found)} of other types; skipped: {self._reasons()})"
            )
        return games

    def _reasons(self) -> str:
        """What was left out, and why."""
        return ", ".join(f"{count} {reason}" for reason, count in self.skipped.items() if count) or "none"

    def _source(self, task_id: str) -> GameSource:
        if task_id not in self._games:
            raise ValueError(f"task_id: {task_id!r} is none of the {len(self._games)} games of this world")
        return self._games[task_id]


def _held_out(games: dict[str, GameSource]) -> dict[str, GameSource]:
    ranked = sorted(games, key=lambda task_id: blake2b(task_id.encode(), digest_size=8).digest())
    return {task_id: games[task_id] for task_id in ranked[: max(1, len(games) // HELD_OUT_SHARE)]}


@lru_cache(maxsize=128)
def _rules(game: OfficialGame) -> Rules:
    """Siblings share the parsed problem; it never changes."""
    return Rules(read_problem(game.pddl_problem, game.sentence, game.walkthrough))
