"""Wrappers: what each does is computed by hand, and every nesting of them keeps the contract."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from corridor import MAX_STEPS, Corridor, CorridorWorld

from gagpo.config import RolloutConfig, WorldConfig
from gagpo.envs.base import Env, make_world
from gagpo.envs.check import CheckFailed, check_env, check_world
from gagpo.envs.exact import enumerate_states, solve, uniform
from gagpo.envs.worker import WorkerWorld
from gagpo.envs.wrappers import (
    DefaultAction,
    InvalidLimit,
    ShownHistory,
    StepLimit,
    WrappedWorld,
    Wrapper,
)
from gagpo.rollout import Action, collect

WRAPPERS = {
    "steps": lambda env: StepLimit(env, 6),
    "invalid": lambda env: InvalidLimit(env, 2),
    "default": None,  # a world's own command
    "history": lambda env: ShownHistory(env, 2),
}


def corridor(target: int = 1) -> Corridor:
    """Five places, the agent at place 2; target 1 is at place 4, target 0 at place 0."""
    env = Corridor(f"c-{target}")
    env.reset()
    return env


def play(env: Env, *commands: str) -> list[tuple]:
    return [env.step(command) for command in commands]


def flags(answers: list[tuple]) -> list[tuple[bool, bool, bool]]:
    """(terminated, truncated, valid) of each step."""
    return [(terminated, truncated, info["valid"]) for _, _, terminated, truncated, info in answers]


def test_a_step_limit_truncates_with_its_last_step_and_refuses_the_next():
    env = StepLimit(corridor(), 3)
    answers = play(env, "wait", "fly", "wait")
    assert flags(answers) == [(False, False, True), (False, False, False), (False, True, True)]
    with pytest.raises(ValueError, match="'c-1' has ended"):
        env.step("wait")
    env.reset()
    assert flags(play(env, "wait"))[0] == (False, False, True), "a new start counts anew"


def test_a_step_that_ends_the_task_is_not_truncated_and_the_worlds_own_limit_stays():
    assert flags(play(StepLimit(corridor(), 2), "go right", "go right"))[-1] == (True, False, True)
    answers = play(StepLimit(corridor(), MAX_STEPS + 5), *["wait"] * MAX_STEPS)
    assert [truncated for _, truncated, _ in flags(answers)] == [False] * (MAX_STEPS - 1) + [True]


def test_steps_taken_are_in_the_snapshot_and_not_in_the_key():
    env = StepLimit(corridor(), 3)
    start = env.snapshot()
    assert start == ((2, 0), 0)
    play(env, "go right", "go left")
    assert env.snapshot() == ((2, 2), 2) and env.state_key() == "2"
    env.restore(pickle.loads(pickle.dumps(start)))
    assert flags(play(env, "wait", "wait", "wait"))[-1] == (False, True, True)


def test_invalid_actions_in_a_row_truncate_and_a_valid_one_starts_the_count_anew():
    env = InvalidLimit(corridor(), 2)
    answers = play(env, "fly", "wait", "fly", "jump")
    assert flags(answers) == [
        (False, False, False),
        (False, False, True),
        (False, False, False),
        (False, True, False),
    ]
    with pytest.raises(ValueError, match="'c-1' has ended"):
        env.step("wait")
    env.restore(((2, 3), 1))
    assert flags(play(env, "fly"))[0] == (False, True, False), "the count is part of a snapshot"
    assert env.state_key() == "2"
    env.restore(((3, 0), 1))
    assert flags(play(env, "go right"))[0] == (True, False, True)


def test_a_default_action_answers_for_an_invalid_one_which_stays_invalid_and_counts():
    env = DefaultAction(corridor(), "wait")
    assert env.step("fly") == ("you are at place 2.", 0.0, False, False, {"won": False, "valid": False})
    assert env.snapshot() == ((2, 1), None), "one step, and the agent stands where it stood"
    assert env.step("go right")[0] == "you are at place 3."
    answers = play(env, *["fly"] * (MAX_STEPS - 2))
    assert answers[-1][:4] == ("you are at place 3.", 0.0, False, True)


def test_where_the_default_is_not_admissible_the_worlds_answer_stands():
    assert DefaultAction(corridor(), "sing").step("fly")[0] == "nothing happens."


@pytest.mark.parametrize("place", [2, 3])
def test_a_default_that_would_act_is_refused(place: int):
    """From place 2 it would move the agent, from place 3 it would end the task."""
    env = DefaultAction(corridor(), "go right")
    env.restore(((place, 0), None))
    with pytest.raises(ValueError, match="command: 'go right' changes the state of task 'c-1'"):
        env.step("fly")


def test_in_a_household_a_look_answers_nonsense():
    world = make_world(WorldConfig())
    task_id = world.tasks("train", 1, np.random.default_rng(0))[0]
    env, plain = DefaultAction(world.make(task_id), "look"), world.make(task_id)
    command = next(command for command in plain.admissible() if command.startswith("go to"))
    plain.step(command), env.step(command)
    assert env.step("what?")[0] == plain.step("look")[0] != "Nothing happens."
    assert env.state_key() == plain.state_key() and env.step("put")[4]["valid"] is False


def test_a_history_is_shown_after_the_observation_the_oldest_first():
    env = ShownHistory(Corridor("c-1"), 2)
    assert env.reset()[0] == "you are at place 2."
    first = env.step("go right")[0]
    assert first == "you are at place 3.\nEarlier, the oldest first:\nsaw: you are at place 2.\ndid: go right"
    play(env, "go left")
    assert env.step("wait")[0] == (
        "you are at place 2.\nEarlier, the oldest first:\n"
        "saw: you are at place 3.\ndid: go left\nsaw: you are at place 2.\ndid: wait"
    )
    assert env.reset()[0] == "you are at place 2."


def test_an_invalid_action_is_answered_with_the_history_and_forgotten():
    env = ShownHistory(corridor(), 1)
    env.reset()
    play(env, "go right")
    key = env.state_key()
    assert env.step("fly")[0] == (
        "nothing happens.\nEarlier, the oldest first:\nsaw: you are at place 2.\ndid: go right"
    )
    assert env.state_key() == key
    assert env.step("go left")[0] == (
        "you are at place 2.\nEarlier, the oldest first:\nsaw: you are at place 3.\ndid: go left"
    )


def test_keys_are_equal_where_place_and_shown_history_are():
    def key(num_steps: int, *commands: str) -> str:
        env = ShownHistory(corridor(), num_steps)
        env.reset()
        play(env, *commands)
        return env.state_key()

    assert len({key(1), key(1, "wait"), key(1, "go left", "go right")}) == 3, "all at place 2"
    assert key(1, "go left", "go right", "go right") == key(1, "go right"), "the last step is the same"
    assert key(2, "go left", "go right", "go right") != key(2, "go right")
    assert key(2, "wait", "wait", "go right") == key(2, "go left", "go right", "wait", "go right")
    assert key(2, "fly", "go right") == key(2, "go right")


def test_the_states_of_a_shown_history_are_counted_by_hand():
    """The corridor has 4 places before its end. With the last step shown, a state is the start, or
    a place with the step that led there: waiting (4), from the left (places 1, 2, 3), from the
    right (0, 1, 2); the walk from 3 to 4 ends it."""
    graph = enumerate_states(ShownHistory(Corridor("c-1"), 1))
    assert len(enumerate_states(Corridor("c-1")).states) == 4
    assert len(graph.states) == 1 + 4 + 3 + 3


NESTINGS = [n for size in range(1, 5) for n in itertools.permutations(WRAPPERS, size)]


def nest(env: Env, nesting: tuple[str, ...], default: str) -> Env:
    for name in nesting:
        env = DefaultAction(env, default) if name == "default" else WRAPPERS[name](env)
    return env


@pytest.mark.parametrize("nesting", NESTINGS, ids="-".join)
def test_every_nesting_keeps_the_contract(nesting: tuple[str, ...]):
    check_env(lambda: nest(Corridor("c-1"), nesting, "wait"), num_steps=60)
    world = make_world(WorldConfig(num_receptacles=4, num_objects=2))
    task_id = world.tasks("train", 1, np.random.default_rng(3))[0]
    check_env(lambda: nest(world.make(task_id), nesting, "look"), num_steps=25)


@pytest.mark.parametrize("nesting", NESTINGS, ids="-".join)
def test_all_nestings_agree_on_ends_and_what_happens(nesting: tuple[str, ...]):
    """Against a plain account: the corridor's walk, two invalid actions in a row, or six steps."""
    rng = np.random.default_rng(0)
    commands = ["go left", "go right", "wait", "fly", "fly"]
    for _ in range(30):
        env = nest(Corridor("c-1"), nesting, "wait")
        env.reset()
        place, num_steps, in_a_row = 2, 0, 0
        while True:
            command = commands[rng.integers(5)]
            observation, reward, terminated, truncated, info = env.step(command)
            valid = command != "fly" and not (command == "go left" and place == 0)
            place += valid and {"go left": -1, "go right": 1, "wait": 0}[command]
            num_steps, in_a_row = num_steps + 1, 0 if valid else in_a_row + 1
            limit = 6 if "steps" in nesting else MAX_STEPS
            cut = num_steps == limit or ("invalid" in nesting and in_a_row == 2)
            assert (terminated, reward) == (place == 4, float(place == 4))
            assert truncated == (cut and not terminated)
            assert info == {"won": place == 4, "valid": valid}
            answers = valid or "default" in nesting
            assert observation.startswith(f"you are at place {place}." if answers else "nothing happens.")
            assert "history" not in nesting or not valid or f"did: {command}" in observation
            if terminated or truncated:
                break


