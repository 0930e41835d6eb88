"""What the laboratory says of other projects' trajectories, against the importers and plain counts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from recordings import chat, verl, write_json, write_lines
from test_widgets import PAYLOADS, parse, wrong_keys

from gagpo.__main__ import main
from gagpo.config import CreditConfig
from gagpo.credit import assign_credit
from gagpo.importers import import_file
from gagpo.importers.own_steps import OWN_KEYS
from widgets.imports import (
    EXAMPLE,
    credited_siblings,
    keys_on_offer,
    loss_weights,
    overview_table,
    read_recordings,
    report_table,
)
from widgets.lab_settings import LabSettings
from widgets.recorded import gather_recorded

CHATS = [chat(0, 1.0, "JFK"), chat(1, 0.0, "EWR")]
EXAMPLE_LINES = [json.loads(line) for line in EXAMPLE.read_text("utf-8").splitlines()]


def test_the_example_is_counted_by_a_plain_reading():
    def answers(record: dict) -> int:
        return sum(message["role"] == "assistant" for message in record["traj"])

    kept = [r for r in EXAMPLE_LINES if "reward" in r and answers(r)]
    recordings = read_recordings(LabSettings())
    told = dict(report_table(recordings).rows)
    assert (told["format"], told["states by"]) == ("chat", "tools")
    assert told["trajectories"] == str(len(kept)) == "14" and told["tasks"] == "4"
    assert told["steps"] == str(sum(map(answers, kept))) == "44"
    assert told["successes"] == str(sum(r["reward"] for r in kept)).removesuffix(".0") == "7"
    assert told["steps that were not valid"] == str(EXAMPLE.read_text("utf-8").count('"error"')) == "4"
    left_out = {name: num for name, num in told.items() if name.startswith("left out")}
    assert left_out == {
        "left out: attempts without a reward (give missing_reward, or reward_field)": "1",
        "left out: attempts without a step of the agent": "1",
    }
    overview = overview_table(recordings)
    assert overview.caption == "4 tasks: 2 siblings differ, 1 all fail, 1 all succeed"
    assert overview.rows[0][0] == "tile-cutter"
    assert overview.rows[0][2:] == ("4", "2", "0.5", "2 to 6", "siblings differ")
    assert [row[-1] for row in overview.rows[2:]] == ["all fail", "all succeed"]
    # 44 actions in 14 trajectories of 1 to 6 actions, the 7th and the 8th of which have 3.
    assert loss_weights(recordings, CreditConfig()).rows == (
        ("actions", "2.27 %", "6.82 %", "13.6 %"),
        ("trajectories", "7.14 %", "7.14 %", "7.14 %"),
    )
    assert EXAMPLE.stat().st_size < 50_000


def test_shares_under_each_key_are_those_of_the_command(capsys):
    assert main(["import", str(EXAMPLE)]) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()[4:]]
    shown = keys_on_offer(read_recordings(LabSettings()), CreditConfig())
    assert [list(row[:5]) for row in shown.rows] == printed and len(printed) == 4


def test_penalties_alone_are_the_signal_of_a_task_that_all_failed():
    """In `late-return` nobody succeeds and two calls are refused; without penalties nothing is left."""
    recordings = read_recordings(LabSettings(import_key="conversation"))
    with_penalty = dict(zip(*columns(recordings, CreditConfig()), strict=True))
    without = dict(zip(*columns(recordings, CreditConfig(invalid_penalty=0.0)), strict=True))
    assert (
        with_penalty["groups with penalties alone"] == "1" and with_penalty["penalties' part of |A|"] != "0 %"
    )
    assert without["groups with penalties alone"] == "0" and without["penalties' part of |A|"] == "0 %"
    silent = [made["groups without signal"] for made in (with_penalty, without)]
    assert silent == ["0 (0 %)", "1 (25 %)"]


def columns(recordings, config) -> tuple[tuple[str, ...], tuple[str, ...]]:
    table = keys_on_offer(recordings, config)
    (row,) = [row for row in table.rows if row[0] == recordings.key]
    return table.columns, row


def test_steps_are_shown_with_the_credit_that_the_importer_and_estimator_make(tmp_path: Path):
    path = write_json(tmp_path / "c.json", CHATS)
    lab = LabSettings(trajectories=str(path), import_key="last_result", import_max_steps=4, task="3")
    config = CreditConfig(estimator="gigpo", gamma=0.5)
    recordings = read_recordings(lab)
    won, failed = credited_siblings(recordings, config).tables
    made = import_file(path, lab.options())
    assert recordings.trajectories == made.trajectories and recordings.told == "c.json, states by last_result"
    credit = assign_credit(made.table(), config)
    assert [row[-1] for row in (*won.rows, *failed.rows)] == [f"{x:+.3f}" for x in credit.normalized]
    assert [row[4] for row in won.rows] == ["+0.125", "+0.250", "+0.500", "+1.000"]
    assert won.rows[1][1:3] == ("Seven.", 'look_up({"full":true,"user":7})')
    assert "failed (truncated) after 4 steps" in failed.caption
    assert dict(report_table(recordings).rows)["cut by a limit"] == "2"
    with pytest.raises(ValueError, match="unknown task '4'; expected one of the 1 recorded"):
        credited_siblings(read_recordings(replace(lab, task="4")), config)
    assert gather_recorded(None, lab).trajectories == made.trajectories


def test_a_key_that_cannot_be_had_says_why_in_its_row(tmp_path: Path):
    spoken = [{**chat(i, float(i), "JFK"), "traj": [{"role": "user", "content": "hi"},
               {"role": "assistant", "content": f"hello {i}"}]} for i in range(2)]  # fmt: skip
    path = str(write_json(tmp_path / "c.json", spoken))
    with pytest.raises(ValueError, match="no tool is ever called"):
        read_recordings(LabSettings(trajectories=path))
    shown = keys_on_offer(
        read_recordings(LabSettings(trajectories=path, import_key="observation")), CreditConfig()
    )
    notes = {row[0]: row[-1] for row in shown.rows}
    assert "no tool is ever called" in notes["tools"] and notes["observation"] == notes["conversation"] == ""
    failing = keys_on_offer(read_recordings(LabSettings()), CreditConfig(estimator="gae"))
    assert all("critic_value" in row[-1] for row in failing.rows)


def test_only_the_last_of_several_policies_is_compared(tmp_path: Path):
    early = [verl("2 + 2?", "5", 0.0) | {"step": 1}, verl("2 + 2?", "4", 1.0) | {"step": 1}]
    path = write_lines(tmp_path / "dump.jsonl", [*early, verl("2 + 2?", "4", 1.0), verl("2 + 2?", "3", 0.0)])
    lab = LabSettings(trajectories=str(path), import_key="conversation")
    recordings = read_recordings(lab)
    assert [t.policy_version for t in recordings.trajectories] == [2, 2]  # updates before step 3
    assert recordings.told == "dump.jsonl, states by conversation, policy version 2, the last of 2"
    assert ("policy", "policy version 2, the last of 2") in report_table(recordings).rows


def test_our_own_steps_files_are_on_offer_with_their_keys_and_tokens(tmp_path: Path):
    run = wrong_keys(tmp_path, "text")
    lab = LabSettings(trajectories=str(run.steps_path(1)))
    recordings = read_recordings(lab)
    assert tuple(recordings.by_key) == OWN_KEYS and recordings.key == "recorded"
    # Of nine tokens the lost sibling has one; see `wrong_keys`.
    assert loss_weights(recordings, CreditConfig()).rows[1] == ("tokens", "11.1 %", "50 %", "88.9 %")


@pytest.mark.parametrize("payload", PAYLOADS)
def test_recorded_text_is_inert(payload: str, tmp_path: Path):
    name = "".join(c for c in payload if c.isprintable() and c != "/") + ".json"
    records = [{**chat(i, float(i), payload, greeting=payload), "task_id": payload} for i in range(2)]
    recordings = read_recordings(LabSettings(trajectories=str(write_json(tmp_path / name, records))))
    made = [report_table(recordings), overview_table(recordings)]
    made += [show(recordings, CreditConfig()) for show in (loss_weights, keys_on_offer, credited_siblings)]
    for table in made:
        page = parse(table._repr_html_())
        assert page.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "br"}
        assert page.attributes <= {"style"}
        assert all(c.isprintable() or c.isspace() for text in page.text for c in text)
    steps = "".join(parse(made[-1]._repr_html_()).text)
    assert "".join(c if c.isprintable() else "\ufffd" for c in payload) in steps
