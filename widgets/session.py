"""A world played by hand: what was done so far, and every way back. A plain class, without widgets."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import numpy as np

from gagpo.envs.base import SPLITS, Env, World
from widgets.tables import Table

MAX_SEED = 2**31 - 1
MAX_AHEAD = 1000  # commands of a plan that are played; a world may have no step limit
WON, LOST, CUT = "won", "terminated without success", "truncated"
COLUMNS = ("step", "command", "observation", "reward", "state key", "seen before")


def visible(text: str) -> str:
    """The text without what could steer a page or a terminal: control and direction marks."""
    return "".join(c if c.isprintable() or c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)


@dataclass(frozen=True, slots=True)
class Moment:
    """What a command led to; the first moment of a session, the start, has none.

    `ending` is empty while the trajectory goes on, else WON, LOST or CUT.
    """

    command: str | None
    observation: str
    reward: float
    valid: bool
    ending: str
    state_key: str
    snapshot: Hashable


class Session:
    """One task being played. The last of `moments` is now; all of them can be gone back to.
    `seed` decides what is chance in the world.

    An environment that raises leaves the session where it was, and the error goes to the caller.
    """

    def __init__(self, env: Env, seed: int = 0) -> None:
        self.env = env
        observation, info = env.reset(seed=seed)
        self.moments = [self._moment(None, observation, 0.0, True, WON if info["won"] else "")]

    @property
    def now(self) -> Moment:
        """Where the session stands."""
        return self.moments[-1]

    @property
    def num_steps(self) -> int:
        """Commands played so far."""
        return len(self.moments) - 1

    @property
    def total_reward(self) -> float:
        """The rewards so far, not discounted."""
        return sum(moment.reward for moment in self.moments)

    def commands(self) -> tuple[str, ...]:
        """The admissible commands here; none after the end."""
        return () if self.now.ending else tuple(self.env.admissible())

    def play(self, command: str) -> Moment:
        """Play any command, admissible or not. Raises ValueError after the end."""
        if self.now.ending:
            raise ValueError(
                f"command: {command!r}, but the trajectory is over ({self.now.ending}) after "
                f"{self.num_steps} steps; expected undo first"
            )
        try:
            observation, reward, terminated, truncated, info = self.env.step(command)
            ending = WON if info["won"] else LOST if terminated else CUT if truncated else ""
            moment = self._moment(command, observation, float(reward), bool(info["valid"]), ending)
        except BaseException:  # an interrupt too
            with suppress(Exception):
                self.env.restore(self.now.snapshot)
            raise
        self.moments.append(moment)
        return moment

    def undo(self, to: int | None = None) -> None:
        """Go back to the moment after step `to`, by default one step. Raises ValueError for others."""
        to = self.num_steps - 1 if to is None else to
        if not 0 <= to <= self.num_steps or (to == 0 == self.num_steps):
            raise ValueError(f"step: {to}; expected an earlier one, of {self.num_steps} played so far")
        self.env.restore(self.moments[to].snapshot)
        del self.moments[to + 1 :]

    def ahead(self, commands: Iterable[str]) -> list[Moment]:
        """What these commands would lead to, up to the end; the session itself stays where it is.

        `commands` may ask the environment what comes next.
        """
        here = len(self.moments)
        try:
            for command in islice(commands, MAX_AHEAD):
                if self.play(command).ending:
                    break
            return self.moments[here:]
        finally:
            del self.moments[here:]
            self.env.restore(self.now.snapshot)

    def hint(self) -> str | None:
        """The next command of the expert's plan; None after the end and where no plan is known."""
        return None if self.now.ending else self.env.expert()

    def plan(self) -> list[Moment]:
        """The expert's plan from here and what it leads to; empty where there is none.

        In a world with chance, under the very draws that will come.
        """
        return self.ahead(self._expert())

    def shortest_plan(self) -> list[Moment]:
        """A plan with the fewest commands where the environment can tell one, else the expert's."""
        known = getattr(self.env, "shortest_plan", None)
        return self.plan() if known is None else self.ahead(known() or ())

    def table(self, caption: str, moments: Sequence[Moment] | None = None) -> Table:
        """The moments so far, or those of a plan from here, a row each."""
        ahead = [] if moments is None else list(moments)
        first_at: dict[str, int] = {}
        rows = []
        for step, moment in enumerate([*self.moments, *ahead]):
            first = first_at.setdefault(moment.state_key, step)
            command = "(start)" if moment.command is None else moment.command
            note = "" if moment.valid else " (not accepted)"
            seen = "" if first == step else f"step {first}"
            texts = [command + note, moment.observation, f"{moment.reward:g}", moment.state_key, seen]
            rows.append((str(step), *map(visible, texts)))
        shown = rows if moments is None else rows[len(self.moments) :]
        return Table(caption, COLUMNS, tuple(shown))

    def _expert(self) -> Iterator[str]:
        while (command := self.hint()) is not None:
            yield command

    def _moment(
        self, command: str | None, observation: str, reward: float, valid: bool, ending: str
    ) -> Moment:
        for name, text in (("observation", observation), ("state_key", key := self.env.state_key())):
            if not isinstance(text, str):
                raise ValueError(f"{name}: {text!r} is {type(text).__name__}; expected str")
        return Moment(command, observation, reward, valid, ending, key, self.env.snapshot())


def offered_tasks(world: World, num: int, seed: int) -> list[str]:
    """`num` task ids of each split, drawn by `seed`. Raises ValueError where there are none."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
        raise ValueError(f"seed: {seed!r}; expected a whole number from 0 to {MAX_SEED}")
    rng = np.random.default_rng(seed)
    tasks = [task for split in SPLITS for task in world.tasks(split, num, rng)]
    if not tasks:
        raise ValueError("world: it has no tasks; expected at least one")
    return tasks
