"""Where metrics can go besides metrics.jsonl: a sink is anything with these two methods.

`Run` is one. Another tracker takes a class of a few lines that calls its own logger.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class MetricsSink(Protocol):
    def append_metrics(self, stage: str, iteration: int, metrics: dict[str, float]) -> None:
        """Take the metrics of a record; stages are "warm", "train" and "eval"."""


class TensorBoard:
    """Writes scalars named <stage>/<metric> as TensorBoard events."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter  # slow to import: only when asked for

        self.writer = SummaryWriter(str(folder))

    def append_metrics(self, stage: str, iteration: int, metrics: dict[str, float]) -> None:
        step = int(metrics.get("update", iteration))
        for name, value in metrics.items():
            self.writer.add_scalar(f"{stage}/{name}", value, step)
        self.writer.flush()
