"""Collecting trajectories, with actors whose every move is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from corridor import MAX_STEPS, Corridor, CorridorWorld

from gagpo.config import RolloutConfig, WorldConfig
from gagpo.envs.base import make_world
from gagpo.prompts import PROMPTS, compact_state, first_line, instruct_state, with_stars, without_stars
from gagpo.rollout import Action, Turn, TurnRefused, collect
from gagpo.table import Outcome, StepTable


class Scripted:
    """Answers turn t of every environment with script[t]; a token is a character code."""

    def __init__(self, script: Sequence[str], cut_off: Sequence[int] = ()) -> None:
        self.script, self.cut_off = script, cut_off
        self.batches: list[list[str]] = []
        self.seeds: list[tuple[int, ...]] = []
        self.prompts: list[str] = []

    def encode(self, prompts: Sequence[str]) -> list[tuple[int, ...]]:
        self.prompts += prompts
        return [tuple(map(ord, prompt)) for prompt in prompts]

    def act(self, turns: Sequence[Turn], temperature: float, seed: Sequence[int]) -> list[Action]:
        for index, turn in enumerate(turns):
            if "go  left" in turn.admissible:
                raise TurnRefused(index, "two commands read the same")
        self.batches.append([turn.env.task_id for turn in turns])
        self.seeds.append(tuple(seed))
        t = seed[-1]
        text = self.script[t % len(self.script)]
        ids = tuple(map(ord, text)) or (0,)
        return [Action(text, ids, (-0.5,) * len(ids), t in self.cut_off) for _ in turns]


def play(actor: Scripted, tasks: Sequence[str], siblings: int = 1, **settings):
    config = RolloutConfig(max_prompt_tokens=2000, **settings)
    return collect(CorridorWorld(), actor, tasks, config, num_siblings=siblings, temperature=1.0, seed=(7, 8))


def test_finished_environments_are_not_asked_again() -> None:
    # Task 1 wins by going right twice; task 0 (the left end) walks into the wall and is truncated.
    actor = Scripted(["go right"])
    right, left = play(actor, ["c-1", "c-0"])
    assert [len(batch) for batch in actor.batches] == [2, 2] + [1] * (MAX_STEPS - 2)
    assert set(actor.batches[-1]) == {"c-0"}
    assert (right.outcome, right.success, len(right.steps)) == (Outcome.TERMINATED, True, 2)
    assert (left.outcome, left.success, len(left.steps)) == (Outcome.TRUNCATED, False, MAX_STEPS)
    assert actor.seeds[:2] == [(7, 8, 0), (7, 8, 1)], "each turn draws from its own seed"


FAULTS = {
    "reset": lambda: 1 / 0,
    "step": lambda: 1 / 0,
    "state_key": lambda: None,
    "admissible": lambda: (),
    "reward": lambda: float("nan"),
    "observation": lambda: None,
    "long page": lambda: "a long way " * 500,
    "odd commands": lambda: ("go left", "go  left"),
}


class Failing(CorridorWorld):
    """Task c-3 breaks in the way that is named, for its second sibling, at its second step."""

    def __init__(self, fault: str) -> None:
        self.fault, self.made = fault, 0

    def make(self, task_id):
        self.made += task_id == "c-3"
        return Broken(task_id, self.fault) if task_id == "c-3" and self.made == 2 else super().make(task_id)


class Broken(Corridor):
    def __init__(self, task_id: str, fault: str) -> None:
        super().__init__(task_id)
        self.fault = fault

    def _maybe(self, name: str, value):
        return FAULTS[name]() if name == self.fault and (self.num_steps == 1 or name == "reset") else value

    def reset(self, **how):
        return self._maybe("reset", super().reset())

    def step(self, action):
        observation, reward, *rest = self._maybe("step", super().step(action))
        observation = self._maybe("long page", self._maybe("observation", observation))
        return observation, self._maybe("reward", reward), *rest

    def state_key(self):
        return self._maybe("state_key", super().state_key())

    def admissible(self):
        return self._maybe("odd commands", self._maybe("admissible", super().admissible()))


@pytest.mark.parametrize("fault", FAULTS)
def test_an_environment_that_fails_costs_its_group_and_no_other(fault: str) -> None:
    how = {"num_siblings": 2, "temperature": 1.0, "seed": (7,)}
    config = RolloutConfig(prompt="instruct", max_prompt_tokens=2000)
    tasks = ["c-1", "c-3", "c-0"]
    failures: dict[str, Exception] = {}
    kept = collect(Failing(fault), Scripted(["go right"]), tasks, config, failures=failures, **how)
    assert kept == collect(CorridorWorld(), Scripted(["go right"]), ["c-1", "c-0"], config, **how)
    assert list(failures) == ["c-3"] and isinstance(failures["c-3"], (ValueError, ZeroDivisionError))
    with pytest.raises(type(failures["c-3"])):
        collect(Failing(fault), Scripted(["go right"]), tasks, config, **how)


def test_where_all_fail_nothing_is_left() -> None:
    failures: dict[str, Exception] = {}
    how = {"num_siblings": 2, "temperature": 1.0, "seed": (7,), "failures": failures}
    config = RolloutConfig(max_prompt_tokens=2000)
    assert collect(Failing("step"), Scripted(["go right"]), ["c-3"], config, **how) == []
    assert list(failures) == ["c-3"]


def test_chance_in_a_world_follows_from_the_seed_and_differs_between_siblings() -> None:
    class Seeded(Corridor):
        def reset(self, *, seed=None, options=None):
            resets.append(seed)
            return super().reset()

    class World(CorridorWorld):
        def make(self, task_id):
            return Seeded(task_id)

    def seeds(*seed: int) -> list[int]:
        how = {"num_siblings": 3, "temperature": 1.0, "seed": seed}
        config = RolloutConfig(max_prompt_tokens=2000)
        trajectories = collect(World(), Scripted(["wait"]), ["c-1", "c-0"], config, **how)
        assert [t.seed for t in trajectories] == resets
        return [resets.pop(0) for _ in trajectories]

    resets: list[int] = []
    first = seeds(7, 8)
    assert first == seeds(7, 8) and first[:3] == first[3:], "a task's siblings, not its place, decide"
    assert len({*first, *seeds(7, 9)}) == 6


def test_steps_hold_what_was_shown_before_the_action() -> None:
    (trajectory,) = play(Scripted(["go right"]), ["c-1"])
    first, second = trajectory.steps
    assert first.observation == "you are at place 2." and first.state_key == "2"
    assert second.observation == "you are at place 3." and second.state_key == "3"
    assert (first.reward, second.reward) == (0.0, 1.0)
    assert first.admissible == ("go left", "go right", "wait")
    assert trajectory.final_state_key == "4" and trajectory.final_observation == "you are at place 4."
    assert first.action_ids == tuple(map(ord, "go right")) and set(first.logprobs) == {-0.5}


def test_invalid_and_cut_off_actions_are_told_apart() -> None:
    (trajectory,) = play(Scripted(["fly", "go right", "go right", "go right"], cut_off=[1]), ["c-1"])
    kinds = [(step.valid, step.cut_off) for step in trajectory.steps]
    assert kinds == [(False, False), (False, True), (True, False), (True, False)]
    assert trajectory.steps[1].action == "go right", "the text is kept as it was cut"
    assert trajectory.steps[2].state_key == "2", "and it did not act"


def test_siblings_lie_side_by_side_and_form_one_group() -> None:
    trajectories = play(Scripted(["go right"]), ["c-1", "c-3"], siblings=3)
    assert [(t.task_id, t.sibling) for t in trajectories] == [
        (c, i) for c in ("c-1", "c-3") for i in range(3)
    ]
    assert StepTable.from_trajectories(trajectories).group.tolist() == [0, 0, 0, 1, 1, 1]


SCRIPT = ["wait", "go left", "go right"]


def cut_after(num: int, monkeypatch: pytest.MonkeyPatch, **settings):
    """The trajectory of a task that is cut after `num` steps."""
    monkeypatch.setattr("corridor.MAX_STEPS", num)
    config = RolloutConfig(**{"max_prompt_tokens": 2000, **settings})
    how = {"num_siblings": 1, "temperature": 1.0, "seed": (7, 8), "final_prompts": True}
    (cut,) = collect(CorridorWorld(), Scripted(SCRIPT), ["c-0"], config, **how)
    return cut


@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_prompt_after_a_cut_is_the_one_that_would_have_come(prompt: str, monkeypatch) -> None:
    """A trajectory that may go on for a step more is shown it."""
    settings = {"prompt": prompt, "masked": prompt != "gigpo", "history": 3}
    cut = cut_after(5, monkeypatch, **settings)
    longer = cut_after(6, monkeypatch, **settings)
    assert cut.outcome is Outcome.TRUNCATED and len(cut.steps) == 5
    assert cut.final_prompt_ids == longer.steps[5].prompt_ids
    assert cut.steps == longer.steps[:5] and cut.final_prompt_ids != longer.final_prompt_ids


def test_the_prompt_after_a_cut_loses_history_as_the_others_do(monkeypatch) -> None:
    room = len("goal : reach place 0\ndid : go right\nsee : you are at * place 2.\nact :")
    settings = {"history": 2, "max_prompt_tokens": room}
    cut = cut_after(6, monkeypatch, **settings)  # "wait", "go left" and "go right", twice
    assert "did : go right\n" in "".join(map(chr, cut.final_prompt_ids)), "of go left ; go right"
    assert cut.final_prompt_ids == cut_after(7, monkeypatch, **settings).steps[6].prompt_ids


def test_final_prompts_are_made_for_cuts_alone_and_only_when_asked_for() -> None:
    asked, bare = Scripted(["go right"]), Scripted(["go right"])
    config = RolloutConfig(max_prompt_tokens=2000)
    how = {"num_siblings": 2, "temperature": 1.0, "seed": (7,)}
    kept = collect(CorridorWorld(), asked, ["c-1", "c-0"], config, final_prompts=True, **how)
    plain = collect(CorridorWorld(), bare, ["c-1", "c-0"], config, **how)
    assert [bool(t.final_prompt_ids) for t in kept] == [t.outcome is Outcome.TRUNCATED for t in kept]
    assert [bool(t.final_prompt_ids) for t in kept] == [False, False, True, True]
    assert plain == [replace(t, final_prompt_ids=()) for t in kept]
    assert len(asked.prompts) == len(bare.prompts) + 2


def test_a_prompt_after_a_cut_that_cannot_fit_costs_its_group() -> None:
    class LastPage(Corridor):
        def step(self, action):
            observation, *rest = super().step(action)
            return "a long way " * 500 if rest[2] else observation, *rest

    class World(CorridorWorld):
        def make(self, task_id):
            return LastPage(task_id) if task_id == "c-2" else super().make(task_id)

    failures: dict[str, Exception] = {}
    how = {"num_siblings": 2, "temperature": 1.0, "seed": (7,), "failures": failures}
    config = RolloutConfig(prompt="instruct", max_prompt_tokens=2000)
    tasks = ["c-2", "c-0"]
    kept = collect(World(), Scripted(["wait"]), tasks, config, final_prompts=True, **how)
    assert [t.task_id for t in kept] == ["c-0", "c-0"] and "max_prompt_tokens" in str(failures["c-2"])
    failures.clear()
    assert len(collect(World(), Scripted(["wait"]), tasks, config, **how)) == 4 and not failures


def test_a_repeated_task_is_refused() -> None:
    with pytest.raises(ValueError, match="occurs twice"):
        play(Scripted(["wait"]), ["c-1", "c-1"])


def test_the_prompt_shows_the_last_steps_and_drops_the_oldest_where_it_is_too_long() -> None:
    actor = Scripted(["wait", "go left", "go right"])
    play(actor, ["c-0"], history=2)
    assert actor.prompts[0] == "goal : reach place 0\ndid : \nsee : you are at * place 2.\nact :"
    assert "did : go left ; go right\n" in actor.prompts[3], "two steps, not the wait before them"
    short = Scripted(["wait", "go left", "go right"])
    fits = len("goal : reach place 0\ndid : go right\nsee : you are at * place 2.\nact :")
    config = RolloutConfig(max_prompt_tokens=fits, history=2)
    collect(CorridorWorld(), short, ["c-0"], config, num_siblings=1, temperature=1.0, seed=(0,))
    kept = [p for p in short.prompts if len(p) <= fits]
    assert any("did : go right\n" in p for p in kept), "one of two earlier steps fits"
    assert len(kept) == MAX_STEPS, "and every turn's prompt fits in the end"


def test_a_prompt_that_cannot_fit_stops_with_the_setting_to_change() -> None:
    config = RolloutConfig(max_prompt_tokens=16)
    with pytest.raises(ValueError, match=r"max_prompt_tokens: 16; .*'c-0' needs"):
        collect(
            CorridorWorld(), Scripted(["wait"]), ["c-0"], config, num_siblings=1, temperature=1, seed=(0,)
        )


def test_prompts_by_hand() -> None:
    history = [("a hall.", "go in"), ("a room.", "look")]
    assert (
        compact_state("win", history, "a bed.", ["rest"])
        == "goal : win\ndid : go in ; look\nsee : a bed.\nact :"
    )
    again = [("", action) for action in ("a", "b", "a", "c", "b")]
    assert "did : a ; c ; b\n" in compact_state("win", again, "", []), "each command once, where it was last"
    long = " ".join(map(str, range(100)))
    assert compact_state("win", [], long, []).endswith("see : " + " ".join(map(str, range(40))) + "\nact :")
    assert long in instruct_state("win", [], long, [])
    starred = compact_state(
        "put a hot egg in fridge.", [("", "go to fridge 1")], "On the fridge 1, a Egg 2.", []
    )
    assert "\ndid : go to * fridge 1\nsee : On the * fridge 1, a * Egg 2.\n" in starred
    text = instruct_state("win", history, "a bed.", ["rest", "go out"])
    assert "- You saw: a hall.\n  You did: go in\n- You saw: a room.\n  You did: look\n" in text
    assert text.index("Now you see: a bed.") < text.index("- rest\n- go out\n")


@pytest.mark.parametrize(
    ("answer", "command"),
    [
        ("look", "look"),
        ("\n\n  go to bed 1 \nbecause", "go to bed 1"),
        ("- look", "look"),
        ("", ""),
        ("  \n", ""),
    ],
)
def test_the_first_line_of_an_answer_counts(answer: str, command: str) -> None:
    assert first_line(answer) == command


def test_commands_are_written_with_stars_and_read_without() -> None:
    goal = "put two Egg in fridge."
    written = with_stars(goal, "take egg 1 from fridge 12")
    assert written == "take * egg 1 from * fridge 12"
    assert without_stars(f"\n- {written} \nbecause") == "take egg 1 from fridge 12"
    assert with_stars(goal, "take mug 1 from shelf 1") == "take mug 1 from shelf 1"


@pytest.mark.parametrize("prompt", PROMPTS)
def test_reading_undoes_writing(prompt: str) -> None:
    world = make_world(WorldConfig())
    for task in world.tasks("train", 12, np.random.default_rng(0)):
        env = world.make(task)
        env.reset()
        for command in env.admissible():
            assert PROMPTS[prompt].read(PROMPTS[prompt].write(env.goal, command)) == command
