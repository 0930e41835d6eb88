"""Games made by TextWorld's `tw-make` as a world. Needs the optional package textworld.

TextWorld is slow, not thread-safe and changes globals of its process, so each environment plays in a
worker process. Files are read here as JSON, with a bound on their size, and only to list them.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from gagpo.config import WorldConfig
from gagpo.envs.base import SPLITS
from gagpo.envs.official import MAX_GAME_BYTES, read_json
from gagpo.envs.tw_game import ENDINGS, HOLDING, NOTHING_HAPPENS, TextWorldGame, import_textworld
from gagpo.envs.worker import START_LIMIT_S, WorkerEnv

HELD_OUT_SHARE = 5  # one game in five, at least one
CALL_LIMIT_S = 60.0  # of a call where env_time_limit_s is not set
CHALLENGES = ("simple", "cooking", "coin_collector", "treasure_hunter")  # of tw-make; others are "custom"
PARTS = ("world", "grammar", "quests", "infos", "KB", "objective")  # of a game's JSON; the rest is a label
# What the interpreter's answers hold beside the words of a game's own file.
ANSWERS = """
    you are carrying nothing the a an and some see can that's it is isn't closed open opened locked unlocked
    you pick up from ground drop put on into in take eat unlock lock close not bad revealing with
    your score has just gone up by one point points two three four five six seven eight nine ten
