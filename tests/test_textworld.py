"""TextWorld's own games as a world: with a stand-in for TextWorld, and with itself where it is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import gagpo.envs.textworld as world_module
from gagpo.config import WorldConfig
from gagpo.envs.base import make_world
from gagpo.envs.check import check_env, check_world
from gagpo.envs.tw_game import TextWorldGame, clean, facts_in_words
from gagpo.envs.worker import WorkerEnv

needs_textworld = pytest.mark.skipif(
    find_spec("textworld") is None, reason="TextWorld is not installed (pip install textworld)"
)


@dataclass(frozen=True)
class Fact:
    name: str
    names: tuple[str, ...]

    @property
    def arguments(self):
        return [SimpleNamespace(name=name, type=name if name in "PI" else "o") for name in self.names]

    def __str__(self):
        return f"{self.name}{self.names}"


class Shelf:
    """What a game of TextWorld shows, by hand: three things lie on a shelf, two points, an oven to avoid.

    As in the interpreter, what was put down last is listed first."""

    unwrapped = SimpleNamespace(seed=lambda seed: None)

    def __init__(self) -> None:
        self.played: list[str] = []

    def reset(self):
        self.shelf, self.hand, self.points, self.lost = ["cup", "fork", "pan"], [], 0, False
        return self.state("")

    def step(self, command: str):
        self.played.append(command)
        verb, _, thing = command.partition(" ")
        if verb == "take":
            self.shelf.remove(thing)
            self.hand.insert(0, thing)
            self.points = max(self.points, len(self.hand) - 1)
        elif verb == "put":
            self.hand.remove(thing)
            self.shelf.insert(0, thing)
        self.lost = verb == "burn"
        state = self.state(f"\n  You   {verb}.\n\n>      -= Kitchen =-0/{len(self.played)}")
        return state, self.points, state["won"] or state["lost"]

    def state(self, feedback: str):
        facts = [Fact("at", ("P", "kitchen")), *(Fact("on", (thing, "shelf")) for thing in self.shelf)]
        facts += [Fact("in", (thing, "I")) for thing in self.hand]
        quest = SimpleNamespace(
            nb_completions=self.points, completed=self.points == 2, failed=False, unfinishable=False
        )
        return {
            "feedback": feedback,
            "description": f"-= Kitchen =-\nOn the shelf: {', '.join(self.shelf)}.\n\n>  -= Kitchen =-0/0",
            "facts": facts,
            "admissible_commands": [
                "look",
                "burn",
                *(f"take {thing}" for thing in self.shelf),
                *(f"put {thing}" for thing in self.hand),
            ],
            "policy_commands": [f"take {self.shelf[0]}"] if self.shelf and self.points < 2 else [],
            "won": self.points == 2,
            "lost": self.lost,
            "score": self.points,
            "max_score": 2,
            "objective": "take\n all.",
            "_game_progression": SimpleNamespace(quest_progressions=[quest]),
        }


@pytest.fixture
def game(monkeypatch, tmp_path) -> TextWorldGame:
    fake = ModuleType("textworld")
    fake.start, fake.EnvInfos = (lambda path, infos: Shelf()), dict
    monkeypatch.setitem(sys.modules, "textworld", fake)
    settings = {"max_steps": 9, "success_reward": 10.0, "score_reward": 3.0}
    return TextWorldGame(tmp_path / "g.z8", "textworld/g/0", **settings)


def test_rewards_and_ends_by_hand(game):
    assert game.goal == "take all."
    assert game.reset() == ("-= Kitchen =-\nOn the shelf: cup, fork, pan.", {"won": False})
    going = (False, False, {"won": False, "valid": True})
    assert game.step("take cup") == ("You take.", 0.0, *going)
    assert game.step(" take fork ") == ("You take.", 1.5, *going), "a point of two, of score_reward 3"
    assert game.step("take pan") == ("You take.", 11.5, True, False, {"won": True, "valid": True})
    assert game.expert() is None
    with pytest.raises(ValueError, match="has ended"):
        game.step("look")
    game.reset()
    assert game.step("burn")[1:] == (0.0, True, False, {"won": False, "valid": True})
    with pytest.raises(ValueError, match="has ended"):
        game.step("look")


def test_only_admissible_commands_reach_textworld(game):
    key = game.state_key()
    for command in ("undo", "restart", "take all", ""):
        assert game.step(command) == ("Nothing happens.", 0.0, False, False, {"won": False, "valid": False})
    assert game._env.played == [] and game.state_key() == key
    for _ in range(4):
        game.step("look")
    assert game.step("look")[2:4] == (False, True)
    with pytest.raises(ValueError, match="has ended"):
        game.step("look")


def test_a_key_tells_the_order_of_what_lies_together(game):
    """Put back in another order, the facts are the same, and what is read is not."""

    def play(*commands: str) -> tuple[str, tuple[str, ...]]:
        game.reset()
        for command in commands:
            game.step(command)
        return game.state_key(), tuple(game._env.shelf), game.render()

    one = play("take cup", "take fork", "put cup", "put fork")
    two = play("take cup", "take fork", "put fork", "put cup")
    assert one[1] != two[1] and one[2] == two[2] and one[0] != two[0]
    again = play("look", "take fork", "put fork", "look", "take cup", "put cup", "take fork", "put fork")
    assert again[1] == one[1] and again[2] != one[2], "here no point was made"
    assert play("take cup", "take fork", "look", "put cup", "put fork")[0] == one[0]
    back = play("take pan", "put pan", "take pan", "put pan", "take fork", "put fork")
    assert back[0] == play("take pan", "put pan", "take fork", "put fork")[0], "the last arrival counts"
    # cup alone was never moved, or was moved before the others came: it lies below them all the same
    first = ("take fork", "put fork", "take pan", "put pan")
    assert play("take cup", "put cup", *first)[0] == play(*first)[0]


def test_a_snapshot_is_played_again_from_the_start_or_from_here(game):
    game.step("take fork")
    early = game.snapshot()
    game.step("xyzzy")
    game.step("take cup")
    late, key, played = game.snapshot(), game.state_key(), list(game._env.played)
    assert late == (("take fork", "take cup"), 3) and hash(late)
    game.restore(late)
    assert game._env.played == played, "nothing had to be played"
    game.restore(early)
    assert game._env.played == [*played, "take fork"] and game.snapshot() == early
    game.restore(late)
    assert game._env.played == [*played, "take fork", "take cup"] and game.state_key() == key


def test_text_without_what_counts_the_moves():
    text = (
        "\n  You open  the box.\n\n\n   *** The End ***\n\nYou scored 1 out of 1, in 6 turns.\n>   -= A =-1/6"
    )
    assert clean(text) == "You open the box.\n*** The End ***"
    assert clean("a > b\nc\n>     -= Room =-0/5") == "a > b\nc"


def test_facts_in_words():
    facts = [Fact("in", ("key", "I")), Fact("closed", ("chest",)), Fact("north_of", ("attic", "hall"))]
    assert facts_in_words(facts) == ["attic is north of hall", "chest is closed", "key is in the inventory"]


@pytest.fixture
def listed(monkeypatch):
    """Listing needs the files only; the package counts as installed."""
    monkeypatch.setattr(world_module, "find_spec", lambda name: object())
    return lambda path, **settings: make_world(WorldConfig(env="textworld", games=str(path), **settings))


def definition(path, number: int, name: str = "tw-abc-house", **changes) -> None:
    path.parent.mkdir(exist_ok=True)
    content = {"version": 1, "world": [number], "quests": [], "KB": {}, "metadata": {"uuid": name}}
    path.write_text(json.dumps(content | changes))


def test_splits_go_by_content(listed, tmp_path):
    games, more = tmp_path / "games", tmp_path / "more"
    for number in range(11):
        definition(games / f"g{number}.json", number)
    definition(games / "copy.json", 3, "tw-another-name")
    world = listed(games)
    rng = np.random.default_rng(0)
    train, unseen = (set(world.tasks(split, 99, rng)) for split in ("train", "unseen"))
    assert len(train) == 9 and len(unseen) == 2 and not train & unseen
    assert world.skipped == {"same game as another file": 1}
    digests = [task.rpartition("/")[2] for task in [*train, *unseen]]
    assert len(set(digests)) == 11
    assert max(task.rpartition("/")[2] for task in unseen) < min(task.rpartition("/")[2] for task in train)
    for path in games.iterdir():
        path.rename(path.with_stem(f"renamed_{path.stem}"))
    again = {task.rpartition("/")[2] for task in listed(games).tasks("unseen", 99, rng)}
    assert again == {task.rpartition("/")[2] for task in unseen}, "names decide nothing"
    definition(more / "other.json", 4, "tw-x")
    with pytest.raises(ValueError, match=r"unseen_games: 1 games are in games too, such as .*renamed_"):
        listed(games, unseen_games=str(more))


def test_what_is_skipped_is_counted(listed, tmp_path):
    definition(tmp_path / "a.json", 0, "tw-cooking-recipe1-x")
    definition(tmp_path / "b.json", 1, "tw-simple-x")
    for name in ("b.z8", "alone.z8", "old.ulx"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "traj_data.json").write_text("[]")
    world = listed(tmp_path)
    types = {task: world.task_type(task) for task in (*world.tasks("train", 9, np.random.default_rng(0)),)}
    assert len(types) == 1 and sum(world.skipped.values()) == 3
    assert {reason.split(",")[0].split(" ")[0] for reason in world.skipped} == {".ulx", ".z8", ".json"}
    paths = {game.path.name: game.task_type for game in world._games.values()}
    assert paths == {"a.json": "cooking", "b.z8": "simple"}, "a .json belongs to the .z8 beside it"
    with pytest.raises(ValueError, match="1 game; expected at least 2"):
        listed(tmp_path, task_types=("cooking",))
    with pytest.raises(ValueError, match="task_types: 'cook'; env textworld has simple, cooking"):
        listed(tmp_path, task_types=("cook",))


def test_messages(listed, tmp_path):
    with pytest.raises(ValueError, match="games: not set"):
        make_world(WorldConfig(env="textworld"))
    with pytest.raises(ValueError, match="games: no file or folder"):
        listed(tmp_path / "none")
    with pytest.raises(ValueError, match=r"holds no \.z8 or \.json game"):
        listed(tmp_path)
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ValueError, match=r"bad\.json: cannot be read as JSON"):
        listed(tmp_path)
    (tmp_path / "bad.json").unlink()
    for number in range(2):
        definition(tmp_path / f"g{number}.json", number)
    world = listed(tmp_path)
    for call in (world.make, world.make_here, world.task_type):
        with pytest.raises(ValueError, match="none of the 2 games"):
            call("textworld/g0/0")
    with pytest.raises(ValueError, match="split: 'test'"):
        world.tasks("test", 1, np.random.default_rng(0))


def test_without_textworld_the_message_says_what_to_do(tmp_path):
    program = f"""
