"""Official games: recorded traces are replayed word for word, and folders and files are read safely."""

from __future__ import annotations

import json
import lzma
import os
import pickle
import random
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gagpo.config import WorldConfig
from gagpo.envs.alfworld import AlfworldWorld
from gagpo.envs.base import Env, make_world
from gagpo.envs.game import Game
from gagpo.envs.problem import TASK_TYPES

# A trial of the release, as small as it can be.
PROBLEM = """(define (problem p) (:domain alfred) (:objects)
  (:init (receptacleType Desk_bar_1 DeskType) (receptacleAtLocation Desk_bar_1 loc_bar_1)
    (receptacleType Bed_bar_1 BedType) (receptacleAtLocation Bed_bar_1 loc_bar_2)
    (canContain BedType BookType) (canContain DeskType BookType)
    (objectType Book_bar_1 BookType) (pickupable Book_bar_1) (inReceptacle Book_bar_1 Desk_bar_1)
    (objectAtLocation Book_bar_1 loc_bar_1) (atLocation agent1 loc_bar_0))
  (:goal (exists (?r - receptacle) (exists (?o - object)
    (and (inReceptacle ?o ?r) (objectType ?o BookType) (receptacleType ?r BedType))))))"""
WALKTHROUGH = ["go to desk 1", "take book 1 from desk 1", "go to bed 1", "move book 1 to bed 1"]
TASK = "pick_and_place_simple-Book-None-Bed-301"


def trial(root: Path, name: str, task: str = TASK, split: str = "train", **changes) -> Path:
    """Write a trial's folder; `changes` replace entries of its game file."""
    folder = root / split / task / name
    folder.mkdir(parents=True)
    (folder / "traj_data.json").write_text("{}")
    game = {
        "pddl_domain": "(define (domain alfred))",
        "grammar": 'grammar :: """ {"task": [{"rhs": "Your task is to: put a book on bed."}]} """;',
        "pddl_problem": PROBLEM,
        "solvable": True,
        "walkthrough": WALKTHROUGH,
    }
    (folder / "game.tw-pddl").write_text(json.dumps(game | changes))
    return folder


def world(games: Path | str | None, **settings) -> AlfworldWorld:
    made = make_world(WorldConfig(env="alfworld", games=None if games is None else str(games), **settings))
    assert isinstance(made, AlfworldWorld)
    return made


def everything(world: AlfworldWorld) -> dict[str, list[str]]:
    return {
        split: sorted(world.tasks(split, 10_000, np.random.default_rng(0))) for split in ("train", "unseen")
    }


def ids_of(world: AlfworldWorld) -> list[str]:
    return [task_id for ids in everything(world).values() for task_id in ids]


@pytest.fixture(scope="module")
def packed(shared_dir) -> Path:
    return shared_dir / "data" / "alfworld" / "valid_seen.json.xz"


@pytest.fixture(scope="module")
def traces(shared_dir) -> dict[str, list[list]]:
    """Game id -> its recorded traces, each a list of [command, observation, admissible, won]."""
    with lzma.open(shared_dir / "data" / "alfworld" / "valid_seen_traces.json.xz") as file:
        recorded = json.load(file)
    by_game: dict[str, list[list]] = {}
    for trace in recorded:
        by_game.setdefault(trace["id"], []).append(trace["steps"])
    return by_game


def mismatches(env: Game, steps: list) -> list[tuple]:
    """Steps in which the observation, the admissible commands, or `won` differ from the recording."""
    wrong = []
    for command, observation, admissible, won in steps:
        if command is None:
            seen, info = env.reset()
        else:
            known = command in env.admissible()
            seen, reward, terminated, truncated, info = env.step(command)
            assert info["valid"] == known and (reward, terminated) == (10.0 * won, won) and not truncated
        if (seen, list(env.admissible()), info["won"]) != (observation, admissible, won):
            wrong.append((env.task_id, command, seen, observation))
    return wrong


def test_all_recorded_traces_replay_without_a_mismatch(packed, traces):
    games = world(packed, max_steps=1000)
    ids = ids_of(games)
    assert sorted(ids) == sorted(traces) and len(ids) == 140
    num_steps = 0
    for task_id, recorded in traces.items():
        for steps in recorded:
            assert mismatches(games.make(task_id), steps) == []
            num_steps += sum(command is not None for command, *_ in steps)
    assert (sum(map(len, traces.values())), num_steps) == (280, 5012)


def test_the_real_folders_replay_and_those_without_a_game_are_counted(shared_dir, traces):
    games = world(shared_dir / "data" / "alfworld" / "json_2.1.1", max_steps=1000)
    assert games.skipped == {"no game file": 3}
    ids = everything(games)
    assert (len(ids["train"]), len(ids["unseen"])) == (4, 1)
    num_traces = 0
    for task_id in ids["train"] + ids["unseen"]:
        assert games.task_type(task_id) in task_id
        for steps in traces.get(task_id, []):
            assert mismatches(games.make(task_id), steps) == []
            num_traces += 1
    assert num_traces >= 8


