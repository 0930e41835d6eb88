"""What a comment hangs on: a trajectory, one of its steps, or characters of one of their texts.

A target as text, in files and in links:

    iteration=3&task=pick%20up&sibling=2                              a trajectory
    iteration=3&task=pick%20up&sibling=2&step=5                       its sixth step; steps count from 0
    iteration=3&task=pick%20up&sibling=2&step=5&span=observation:12-40

The task is percent-encoded UTF-8 (a plus stands for itself). A span names a text and a half-open range
of its characters: `observation` or `action` of a step, `goal` or `final_observation` of a trajectory.
Characters are Unicode code points: in JavaScript, count `[...text]` and not `text.length`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from urllib.parse import quote, unquote

import pyarrow as pa

from gagpo.checked import unknown
from gagpo.importers.fields import short, whole
from gagpo.steps_file import read_steps, trajectory_offsets
from gagpo.store import Run

LARGEST = 2**31 - 1  # of iterations, siblings, steps and places in a text
MAX_TASK = 16_000  # bytes of a task's name
MAX_CHARS = 50_000  # of a target as text, whose task takes three for each byte
STEP_TEXTS = ("observation", "action")
TRAJECTORY_TEXTS = ("goal", "final_observation")
_FIELDS = ("iteration", "task", "sibling", "step", "span")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
_SPAN = re.compile(rf"([a-z_]{{1,40}}):({_NUMBER.pattern})-({_NUMBER.pattern})")
_ENCODED = re.compile(r"(?:[^%\s]|%[0-9A-Fa-f]{2})+")


@dataclass(frozen=True, slots=True)
class Span:
    """Characters start to end - 1 of a named text."""

    text: str
    start: int
    end: int

    def __post_init__(self) -> None:
        whole(self.start, "span: start", 0, LARGEST)
        whole(self.end, "span: end", 1, LARGEST)
        if self.start >= self.end:
            raise ValueError(f"span: {self.start}-{self.end}; expected an end beyond the start")

    def __str__(self) -> str:
        return f"{self.text}:{self.start}-{self.end}"


@dataclass(frozen=True, slots=True)
class Target:
    """A whole trajectory (no `step`), or a step, or with `span` a piece of one of their texts."""

    iteration: int
    task_id: str
    sibling: int
    step: int | None = None
    span: Span | None = None

    def __post_init__(self) -> None:
        whole(self.iteration, "iteration", 0, LARGEST)
        whole(self.sibling, "sibling", 0, LARGEST)
        if not isinstance(self.task_id, str) or self.task_id == "":
            raise ValueError(f"task: {short(self.task_id)}; expected a name that is not empty")
        try:
            num_bytes = len(self.task_id.encode())
        except UnicodeEncodeError:
            raise ValueError(f"task: {short(self.task_id)}; expected whole characters") from None
        if num_bytes > MAX_TASK:
            raise ValueError(f"task: {num_bytes} bytes; expected {MAX_TASK} at most")
        if self.step is not None:
            whole(self.step, "step", 0, LARGEST)
        if self.span is not None:
            texts = TRAJECTORY_TEXTS if self.step is None else STEP_TEXTS
            if not isinstance(self.span, Span) or self.span.text not in texts:
                of = "a trajectory" if self.step is None else "a step"
                came = short(getattr(self.span, "text", self.span))
                raise ValueError(f"span: {came}; the texts of {of} are {' and '.join(texts)}")

    @property
    def trajectory(self) -> Target:
        """The trajectory that this lies in."""
        return self if self.level == "trajectory" else Target(self.iteration, self.task_id, self.sibling)

    @property
    def level(self) -> str:
        """ "trajectory", "step" or "span"."""
        return "span" if self.span else "trajectory" if self.step is None else "step"

    def __str__(self) -> str:
        parts = [f"iteration={self.iteration}", f"task={quote(self.task_id, safe='')}"]
        parts.append(f"sibling={self.sibling}")
        parts += [f"step={self.step}"] if self.step is not None else []
        parts += [f"span={self.span}"] if self.span is not None else []
        return "&".join(parts)


def parse_target(text: str) -> Target:
    """The target that a text names, its parts in any order. ValueError says what is wrong with it."""
    if not isinstance(text, str) or len(text) > MAX_CHARS:
        came = f"{len(text)} characters" if isinstance(text, str) else short(text)
        raise ValueError(f"target: {came}; expected a text of at most {MAX_CHARS} characters")
    return _parsed(text)


@lru_cache(1000)  # a reviewer says several things of one target
def _parsed(text: str) -> Target:
    values: dict[str, str] = {}
    for part in text.split("&"):
        name, is_set, value = part.partition("=")
        if name not in _FIELDS or not is_set:
            raise ValueError(f"target: {unknown('part', name[:40], _FIELDS)}; expected name=value between &")
        if name in values:
            raise ValueError(f"target: {name} stands twice")
        values[name] = value
    for name in ("iteration", "task", "sibling"):
        if name not in values:
            raise ValueError(f"target: {name} is missing from {short(text)}")
    return Target(
        iteration=_number("iteration", values["iteration"]),
        task_id=_decoded(values["task"]),
        sibling=_number("sibling", values["sibling"]),
        step=_number("step", values["step"]) if "step" in values else None,
        span=_span(values["span"]) if "span" in values else None,
    )


def _number(name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > LARGEST:
        raise ValueError(f"target: {name}: {short(text)}; expected a whole number from 0 to {LARGEST}")
    return int(text)


def _decoded(text: str) -> str:
    try:
        if _ENCODED.fullmatch(text):
            return unquote(text, errors="strict")
    except UnicodeDecodeError:
        pass
    raise ValueError(f"target: task: {short(text)}; expected percent-encoded UTF-8, such as pick%20up")


def _span(text: str) -> Span:
    found = _SPAN.fullmatch(text)
    if not found:
        raise ValueError(f"target: span: {short(text)}; expected such as observation:12-40")
    return Span(found[1], int(found[2]), int(found[3]))


@dataclass(frozen=True, slots=True)
class TrajectoryFacts:
    """What is known of a recorded trajectory; `total_reward` is its undiscounted return."""

    target: Target
    goal: str
    outcome: str
    success: bool
    total_reward: float
    length: int
    row: int


class RecordedTargets:
    """The trajectories of a run's steps files, each file read when it is first asked for."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._read = cache(self._read_iteration)

    def iterations(self) -> list[int]:
        """Those whose steps are on disk, ascending."""
        return self.run.iterations_with_steps()

    def trajectories(self, iteration: int) -> dict[Target, TrajectoryFacts]:
        """The trajectories of an iteration in the order of its file."""
        return self._read(iteration)[1]

    def facts(self, target: Target) -> TrajectoryFacts:
        """Of the trajectory that the target lies in; ValueError says which part of it is not there."""
        known = self.trajectories(target.iteration)
        if target.trajectory in known:
            return known[target.trajectory]
        where = f"iteration {target.iteration} of run {self.run.run_id!r}"
        siblings = sorted(t.sibling for t in known if t.task_id == target.task_id)
        if siblings:
            there = ", ".join(map(str, siblings[:20])) + (", ..." if len(siblings) > 20 else "")
            raise ValueError(f"sibling: {target.sibling}; that task has {there} in {where}")
        tasks = list({t.task_id for t in known})[:1000]  # a near name costs time for each
        raise ValueError(f"task: {unknown('task', target.task_id[:200], tasks)}; it is not in {where}")

    def check(self, target: Target) -> TrajectoryFacts:
        """The facts, where the step and the characters are there too; ValueError otherwise."""
        facts = self.facts(target)
        if target.step is not None and target.step >= facts.length:
            raise ValueError(f"step: {target.step}; that trajectory has {facts.length}, counted from 0")
        if target.span is not None:
            length = len(self._text(target, facts))
            if target.span.end > length:
                raise ValueError(f"span: {target.span}; that text has {length} characters")
        return facts

    def quoted(self, target: Target) -> str:
        """The characters of a target with a span."""
        if target.span is None:
            raise ValueError(f"target: {target} has no span")
        return self._text(target, self.check(target))[target.span.start : target.span.end]

    def _text(self, target: Target, facts: TrajectoryFacts) -> str:
        rows = self._read(target.iteration)[0]
        return rows[target.span.text][facts.row + (target.step or 0)].as_py()

    def _read_iteration(self, iteration: int) -> tuple[pa.Table, dict[Target, TrajectoryFacts]]:
        path = self.run.steps_path(iteration)
        if not path.exists():
            raise ValueError(f"iteration: {iteration}; run {self.run.run_id!r} has no steps of it")
        rows = read_steps(path)
        offsets = trajectory_offsets(rows)
        names = ("task_id", "sibling", "goal", "outcome", "success")
        first = rows.select(names).take(pa.array(offsets[:-1])).to_pydict()
        reward = rows["reward"].to_numpy()
        known = {}
        for i, (start, end) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
            try:
                target = Target(iteration, first["task_id"][i], first["sibling"][i])
            except ValueError as error:
                raise ValueError(f"{path}: trajectory {i}: {error}") from None
            if target in known:
                raise ValueError(f"{path}: trajectory {i}: {target} stands twice")
            own = (first[name][i] for name in ("goal", "outcome", "success"))
            known[target] = TrajectoryFacts(target, *own, float(sum(reward[start:end])), end - start, start)
        return rows.select([*STEP_TEXTS, *TRAJECTORY_TEXTS]), known
