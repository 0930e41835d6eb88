"""Time from a moved setting to the new credit of 100,000 steps: `python benchmarks/what_if_speed.py`.

The gate: recomputed under the recorded settings, the credit of a written and reopened file equals the
recorded one in every column, and under another state key it equals that of a table made anew. Then
settings are moved; times are of the processor, the best of five, but for what happens once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
from find_speed import play, seconds

from gagpo.config import Config
from gagpo.credit import assign_credit
from gagpo.state_keys import keyed_table
from gagpo.store import open_run
from gagpo.table import Credit, StepTable, Trajectory
from gagpo.what_if import RecordedSteps, open_steps

STEPS = 100_000
LIMIT_S = 0.2
MOVES = {
    "gamma": {"gamma": 0.9},
    "lambda": {"lam": 0.5},
    "normalize": {"normalize": "batch"},
    "penalty": {"invalid_penalty": 0.5},
    "estimator gigpo": {"estimator": "gigpo"},
    "estimator grpo": {"estimator": "grpo"},
}


def same(one: Credit, other: Credit) -> bool:
    names = [field.name for field in fields(Credit)]
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def best(call: Callable[[], object]) -> float:
    return min(seconds(call)[0] for _ in range(5))


def main() -> None:
    trajectories = play(0, distinct=False, num_steps=STEPS)
    table, config = StepTable.from_trajectories(trajectories), Config()
    with tempfile.TemporaryDirectory() as name:
        run = open_run(name, "run")
        run.write_config(config, {})
        credit = assign_credit(table, config.credit)
        run.write_steps(1, trajectories, table, credit, [np.zeros(8, np.float32)] * STEPS)
        size = run.steps_path(1).stat().st_size / 2**20
        steps = []
        opened = seconds(lambda: steps.append(open_steps(run)))[0]
        print(f"{STEPS:,} steps, {size:.0f} MB, opened in {opened:.2f} s")
        measure(steps[0], trajectories)


def measure(steps: RecordedSteps, trajectories: list[Trajectory]) -> None:
    """Print the times of moves; stop where a gate or the limit is not kept."""
    if not same(steps.what_if({}), steps.credit):
        raise SystemExit("the recorded settings give another credit")
    late = []
    for move, settings in MOVES.items():
        spent, compared = best(lambda s=settings: steps.what_if(s)), best(lambda s=settings: steps.compare(s))
        print(f"  {move:<16} {1e3 * spent:6.1f} ms, with its comparison {1e3 * compared:6.1f}")
        late += [move] if compared > LIMIT_S else []
    for key in ("observation", "history", "normalized", "similar"):
        first = seconds(lambda k=key: steps.what_if({"state_key": k}))[0]
        settings = {"state_key": key, "gamma": 0.9}
        spent = best(lambda s=settings: steps.what_if(s))
        print(f"  state key {key:<12} {first:5.2f} s at first, then gamma {1e3 * spent:6.1f} ms")
        late += [key] if spent > LIMIT_S else []
        asked = replace(steps.config, **settings)
        if not same(steps.what_if(settings), assign_credit(keyed_table(trajectories, asked), asked)):
            raise SystemExit(f"{key}: not the credit of a table made anew")
    if late:
        raise SystemExit(f"more than {LIMIT_S} s: {', '.join(late)}")


if __name__ == "__main__":
    main()
