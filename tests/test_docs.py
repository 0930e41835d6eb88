"""What a page of docs/ prints is computed again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

from gagpo.labels import parse_labels

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


def test_the_example_of_the_page_on_reviewing_is_true(tmp_path):
    text = (ROOT / "docs" / "reviewing.md").read_text("utf-8")
    example = text.split("## An example")[1].split("## Files")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```", example, re.DOTALL | re.MULTILINE)
    (shell,) = re.findall(r"^```bash\ngagpo (.*)\n```", example, re.MULTILINE)
    printed, told = re.findall(r"(?:^ {4}\S.*\n|^ {6}\S.*\n|^\n(?= {4}))+", example, re.MULTILINE)[-2:]
    (tmp_path / "widgets").symlink_to(ROOT / "widgets")

    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=120
        ).stdout

    assert run("-c", code) == textwrap.dedent(printed).lstrip("\n")
    assert run("-m", "gagpo", *shell.split()) == textwrap.dedent(told).lstrip("\n")
    labels = re.findall(r"^```json\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert [parse_labels(each.encode()).name for each in labels] == ["refunds"]
    for number in ("0.692", "0.458"):
        assert text.count(number) >= 2  # in the output, and where it is worked out
    assert round(9 / 13, 3) == 0.692 and round(73 / 169, 3) == 0.432
    assert round((9 / 13 - 73 / 169) / (1 - 73 / 169), 3) == 0.458
