"""tau-bench's recorded airline chats and the command line, against a plain reading of the same file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from recordings import chat, swe_agent, write_json

from gagpo.__main__ import main
from gagpo.config import CreditConfig
from gagpo.credit import assign_credit
from gagpo.importers import Options, import_file
from gagpo.stats import sharing_metrics
from gagpo.steps_file import read_credit, read_steps, read_trajectories
from gagpo.store import Run
from widgets.tables import example_trajectories, metrics_table


@pytest.fixture(scope="module")
def tau(shared_dir) -> Path:
    path = shared_dir / "data" / "trajectories" / "tau_airline_gpt4o.json"
    if not path.exists():
        pytest.skip(f"no recorded chats at {path}")
    return path


@pytest.fixture(scope="module")
def plain(tau) -> list[dict]:
    return json.loads(tau.read_text())


@pytest.fixture(scope="module")
def read(tau):
    return import_file(tau)


def test_counts_and_rewards_are_those_of_a_plain_reading(read, plain):
    def answers(record: dict) -> int:
        return sum(message["role"] == "assistant" for message in record["traj"])

    expected = {(str(r["task_id"]), r["trial"]): (r["reward"], answers(r)) for r in plain}
    found = {(t.task_id, t.sibling): (t.total_reward, len(t.steps)) for t in read.trajectories}
    assert found == expected and len(expected) == 200
    assert read.dropped == {} and (read.format, read.state_key) == ("chat", "tools")
    siblings = Counter(t.task_id for t in read.trajectories)
    assert len(siblings) == 50 and set(siblings.values()) == {4}
    table = read.table()
    assert (table.num_steps, int(table.success.sum()), float(table.reward.sum())) == (2454, 84, 84.0)
    mixed = [
        task for task in siblings if len({t.success for t in read.trajectories if t.task_id == task}) > 1
    ]
    assert len(mixed) == 26


def test_every_text_is_kept_in_its_place(read, plain):
    records = {(str(r["task_id"]), r["trial"]): r["traj"] for r in plain}
    for made in read.trajectories:
        messages = records[made.task_id, made.sibling]
        shown = [step.observation for step in made.steps] + [made.final_observation]
        others = [m["content"] for m in messages if m["role"] != "assistant"]
        assert "\n\n".join(text for text in shown if text) == "\n\n".join(text for text in others if text)
        answers = [m for m in messages if m["role"] == "assistant"]
        for step, answer in zip(made.steps, answers, strict=True):
            assert step.action.startswith(answer["content"] or "")
            names = [call["function"]["name"] for call in answer.get("tool_calls") or ()]
            assert [line.split("(")[0] for line in step.action.splitlines()[-len(names) :] if names] == names


def test_tool_states_are_those_of_a_slow_comparison(read, plain):
    """Equal keys exactly where the calls so far, parsed, and the results so far are equal."""
    histories: dict[tuple, list] = {}
    for record in plain:
        past: list = []
        before = []
        for message in record["traj"]:
            if message["role"] == "assistant":
                before.append(list(past))
                for call in message.get("tool_calls") or ():
                    past.append((call["function"]["name"], json.loads(call["function"]["arguments"])))
            elif message["role"] == "tool":
                try:
                    past.append(json.loads(message["content"]))
                except ValueError:
                    past.append(("text", message["content"]))
        histories[str(record["task_id"]), record["trial"]] = [*before, past]
    seen: list = []
    numbers: dict[str, int] = {}
    for made in read.trajectories:
        keys = [*(step.state_key for step in made.steps), made.final_state_key]
        for key, history in zip(keys, histories[made.task_id, made.sibling], strict=True):
            if key in numbers:
                assert seen[numbers[key]] == history
            else:
                assert history not in seen
                numbers[key] = len(seen)
                seen.append(history)


@pytest.mark.parametrize("estimator", ["gagpo", "gigpo", "grpo"])
def test_credit_of_recorded_chats(read, estimator):
    table = read.table()
    credit = assign_credit(table, CreditConfig(estimator=estimator, gamma=1.0, normalize="none"))
    assert np.isfinite(credit.normalized).all()
    mixed = np.array([len(np.unique(table.success[table.group == g])) > 1 for g in table.group])
    is_mixed = mixed[table.trajectory]
    assert not credit.advantage[~is_mixed].any()  # siblings that end alike leave nothing to compare
    # Where they differ, every task has steps that are praised and others that are blamed.
    for group in np.unique(table.group[mixed]):
        own = credit.advantage[table.group[table.trajectory] == group]
        assert own.min() < 0 < own.max()
    assert credit.return_to_go.tolist() == np.repeat(table.success * 1.0, table.lengths).tolist()


def test_the_value_of_the_start_is_the_share_of_siblings_that_succeed(tau):
    """With one state a trajectory step, before anything was said: the mean of four rewards."""
    read = import_file(tau, Options(state_key=lambda messages: str(len(messages))))
    table = read.table()
    credit = assign_credit(table, CreditConfig(gamma=1.0, normalize="none"))
    expected = [table.success[table.group == group].mean() for group in table.group]
    assert credit.value[table.offsets[:-1]].tolist() == pytest.approx(expected)


def test_what_the_guide_prints_is_true(tau, capsys):
    guide = (Path(__file__).parents[1] / "docs" / "importing.md").read_text("utf-8")
    printed = guide.split("gagpo import tau_airline_gpt4o.json --max-steps 30\n")[1].split("```")[0]
    assert main(["import", str(tau), "--max-steps", "30"]) == 0
    assert capsys.readouterr().out == printed


def test_shares_are_those_of_a_plain_count(read):
    visits: dict[tuple, set] = {}
    for made in read.trajectories:
        for step in made.steps:
            visits.setdefault((made.task_id, step.state_key), set()).add(made.sibling)
    shared = [
        (len(visits[made.task_id, step.state_key]) > 1, step.state_key != made.steps[0].state_key)
        for made in read.trajectories
        for step in made.steps
    ]
    found = sharing_metrics(read.table())
    assert found["shared_share"] == sum(s for s, _ in shared) / len(shared)
    assert found["later_shared_share"] == sum(s and later for s, later in shared) / len(shared)


CHATS = [chat(0, 1.0, "JFK"), chat(1, 0.0, "EWR")]


def test_the_command_writes_a_run_that_widgets_open(tmp_path, capsys):
    path, out = write_json(tmp_path / "c.json", CHATS), tmp_path / "runs" / "tau"
    arguments = ["import", str(path), "--out", str(out), "--estimator", "gigpo", "--gamma", "1"]
    assert main(arguments) == 0
    assert capsys.readouterr().out == (
        f"chat: 2 trajectories of 1 tasks, 8 steps, 1 successes; states by tools\nwritten: {out}\n"
    )
    run = Run(out)
    assert str(run.read_status()) == "complete after iteration 1 of 1"
    rows = read_steps(run.steps_path(1))
    table = import_file(path).table()
    expected = assign_credit(table, CreditConfig(estimator="gigpo", gamma=1.0))
    assert read_credit(rows).normalized.tolist() == expected.normalized.tolist()
    assert read_trajectories(rows) == list(import_file(path).trajectories)
    assert "reached the goal after 4 steps" in repr(example_trajectories(run))
    assert "success_rate" in repr(metrics_table(run)) and "0.5" in repr(metrics_table(run))
    assert main(arguments) == 1 and "holds a run already" in capsys.readouterr().err


def test_the_command_takes_rewards_by_file(tmp_path, capsys):
    files = []
    for i in range(2):
        (tmp_path / str(i)).mkdir()
        files.append(str(write_json(tmp_path / str(i) / "repo-1.traj", swe_agent())))
    rewards = write_json(tmp_path / "rewards.json", {files[0]: 1, files[1]: 0})
    assert main(["import", *files, "--rewards", str(rewards)]) == 0
    assert "2 trajectories of 1 tasks, 4 steps, 1 successes" in capsys.readouterr().out
    assert main(["import", *files]) == 1
    assert "0/repo-1.traj: no trajectory left" in capsys.readouterr().err
    assert main(["import", *files, "--rewards", files[0], "--out", str(tmp_path / "x")]) == 1
    assert main(["import", *files, "--missing-reward", "1", "--estimator", "gagpu"]) == 1
    assert "estimator: 'gagpu'" in capsys.readouterr().err and not (tmp_path / "x").exists()


def test_importing_needs_no_torch(tmp_path):
    path = write_json(tmp_path / "c.json", CHATS)
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('torch', 'transformers', 'plotly')))\n"
        f"from gagpo.__main__ import main\nsys.exit(main(['import', {str(path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.startswith("chat: 2 trajectories")
