"""How long credit assignment takes: `python benchmarks/credit_speed.py [estimators]`.

First the gate: on 6,400 steps every estimator must equal its straightforward loop
(credit_loops.py) to 1e-9, else nothing is measured. Then the best of several runs for each
estimator and shape, and its speed against that loop. The shapes of one trajectory would show a
loop over time, and that whose states are never met again a walk along it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from credit_loops import LOOPS, Steps

from gagpo.config import CreditConfig
from gagpo.credit import ESTIMATORS, assign_credit
from gagpo.table import StepTable

# Steps, steps a trajectory, states of a group.
SHAPES = [
    (6_400, 50, 200),
    (1_000_000, 50, 200),
    (15_500, 15_500, 200),
    (1_000_000, 1_000_000, 200),
    (1_000_000, 1_000_000, None),
]
SIBLINGS = 8
LIMITS_MS = {6_400: 5.0, 1_000_000: 500.0}
# Sorting histories and searching a graph cost more, and solving its equations more still.
SLOWER = {"hgpo": 2.0, "graphgpo": 4.0, "gated_bepo": 30.0}


def random_table(num_steps: int, length: int, num_states: int | None = 200) -> StepTable:
    """Trajectories of `length` steps in groups of SIBLINGS, half of them rewarded. States are drawn
    for each step among `num_states`, or are all different."""
    rng = np.random.default_rng(0)
    num = num_steps // length
    success = rng.random(num) < 0.5
    success[0] = True
    offsets = np.arange(num + 1) * length
    reward = np.zeros(num_steps)
    reward[offsets[1:] - 1] = 10.0 * success
    state = rng.integers(0, num_states, num_steps + num) if num_states else np.arange(num_steps + num)
    return StepTable(
        offsets=offsets,
        group=np.arange(num) // SIBLINGS,
        truncated=~success,
        success=success,
        reward=reward,
        state=state[:num_steps],
        final_state=state[num_steps:],
        valid=rng.random(num_steps) < 0.95,
        critic_value=rng.random(num_steps),
    )


def best_ms(call: Callable[[], object], repeats: int) -> float:
    """The shortest of `repeats` runs, in milliseconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def gate(names: list[str], table: StepTable) -> dict[str, float]:
    """The milliseconds of each loop, once, where the estimator gives what the loop gives."""
    loop_ms = {}
    for name in names:
        config = CreditConfig(estimator=name)
        start = time.perf_counter()
        expected = LOOPS[name](Steps(table, config))
        loop_ms[name] = 1e3 * (time.perf_counter() - start)
        error = np.abs(assign_credit(table, config).normalized - expected).max()
        if not error < 1e-9:
            raise SystemExit(f"{name} is off by {error:.1e} from its plain loop; nothing measured")
    return loop_ms


def main(names: list[str]) -> None:
    tables = [random_table(*shape) for shape in SHAPES]
    loop_ms = gate(names, tables[0])
    print(f"gate: {len(names)} estimators equal their plain loops on {SHAPES[0][0]:,} steps\n")
    print(f"{'':<11}" + "".join(f"{f'{s:,} / {n:,}':>23}" for s, n, _ in SHAPES) + f"{'plain loop':>20}")
    print(f"{'estimator':<11}" + f"{'ms (ns a step)':>23}" * len(SHAPES) + f"{'ms (times slower)':>20}")
    late = []
    for name in names:
        cells, config = [], CreditConfig(estimator=name)
        for table in tables:
            repeats = 20 if table.num_steps < 10**5 else 3
            ms = best_ms(lambda t=table, c=config: assign_credit(t, c), repeats)
            cells.append((ms, f"{f'{ms:.2f} ({1e6 * ms / table.num_steps:.0f})':>23}"))
            limit = LIMITS_MS.get(table.num_steps, np.inf) * SLOWER.get(name, 1.0)
            if ms > limit:
                late.append(f"{name}: {ms:.1f} ms for {table.num_steps:,} steps; expected {limit:.0f}")
        loop = f"{loop_ms[name]:.1f} ({loop_ms[name] / cells[0][0]:.0f})"
        print(f"{name:<11}" + "".join(text for _, text in cells) + f"{loop:>20}", flush=True)
    print("\nshapes: steps / steps a trajectory; 200 states a group, in the last shape all different")
    print("limits: " + ("; ".join(late) or "kept"))
    if late:
        raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1:] or list(ESTIMATORS))
