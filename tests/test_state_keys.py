"""Which states each key takes for equal."""

from __future__ import annotations

import pytest

from gagpo.config import CreditConfig
from gagpo.state_keys import STATE_KEYS
from gagpo.table import Outcome, Step, StepTable, Trajectory


def trajectory(*seen: tuple[str, str, str], final: tuple[str, str]) -> Trajectory:
    """Steps of (observation, state key, action), then the final (observation, state key)."""
    steps = tuple(
        Step(observation, key, (), action, (1,), (2,), (-0.5,), 0.0, True)
        for observation, key, action in seen
    )
    return Trajectory("t", 0, 0, steps, Outcome.TERMINATED, False, "goal", *final)


FIRST = trajectory(
    ("You are in Room 1.", "k1", "east"),
    ("Room 2", "k2", "east"),
    ("Room 3", "k3", "west"),
    ("Room 2", "k2", "take"),
    final=("Room  2\n", "k4"),
)


def test_each_key_by_hand():
    assert STATE_KEYS["exact"](FIRST) == ["k1", "k2", "k3", "k2", "k4"]
    assert STATE_KEYS["observation"](FIRST) == [
        "You are in Room 1.",
        "Room 2",
        "Room 3",
        "Room 2",
        "Room  2\n",
    ]
    assert STATE_KEYS["normalized"](FIRST) == ["you are in room 1.", "room 2", "room 3", "room 2", "room 2"]
    assert STATE_KEYS["history"](FIRST) == [
        '["You are in Room 1."]',
        '[["You are in Room 1.", "east"], "Room 2"]',
        '[["You are in Room 1.", "east"], ["Room 2", "east"], "Room 3"]',
        '[["Room 2", "east"], ["Room 3", "west"], "Room 2"]',
        '[["Room 3", "west"], ["Room 2", "take"], "Room  2\\n"]',
    ]


def test_history_looks_back_two_steps_and_no_further():
    other = trajectory(
        ("elsewhere", "k9", "jump"),
        *[(s.observation, s.state_key, s.action) for s in FIRST.steps[1:]],
        final=("", ""),
    )
    mine, theirs = (STATE_KEYS["history"](t) for t in (FIRST, other))
    assert [a == b for a, b in zip(mine, theirs, strict=True)] == [False, False, False, True, False]


def test_no_text_can_imitate_the_seams_of_a_history():
    one = trajectory(("a", "", 'x"], ["b'), final=("c", ""))
    two = trajectory(("a", "", "x"), ("b", "", ""), final=("c", ""))
    assert STATE_KEYS["history"](one)[-1] != STATE_KEYS["history"](two)[-1]


def test_digits_and_punctuation_tell_normalised_states_apart():
    one = trajectory(("Shelf 1", "", "go"), final=("shelf 2", ""))
    assert len(set(STATE_KEYS["normalized"](one))) == 2


@pytest.mark.parametrize("name", sorted(STATE_KEYS))
def test_the_table_takes_every_key_and_the_config_its_name(name):
    assert CreditConfig(state_key=name).state_key == name
    table = StepTable.from_trajectories([FIRST], STATE_KEYS[name])
    shared = {"exact": False, "observation": False, "history": False, "normalized": True}[name]
    assert (table.final_state[0] in table.state) == shared
    assert (table.state[1] == table.state[3]) == (name != "history")