"""


@dataclass(frozen=True, slots=True)
class GameFile:
    """A game that was found. `definition` is its JSON, `path` what TextWorld opens."""

    task_id: str
    task_type: str
    path: Path
    definition: Path


def make_world(config: WorldConfig) -> TextWorldWorld:
    """The world of the games that `config.games` and `config.unseen_games` name."""
    return TextWorldWorld(config)


class TextWorldWorld:
    """Tasks are the games found; ids are textworld/<name of the file>/<digest of the content>.

    Splits go by content: two files of one game are one task, and where `unseen_games` is not given,
    the fifth of `games` with the lowest digests is held out. `skipped` counts, by reason, what was
    found and is not used.
    """

    def __init__(self, config: WorldConfig) -> None:
        self.config = config
        self.skipped: Counter[str] = Counter()
        if config.games is None:
            raise ValueError("games: not set; env textworld needs a folder or file of games made by tw-make")
        if find_spec("textworld") is None:
            import_textworld()  # says what to do
        games = self._find(config.games, "games")
        if config.unseen_games is None:
            if len(games) < 2:
                raise ValueError(
                    f"games: {len(games)} game; expected at least 2, or unseen_games to be given"
                )
            unseen = dict(sorted(games.items())[: max(1, len(games) // HELD_OUT_SHARE)])
            train = {digest: game for digest, game in games.items() if digest not in unseen}
        else:
            train, unseen = games, self._find(config.unseen_games, "unseen_games")
            if shared := train.keys() & unseen.keys():
                example = str(train[min(shared)].path)
                raise ValueError(f"unseen_games: {len(shared)} games are in games too, such as {example!r}")
        self._games = {game.task_id: game for game in [*train.values(), *unseen.values()]}
        ids = [sorted(game.task_id for game in split.values()) for split in (train, unseen)]
        self._splits = dict(zip(SPLITS, ids, strict=True))

    def tasks(self, split: str, num: int, rng: np.random.Generator) -> list[str]:
        """`num` different ids in random order; all of the split where it has no more than that."""
        if split not in SPLITS:
            raise ValueError(f"split: {split!r}; expected one of {', '.join(SPLITS)}")
        ids = self._splits[split]
        return [ids[i] for i in rng.permutation(len(ids))[:num]]

    def make(self, task_id: str) -> WorkerEnv:
        """The game in a process of its own. Raises ValueError for an unknown id, EnvFailed where the
        process cannot play it."""
        self._game(task_id)
        return WorkerEnv(self.config, task_id, (START_LIMIT_S, self.config.env_time_limit_s or CALL_LIMIT_S))

    def make_here(self, task_id: str) -> TextWorldGame:
        """The game in this process; workers ask for it."""
        config = self.config
        return TextWorldGame(
            self._game(task_id).path,
            task_id,
            max_steps=config.max_steps,
            success_reward=config.success_reward,
            score_reward=config.score_reward,
        )

    def task_type(self, task_id: str) -> str:
        return self._game(task_id).task_type

    def words(self) -> set[str]:
        """The words of the texts in the games' files, of commands, and of the interpreter's answers."""
        texts = [ANSWERS, NOTHING_HAPPENS, *ENDINGS, *HOLDING]
        for game in self._games.values():
            texts += _texts(read_json(game.definition, MAX_GAME_BYTES))
        marks = {mark for text in texts for mark in text if not mark.isalnum() and not mark.isspace()}
        spaced = " ".join(texts).lower().translate({ord(mark): " " for mark in marks})
        return {*spaced.split(), *marks}

    def _find(self, path: str, field: str) -> dict[str, GameFile]:
        """The games of wanted types under a path, by digest."""
        root = Path(path).expanduser()
        if not root.exists():
            raise ValueError(f"{field}: no file or folder {path!r}; expected games made by tw-make")
        found: dict[str, GameFile] = {}
        for file in _files(root):
            game = self._read(file)
            if game is None:
                continue
            digest = game.task_id.rpartition("/")[2]
            if digest in found:
                self.skipped["same game as another file"] += 1
            found.setdefault(digest, game)
        if not found:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.skipped.items() if count)
            raise ValueError(
                f"{field}: {path!r} holds no .z8 or .json game of tw-make (skipped: {reasons or 'none'})"
            )
        return found

    def _read(self, path: Path) -> GameFile | None:
        """What a file is; None, and counted, where it is not to be played."""
        definition = path.with_suffix(".json")
        if path.suffix == ".ulx":
            self.skipped[".ulx, which TextWorld no longer plays: make it again as .z8"] += 1
        elif not definition.is_file():
            self.skipped[".z8 without the .json that tw-make puts beside it"] += 1
        elif (
            not isinstance(game := read_json(definition, MAX_GAME_BYTES), dict)
            or not {*("world", "quests", "KB")} <= game.keys()
        ):
            self.skipped[".json that is no game of tw-make"] += 1
        elif (task_type := _task_type(game)) not in (wanted := self._task_types()):
            self.skipped[f"not of the task types {', '.join(wanted)}"] += 1
        else:
            content = json.dumps([game.get(part) for part in PARTS], sort_keys=True)
            digest = blake2b(content.encode(), digest_size=8).hexdigest()
            return GameFile(f"textworld/{path.stem}/{digest}", task_type, path, definition)
        return None

    def _task_types(self) -> tuple[str, ...]:
        known = (*CHALLENGES, "custom")
        for wanted in self.config.task_types:
            if wanted not in known:
                raise ValueError(f"task_types: {wanted!r}; env textworld has {', '.join(known)}")
        return self.config.task_types or known

    def _game(self, task_id: str) -> GameFile:
        if task_id not in self._games:
            raise ValueError(f"task_id: {task_id!r} is none of the {len(self._games)} games of this world")
        return self._games[task_id]


def _files(root: Path) -> list[Path]:
    """Game files, sorted. A .json beside a .z8 of its name belongs to it."""
    if root.is_file():
        return [root.with_suffix(".z8") if root.with_suffix(".z8").is_file() else root]
    paths = [Path(folder, name) for folder, _, names in os.walk(root) for name in names]
    games = [path for path in paths if path.suffix in (".z8", ".ulx", ".json") and path.is_file()]
    played = {path.with_suffix("") for path in games if path.suffix != ".json"}
    return sorted(path for path in games if path.suffix != ".json" or path.with_suffix("") not in played)


def _task_type(game: dict) -> str:
    """The challenge that tw-make was asked for, as it stands in the game's name."""
    metadata = game.get("metadata")
    name = str(metadata.get("uuid", "")) if isinstance(metadata, dict) else ""
    return next((kind for kind in CHALLENGES if name.startswith(f"tw-{kind}-")), "custom")


def _texts(value: object) -> list[str]:
    """Every text in a JSON value, at any depth."""
    if isinstance(value, dict):
        return [text for part in value.items() for text in _texts(list(part))]
    if isinstance(value, list):
        return [text for part in value for text in _texts(part)]
    return [value] if isinstance(value, str) else []
