"""GAE with a critic's values: a number worked by hand, what it reduces to, what it refuses, and what
the critic learns from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from references import Played, table_of
from test_credit_graph import credit_of, gammas
from test_credit_random import configs, tables

from gagpo.config import CreditConfig
from gagpo.credit import assign_credit
from gagpo.credit.gae import lambda_returns, with_values


def test_gae_by_hand():
    """gamma = lam = 1/2. V = 4 and 2, then 0: d = 1 + 1 - 4 and 3 - 2; the other is cut at V = 6."""
    table = table_of(Played(0, "ab", [1, 3]), Played(0, "ab", [0, 0], truncated=True))
    table = replace(table, critic_value=np.array([4.0, 2, 1, 1]), critic_final=np.array([9.0, 6]))
    options = {"gamma": 0.5, "lam": 0.5, "normalize": "none"}
    credit = credit_of(table, "gae", **options)
    assert credit.td_error.tolist() == [-2, 1, -0.5, -1]
    assert credit.advantage.tolist() == [-2 + 0.25, 1, -0.5 - 0.25, -1]
    cut = credit_of(table, "gae", **options, truncation="bootstrap")
    assert cut.next_value.tolist() == [2, 0, 1, 6]
    assert cut.advantage.tolist() == [-1.75, 1, -0.5 + 0.5, 2]


@settings(max_examples=60, deadline=None)
@given(tables(), gammas, st.sampled_from([0.0, 0.5, 1.0]))
def test_gae_with_the_grouped_values_is_gagpo(table, gamma, lam):
    gagpo = credit_of(table, "gagpo", gamma=gamma, lam=lam)
    gae = credit_of(replace(table, critic_value=gagpo.value), "gae", gamma=gamma, lam=lam)
    assert gae.advantage.tolist() == gagpo.advantage.tolist()
    np.testing.assert_allclose(gae.normalized, gagpo.normalized, 1e-12, 1e-12)


def test_gae_names_what_it_lacks():
    table = table_of(Played(0, "ab", [1, 3], truncated=True))
    with pytest.raises(ValueError, match=r"critic_value: None; expected a value for each step"):
        credit_of(table, "gae")
    table = replace(table, critic_value=np.zeros(2))
    with pytest.raises(ValueError, match=r"critic_final: None; expected a value for each trajectory"):
        credit_of(table, "gae", truncation="bootstrap")
    assert credit_of(table, "gae").advantage.shape == (2,)
    for name, odd in (("critic_value", [0.0]), ("critic_final", [0.0, 1.0])):
        with pytest.raises(ValueError, match=rf"StepTable\.{name}: {len(odd)} rows; expected {3 - len(odd)}"):
            replace(table, **{name: np.array(odd)})
    with pytest.raises(ValueError, match=r"StepTable\.critic_value: row 1 is nan; expected finite"):
        replace(table, critic_value=np.array([0, np.nan]))


def test_lambda_returns_by_hand():
    """gamma = lam = 1/2, V = 4 and 2, then 0. G_1 = 3; G_0 = 1 + (V_1 + G_1) / 4. The penalty of 7 is
    the action's alone."""
    table = table_of(Played(0, "ab", [1, 3], invalid=[0]))
    table = replace(table, critic_value=np.array([4.0, 2]))
    config = CreditConfig(
        "gae", gamma=0.5, lam=0.5, invalid_penalty=7.0, penalty_rule="after_discounting", normalize="none"
    )
    credit = assign_credit(table, config)
    assert credit.advantage.tolist() == [2.25 - 4 - 7, 1]
    assert lambda_returns(table, credit, config).tolist() == [2.25, 3]
    paid = replace(config, penalty_rule="reward")
    assert lambda_returns(table, assign_credit(table, paid), paid).tolist() == [2.25 - 7, 3]


@settings(max_examples=200, deadline=None)
@given(tables(), configs)
def test_lambda_returns_equal_their_recursion(table, config):
    """G_t = r_t + gamma ((1 - lam) V(s_{t+1}) + lam G_{t+1}), from the last step of each trajectory on."""
    config = replace(config, estimator="gae")
    credit = assign_credit(table, config)
    taken_off = config.invalid_penalty if config.penalty_rule == "reward" else 0.0
    reward = np.where(table.valid, table.reward, table.reward - taken_off)
    expected = np.zeros(table.num_steps)
    for i in range(table.num_trajectories):
        cut = table.truncated[i] and config.truncation == "bootstrap"
        after = later = table.critic_final[i] if cut else 0.0
        for t in range(table.offsets[i + 1] - 1, table.offsets[i] - 1, -1):
            later = reward[t] + config.gamma * ((1 - config.lam) * after + config.lam * later)
            expected[t], after = later, table.critic_value[t]
    targets = lambda_returns(table, credit, config)
    np.testing.assert_allclose(targets, expected, 1e-10, 1e-10)
    if config.penalty_rule != "after_discounting":
        np.testing.assert_allclose(targets, credit.advantage + credit.value, 1e-10, 1e-10)


@settings(max_examples=100, deadline=None)
@given(tables(), configs)
def test_recorded_credit_gives_back_the_values_that_it_was_made_of(table, config):
    config = replace(config, estimator="gae")
    credit = assign_credit(table, config)
    again = assign_credit(with_values(replace(table, critic_value=None, critic_final=None), credit), config)
    assert again.normalized.tolist() == credit.normalized.tolist()
