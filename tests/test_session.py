"""A session goes back exactly, looks ahead without moving, and survives what breaks; ways that meet do."""

from __future__ import annotations

import numpy as np
import pytest
from corridor import Corridor, CorridorWorld
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_worlds import Breaking, Diamond, Mute, Planless

from gagpo.config import WorldConfig
from gagpo.envs.base import Env, make_world
from gagpo.envs.meet import find_meeting
from widgets.session import CUT, LOST, MAX_AHEAD, WON, Session, offered_tasks, visible
from widgets.worlds import meeting_tables, plan_table, speed_table

RIGHT, LEFT = "corridor-train-1", "corridor-train-2"  # the goal is place 4, place 0; the start is place 2
WORLDS = ("household", "keydoor", "frozenlake")


def envs(name: str, num: int = 4, **dials) -> list[Env]:
    world = make_world(WorldConfig(env=name, **dials))
    return [world.make(task) for task in world.tasks("train", num, np.random.default_rng(1))]


def test_a_session_by_hand() -> None:
    session = Session(Corridor(RIGHT))
    assert session.commands() == ("go left", "go right", "wait") and session.hint() == "go right"
    for command in ("go left", "fly", "go right", "go right", "go right"):
        session.play(command)
    assert session.now.ending == WON and session.total_reward == 1 and session.num_steps == 5
    assert session.commands() == () and session.hint() is None and session.plan() == []
    assert session.table("x").rows == (
        ("0", "(start)", "you are at place 2.", "0", "2", ""),
        ("1", "go left", "you are at place 1.", "0", "1", ""),
        ("2", "fly (not accepted)", "nothing happens.", "0", "1", "step 1"),
        ("3", "go right", "you are at place 2.", "0", "2", "step 0"),
        ("4", "go right", "you are at place 3.", "0", "3", ""),
        ("5", "go right", "you are at place 4.", "1", "4", ""),
    )
    with pytest.raises(
        ValueError, match=r"command: 'wait', but the trajectory is over \(won\) after 5 steps"
    ):
        session.play("wait")
    session.undo()
    assert session.now.state_key == "3" and session.total_reward == 0 and not session.now.ending
    session.undo(to=1)
    assert session.env.snapshot() == (1, 1) and session.num_steps == 1
    for step in (2, -1):
        with pytest.raises(ValueError, match=f"step: {step}; expected an earlier one, of 1 played"):
            session.undo(to=step)
    session.undo()
    with pytest.raises(ValueError, match="of 0 played so far"):
        session.undo()


def test_every_ending_is_named_and_can_be_undone() -> None:
    cut = Session(Corridor(RIGHT))
    for _ in range(8):
        cut.play("wait")
    assert cut.now.ending == CUT
    lost = Session(Corridor(RIGHT))
    lost.env.step = lambda action: ("a pit", -1.0, True, False, {"won": False, "valid": True})
    assert lost.play("wait").ending == LOST and lost.total_reward == -1
    lost.undo()
    assert not lost.now.ending and lost.commands()


actions = st.lists(st.one_of(st.integers(0, 30), st.just("undo"), st.just("fly")), max_size=25)