class Keyless(ShownHistory):
    """Leaves the history out of the key."""

    state_key = Wrapper.state_key


class Forgetful(ShownHistory):
    """Leaves the history out of the snapshot."""

    def snapshot(self):
        return self.env.snapshot(), ((), "")


class Remembering(ShownHistory):
    """Keeps invalid actions in the history, too."""

    def step(self, action):
        observation, *answer = super().step(action)
        self._memory = (self._memory[0], observation)
        return observation, *answer


@pytest.mark.parametrize(
    ("wrapper", "check"),
    [(Keyless, "keys"), (Forgetful, "restore"), (Remembering, "nonsense")],
)
def test_the_checker_catches_wrappers_that_are_wrong(wrapper: type[Wrapper], check: str):
    with pytest.raises(CheckFailed, match=f"^{check}: "):
        check_env(lambda: wrapper(Corridor("c-1"), 3), num_steps=60)


def test_chance_is_told_through_wrappers():
    pytest.importorskip("gymnasium")
    world = make_world(WorldConfig(env="frozenlake", max_steps=500))
    task_id = world.tasks("train", 1, np.random.default_rng(0))[0]

    def wrapped() -> Env:
        return DefaultAction(InvalidLimit(StepLimit(world.make(task_id), 12), 2), "look")

    check_env(wrapped, num_steps=60)
    through, plain = (solve(enumerate_states(env), uniform, 0.9) for env in (wrapped(), world.make(task_id)))
    assert np.array_equal(through.value, plain.value)
    told = InvalidLimit(world.make(task_id), 2)
    told.step("nonsense")
    assert [outcome.snapshot[1] for outcome in told.outcomes(told.admissible()[0])] == [0, 0, 0]
    assert not hasattr(ShownHistory(world.make(task_id), 1), "outcomes")
    assert not hasattr(StepLimit(Corridor("c-1"), 1), "outcomes")


