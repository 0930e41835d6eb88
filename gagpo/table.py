"""The records: what one step, one trajectory, a table of steps and their credit are.

A `Step` and a `Trajectory` hold text and tokens, as they were collected. A `StepTable` holds
the numbers that credit assignment needs, as flat columns. Notation used below: S steps,
T trajectories, both over all groups of one iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np


class Outcome(IntEnum):
    """How a trajectory ended: the task itself ended, a limit cut it off, or the environment failed."""

    TERMINATED = 0
    TRUNCATED = 1
    ERROR = 2


@dataclass(frozen=True, slots=True)
class Step:
    """One agent action and what came back.

    `observation` is the text that was shown *before* the action and `state_key` the identity of
    the state it was shown in; `reward` is what the environment returned for the action.
    `logprobs` are the sampler's, in nats, one for each token of `action_ids`. `valid` is False
    when the action was not admissible; `cut_off` is True when the token limit ended it (a
    cut-off action is never valid).
    """

    observation: str
    state_key: str
    admissible: tuple[str, ...]
    action: str
    prompt_ids: tuple[int, ...]
    action_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    reward: float
    valid: bool
    cut_off: bool = False

    def __post_init__(self) -> None:
        if len(self.logprobs) != len(self.action_ids):
            raise ValueError(
                f"Step.logprobs: {len(self.logprobs)} values for {len(self.action_ids)} action "
                "tokens; expected one for each"
            )
        if not np.isfinite(self.reward):
            raise ValueError(f"Step.reward: {self.reward!r} is not finite")
        if self.valid and self.cut_off:
            raise ValueError("Step.valid: True, yet cut_off is True; a cut-off action is invalid")


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode: the `sibling`-th attempt at `task_id`.

    `final_observation` and `final_state_key` belong to the state after the last step.
    `success` says whether the goal was reached, `goal` is the task in words, and
    `policy_version` the number of updates behind the policy that acted. `final_prompt_ids` is what
    the policy would have been shown next, where a limit cut the trajectory and `collect` was asked
    for it.
    """

    task_id: str
    sibling: int
    seed: int
    steps: tuple[Step, ...]
    outcome: Outcome
    success: bool
    goal: str
    final_observation: str
    final_state_key: str
    policy_version: int = 0
    final_prompt_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.steps:
            raise ValueError(f"Trajectory.steps of task {self.task_id!r}: empty; expected one or more")

    @property
    def total_reward(self) -> float:
        """Undiscounted sum of the rewards."""
        return float(sum(step.reward for step in self.steps))


