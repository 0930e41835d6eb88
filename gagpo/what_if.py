"""What the credit of recorded steps would be under other settings, quickly and again and again.

`what_if(steps, settings)` answers once. Whoever asks often opens the steps first: `open_steps` keeps
the states that each state key tells apart, so that moving gamma or lam costs one pass over the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gagpo.checked import unknown
from gagpo.config import CreditConfig
from gagpo.credit import assign_credit
from gagpo.credit.columns import penalties
from gagpo.credit.groups import group_numbers
from gagpo.diagnostics import ROUNDING
from gagpo.state_keys import keyed_table
from gagpo.steps_file import read_credit, read_steps, read_trajectories, step_table
from gagpo.store import Run
from gagpo.table import Credit, StepTable, Trajectory

MOST_KEYS = 16  # state keys whose states are kept
# What the package's own state keys look at besides texts. Others may look at anything, tokens too.
OWN_KEYS = {"exact": (), "observation": (), "normalized": ()}
OWN_KEYS |= {"history": ("key_history",), "similar": ("key_similarity",)}
Settings = CreditConfig | Mapping[str, Any]


class RecordedSteps:
    """Steps with the settings and the credit that they were recorded with.

    table         the recorded columns, states as `config.state_key` told them apart; for estimator
                  "gae", with the recorded values as the critic's
    credit        as recorded, or made now where none was
    trajectories  gives what other state keys are made of; told False, perhaps without the lists that
                  `read_trajectories` can leave out. None where there is nothing but the columns
    """

    def __init__(
        self,
        table: StepTable,
        config: CreditConfig,
        credit: Credit | None = None,
        trajectories: Callable[[bool], Sequence[Trajectory]] | None = None,
    ) -> None:
        if credit is not None and len(credit.value) != table.num_steps:
            raise ValueError(f"credit: {len(credit.value)} rows; expected {table.num_steps}")
        if credit is not None and config.estimator == "gae" and table.critic_value is None:
            table = _with_critic(table, config, credit)
        self.table, self.config = table, config
        self.credit = assign_credit(table, config) if credit is None else credit
        self._trajectories = trajectories
        self._tables: dict[tuple, StepTable] = {}

    def settings(self, settings: Settings) -> CreditConfig:
        """Whole settings as they are; a mapping names what differs from the recorded ones."""
        if isinstance(settings, CreditConfig):
            return settings
        known = [field.name for field in fields(CreditConfig)]
        for name in settings:
            if name not in known:
                raise ValueError(unknown("setting of credit", name, known))
        return replace(self.config, **settings)

    def table_for(self, config: CreditConfig) -> StepTable:
        """The columns with states as `config.state_key` tells them apart, kept for the next call."""
        key = _state_key(config)
        if key == _state_key(self.config):
            return self.table
        if key not in self._tables:
            if self._trajectories is None:
                raise ValueError(
                    f"state_key: {config.state_key!r}; these steps have no texts, only the states of "
                    f"{self.config.state_key!r}; expected that, or a steps file, a run or trajectories"
                )
            named = keyed_table(self._trajectories(config.state_key not in OWN_KEYS), config)
            while len(self._tables) >= MOST_KEYS:
                self._tables.pop(next(iter(self._tables)))
            self._tables[key] = replace(self.table, state=named.state, final_state=named.final_state)
        return self._tables[key]

    def what_if(self, settings: Settings) -> Credit:
        """The credit under these settings."""
        config = self.settings(settings)
        if config.estimator == "gae" and self.table.critic_value is None:
            raise ValueError(
                "estimator: 'gae' needs a critic's values; these steps were recorded under "
                f"{self.config.estimator!r}, which has none; expected another estimator"
            )
        return assign_credit(self.table_for(config), config)

    def compare(self, settings: Settings) -> Comparison:
        """The credit under these settings beside the recorded one."""
        config, group = self.settings(settings), group_numbers(self.table)[self.table.trajectory]
        recorded, credit = self.credit, self.what_if(config)
        return Comparison(
            settings=config,
            recorded=recorded,
            credit=credit,
            changed_sign=_signs(recorded.normalized) != _signs(credit.normalized),
            correlation=_correlation(recorded.normalized, credit.normalized),
            group=np.unique(self.table.group),
            recorded_sigma=_sigma(recorded.advantage, group),
            sigma=_sigma(credit.advantage, group),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Credit under other settings beside the recorded one; S steps, G groups.

    changed_sign    (S,) bool     the normalised advantage has another sign; 0 is a sign of its own, and
                                  what is only rounding counts as 0
    correlation     Pearson's, of the normalised advantages; NaN where either does not vary
    group           (G,) int64    the groups, as `table.group` numbers them, ascending
    recorded_sigma  (G,) float64  deviation (population) of the advantage before normalisation, recorded
    sigma           (G,) float64  and under these settings
    """

    settings: CreditConfig
    recorded: Credit
    credit: Credit
    changed_sign: np.ndarray
    correlation: float
    group: np.ndarray
    recorded_sigma: np.ndarray
    sigma: np.ndarray

    @property
    def num_changed(self) -> int:
        return int(self.changed_sign.sum())


