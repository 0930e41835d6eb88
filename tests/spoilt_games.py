"""Game files spoilt in every way, and what comes of playing them."""

from __future__ import annotations

import functools
import json
import lzma
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gagpo.config import WorldConfig
from gagpo.envs import official, tw_pddl
from gagpo.envs.base import make_world
from gagpo.envs.export import problem_text
from gagpo.envs.game import Game
from gagpo.envs.houses import generate
from gagpo.envs.problem import TASK_TYPES
from gagpo.envs.rules import Rules

KEYS = ("pddl_domain", "grammar", "pddl_problem", "solvable", "walkthrough", "id", "goal")
# What stands in PDDL, in JSON and in grammars, and what has confused readers before.
WORDS = (
    *(
        "(",
        ")",
        ";",
        "\n",
        "\0",
        '"',
        "\\",
        "?r",
        "?o",
        "=",
        "and",
        "or",
        "not",
        "exists",
        "forall",
        "define",
    ),
    *(
        ":init",
        ":goal",
        ":domain",
        "alfred",
        "total-cost",
        "atLocation",
        "inReceptacle",
        "canContain",
        "isHot",
    ),
    *("objectType", "opened", "loc_bar_1", "agent1", "a" * 3000, "\u2028", "\x1b[2J", "ı", "{0}", "{o.name}"),
    *(
        "\ud800",
        "1e999",
        "NaN",
        "{__import__('os').abort()}",
        "((((((((" * 8,
        "_bar_",
        "basin_bar_",
        "-",
        "9" * 5000,
    ),
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=8)
    | st.sampled_from([10**4000, float("nan"), float("-inf"), "\ud800", "\udfff\ud800", "x" * 5000]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@functools.cache
def valid_games() -> tuple[dict[str, Any], ...]:
    """A generated game of each task type, as a game file holds it, with a packed file's keys too."""
    games = []
    for seed, task_type in enumerate(TASK_TYPES):
        problem = generate(task_type, random.Random(seed), 5, 4)
        games.append(
            {
                "id": f"mine/{task_type}-{seed}/trial_1",
                "goal": problem.sentence,
                "grammar": tw_pddl.grammar(problem.sentence),
                "pddl_problem": problem_text(problem),
                "solvable": True,
                "walkthrough": Game(Rules(problem), "x", max_steps=1, success_reward=1.0).plan(),
            }
        )
    return tuple(games)


def outcome(games: Path, file: Path) -> str:
    """Play every game under `games`: "played", or the message of the ValueError that refuses one.

    Fails where anything else is raised, and for a message that does not name `file`, cannot be
    shown, or is as long as what it complains about."""
    play = random.Random(0)
    try:
        world = make_world(WorldConfig(env="alfworld", games=str(games), unseen_games=None, max_steps=25))
        envs = [world.make(task_id) for split in ("train", "unseen") for task_id in drawn(world, split)]
    except ValueError as error:
        message = str(error)
        named = official.named(file) in message or ascii(str(file))[1:-1] in message
        assert type(error) is ValueError and named and message.isprintable(), repr(error)
        assert len(message) < 1500 + 2 * len(str(file)), message
        return message
    assert envs
    for env in envs:
        text, info = env.reset()
        json.dumps(
            [text, env.goal, env.task_id, env.render(), *env.admissible()], ensure_ascii=False
        ).encode()
        ended = info["won"]
        while not ended:
            expert = env.expert()
            command = expert if expert and play.random() < 0.5 else play.choice(env.admissible())
            _, _, terminated, truncated, info = env.step(command)
            assert info["valid"]
            ended = terminated or truncated
    return "played"


def drawn(world: Any, split: str) -> list[str]:
    return world.tasks(split, 100, np.random.default_rng(0))


def packed(folder: Path, content: bytes, name: str = "games.json") -> Path:
    path = folder / name
    path.write_bytes(lzma.compress(content) if path.suffix == ".xz" else content)
    return path


def outcome_of_packed(content: bytes, name: str = "games.json") -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = packed(Path(folder), content, name)
        return outcome(path, path)


def trial_folder(root: Path, name: str, content: bytes) -> Path:
    """A trial with this game file; returns the file."""
    folder = root / "train" / "pick_and_place_simple-X-None-Y-1" / name
    folder.mkdir(parents=True)
    (folder / official.GAME_FILE).write_bytes(content)
    return folder / official.GAME_FILE


def outcome_of_folder(content: bytes) -> str:
    """The file beside two good ones: games for both splits, even where it says it is not solvable."""
    with tempfile.TemporaryDirectory() as folder:
        for i in range(2):
            trial_folder(Path(folder), f"good_{i}", json.dumps(valid_games()[i]).encode())
        return outcome(Path(folder), trial_folder(Path(folder), "odd", content))


READERS: dict[str, Callable[[bytes], str]] = {
    "folder": outcome_of_folder,
    "packed": lambda content: outcome_of_packed(b"[" + valid_bytes() + b"," + content + b"]"),
    "packed xz": lambda content: outcome_of_packed(
        b"[" + valid_bytes() + b"," + content + b"]", "games.json.xz"
    ),
}


def valid_bytes() -> bytes:
    return json.dumps(valid_games()[1]).encode()


@st.composite
def mutated_bytes(draw: st.DrawFn) -> bytes:
    """A valid file, cut, spliced, or with foreign bytes in it."""
    games = st.sampled_from(valid_games()).map(lambda game: json.dumps(game).encode())
    content = draw(games)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.sampled_from([start, start + 1, start + 40, len(content)]))
        new = draw(
            st.binary(max_size=6) | st.sampled_from([word.encode("utf-8", "surrogatepass") for word in WORDS])
        )
        content = content[:start] + new + content[end:]
    if draw(st.booleans()):
        other = draw(games)
        content = content[: draw(st.integers(0, len(content)))] + other[draw(st.integers(0, len(other))) :]
    return content


@st.composite
def mutated_values(draw: st.DrawFn) -> bytes:
    """A valid game with values of other types, lost keys and keys that occur twice."""
    game = dict(draw(st.sampled_from(valid_games())))
    pairs = list(game.items())
    for key in draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3)):
        value = draw(json_values)
        kind = draw(st.sampled_from(("replace", "remove", "twice")))
        if kind != "twice":
            pairs = [pair for pair in pairs if pair[0] != key]
        if kind != "remove":
            pairs.insert(draw(st.integers(0, len(pairs))), (key, value))
    return ("{" + ",".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in pairs) + "}").encode()


@st.composite
def mutated_problems(draw: st.DrawFn) -> bytes:
    """A valid game whose problem has words dropped, doubled, moved, and words from elsewhere."""
    game = dict(draw(st.sampled_from(valid_games())))
    field = draw(st.sampled_from(("pddl_problem", "pddl_problem", "pddl_problem", "grammar", "goal")))
    words = game[field].replace("(", " ( ").replace(")", " ) ").split(" ")
    for _ in range(draw(st.integers(1, 6))):
        i = draw(st.integers(0, len(words) - 1)) if words else 0
        kind = draw(st.sampled_from(("drop", "double", "swap", "cut", "foreign")))
        if kind == "swap" and words:
            j = draw(st.integers(0, len(words) - 1))
            words[i], words[j] = words[j], words[i]
        elif kind == "foreign":
            words[i : i + draw(st.integers(0, 1))] = [draw(st.sampled_from(WORDS))]
        elif kind == "cut":
            del words[i : i + draw(st.integers(0, 30))]
        else:
            words[i : i + 1] = words[i : i + 1] * (2 * (kind == "double"))
    return json.dumps(game | {field: " ".join(words)}).encode()
