"""What credit_fidelity.py found, as CSV files, the tables of its page, and a figure."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from fidelity_figure import figure

MEASURES = ("correlation", "sign_agreement", "top_precision", "cosine", "cosine_return")
ERRORS = ("bias", "spread")
HEADING = "## Tables\n"
SHOWN = (
    *("reinforce", "grpo", "gigpo", "gigpo none", "hgpo", "graphgpo", "gated_bepo"),
    *("gagpo lam 0", "gagpo lam 0.5", "gagpo", "gagpo lam 1", "gagpo + episode", "gae exact"),
)
# The setting that a sweep varies, and the measures that its tables show.
TABLES = {
    "num_siblings": ("num_siblings", (*MEASURES, *ERRORS)),
    "horizon": ("horizon", ("cosine",)),
    "plan": ("min_plan_steps", ("cosine",)),
    "gamma": ("gamma", ("cosine", "cosine_return")),
    "reward_noise": ("reward_noise", ("cosine",)),
    "slip": ("slip", ("cosine",)),
    "unique_share": ("unique_share", ("cosine", "correlation")),
    "key": ("key", ("cosine", "correlation")),
    "key, 64 siblings": ("key", ("cosine", "correlation")),
    "uniform policy": ("num_siblings", ("cosine",)),
    "frozenlake": ("num_siblings", ("cosine",)),
    "seed": ("seed", ("cosine",)),
}


def write_report(out: Path, rows: Sequence[dict], sweeps: dict[str, list[int]]) -> None:
    """Write the CSV files and the figure into `out`, and renew the tables of credit_fidelity.md there."""
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / "credit_fidelity_cells.csv", cell_lines(rows))
    write_csv(out / "credit_fidelity.csv", estimator_lines(rows))
    write_csv(out / "credit_fidelity_differences.csv", difference_lines(rows))
    if "gamma" in sweeps:
        varied = {name: TABLES[name][0] for name in ("num_siblings", "unique_share", "gamma")}
        panels = {
            what: [rows[n] for n in sweeps[name] if is_usual(rows[n]["cell"], what)]
            for name, what in varied.items()
        }
        (out / "credit_fidelity.svg").write_text(figure(panels), "utf-8")
    page = out / "credit_fidelity.md"
    if page.exists():
        text, found, _ = page.read_text("utf-8").partition(HEADING)
        if found:
            page.write_text(text + HEADING + "\n" + "\n".join(tables(rows, sweeps)), "utf-8")


def is_usual(cell: dict, varied: str) -> bool:
    """A policy of 50 %, with eight siblings unless these vary."""
    return cell["success"] == 0.5 and (varied == "num_siblings" or cell["num_siblings"] == 8)


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
    """Markdown: who is ahead where, and for each sweep, policy and measure estimators by what varies."""
    made = rows[-1]["made_with"]
    versions = ", ".join(f"{name} {made['versions'][name]}" for name in ("python", "numpy"))
    yield f"{len(rows)} cells, made at commit {str(made['commit'])[:12]} with {versions}.\n"
    yield from _verdicts(rows)
    for sweep, numbers in sweeps.items():
        varied, measures = TABLES[sweep]
        yield f"### {sweep}\n"
        policies = dict.fromkeys((rows[n]["cell"]["success"], _fixed(rows[n], varied)) for n in numbers)
        for measure in measures:
            for success, fixed in policies:
                if len(measures) > 4 and success != 0.5 and measure != "cosine":
                    continue
                policy = "the uniform policy" if success is None else f"a policy of {100 * success:.0f} %"
                yield f"{measure}, {policy}{fixed}:\n"
                key = (success, fixed)
                own = [rows[n] for n in numbers]
                yield _table(
                    [r for r in own if (r["cell"]["success"], _fixed(r, varied)) == key], varied, measure
                )


def _fixed(row: dict, varied: str) -> str:
    num = row["cell"]["num_siblings"]
    return "" if varied == "num_siblings" or num == 8 else f", {num} siblings"


def _verdicts(rows: Sequence[dict]) -> Iterable[str]:
    """In how many cells GAGPO is ahead of each rival, behind, or neither by the 95 % interval."""
    yield "### GAGPO less its rivals, on the same batches\n"
    yield "Cells in which the 95 % interval of the difference is above 0 / holds 0 / is below 0.\n"
    pairs = list(rows[0]["differences"])
    yield f"| | {' | '.join(MEASURES)} |\n{'|---' * (len(MEASURES) + 1)}|"
    for pair in pairs:
        counts = []
        for measure in MEASURES:
            found = [row["differences"][pair][measure] for row in rows]
            ahead, behind = sum(low > 0 for _, low, _ in found), sum(high < 0 for *_, high in found)
            counts.append(f"{ahead} / {len(found) - ahead - behind} / {behind}")
        yield f"| {pair} | {' | '.join(counts)} |"
    yield "\nCells in which GAGPO's (lam 0.8) cosine is behind GiGPO's or GRPO's:\n"
    yield "| cell | rival | difference |\n|---|---|---|"
    for number, row in enumerate(rows):
        for rival in ("gigpo", "gigpo none", "grpo"):
            mean, low, high = row["differences"][f"gagpo - {rival}"]["cosine"]
            if high < 0:
                yield f"| {number}: {_settings(row)} | {rival} | {mean:.3f} ({low:.3f} to {high:.3f}) |"
    yield ""


def _settings(row: dict) -> str:
    """What tells a cell from the usual one."""
    usual = {"num_siblings": 8, "horizon": 30, "gamma": 0.95, "key": "exact", "unique_share": 0.0}
    usual |= {"reward_noise": 0.0, "slip": 0.0, "min_plan_steps": 6, "max_plan_steps": None, "env": "keydoor"}
    cell = row["cell"]
    told = [f"success {cell['success']}"]
    told += [f"{name} {cell[name]}" for name, value in usual.items() if cell[name] != value]
    return ", ".join(told)


def _table(rows: Sequence[dict], varied: str, measure: str) -> str:
    labels = [row["cell"][varied] for row in rows]
    if varied == "min_plan_steps":
        labels = [f"{r['cell'][varied]} to {r['cell']['max_plan_steps']} steps" for r in rows]
    lines = [f"| {varied} | {' | '.join(map(str, labels))} |", "|---" * (len(rows) + 1) + "|"]
    for name in SHOWN:
        found = [(r["rows"][name]["errors"] if measure in ERRORS else r["rows"][name])[measure] for r in rows]
        cells = [f"{m:.3f} ± {max(h - m, m - low):.3f}" if m == m else "–" for m, low, h in found]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _digits(value: float, num: int = 3) -> str:
    """A number as the files hold it; empty where it is not defined."""
    return "" if math.isnan(value) else f"{value:.{num}f}"
