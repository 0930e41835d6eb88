"""What the signal of a recorded table is made of, and where its state keys are wrong.

Notation: S steps, T trajectories. A is the normalised advantage, which the loss uses. Rows are
rows of the table; shares lie in [0, 1].
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gagpo.config import CreditConfig
from gagpo.credit import assign_credit
from gagpo.credit.gae import with_values
from gagpo.credit.groups import group_numbers, standardize
from gagpo.table import Credit, StepTable
from gagpo.weights import action_weights

NUM_EXAMPLES = 10
ROUNDING = 1e-9  # relative; returns that differ by less are equal


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Where the state key and the true state disagree about which steps of a group are in one state.

    num_classes  anchor groups with several true states (aliasing), or true states of a group with
                 several keys (splitting)
    share_of_classes   of all anchor groups, or of all true states of all groups
    num_steps    steps in them, `share_of_steps` their share of S
    examples     pairs of rows, one for each such class in the order of its first row: that row, and
                 the first one that disagrees with it
    """

    num_classes: int
    share_of_classes: float
    num_steps: int
    share_of_steps: float
    examples: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Signal:
    """A kind of groups: how many there are, and their shares of the sums of A^2 and |A| over S."""

    num_groups: int
    squared_share: float
    absolute_share: float


@dataclass(frozen=True, slots=True)
class Signals:
    """The signal by what it comes from; each group is of one kind.

    outcome  the siblings differ in success or in the sum of the environment's rewards
    penalty  they do not, and without the penalty for invalid actions the group's advantages would
             not vary: penalties alone are what is learned from
    other    they do not, and there is more than penalties, or nothing: all succeed, and discounting
             favours the shorter; under normalize "batch" groups are compared with each other
    """

    outcome: Signal
    penalty: Signal
    other: Signal


@dataclass(frozen=True, slots=True, eq=False)
class TrajectoryWeights:
    """(T,) float64 each: a trajectory's share of the loss under each `loss_mean`; they sum to 1.

    The whole table is taken as one optimiser batch. `token` is None where tokens are not known.
    """

    action: np.ndarray
    trajectory: np.ndarray
    token: np.ndarray | None


@dataclass(frozen=True, slots=True, eq=False)
class Diagnostics:
    """The findings about one table and its credit.

    num_singletons     steps alone in their anchor group; singleton_share of S
    anchor_sizes       (steps in an anchor group, number of such anchor groups), ascending
    zero_sigma_groups  groups, as `table.group` numbers them, whose advantages do not vary before
                       normalisation; zero_sigma_share of all groups
    aliasing           equal key, different true state; None where true states are not known
    splitting          equal true state, different keys; None likewise
    """

    num_steps: int
    num_trajectories: int
    num_groups: int
    num_singletons: int
    singleton_share: float
    anchor_sizes: tuple[tuple[int, int], ...]
    zero_sigma_groups: tuple[int, ...]
    zero_sigma_share: float
    signals: Signals
    weights: TrajectoryWeights
    aliasing: Mismatch | None
    splitting: Mismatch | None


def diagnose(
    table: StepTable,
    credit: Credit,
    config: CreditConfig,
    *,
    true_states: Sequence[Hashable] | None = None,
    num_tokens: Sequence[int] | None = None,
    num_examples: int = NUM_EXAMPLES,
) -> Diagnostics:
    """Look at `credit`, which was assigned to `table` under `config`.

    `true_states` (S,) identifies the state before each step as the environment does, `num_tokens`
    (S,) counts the tokens of each action.
    """
    for name, column in (
        ("credit", credit.normalized),
        ("true_states", true_states),
        ("num_tokens", num_tokens),
    ):
        if column is not None and len(column) != table.num_steps:
            raise ValueError(f"{name}: {len(column)} rows; expected {table.num_steps}, one for each step")
    names, group = np.unique(table.group, return_inverse=True)
    anchor = np.unique(credit.anchor, return_inverse=True)[1]
    size = np.bincount(anchor)
    silent = _zero_sigma(table, credit)
    aliasing = splitting = None
    if true_states is not None:
        codes: dict[Hashable, int] = {}
        pairs = zip(group[table.trajectory].tolist(), true_states, strict=True)
        true = np.array([codes.setdefault(pair, len(codes)) for pair in pairs])
        aliasing, splitting = (
            _mismatch(own, other, num_examples) for own, other in ((anchor, true), (true, anchor))
        )
    return Diagnostics(
        num_steps=table.num_steps,
        num_trajectories=table.num_trajectories,
        num_groups=len(names),
        num_singletons=int((size == 1).sum()),
        singleton_share=float((size == 1).sum() / table.num_steps),
        anchor_sizes=tuple(
            (int(s), int(n)) for s, n in zip(*np.unique(size, return_counts=True), strict=True)
        ),
        zero_sigma_groups=tuple(names[silent].tolist()),
        zero_sigma_share=float(silent.mean()),
        signals=_signals(table, credit, config),
        weights=_weights(table, num_tokens),
        aliasing=aliasing,
        splitting=splitting,
    )


