"""Game files from elsewhere, spoilt in every way: each is refused by file and field, or it plays."""

from __future__ import annotations

import json
import lzma
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spoilt_games import (
    READERS,
    drawn,
    mutated_bytes,
    mutated_problems,
    mutated_values,
    outcome,
    outcome_of_folder,
    outcome_of_packed,
    packed,
    trial_folder,
    valid_bytes,
    valid_games,
)

from gagpo.config import WorldConfig
from gagpo.envs import official, tw_pddl
from gagpo.envs.base import make_world
from gagpo.envs.export import export_game
from gagpo.envs.houses import generate
from gagpo.envs.problem import TASK_TYPES

FUZZ = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("mutated", [mutated_bytes, mutated_values, mutated_problems])
def test_a_spoilt_game_is_refused_by_its_file_or_plays(reader, mutated):
    @FUZZ
    @given(content=mutated())
    def check(content):
        READERS[reader](content)

    check()
    # the valid game plays by the same road, and a broken one does not
    assert READERS[reader](json.dumps(valid_games()[2]).encode()) == "played"
    assert READERS[reader](b'{"pddl_problem": 3}') != "played"


@FUZZ
@given(content=st.binary(max_size=200), name=st.sampled_from(["games.json", "games.json.xz"]))
def test_random_bytes_are_refused(content, name):
    assert "games.json" in outcome_of_packed(content, name)


@FUZZ
@given(data=st.data())
def test_a_spoilt_compression_is_refused(data):
    whole = lzma.compress(b"[" + valid_bytes() + b"]")
    i = data.draw(st.integers(0, len(whole) - 1))
    spoilt = data.draw(st.sampled_from([whole[:i], whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :]]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "games.json.xz"
        path.write_bytes(spoilt)
        assert "cannot be read as JSON" in outcome(path, path)


@pytest.mark.parametrize("field", ["id", "goal", "grammar", "pddl_problem", "walkthrough"])
def test_half_a_character_is_refused_by_file_and_field(tmp_path, field):
    spoilt = ["look \ud83d"] if field == "walkthrough" else valid_games()[0][field] + "\ud83d"
    game = valid_games()[0] | {field: spoilt}
    if field != "grammar":  # a packed file has none
        path = packed(tmp_path, json.dumps([valid_games()[1], game]).encode())
        assert rf"{field} has '\ud83d' at character" in outcome(path, path)
    if field not in ("id", "goal"):  # nor a game file these
        assert rf"{field} has '\ud83d' at character" in outcome_of_folder(json.dumps(game).encode())


def test_a_whole_pair_of_halves_is_a_character(tmp_path):
    game = json.dumps(valid_games()[0] | {"goal": "put a 😀 on bed."}).replace("😀", "\\ud83d\\ude00")
    path = packed(tmp_path, f"[{game}, {json.dumps(valid_games()[1])}]".encode())
    assert outcome(path, path) == "played"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names themselves")
def test_a_folder_whose_name_is_no_text_is_refused(tmp_path):
    trial_folder(tmp_path, "good", valid_bytes())
    file = trial_folder(tmp_path, os.fsdecode(b"trial_\xff"), valid_bytes())
    assert r"the name of its folder has '\udcff' at character" in outcome(tmp_path, file)


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")]
)
def test_a_file_that_the_system_does_not_give_is_refused_by_path(tmp_path, monkeypatch, error):
    path = packed(tmp_path, b"[" + valid_bytes() + b"]")
    file = trial_folder(tmp_path / "games", "good", valid_bytes())
    trial_folder(tmp_path / "games", "other", valid_bytes())
    world = make_world(WorldConfig(env="alfworld", games=str(tmp_path / "games")))

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(Path, "open", fail)
    assert error.strerror in outcome(path, path)
    assert error.strerror in outcome(tmp_path / "games", file)
    with pytest.raises(ValueError, match=rf"{official.GAME_FILE}: cannot be read as JSON \({error.strerror}"):
        world.make(drawn(world, "train")[0])