def test_planner_and_walkthroughs_win_every_official_game(packed):
    games = world(packed, max_steps=1000)
    for task_id in ids_of(games):
        env = games.make(task_id)
        problem = env._rules.problem
        assert problem.goal.task_type == games.task_type(task_id) in TASK_TYPES
        plan = env.plan()
        assert len(plan) <= len(problem.walkthrough)
        for commands in (plan, problem.walkthrough):
            env.reset()
            results = [env.step(command) for command in commands]
            assert all(info["valid"] for *_, info in results)
            assert [terminated for _, _, terminated, _, _ in results] == [False] * (len(commands) - 1) + [
                True
            ]


def test_the_planner_wins_official_games_after_any_wandering(packed):
    games = world(packed, max_steps=1000)
    rng = random.Random(0)
    dead_ends = Counter()
    for task_id in ids_of(games):
        for num_steps in (5, 20, 40):
            env = games.make(task_id)
            if any(env.step(rng.choice(env.admissible()))[2] for _ in range(num_steps)):
                continue
            plan = env.plan()
            if plan is None:  # some objects of the official games fit nowhere, once they are taken
                rules, held = env._rules, env.snapshot()[0].held
                assert held is not None and not rules.fits[held]
                dead_ends[rules.object_types[held]] += 1
                continue
            results = [env.step(command) for command in plan]
            assert all(info["valid"] for *_, info in results) and results[-1][2] and env.plan() == []
    assert set(dead_ends) <= {"papertowelroll", "teddybear"} and dead_ends.total() < 20


def test_words_cover_all_recorded_text(packed, traces):
    games = world(packed)
    known = games.words()
    texts = [games.make(task_id).goal for task_id in traces]
    for recorded in traces.values():
        for steps in recorded:
            for _, observation, admissible, _ in steps:
                texts += [observation, *admissible]
    said = {token for text in texts for token in re.findall(r"\w+|[^\w\s]", text.lower())}
    assert said <= known and len(said) > 150
    assert len(known) < 500


def test_official_splits_filters_and_draws(packed):
    games = world(packed)
    ids = everything(games)
    assert (len(ids["train"]), len(ids["unseen"])) == (112, 28)
    assert not set(ids["train"]) & set(ids["unseen"])
    assert everything(world(packed)) == ids  # the same games are held out every time
    drawn = games.tasks("train", 16, np.random.default_rng(0))
    assert len(set(drawn)) == 16 and set(drawn) <= set(ids["train"])
    assert drawn == games.tasks("train", 16, np.random.default_rng(0))
    two = world(packed, task_types=("pick_two_obj_and_place",))
    assert len(ids_of(two)) == 24


def test_a_small_game_is_found_read_and_played(tmp_path):
    for i in range(3):
        trial(tmp_path / "json_2.1.1", f"trial_T{i}")
    games = world(tmp_path)
    ids = everything(games)
    assert (len(ids["train"]), len(ids["unseen"])) == (2, 1)
    assert set(ids_of(games)) == {f"train/{TASK}/trial_T{i}" for i in range(3)}
    # whichever folder is given, ids are the same
    assert everything(world(tmp_path / "json_2.1.1" / "train")) == ids
    env = games.make(ids["train"][0])
    assert env.goal == "put a book on bed."
    observation, _ = env.reset()
    assert observation.endswith("you see a bed 1, and a desk 1.\n\nYour task is to: put a book on bed.")
    assert env.plan() == WALKTHROUGH and isinstance(env, Env)
    assert [env.step(command)[2] for command in WALKTHROUGH] == [False, False, False, True]
    assert pickle.loads(pickle.dumps(env)).state_key() == env.state_key()


def test_unseen_games_of_their_own(tmp_path):
    trial(tmp_path / "a", "trial_1")
    trial(tmp_path / "b", "trial_1", split="valid_unseen")
    games = world(tmp_path / "a", unseen_games=str(tmp_path / "b"))
    assert everything(games) == {
        "train": [f"train/{TASK}/trial_1"],
        "unseen": [f"valid_unseen/{TASK}/trial_1"],
    }
    with pytest.raises(ValueError, match="unseen_games: 1 games are in games too"):
        world(tmp_path / "a", unseen_games=str(tmp_path / "a"))
    with pytest.raises(ValueError, match=r"games: '.*a' holds 1 game .*skipped: none.; expected at least 2"):
        world(tmp_path / "a")


