"""Finds official ALFWorld games on disk: the folder layout of the release, or one packed file.

Game files come from outside: they are read as JSON, with bounds on size and memory, and nothing in
them is evaluated (TextWorld would run the code in a game's grammar). Whatever is wrong with one is a
ValueError that names the file.
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
MAX_JSON_SIGNS = 5_000_000  # commas and opening brackets, as each value takes up to 100 bytes of memory
MAX_XZ_MEMORY = 200_000_000  # bytes; `xz -9` needs a third of it
MAX_CHARACTERS = 1000  # of an id or a sentence


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
    file: Path
    packed: OfficialGame | None = None

    def read(self) -> OfficialGame:
        """The game. Raises ValueError where its file cannot be read any more."""
        game = self.packed or _read_game_file(self.file)
        if game is None:
            raise ValueError(f"{named(self.file)}: became unsolvable since the games were listed")
        return game


def find_games(path: Path | str, field: str, skipped: Counter[str]) -> dict[str, GameSource]:
    """The games under a folder or in a .json or .json.xz file, by task id, in order.

    Adds to `skipped` how many were left out, by reason. `field` names the setting in messages.
    Raises ValueError for a path that is not there, and for a file that is not what it should be.
    """
    try:
        return _find_games(Path(path).expanduser(), field, skipped)
    except (OSError, RuntimeError) as error:  # a RuntimeError tells of an unknown home or a loop of links
        where = getattr(error, "filename", None) or path
        raise ValueError(f"{field}: {named(where)}: cannot be looked at ({_reason(error)})") from error


def _find_games(path: Path, field: str, skipped: Counter[str]) -> dict[str, GameSource]:
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
            raise ValueError(f"{field}: {named(path)} holds two games {game.task_id!r}")
        games[game.task_id] = game
    return dict(sorted(games.items()))


def named(path: Path | str) -> str:
    """A path for a message: as it is, or escaped where it cannot be shown."""
    text = str(path)
    return text if text.isprintable() else ascii(text)


def _in_folder(root: Path, skipped: Counter[str]) -> Iterator[GameSource]:
    """Games at any depth. The id is split/task/trial, whichever of these folders is the root."""

    def refuse(error: OSError) -> None:
        raise error  # else os.walk passes over a folder that it cannot list

    for folder, folders, files in os.walk(root, onerror=refuse):
        folders.sort()
        trial = Path(folder).resolve()
        task_id = "/".join(trial.parts[-3:])
        if not (trial / GAME_FILE).is_file():  # nor a pipe, which would never end
            skipped["no game file"] += TRIAL_FILE in files
            continue
        _check_text(task_id, "the name of its folder", named(trial / GAME_FILE))
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
        raise ValueError(f"{named(path)}: holds {type(entries).__name__}; expected a list of games")
    for i, entry in enumerate(entries):
        where = f"{named(path)}: game {i}"
        task_id, goal = _text(entry, "id", where), _text(entry, "goal", where)
        _check_length(task_id, "id", where)
        _check_length(goal, "goal", where)
        task_type = _task_type(task_id)
        if task_type is None:
            skipped["not one of the six task types"] += 1
        elif entry.get("solvable", True) is not True:
            skipped["not solvable"] += 1
        else:
            sentence = goal if goal.endswith((".", "!", "?")) else f"{goal}."
            game = OfficialGame(sentence, _text(entry, "pddl_problem", where), _walkthrough(entry, where))
            yield GameSource(task_id, task_type, path, game)


def _read_game_file(path: Path) -> OfficialGame | None:
    """The game in a game.tw-pddl; None where the file says that it cannot be solved."""
    where = named(path)
    data = read_json(path, MAX_GAME_BYTES)
    problem, grammar = _text(data, "pddl_problem", where), _text(data, "grammar", where)
    if data.get("solvable") is not True:
        return None
    _, prefix, rest = grammar.partition(TASK_PREFIX)
    sentence, quote, _ = rest.partition('"')
    if not prefix or not quote:
        raise ValueError(f"{where}: its grammar has no sentence that starts with {TASK_PREFIX!r}")
    _check_length(sentence, "the sentence in its grammar", where)
    return OfficialGame(sentence, problem, _walkthrough(data, where))


def read_json(path: Path, max_bytes: int) -> object:
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
        if path.suffix == ".xz":
            content = _unpacked(content, max_bytes + 1)
        if len(content) > max_bytes:
            raise ValueError(f"more than {max_bytes} bytes")
        if len(content) > MAX_JSON_SIGNS and sum(map(content.count, (b",", b"[", b"{"))) > MAX_JSON_SIGNS:
            raise ValueError(f"more than {MAX_JSON_SIGNS} commas and opening brackets")
        return json.loads(content)
    except (OSError, ValueError, RecursionError, lzma.LZMAError, MemoryError) as error:
        raise ValueError(f"{named(path)}: cannot be read as JSON ({_reason(error)})") from error


def _unpacked(packed: bytes, max_bytes: int) -> bytes:
    """At most `max_bytes` of what an xz stream holds."""
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_XZ_MEMORY)
    content = decoder.decompress(packed, max_bytes)
    if len(content) < max_bytes and (not decoder.eof or decoder.unused_data):
        raise ValueError("more than one xz stream" if decoder.eof else "its xz stream ends early")
    return content


def _reason(error: BaseException) -> str:
    """What went wrong, without the path, which stands before it."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _text(data: object, name: str, where: str) -> str:
    value = data.get(name) if isinstance(data, dict) else None
    if not isinstance(value, str):
        raise ValueError(f"{where}: {name} is {type(value).__name__}; expected text")
    _check_text(value, name, where)
    return value


def _check_text(text: str, name: str, where: str) -> None:
    """JSON and names of files can hold halves of characters, which nothing can write."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where}: {name} has {text[error.start]!a} at character {error.start}; "
            "expected text that UTF-8 can hold"
        ) from error


def _check_length(text: str, name: str, where: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"{where}: {name} has {len(text)} characters; expected at most {MAX_CHARACTERS}")


def _walkthrough(data: dict, where: str) -> tuple[str, ...]:
    commands = data.get("walkthrough") or []
    if not isinstance(commands, list) or not all(isinstance(command, str) for command in commands):
        raise ValueError(f"{where}: walkthrough; expected a list of commands")
    for command in commands:
        _check_text(command, "walkthrough", where)
    return tuple(commands)


def _task_type(task_id: str) -> str | None:
    """The task type that the task's folder is named after. The release leaves tasks with sliced
    objects and movable receptacles out of ALFWorld, though their folders are there."""
    for part in task_id.split("/"):
        task_type, dash, rest = part.partition("-")
        if dash and task_type in TASK_TYPES and "Sliced" not in rest:
            return task_type
    return None
