"""The tables of credit_fidelity.py: CSV files, and the tables of its page."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

MEASURES = ("correlation", "sign_agreement", "top_precision", "cosine", "cosine_return")
ERRORS = ("bias", "spread")
HEADING = "## Tables\n"
SHOWN = (
    *("grpo", "gigpo", "gigpo none", "hgpo", "graphgpo", "gated_bepo"),
    *("gagpo lam 0", "gagpo lam 0.5", "gagpo", "gagpo lam 1", "gae exact"),
)
# Sweep: what varies, and the measures that its tables show.
TABLES = {
    "num_siblings": ("num_siblings", ("cosine", "correlation", "top_precision", "sign_agreement")),
    "horizon": ("horizon", ("cosine", "correlation")),
    "plan": ("min_plan_steps", ("cosine", "correlation")),
    "gamma": ("gamma", ("cosine", "cosine_return", "correlation")),
    "reward_noise": ("reward_noise", ("cosine", "correlation")),
    "slip": ("slip", ("cosine", "correlation")),
    "unique_share": ("unique_share", ("cosine", "correlation")),
    "key": ("key", ("cosine", "correlation")),
    "key, 64 siblings": ("key", ("cosine", "correlation")),
    "frozenlake": ("num_siblings", ("cosine", "correlation")),
    "seed": ("seed", ("cosine",)),
}


def write_report(out: Path, rows: Sequence[dict], sweeps: dict[str, list[int]]) -> None:
    """Write the three CSV files into `out`, and renew the tables of credit_fidelity.md there."""
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / "credit_fidelity_cells.csv", cell_lines(rows))
    write_csv(out / "credit_fidelity.csv", estimator_lines(rows))
    write_csv(out / "credit_fidelity_differences.csv", difference_lines(rows))
    page = out / "credit_fidelity.md"
    if page.exists():
        text, found, _ = page.read_text("utf-8").partition(HEADING)
        if found:
            page.write_text(text + HEADING + "\n" + "\n".join(tables(rows, sweeps)), "utf-8")


def write_csv(path: Path, lines: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def cell_lines(rows: Sequence[dict]) -> Iterable[list[object]]:
    """Settings of each cell, and what was measured of it: mean success, steps, share of singletons."""
    names = list(rows[0]["cell"])
    yield ["cell", *names, "measured_success", "steps", "singleton_share"]
    for number, row in enumerate(rows):
        measured = [f"{row['success']:.3f}", f"{row['steps']:.2f}", f"{row['singleton_share']:.3f}"]
        yield [number, *("" if row["cell"][n] is None else row["cell"][n] for n in names), *measured]


def estimator_lines(rows: Sequence[dict]) -> Iterable[list[object]]:
    """One line for each cell and estimator; _low and _high are 95 % intervals over the batches."""
    ends = ("", "_low", "_high")
    head = ["cell", "estimator", *(m + end for m in MEASURES for end in ends), "cosine_mean"]
    head += ["cosine_mean_return", *(e + end for e in ERRORS for end in ends), "scale"]
    yield [*head, "raw_bias", "raw_spread", "silent_share"]
    for number, row in enumerate(rows):
        for name, found in row["rows"].items():
            errors = found["errors"]
            yield [
                *(number, name, *(_digits(x) for m in MEASURES for x in found[m])),
                *(_digits(found[m]) for m in ("cosine_mean", "cosine_mean_return")),
                *(_digits(x, 2) for e in ERRORS for x in errors[e]),
                *(_digits(x, 2) for x in (errors["scale"], errors["raw_bias"][0], errors["raw_spread"][0])),
                _digits(found["silent_share"], 2),
            ]


def difference_lines(rows: Sequence[dict]) -> Iterable[list[object]]:
    """One line for each cell and pair of estimators: how much more the first has, batch by batch."""
    yield ["cell", "one", "other", *(m + end for m in MEASURES for end in ("", "_low", "_high"))]
    for number, row in enumerate(rows):
        for pair, found in row["differences"].items():
            yield [number, *pair.split(" - "), *(_digits(x) for m in MEASURES for x in found[m])]


def tables(rows: Sequence[dict], sweeps: dict[str, list[int]]) -> Iterable[str]:
    """Markdown: for each sweep and measure, estimators against what varies."""
    versions = rows[-1]["made_with"]
    made = ", ".join(f"{name} {version}" for name, version in versions["versions"].items())
    yield f"{len(rows)} cells. Made with {made}; {versions['platform']}.\n"
    for sweep, numbers in sweeps.items():
        varied, measures = TABLES.get(sweep, ("num_siblings", MEASURES[:1]))
        for measure in measures:
            yield f"### {sweep}: {measure}\n"
            yield _table([rows[n] for n in numbers], varied, measure)


def _table(rows: Sequence[dict], varied: str, measure: str) -> str:
    labels = []
    for row in rows:
        cell = row["cell"]
        skill = "uniform" if cell["success"] is None else f"{100 * cell['success']:.0f} %"
        value = cell[varied]
        if varied == "min_plan_steps":
            value = f"{value} to {cell['max_plan_steps']}"
        extra = f", K {cell['num_siblings']}" if varied == "unique_share" else ""
        labels.append(f"{skill}{extra}: {value}")
    lines = [f"| {varied} | {' | '.join(labels)} |", "|---" * (len(rows) + 1) + "|"]
    for name in SHOWN:
        found = [row["rows"][name][measure] for row in rows]
        cells = [f"{m:.2f} ± {max(h - m, m - low):.2f}" if m == m else "–" for m, low, h in found]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _digits(value: float, num: int = 3) -> str:
    """A number as the files hold it; empty where it is not defined."""
    return "" if math.isnan(value) else f"{value:.{num}f}"
