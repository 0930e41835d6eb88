"""Checkpoints: whole or invisible, exact, and never a pickle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from gagpo import checkpoint
from gagpo.checkpoint import load_checkpoint, save_checkpoint


def model_and_optimizer(seed: int, updates: int = 0):
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((3, 2), (4,))]
    named = list(zip(("first", "second"), weights, strict=True))
    optimizer = torch.optim.AdamW(weights, lr=0.1)
    for _ in range(updates):
        update(weights, optimizer)
    return named, optimizer


def update(weights, optimizer) -> None:
    optimizer.zero_grad()
    sum((w**2).sum() for w in weights).backward()
    optimizer.step()


def part(seed: int, updates: int = 0) -> SimpleNamespace:
    """A critic as a checkpoint sees one."""
    named, optimizer = model_and_optimizer(seed, updates)
    return SimpleNamespace(parameters=named, optimizer=optimizer)


def values(named) -> list[list[float]]:
    return [p.detach().flatten().tolist() for _, p in named]


def test_training_goes_on_from_a_checkpoint_as_if_nothing_had_happened(tmp_path: Path) -> None:
    named, optimizer = model_and_optimizer(0, updates=3)
    save_checkpoint(tmp_path, 3, named, optimizer, {"num_updates": 3}, keep=2)
    for _ in range(2):
        update([p for _, p in named], optimizer)
    again, fresh = model_and_optimizer(1)
    assert load_checkpoint(tmp_path, again, fresh) == {"iteration": 3, "num_updates": 3}
    for _ in range(2):
        update([p for _, p in again], fresh)
    assert values(again) == values(named)


def test_nothing_there_is_none(tmp_path: Path) -> None:
    named, optimizer = model_and_optimizer(0)
    assert load_checkpoint(tmp_path / "missing", named, optimizer) is None


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    named, optimizer = model_and_optimizer(0)
    for iteration in (1, 5, 10, 200):
        save_checkpoint(tmp_path, iteration, named, optimizer, {}, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000010", "000200"]


@pytest.mark.parametrize("damage", ["flip a bit", "cut short", "remove", "empty manifest", "extra file"])
@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "state.json"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(
    tmp_path: Path, damage: str, name: str
) -> None:
    named, optimizer = model_and_optimizer(0, updates=1)
    save_checkpoint(tmp_path, 1, named, optimizer, {}, keep=5)
    expected = values(named)
    update([p for _, p in named], optimizer)
    newest = save_checkpoint(tmp_path, 2, named, optimizer, {}, keep=5)
    data = bytearray((newest / name).read_bytes())
    if damage == "flip a bit":
        data[len(data) // 2] ^= 1
        (newest / name).write_bytes(data)
    elif damage == "cut short":
        (newest / name).write_bytes(data[:-1])
    elif damage == "remove":
        (newest / name).unlink()
    elif damage == "empty manifest":
        (newest / "manifest.json").write_text("{}")
    else:
        manifest = (newest / "manifest.json").read_text().replace('"sha256": {', '"sha256": {"x": "0", ')
        (newest / "manifest.json").write_text(manifest)
    again, fresh = model_and_optimizer(1)
    assert load_checkpoint(tmp_path, again, fresh)["iteration"] == 1
    assert values(again) == expected
    save_checkpoint(tmp_path, 2, named, optimizer, {}, keep=5)
    assert load_checkpoint(tmp_path, again, fresh)["iteration"] == 2, "a good one takes the bad one's place"


def test_a_policy_of_another_shape_is_refused_by_name(tmp_path: Path) -> None:
    named, optimizer = model_and_optimizer(0)
    save_checkpoint(tmp_path, 1, named, optimizer, {}, keep=1)
    wide = [("first", torch.nn.Parameter(torch.zeros(3, 3))), named[1]]
    with pytest.raises(ValueError, match=r"'first' is \(3, 2\); expected \(3, 3\)"):
        load_checkpoint(tmp_path, wide, torch.optim.AdamW([p for _, p in wide]))
    with pytest.raises(ValueError, match="weight 'second' is only in the file"):
        load_checkpoint(tmp_path, named[:1], optimizer)


def test_a_critic_comes_back_with_its_own_optimiser(tmp_path: Path) -> None:
    (named, optimizer), critic = model_and_optimizer(0, updates=1), part(5, updates=3)
    save_checkpoint(tmp_path, 1, named, optimizer, {}, keep=1, critic=critic)
    for weights, owner in ((named, optimizer), (critic.parameters, critic.optimizer)):
        update([p for _, p in weights], owner)
    (again, fresh), other = model_and_optimizer(1), part(2)
    load_checkpoint(tmp_path, again, fresh, other)
    for weights, owner in ((again, fresh), (other.parameters, other.optimizer)):
        update([p for _, p in weights], owner)
    assert values(again) == values(named) and values(other.parameters) == values(critic.parameters)


def test_a_checkpoint_says_whether_it_holds_a_critic(tmp_path: Path) -> None:
    (named, optimizer), critic = model_and_optimizer(0, updates=1), part(5)
    with_one = save_checkpoint(tmp_path / "a", 1, named, optimizer, {}, keep=1, critic=critic)
    without = save_checkpoint(tmp_path / "b", 1, named, optimizer, {}, keep=1)
    plain = {"manifest.json", "optimizer.safetensors", "state.json", "weights.safetensors"}
    assert {p.name for p in without.iterdir()} == plain
    assert {p.name for p in with_one.iterdir()} - plain == {
        "critic.safetensors",
        "critic_optimizer.safetensors",
    }
    before = values(named)
    with pytest.raises(ValueError, match=r"000001: it holds a critic; expected none, by the estimator"):
        load_checkpoint(tmp_path / "a", named, optimizer)
    with pytest.raises(ValueError, match=r"000001: it holds no critic; expected one, by the estimator"):
        load_checkpoint(tmp_path / "b", named, optimizer, critic)
    assert values(named) == before
    wide = part(5)
    wide.parameters = [*wide.parameters, ("third", torch.nn.Parameter(torch.zeros(1)))]
    with pytest.raises(ValueError, match="weight 'third' is only in the critic"):
        load_checkpoint(tmp_path / "a", named, optimizer, wide)


@pytest.mark.parametrize("name", ["critic.safetensors", "critic_optimizer.safetensors"])
def test_a_damaged_critic_makes_the_checkpoint_invisible(tmp_path: Path, name: str) -> None:
    (named, optimizer), critic = model_and_optimizer(0, updates=1), part(5, updates=1)
    save_checkpoint(tmp_path, 1, named, optimizer, {}, keep=5, critic=critic)
    newest = save_checkpoint(tmp_path, 2, named, optimizer, {}, keep=5, critic=critic)
    data = bytearray((newest / name).read_bytes())
    data[len(data) // 2] ^= 1
    (newest / name).write_bytes(data)
    assert load_checkpoint(tmp_path, named, optimizer, critic)["iteration"] == 1
    (newest / name).unlink()
    assert load_checkpoint(tmp_path, named, optimizer, critic)["iteration"] == 1


# Children that die before their n-th write, for every n until one survives; prints how each ended.
SAVE_AND_DIE = """
import os, shutil, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import gagpo.checkpoint as module
from test_checkpoint import model_and_optimizer, part
calls, limit = 0, 0
def dying(function):
    def wrapped(*args, **kwargs):
        global calls
        calls += 1
        if calls > limit:
            os._exit(9)
        return function(*args, **kwargs)
    return wrapped
