"""docs/credit.md: the example, the settings and every number are read from the page and recomputed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from references import Played, table_of

from gagpo.config import Config, CreditConfig
from gagpo.credit import ESTIMATORS, assign_credit
from gagpo.table import StepTable

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "credit.md").read_text("utf-8")
SECTIONS = {
    name: text for name, text in re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)
}
OWN = ("return_to_go", "value", "td_error", "advantage", "normalized")


def tables_of(text: str) -> list[list[dict[str, str]]]:
    """Every Markdown table as rows of {heading: cell}."""
    found = []
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        head, _, *rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in block.splitlines()]
        found.append([dict(zip(head, row, strict=True)) for row in rows])
    return found


def setting(text: str) -> dict[str, object]:
    """{name: value} of "name = value"."""
    name, _, value = text.partition(" = ")
    return {name: value if value.isalpha() or "_" in value else float(value)}


def example() -> tuple[StepTable, dict[str, object]]:
    text = PAGE.split("## The example\n")[1].split("\n## ")[0]
    steps, ends = tables_of(text)
    played = []
    for end in ends:
        own = [row for row in steps if row["trajectory"] == end["trajectory"]]
        states, nexts = ("".join(row[name] for row in own) for name in ("state", "next"))
        assert states[1:] == nexts[:-1], "a step begins where the one before it led to"
        played.append(
            Played(
                0,
                states,
                [float(row["reward"]) for row in own],
                final=nexts[-1],
                truncated=end["end"] == "truncated",
                success=end["success"] == "yes",
            )
        )
    settings: dict[str, object] = {}
    for pair in re.findall(r"`(\w+ = [\w.]+)`", text):
        settings |= setting(pair)
    critic = np.array([float(row["critic"]) for row in steps])
    return replace(table_of(*played), critic_value=critic), settings


TABLE, SETTINGS = example()


def config_of(**more: object) -> CreditConfig:
    known = {name: type(value) for name, value in Config().to_dict()["credit"].items()}
    return CreditConfig(**{name: known[name](value) for name, value in (SETTINGS | more).items()})


def test_the_page_explains_every_estimator_and_nothing_else():
    assert sorted(SECTIONS) == sorted(ESTIMATORS)
    assert all(tables_of(text) for text in SECTIONS.values())
    assert TABLE.num_steps == 8 and {"gamma", "lam", "normalize"} <= SETTINGS.keys()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_numbers_of_an_estimator(estimator):
    """The first table holds columns of Credit; further ones hold a column for a changed setting:
    what was divided where the sentence before the table says `normalized`, else the advantage."""
    plain, *switched = tables_of(SECTIONS[estimator])
    credit = assign_credit(TABLE, config_of(estimator=estimator))
    assert set(plain[0]) == {"trajectory", "state", *OWN}
    for name in OWN:
        check(plain, name, getattr(credit, name))
    before = SECTIONS[estimator].split("\n\n")
    for rows in switched:
        place = next(i for i, text in enumerate(before) if tables_of(text + "\n") == [rows])
        column = "normalized" if "`normalized`" in before[place - 1] else "advantage"
        for heading in rows[0].keys() - {"trajectory", "state"}:
            config = config_of(estimator=estimator, **setting(heading))
            check(rows, heading, getattr(assign_credit(TABLE, config), column))


def check(rows: list[dict[str, str]], heading: str, expected: np.ndarray) -> None:
    assert [int(row["trajectory"]) - 1 for row in rows] == TABLE.trajectory.tolist()
    assert [ord(row["state"]) for row in rows] == TABLE.state.tolist()
    np.testing.assert_allclose([float(row[heading]) for row in rows], expected, 0, 5.1e-4, err_msg=heading)