import importlib.util, sys
importlib.util.find_spec = lambda name: None
sys.modules["textworld"] = None
from gagpo.config import WorldConfig
from gagpo.envs.base import make_world
try:
    make_world(WorldConfig(env="textworld", games={str(tmp_path)!r}))
except ValueError as error:
    sys.exit(7 if "pip install textworld" in str(error) else 1)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 7


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Two .z8 games and a .json one, made by TextWorld in a process of its own."""
    folder = tmp_path_factory.mktemp("games")
    program = """
import sys, textworld
for seed in (1, 2, 3):
    options = textworld.GameOptions()
    options.seeds, options.nb_rooms, options.nb_objects = seed, 3, 6
    options.chaining.max_length = options.chaining.max_depth = 3
    options.path = f"{sys.argv[1]}/game{seed}.z8"
    textworld.make(options)
"""
    subprocess.run([sys.executable, "-c", program, folder], check=True, timeout=300, capture_output=True)
    (folder / "game3.z8").unlink()
    return folder


@needs_textworld
def test_the_contract_in_processes_of_their_own(made):
    config = WorldConfig(env="textworld", games=str(made), max_steps=12, score_reward=1.0)
    world = make_world(config)
    assert len(world._games) == 3
    task_id = next(game.task_id for game in world._games.values() if game.path.suffix == ".z8")
    assert isinstance(world.make(task_id), WorkerEnv)
    check_env(lambda: world.make(task_id), num_steps=8)


@needs_textworld
def test_both_splits_and_the_words(made):
    world = make_world(WorldConfig(env="textworld", games=str(made), max_steps=8))
    check_world(world, num_tasks=2, num_steps=5)


@needs_textworld
def test_the_expert_wins_every_game(made):
    world = make_world(WorldConfig(env="textworld", games=str(made), score_reward=1.0))
    for task_id in world._games:
        env = world.make(task_id)
        env.reset()
        total, ended = 0.0, False
        while not ended:
            _, reward, ended, truncated, info = env.step(env.expert())
            total += reward
        assert info["won"] and not truncated and total == pytest.approx(11.0)
        env.close()
