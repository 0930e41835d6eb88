"""Credit under other settings: what was recorded comes back, what differs is told, and how to ask again."""

from __future__ import annotations

import math
import shlex
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from references import Played, reference_credit, table_of

from gagpo.config import Config, CreditConfig
from gagpo.credit import ESTIMATORS, assign_credit
from gagpo.parameters import as_fragment, as_parameters, as_yaml, changes, from_fragment
from gagpo.state_keys import STATE_KEYS, each, keyed_table
from gagpo.steps_file import read_steps
from gagpo.store import Run, open_run
from gagpo.table import Credit, Outcome, Step, StepTable, Trajectory
from gagpo.what_if import MOST_KEYS, RecordedSteps, open_steps, sweep, what_if

COLUMNS = [field.name for field in fields(Credit)]


def same(one: Credit, other: Credit) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in COLUMNS)


def played(sibling: int, *steps: tuple[str, str, float], truncated: bool = False) -> Trajectory:
    """Steps of (observation, state, reward); the second action of each trajectory is invalid."""
    made = tuple(
        Step(seen, state, (), f"do {t}", (), (7,), (-0.5,), reward, t != 1)
        for t, (seen, state, reward) in enumerate(steps)
    )
    outcome = Outcome.TRUNCATED if truncated else Outcome.TERMINATED
    return Trajectory("t", sibling, 0, made, outcome, not truncated, "goal", "The end", "z")


# In text "Hall" and "hall " are one room, which the environment's own keys tell apart.
TWO = [played(0, ("Hall", "a", 0), ("Kitchen", "b", 1)), played(1, ("hall ", "c", 0), ("Cellar", "d", -1))]


def record(
    folder: Path, config: Config, *, critic: bool = False, shaping: float = 0.0, iteration: int = 1
) -> Run:
    run = open_run(folder, f"r{len(list(folder.iterdir()))}")
    run.write_config(config, {})
    table = keyed_table(TWO, config.credit)
    if critic:
        table = replace(
            table, critic_value=np.array([0.5, 1.0, 0.25, -0.5]), critic_final=np.array([9.0, 9.0])
        )
    shaped = replace(table, reward=table.reward - shaping * np.arange(4))
    credit = assign_credit(shaped, config.credit)
    run.write_steps(1, TWO, table, credit, [np.zeros(1, np.float32)] * 4)
    return run


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
def test_the_recorded_settings_give_the_recorded_credit(estimator: str, tmp_path: Path) -> None:
    config = Config(credit=CreditConfig(estimator=estimator, gamma=0.7, state_key="normalized"))
    run = record(tmp_path, config, critic=estimator == "gae")
    for steps in (run, run.path, str(run.path), run.steps_path(1)):
        opened = open_steps(steps)
        assert opened.config == config.credit
        assert same(opened.what_if({}), opened.credit)
        comparison = opened.compare({})
        assert comparison.num_changed == 0 and np.array_equal(comparison.sigma, comparison.recorded_sigma)


def test_rewards_that_training_shaped_are_found_again(tmp_path: Path) -> None:
    """kl "k1" takes the divergence off the reward; the file's reward is the environment's."""
    config = Config.from_flat({"kl": "k1", "gamma": 0.5, "invalid_penalty": 0.25, "normalize": "none"})
    opened = open_steps(record(tmp_path, config, shaping=0.125))
    # rewards 0, 1 - 0.125, 0 - 0.25, -1 - 0.375, and the penalty at the second steps
    assert opened.table.reward.tolist() == pytest.approx([0, 0.875, -0.25, -1.375])
    assert opened.what_if({"gamma": 1.0}).return_to_go.tolist() == pytest.approx(
        [0.625, 0.625, -1.875, -1.625]
    )
    plain = record(tmp_path, Config.from_flat({"kl": "k1"}))
    assert open_steps(plain).table.reward.tolist() == [0, 1, 0, -1], "exactly, where nothing was added"


