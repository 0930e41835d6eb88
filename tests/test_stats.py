"""Statistics against numbers counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from references import Played, table_of

from gagpo.config import CreditConfig
from gagpo.credit import assign_credit
from gagpo.stats import credit_metrics, explained_variance, rollout_metrics, success_by
from gagpo.table import Credit, Outcome, Step, Trajectory


def episode(task: str, rewards: list[float], outcome: Outcome, success: bool, bad=(), cut=()) -> Trajectory:
    steps = tuple(
        Step("o", "k", (), "a", (1,), (2,), (-0.5,), r, t not in bad and t not in cut, t in cut)
        for t, r in enumerate(rewards)
    )
    return Trajectory(task, 0, 0, steps, outcome, success, "goal", "", "")


EPISODES = [
    episode("heat-1", [0, 0, 10], Outcome.TERMINATED, True, bad=[0]),
    episode("heat-2", [0, 0, 0, 0], Outcome.TRUNCATED, False, bad=[1], cut=[3]),
    episode("cool-1", [10], Outcome.TERMINATED, True),
    episode("heat-1", [0, -1], Outcome.ERROR, False),
]


def test_rollout_metrics_by_hand():
    assert rollout_metrics(EPISODES) == {
        "success_rate": 0.5,
        "return_mean": 19 / 4,
        "episode_length": 2.5,
        "invalid_share": 0.3,
        "cut_off_share": 0.1,
        "truncated_share": 0.25,
    }
    with pytest.raises(ValueError, match="trajectories: empty"):
        rollout_metrics([])


def test_success_by_kind_of_task():
    by = success_by(EPISODES, lambda t: t.task_id.split("-")[0])
    assert by == {"cool": 1.0, "heat": pytest.approx(1 / 3)} and list(by) == ["cool", "heat"]


def credit_with(normalized: list[float], anchor: list[int]) -> Credit:
    zeros = np.zeros(len(anchor))
    size = np.bincount(anchor)[anchor]
    return Credit(zeros, np.array(anchor), size, zeros, zeros, zeros, zeros, np.array(normalized))


def test_credit_metrics_by_hand():
    """Group 4: steps -2 and 2, two anchor groups of one step; group 7: zeros, one group of three."""
    table = table_of(Played(4, "a", [0]), Played(7, "bbb", [0, 0, 0]), Played(4, "c", [1]))
    metrics = credit_metrics(table, credit_with([-2, 0, 0, 0, 2], [5, 1, 1, 1, 0]))
    assert metrics == {
        "advantage_mean": 0,
        "advantage_std": pytest.approx(np.sqrt(8 / 5)),
        "advantage_iqr": 0,
        "advantage_above_one": 0.4,
        "singleton_share": 0.4,
        "anchor_size_mean": pytest.approx(5 / 3),
        "anchor_size_max": 3,
        "zero_sigma_share": 0.5,
        "penalty_share": 0,
    }


def test_quartiles_and_the_threshold_of_one():
    table = table_of(Played(0, "abcde", [1, 0, 0, 0, 0]))
    metrics = credit_metrics(table, credit_with([1, -1, 1.5, 3, -2], [0, 1, 2, 3, 4]))
    assert metrics["advantage_iqr"] == 2.5  # from -1 to 1.5
    assert metrics["advantage_above_one"] == 0.6  # 1 and -1 are not above


# Group 0 fails with one invalid action; group 1 differs in outcome; group 2 just fails.
MIXED = table_of(
    Played(0, "ab", [0, 0], invalid=[1]),
    Played(0, "ab", [0, 0]),
    Played(1, "a", [1], success=True),
    Played(1, "a", [0], invalid=[0]),
    Played(2, "a", [0]),
    Played(2, "a", [0]),
)


@pytest.mark.parametrize(
    ("options", "zero_sigma", "penalty_share"),
    [
        ({}, 1 / 3, 4 / 6),  # a and b of both siblings carry the penalty
        ({"penalty_rule": "after_discounting"}, 1 / 3, 4 / 6),  # the other three by the mean
        ({"penalty_rule": "after_normalization"}, 1 / 3, 1 / 3),  # the invalid step alone
        ({"invalid_penalty": 0.0}, 2 / 3, 0),
        ({"invalid_penalty": 0.0, "normalize": "batch", "estimator": "reinforce"}, 0, 0),
    ],
)
def test_the_share_of_the_signal_that_only_penalties_make(options, zero_sigma, penalty_share):
    credit = assign_credit(MIXED, CreditConfig(**options))
    metrics = credit_metrics(MIXED, credit)
    assert metrics["zero_sigma_share"] == pytest.approx(zero_sigma)
    assert metrics["penalty_share"] == pytest.approx(penalty_share)


def test_a_negative_reward_of_the_environment_is_an_outcome():
    table = table_of(Played(0, "a", [-1]), Played(0, "a", [0], invalid=[0]))
    assert credit_metrics(table, assign_credit(table, CreditConfig()))["penalty_share"] == 0


def test_explained_variance_by_hand():
    """Targets 0, 2, 4 have the variance 8/3; errors 0, 0, 3 have the variance 2."""
    targets = np.array([0.0, 2, 4])
    assert explained_variance(targets, np.array([0.0, 2, 1])) == pytest.approx(1 - 2 / (8 / 3))
    assert explained_variance(targets, targets) == 1
    assert explained_variance(targets, np.full(3, 7.0)) == 0
    assert explained_variance(targets, -targets) == pytest.approx(-3)
    assert np.isnan(explained_variance(np.ones(3), targets))
