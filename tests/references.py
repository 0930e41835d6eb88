"""Slow, obvious credit assignment to compare the fast code with: loops, and exact fractions.

Nothing here is shared with the package but the records. Every number up to the square root of a
variance is a `Fraction`, so a deviation is zero exactly when it should be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gagpo.config import CreditConfig
from gagpo.table import StepTable


@dataclass(frozen=True)
class Played:
    """A trajectory for `table_of`: one letter a state, `invalid` the steps that were not admissible."""

    group: int
    states: str
    rewards: Sequence[float]
    final: str = "~"
    truncated: bool = False
    success: bool = False
    invalid: Sequence[int] = ()


def table_of(*played: Played) -> StepTable:
    """The StepTable of hand-written trajectories."""
    lengths = [len(p.states) for p in played]
    return StepTable(
        offsets=np.cumsum([0, *lengths]),
        group=np.array([p.group for p in played]),
        truncated=np.array([p.truncated for p in played]),
        success=np.array([p.success for p in played]),
        reward=np.array([float(r) for p in played for r in p.rewards]),
        state=np.array([ord(s) for p in played for s in p.states]),
        final_state=np.array([ord(p.final) for p in played]),
        valid=np.array([t not in p.invalid for p in played for t in range(len(p.states))]),
    )


class Episode:
    """One trajectory as plain lists."""

    def __init__(self, table: StepTable, i: int, config: CreditConfig):
        rows = range(int(table.offsets[i]), int(table.offsets[i + 1]))
        self.group = int(table.group[i])
        self.truncated = bool(table.truncated[i])
        self.states = [int(table.state[row]) for row in rows]
        self.final_state = int(table.final_state[i])
        self.success = bool(table.success[i])
        if table.critic_value is not None:
            self.critic = [Fraction(float(table.critic_value[row])) for row in rows]
            self.critic_final = Fraction(float(table.critic_final[i]))
        self.penalty = [Fraction(0 if table.valid[row] else config.invalid_penalty) for row in rows]
        self.reward = [Fraction(float(table.reward[row])) for row in rows]
        if config.penalty_rule == "reward":
            self.reward = [r - p for r, p in zip(self.reward, self.penalty, strict=True)]
        gamma = Fraction(config.gamma)
        self.returns = [
            sum(gamma**k * r for k, r in enumerate(self.reward[t:])) for t in range(len(self.states))
        ]
        self.total = sum(self.reward)


def reference_credit(table: StepTable, config: CreditConfig) -> dict[str, list[float]]:
    """The columns of Credit, but for `anchor`, as lists of floats in the table's order."""
    episodes = [Episode(table, i, config) for i in range(table.num_trajectories)]
    late = [
        p if config.penalty_rule == "after_discounting" else Fraction(0)
        for episode in episodes
        for p in episode.penalty
    ]
    value, next_value, advantage, normalized = slow(config.estimator)(episodes, config, late)
    reward = [r for episode in episodes for r in episode.reward]
    if config.penalty_rule == "after_normalization":
        penalty = [p for episode in episodes for p in episode.penalty]
        normalized = [a - p for a, p in zip(normalized, penalty, strict=True)]
    gamma = Fraction(config.gamma)
    columns = {
        "return_to_go": [r for episode in episodes for r in episode.returns],
        "anchor_size": [
            len(_visits(episodes, episode.group, s)) for episode in episodes for s in episode.states
        ],
        "value": value,
        "next_value": next_value,
        "td_error": [r + gamma * n - v for r, n, v in zip(reward, next_value, value, strict=True)],
        "advantage": advantage,
        "normalized": normalized,
    }
    return {name: [float(x) for x in column] for name, column in columns.items()}


def slow(estimator: str):
    """The slow (episodes, config, late penalties) -> value, next_value, advantage, normalized."""
    import references_graph as graph  # it uses the helpers below

    return {
        "gagpo": _gagpo,
        "gigpo": _gigpo,
        "grpo": grpo,
        "rloo": _rloo,
        "reinforce": _reinforce,
        "hgpo": graph.hgpo,
        "graphgpo": graph.graphgpo,
        "gated_bepo": graph.gated_bepo,
        "gae": graph.gae,
    }[estimator]


def _visits(episodes: list[Episode], group: int, state: int) -> list[Fraction]:
    """Returns-to-go of all steps that a group took in a state."""
    return [
        r
        for episode in episodes
        if episode.group == group
        for s, r in zip(episode.states, episode.returns, strict=True)
        if s == state
    ]


