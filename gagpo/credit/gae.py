"""Step-level GAE with a critic's values, and what the critic learns from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gagpo.config import CreditConfig
from gagpo.credit.columns import following, make_credit, normalize_steps, penalties, rewards
from gagpo.credit.groups import find_anchors
from gagpo.credit.sums import discounted_sums
from gagpo.table import Credit, StepTable


def gae(table: StepTable, config: CreditConfig) -> Credit:
    """Generalized advantage estimation over steps, with V from `table.critic_value`.

        d_t = r_t + gamma V(s_{t+1}) - V(s_t)        td_error
        a_t = d_t + gamma lam a_{t+1}                advantage
        A_t = (a_t - mean) / (sigma + 1e-8)          normalized

    for t = 0 ... T - 1 of each trajectory, with V = 0 after the last step; under truncation
    "bootstrap", `table.critic_final` there where a limit cut the trajectory. lam = 1 without
    bootstrap gives a_t = R_t - V(s_t), lam = 0 gives a_t = d_t, and GAGPO's grouped values as the
    critic's give GAGPO. Normalisation and penalty rules are as for GAGPO; PPO's code normalises
    over the "batch". In a training run the values are those of `gagpo.critic`: that is PPO.
    Source: arXiv 1506.02438, with steps for its time steps.
    """
    if table.critic_value is None:
        raise ValueError("StepTable.critic_value: None; expected a value for each step (estimator 'gae')")
    reward = rewards(table, config)
    returns = discounted_sums(table, reward, config.gamma)
    value = table.critic_value
    next_value = following(table, value, _final_value(table, config))
    td_error = reward + config.gamma * next_value - value
    advantage = discounted_sums(table, td_error, config.gamma * config.lam)
    advantage = advantage - penalties(table, config, "after_discounting")
    scale = np.maximum(np.abs(returns), np.abs(value))
    return make_credit(
        table,
        config,
        find_anchors(table),
        reward=reward,
        return_to_go=returns,
        value=value,
        next_value=next_value,
        advantage=advantage,
        normalized=normalize_steps(table, config, advantage, scale=scale),
    )


def lambda_returns(table: StepTable, credit: Credit, config: CreditConfig) -> np.ndarray:
    """(S,) float64, what a critic is to learn from `gae`'s credit: V(s_t) + sum over k of
    (gamma lam)^k d_{t+k}.

    That is value + advantage, but for penalties under the rule "after_discounting": they belong to
    single actions and are no part of any return, so they are left out here.
    """
    return credit.value + discounted_sums(table, credit.td_error, config.gamma * config.lam)


def with_values(table: StepTable, credit: Credit) -> StepTable:
    """The table with the critic's values that `gae`'s `credit` was made of: for recorded steps."""
    last = table.offsets[1:] - 1
    return replace(table, critic_value=credit.value, critic_final=credit.next_value[last])


def _final_value(table: StepTable, config: CreditConfig) -> np.ndarray:
    """(T,) float64, V after the last step: 0, but for cut trajectories under "bootstrap"."""
    if config.truncation == "terminal" or not table.truncated.any():
        return np.zeros(table.num_trajectories)
    if table.critic_final is None:
        raise ValueError(
            "StepTable.critic_final: None; expected a value for each trajectory (truncation 'bootstrap')"
        )
    return np.where(table.truncated, table.critic_final, 0.0)
