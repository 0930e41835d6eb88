"""The keydoor world: nine rooms, a key, a locked door. Small enough to know every value exactly.

The rooms are a three by three grid whose passages form a tree; one passage is a locked door. The
start and the key lie on one side of it, the goal on the other, so each task takes: find the
key, take it, go to the door, unlock it, go to the goal. What is seen does not tell whether the
key is held, so an observation can stand for two states.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gagpo.config import WorldConfig
from gagpo.envs.base import Env
from gagpo.envs.seeded import SeededWorld, first_of_split

ROOMS = ("attic", "bathroom", "cellar", "den", "entrance", "foyer", "gallery", "hall", "kitchen")
SIDE = 3
DIRECTIONS = {"north": -SIDE, "east": 1, "south": SIDE, "west": -1}
KEY_LIES, KEY_HELD, DOOR_OPEN = range(3)
PHASES = ("key lies", "key held", "door open")
NOTHING_HAPPENS = "Nothing happens."
GOAL = "find the key and reach the {room}."
Place = tuple[int, int]  # (room, phase): the whole state


@dataclass(frozen=True, slots=True)
class House:
    """`passages` and `door` are pairs of rooms, the lower number first; the door is a passage too."""

    passages: tuple[tuple[int, int], ...]
    door: tuple[int, int]
    start: int
    key: int
    target: int


class KeyDoor:
    """One house that is being played.

    Entering the goal's room pays `success_reward` and terminates; the `max_steps`-th step without
    it truncates. A command that is not admissible answers "Nothing happens." and costs a step.
    """

    def __init__(self, house: House, task_id: str, *, max_steps: int, success_reward: float) -> None:
        self.task_id, self.house = task_id, house
        self.goal = GOAL.format(room=ROOMS[house.target])
        self.max_steps, self.success_reward = max_steps, success_reward
        self.restore((house.start, KEY_LIES, 0))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict]:
        """Start over; there is no chance in this world, so `seed` and `options` change nothing."""
        self.restore((self.house.start, KEY_LIES, 0))
        return describe(self.house, self._place), {"won": False}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        """Returns (observation, reward, terminated, truncated, info); info has "won" and "valid".

        Raises ValueError after the end of the trajectory."""
        if self._won() or self._num_steps >= self.max_steps:
            raise ValueError(f"step: the trajectory of {self.task_id!r} has ended; reset or restore first")
        self._num_steps += 1
        place = moves(self.house, self._place).get(action.strip())
        observation = NOTHING_HAPPENS
        if place is not None:
            self._place = place
            observation = describe(self.house, place)
        won = self._won()
        truncated = not won and self._num_steps >= self.max_steps
        reward = self.success_reward if won else 0.0
        return observation, reward, won, truncated, {"won": won, "valid": place is not None}

    def state_key(self) -> str:
        """The room and where the key is; the number of steps taken is not part of the state."""
        room, phase = self._place
        return f"{ROOMS[room]}, {PHASES[phase]}"

    def admissible(self) -> tuple[str, ...]:
        return tuple(sorted(moves(self.house, self._place)))

    def snapshot(self) -> tuple[int, int, int]:
        """(room, phase, number of steps taken)."""
        return (*self._place, self._num_steps)

    def restore(self, snapshot: tuple[int, int, int]) -> None:
        """Go back to a snapshot of this task."""
        room, phase, self._num_steps = snapshot
        self._place: Place = room, phase

    def expert(self) -> str | None:
        """The first command of a shortest plan; None when the goal is reached."""
        plan = shortest_plan(self.house, self._place)
        return plan[0] if plan else None

    def render(self) -> str:
        """The goal, where the key is, and every room with its open exits; ">" marks the agent's."""
        here, phase = self._place
        lines = [f"goal: {self.goal}", f"state: {PHASES[phase]}"]
        for room, name in enumerate(ROOMS):
            notes = ["the key"] if room == self.house.key and phase == KEY_LIES else []
            notes += ["the door"] if room in self.house.door else []
            notes += ["the goal"] if room == self.house.target else []
            exits = ", ".join(_exits(self.house, (room, phase)))
            mark = ">" if room == here else " "
            lines.append(f"{mark} {name}: {exits or 'no exit'}" + (f" ({', '.join(notes)})" if notes else ""))
        return "\n".join(lines)

    def distance(self) -> int:
        """The fewest steps from here to the goal."""
        return len(shortest_plan(self.house, self._place))

    def _won(self) -> bool:
        return self._place[0] == self.house.target