@pytest.mark.parametrize("name", WORLDS)
@given(actions=actions, back=st.integers(0, 30), seed=st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_after_any_play_and_undo_it_stands_where_its_commands_lead(name, actions, back, seed) -> None:
    """The slow reference plays what was kept on another instance from the start."""
    env, reference = envs(name, 1)[0], envs(name, 1)[0]
    session = Session(env, seed)
    for action in actions:
        if action == "undo":
            if session.num_steps:
                session.undo()
        elif not session.now.ending:
            commands = session.commands()
            session.play("fly" if action == "fly" else commands[action % len(commands)])
    if session.num_steps:
        session.undo(to=back % (session.num_steps + 1))
    plan = session.plan()
    observation, _ = reference.reset(seed=seed)
    for moment in session.moments:
        if moment.command is not None:
            observation, reward, *_ = reference.step(moment.command)
            assert reward == moment.reward
        assert (observation, reference.state_key()) == (moment.observation, moment.state_key)
    assert reference.snapshot() == env.snapshot(), "after looking ahead too"
    assert [moment.command for moment in plan[:1]] == [session.hint()] * len(plan[:1])


@pytest.mark.parametrize("name", WORLDS[:2])
def test_plans_win_and_the_shortest_is_as_short_as_the_distance(name: str) -> None:
    for env in envs(name, 6, max_steps=200):
        session = Session(env)
        distance = env.distance()
        assert session.plan()[-1].ending == session.shortest_plan()[-1].ending == WON
        assert len(session.shortest_plan()) == distance <= len(session.plan())
        table = plan_table(env)
        assert [int(row[0]) for row in table.rows] == list(range(1, distance + 1))
        assert f"A plan of {distance} commands: won." in table.caption


def test_worlds_without_commands_or_plans_and_plans_without_end() -> None:
    mute, planless = Session(Mute(RIGHT)), Session(Planless(RIGHT))
    assert mute.commands() == () and mute.play("wait").observation == "nothing happens."
    assert (
        planless.hint() is None
        and planless.plan() == []
        and "no plan is known" in plan_table(planless.env).caption
    )
    endless = Session(Corridor(RIGHT))
    endless.env.step = lambda action: ("on and on", 0.0, False, False, {"won": False, "valid": True})
    assert len(endless.plan()) == MAX_AHEAD and endless.num_steps == 0


def test_an_environment_that_raises_leaves_the_session_where_it_was() -> None:
    session = Session(Breaking(RIGHT))
    session.play("go left")
    for broken in (lambda: session.play("boom"), session.plan):
        with pytest.raises(ZeroDivisionError):
            broken()
        assert session.num_steps == 1 and session.env.snapshot() == (1, 1)
    session.env.step = lambda action: (None, 0.0, False, False, {"won": False, "valid": True})
    with pytest.raises(ValueError, match="observation: None is NoneType; expected str"):
        session.play("wait")
    assert session.num_steps == 1


def test_what_could_steer_a_page_is_made_visible() -> None:
    assert (
        visible("a\x1b[2J\u202eb\x00\ud800 c\n\td\u00a0e é 雪")
        == "a\ufffd[2J\ufffdb\ufffd\ufffd c\n\td\u00a0e é 雪"
    )


def test_offered_tasks_come_from_both_splits_by_seed() -> None:
    world = make_world(WorldConfig())
    tasks = offered_tasks(world, 3, 5)
    assert [task.split("/")[1] for task in tasks] == ["train"] * 3 + ["unseen"] * 3
    assert tasks == offered_tasks(world, 3, 5) != offered_tasks(world, 3, 6)
    for seed in (-1, 1.5, "0", True, 2**31):
        with pytest.raises(ValueError, match=r"seed: .* expected a whole number from 0"):
            offered_tasks(world, 3, seed)
    with pytest.raises(ValueError, match="no tasks"):
        offered_tasks(CorridorWorld(), 0, 0)


def test_meetings_by_hand() -> None:
    """Place 1 is entered from 2, and after a turn at the corridor's end from 0; else it is a chain."""
    first, second = find_meeting(Corridor(RIGHT))
    assert first.commands == ("go left",) and second.commands == ("go left", "go left", "go right")
    assert second.state_keys == ("2", "1", "0", "1") and first.observations[-1] == "you are at place 1."
    diamond = find_meeting(Diamond(RIGHT))
    assert [way.commands for way in diamond] == [("left", "on"), ("right", "on")], "e is seen alike, d is not"
    assert not diamond.seen_alike and "differ, although" in repr(meeting_tables(Diamond(RIGHT)))
    assert find_meeting(Diamond(RIGHT), max_states=3) is None, "two commands from a to b are one way"
    assert "No two ways" in repr(meeting_tables(envs("keydoor", 1, max_steps=1)[0]))


@pytest.mark.parametrize("name", WORLDS)
def test_the_ways_of_a_meeting_are_what_playing_them_shows(name: str) -> None:
    for env in envs(name):
        meeting = find_meeting(env, seed=3)
        assert meeting.first.state_keys[-1] == meeting.second.state_keys[-1]
        assert meeting.first.state_keys[-2] != meeting.second.state_keys[-2]
        for way in meeting:
            session = Session(env, 3)
            for command in way.commands:
                assert command in session.commands()
                session.play(command)
            assert tuple(moment.observation for moment in session.moments) == way.observations
            assert tuple(moment.state_key for moment in session.moments) == way.state_keys
        assert meeting.seen_alike == (name != "household"), "there the last command colours what is seen"
        shown = repr(meeting_tables(env, 3))
        assert ("are equal too" in shown) == meeting.seen_alike


def test_speeds_are_measured_and_a_world_that_cannot_be_made_says_why() -> None:
    table = speed_table([WorldConfig(env="keydoor"), WorldConfig(env="alfworld")], seconds=0.02, num_tasks=2)
    (keydoor, alfworld) = table.rows
    assert keydoor[0] == "keydoor" and keydoor[4] == ""
    assert all(float(cell.replace(",", "")) > 0 for cell in keydoor[1:4])
    assert alfworld[1:4] == ("", "", "") and "games: not set" in alfworld[4]
