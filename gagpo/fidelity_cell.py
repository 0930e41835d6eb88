"""One cell of the fidelity benchmark: many batches of one setting, and every estimator beside the truth.

result = run_cell(Cell(num_siblings=8, success=0.5), {"gagpo": {}, "grpo": {"estimator": "grpo"}})
result.rows["gagpo"].cosine            # mean over the batches, and its interval
result.difference("gagpo", "grpo", "cosine")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gagpo.board import Board, Truth, lay_out, mixture, truth_of
from gagpo.config import CreditConfig, WorldConfig
from gagpo.credit import assign_credit
from gagpo.envs.base import World, make_world
from gagpo.fidelity import (
    Errors,
    correlation,
    cosine,
    interval,
    pair_errors,
    policy_gradient,
    sign_agreement,
    top_precision,
)
from gagpo.forks import Estimate
from gagpo.walks import Walks, draw_walks, name_states, table_of

MEASURES = ("correlation", "sign_agreement", "top_precision", "cosine", "cosine_return")
NO_LIMIT = 10**6  # steps; the board's own horizon cuts the episodes

# What is compared: settings of CreditConfig by name. "gae" has the exact values as its critic's.
VARIANTS: dict[str, dict[str, Any]] = {
    "reinforce": {"estimator": "reinforce"},
    "rloo": {"estimator": "rloo"},
    "grpo": {"estimator": "grpo"},
    "gigpo": {"estimator": "gigpo"},
    "gigpo none": {"estimator": "gigpo", "normalize": "none"},
    "hgpo": {"estimator": "hgpo"},
    "graphgpo": {"estimator": "graphgpo"},
    "gated_bepo": {"estimator": "gated_bepo"},
    "gagpo lam 0": {"lam": 0.0},
    "gagpo lam 0.5": {"lam": 0.5},
    "gagpo": {"lam": 0.8},
    "gagpo lam 0.95": {"lam": 0.95},
    "gagpo lam 1": {"lam": 1.0},
    "gagpo left out": {"lam": 0.8, "own_return": "left_out"},
    "gagpo batch": {"lam": 0.8, "normalize": "batch"},
    "gagpo none": {"lam": 0.8, "normalize": "none"},
    "gagpo + episode": {"lam": 0.8, "episode_term": 1.0},
    "gae exact": {"estimator": "gae", "lam": 0.8},
    "gae exact lam 1": {"estimator": "gae", "lam": 1.0},
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting.

    env            a world that can be enumerated: keydoor, frozenlake
    success        how often the policy succeeds in each task: a planner's moves mixed with uniform ones
                   (`board.mixture`); None is the uniform policy
    num_siblings   K
    horizon        steps after which an episode is cut
    gamma          the discount of estimators and truth
    key            what makes two states equal (`walks.KEYS`), with `history` for that key
    unique_share   share of steps whose state is one of its own
    reward_noise   deviation of the noise on each reward; success pays 10
    slip           chance that a command is replaced by any of its state
    min_plan_steps, max_plan_steps   of a task's shortest plan (keydoor)
    num_tasks      groups in a batch; all batches have the same tasks
    num_batches    repeats
    seed           of the tasks and of every draw
    """

    env: str = "keydoor"
    success: float | None = 0.5
    num_siblings: int = 8
    horizon: int = 30
    gamma: float = 0.95
    key: str = "exact"
    history: int = 2
    unique_share: float = 0.0
    reward_noise: float = 0.0
    slip: float = 0.0
    min_plan_steps: int = 0
    max_plan_steps: int | None = None
    num_tasks: int = 16
    num_batches: int = 48
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"num_siblings": 1, "horizon": 1, "num_tasks": 1, "num_batches": 2, "history": 0}
        for name, low in {**least, "reward_noise": 0, "seed": 0}.items():
            if getattr(self, name) < low:
                raise ValueError(f"{name}: {getattr(self, name)!r}; expected at least {low}")
        for name in ("gamma", "slip", "unique_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: {getattr(self, name)!r}; expected between 0 and 1")


@dataclass(frozen=True, slots=True)
class Row:
    """One estimator in one cell: `MEASURES` as means over the batches with 95 % intervals.

    cosine            of a batch's gradient with `Truth.gradient`, at the cell's gamma
    cosine_return     with that at gamma 1: the gradient of the expected sum of rewards
    cosine_mean, cosine_mean_return   the same of the mean gradient of all batches: what is left is bias
    silent_share      share of steps whose normalised advantage is exactly 0
    """

    correlation: Estimate
    sign_agreement: Estimate
    top_precision: Estimate
    cosine: Estimate
    cosine_return: Estimate
    cosine_mean: float
    cosine_mean_return: float
    errors: Errors
    silent_share: float


@dataclass(frozen=True, slots=True, eq=False)
class CellResult:
    """What a cell found.

    success, steps     means over all episodes
    singleton_share    share of steps alone in their anchor group
    rows               {estimator: Row}
    by_batch           {estimator: {measure: (num_batches,) float64}}, on the same batches
    """

    cell: Cell
    success: float
    steps: float
    singleton_share: float
    rows: dict[str, Row]
    by_batch: dict[str, dict[str, np.ndarray]]

    def difference(self, one: str, other: str, measure: str) -> Estimate:
        """How much more `one` has than `other`, batch by batch: the mean and its 95 % interval."""
        return interval(self.by_batch[one][measure] - self.by_batch[other][measure], seed=self.cell.seed)