named, optimizer = model_and_optimizer(0, updates=2)
critic = part(7, updates=2) if sys.argv[3] == "critic" else None
for limit in range(100):
    pid = os.fork()
    if pid == 0:
        for owner, name in [(module, "save_file"), (Path, "write_text"), (Path, "mkdir"), (os, "fsync"),
                            (os, "rename"), (shutil, "rmtree")]:
            setattr(owner, name, dying(getattr(owner, name)))
        folder = Path(sys.argv[1]) / str(limit)
        module.save_checkpoint(folder, 2, named, optimizer, {"num_updates": 2}, keep=1, critic=critic)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(code)
    if code == 0:
        break
"""


@pytest.mark.parametrize("kind", ["plain", "critic"])
def test_a_process_killed_at_any_write_leaves_a_whole_checkpoint(tmp_path: Path, kind: str) -> None:
    """With a critic, policy and critic are of the same moment."""
    named, optimizer = model_and_optimizer(0, updates=1)
    critic = part(7, updates=1) if kind == "critic" else None
    for limit in range(100):
        save_checkpoint(tmp_path / str(limit), 1, named, optimizer, {"num_updates": 1}, keep=1, critic=critic)
    command = [sys.executable, "-c", SAVE_AND_DIE, str(tmp_path), str(Path(__file__).parent), kind]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    codes = list(map(int, output.split()))
    assert set(codes[:-1]) == {9} and codes[-1] == 0 and len(codes) > 8, "it must die in many places"
    seen = []
    for limit in range(len(codes)):
        again, fresh = model_and_optimizer(1)
        other = part(2) if critic else None
        state = load_checkpoint(tmp_path / str(limit), again, fresh, other)
        whole, _ = model_and_optimizer(0, updates=state["num_updates"])
        assert values(again) == values(whole)
        if other:
            assert values(other.parameters) == values(part(7, state["num_updates"]).parameters)
        assert state["iteration"] == state["num_updates"]
        seen.append(state["iteration"])
    assert seen == sorted(seen) and seen[0] == 1 and seen[-1] == 2


def test_the_module_reads_no_pickle() -> None:
    source = Path(checkpoint.__file__).read_text()
    assert "torch.load" not in source and "torch.save" not in source
