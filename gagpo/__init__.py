"""GAGPO Workbench: train LLM agents with grouped step-level credit, and look at that credit.

Importing this package needs numpy only. Torch, transformers and pyarrow are imported by the
modules that use them (see the code map in README.md).
"""

from gagpo.config import Config
from gagpo.credit import ESTIMATORS, assign_credit
from gagpo.table import Credit, Outcome, Step, StepTable, Trajectory

__version__ = "0.1.0"
__all__ = [
    "ESTIMATORS",
    "Config",
    "Credit",
    "Outcome",
    "Step",
    "StepTable",
    "Trajectory",
    "assign_credit",
]
