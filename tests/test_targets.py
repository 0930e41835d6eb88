"""Targets as text and in a run: what is written is read back, what is not there is told."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reviews import TASKS, make_run, targets, trajectory, write_iteration

from gagpo.steps_file import read_steps, read_trajectories
from gagpo.targets import LARGEST, STEP_TEXTS, TRAJECTORY_TEXTS, RecordedTargets, Span, Target, parse_target

NUMBERS = st.integers(0, LARGEST)


@st.composite
def any_targets(draw) -> Target:
    step = draw(st.none() | NUMBERS)
    start = draw(st.integers(0, LARGEST - 1))
    names = TRAJECTORY_TEXTS if step is None else STEP_TEXTS
    made = Span(draw(st.sampled_from(names)), start, draw(st.integers(start + 1, LARGEST)))
    task = draw(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
    return Target(draw(NUMBERS), task, draw(NUMBERS), step, draw(st.sampled_from([None, made])))


@settings(max_examples=300, deadline=None)
@given(any_targets(), st.randoms())
def test_a_target_is_read_back_from_its_text_in_any_order(target, random):
    text = str(target)
    assert parse_target(text) == target and text.isascii() and text.isprintable() and " " not in text
    parts = text.split("&")
    assert parse_target("&".join(random.sample(parts, len(parts)))) == target


def test_the_longest_task_fits_into_a_text():
    target = Target(LARGEST, "é" * 8000, LARGEST, LARGEST, Span("observation", LARGEST - 1, LARGEST))
    assert parse_target(str(target)) == target


def test_the_text_form_is_the_documented_one():
    target = Target(3, "pick up/é&=%+", 2, 5, Span("observation", 12, 40))
    written = "iteration=3&task=pick%20up%2F%C3%A9%26%3D%25%2B&sibling=2&step=5&span=observation:12-40"
    assert str(target) == written
    assert str(target.trajectory) == "iteration=3&task=pick%20up%2F%C3%A9%26%3D%25%2B&sibling=2"
    levels = [Target(3, "a", 2), Target(3, "a", 2, 5), target, Target(3, "a", 2, None, Span("goal", 0, 1))]
    assert [t.level for t in levels] == ["trajectory", "step", "span", "span"]
    assert parse_target("iteration=0&task=a+b=c&sibling=0").task_id == "a+b=c"  # a plus is a plus


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "unknown part ''"),
        ("iteration=1&task=a", "sibling is missing"),
        ("iteration=1&task=a&sibling=0&sibling=0", "sibling stands twice"),
        ("iteration=1&task=a&sibling=0&stp=5", "unknown part 'stp'; did you mean 'step'?"),
        ("iteration=1&task=a&sibling=0&step", "expected name=value"),
        ("iteration=01&task=a&sibling=0", 'iteration: "01"; expected a whole number'),
        ("iteration=-1&task=a&sibling=0", 'iteration: "-1"'),
        ("iteration=٣&task=a&sibling=0", "iteration"),
        ("iteration=2147483648&task=a&sibling=0", "from 0 to 2147483647"),
        ("iteration=1&task=&sibling=0", "percent-encoded"),
        ("iteration=1&task=a b&sibling=0", "percent-encoded"),
        ("iteration=1&task=%zz&sibling=0", "percent-encoded"),
        ("iteration=1&task=%ff&sibling=0", "percent-encoded"),
        ("iteration=1&task=%ed%a0%80&sibling=0", "percent-encoded"),
        ("iteration=1&task=a&sibling=0&span=goal:3-3", "an end beyond the start"),
        ("iteration=1&task=a&sibling=0&span=goal:3", "such as observation:12-40"),
        ("iteration=1&task=a&sibling=0&span=goal:03-5", "such as observation:12-40"),
        (
            "iteration=1&task=a&sibling=0&span=observation:0-1",
            "of a trajectory are goal and final_observation",
        ),
        ("iteration=1&task=a&sibling=0&step=1&span=goal:0-1", "of a step are observation and action"),
        ("iteration=1&task=" + "a" * 60_000 + "&sibling=0", "60027 characters"),
        (None, "expected a text"),
    ],
)
def test_what_is_no_target_is_told(text, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        parse_target(text)


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: Target(-1, "a", 0), "iteration: -1"),
        (lambda: Target(True, "a", 0), "iteration: true"),
        (lambda: Target(0, "", 0), 'task: ""'),
        (lambda: Target(0, "\ud800", 0), "whole characters"),
        (lambda: Target(0, "é" * 8001, 0), "task: 16002 bytes"),
        (lambda: Target(0, "a", 0, 1.0), "step: 1.0"),
        (lambda: Target(0, "a", 0, 1, "goal"), "span"),
    ],
)
def test_a_target_cannot_be_made_of_anything_else(build, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        build()


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=80)
    | any_targets()
    .map(str)
    .flatmap(
        lambda t: st.tuples(st.integers(0, len(t)), st.text(max_size=3)).map(
            lambda p: t[: p[0]] + p[1] + t[p[0] :]
        )
    )
)
def test_any_text_is_a_target_or_refused(text):
    try:
        target = parse_target(text)
    except ValueError:
        return
    assert parse_target(str(target)) == target


def test_a_run_knows_its_trajectories(tmp_path):
    run = make_run(tmp_path / "r")
    recorded = RecordedTargets(run)
    known = recorded.trajectories(1)
    assert list(known) == targets()
    for own, facts in zip(read_trajectories(read_steps(run.steps_path(1))), known.values(), strict=True):
        assert (facts.goal, facts.success, facts.length) == (own.goal, own.success, len(own.steps))
        assert facts.total_reward == own.total_reward and facts.outcome == own.outcome.name.lower()
        assert facts.target == Target(1, own.task_id, own.sibling)


def test_what_a_run_does_not_have_is_told(tmp_path):
    recorded = RecordedTargets(make_run(tmp_path / "r"))
    task = TASKS[0]
    assert recorded.check(Target(1, task, 1, 2)).length == 3
    for target, told in [
        (Target(2, task, 0), "iteration: 2; run 'r' has no steps of it"),
        (Target(1, "pick ip", 0), "unknown task 'pick ip'; did you mean 'pick up'?"),
        (Target(1, task, 2), "sibling: 2; that task has 0, 1 in iteration 1"),
        (Target(1, task, 0, 2), "step: 2; that trajectory has 2, counted from 0"),
        (Target(1, task, 0, 0, Span("observation", 0, 10)), "that text has 9 characters"),
    ]:
        with pytest.raises(ValueError, match=re.escape(told)):
            recorded.check(target)


def test_spans_count_code_points(tmp_path):
    """ "room 1 é𝄞" has nine characters, though ten code units in a browser and thirteen bytes."""
    recorded = RecordedTargets(make_run(tmp_path / "r"))
    task = TASKS[1]
    assert recorded.quoted(Target(1, task, 1, 1, Span("observation", 5, 9))) == "1 é𝄞"
    assert recorded.quoted(Target(1, task, 1, 2, Span("action", 3, 4))) == "2"
    assert recorded.quoted(Target(1, task, 1, None, Span("final_observation", 0, 3))) == "the"
    with pytest.raises(ValueError, match="has no span"):
        recorded.quoted(Target(1, task, 1))


def test_a_steps_file_that_names_a_trajectory_twice_is_refused(tmp_path):
    run = make_run(tmp_path / "r")
    write_iteration(run, 2, [trajectory("a", 0, 2), trajectory("a", 0, 3)])
    with pytest.raises(ValueError, match=r"000002.parquet: trajectory 1: .* stands twice"):
        RecordedTargets(run).trajectories(2)
    write_iteration(run, 3, [trajectory("", 0, 2)])
    with pytest.raises(ValueError, match=r"000003.parquet: trajectory 0: task"):
        RecordedTargets(run).trajectories(3)
