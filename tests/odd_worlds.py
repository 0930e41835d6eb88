"""Worlds for tests of what a person plays with: corridors with a twist, and one where ways meet."""

from __future__ import annotations

from typing import ClassVar

from corridor import Corridor, CorridorWorld


class Mute(Corridor):
    """Accepts commands and tells none."""

    def admissible(self):
        return ()


class Planless(Corridor):
    def expert(self):
        return None


class Breaking(Corridor):
    """Moves and then raises: without a restore the place would be lost."""

    def step(self, action):
        answer = super().step(action)
        return answer if action != "boom" else 1 / 0

    def expert(self):
        return "boom"


class Wide(Corridor):
    """A hundred commands that say a number, and the corridor's own."""

    def admissible(self):
        return tuple(sorted((*super().admissible(), *(f"say {i:02}" for i in range(100)))))


class Silent(Corridor):
    """Its whole state cannot be drawn."""

    def render(self):
        raise RuntimeError("no picture")


class Diamond(Corridor):
    """a leads to b, by two commands, and to c; both lead to d, whose sight tells from where, and to e."""

    WAYS: ClassVar = {
        ("a", "left"): "b",
        ("a", "veer"): "b",
        ("a", "right"): "c",
        ("b", "on"): "d",
        ("c", "on"): "d",
        ("b", "off"): "e",
        ("c", "off"): "e",
    }

    def reset(self, *, seed=None, options=None):
        self.place, self.num_steps = "a", 0
        return "at a", {"won": False}

    def step(self, action):
        before, self.place = self.place, self.WAYS[self.place, action]
        seen = f"at d from {before}" if self.place == "d" else f"at {self.place}"
        return seen, 0.0, False, False, {"won": False, "valid": True}

    def admissible(self):
        return tuple(sorted(action for place, action in self.WAYS if place == self.place))


def hostile(text: str) -> type[Corridor]:
    """A corridor in which every text that a person sees is this one, and leads to the right."""

    class Hostile(Corridor):
        def __init__(self, task_id):
            super().__init__(task_id)
            self.task_id = self.goal = text

        def _text(self):
            return text

        def step(self, action):
            # The corridor asks which commands are admissible: those of its own words.
            self.admissible = super().admissible
            answer = super().step("go right" if action == text else "refused")
            del self.admissible
            return answer

        def state_key(self):
            return f"{self.place}{text}"

        def admissible(self):
            return (text,)

        def expert(self):
            return text

        def render(self):
            return text

    return Hostile


class OddWorld(CorridorWorld):
    """The tasks of a corridor, played in an odd environment. A task that ends in 3 cannot be made."""

    def __init__(self, kind: type[Corridor]) -> None:
        self.kind = kind

    def make(self, task_id):
        if task_id.endswith("3"):
            raise ValueError(f"task_id: {task_id!r} cannot be made")
        return self.kind(task_id)
