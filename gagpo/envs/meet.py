"""Two ways into one state: how trajectories of a task meet, so that their returns can be compared."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from gagpo.envs.base import Env

MAX_STATES = 200


class Way(NamedTuple):
    """Commands from the start, with what was seen and which state it was after each.

    The start stands first in `observations` and `state_keys`, so they are longer by one.
    """

    commands: tuple[str, ...]
    observations: tuple[str, ...]
    state_keys: tuple[str, ...]


class Meeting(NamedTuple):
    """Two ways that end in one state, which they enter from different states."""

    first: Way
    second: Way

    @property
    def seen_alike(self) -> bool:
        """The last observations are equal too."""
        return self.first.observations[-1] == self.second.observations[-1]


def find_meeting(env: Env, *, seed: int = 0, max_states: int = MAX_STATES) -> Meeting | None:
    """Two ways into one state from two others; None where no pair was found.

    Breadth first, by snapshot and restore, from the start of `env` (which is reset) through the
    admissible commands, up to `max_states` states. The first way into a state is a shortest one
    and is compared with every other last step into it. Best is a pair whose last observations
    differ, then one in which no way visits a state twice, then equal lengths, then short ways.
    """
    observation, info = env.reset(seed=seed)
    start = Way((), (observation,), (env.state_key(),))
    if info["won"]:
        return None
    first: dict[str, tuple[Way, Hashable]] = {start.state_keys[-1]: (start, env.snapshot())}
    waiting = list(first)
    best: Meeting | None = None
    for key in waiting:  # grows while it is walked
        way, snapshot = first[key]
        env.restore(snapshot)
        for command in env.admissible():
            env.restore(snapshot)
            observation, _, terminated, truncated, _ = env.step(command)
            after = env.state_key()
            if terminated or truncated or after == key:
                continue
            longer = Way((*way.commands, command), (*way.observations, observation), (*way.state_keys, after))
            known = first.get(after)
            if known is None:
                if len(first) < max_states:
                    first[after] = longer, env.snapshot()
                    waiting.append(after)
            elif known[0].commands and known[0].state_keys[-2] != key:
                best = min((found for found in (best, Meeting(known[0], longer)) if found), key=_rank)
    return best


def _rank(meeting: Meeting) -> tuple[int, ...]:
    lengths = [len(way.commands) for way in meeting]
    turns_back = any(len(set(way.state_keys)) < len(way.state_keys) for way in meeting)
    return meeting.seen_alike, turns_back, abs(lengths[0] - lengths[1]), sum(lengths)
