"""Runs with a critic: PPO learns, resumes bit for bit, and leaves runs of other estimators as they were."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from test_train import digest, records, request, wait_for

from gagpo.__main__ import train_run
from gagpo.critic import Critic
from gagpo.envs.base import WORLDS
from gagpo.steps_file import read_credit, read_steps, step_table
from gagpo.store import Run

PPO = {"env": "corridor", "task_types": [], "success_reward": 1.0, "warm_updates": 4, "warm_episodes": 4}
PPO |= {"expert_share": 0.0}
PPO |= {"num_tasks": 2, "num_siblings": 3, "iterations": 4, "checkpoint_every": 2, "keep_checkpoints": 9}
PPO |= {"eval_every": 0, "eval_tasks": 1, "final_eval_tasks": 1}
PPO |= {"estimator": "gae", "normalize": "batch", "truncation": "bootstrap"}


def ppo(folder: Path, **settings) -> Run:
    return request(folder, **PPO | settings)


def file(run: Run, iteration: int, name: str) -> bytes:
    return (run.path / "checkpoints" / f"{iteration:06d}" / f"{name}").read_bytes()


def same_runs(run: Run, other: Run) -> bool:
    """All that they recorded, and their last checkpoints, critics included."""
    steps = [
        read_steps(run.steps_path(i)).equals(read_steps(other.steps_path(i)))
        for i in other.iterations_with_steps()
    ]
    return digest(run) == digest(other) and records(run) == records(other) and all(steps)


@pytest.fixture(scope="module", autouse=True)
def corridor() -> Iterator[None]:
    """The tests' world of five places, by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(WORLDS, "corridor", "corridor:make_world")
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = ppo(tmp_path_factory.mktemp("ppo"))
    assert train_run(run) == 0
    return run


def test_a_run_records_what_its_critic_did(whole: Run) -> None:
    train = whole.read_metrics("train")
    assert len(train) == 4
    for record in train:
        assert record["value_loss"] >= 0 and record["critic_learning_rate"] == 1e-3
        assert record["critic_gradient_norm"] > 0 and record["critic_s"] > 0
    assert sorted(p.name for p in (whole.path / "checkpoints" / "000004").iterdir()) == [
        *("critic.safetensors", "critic_optimizer.safetensors", "manifest.json"),
        *("optimizer.safetensors", "state.json", "weights.safetensors"),
    ]
    state = json.loads(file(whole, 4, "state.json"))
    settings = whole.read_config().critic
    assert state["critic_num_updates"] == 4 * settings.critic_epochs * settings.critic_minibatches
    assert state["num_updates"] == sum(r["num_updates"] for r in train)
    values = [read_credit(read_steps(whole.steps_path(i))).value for i in range(5)]
    assert not values[0].any() and not values[1].any(), (
        "it begins at 0, and learns after its values were used"
    )
    assert all(v.std() > 0 for v in values[2:])
    cuts = []
    for rows in (read_steps(whole.steps_path(i)) for i in (2, 3, 4)):
        table, after = step_table(rows), read_credit(rows).next_value
        cuts += table.truncated.tolist()
        ends = after[table.offsets[1:] - 1]
        assert np.array_equal(ends != 0, table.truncated), "what was cut goes on in the critic's eyes"
    assert len(set(cuts)) == 2


def test_a_killed_run_resumes_bit_for_bit(whole: Run, tmp_path: Path) -> None:
    """SIGKILL after the third iteration; the checkpoint is that of the second."""
    run = ppo(tmp_path)
    code = "import sys; sys.path.insert(0, sys.argv[1]); from gagpo.envs.base import WORLDS; "
    code += "WORLDS['corridor'] = 'corridor:make_world'; from gagpo.__main__ import main; main(sys.argv[2:])"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(Path(__file__).parent), "train", str(run.path)]
    )
    wait_for(run, 3)
    process.kill()
    process.wait()
    assert run.read_status().state == "interrupted"
    assert train_run(run) == 0
    assert same_runs(run, whole)


