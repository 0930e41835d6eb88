"""Each estimator trains the tiny policy for an iteration, on credit that its recorded steps give again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_train import request

from gagpo.__main__ import train_run
from gagpo.credit import ESTIMATORS, assign_credit
from gagpo.credit.gae import with_values
from gagpo.steps_file import read_credit, read_steps, step_table

# A quarter of the trajectories succeed, so that there is something to learn.
ONCE = {"iterations": 1, "num_siblings": 8, "max_steps": 12, "task_types": ["look_at_obj_in_light"]}
ONCE |= {"warm_updates": 25, "eval_tasks": 1, "final_eval_tasks": 1}


@pytest.mark.parametrize("estimator", [*sorted(ESTIMATORS.keys() - {"gagpo"}), "gagpo with episode term"])
def test_an_estimator_trains_for_an_iteration(estimator: str, tmp_path: Path) -> None:
    name, _, rest = estimator.partition(" ")
    run = request(tmp_path, **ONCE, estimator=name, episode_term=0.5 if rest else 0.0)
    assert train_run(run) == 0
    rows = read_steps(run.steps_path(1))
    credit = read_credit(rows)
    table = step_table(rows)
    if name == "gae":  # the critic's values are what is recorded as values
        table = with_values(table, credit)
    again = assign_credit(table, run.read_config().credit)
    assert np.array_equal(again.normalized, credit.normalized)
    assert np.any(credit.normalized != 0), "else nothing was trained"
    assert run.read_metrics("train")[0]["gradient_norm"] > 0
