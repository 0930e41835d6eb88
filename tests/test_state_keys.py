"""Which states each key takes for equal."""

from __future__ import annotations

import json

import pytest

from gagpo.config import CreditConfig
from gagpo.state_keys import STATE_KEYS, each, find_state_key, history_keys, keyed_table
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


def names(key: str, played: Trajectory, **options) -> list[str]:
    return STATE_KEYS[key]([played], CreditConfig(state_key=key, **options))[0]


def test_each_key_by_hand():
    assert names("exact", FIRST) == ["k1", "k2", "k3", "k2", "k4"]
    assert names("observation", FIRST) == [
        "You are in Room 1.",
        "Room 2",
        "Room 3",
        "Room 2",
        "Room  2\n",
    ]
    assert names("normalized", FIRST) == ["you are in room 1.", "room 2", "room 3", "room 2", "room 2"]
    assert names("history", FIRST) == [
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
    mine, theirs = (names("history", t) for t in (FIRST, other))
    assert [a == b for a, b in zip(mine, theirs, strict=True)] == [False, False, False, True, False]


@pytest.mark.parametrize("num_steps", range(6))
def test_the_history_is_as_long_as_it_is_set(num_steps):
    """Position t tells of min(t, k) earlier steps; none is the observation alone."""
    keys = [json.loads(key) for key in names("history", FIRST, key_history=num_steps)]
    assert [len(key) - 1 for key in keys] == [min(t, num_steps) for t in range(5)]
    assert [key[-1] for key in keys] == names("observation", FIRST)
    for t, key in enumerate(keys):
        past = FIRST.steps[t - len(key) + 1 : t]
        assert key[:-1] == [[step.observation, step.action] for step in past]
    assert history_keys(FIRST, num_steps) == names("history", FIRST, key_history=num_steps)


def test_no_text_can_imitate_the_seams_of_a_history():
    one = trajectory(("a", "", 'x"], ["b'), final=("c", ""))
    two = trajectory(("a", "", "x"), ("b", "", ""), final=("c", ""))
    assert names("history", one)[-1] != names("history", two)[-1]


def test_digits_and_punctuation_tell_normalised_states_apart():
    one = trajectory(("Shelf 1", "", "go"), final=("shelf 2", ""))
    assert len(set(names("normalized", one))) == 2


@pytest.mark.parametrize("name", sorted(STATE_KEYS))
def test_the_table_takes_every_key_by_the_name_in_the_config(name):
    table = keyed_table([FIRST], CreditConfig(state_key=name))
    shared = name in ("normalized", "similar")
    assert (table.final_state[0] in table.state) == shared
    assert (table.state[1] == table.state[3]) == (name != "history")


def last_word(played: Trajectory) -> list[str]:
    return [text.split()[-1] for text in (*(s.observation for s in played.steps), played.final_observation)]


def test_a_key_of_ones_own(monkeypatch):
    direct = StepTable.from_trajectories([FIRST], last_word)
    assert direct.state.tolist() == [0, 1, 2, 1] and direct.final_state.tolist() == [1]
    monkeypatch.setitem(STATE_KEYS, "last", each(last_word))
    named = keyed_table([FIRST, FIRST], CreditConfig(state_key="last"))
    assert named.state.tolist() == [0, 1, 2, 1] * 2 and named.final_state.tolist() == [1, 1]


def test_an_installed_package_adds_a_key(tmp_path, monkeypatch):
    info = tmp_path / "wordy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wordy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[gagpo.state_keys]\nwordy = wordy_keys:key\nbroken = wordy_keys:none\n"
    )
    (tmp_path / "wordy_keys.py").write_text(
        "def key(trajectories, config):\n    return [['same'] * (len(t.steps) + 1) for t in trajectories]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    table = keyed_table([FIRST], CreditConfig(state_key="wordy"))
    assert set(table.state) == set(table.final_state) == {0}
    with pytest.raises(ValueError, match="state_key: 'broken' of package wordy cannot be loaded"):
        find_state_key("broken")
    with pytest.raises(ValueError, match=r"state_key: 'word'; expected .*did you mean 'wordy'"):
        find_state_key("word")


def test_what_is_wrong_with_a_key_is_said(monkeypatch):
    with pytest.raises(ValueError, match=r"state_key: 'exat'; expected .*did you mean 'exact'"):
        keyed_table([FIRST], CreditConfig(state_key="exat"))
    with pytest.raises(ValueError, match="state_key: 4 names for 4 steps; expected one for each"):
        StepTable.from_trajectories([FIRST], lambda t: ["x"] * 4)
    monkeypatch.setitem(STATE_KEYS, "none", lambda trajectories, config: [])
    with pytest.raises(ValueError, match="state_key: names for 0 trajectories; expected 1"):
        keyed_table([FIRST], CreditConfig(state_key="none"))
    with pytest.raises(ValueError, match="key_history: -1; expected at least 0"):
        CreditConfig(key_history=-1)
    with pytest.raises(ValueError, match=r"key_similarity: 2\.0; expected at most 1"):
        CreditConfig(key_similarity=2.0)