def test_hand_made_changes(tmp_path: Path) -> None:
    """Returns are 0.9 and -1.1 (the invalid second steps cost 0.1); exact states are all different, so
    every advantage is 0. Under "normalized" the first steps share a state of value -0.1 * gamma."""
    opened = open_steps(record(tmp_path, Config.from_flat({"gamma": 1.0, "lam": 1.0})))
    assert opened.credit.normalized.tolist() == [0, 0, 0, 0]
    comparison = opened.compare({"state_key": "normalized", "normalize": "none"})
    assert comparison.credit.advantage.tolist() == pytest.approx([1.0, 0, -1.0, 0])
    assert comparison.changed_sign.tolist() == [True, False, True, False] and comparison.num_changed == 2
    assert comparison.group.tolist() == [0] and comparison.recorded_sigma.tolist() == [0]
    assert comparison.sigma.tolist() == pytest.approx([math.sqrt(0.5)])
    assert math.isnan(comparison.correlation)
    half = open_steps(comparison_base(tmp_path)).compare({"gamma": 0.5})
    assert half.recorded.advantage.tolist() == pytest.approx([1.0, 0, -1.0, 0])
    assert half.credit.advantage.tolist() == pytest.approx([0.5, 0, -0.5, 0])
    assert half.correlation == pytest.approx(1) and half.num_changed == 0
    assert half.sigma / half.recorded_sigma == pytest.approx(0.5)


def comparison_base(folder: Path) -> Run:
    flat = {"gamma": 1.0, "lam": 1.0, "state_key": "normalized", "normalize": "none"}
    return record(folder, Config.from_flat(flat))


def test_a_changed_sign_and_a_negative_correlation() -> None:
    table = table_of(
        Played(0, "ab", [0, 1]), Played(0, "cd", [1, 0]), Played(1, "a", [2]), Played(1, "a", [0])
    )
    recorded = RecordedSteps(table, CreditConfig(normalize="none", estimator="reinforce", gamma=1.0))
    turned = replace(recorded.credit, normalized=-recorded.credit.normalized)
    other = RecordedSteps(table, recorded.config, turned).compare({})
    # R = 1 1, 1 0, 2, 0: the zeros stay zeros
    assert other.changed_sign.tolist() == [True, True, True, False, True, False]
    assert other.correlation == pytest.approx(-1)
    assert other.sigma.tolist() == pytest.approx([math.sqrt(3) / 4, 1.0])
    tiny = replace(recorded.credit, normalized=np.array([1, 1, 1, -1e-17, 1, 1e-17]))
    assert not RecordedSteps(table, recorded.config, tiny).compare({}).changed_sign.any(), (
        "rounding has no sign"
    )


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(set(ESTIMATORS) - {"gae"})),
    st.sampled_from(sorted(STATE_KEYS)),
    *(st.sampled_from([0.0, 0.5, 1.0]) for _ in range(2)),
    st.sampled_from(["group", "batch", "none"]),
    st.sampled_from([0.0, 0.25]),
    st.lists(st.lists(st.sampled_from("aAbB"), min_size=1, max_size=4), min_size=1, max_size=4),
)
def test_any_settings_give_what_the_slow_reference_gives(
    estimator, key, gamma, lam, normalize, penalty, rooms
):
    made = [played(i, *((x, x.lower(), len(own) % 3) for x in own)) for i, own in enumerate(rooms)]
    asked = CreditConfig(
        estimator=estimator, state_key=key, gamma=gamma, lam=lam, normalize=normalize, invalid_penalty=penalty
    )
    opened = open_steps(made)
    for _ in range(2):  # the second time from what was kept
        credit = opened.what_if(asked)
        expected = reference_credit(keyed_table(made, asked), asked)
        for name, column in expected.items():
            assert getattr(credit, name).tolist() == pytest.approx(column, abs=1e-6), name


