"""A shopper at work: the `Env` of one WebShop task."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gagpo.envs.webshop import planner
from gagpo.envs.webshop.pages import State, clickables
from gagpo.envs.webshop.reward import Goal
from gagpo.envs.webshop.searches import suggested_searches
from gagpo.envs.webshop.shop import Shop

Snapshot = tuple[State, int]
OPEN_SEARCH = "search[<words>]"


class ShopGame:
    """One task in WebShop's words, commands `search[words]` and `click[name]`.

    Buying terminates; "won" is a score of 1. It pays `success_reward`, or nothing where the score is
    less; with `partial_reward`, `success_reward` times the score. The info of a purchase holds
    "score" (what the original pays) and "parts" of it. The `max_steps`-th step truncates. What the
    original ignores shows the same page again and costs a step.

    Every search is accepted, on every page. On the search page `admissible` lists the searches that
    the words of the goal suggest, so that there is something to choose from; without
    `suggest_searches` it is "search[<words>]", for a policy that finds words of its own.
    """

    def __init__(
        self,
        shop: Shop,
        goal: Goal,
        task_id: str,
        *,
        max_steps: int,
        success_reward: float,
        partial_reward: bool,
        suggest_searches: bool = True,
    ) -> None:
        self.task_id, self.goal = task_id, goal.instruction
        self.max_steps, self.success_reward, self.partial_reward = max_steps, success_reward, partial_reward
        self._shop, self._goal = shop, goal
        self._searches = suggested_searches(goal.instruction) if suggest_searches else ()
        self.restore((State(), 0))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict]:
        """Start over; there is no chance in this world, so `seed` and `options` change nothing."""
        self.restore((State(), 0))
        return self.observation(), {"won": False}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        """Returns (observation, reward, terminated, truncated, info); info has "won" and "valid", and
        after a purchase "score" and "parts".

        Raises ValueError after the end of the trajectory."""
        if self._state.page == "done" or self._num_steps >= self.max_steps:
            raise ValueError(f"step: the trajectory of {self.task_id!r} has ended; reset or restore first")
        after = self._shop.follow(self._state, action, self._clickables)
        self.restore((self._state if after is None else after, self._num_steps + 1))
        info: dict[str, Any] = {"won": False, "valid": after is not None}
        if self._state.page != "done":
            return self.observation(), 0.0, False, self._num_steps >= self.max_steps, info
        score = self._shop.score(self._goal, self._state)
        won = score.total == 1.0
        info |= {"won": won, "score": score.total, "parts": asdict(score)}
        reward = self.success_reward * (score.total if self.partial_reward else float(won))
        return self.observation(), reward, True, False, info

    def observation(self) -> str:
        """The page in the words of the shop's mode."""
        return self._shop.text(self._state, self._pieces)

    def clickables(self) -> tuple[str, ...]:
        """What the page offers to click, as the original names it and in its order."""
        return tuple(self._clickables)

    def state_key(self) -> str:
        """32 hexadecimal digits; searches that find the same products lead to one state."""
        return self._shop.identity(self._state)

    def admissible(self) -> tuple[str, ...]:
        """The clicks that the page accepts and, on the search page, suggested searches; sorted."""
        if self._state.page == "search":
            return self._searches or (OPEN_SEARCH,)
        commands = (f"click[{name}]" for name in self._clickables)
        return tuple(sorted(c for c in commands if self._shop.accepts(c, self._clickables)))

    def snapshot(self) -> Snapshot:
        """The state and the number of steps taken."""
        return self._state, self._num_steps

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this task."""
        self._state, self._num_steps = snapshot
        self._pieces = self._shop.pieces(self._goal, self._state)
        self._clickables = clickables(self._pieces)

    def expert(self) -> str | None:
        """The next command towards a purchase of full score; None where none is known, and on the
        search page without `suggest_searches`."""
        return planner.next_command(self._shop, self._goal, self._searches, self._state)

    def render(self) -> str:
        """What is wanted and for how much, where the shopper is, and what buying now would be worth."""
        goal, state = self._goal, self._state
        options = ", ".join(o if isinstance(o, str) else f"{o[0]}: {o[1]}" for o in goal.options)
        lines = [
            f"goal: {goal.instruction}",
            f"target: {goal.asin} ({goal.title}), ${self._shop.prices[goal.asin]:.2f}",
            f"attributes: {', '.join(goal.attributes)}",
            f"options: {options or 'any'}",
            f"page: {state.page}" + (f" {state.number}" if state.page == "results" else ""),
        ]
        if state.keywords:
            lines.append(f"search: {' '.join(state.keywords)}")
        if state.asin:
            lines.append(f"product: {state.asin}, ${self._shop.prices[state.asin]:.2f}")
            lines.append(
                f"chosen: {', '.join(f'{name}: {value}' for name, value in state.options) or 'none'}"
            )
            lines.append(f"score if bought: {self._shop.score(goal, state).total:.3f}")
        return "\n".join(lines)