Steps = RecordedSteps | StepTable | Run | pa.Table | Sequence[Trajectory] | str | Path


def what_if(steps: Steps, settings: Settings) -> Credit:
    """The credit of recorded steps under other settings; see `open_steps` for what steps can be."""
    return open_steps(steps).what_if(settings)


def open_steps(
    steps: Steps, config: CreditConfig | None = None, *, iteration: int | None = None
) -> RecordedSteps:
    """Recorded steps: of a run or its folder (the last iteration, or the one named), of a steps file or
    the rows of `read_steps`, of trajectories, or a StepTable.

    `config` are the settings that the steps were recorded with. A run knows them, and so does a file that
    lies in a run's folder; bare columns and trajectories are taken to have the default ones.
    """
    if isinstance(steps, RecordedSteps):
        return steps
    if isinstance(steps, StepTable):
        return RecordedSteps(steps, config or CreditConfig())
    if isinstance(steps, (str, Path)):
        path = Path(steps)
        if path.is_dir():
            return _of_run(Run(path), iteration)
        around = Run(path.resolve().parent.parent)
        in_run = path.parent.name == "steps" and path.stem.isdigit() and around.has_config()
        if config is None and in_run:
            return _of_run(around, int(path.stem))
        steps = read_steps(path)
    if isinstance(steps, Run):
        return _of_run(steps, iteration)
    if isinstance(steps, pa.Table):
        if config is None:
            raise ValueError("config: None; expected the settings that the steps were recorded with")
        return _of_rows(steps, config)
    made = tuple(steps)
    table = StepTable.from_trajectories(made)
    config = replace(config or CreditConfig(), state_key="exact")
    return RecordedSteps(table, config, trajectories=lambda lists: made)


def sweep(
    steps: Steps, settings: Settings, name: str, values: Sequence[float | str]
) -> dict[float | str, Credit]:
    """{value: the credit with the setting `name` at that value, and the others as in `settings`}."""
    opened = open_steps(steps)
    config = opened.settings(settings)
    known = [field.name for field in fields(CreditConfig)]
    if name not in known:
        raise ValueError(unknown("setting of credit", name, known))
    return {value: opened.what_if(replace(config, **{name: value})) for value in values}


def _of_run(run: Run, iteration: int | None) -> RecordedSteps:
    chosen = run.recorded_iteration(iteration)
    if chosen is None:
        raise ValueError(f"run {run.run_id!r} has no recorded steps yet")
    config = run.read_config()
    return _of_rows(read_steps(run.steps_path(chosen)), config.credit, shaped=config.loss.kl == "k1")


def _of_rows(rows: pa.Table, config: CreditConfig, *, shaped: bool = False) -> RecordedSteps:
    """`shaped`: rewards had something added before credit was assigned, which the column does not show."""
    table, credit = step_table(rows), read_credit(rows)
    if shaped:
        table = replace(table, reward=_shaped_reward(table, config, credit))

    @cache
    def trajectories(lists: bool) -> list[Trajectory]:
        return read_trajectories(rows, lists=lists)

    return RecordedSteps(table, config, credit, trajectories)


def _shaped_reward(table: StepTable, config: CreditConfig, credit: Credit) -> np.ndarray:
    """(S,) the rewards that credit was made of, from td_error = r + gamma next_value - value."""
    terms = [credit.td_error, -config.gamma * credit.next_value, credit.value]
    reward = np.sum(terms, axis=0) + penalties(table, config, "reward")
    scale = np.max(np.abs([*terms, table.reward]), axis=0)
    return np.where(np.abs(reward - table.reward) <= ROUNDING * scale, table.reward, reward)


def _with_critic(table: StepTable, config: CreditConfig, credit: Credit) -> StepTable:
    """The critic's values, as estimator "gae" recorded them; those of the end where it looked at them."""
    ends = credit.next_value[table.offsets[1:] - 1] if config.truncation == "bootstrap" else None
    return replace(table, critic_value=credit.value, critic_final=ends)


def _state_key(config: CreditConfig) -> tuple:
    """What tells states apart: the key's name, and the settings that it looks at."""
    names = OWN_KEYS.get(config.state_key, ("key_history", "key_similarity"))
    return (config.state_key, *(getattr(config, name) for name in names))


def _signs(values: np.ndarray) -> np.ndarray:
    return np.sign(np.where(np.abs(values) > ROUNDING * np.abs(values).max(), values, 0.0))


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    if min(np.ptp(x) - ROUNDING * np.abs(x).max() for x in (one, other)) <= 0:
        return float("nan")
    one, other = one - one.mean(), other - other.mean()
    return float(one @ other / np.sqrt((one @ one) * (other @ other)))


def _sigma(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """(G,) float64, population deviation in each group."""
    num = np.bincount(group)
    centred = values - (np.bincount(group, values) / num)[group]
    return np.sqrt(np.bincount(group, centred**2) / num)
