"""GAE with a critic's values: a number worked by hand, what it reduces to, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from references import Played, table_of
from test_credit_graph import credit_of, gammas
from test_credit_random import tables


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
