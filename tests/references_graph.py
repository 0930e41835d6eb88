"""The slow references of the estimators that look at histories, at graphs or at a critic.

As in references.py: loops and exact fractions, and nothing from the package but the records.
"""

from __future__ import annotations

from fractions import Fraction

from references import generalized, grpo, mean, over_steps, shifted, standardized


def hgpo(episodes, config, late):
    weights = [(k + 1) ** config.hgpo_alpha for k in range(config.hgpo_history + 1)]
    score = [r for episode in episodes for r in episode.returns]
    score = [r - p for r, p in zip(score, late, strict=True)]
    advantage, normalized = [Fraction(0)] * len(score), [0.0] * len(score)
    for k, weight in enumerate(weights):
        share = weight / sum(weights)
        history = [
            (episode.group, tuple(episode.states[t - k : t + 1])) if t >= k else None
            for episode in episodes
            for t in range(len(episode.states))
        ]
        scaled = standardized(score, history)
        for row, mine in enumerate(history):
            if mine is not None:
                others = [x for x, h in zip(score, history, strict=True) if h == mine]
                advantage[row] += Fraction(share) * (score[row] - mean(others))
                normalized[row] += share * scaled[row]
    value = [x - a for x, a in zip(score, advantage, strict=True)]
    if config.normalize == "none":
        normalized = advantage
    return value, shifted(episodes, value), advantage, normalized


def steps_of(episodes, group):
    """(state, next state) of every step of the group."""
    return [
        edge
        for episode in episodes
        if episode.group == group
        for edge in zip(episode.states, [*episode.states[1:], episode.final_state], strict=True)
    ]


def distance(edges, start, goals):
    """Steps from `start` to the nearest of `goals`, by widening what can be reached; else None."""
    reached, length = {start}, 0
    while not reached & goals:
        wider = reached | {b for a, b in edges if a in reached}
        if wider == reached:
            return None
        reached, length = wider, length + 1
    return length


def graphgpo(episodes, config, late):
    score = []
    for episode in episodes:
        edges = steps_of(episodes, episode.group)
        goals = {e.final_state for e in episodes if e.group == episode.group and e.success}
        for state in [*episode.states[1:], episode.final_state]:
            far = distance(edges, state, goals)
            score.append(
                Fraction(0) if far is None else Fraction(config.goal_worth) * Fraction(config.gamma) ** far
            )
    score = [q - p for q, p in zip(score, late, strict=True)]
    place = [(episode.group, s) for episode in episodes for s in episode.states]
    value = [mean([q for q, p in zip(score, place, strict=True) if p == mine]) for mine in place]
    raw = [q - v for q, v in zip(score, value, strict=True)]
    scaled = raw if config.normalize == "none" else standardized(score, place)
    _, _, episode_raw, episode_scaled = grpo(episodes, config, late)
    advantage = [e + Fraction(config.omega) * a for e, a in zip(episode_raw, raw, strict=True)]
    normalized = [float(e) + config.omega * float(a) for e, a in zip(episode_scaled, scaled, strict=True)]
    return value, shifted(episodes, value), advantage, normalized


def bellman(episodes, group, gamma):
    """{state: V} of one group, by Gauss-Jordan elimination of V - gamma P V = r."""
    visits = [
        (s, r, after)
        for episode in episodes
        if episode.group == group
        for s, r, after in zip(episode.states, episode.reward, [*episode.states[1:], None], strict=True)
    ]
    states = sorted({s for s, _, _ in visits})
    rows = []
    for state in states:
        mine = [(r, after) for s, r, after in visits if s == state]
        share = gamma / len(mine)
        row = [Fraction(int(other == state)) - share * [a for _, a in mine].count(other) for other in states]
        rows.append([*row, mean([r for r, _ in mine])])
    for i in range(len(states)):
        pivot = next(j for j in range(i, len(states)) if rows[j][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for j in range(len(states)):
            if j != i:
                rows[j] = [x - rows[j][i] * y for x, y in zip(rows[j], rows[i], strict=True)]
    return {state: row[-1] for state, row in zip(states, rows, strict=True)}


def gated_bepo(episodes, config, late):
    gamma = Fraction(config.gamma)
    value, next_value, temporal, gate = [], [], [], []
    for episode in episodes:
        known = bellman(episodes, episode.group, gamma)
        edges = steps_of(episodes, episode.group)
        values = [known[s] for s in episode.states]
        after = Fraction(0)
        if config.truncation == "bootstrap" and episode.truncated:
            after = known.get(episode.final_state, after)
        nexts = [*values[1:], after]
        temporal += generalized(episode.reward, values, nexts, gamma, Fraction(config.lam))
        gate += [len({b for a, b in edges if a == s}) >= 2 for s in episode.states]
        value += values
        next_value += nexts
    temporal = [a - p for a, p in zip(temporal, late, strict=True)]
    _, _, raw, scaled = grpo(episodes, config, late)
    steps = over_steps(episodes, config, temporal)
    advantage = [a if open_ else e for open_, a, e in zip(gate, temporal, raw, strict=True)]
    normalized = [a if open_ else e for open_, a, e in zip(gate, steps, scaled, strict=True)]
    return value, next_value, advantage, normalized


def gae(episodes, config, late):
    value, next_value, advantage = [], [], []
    for episode in episodes:
        after = Fraction(0)
        if config.truncation == "bootstrap" and episode.truncated:
            after = episode.critic_final
        nexts = [*episode.critic[1:], after]
        gamma, lam = Fraction(config.gamma), Fraction(config.lam)
        advantage += generalized(episode.reward, episode.critic, nexts, gamma, lam)
        value += episode.critic
        next_value += nexts
    advantage = [a - p for a, p in zip(advantage, late, strict=True)]
    return value, next_value, advantage, over_steps(episodes, config, advantage)
