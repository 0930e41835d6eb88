"""How much each action counts in the loss. Notation: R rows (actions) of an optimiser batch."""

from __future__ import annotations

import numpy as np

LOSS_MEANS = ("action", "token", "trajectory")


def action_weights(mean: str, num_tokens: np.ndarray, trajectory: np.ndarray) -> np.ndarray:
    """Each action's share of the loss, (R,) float64, summing to 1 over the optimiser batch.

    With n_r = `num_tokens[r]` and trajectory i = `trajectory[r]` (both (R,) integers):

        action       1 / R
        token        n_r / sum of n
        trajectory   1 / (number of trajectories * actions of i in the batch)

    Call it with *every* action of the optimiser batch, also those that are dropped afterwards
    because their advantage is 0: they belong to the denominator. The weight is that of the
    action's mean over its own tokens.
    """
    num_tokens, trajectory = np.asarray(num_tokens), np.asarray(trajectory)
    if num_tokens.ndim != 1 or num_tokens.shape != trajectory.shape or len(num_tokens) == 0:
        raise ValueError(
            f"action_weights: num_tokens {num_tokens.shape} and trajectory {trajectory.shape}; "
            "expected two equal, non-empty columns"
        )
    if num_tokens.min() < 1:
        raise ValueError(f"action_weights: num_tokens holds {num_tokens.min()}; expected at least 1")
    if mean == "action":
        return np.full(len(num_tokens), 1.0 / len(num_tokens))
    if mean == "token":
        return num_tokens / num_tokens.sum()
    if mean == "trajectory":
        _, index, steps = np.unique(trajectory, return_inverse=True, return_counts=True)
        return 1.0 / (len(steps) * steps[index])
    raise ValueError(f"loss_mean: {mean!r}; expected one of {', '.join(LOSS_MEANS)}")