def _gagpo(episodes, config, late):
    gamma, lam = Fraction(config.gamma), Fraction(config.lam)
    value, next_value, advantage = [], [], []
    for episode in episodes:
        values = []
        for state, own in zip(episode.states, episode.returns, strict=True):
            visits = _visits(episodes, episode.group, state)
            if config.own_return == "left_out" and len(visits) > 1:
                visits.remove(own)
            values.append(mean(visits))
        after = Fraction(0)
        if config.truncation == "bootstrap" and episode.truncated:
            visits = _visits(episodes, episode.group, episode.final_state)
            after = mean(visits) if visits else Fraction(0)
        nexts = [*values[1:], after]
        advantage += generalized(episode.reward, values, nexts, gamma, lam)
        value += values
        next_value += nexts
    advantage = [a - p for a, p in zip(advantage, late, strict=True)]
    normalized = over_steps(episodes, config, advantage)
    if config.episode_term:
        _, _, raw, scaled = grpo(episodes, config, late)
        advantage = [a + Fraction(config.episode_term) * e for a, e in zip(advantage, raw, strict=True)]
        normalized = [
            float(a) + config.episode_term * float(e) for a, e in zip(normalized, scaled, strict=True)
        ]
    return value, next_value, advantage, normalized


def generalized(reward, value, next_value, gamma, lam):
    """GAE of one trajectory from the values before and after each step."""
    td = [r + gamma * n - v for r, n, v in zip(reward, next_value, value, strict=True)]
    return [sum((gamma * lam) ** k * d for k, d in enumerate(td[t:])) for t in range(len(td))]


def _gigpo(episodes, config, late):
    omega = Fraction(config.omega)
    _, _, episode_raw, episode_normalized = grpo(episodes, config, late)
    returns = [r for episode in episodes for r in episode.returns]
    score = [r - p for r, p in zip(returns, late, strict=True)]
    place = [(episode.group, s) for episode in episodes for s in episode.states]
    value = [mean([x for x, p in zip(score, place, strict=True) if p == mine]) for mine in place]
    raw = [x - v for x, v in zip(score, value, strict=True)]
    scaled = raw if config.normalize == "none" else standardized(score, place)
    next_value = shifted(episodes, value)
    advantage = [e + omega * a for e, a in zip(episode_raw, raw, strict=True)]
    normalized = [float(e) + config.omega * float(a) for e, a in zip(episode_normalized, scaled, strict=True)]
    return value, next_value, advantage, normalized


def grpo(episodes, config, late):
    score = [episode.total for episode in episodes for _ in episode.states]
    score = [x - p for x, p in zip(score, late, strict=True)]
    weight = [Fraction(1, len(episode.states)) for episode in episodes for _ in episode.states]
    group = [episode.group for episode in episodes for _ in episode.states]
    value, advantage = [], []
    for x, mine in zip(score, group, strict=True):
        centre = mean(*_members(score, weight, group, mine))
        advantage.append(x - centre)
        value.append(centre)
    if config.normalize == "none":
        normalized = advantage
    else:
        where = group if config.normalize == "group" else [0] * len(group)
        normalized = standardized(score, where, weight)
    return value, shifted(episodes, value), advantage, normalized


def _rloo(episodes, config, late):
    value, advantage = [], []
    for i, episode in enumerate(episodes):
        others = [other.total for j, other in enumerate(episodes) if j != i and other.group == episode.group]
        baseline = mean(others) if others else episode.total
        value += [baseline] * len(episode.states)
        advantage += [episode.total - baseline] * len(episode.states)
    advantage = [a - p for a, p in zip(advantage, late, strict=True)]
    return value, shifted(episodes, value), advantage, advantage


def _reinforce(episodes, config, late):
    returns = [r for episode in episodes for r in episode.returns]
    advantage = [r - p for r, p in zip(returns, late, strict=True)]
    zeros = [Fraction(0)] * len(returns)
    return zeros, zeros, advantage, over_steps(episodes, config, advantage)


def over_steps(episodes, config, values):
    if config.normalize == "none":
        return values
    group = [episode.group for episode in episodes for _ in episode.states]
    return standardized(values, group if config.normalize == "group" else [0] * len(group))


def standardized(values, group, weight=None):
    weight = weight or [Fraction(1)] * len(values)
    result = []
    for x, mine in zip(values, group, strict=True):
        members, weights = _members(values, weight, group, mine)
        centre = mean(members, weights)
        sigma = math.sqrt(mean([(m - centre) ** 2 for m in members], weights))
        result.append(float(x - centre) / (sigma + 1e-8))
    return result


def _members(values, weight, group, mine):
    chosen = [k for k, g in enumerate(group) if g == mine]
    return [values[k] for k in chosen], [weight[k] for k in chosen]


def mean(values, weights=None):
    weights = weights or [Fraction(1)] * len(values)
    return sum(w * x for w, x in zip(weights, values, strict=True)) / sum(weights)


def shifted(episodes, value):
    """The value at the next step, 0 after the last."""
    result, start = [], 0
    for episode in episodes:
        end = start + len(episode.states)
        result += [*value[start + 1 : end], Fraction(0)]
        start = end
    return result
