"""How well each estimator's credit agrees with the exact truth, in many settings.

    python benchmarks/credit_fidelity.py            # every cell, about ten minutes on one core
    python benchmarks/credit_fidelity.py --quick    # two tiny cells, to see that it runs

Each finished cell is a line of JSON in `--cells`; a run that was killed goes on after the last whole
line. From the lines three tables are made in `--out`, joined by the number of the cell:
credit_fidelity_cells.csv (the settings), credit_fidelity.csv (every estimator) and
credit_fidelity_differences.csv (GAGPO less its rivals on the same batches). Where --out holds
credit_fidelity.md, what follows its line "## Tables" is renewed.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, replace
from pathlib import Path

from fidelity_report import write_report

from gagpo.facts import facts
from gagpo.fidelity_cell import MEASURES, VARIANTS, Cell, CellResult, run_cell

ROOT = Path(__file__).resolve().parents[1]
SKILLS = (0.1, 0.5, 0.9)
PAIRS = [
    (one, other)
    for one in ("gagpo", "gagpo lam 0.5")
    for other in ("gigpo", "gigpo none", "grpo", "reinforce", "gated_bepo")
]


def sweeps() -> dict[str, list[Cell]]:
    """{name of a sweep: its cells}. A cell can be in several sweeps; it is run once."""
    base = Cell(min_plan_steps=6)
    lake = Cell(env="frozenlake", horizon=100)

    def vary(cell: Cell, name: str, values: tuple, skills: tuple = SKILLS) -> list[Cell]:
        return [replace(cell, success=s, **{name: v}) for s in skills for v in values]

    siblings = vary(base, "num_siblings", (2, 4, 8, 16, 32, 64))
    return {
        "num_siblings": [replace(c, num_batches=32) if c.num_siblings > 16 else c for c in siblings],
        "horizon": vary(base, "horizon", (15, 30, 60, 120)),
        "plan": [
            replace(base, success=skill, min_plan_steps=low, max_plan_steps=high)
            for skill in SKILLS
            for low, high in ((2, 5), (6, 8), (9, 17))
        ],
        "gamma": vary(base, "gamma", (0.9, 0.95, 0.99, 1.0)),
        "reward_noise": vary(base, "reward_noise", (0.0, 0.3, 1.0, 3.0), (0.5, 0.9)),
        "slip": vary(base, "slip", (0.0, 0.1, 0.3), (0.5, 0.9)),
        "unique_share": [
            cell
            for k, skills in ((8, (0.5, 0.9)), (32, (0.5,)))
            for cell in vary(
                replace(base, num_siblings=k, num_batches=48 if k < 32 else 32),
                "unique_share",
                (0.0, 0.25, 0.5, 0.75, 0.9, 1.0),
                skills,
            )
        ],
        "key": vary(base, "key", ("exact", "observation", "history", "timed")),
        "key, 64 siblings": vary(
            replace(base, num_siblings=64, num_batches=32), "key", ("exact", "timed"), (0.5,)
        ),
        "uniform policy": vary(base, "num_siblings", (8,), (None,)),
        "frozenlake": vary(lake, "num_siblings", (8, 32), (None, 0.3, 0.6)),
        "seed": vary(base, "seed", (0, 1, 2)),
    }


def quick() -> dict[str, list[Cell]]:
    """Two tiny cells."""
    tiny = Cell(num_tasks=2, num_batches=3, num_siblings=4, horizon=12)
    return {"num_siblings": [tiny, replace(tiny, num_siblings=8)]}


def record(result: CellResult) -> dict:
    """A cell's result as JSON values."""
    return {
        "cell": asdict(result.cell),
        "success": result.success,
        "steps": result.steps,
        "singleton_share": result.singleton_share,
        "rows": {name: asdict(row) for name, row in result.rows.items()},
        "differences": {
            f"{one} - {other}": {m: result.difference(one, other, m) for m in MEASURES}
            for one, other in PAIRS
        },
        "made_with": facts(),
    }


def known(path: Path) -> dict[str, dict]:
    """{a cell as JSON: its record} of the whole lines of a file that compare what is compared now."""
    found, pairs = {}, [" - ".join(pair) for pair in PAIRS]
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:  # torn off by the end of a killed run
            continue
        if list(row["rows"]) == list(VARIANTS) and list(row["differences"]) == pairs:
            found[json.dumps(row["cell"])] = row
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two tiny cells")
    parser.add_argument("--cells", type=Path, default=ROOT / "build" / "credit_fidelity.jsonl")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    given = parser.parse_args(arguments)
    wanted = quick() if given.quick else sweeps()
    cells = list(dict.fromkeys(cell for own in wanted.values() for cell in own))
    given.cells.parent.mkdir(parents=True, exist_ok=True)
    done, start = known(given.cells), time.monotonic()
    with given.cells.open("a+b") as file:
        file.seek(0, 2)
        if file.tell() and given.cells.read_bytes()[-1:] != b"\n":
            file.write(b"\n")  # what a killed run tore off stays a line of its own
        for number, cell in enumerate(cells):
            name = json.dumps(asdict(cell))
            if name not in done:
                done[name] = json.loads(json.dumps(record(run_cell(cell))))
                file.write(json.dumps(done[name]).encode() + b"\n")
                file.flush()
            print(f"{number + 1} of {len(cells)} cells, {time.monotonic() - start:.0f} s", flush=True)
    number_of = {cell: number for number, cell in enumerate(cells)}
    rows = [done[json.dumps(asdict(cell))] for cell in cells]
    write_report(given.out, rows, {name: [number_of[c] for c in own] for name, own in wanted.items()})


if __name__ == "__main__":
    main()
