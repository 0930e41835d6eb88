"""How long credit assignment takes: `python benchmarks/credit_speed.py`.

First the gate: on 6,400 steps GAGPO must equal a plain loop over steps to 1e-9, else nothing is
measured. Then the best of several runs for each estimator and shape, and GAGPO's speed against
that loop in the same process. The two shapes of one trajectory would show a loop over time.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

import numpy as np

from gagpo.config import CreditConfig
from gagpo.credit import ESTIMATORS, assign_credit
from gagpo.table import StepTable

SHAPES = [(6_400, 50), (1_000_000, 50), (15_500, 15_500), (1_000_000, 1_000_000)]
SIBLINGS = 8
LIMITS_MS = {6_400: 5.0, 1_000_000: 500.0}


def random_table(num_steps: int, length: int) -> StepTable:
    """Trajectories of `length` steps in groups of SIBLINGS, 200 states, half of them rewarded."""
    rng = np.random.default_rng(0)
    num = num_steps // length
    success = rng.random(num) < 0.5
    offsets = np.arange(num + 1) * length
    reward = np.zeros(num_steps)
    reward[offsets[1:] - 1] = 10.0 * success
    return StepTable(
        offsets=offsets,
        group=np.arange(num) // SIBLINGS,
        truncated=~success,
        success=success,
        reward=reward,
        state=rng.integers(0, 200, num_steps),
        final_state=rng.integers(0, 200, num),
        valid=rng.random(num_steps) < 0.95,
    )


def gagpo_by_loop(table: StepTable, config: CreditConfig) -> np.ndarray:
    """GAGPO's normalised advantages, (S,) float64, one step at a time."""
    reward = [
        r if ok else r - config.invalid_penalty for r, ok in zip(table.reward, table.valid, strict=True)
    ]
    returns, advantage = [0.0] * table.num_steps, [0.0] * table.num_steps
    anchor, group = defaultdict(list), defaultdict(list)
    spans = list(
        zip(table.offsets[:-1].tolist(), table.offsets[1:].tolist(), table.group.tolist(), strict=True)
    )
    states = table.state.tolist()
    for start, end, task in spans:
        following = 0.0
        for row in range(end - 1, start - 1, -1):
            following = returns[row] = reward[row] + config.gamma * following
            anchor[task, states[row]].append(following)
    value = {place: sum(visits) / len(visits) for place, visits in anchor.items()}
    for start, end, task in spans:
        following = next_value = 0.0
        for row in range(end - 1, start - 1, -1):
            td_error = reward[row] + config.gamma * next_value - value[task, states[row]]
            following = advantage[row] = td_error + config.gamma * config.lam * following
            next_value = value[task, states[row]]
        group[task] += range(start, end)
    normalized = np.zeros(table.num_steps)
    for rows in group.values():
        values = [advantage[row] for row in rows]
        mean = sum(values) / len(values)
        sigma = (sum((x - mean) ** 2 for x in values) / len(values)) ** 0.5
        normalized[rows] = [(x - mean) / (sigma + 1e-8) for x in values]
    return normalized


def best_ms(call: Callable[[], object], repeats: int) -> float:
    """The shortest of `repeats` runs, in milliseconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def main() -> None:
    config = CreditConfig()
    table = random_table(*SHAPES[0])
    error = np.abs(assign_credit(table, config).normalized - gagpo_by_loop(table, config)).max()
    if not error < 1e-9:
        raise SystemExit(f"GAGPO is off by {error:.1e} from the plain loop; nothing measured")
    print(f"gate: GAGPO equals the plain loop on {table.num_steps:,} steps to {error:.0e}\n")

    print(f"{'estimator':<10}" + "".join(f"{f'{s:,} / {n:,}':>22}" for s, n in SHAPES))
    print(f"{'':<10}" + f"{'ms (ns a step)':>22}" * len(SHAPES) + "    steps / steps a trajectory")
    tables = [random_table(*shape) for shape in SHAPES]
    late = []
    for name in ESTIMATORS:
        cells = []
        for table in tables:
            chosen = CreditConfig(estimator=name)
            ms = best_ms(lambda t=table, c=chosen: assign_credit(t, c), 30 if table.num_steps < 10**5 else 3)
            cells.append(f"{f'{ms:.2f} ({1e6 * ms / table.num_steps:.0f})':>22}")
            if ms > LIMITS_MS.get(table.num_steps, np.inf):
                late.append(f"{name}: {ms:.1f} ms for {table.num_steps:,} steps")
        print(f"{name:<10}" + "".join(cells))

    loop, fast = (best_ms(lambda f=f: f(tables[0], config), 5) for f in (gagpo_by_loop, assign_credit))
    print(
        f"\nplain loop, {SHAPES[0][0]:,} steps: {loop:.1f} ms, {loop / fast:.1f} times GAGPO's {fast:.2f} ms"
    )
    print("limits: " + ("; ".join(late) or "5 ms for 6,400 steps and 500 ms for a million are kept"))
    if late:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