def test_states_are_made_once_for_each_key(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, asked = open_steps(TWO), []
    plain = STATE_KEYS["history"]
    monkeypatch.setitem(STATE_KEYS, "history", lambda *args: asked.append(1) or plain(*args))
    for gamma in (0.1, 0.2, 0.3):
        opened.what_if({"state_key": "history", "gamma": gamma, "key_similarity": gamma})
    assert len(asked) == 1
    opened.what_if({"state_key": "history", "key_history": 1})
    assert len(asked) == 2
    for number in range(MOST_KEYS):
        opened.what_if({"state_key": "similar", "key_similarity": number / MOST_KEYS})
    opened.what_if({"state_key": "history"})
    assert len(asked) == 3, "the oldest is forgotten"


def test_keys_of_other_packages_see_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def by_tokens(trajectory: Trajectory) -> list[str]:
        return [*(str(step.action_ids) for step in trajectory.steps), "end"]

    monkeypatch.setitem(STATE_KEYS, "mine", each(by_tokens))
    opened = open_steps(record(tmp_path, Config()))
    assert opened.what_if({"state_key": "mine"}).anchor_size.tolist() == [4, 4, 4, 4], "all have token 7"
    assert opened.what_if({"state_key": "normalized"}).anchor_size.tolist() == [2, 1, 2, 1]


def test_a_critic_is_known_only_where_one_was_recorded(tmp_path: Path) -> None:
    gae = open_steps(record(tmp_path, Config.from_flat({"estimator": "gae"}), critic=True))
    credit = gae.what_if({"gamma": 1.0, "lam": 0.0, "invalid_penalty": 0.0})
    # V = 0.5, 1 and 0.25, -0.5; r = 0, 1 and 0, -1; nothing after the end
    assert credit.advantage.tolist() == pytest.approx([0.5, 0.0, -0.75, -0.5])
    run = record(tmp_path, Config())
    with pytest.raises(ValueError, match=r"'gae' needs a critic's values; these steps .* under 'gagpo'"):
        what_if(run, {"estimator": "gae"})


def test_the_critic_of_a_cut_trajectory() -> None:
    table = replace(
        table_of(Played(0, "ab", [0, 1], truncated=True), Played(0, "a", [1])),
        critic_value=np.array([1.0, 2.0, 3.0]),
        critic_final=np.array([4.0, 5.0]),
    )
    bare = replace(table, critic_value=None, critic_final=None)
    for truncation, final in (("bootstrap", [4.0, 0.0]), ("terminal", None)):
        config = CreditConfig(estimator="gae", truncation=truncation)
        opened = RecordedSteps(bare, config, assign_credit(table, config))
        assert opened.table.critic_value.tolist() == [1, 2, 3]
        assert (
            (opened.table.critic_final is None)
            if final is None
            else opened.table.critic_final.tolist() == final
        )
        assert same(opened.what_if({}), opened.credit)
    with pytest.raises(ValueError, match="critic_final: None; expected a value for each trajectory"):
        opened.what_if({"truncation": "bootstrap"})


def test_what_cannot_be_asked(tmp_path: Path) -> None:
    table = StepTable.from_trajectories(TWO)
    assert same(what_if(table, {"gamma": 0.5}), assign_credit(table, CreditConfig(gamma=0.5)))
    with pytest.raises(ValueError, match=r"state_key: 'observation'; these steps have no texts, .*'exact'"):
        what_if(table, {"state_key": "observation"})
    with pytest.raises(ValueError, match="unknown setting of credit 'gama'; did you mean 'gamma'"):
        what_if(table, {"gama": 0.5})
    with pytest.raises(ValueError, match="unknown setting of credit 'lamda'; did you mean 'lam'"):
        sweep(table, {}, "lamda", [1.0])
    with pytest.raises(ValueError, match=r"gamma: 1\.5; expected at most 1"):
        what_if(table, {"gamma": 1.5})
    with pytest.raises(ValueError, match="run 'empty' has no recorded steps"):
        what_if(open_run(tmp_path, "empty"), {})
    run = record(tmp_path, Config())
    with pytest.raises(ValueError, match="iteration: 7; recorded are 1 to 1"):
        open_steps(run, iteration=7)
    alone = tmp_path / "alone.parquet"
    alone.write_bytes(run.steps_path(1).read_bytes())
    with pytest.raises(ValueError, match="config: None; expected the settings"):
        what_if(alone, {})
    assert (
        open_steps(alone, CreditConfig()).what_if({"gamma": 0.5}).value.tolist()
        == what_if(run, {"gamma": 0.5}).value.tolist()
    )
    assert same(open_steps(read_steps(alone), CreditConfig()).credit, open_steps(run).credit)
    with pytest.raises(ValueError, match="credit: 4 rows; expected 3"):
        RecordedSteps(table_of(Played(0, "abc", [0, 0, 0])), CreditConfig(), open_steps(run).credit)


def test_a_sweep_is_one_credit_a_value() -> None:
    table = StepTable.from_trajectories(TWO)
    found = sweep(table, {"gamma": 0.5}, "lam", (0.0, 1.0))
    assert list(found) == [0.0, 1.0]
    assert all(same(found[lam], assign_credit(table, CreditConfig(gamma=0.5, lam=lam))) for lam in found)


BASE = CreditConfig()
OTHER = CreditConfig(estimator="grpo", gamma=1.0, lam=1e-5, key_history=3)


def test_changed_settings_as_text() -> None:
    assert changes(OTHER, BASE) == {"estimator": "grpo", "gamma": 1.0, "lam": 1e-5, "key_history": 3}
    assert as_parameters(OTHER, BASE) == "-p estimator grpo -p gamma 1.0 -p lam 1.0e-05 -p key_history 3"
    assert as_yaml(OTHER, BASE) == 'estimator: "grpo"\ngamma: 1.0\nlam: 1.0e-05\nkey_history: 3\n'
    assert as_fragment(OTHER, BASE) == "estimator=grpo&gamma=1.0&lam=1.0e-05&key_history=3"
    assert as_parameters(BASE, BASE) == as_yaml(BASE, BASE) == as_fragment(BASE, BASE) == ""
    assert from_fragment("#gamma=1&key_history=3", BASE) == replace(BASE, gamma=1.0, key_history=3)
    assert from_fragment("", OTHER) == from_fragment("#", OTHER) == OTHER


HOSTILE = [
    "yes",
    "null",
    "True",
    "None",
    "nan",
    "1",
    "1e5",
    "a b",
    "a'b\"c\\",
    "$(rm)",
    "`x`",
    "a&b=c#d%e+f",
    "é\n\x85\u2028😀",
    "",
]
NAMES = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"]), max_size=8))
SETTINGS = st.builds(
    CreditConfig,
    estimator=NAMES,
    state_key=NAMES,
    gamma=st.floats(0, 1),
    invalid_penalty=st.floats(0, allow_nan=False, allow_infinity=False),
    key_history=st.integers(0, 10**20),
    normalize=st.sampled_from(["group", "batch", "none"]),
)


@settings(max_examples=300, deadline=None)
@given(SETTINGS, SETTINGS)
def test_whatever_the_settings_text_brings_them_back(asked: CreditConfig, base: CreditConfig) -> None:
    from papermill.cli import _resolve_type

    expected = changes(asked, base)
    assert from_fragment("#" + as_fragment(asked, base), base) == asked
    assert (yaml.safe_load(as_yaml(asked, base)) or {}) == expected
    words = iter(shlex.split(as_parameters(asked, base)))
    read = {}
    for flag in words:
        name, value = next(words), next(words)
        read[name] = {"-p": _resolve_type, "-r": str}[flag](value)
    assert read == expected and [type(v) for v in read.values()] == [type(v) for v in expected.values()]
    assert set(as_fragment(asked, base)) <= set(map(chr, range(33, 127))) - set("#\"'<>\\")


@pytest.mark.parametrize(
    ("fragment", "message"),
    [
        ("gama=1", "unknown setting of credit 'gama'; did you mean 'gamma'"),
        ("gamma=1&gamma=0", "gamma: given twice"),
        ("gamma=high", "gamma: 'high'; expected float"),
        ("gamma=nan", "gamma: nan"),
        ("gamma=2", r"gamma: 2\.0; expected at most 1"),
        ("key_history=1.5", "key_history: '1.5'; expected int"),
        ("normalize=grup", "did you mean 'group'"),
        ("gamma", "fragment: 'gamma'; expected name=value"),
        ("gamma=1&&", "expected name=value"),
        ("estimator=%ff", "expected name=value"),
        ("&".join(["x=1"] * 999), "expected name=value"),
        ("__class__=1", "unknown setting"),
    ],
)
def test_a_bad_link_is_refused(fragment: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_fragment(fragment, BASE)
