"""What every reader makes of a recorded attempt, and how a user chooses what is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gagpo.importers.fields import finite, whole
from gagpo.table import Outcome, StepTable, Trajectory


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that was called; `arguments` is canonical JSON, or the text as it came where it is none."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a step was sampled as; `old_logprobs` are the trainer's, in nats, where recorded."""

    prompt_ids: tuple[int, ...] = ()
    action_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    old_logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation. `role` is system, user, assistant or tool; `name` is of the tool
    that answers. An assistant's message is a step unless `is_step` is False: an example in a prompt,
    say; `valid` is False where the action was refused."""

    role: str
    text: str
    calls: tuple[Call, ...] = ()
    name: str = ""
    valid: bool = True
    is_step: bool = True
    tokens: Tokens = field(default_factory=Tokens)


@dataclass(frozen=True, slots=True)
class Episode:
    """One recorded attempt. `where` is its place in the file; `sibling` and `reward` are None where
    none was recorded."""

    where: str
    task: str
    sibling: int | None
    messages: tuple[Message, ...]
    reward: float | None
    outcome: Outcome = Outcome.TERMINATED
    goal: str | None = None
    policy_version: int = 0


@dataclass(frozen=True, slots=True)
class Dropped:
    """Something recorded that was left out."""

    reason: str
    num: int = 1


KeyFunction = Callable[[Sequence[Message]], str]


@dataclass(frozen=True, slots=True)
class Options:
    """What to read, and how.

    state_key        what makes two states equal: tools, last_result, observation, conversation (see
                     gagpo.importers.keys), recorded (our own files only), or a function from the
                     messages before an action to a name; None takes the format's own
    reward_field, task_field, sibling_field, goal_field   dotted paths within a record, such as
                     "info.reward"; None takes the format's own
    missing_reward   reward of attempts without one; None drops them
    success_at       an attempt with at least this reward reached the goal
    max_steps        attempts with so many steps or more were cut by a limit; None: as recorded
    decode           from token ids to text, for formats that hold ids only
    max_entry_bytes  of one record (a line, an item, a file within an archive)
    max_total_bytes  of everything that an archive or a Parquet file unpacks to
    """

    state_key: str | KeyFunction | None = None
    reward_field: str | None = None
    task_field: str | None = None
    sibling_field: str | None = None
    goal_field: str | None = None
    missing_reward: float | None = None
    success_at: float = 1.0
    max_steps: int | None = None
    decode: Callable[[Sequence[int]], str] | None = None
    max_entry_bytes: int = 1 << 28
    max_total_bytes: int = 1 << 32

    def __post_init__(self) -> None:
        finite(self.success_at, "success_at")
        if self.missing_reward is not None:
            finite(self.missing_reward, "missing_reward")
        if self.max_steps is not None:
            whole(self.max_steps, "max_steps", 1)
        for name in ("max_entry_bytes", "max_total_bytes"):
            whole(getattr(self, name), name, 1, 1 << 62)
        for name in ("reward_field", "task_field", "sibling_field", "goal_field"):
            path = getattr(self, name)
            if path is not None and (not isinstance(path, str) or not path):
                raise ValueError(f"{name}: {path!r}; expected a dotted path such as 'info.reward'")


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """What was read: trajectories, siblings together, whose recorded state keys follow `state_key`.

    `old_logprobs[s]` is of step s, counted over all trajectories, and empty where none was recorded.
    `dropped` counts what was left out, by reason.
    """

    format: str
    state_key: str
    trajectories: tuple[Trajectory, ...]
    old_logprobs: tuple[np.ndarray, ...]
    dropped: Mapping[str, int]

    def table(self) -> StepTable:
        """The columns that credit is assigned on."""
        return StepTable.from_trajectories(self.trajectories)

    def report(self) -> str:
        """What was read and what was not, in a few lines."""
        tasks = {trajectory.task_id for trajectory in self.trajectories}
        num_steps = sum(len(trajectory.steps) for trajectory in self.trajectories)
        solved = sum(trajectory.success for trajectory in self.trajectories)
        lines = [
            f"{self.format}: {len(self.trajectories)} trajectories of {len(tasks)} tasks, {num_steps} steps, "
            f"{solved} successes; states by {self.state_key}"
        ]
        return "\n".join(
            lines + [f"left out: {num} {reason}" for reason, num in sorted(self.dropped.items())]
        )

    def facts(self) -> dict[str, Any]:
        """JSON values for a run's config.json."""
        return {"format": self.format, "state_key": self.state_key, "dropped": dict(self.dropped)}