def test_unusable_trials_are_counted_by_reason(tmp_path):
    trial(tmp_path, "trial_1")
    trial(tmp_path, "trial_2")
    trial(tmp_path, "trial_3", solvable=False)
    trial(tmp_path, "trial_4", task="pick_and_place_with_movable_recep-Book-Box-Bed-301")
    trial(tmp_path, "trial_5", task="pick_heat_then_place_in_recep-AppleSliced-None-SinkBasin-30")
    (trial(tmp_path, "trial_6") / "game.tw-pddl").unlink()
    games = world(tmp_path)
    assert games.skipped == Counter(
        {"not one of the six task types": 2, "not solvable": 1, "no game file": 1}
    )
    assert len(ids_of(games)) == 2


def test_a_packed_file_of_ones_own(tmp_path):
    entries = [
        {"id": f"mine/{TASK}/{i}", "goal": "put a book on bed", "pddl_problem": PROBLEM} for i in range(4)
    ]
    entries[3]["solvable"] = False
    path = tmp_path / "games.json"
    path.write_text(json.dumps(entries))
    games = world(path)
    assert games.skipped == {"not solvable": 1}
    assert games.make(f"mine/{TASK}/0").goal == "put a book on bed."
    path.write_text(json.dumps([*entries, entries[0]]))
    with pytest.raises(ValueError, match="holds two games"):
        world(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", r"games.json: cannot be read as JSON"),
        (b"[" * 100_000, r"games.json: cannot be read as JSON"),
        (b"\xff\xfe\x00", r"games.json: cannot be read as JSON"),
        (b'{"a": 1}', r"games.json: holds dict; expected a list"),
        (b"[3]", r"games.json: game 0: id is NoneType; expected text"),
        (b'[{"id": "x", "goal": 3}]', r"games.json: game 0: goal is int|NoneType"),
        (b"[]", r"holds no game"),
    ],
)
def test_broken_packed_files_are_refused_by_path(tmp_path, content, message):
    path = tmp_path / "games.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        world(path)


def test_broken_compression_is_refused_by_path(tmp_path):
    path = tmp_path / "games.json.xz"
    for content in (b"not xz", lzma.compress(b"[1, 2, 3]" * 1000)[:-30]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"games.json.xz: cannot be read as JSON"):
            world(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grammar": "no sentence"}, "no sentence that starts with 'Your task is to: '"),
        ({"grammar": "Your task is to: never ends"}, "no sentence"),
        ({"pddl_problem": 3}, "pddl_problem is int; expected text"),
        ({"walkthrough": [3]}, "walkthrough; expected a list of commands"),
    ],
)
def test_broken_game_files_are_refused_by_path(tmp_path, changes, message):
    folder = trial(tmp_path, "trial_1", **changes)
    with pytest.raises(ValueError, match=f"{re.escape(str(folder))}.*{message}"):
        world(tmp_path)


def test_a_corrupt_game_file_and_a_broken_problem_name_the_game(tmp_path):
    trial(tmp_path, "trial_1", pddl_problem=PROBLEM.replace("(objectType ?o BookType)", "(isSliced ?o)"))
    trial(tmp_path, "trial_2")
    with pytest.raises(ValueError, match=r"game 'train/.*/trial_1': :goal: not the goal of one of"):
        world(tmp_path).make(f"train/{TASK}/trial_1")
    (trial(tmp_path, "trial_3") / "game.tw-pddl").write_text('{"pddl_problem": ')
    with pytest.raises(ValueError, match=r"trial_3/game.tw-pddl: cannot be read as JSON"):
        world(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_place_of_a_game_is_not_waited_for(tmp_path):
    for i in range(3):
        folder = trial(tmp_path, f"trial_{i}")
    (folder / "game.tw-pddl").unlink()
    os.mkfifo(folder / "game.tw-pddl")
    assert world(tmp_path).skipped == {"no game file": 1}


def test_code_in_a_grammar_is_text(tmp_path):
    marker = tmp_path / "ran"
    sentence = f"put {{__import__('pathlib').Path('{marker}').touch()}} on bed."
    for name in ("trial_1", "trial_2"):
        trial(tmp_path / "games", name, grammar=f'{{"rhs": "Your task is to: {sentence}"}}')
    games = world(tmp_path / "games")
    assert sentence in games.make(f"train/{TASK}/trial_1").reset()[0]
    assert games.words() and not marker.exists()


def test_what_is_missing_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match=r"games: no file or folder .*alfworld-download.*json_2\.1\.1"):
        world(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="games: not set"):
        world(None)
    trial(tmp_path, "trial_1")
    trial(tmp_path, "trial_2")
    with pytest.raises(
        ValueError, match=r"holds no game of task types look_at_obj_in_light .2 of other types"
    ):
        world(tmp_path, task_types=("look_at_obj_in_light",))
    with pytest.raises(ValueError, match="task_types: 'look'"):
        world(tmp_path, task_types=("look",))
    with pytest.raises(ValueError, match=r"task_id: 'train/x' is none of the 2 games"):
        world(tmp_path).make("train/x")
    with pytest.raises(ValueError, match="split: 'valid'"):
        world(tmp_path).tasks("valid", 1, np.random.default_rng(0))
