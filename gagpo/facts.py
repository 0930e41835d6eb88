"""What a run was made with: versions, commit and machine. Nothing of the environment variables."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("gagpo-workbench", "numpy", "pyarrow", "torch", "transformers", "tokenizers", "peft", "papermill")


def facts() -> dict[str, object]:
    """JSON values for config.json and for the last cell of a notebook."""
    return {
        "versions": {"python": platform.python_version(), **_versions()},
        "commit": _commit(),
        "platform": platform.platform(),
        "num_cpus": os.cpu_count(),
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    """The commit of the checkout that this package lies in, "-dirty" when files differ from it."""
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():
        return None
    try:
        git = ["git", "-C", str(root)]
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10)
        changes = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if commit.returncode:
        return None
    return commit.stdout.strip() + ("-dirty" if changes.stdout.strip() else "")
