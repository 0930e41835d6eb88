"""Credit assignment: from rewards and shared states to one advantage for every step.

Each estimator is a plain function (table, config) -> Credit in `ESTIMATORS`; add your own to
that dict. All of them are vectorised numpy in float64 and need no loop over steps.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from gagpo.config import CreditConfig
from gagpo.credit.baselines import gigpo, grpo, reinforce, rloo
from gagpo.credit.bepo import gated_bepo
from gagpo.credit.gae import gae
from gagpo.credit.gagpo import gagpo
from gagpo.credit.graphgpo import graphgpo
from gagpo.credit.hgpo import hgpo
from gagpo.table import Credit, StepTable

ESTIMATORS: dict[str, Callable[[StepTable, CreditConfig], Credit]] = {
    "gagpo": gagpo,
    "gigpo": gigpo,
    "grpo": grpo,
    "rloo": rloo,
    "reinforce": reinforce,
    "hgpo": hgpo,
    "graphgpo": graphgpo,
    "gated_bepo": gated_bepo,
    "gae": gae,
}


def assign_credit(table: StepTable, config: CreditConfig) -> Credit:
    """The credit of every step of `table` by the estimator that `config.estimator` names."""
    if config.estimator not in ESTIMATORS:
        near = get_close_matches(config.estimator, ESTIMATORS, 1, 0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"estimator: {config.estimator!r}; expected one of {', '.join(ESTIMATORS)}{hint}")
    if table.num_steps == 0:
        raise ValueError("table: no steps; expected at least one trajectory")
    return ESTIMATORS[config.estimator](table, config)