def test_a_folder_that_cannot_be_listed_is_not_passed_over(tmp_path, monkeypatch):
    file = trial_folder(tmp_path, "good", valid_bytes())
    scan = os.scandir

    def scandir(path: str) -> Any:
        if Path(path) == file.parent:
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert "cannot be looked at (Permission denied)" in outcome(tmp_path, file.parent)


def test_loops_of_links_end(tmp_path):
    for name in ("one", "two"):
        file = trial_folder(tmp_path / "games", name, valid_bytes())
    (file.parent / "up").symlink_to(tmp_path / "games", target_is_directory=True)
    looped = trial_folder(tmp_path / "games", "looped", b"")
    looped.unlink()
    looped.symlink_to(looped)
    assert outcome(tmp_path / "games", tmp_path) == "played"
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (
        loop,
        loop / "games",
        tmp_path / ("n" * 300),
        Path("~nobody-of-this-name/games"),
        Path("a\0b"),
    ):
        assert "games: " in outcome(path, path)


def test_bombs_are_refused_within_bounds(tmp_path, monkeypatch):
    monkeypatch.setattr(official, "MAX_PACKED_BYTES", 100_000)
    for size in (100_001, 30_000_000):
        path = packed(tmp_path, b" " * size, "games.json.xz")
        assert "more than 100000 bytes" in outcome(path, path)
    monkeypatch.setattr(official, "MAX_JSON_SIGNS", 1000)
    path = packed(tmp_path, b"[" + b"[]," * 500 + b"[]]", "games.json.xz")
    assert "more than 1000 commas and opening brackets" in outcome(path, path)
    wide = lzma.compress(b"[]", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29}])
    path.write_bytes(wide)
    assert "Memory usage limit exceeded" in outcome(path, path)
    path.write_bytes(lzma.compress(b"[]") * 2)
    assert "more than one xz stream" in outcome(path, path)


def test_deep_nesting_and_huge_numbers_are_refused(tmp_path):
    for content, reason in (
        (b"[" * 200_000, "recursion"),
        (b'{"a":' * 200_000, "recursion"),
        (b"[" + b"9" * 200_000 + b"]", "limit"),
        (b"[NaN, -Infinity, 1e999]", "game 0: id is NoneType"),
    ):
        path = packed(tmp_path, content)
        assert reason in outcome(path, path)


def test_no_sentence_adds_to_the_rules_of_a_grammar():
    plain = tw_pddl.grammar("put it there.")

    @FUZZ
    @given(st.text() | st.from_regex(r"[\w #\[\]{}\"'.]{1,30}", fullmatch=True))
    def check(sentence: str) -> None:
        try:
            written = tw_pddl.grammar(sentence)
        except ValueError as error:
            assert str(error).startswith("sentence: ")
        else:
            assert written == plain.replace("put it there.", sentence)
            assert not set('#[]{}"\\') & set(sentence)

    check()
    assert plain.count("put it there.") == 1


def test_an_exported_game_plays(tmp_path):
    for seed in range(2):
        file = export_game(generate(TASK_TYPES[0], random.Random(seed), 5, 4), tmp_path)
    assert outcome(tmp_path, file) == "played"


def test_facts_and_goals_made_to_fill_the_memory_are_refused(tmp_path):
    good = valid_games()[0]
    head, _, tail = good["pddl_problem"].partition("(:init")
    places = " ".join(f"(objectAtLocation thing_bar_1 loc_bar_{i})" for i in range(600))
    names = " ".join(f"?x{i}" for i in range(20_000))
    goal = f"(:goal (exists ({names}) (and {'(exists (?y) (holds a ?y))' * 20_000}))))"
    for problem, reason in (
        (f"{head} (:init {places} {tail}", "locations; expected at most 500"),
        (f"{head} (:init {tail.partition('(:goal')[0]} {goal}", "words; expected at most 1000"),
    ):
        entries = [valid_games()[1], good | {"pddl_problem": problem}]
        path = packed(tmp_path, json.dumps(entries).encode())
        assert reason in outcome(path, path)
