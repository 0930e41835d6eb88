"""What shows runs and credit in a notebook.

Each piece reads a run folder or records; none needs torch. Plotly and IPython are imported by
the functions that draw, so that importing this package is quick.
"""

from widgets.diagnosis import diagnosis
from widgets.plots import advantage_spread, learning_curves, phase_times, show, training_health
from widgets.progress import ProgressLine
from widgets.tables import example_trajectories, metrics_table, versions_table

__all__ = [
    "ProgressLine",
    "advantage_spread",
    "diagnosis",
    "example_trajectories",
    "learning_curves",
    "metrics_table",
    "phase_times",
    "show",
    "training_health",
    "versions_table",
]