@dataclass(frozen=True, slots=True, eq=False)
class StepTable:
    """Flat columns of S steps in T trajectories; trajectory i owns rows offsets[i]:offsets[i+1].

    offsets      (T+1,) int64    0 = offsets[0] < offsets[1] < ... < offsets[T] = S
    group        (T,)   int64    which task a trajectory belongs to, in any numbering
    truncated    (T,)   bool     a limit ended the trajectory (else the task itself did)
    success      (T,)   bool
    reward       (S,)   float64  as the environment gave it
    state        (S,)   int64    identity of the state before the action; equal means same state
    final_state  (T,)   int64    identity of the state after the last step, in the same numbering
    valid        (S,)   bool     the action was admissible

    Only the estimator "gae" reads these. Training fills them with its critic's values, no importer does:

    critic_value (S,)   float64  a critic's V(s_t), or None
    critic_final (T,)   float64  a critic's V of the state after the last step, or None
    """

    offsets: np.ndarray
    group: np.ndarray
    truncated: np.ndarray
    success: np.ndarray
    reward: np.ndarray
    state: np.ndarray
    final_state: np.ndarray
    valid: np.ndarray
    critic_value: np.ndarray | None = None
    critic_final: np.ndarray | None = None

    def __post_init__(self) -> None:
        kinds = {"offsets": np.int64, "group": np.int64, "truncated": bool, "success": bool}
        kinds |= {"reward": np.float64, "state": np.int64, "final_state": np.int64, "valid": bool}
        numbers = ["reward"]
        for name in ("critic_value", "critic_final"):
            if getattr(self, name) is not None:
                kinds[name] = np.float64
                numbers.append(name)
        for name, kind in kinds.items():
            object.__setattr__(self, name, _column(name, getattr(self, name), kind))
        if len(self.offsets) == 0 or self.offsets[0] != 0 or np.any(np.diff(self.offsets) <= 0):
            raise ValueError("StepTable.offsets: expected to start at 0 and to increase strictly")
        sizes = {"group": self.num_trajectories, "truncated": self.num_trajectories}
        sizes |= {"success": self.num_trajectories, "final_state": self.num_trajectories}
        sizes |= {"reward": self.num_steps, "state": self.num_steps, "valid": self.num_steps}
        sizes |= {"critic_value": self.num_steps, "critic_final": self.num_trajectories}
        for name, size in sizes.items():
            if name in kinds and len(getattr(self, name)) != size:
                raise ValueError(f"StepTable.{name}: {len(getattr(self, name))} rows; expected {size}")
        for name in numbers:
            odd = np.flatnonzero(~np.isfinite(getattr(self, name)))
            if len(odd):
                value = getattr(self, name)[odd[0]]
                raise ValueError(f"StepTable.{name}: row {odd[0]} is {value}; expected finite")

    @property
    def num_trajectories(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_steps(self) -> int:
        return int(self.offsets[-1])

    @property
    def lengths(self) -> np.ndarray:
        """(T,) int64, steps of each trajectory."""
        return np.diff(self.offsets)

    @property
    def trajectory(self) -> np.ndarray:
        """(S,) int64, the trajectory of each step."""
        return np.repeat(np.arange(self.num_trajectories), self.lengths)

    @classmethod
    def from_trajectories(
        cls,
        trajectories: Sequence[Trajectory],
        state_key: Callable[[Trajectory], Sequence[str]] | None = None,
    ) -> StepTable:
        """Build the columns. `state_key(trajectory)` returns len(steps) + 1 names: one for the
        state before each step, then the final one; without it the recorded keys are used."""
        state_key = state_key or recorded_state_keys
        return cls.from_names(trajectories, [state_key(trajectory) for trajectory in trajectories])

    @classmethod
    def from_names(
        cls, trajectories: Sequence[Trajectory], state_names: Sequence[Sequence[str]]
    ) -> StepTable:
        """Build the columns. `state_names[i]` holds len(steps) + 1 names for trajectory i, as above."""
        if len(state_names) != len(trajectories):
            raise ValueError(
                f"state_key: names for {len(state_names)} trajectories; expected {len(trajectories)}"
            )
        numbers: dict[str, int] = {}
        groups: dict[str, int] = {}
        state: list[int] = []
        final_state: list[int] = []
        for trajectory, names in zip(trajectories, state_names, strict=True):
            if len(names) != len(trajectory.steps) + 1:
                raise ValueError(
                    f"state_key: {len(names)} names for {len(trajectory.steps)} steps; expected "
                    "one for each step and one for the final state"
                )
            codes = [numbers.setdefault(name, len(numbers)) for name in names]
            state += codes[:-1]
            final_state.append(codes[-1])
        steps = [step for trajectory in trajectories for step in trajectory.steps]
        return cls(
            offsets=np.cumsum([0, *(len(t.steps) for t in trajectories)]),
            group=np.array([groups.setdefault(t.task_id, len(groups)) for t in trajectories], np.int64),
            truncated=np.array([t.outcome == Outcome.TRUNCATED for t in trajectories], bool),
            success=np.array([t.success for t in trajectories], bool),
            reward=np.array([step.reward for step in steps], np.float64),
            state=np.array(state, np.int64),
            final_state=np.array(final_state, np.int64),
            valid=np.array([step.valid for step in steps], bool),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Credit:
    """What an estimator says about every step, and why. All columns are (S,).

    return_to_go  float64  R_t = sum over k of gamma^k r_{t+k}, penalties included as configured
    anchor        int64    number of the anchor group: steps of one task in one state
    anchor_size   int64    steps in that anchor group
    value         float64  the grouped proxy for V(s_t); what the estimator subtracts as baseline
    next_value    float64  the proxy for V(s_{t+1}); 0 after a terminal step
    td_error      float64  r_t + gamma * next_value - value
    advantage     float64  before normalisation
    normalized    float64  what the loss uses
    """

    return_to_go: np.ndarray
    anchor: np.ndarray
    anchor_size: np.ndarray
    value: np.ndarray
    next_value: np.ndarray
    td_error: np.ndarray
    advantage: np.ndarray
    normalized: np.ndarray

    def __post_init__(self) -> None:
        for field in fields(self):
            kind = np.int64 if field.name in ("anchor", "anchor_size") else np.float64
            column = _column(field.name, getattr(self, field.name), kind, owner="Credit")
            object.__setattr__(self, field.name, column)
            if len(column) != len(self.return_to_go):
                raise ValueError(
                    f"Credit.{field.name}: {len(column)} rows; expected {len(self.return_to_go)}"
                )


def recorded_state_keys(trajectory: Trajectory) -> list[str]:
    """The environment's own exact state: the default state key."""
    return [*(step.state_key for step in trajectory.steps), trajectory.final_state_key]


def _column(name: str, values: np.ndarray, kind: type, owner: str = "StepTable") -> np.ndarray:
    """A read-only one-dimensional array of `kind`; refuses casts that could lose a value."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{owner}.{name}: shape {array.shape}; expected one dimension")
    if not np.can_cast(array.dtype, kind, "same_kind"):
        raise ValueError(f"{owner}.{name}: dtype {array.dtype}; expected {np.dtype(kind)}")
    array = array.astype(kind)  # a copy, so that freezing it leaves the caller's array writable
    array.flags.writeable = False
    return array
