"""Whose turn is which trajectory: the same for everybody who makes it of the same arguments."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import NamedTuple

from gagpo.store import check_name
from gagpo.targets import Target


class Progress(NamedTuple):
    """Trajectories that a reviewer has reviewed, of those that are the reviewer's."""

    done: int
    total: int


class Queue:
    """Trajectories to review, in an order that `seed` shuffles and more trajectories do not change.

    With `reviewers` and `overlap` every trajectory goes to that many of them, and they get equally many,
    one more or less; otherwise everybody reviews everything. `done` below is gagpo.review.reviewed().
    """

    def __init__(
        self,
        targets: Sequence[Target],
        *,
        seed: int = 0,
        reviewers: Sequence[str] = (),
        overlap: int | None = None,
    ) -> None:
        if any(target.level != "trajectory" for target in targets) or len(set(targets)) < len(targets):
            raise ValueError("targets: expected whole trajectories, each once")
        for name in reviewers:
            check_name("reviewers", name)
        if len(set(reviewers)) < len(reviewers):
            raise ValueError(f"reviewers: {', '.join(reviewers)}; one stands twice")
        if overlap is not None and not 1 <= overlap <= len(reviewers):
            raise ValueError(f"overlap: {overlap}; expected 1 to {len(reviewers)}, the number of reviewers")
        self.order = tuple(sorted(targets, key=lambda target: _drawn(seed, target)))
        self._dealt: dict[str, list[Target]] | None = None
        if overlap is not None:
            self._dealt = {name: [] for name in reviewers}
            for target in self.order:
                least = sorted(
                    self._dealt, key=lambda who: (len(self._dealt[who]), _drawn(seed, target, who))
                )
                for who in least[:overlap]:
                    self._dealt[who].append(target)

    def assigned(self, reviewer: str) -> tuple[Target, ...]:
        """What the reviewer is to review, in order."""
        if self._dealt is None:
            return self.order
        if reviewer not in self._dealt:
            raise ValueError(f"reviewer: {reviewer!r}; expected one of {', '.join(self._dealt)}")
        return tuple(self._dealt[reviewer])

    def progress(self, reviewer: str, done: Collection[tuple[str, Target]]) -> Progress:
        """How far the reviewer is."""
        own = self.assigned(reviewer)
        return Progress(sum((reviewer, target) in done for target in own), len(own))

    def next_target(
        self, reviewer: str, done: Collection[tuple[str, Target]], after: Target | None = None
    ) -> Target | None:
        """The first that is not done, after `after` where there is one, else from the start; None when
        all are done."""
        own = self.assigned(reviewer)
        start = own.index(after) + 1 if after in own else 0
        return next((t for t in own[start:] + own[:start] if (reviewer, t) not in done), None)


def _drawn(seed: int, target: Target, reviewer: str = "") -> bytes:
    """A place in an order that depends on these alone, on every machine."""
    return hashlib.sha256(f"{seed}&{target}&{reviewer}".encode()).digest()