@dataclass(slots=True)
class _Record:
    """What an estimator said of every batch."""

    measures: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in MEASURES})
    said: list[np.ndarray] = field(default_factory=list)
    gradient: np.ndarray | float = 0.0


def run_cell(cell: Cell, variants: Mapping[str, Mapping[str, Any]] = VARIANTS) -> CellResult:
    """Draw the batches of a cell, and hold every estimator against the truth on the same ones."""
    board, chance = prepare(cell)
    truth, of_return = (truth_of(board, chance, gamma, cell.horizon) for gamma in (cell.gamma, 1.0))
    rng = np.random.default_rng([cell.seed, 1])
    size = cell.num_tasks * cell.num_siblings
    task = np.tile(np.repeat(np.arange(cell.num_tasks), cell.num_siblings), cell.num_batches)
    walks = draw_walks(board, chance, task, cell.horizon, rng, reward_noise=cell.reward_noise)
    naming = {"history": cell.history, "unique_share": cell.unique_share, "rng": rng}
    steps, finals = name_states(board, walks, cell.key, **naming)
    configs = {name: CreditConfig(**{"gamma": cell.gamma, **dict(v)}) for name, v in variants.items()}
    records, alone = {name: _Record() for name in variants}, 0
    left = cell.horizon - walks.time
    true = truth.advantage[left, walks.pair]
    for number in range(cell.num_batches):
        part = walks.part(number * size, (number + 1) * size)
        rows = slice(walks.offsets[number * size], walks.offsets[(number + 1) * size])
        table = table_of(part, steps[rows], finals[number * size : (number + 1) * size])
        table = replace(table, critic_value=truth.value[left[rows], part.state])
        for name, record in records.items():
            credit = assign_credit(table, configs[name])
            gradient = policy_gradient(credit.normalized, part.pair, chance, board.pair_state)
            found = _measured(credit.normalized, true[rows], gradient, truth, of_return)
            for measure, value in found.items():
                record.measures[measure].append(value)
            record.said.append(credit.normalized)
            record.gradient = record.gradient + gradient
        alone += int((credit.anchor_size == 1).sum())
    where = left * board.num_pairs + walks.pair, _batch_of_steps(walks, size)
    return CellResult(
        cell=cell,
        success=float(walks.success.mean()),
        steps=len(walks.state) / len(task),
        singleton_share=alone / len(walks.state),
        rows={n: _row(r, true, *where, truth, of_return, cell.seed) for n, r in records.items()},
        by_batch={n: {m: np.array(v) for m, v in r.measures.items()} for n, r in records.items()},
    )


def prepare(cell: Cell) -> tuple[Board, np.ndarray]:
    """The board of a cell, and the policy (P,) that plays on it."""
    world = make_world(WorldConfig(env=cell.env, max_steps=NO_LIMIT))
    board = lay_out(world, _tasks(world, cell), slip=cell.slip)
    return board, mixture(board, cell.success, cell.horizon)


def _tasks(world: World, cell: Cell) -> list[str]:
    """The first tasks of the cell's seed whose plans are as long as wanted."""
    rng, found = np.random.default_rng([cell.seed, 0]), []
    bounded = cell.min_plan_steps > 0 or cell.max_plan_steps is not None
    drawn = world.tasks("train", cell.num_tasks * (50 if bounded else 1), rng)
    for task in drawn:
        length = world.make(task).distance() if bounded else 0
        if cell.min_plan_steps <= length and (cell.max_plan_steps is None or length <= cell.max_plan_steps):
            found.append(task)
    if len(found) < cell.num_tasks:
        raise ValueError(
            f"min_plan_steps, max_plan_steps: {len(found)} of {len(drawn)} tasks have plans of "
            f"{cell.min_plan_steps} to {cell.max_plan_steps} steps; expected {cell.num_tasks}"
        )
    return found[: cell.num_tasks]


def _measured(
    said: np.ndarray, true: np.ndarray, gradient: np.ndarray, truth: Truth, of_return: Truth
) -> dict[str, float]:
    return {
        "correlation": correlation(said, true),
        "sign_agreement": sign_agreement(said, true),
        "top_precision": top_precision(said, true),
        "cosine": cosine(gradient, truth.gradient),
        "cosine_return": cosine(gradient, of_return.gradient),
    }


def _batch_of_steps(walks: Walks, size: int) -> np.ndarray:
    return np.repeat(np.arange(len(walks.task)) // size, np.diff(walks.offsets))


def _row(
    record: _Record,
    true: np.ndarray,
    pair: np.ndarray,
    batch: np.ndarray,
    truth: Truth,
    of_return: Truth,
    seed: int,
) -> Row:
    said = np.concatenate(record.said)
    return Row(
        **{name: interval(values, seed=seed) for name, values in record.measures.items()},
        cosine_mean=cosine(record.gradient, truth.gradient),
        cosine_mean_return=cosine(record.gradient, of_return.gradient),
        errors=pair_errors(said, true, pair, batch, seed=seed),
        silent_share=float((said == 0).mean()),
    )