class KeyDoorWorld(SeededWorld):
    """Tasks are named keydoor/<split>/<seed>."""

    name = "keydoor"

    def make(self, task_id: str) -> Env:
        """The house of a task id. Raises ValueError for an id that is not of this world."""
        house = _house(*self.parts(task_id))
        config = self.config
        return KeyDoor(house, task_id, max_steps=config.max_steps, success_reward=config.success_reward)

    def words(self) -> set[str]:
        text = "you are in the . exits : none , a key lies here locked door leads take unlock go"
        text = f"{text} {NOTHING_HAPPENS} {GOAL.format(room='')}".lower().replace(".", " . ")
        return {*text.split(), *ROOMS, *DIRECTIONS}


def make_world(config: WorldConfig) -> KeyDoorWorld:
    """The keydoor world; of the dials it knows max_steps and success_reward."""
    return KeyDoorWorld(config)


def generate(rng: random.Random) -> House:
    """A tree of passages that grew at random, and what lies where. No shortest plan exceeds 17 steps."""
    rooms, passages = [rng.randrange(SIDE**2)], []
    while len(rooms) < SIDE**2:
        room = rng.choice(rooms)
        other = rng.choice(list(_neighbours(room).values()))
        if other not in rooms:
            rooms.append(other)
            passages.append((min(room, other), max(room, other)))
    door = rng.choice(sorted(passages))
    side = _reachable(rng.choice(door), [passage for passage in passages if passage != door])
    beyond = sorted(set(range(SIDE**2)) - set(side))
    return House(tuple(sorted(passages)), door, rng.choice(side), rng.choice(side), rng.choice(beyond))


def moves(house: House, place: Place) -> dict[str, Place]:
    """{command: the state it leads to} of every admissible command."""
    room, phase = place
    found = {f"go {direction}": (other, phase) for direction, other in _exits(house, place).items()}
    if phase == KEY_LIES and room == house.key:
        found["take key"] = (room, KEY_HELD)
    if phase == KEY_HELD and room in house.door:
        found["unlock door"] = (room, DOOR_OPEN)
    return found


def describe(house: House, place: Place) -> str:
    """What is seen: the room, its exits, a key that lies here, a locked door."""
    room, phase = place
    exits = ", ".join(_exits(house, place)) or "none"
    text = f"You are in the {ROOMS[room]}. Exits: {exits}."
    if phase == KEY_LIES and room == house.key:
        text += " A key lies here."
    if phase != DOOR_OPEN and room in house.door:
        (direction,) = (name for name, other in _neighbours(room).items() if {room, other} == {*house.door})
        text += f" A locked door leads {direction}."
    return text


def shortest_plan(house: House, place: Place) -> list[str]:
    """The fewest commands that reach the goal, by breadth-first search; empty when it is reached."""
    plans: dict[Place, list[str]] = {place: []}
    queue = deque([place])
    while queue[0][0] != house.target:
        here = queue.popleft()
        for command, after in sorted(moves(house, here).items()):
            if after not in plans:
                plans[after] = [*plans[here], command]
                queue.append(after)
    return plans[queue[0]]


def _exits(house: House, place: Place) -> dict[str, int]:
    room, phase = place
    return {
        direction: other
        for direction, other in _neighbours(room).items()
        if (passage := (min(room, other), max(room, other))) in house.passages
        and (phase == DOOR_OPEN or passage != house.door)
    }


def _neighbours(room: int) -> dict[str, int]:
    """{direction: room} within the grid."""
    row, column = divmod(room, SIDE)
    inside = {"north": row > 0, "east": column < SIDE - 1, "south": row < SIDE - 1, "west": column > 0}
    return {direction: room + DIRECTIONS[direction] for direction in DIRECTIONS if inside[direction]}


def _reachable(room: int, passages: list[tuple[int, int]]) -> list[int]:
    """The rooms on this side of a cut tree, sorted."""
    found, waiting = {room}, [room]
    while waiting:
        here = waiting.pop()
        new = {b if a == here else a for a, b in passages if here in (a, b)} - found
        found |= new
        waiting.extend(new)
    return sorted(found)


@lru_cache(maxsize=512)
def _house(split: str, seed: int) -> House:
    return first_of_split(generate, split, seed)
