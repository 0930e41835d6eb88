"""The contract's checker: our worlds pass, and for each check there is a world that it catches."""

from __future__ import annotations

import itertools
import sys
import threading
from pathlib import Path
from typing import ClassVar

import pytest
from corridor import Corridor, CorridorWorld

from gagpo.config import WorldConfig
from gagpo.envs import check
from gagpo.envs.base import make_world
from gagpo.envs.check import CheckFailed, check_env, check_world


@pytest.mark.parametrize("max_steps", [7, 40])
def test_generated_houses_keep_the_contract(max_steps: int) -> None:
    check_world(make_world(WorldConfig(max_steps=max_steps)), num_tasks=6)


def test_official_games_keep_the_contract(shared_dir: Path) -> None:
    games = str(shared_dir / "data" / "alfworld" / "valid_seen.json.xz")
    check_world(make_world(WorldConfig(env="alfworld", games=games)), num_tasks=2)


def test_the_corridor_keeps_the_contract() -> None:
    check_world(CorridorWorld())


def test_keys_and_doors_keep_the_contract() -> None:
    check_world(make_world(WorldConfig(env="keydoor", max_steps=12)), num_tasks=6, num_steps=60)


def test_a_world_of_chance_keeps_the_contract() -> None:
    pytest.importorskip("gymnasium")
    check_world(make_world(WorldConfig(env="frozenlake", max_steps=15)), num_tasks=4, num_steps=60)


NUMBERS = itertools.count()


class Counting(Corridor):
    """Tells how many environments were ever reset."""

    resets = 0

    def reset(self, **how):
        Counting.resets += 1
        text, info = super().reset()
        return f"{text} {Counting.resets}", info


class Untyped(Corridor):
    def reset(self, **how):
        return super().reset()[0], {}


class Unsorted(Corridor):
    def admissible(self):
        return super().admissible()[::-1]


class Shared(Corridor):
    """All instances stand at one place."""

    board: ClassVar[dict[str, int]] = {}
    place = property(lambda self: self.board["place"], lambda self, value: self.board.update(place=value))


class Locked(Corridor):
    def __init__(self, task_id):
        super().__init__(task_id)
        self.lock = threading.Lock()


class Forgetful(Corridor):
    def __getstate__(self):
        return {**vars(self), "place": 1}


class MainThreadOnly(Corridor):
    def reset(self, **how):
        text, info = super().reset()
        return text if threading.current_thread() is threading.main_thread() else "?", info


class Unrestored(Corridor):
    def restore(self, snapshot):
        self.num_steps = snapshot[1]


class HalfRestored(Corridor):
    def restore(self, snapshot):
        self.place = snapshot[0]


class Blurred(Corridor):
    """Two places of the corridor have one key."""

    def state_key(self):
        return str(self.place // 2)


class Obliging(Corridor):
    def step(self, action):
        return super().step(action if action in self.admissible() else "go left")


class LateNonsense(Corridor):
    """Nonsense moves the agent once it has moved itself."""

    def step(self, action):
        return super().step("go right" if action == "look, twice" and self.place == 3 else action)


class PaidNonsense(Corridor):
    def step(self, action):
        text, reward, *rest = super().step(action)
        return text, 5.0 if action == "look, twice" else reward, *rest


class Endlessly(Corridor):
    def step(self, action):
        text, _, *rest = super().step(action)
        return text, float("inf"), *rest


class Unseen(Corridor):
    def render(self):
        return 7


class Dreaming(Corridor):
    def expert(self):
        return "fly"


class Immortal(Corridor):
    def step(self, action):
        try:
            return super().step(action)
        except ValueError:
            return "?", 0.0, False, True, {"won": False, "valid": False}


class Speechless(Corridor):
    def admissible(self):
        return () if self.place != 2 else super().admissible()


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Counting, "seed: .*observation is"),
        (Untyped, "types: .*won is None"),
        (Unsorted, "types: .*sorted, none twice"),
        (Shared, "isolation: "),
        (Locked, "pickle: .*cannot pickle"),
        (Forgetful, "pickle: .*step"),
        (MainThreadOnly, "threads: "),
        (Unrestored, "restore: .*another state came back"),
        (HalfRestored, "restore: .*truncated is"),
        (Blurred, "keys: .*one key, but 'go"),
        (Obliging, "nonsense: "),
        (LateNonsense, "nonsense: .*'look, twice' gave"),
        (PaidNonsense, "nonsense: .*reward=5.0"),
        (Endlessly, "types: .*reward is inf"),
        (Unseen, r"types: .*render\(\) is 7"),
        (Dreaming, "expert: .*'fly' is not admissible"),
        (Immortal, "end: .*after the end was taken"),
        (Speechless, "admissible: .*no command before the end"),
    ],
)
def test_each_check_catches_its_fault(broken: type[Corridor], message: str) -> None:
    with pytest.raises(CheckFailed, match=rf"^{message}"):
        check_env(lambda: broken("corridor-train-1"), num_steps=60)


def test_an_episode_without_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(Corridor):
        def step(self, action):
            self.num_steps, self.place = 0, 2
            return super().step("wait")

    monkeypatch.setattr(check, "LONGEST_EPISODE", 50)
    with pytest.raises(CheckFailed, match=r"end: .*50 steps and no end"):
        check._check_end(lambda: Endless("corridor-train-1"), 0)


@pytest.mark.parametrize(
    ("attribute", "function", "message"),
    [
        (
            "tasks",
            lambda self, split, num, rng: [f"corridor-x-{next(NUMBERS)}"],
            "tasks: equal random states",
        ),
        ("tasks", lambda self, split, num, rng: ["corridor-x-1"], "tasks: 'corridor-x-1' is in both splits"),
        ("make", lambda self, task_id: Corridor("corridor-x-1"), "make: asked for"),
        ("task_type", lambda self, task_id: "", "task_type: task .* has none"),
        ("words", lambda self: {"you", "are", "at"}, "words: .*which words"),
    ],
)
def test_faults_of_a_world_are_caught(attribute: str, function, message: str) -> None:
    broken = type("Broken", (CorridorWorld,), {attribute: function})
    with pytest.raises(CheckFailed, match=rf"^{message}"):
        check_world(broken(), num_tasks=1)


def install(folder: Path, package: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip leaves behind of a package that adds a world named "hall"."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[gagpo.worlds]\nhall = {target}\n")
    monkeypatch.syspath_prepend(str(folder))


def test_an_installed_package_adds_a_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "a", "halls", "corridor:make_world", monkeypatch)
    assert isinstance(make_world(WorldConfig(env="hall")), CorridorWorld)
    with pytest.raises(ValueError, match=r"env: 'hal'; expected one of alfworld, .*; did you mean 'hall'\?"):
        make_world(WorldConfig(env="hal"))
    install(tmp_path / "b", "more-halls", "corridor:make_world", monkeypatch)
    with pytest.raises(ValueError, match=r"'hall' comes from several packages: .*halls"):
        make_world(WorldConfig(env="hall"))


@pytest.mark.parametrize("target", ["corridor:no_such_function", "no_such_module:make_world"])
def test_a_broken_package_is_named(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "halls", target, monkeypatch)
    with pytest.raises(ValueError, match=r"env: 'hall' of package halls cannot be loaded: .*no_such"):
        make_world(WorldConfig(env="hall"))
    assert "no_such_module" not in sys.modules
