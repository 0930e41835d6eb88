"""How a run that goes on is told: one plain line an iteration, and live curves for a person.

A number that is missing (it was not finite, or nothing was trained) is told as a dash.
"""

from __future__ import annotations

import sys
from typing import Any, TextIO

from gagpo.stats import measured
from gagpo.store import Run
from widgets.plots import learning_curves, mimebundle


class ProgressLine:
    """Call it with a run whenever there may be news; it writes what it has not told yet.

    The lines read well in a log. With `live`, learning curves above them are kept up to date too.
    """

    def __init__(self, live: bool = False, stream: TextIO | None = None) -> None:
        self.live, self.stream = live, stream or sys.stdout
        self.told = 0
        self.handle: Any = None

    def __call__(self, run: Run) -> None:
        records = run.read_metrics()
        # A resumed run drops the records after its checkpoint and makes them anew.
        self.told = min(self.told, len(records))
        new = records[self.told :]
        self.told = len(records)
        for record in new:
            if line := describe(record, run):
                self.stream.write(line + "\n")
        self.stream.flush()
        if self.live and any(record["stage"] != "warm" for record in new):
            self._draw(run)

    def _draw(self, run: Run) -> None:
        from IPython.display import display

        bundle = mimebundle(learning_curves(run))
        if self.handle is None:
            self.handle = display(bundle, raw=True, display_id=True)
        else:
            self.handle.update(bundle, raw=True)


def describe(record: dict[str, Any], run: Run) -> str | None:
    """The line of a metrics record; None for the many of the warm start."""

    def number(name: str, form: str) -> str:
        value = measured(record, name)
        return "-".rjust(len(format(0.0, form))) if value is None else format(value, form)

    if record["stage"] == "warm":
        skipped = {k.partition("/")[2]: n for k, n in record.items() if k.startswith("skipped/")}
        if skipped:
            return "left out      " + ", ".join(f"{n:.0f} games: {reason}" for reason, n in skipped.items())
        if "update" not in record:
            return f"warm start    {number('num_steps', '.0f')} demonstrated steps to clone"
        total = run.read_config().warm.warm_updates
        last = record["update"] == total
        return f"warm start    cloned, loss {number('clone_loss', '.3f')} nats a token" if last else None
    if record["stage"] == "eval":
        return (
            f"unseen tasks  {number('success_rate', '6.1%')} of {number('num_tasks', '.0f')} solved in "
            f"{number('episode_length', '.1f')} steps (after iteration {record['iteration']})"
        )
    total = run.read_config().run.iterations
    left = (total - record["iteration"]) * record["iteration_s"]
    return (
        f"iteration {record['iteration']:{len(str(total))}}/{total}  "
        f"success {number('success_rate', '6.1%')}  steps {number('episode_length', '5.1f')}  "
        f"singletons {number('singleton_share', '4.0%')}  no signal {number('zero_sigma_share', '4.0%')}  "
        f"clip {number('clip_fraction', '5.1%')}  entropy {number('entropy', '4.2f')}  "
        f"{number('iteration_s', '5.1f')} s  left {left / 60:.1f} min"
    )
