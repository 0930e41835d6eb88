"""A world for tests: a corridor of five places; the goal is one of its two ends, named in the task."""

from __future__ import annotations

from typing import ClassVar

LENGTH, MAX_STEPS = 5, 8


class Corridor:
    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.target = int(task_id.rsplit("-", 1)[1]) % 2 * (LENGTH - 1)
        self.goal = f"reach place {self.target}"
        self.place, self.num_steps = LENGTH // 2, 0

    def _text(self) -> str:
        return f"you are at place {self.place}."

    def reset(self, *, seed=None, options=None):
        self.place, self.num_steps = LENGTH // 2, 0
        return self._text(), {"won": False}

    def step(self, action):
        if self.place == self.target or self.num_steps >= MAX_STEPS:
            raise ValueError(f"step: the trajectory of {self.task_id!r} has ended")
        self.num_steps += 1
        valid = action in self.admissible()
        if valid and action != "wait":
            self.place += 1 if action == "go right" else -1
        won = self.place == self.target
        truncated = not won and self.num_steps >= MAX_STEPS
        text = self._text() if valid else "nothing happens."
        return text, float(won), won, truncated, {"won": won, "valid": valid}

    def state_key(self):
        return str(self.place)

    def admissible(self):
        sides = [name for name, end in (("go left", 0), ("go right", LENGTH - 1)) if self.place != end]
        return (*sides, "wait")

    def snapshot(self):
        return self.place, self.num_steps

    def restore(self, snapshot):
        self.place, self.num_steps = snapshot

    def expert(self):
        return "go right" if self.target > self.place else "go left"

    def render(self):
        return "".join("A" if i == self.place else "." for i in range(LENGTH))


class CorridorWorld:
    skipped: ClassVar[dict[str, int]] = {}

    def tasks(self, split, num, rng):
        start = int(rng.integers(10**6)) * 1000
        return [f"corridor-{split}-{start + i}" for i in range(num)]

    def make(self, task_id):
        return Corridor(task_id)

    def task_type(self, task_id):
        return "left" if Corridor(task_id).target == 0 else "right"

    def words(self):
        text = "you are at place . nothing happens . go left right wait reach"
        return {*text.split(), *map(str, range(LENGTH))}


def make_world(config):
    return CorridorWorld()


class FailingWorld(CorridorWorld):
    """One task in `EVERY` has an environment that breaks at its first step."""

    EVERY = 3

    def make(self, task_id):
        env = super().make(task_id)
        if int(task_id.rsplit("-", 1)[1]) % self.EVERY == 0:
            env.step = lambda action: 1 / 0
        return env


def make_failing_world(config):
    return FailingWorld()