def _zero_sigma(table: StepTable, credit: Credit) -> np.ndarray:
    """(groups,) bool, where `credit.advantage` does not vary by more than rounding."""
    group = group_numbers(table)[table.trajectory]
    standard = standardize(credit.advantage, group, scale=credit.return_to_go)
    return np.bincount(group, standard != 0) == 0


def _mismatch(own: np.ndarray, other: np.ndarray, num_examples: int) -> Mismatch:
    """Classes of `own` (S,) that hold several of `other` (S,); both number from 0 without gaps."""
    pairs = np.unique(np.stack([own, other]), axis=1)
    mixed = np.bincount(pairs[0]) > 1
    first = np.unique(own, return_index=True)[1]
    differing = np.flatnonzero(other != other[first[own]])
    classes, place = np.unique(own[differing], return_index=True)
    examples = sorted(zip(first[classes].tolist(), differing[place].tolist(), strict=True))
    num_steps = int(mixed[own].sum())
    return Mismatch(
        num_classes=int(mixed.sum()),
        share_of_classes=float(mixed.mean()),
        num_steps=num_steps,
        share_of_steps=num_steps / len(own),
        examples=tuple(examples[:num_examples]),
    )


def _signals(table: StepTable, credit: Credit, config: CreditConfig) -> Signals:
    group = group_numbers(table)
    by_step = group[table.trajectory]
    score = np.add.reduceat(table.reward, table.offsets[:-1])
    differs = _varies(table.success.astype(float), group) | _varies(score, group)
    if config.estimator == "gae" and table.critic_value is None:  # recorded steps
        table = with_values(table, credit)
    without = assign_credit(table, replace(config, invalid_penalty=0.0))
    penalised = np.bincount(by_step, ~table.valid & (config.invalid_penalty > 0)) > 0
    penalty = ~differs & penalised & _zero_sigma(table, without)

    def share(values: np.ndarray, kind: np.ndarray) -> float:
        total = values.sum()
        return float(values[kind[by_step]].sum() / total) if total > 0 else 0.0

    return Signals(*(
        Signal(int(kind.sum()), share(credit.normalized**2, kind), share(np.abs(credit.normalized), kind))
        for kind in (differs, penalty, ~differs & ~penalty)
    ))  # fmt: skip


def _varies(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """(groups,) bool, where `values` (T,) are not all equal."""
    low, high, largest = np.full((3, group.max() + 1), [[np.inf], [-np.inf], [0.0]])
    np.minimum.at(low, group, values)
    np.maximum.at(high, group, values)
    np.maximum.at(largest, group, np.abs(values))
    return high - low > ROUNDING * largest


def _weights(table: StepTable, num_tokens: Sequence[int] | None) -> TrajectoryWeights:
    tokens = np.ones(table.num_steps, np.int64) if num_tokens is None else np.asarray(num_tokens)

    def shares(mean: str) -> np.ndarray:
        return np.bincount(table.trajectory, action_weights(mean, tokens, table.trajectory))

    return TrajectoryWeights(
        action=shares("action"),
        trajectory=shares("trajectory"),
        token=None if num_tokens is None else shares("token"),
    )
