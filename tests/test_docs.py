"""What a page of docs/ prints is computed again."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_numbers_of_the_page_on_truth_are_true():
    text = (ROOT / "docs" / "truth.md").read_text("utf-8")
    code = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^```python\n.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    promised = re.findall(r"^ {4}(\S.*)$", prose, re.MULTILINE)
    command = [sys.executable, "-c", "\n".join(code)]
    printed = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    ).stdout
    assert len(code) == 2 and printed.splitlines() == promised
