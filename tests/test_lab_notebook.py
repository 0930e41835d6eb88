"""The credit laboratory's notebook, run by papermill: what it shows is what its parts compute."""

from __future__ import annotations

import os
import time
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from test_notebooks import ROOT, papermill
from test_widgets import wrong_keys

from gagpo.config import CreditConfig
from gagpo.credit import ESTIMATORS, assign_credit
from gagpo.diagnostics import diagnose
from gagpo.importers import Options, import_file
from widgets.lab_settings import OWN_PARAMETERS

LAB = ROOT / "notebooks" / "credit_lab.ipynb"


class Tables(HTMLParser):
    """{caption: rows of cells} of an output, the head first."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[list[str]]] = {}
        self.caption, self.rows, self.open = "", [], ""

    def handle_starttag(self, tag, attrs):
        self.open = tag
        if tag == "table":
            self.caption, self.rows = "", []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self.open = ""
        if tag == "table":
            self.found[self.caption] = self.rows

    def handle_data(self, data):
        if self.open == "caption":
            self.caption += data
        elif self.open in ("td", "th"):
            self.rows[-1][-1] += data


def outputs(path: Path) -> list:
    cells = nbformat.read(path, 4).cells
    return [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]


def tables(path: Path) -> dict[str, list[list[str]]]:
    reader = Tables()
    for output in outputs(path):
        reader.feed(output.get("data", {}).get("text/html", ""))
    return reader.found


def test_it_runs_quickly_without_torch_and_shows_every_section(tmp_path: Path):
    (tmp_path / "torch.py").write_text("raise ImportError('this notebook needs no torch')")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    start = time.monotonic()
    result = papermill(tmp_path / "out.ipynb", notebook=LAB, env={**os.environ, "PYTHONPATH": path})
    assert result.returncode == 0, result.stderr[-2000:]
    assert time.monotonic() - start < 120
    kinds = [kind for output in outputs(tmp_path / "out.ipynb") for kind in output.get("data", {})]
    assert kinds.count("application/vnd.plotly.v1+json") == 4, "fidelity, its sweeps, lambda, gamma"
    found = tables(tmp_path / "out.ipynb")
    siblings = [rows for caption, rows in found.items() if caption.startswith("sibling ")]
    names = ["gae, true V" if name == "gae" else name for name in ESTIMATORS]
    assert len(siblings) == 4 and all(rows[0][5:] == [*names, "true A"] for rows in siblings)
    for promised in (
        *("keydoor: 16 batches", "From docs/results", "keydoor: correlation", "gagpo: keydoor"),
        *("What was read", "4 tasks: ", "State keys, with", "A trajectory's weight", "tile-cutter, sibling"),
    ):
        assert any(caption.startswith(promised) for caption in found), promised
    assert (tmp_path / "out.ipynb").stat().st_size < 500_000, "a notebook that can be shared"


def test_recorded_airline_chats_have_the_numbers_of_the_importer_and_of_the_guide(shared_dir, tmp_path: Path):
    tau = shared_dir / "data" / "trajectories" / "tau_airline_gpt4o.json"
    if not tau.exists():
        pytest.skip(f"no recorded chats at {tau}")
    keys = ["-y", "compared_keys: [exact, observation]"]
    more = ["-p", "trajectories", str(tau), "-p", "import_max_steps", "30", "-p", "num_batches", "2", *keys]
    result = papermill(tmp_path / "out.ipynb", *more, notebook=LAB)
    assert result.returncode == 0, result.stderr[-2000:]
    found = tables(tmp_path / "out.ipynb")
    guide = (ROOT / "docs" / "importing.md").read_text("utf-8")
    printed = guide.split("repeated\n", 1)[1].split("```")[0]
    shown = found["State keys, with the credit of gagpo"]
    assert [[cell.replace(",", "") for cell in row[:5]] for row in shown[1:]] == [
        line.split() for line in printed.splitlines()
    ]
    read = import_file(tau, Options(max_steps=30))
    told = dict(map(tuple, found["What was read"][1:]))
    assert (told["trajectories"], told["tasks"], told["steps"], told["successes"]) == (
        "200",
        "50",
        "2,454",
        "84",
    )
    table, config = read.table(), CreditConfig()
    assert told["cut by a limit"] == str(int(table.truncated.sum()))
    assert "50 tasks: 14 all fail, 26 siblings differ, 10 all succeed" in found
    credit = assign_credit(table, config)
    by_hand = diagnose(table, credit, config)
    row = dict(zip(shown[0], shown[1], strict=True))
    assert row["singletons"].split()[0] == f"{by_hand.num_singletons:,}"
    assert row["groups without signal"].split()[0] == str(len(by_hand.zero_sigma_groups))
    weights = {name: values for name, *values in found["A trajectory's weight in the loss"][1:]}
    assert weights["actions"][0] == f"{100 * table.lengths.min() / 2454:.3g} %" and "tokens" not in weights
    for caption, rows in found.items():
        if ", sibling " in caption:
            task, sibling = caption.split(": ")[0].split(", sibling ")
            places = [(t.task_id, str(t.sibling)) for t in read.trajectories]
            i = places.index((task, sibling))
            own = slice(table.offsets[i], table.offsets[i + 1])
            assert [row[-1] for row in rows[1:]] == [f"{x:+.3f}" for x in credit.normalized[own]]
            assert [row[1] for row in rows[1:]] == [step.observation for step in read.trajectories[i].steps]
            beside = next(rows for name, rows in found.items() if name.startswith(f"sibling {sibling}: "))
            for name in ("gagpo", "graphgpo"):
                expected = assign_credit(table, CreditConfig(estimator=name)).normalized[own]
                assert [row[beside[0].index(name)] for row in beside[1:]] == [f"{x:+.2f}" for x in expected]
    assert sum(", sibling " in caption for caption in found) == 2
    left_out = found["Left out"]
    assert [row[0] for row in left_out[1:]] == ["gae"], "nobody knows the true values"


def test_a_recorded_run_can_be_looked_at(tmp_path: Path):
    run = wrong_keys(tmp_path / "runs", "text")
    more = ["-p", "runs_dir", str(run.path.parent), "-p", "run_id", "keys", "-p", "num_batches", "2"]
    result = papermill(tmp_path / "out.ipynb", *more, notebook=LAB)
    assert result.returncode == 0, result.stderr[-2000:]
    found = tables(tmp_path / "out.ipynb")
    assert found["Whose credit this is"][1][0] == "iteration 1 of run keys"
    keys = {row[0]: row for row in found["gagpo: iteration 1 of run keys"]}
    assert keys["observation"][3:5] == ["3 (60 %)", "2 (40 %)"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("trajectory", "x.json", "unknown parameter 'trajectory'; did you mean 'trajectories'?"),
        ("success", "2.0", "success: 2.0; expected at most 1"),
        ("trajectories", "nowhere.json", "nowhere.json: No such file"),
        ("run_id", "nowhere", "run_id: unknown run 'nowhere'"),
    ],
)
def test_bad_parameters_are_named(name, value, message, tmp_path: Path):
    more = ["-p", "runs_dir", str(tmp_path), "-p", name, value]
    result = papermill(tmp_path / "out.ipynb", *more, notebook=LAB)
    assert result.returncode != 0 and message in result.stderr


def test_the_parameters_cell_has_every_setting_of_the_laboratory():
    (cell,) = [c for c in nbformat.read(LAB, 4).cells if "parameters" in c.metadata.get("tags", [])]
    names = {line.split(" = ")[0] for line in cell.source.splitlines() if " = " in line}
    assert set(OWN_PARAMETERS) | set(CreditConfig.__slots__) | {"run_id", "seed"} <= names