def test_a_run_that_dies_between_policy_and_critic_resumes_bit_for_bit(
    whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ppo(tmp_path)
    learn = Critic.learn

    def dying(critic, table, credit, trajectories, iteration, rng):
        if iteration == 3:
            raise RuntimeError("the power failed")
        return learn(critic, table, credit, trajectories, iteration, rng)

    monkeypatch.setattr(Critic, "learn", dying)
    assert train_run(run) == 1 and "the power failed" in run.read_status().message
    monkeypatch.undo()
    assert train_run(run) == 0
    assert same_runs(run, whole)


def test_a_run_with_adapters_resumes_bit_for_bit(tmp_path: Path) -> None:
    runs = []
    for name, first in (("whole", 2), ("parts", 1)):
        settings = {"lora_rank": 2, "checkpoint_every": 1, "warm_updates": 1}
        runs.append(run := ppo(tmp_path / name, iterations=first, **settings))
        assert train_run(run) == 0
        run = ppo(tmp_path / name, iterations=2, **settings)
        assert train_run(run) == 0
    assert digest(runs[0]) == digest(runs[1])
    assert runs[0].read_metrics("train")[-1]["critic_gradient_norm"] > 0


def test_with_a_new_critic_and_lambda_one_an_iteration_is_reinforce(tmp_path: Path) -> None:
    settings = {"lam": 1.0, "truncation": "terminal", "iterations": 1, "checkpoint_every": 1}
    runs = [ppo(tmp_path / name, **settings, estimator=name) for name in ("gae", "reinforce")]
    assert [train_run(run) for run in runs] == [0, 0]
    ours, theirs = (read_credit(read_steps(run.steps_path(1))) for run in runs)
    assert np.array_equal(ours.normalized, theirs.normalized) and ours.normalized.any()
    assert file(runs[0], 0, "weights.safetensors") != file(runs[0], 1, "weights.safetensors")
    for iteration in (0, 1):
        weights = [file(run, iteration, "weights.safetensors") for run in runs]
        assert weights[0] == weights[1], "the critic does not touch the policy"


def test_while_the_critic_warms_up_the_policy_stands_still(tmp_path: Path) -> None:
    """An entropy bonus would move it even without any advantage."""
    run = ppo(tmp_path, critic_warmup=2, iterations=3, checkpoint_every=1, entropy_coef=0.1)
    assert train_run(run) == 0
    policies = [file(run, i, "weights.safetensors") for i in range(4)]
    critics = [file(run, i, "critic.safetensors") for i in range(4)]
    assert policies[0] == policies[1] == policies[2] != policies[3]
    assert len(set(critics)) == 4
    train = run.read_metrics("train")
    assert [r["num_updates"] > 0 for r in train] == [False, False, True]
    assert [r["num_trained"] > 0 for r in train] == [False, False, True]


def test_other_estimators_have_no_critic_whatever_is_set_for_one(tmp_path: Path) -> None:
    settings = {"estimator": "gagpo", "iterations": 1}
    odd = {"critic_learning_rate": 7.0, "critic_epochs": 9, "critic_minibatches": 3, "critic_warmup": 50}
    runs = [ppo(tmp_path / "plain", **settings), ppo(tmp_path / "odd", **settings, **odd)]
    assert [train_run(run) for run in runs] == [0, 0]
    assert same_runs(*runs)
    assert set(json.loads(file(runs[0], 1, "state.json"))) == {"iteration", "num_updates", "skipped_in_a_row"}
    assert sorted(p.name for p in (runs[0].path / "checkpoints" / "000001").iterdir()) == [
        *("manifest.json", "optimizer.safetensors", "state.json", "weights.safetensors")
    ]
    assert not any("critic" in name or "value" in name for r in runs[0].read_metrics() for name in r)
    (runs[0].path / "config.json").unlink()  # else the settings are compared first
    run = ppo(tmp_path / "plain", iterations=2)
    assert train_run(run) == 1
    assert "it holds no critic; expected one, by the estimator" in run.read_status().message


def test_a_policy_that_would_never_learn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="critic_warmup: 4; expected less than iterations, 4"):
        ppo(tmp_path, critic_warmup=4)


def test_ppo_learns_to_reach_the_goal_from_no_demonstration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right is the right way in every task."""

    def tasks(world, split, num, rng):
        return [f"corridor-{split}-{2 * i + 1}" for i in rng.choice(10**6, num, replace=False)]

    monkeypatch.setattr("corridor.CorridorWorld.tasks", tasks)
    settings = {"warm_updates": 0, "iterations": 12, "num_tasks": 4, "num_siblings": 4, "max_steps": 8}
    settings |= {"hidden_size": 32, "final_eval_tasks": 40, "eval_temperature": 1.0, "checkpoint_every": 12}
    settings |= {"learning_rate": 2e-3, "critic_learning_rate": 2e-3, "num_minibatches": 2}
    run = ppo(tmp_path, **settings, truncation="terminal")
    assert train_run(run) == 0
    before, after = (record["success_rate"] for record in run.read_metrics("eval"))
    assert before < 0.7 and after > 0.95
    explained = [record["explained_variance"] for record in run.read_metrics("train")]
    assert explained[0] == pytest.approx(0) and np.mean(explained[6:]) > 0.5
