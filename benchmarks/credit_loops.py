"""Every estimator as straightforward loops over steps: what credit_speed.py compares with.

Each function returns the normalised advantages, (S,) float64, with the default settings of
CreditConfig. They are written as one would write them first, in linear time but for the sweeps of
Gated-BEPO, and not as tests: tests/references.py is exact.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Sequence
from itertools import pairwise

from gagpo.config import CreditConfig
from gagpo.table import StepTable


class Steps:
    """A table as lists: rewards with their penalties, tasks, states, and the rows of each trajectory."""

    def __init__(self, table: StepTable, config: CreditConfig):
        self.config = config
        paid = zip(table.reward.tolist(), table.valid.tolist(), strict=True)
        self.reward = [r if ok else r - config.invalid_penalty for r, ok in paid]
        self.rows = [range(a, b) for a, b in pairwise(table.offsets.tolist())]
        self.tasks, self.success = table.group.tolist(), table.success.tolist()
        self.finals = list(zip(self.tasks, table.final_state.tolist(), strict=True))
        self.task = [task for task, rows in zip(self.tasks, self.rows, strict=True) for _ in rows]
        self.place = list(zip(self.task, table.state.tolist(), strict=True))
        self.after = [*self.place[1:], self.place[0]]
        for rows, final in zip(self.rows, self.finals, strict=True):
            self.after[rows[-1]] = final
        self.returns = self.sums(self.reward, config.gamma)
        self.totals = [sum(self.reward[row] for row in rows) for rows in self.rows]
        self.critic = [] if table.critic_value is None else table.critic_value.tolist()

    def sums(self, values: Sequence[float], discount: float) -> list[float]:
        result = list(values)
        for rows in self.rows:
            for row in reversed(rows[:-1]):
                result[row] += discount * result[row + 1]
        return result

    def spread(self, per_trajectory: Sequence[float]) -> list[float]:
        return [x for x, rows in zip(per_trajectory, self.rows, strict=True) for _ in rows]

    def generalized(self, value: Sequence[float]) -> list[float]:
        errors = [0.0] * len(value)
        for rows in self.rows:
            following = 0.0
            for row in reversed(rows):
                errors[row] = self.reward[row] + self.config.gamma * following - value[row]
                following = value[row]
        return self.sums(errors, self.config.gamma * self.config.lam)


def means(values: Sequence[float], group: Sequence[Hashable]) -> dict[Hashable, float]:
    members = defaultdict(list)
    for x, g in zip(values, group, strict=True):
        members[g].append(x)
    return {g: sum(own) / len(own) for g, own in members.items()}


def standard(values: Sequence[float], group: Sequence[Hashable]) -> list[float]:
    mean = means(values, group)
    centred = [x - mean[g] for x, g in zip(values, group, strict=True)]
    variance = means([x * x for x in centred], group)
    sigma = {g: v**0.5 if v > 1e-20 else float("inf") for g, v in variance.items()}
    return [x / (sigma[g] + 1e-8) for x, g in zip(centred, group, strict=True)]


def reinforce(steps: Steps) -> list[float]:
    return standard(steps.returns, steps.task)


def grpo(steps: Steps) -> list[float]:
    return steps.spread(standard(steps.totals, steps.tasks))


def rloo(steps: Steps) -> list[float]:
    siblings = defaultdict(list)
    for task, total in zip(steps.tasks, steps.totals, strict=True):
        siblings[task].append(total)
    result = []
    for task, total in zip(steps.tasks, steps.totals, strict=True):
        others = len(siblings[task]) - 1
        result.append(total - (sum(siblings[task]) - total) / others if others else 0.0)
    return steps.spread(result)


def gagpo(steps: Steps) -> list[float]:
    value = means(steps.returns, steps.place)
    return standard(steps.generalized([value[p] for p in steps.place]), steps.task)


def gae(steps: Steps) -> list[float]:
    return standard(steps.generalized(steps.critic), steps.task)


def gigpo(steps: Steps) -> list[float]:
    step = standard(steps.returns, steps.place)
    return [e + steps.config.omega * s for e, s in zip(grpo(steps), step, strict=True)]


def hgpo(steps: Steps) -> list[float]:
    last = steps.config.hgpo_history
    weights = [(k + 1) ** steps.config.hgpo_alpha for k in range(last + 1)]
    result = [0.0] * len(steps.returns)
    for k, weight in enumerate(weights):
        deep = [row for rows in steps.rows for row in rows[k:]]
        history = [tuple(steps.place[row - k : row + 1]) for row in deep]
        for row, x in zip(deep, standard([steps.returns[row] for row in deep], history), strict=True):
            result[row] += weight / sum(weights) * x
    return result


def graphgpo(steps: Steps) -> list[float]:
    before = defaultdict(list)
    for source, target in zip(steps.place, steps.after, strict=True):
        before[target].append(source)
    distance = {final: 0 for final, good in zip(steps.finals, steps.success, strict=True) if good}
    queue = deque(distance)
    while queue:
        target = queue.popleft()
        for source in before[target]:
            if source not in distance:
                distance[source] = distance[target] + 1
                queue.append(source)
    worth, gamma = steps.config.goal_worth, steps.config.gamma
    score = [worth * gamma ** distance[p] if p in distance else 0.0 for p in steps.after]
    step = standard(score, steps.place)
    return [e + steps.config.omega * s for e, s in zip(grpo(steps), step, strict=True)]


def gated_bepo(steps: Steps) -> list[float]:
    value, change = means(steps.reward, steps.place), 1.0
    while change > 1e-13:
        target = list(steps.reward)
        for rows in steps.rows:
            for row in rows[:-1]:
                target[row] += steps.config.gamma * value[steps.place[row + 1]]
        new = means(target, steps.place)
        change = max(abs(new[p] - value[p]) for p in new)
        value = new
    led_to = defaultdict(set)
    for source, after in zip(steps.place, steps.after, strict=True):
        led_to[source].add(after)
    scaled = standard(steps.generalized([value[p] for p in steps.place]), steps.task)
    rows = zip(steps.place, scaled, grpo(steps), strict=True)
    return [a if len(led_to[p]) > 1 else e for p, a, e in rows]


LOOPS = {f.__name__: f for f in (gagpo, gigpo, grpo, rloo, reinforce, hgpo, graphgpo, gated_bepo, gae)}
