"""What the signal of a recorded iteration is made of, and where its state keys are wrong, as tables."""

from __future__ import annotations

import numpy as np

from gagpo.diagnostics import Diagnostics, Mismatch, Signal, diagnose
from gagpo.store import Run
from widgets.tables import NOTHING_YET, Table, Tables


def diagnosis(run: Run, iteration: int | None = None) -> Tables:
    """The diagnostics of an iteration's steps (the last one recorded by default), with examples."""
    from gagpo.steps_file import read_credit, read_steps, step_table

    iteration = run.recorded_iteration(iteration)
    if iteration is None:
        return Tables((Table(NOTHING_YET.format(run=run.run_id), (), ()),))
    rows = read_steps(run.steps_path(iteration))
    found = diagnose(
        step_table(rows),
        read_credit(rows),
        run.read_config().credit,
        true_states=rows["state_key"].to_pylist(),
        num_tokens=[len(ids) for ids in rows["action_ids"].to_pylist()],
    )
    observations = rows["observation"].to_pylist()
    title = f"Iteration {iteration}: {found.num_steps:,} steps"
    tables = [
        Table(title, ("what", "how many", "share"), _counts(found)),
        Table(
            "Where the signal comes from", ("groups", "how many", "of squared A", "of |A|"), _signals(found)
        ),
        Table(
            "A trajectory's weight in the loss", ("mean over", "least", "median", "most"), weight_rows(found)
        ),
    ]
    for name, mismatch in (("Aliasing", found.aliasing), ("Splitting", found.splitting)):
        if mismatch.examples:
            lines = tuple(
                (str(a), observations[a], str(b), observations[b]) for a, b in mismatch.examples
            )  # rows of the steps file
            tables.append(Table(f"{name}: examples", ("row", "observation", "row", "observation"), lines))
    return Tables(tuple(tables))


def _counts(found: Diagnostics) -> tuple[tuple[str, ...], ...]:
    sizes = np.repeat(*np.array(found.anchor_sizes).T)
    low, middle, high = np.percentile(sizes, [25, 50, 75])
    spread = f"{low:g} / {middle:g} / {high:g}, at most {sizes.max()}"

    def mismatch(what: Mismatch) -> tuple[str, str]:
        return f"{what.num_steps:,}", percent(what.share_of_steps)

    return (
        ("steps alone in their anchor group", f"{found.num_singletons:,}", percent(found.singleton_share)),
        ("steps in an anchor group (quartiles)", spread, ""),
        ("groups whose advantages do not vary", f"{len(found.zero_sigma_groups):,}",
         percent(found.zero_sigma_share)),
        ("steps whose key other states have too (aliasing)", *mismatch(found.aliasing)),
        ("steps whose state has other keys too (splitting)", *mismatch(found.splitting)),
    )  # fmt: skip


def _signals(found: Diagnostics) -> tuple[tuple[str, ...], ...]:
    def line(name: str, signal: Signal) -> tuple[str, ...]:
        return name, f"{signal.num_groups:,}", percent(signal.squared_share), percent(signal.absolute_share)

    signals = found.signals
    return (
        line("siblings differ in outcome", signals.outcome),
        line("penalties alone", signals.penalty),
        line("else (how long it took)", signals.other),
    )


def weight_rows(found: Diagnostics) -> tuple[tuple[str, ...], ...]:
    """A trajectory's least, median and largest share of the loss, for each mean that is known."""
    weights = {"actions": found.weights.action, "tokens": found.weights.token}
    weights["trajectories"] = found.weights.trajectory
    return tuple(
        (name, *map(percent, (share.min(), np.median(share), share.max())))
        for name, share in weights.items()
        if share is not None
    )


def percent(share: float) -> str:
    """A share, in words."""
    return f"{100 * share:.3g} %"