def test_a_wrapped_world_keeps_the_contract_words_included():
    def wrap(env: Env) -> Env:
        return ShownHistory(DefaultAction(InvalidLimit(StepLimit(env, 20), 3), "look"), 2)

    check_world(WrappedWorld(make_world(WorldConfig()), wrap), num_tasks=4)


def test_trajectories_of_a_wrapped_world_end_by_its_limits():
    class Silent:
        encode = staticmethod(lambda prompts: [(1,) for _ in prompts])

        def act(self, turns, temperature, seed):
            return [Action("fly", (1,), (0.0,), False) for _ in turns]

    world = WrappedWorld(CorridorWorld(), lambda env: InvalidLimit(env, 3))
    (trajectory,) = collect(
        world, Silent(), ["c-1"], RolloutConfig(), num_siblings=1, temperature=1.0, seed=(0,)
    )
    assert len(trajectory.steps) == 3 and trajectory.outcome.name == "TRUNCATED"
    assert world.task_type("c-1") == "right" and world.make("c-1").unwrapped.place == 2


def test_environments_of_other_processes_can_be_wrapped():
    worker = WorkerWorld(WorldConfig(max_steps=10), time_limit_s=20.0)
    task_id = worker.tasks("train", 1, np.random.default_rng(0))[0]
    there, here = worker.make(task_id), make_world(WorldConfig(max_steps=10)).make(task_id)
    one, two = (ShownHistory(DefaultAction(env, "look"), 2) for env in (there, here))
    assert one.reset() == two.reset()
    for command in ("what?", "inventory", here.admissible()[0], "what?"):
        assert one.step(command) == two.step(command) and one.state_key() == two.state_key()
    there.close()


@pytest.mark.parametrize("value", [0, -1, True, 2.0, None])
def test_limits_are_whole_numbers_of_at_least_one(value):
    for wrapper, name in ((StepLimit, "max_steps"), (InvalidLimit, "num_invalid"), (ShownHistory, "num_s")):
        with pytest.raises(ValueError, match=f"{name}.*: {value!r}; expected a whole number of at least 1"):
            wrapper(Corridor("c-1"), value)
