"""A household that is being played: the `Env` of official and generated games alike."""

from __future__ import annotations

from typing import Any

from gagpo.envs import planner, shortest, wording
from gagpo.envs.picture import picture
from gagpo.envs.rules import Action, Rules, State

Snapshot = tuple[State, int]


class Game:
    """One task in ALFWorld's words.

    Reaching the goal pays `success_reward` and terminates; the `max_steps`-th step without it
    truncates. A command that is not admissible answers "Nothing happens." and costs a step.
    "put X in/on Y", the wording before ALFWorld 0.4, is understood as "move X to Y".
    """

    def __init__(self, rules: Rules, task_id: str, *, max_steps: int, success_reward: float) -> None:
        self.task_id = task_id
        self.goal = rules.problem.sentence
        self.max_steps = max_steps
        self.success_reward = success_reward
        self._rules = rules
        self.restore((rules.start, 0))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict]:
        """Start over; there is no chance in this world, so `seed` and `options` change nothing."""
        self.restore((self._rules.start, 0))
        return wording.introduction(self._rules), {"won": self._won}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        """Returns (observation, reward, terminated, truncated, info); info has "won" and "valid".

        Raises ValueError after the end of the trajectory."""
        if self._won or self._num_steps >= self.max_steps:
            raise ValueError(f"step: the trajectory of {self.task_id!r} has ended; reset or restore first")
        self._num_steps += 1
        meaning = self._actions.get(_current_wording(action))
        observation = wording.NOTHING_HAPPENS
        if meaning is not None:
            self._enter(self._rules.apply(self._state, meaning))
            observation = wording.feedback(self._rules, meaning, self._state)
        reward = self.success_reward if self._won else 0.0
        truncated = not self._won and self._num_steps >= self.max_steps
        return observation, reward, self._won, truncated, {"won": self._won, "valid": meaning is not None}

    def state_key(self) -> str:
        """32 hexadecimal digits; the number of steps taken is not part of the state."""
        if self._key is None:
            self._key = self._state.key()
        return self._key

    def admissible(self) -> tuple[str, ...]:
        """The commands that change or show something here, sorted."""
        return tuple(self._actions)

    def snapshot(self) -> Snapshot:
        """The state and the number of steps taken."""
        return self._state, self._num_steps

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this task."""
        state, self._num_steps = snapshot
        self._actions: dict[str, Action] = {}
        self._state: State | None = None
        self._enter(state)

    def distance(self) -> int | None:
        """How many commands the goal is away at the least; None when it cannot be reached."""
        return shortest.distance(self._rules, self._state)

    def shortest_plan(self) -> list[str] | None:
        """A plan with the fewest commands; slower than `plan`, which is nearly always as short."""
        return shortest.shortest_plan(self._rules, self._state)

    def expert(self) -> str | None:
        """The first command of a short plan; None when the goal holds or cannot be reached."""
        plan = self.plan()
        return plan[0] if plan else None

    def plan(self) -> list[str] | None:
        """Commands that reach the goal from here; None when there are none."""
        return planner.plan(self._rules, self._state)

    def render(self) -> str:
        """All receptacles with what lies in them, what is held, and the goal."""
        return picture(self._rules, self._state)

    def _enter(self, state: State) -> None:
        """Make `state` the current one; what is derived from it is computed once."""
        if state == self._state:
            return
        self._state = state
        self._actions = self._rules.actions(state)
        self._won = self._rules.won(state)
        self._key: str | None = None


def _current_wording(command: str) -> str:
    command = command.strip()
    if command.startswith("put ") and " in/on " in command:
        return "move " + command[len("put ") :].replace(" in/on ", " to ", 1)
    return command
