"""One game made by TextWorld's `tw-make`, played by TextWorld itself, in this process.

TextWorld is not thread-safe and swaps `sys.stdout` now and then, so `gagpo.envs.textworld` gives each
game a process of its own. Nothing but TextWorld's own files says what a game does: play only files
that you trust.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

NOTHING_HAPPENS = "Nothing happens."
ENDINGS = ("*** The End ***", "*** You lost! ***")
WANTED = (
    *("feedback", "description", "facts", "admissible_commands", "policy_commands"),
    *("won", "lost", "score", "max_score", "objective"),
)
HOLDING = ("at", "in", "on")  # predicates (thing, where it is)
PLAYER = "P"
NAMES = {PLAYER: "the player", "I": "the inventory"}
Snapshot = tuple[tuple[str, ...], int]  # (accepted commands from the start on, number of steps taken)


class TextWorldGame:
    """A .z8 game (or a .json one that has none), played by text commands.

    Only admissible commands reach TextWorld: the interpreter would take "undo" and "restart" too, and
    much that TextWorld does not track. Everything else answers "Nothing happens." and costs a step.
    Winning pays `success_reward`, losing nothing, and both terminate; each point pays its share of
    `score_reward`, which all points of the game add up to. The `max_steps`-th step truncates.

    A .json game has no text; what is shown of it are the facts, all of them.
    """

    def __init__(
        self, path: Path, task_id: str, *, max_steps: int, success_reward: float, score_reward: float
    ) -> None:
        textworld = import_textworld()
        self.task_id, self.max_steps = task_id, max_steps
        self.success_reward, self.score_reward = success_reward, score_reward
        self._has_text = path.suffix != ".json"
        self._env = textworld.start(str(path), textworld.EnvInfos(**dict.fromkeys(WANTED, True)))
        if self._has_text:
            self._env.unwrapped.seed(0)  # the interpreter's own draws
        self.reset()
        self.goal = " ".join(self._state["objective"].split()) or "win the game."

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict]:
        """Start over; there is no chance in these games, so `seed` and `options` change nothing."""
        self._state = self._env.reset()
        self._commands: list[str] = []
        self._arrivals: list[str] = []  # things that were moved, the last one last
        self._num_steps = 0
        return self._seen(self._state.get("description")), {"won": False}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        """Returns (observation, reward, terminated, truncated, info); info has "won" and "valid".

        Raises ValueError after the end of the trajectory."""
        if self._ended() or self._num_steps >= self.max_steps:
            raise ValueError(f"step: the trajectory of {self.task_id!r} has ended; reset or restore first")
        self._num_steps += 1
        command, observation, reward = action.strip(), NOTHING_HAPPENS, 0.0
        valid = command in self._state["admissible_commands"]
        if valid:
            before = self._score()
            observation = self._play(command)
            share = (self._score() - before) / (self._state.get("max_score") or 1)
            reward = self.score_reward * share + (self.success_reward if self._won() else 0.0)
        ended = self._ended()
        truncated = not ended and self._num_steps >= self.max_steps
        return observation, reward, ended, truncated, {"won": self._won(), "valid": valid}

    def state_key(self) -> str:
        """A digest of TextWorld's facts, of how far each quest is, and of the order of what lies together.

        The last is no fact, but the interpreter lists what was put down later first, so that equal
        facts can read differently. A .json game has no such order.
        """
        quests = [
            (quest.nb_completions, quest.completed, quest.failed, quest.unfinishable)
            for quest in self._state["_game_progression"].quest_progressions
        ]
        state = [sorted(map(str, self._state["facts"])), quests, self._piles()]
        return blake2b(json.dumps(state).encode(), digest_size=16).hexdigest()

    def admissible(self) -> tuple[str, ...]:
        return tuple(sorted(set(self._state["admissible_commands"])))

    def snapshot(self) -> Snapshot:
        """The commands that led here: TextWorld's interpreter has no state that could be taken along."""
        return tuple(self._commands), self._num_steps

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this task by playing its commands again, from the start or from here."""
        commands, num_steps = snapshot
        played = len(self._commands)
        if tuple(self._commands) != commands[:played]:
            self.reset()
            played = 0
        for command in commands[played:]:
            self._play(command)
        self._num_steps = num_steps

    def expert(self) -> str | None:
        """The next command of the plan that TextWorld keeps; None at the end or where the plan is lost."""
        plan = self._state["policy_commands"] or ()
        return plan[0] if not self._ended() and plan and plan[0] in self.admissible() else None

    def render(self) -> str:
        """The goal, the score and every fact."""
        score = f"score: {self._score()} of {self._state.get('max_score')}"
        return "\n".join([f"goal: {self.goal}", score, *facts_in_words(self._state["facts"])])

    def _play(self, command: str) -> str:
        before = self._places()
        self._state, _, _ = self._env.step(command)
        self._commands.append(command)
        for thing in sorted(thing for thing, place in self._places().items() if before.get(thing) != place):
            if thing in self._arrivals:
                self._arrivals.remove(thing)
            self._arrivals.append(thing)
        return self._seen(self._state.get("feedback"))

    def _seen(self, text: str | None) -> str:
        return clean(text or "") if self._has_text else "\n".join(facts_in_words(self._state["facts"]))

    def _places(self) -> dict[str, str]:
        """{thing: where it is}, without the player."""
        held = [fact.arguments for fact in self._state["facts"] if fact.name in HOLDING]
        return {thing.name: place.name for thing, place in held if thing.type != PLAYER}

    def _piles(self) -> list[tuple[str, list[str], list[str]]]:
        """(place, things that were never moved, the others in the order of their arrival) where
        several things are. A single one that was never moved counts as the first that arrived: what
        comes later finds it there, moved or not."""
        if not self._has_text:
            return []
        piles: dict[str, tuple[list[str], list[str]]] = {}
        places = self._places()
        for thing in [*sorted(places.keys() - set(self._arrivals)), *self._arrivals]:
            if thing in places:
                pile = piles.setdefault(places[thing], ([], []))
                pile[thing in self._arrivals].append(thing)
        return [
            (place, [], still + moved) if len(still) == 1 else (place, still, moved)
            for place, (still, moved) in sorted(piles.items())
            if len(still + moved) > 1
        ]

    def _score(self) -> int:
        return self._state.get("score") or 0

    def _won(self) -> bool:
        return bool(self._state["won"])

    def _ended(self) -> bool:
        return bool(self._state["won"] or self._state["lost"])


def clean(text: str) -> str:
    """What a game says, line by line, without the line of its status and without what follows the end.

    Both tell the number of moves, which is no part of the state."""
    text = re.sub(r"\n>[^\n]*\Z", "", text)
    for ending in ENDINGS:
        before, found, _ = text.partition(ending)
        text = before + found
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def facts_in_words(facts: Iterable[Any]) -> list[str]:
    """A line a fact, sorted: closed(chest: c) becomes "chest is closed"."""
    lines = []
    for fact in facts:
        first, *rest = (NAMES.get(argument.name, argument.name) for argument in fact.arguments)
        lines.append(" ".join([first, "is", fact.name.replace("_", " "), ", ".join(rest)]).strip())
    return sorted(lines)


def import_textworld() -> ModuleType:
    """TextWorld, or a ValueError that says how to install it."""
    try:
        import textworld
    except ImportError as error:
        raise ValueError(
            "env: textworld needs the package textworld; install it with pip install textworld"
        ) from error
    return textworld
