"""Numbers that tell how a rollout went and what credit was made of it. Pure functions, no torch.

Shares lie in [0, 1]. The keys of the returned dictionaries are the names under which a run
records them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gagpo.table import Credit, Outcome, StepTable, Trajectory

# Measured on the steps that were trained on; an iteration that trained on none records 0.
OF_UPDATES = ("ratio_mean", "ratio_max", "clip_fraction", "kl_k1", "kl_k3", "entropy", "gradient_norm")


def rollout_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """What happened in the episodes, before any credit.

    success_rate    share of trajectories that reached the goal
    return_mean     mean over trajectories of the undiscounted reward, no penalty taken off
    episode_length  mean steps of a trajectory
    invalid_share   share of steps whose action was not admissible (cut-off actions are among them)
    cut_off_share   share of steps whose action the token limit ended
    truncated_share share of trajectories that the step limit ended
    """
    if not trajectories:
        raise ValueError("trajectories: empty; expected at least one")
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    return {
        "success_rate": _mean(t.success for t in trajectories),
        "return_mean": _mean(t.total_reward for t in trajectories),
        "episode_length": len(steps) / len(trajectories),
        "invalid_share": _mean(not step.valid for step in steps),
        "cut_off_share": _mean(step.cut_off for step in steps),
        "truncated_share": _mean(t.outcome == Outcome.TRUNCATED for t in trajectories),
    }


def success_by(trajectories: Sequence[Trajectory], kind: Callable[[Trajectory], str]) -> dict[str, float]:
    """{kind: success rate of its trajectories}, sorted by kind; `kind` names a task's type."""
    outcomes: dict[str, list[bool]] = {}
    for trajectory in trajectories:
        outcomes.setdefault(kind(trajectory), []).append(trajectory.success)
    return {name: _mean(outcomes[name]) for name in sorted(outcomes)}


def credit_metrics(table: StepTable, credit: Credit) -> dict[str, float]:
    """How the signal is spread, and how much of it is doubtful.

    advantage_mean, advantage_std, advantage_iqr   of the normalised advantages over all steps;
                         population deviation, quartiles by linear interpolation
    advantage_above_one  share of steps with |A| > 1
    singleton_share      share of steps that are alone in their anchor group
    anchor_size_mean, anchor_size_max              steps in an anchor group, over the groups
    zero_sigma_share     share of groups whose normalised advantages are all 0: nothing to learn
    penalty_share        share of the steps with A != 0 that owe it to penalties alone: all raw
                         rewards of their group are 0, yet A differs within the group. Where it
                         is high, standardisation makes full-size advantages of small penalties
    """
    advantage = credit.normalized
    low, high = np.percentile(advantage, [25, 75])
    sizes = np.bincount(credit.anchor)
    sizes = sizes[sizes > 0]
    group = np.unique(table.group, return_inverse=True)[1][table.trajectory]
    order = np.argsort(group, kind="stable")
    first = np.flatnonzero(np.diff(group[order], prepend=-1))

    def largest(values: np.ndarray) -> np.ndarray:
        return np.maximum.reduceat(values[order], first)

    unrewarded = largest(np.abs(table.reward)) == 0
    varied = largest(advantage) > -largest(-advantage)
    signal = advantage != 0
    return {
        "advantage_mean": float(advantage.mean()),
        "advantage_std": float(advantage.std()),
        "advantage_iqr": float(high - low),
        "advantage_above_one": _mean(np.abs(advantage) > 1),
        "singleton_share": _mean(credit.anchor_size == 1),
        "anchor_size_mean": float(sizes.mean()),
        "anchor_size_max": float(sizes.max()),
        "zero_sigma_share": _mean(largest(np.abs(advantage)) == 0),
        "penalty_share": float((unrewarded & varied)[group][signal].sum() / max(signal.sum(), 1)),
    }


def explained_variance(targets: np.ndarray, values: np.ndarray) -> float:
    """1 - Var(targets - values) / Var(targets), both (S,): the share of the variance that the values
    account for. 0 for any constant value, 1 for the targets themselves, NaN where these do not vary."""
    variance = float(np.var(targets))
    return 1 - float(np.var(targets - values)) / variance if variance > 0 else float("nan")


def sharing_metrics(table: StepTable) -> dict[str, float]:
    """How much siblings have in common, before any credit: what a state key leaves to compare.

    shared_share        share of steps in a state that a sibling acts in too
    later_shared_share  share of steps that are so, in another state than their trajectory began in
    state_repeat_share  share of steps in a state that their own trajectory acted in before
    """
    group = table.group[table.trajectory]
    _, anchor = np.unique(np.stack([group, table.state]), axis=1, return_inverse=True)
    anchor = anchor.reshape(-1)  # numpy 2.0 kept the dimension
    visits = np.unique(np.stack([anchor, table.trajectory]), axis=1)
    shared = np.bincount(visits[0])[anchor] > 1
    is_later = table.state != table.state[table.offsets[:-1]][table.trajectory]
    return {
        "shared_share": _mean(shared),
        "later_shared_share": _mean(shared & is_later),
        "state_repeat_share": 1 - visits.shape[1] / table.num_steps,
    }


def measured(record: Mapping[str, Any], metric: str) -> float | None:
    """The metric of a record; None where it was not finite, or where there was nothing to measure."""
    nothing = metric in OF_UPDATES and record.get("num_trained") == 0
    return None if nothing else record.get(metric)


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(np.fromiter(values, float)))
