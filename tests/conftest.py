"""Fixtures that several test files use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder with recorded games and traces; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("GAGPO_SHARED") or Path(__file__).parents[2] / "shared")
    if not (folder / "data").is_dir():
        pytest.skip(f"no recorded data at {folder} (set GAGPO_SHARED to its folder)")
    return folder
