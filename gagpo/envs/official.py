"""Finds official ALFWorld games on disk: the folder layout of the release, or one packed file.

Game files come from outside: they are read as JSON, with a bound on their size, and nothing in
them is evaluated (TextWorld would run the code in a game's grammar).
"""

from __future__ import annotations

import json
import lzma
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gagpo.envs.problem import TASK_TYPES
from gagpo.envs.wording import TASK_PREFIX

GAME_FILE = "game.tw-pddl"
TRIAL_FILE = "traj_data.json"
MAX_GAME_BYTES = 20_000_000
MAX_PACKED_BYTES = 500_000_000


@dataclass(frozen=True, slots=True)
class OfficialGame:
    """The texts of one game; `sentence` is the task in words, with its full stop."""

    sentence: str
    pddl_problem: str
    walkthrough: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GameSource:
    """A game that was found. Those of a folder are read again when they are played."""

    task_id: str
    task_type: str
    source: Path | OfficialGame

    def read(self) -> OfficialGame:
        if isinstance(self.source, OfficialGame):
            return self.source
        game = _read_game_file(self.source)
        if game is None:
            raise ValueError(f"{self.source}: became unsolvable since the games were listed")
        return game


def find_games(path: Path, field: str, skipped: Counter[str]) -> dict[str, GameSource]:
    """The games under a folder or in a .json or .json.xz file, by task id, in order.

    Adds to `skipped` how many were left out, by reason. `field` names the setting in messages.
    Raises ValueError for a path that is not there, and for a file that is not what it should be.
    """
    if path.is_dir():
        found = _in_folder(path, skipped)
    elif path.is_file():
        found = _in_packed_file(path, skipped)
    else:
        raise ValueError(
            f"{field}: no file or folder {str(path)!r}. `alfworld-download` fetches the official games; "
            "give its folder json_2.1.1, a folder in it such as json_2.1.1/train, or a packed file"
        )
    games: dict[str, GameSource] = {}
    for game in found:
        if game.task_id in games:
            raise ValueError(f"{field}: {path} holds two games {game.task_id!r}")
        games[game.task_id] = game
    return dict(sorted(games.items()))


def _in_folder(root: Path, skipped: Counter[str]) -> Iterator[GameSource]:
    """Games at any depth. The id is split/task/trial, whichever of these folders is the root."""
    for folder, folders, files in os.walk(root):
        folders.sort()
        trial = Path(folder).resolve()
        task_id = "/".join(trial.parts[-3:])
        if not (trial / GAME_FILE).is_file():  # nor a pipe, which would never end
            skipped["no game file"] += TRIAL_FILE in files
            continue
        task_type = _task_type(task_id)
        if task_type is None:
            skipped["not one of the six task types"] += 1
        elif _read_game_file(trial / GAME_FILE) is None:
            skipped["not solvable"] += 1
        else:
            yield GameSource(task_id, task_type, trial / GAME_FILE)


def _in_packed_file(path: Path, skipped: Counter[str]) -> Iterator[GameSource]:
    entries = read_json(path, MAX_PACKED_BYTES)
    if not isinstance(entries, list):
        raise ValueError(f"{path}: holds {type(entries).__name__}; expected a list of games")
    for i, entry in enumerate(entries):
        where = f"{path}: game {i}"
        task_id, goal = _text(entry, "id", where), _text(entry, "goal", where)
        task_type = _task_type(task_id)
        if task_type is None:
            skipped["not one of the six task types"] += 1
        elif entry.get("solvable", True) is not True:
            skipped["not solvable"] += 1
        else:
            sentence = goal if goal.endswith((".", "!", "?")) else f"{goal}."
            game = OfficialGame(sentence, _text(entry, "pddl_problem", where), _walkthrough(entry, where))
            yield GameSource(task_id, task_type, game)


def _read_game_file(path: Path) -> OfficialGame | None:
    """The game in a game.tw-pddl; None where the file says that it cannot be solved."""
    where = str(path)
    data = read_json(path, MAX_GAME_BYTES)
    problem, grammar = _text(data, "pddl_problem", where), _text(data, "grammar", where)
    if data.get("solvable") is not True:
        return None
    _, prefix, rest = grammar.partition(TASK_PREFIX)
    sentence, quote, _ = rest.partition('"')
    if not prefix or not quote:
        raise ValueError(f"{where}: its grammar has no sentence that starts with {TASK_PREFIX!r}")
    return OfficialGame(sentence, problem, _walkthrough(data, where))


def read_json(path: Path, max_bytes: int) -> object:
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            content = file.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise ValueError(f"more than {max_bytes} bytes")
        return json.loads(content)
    except (ValueError, RecursionError, EOFError, lzma.LZMAError) as error:
        raise ValueError(f"{path}: cannot be read as JSON ({error})") from error


def _text(data: object, name: str, where: str) -> str:
    value = data.get(name) if isinstance(data, dict) else None
    if not isinstance(value, str):
        raise ValueError(f"{where}: {name} is {type(value).__name__}; expected text")
    return value


def _walkthrough(data: dict, where: str) -> tuple[str, ...]:
    commands = data.get("walkthrough") or []
    if not isinstance(commands, list) or not all(isinstance(command, str) for command in commands):
        raise ValueError(f"{where}: walkthrough; expected a list of commands")
    return tuple(commands)


def _task_type(task_id: str) -> str | None:
    """The task type that the task's folder is named after. The release leaves tasks with sliced
    objects and movable receptacles out of ALFWorld, though their folders are there."""
    for part in task_id.split("/"):
        task_type, dash, rest = part.partition("-")
        if dash and task_type in TASK_TYPES and "Sliced" not in rest:
            return task_type
    return None
