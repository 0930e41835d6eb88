"""Random play against TextWorld itself, where it is installed (`pip install textworld`)."""

from __future__ import annotations

import json
import lzma
import random
import sys

import pytest

pytest.importorskip("textworld")
import textworld_parity as parity
import textworld_standin

STEPS = 120


@pytest.fixture(autouse=True)
def textworld(monkeypatch):
    # loading a game with the planning library overwrites sys.argv and swaps sys.stdout
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    textworld_standin.install()


@pytest.fixture
def official(shared_dir):
    return parity.read_official(shared_dir / "data" / "alfworld" / "json_2.1.1")


def assert_equal_play(games, seed):
    tally = parity.compare(games, STEPS, random.Random(seed))
    assert tally.mismatches == []
    assert tally.steps >= STEPS and tally.garbage > STEPS / 12


def test_generated_houses(textworld):
    assert_equal_play(parity.generated_games(0), 0)


def test_odd_houses(textworld):
    assert_equal_play(parity.odd_games(0, None), 1)


def test_odd_houses_with_the_official_texts(official):
    assert_equal_play(parity.odd_games(500, official[0]), 2)


def test_official_games(official, shared_dir):
    with lzma.open(shared_dir / "data" / "alfworld" / "valid_seen.json.xz") as file:
        packed = json.load(file)
    assert_equal_play(parity.official_games(packed, official[0]), 3)


def test_every_exported_walkthrough_wins_in_textworld():
    games = parity.generated_games(7)
    for _ in range(6):
        ours, game = next(games)
        theirs = textworld_standin.load(game)
        theirs.reset()
        assert [theirs.step(command)[2] for command in ours.plan()][-1]


def test_a_difference_is_counted():
    ours, _ = next(parity.generated_games(0))
    _, other = next(parity.generated_games(1))
    tally = parity.Tally()
    parity.play(ours, textworld_standin.load(other), random.Random(0), 10, tally)
    assert len(tally.mismatches) == 1 and tally.steps == 0
