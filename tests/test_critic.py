"""The critic: what it reads and says, what it learns from, and that it leaves the policy alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from corridor import CorridorWorld

from gagpo.config import Config, CriticConfig
from gagpo.credit import assign_credit
from gagpo.credit.gae import lambda_returns
from gagpo.critic import Critic
from gagpo.policy import Policy
from gagpo.rollout import collect
from gagpo.stats import explained_variance
from gagpo.table import Outcome, StepTable, Trajectory
from gagpo.update import Updater

SMALL = {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "estimator": "gae", "max_grad_norm": 1e9}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """At this size a second thread gains nothing, and costs much where other work is running."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(**settings) -> tuple[Critic, Policy, list[Trajectory]]:
    config = Config.from_flat(SMALL | settings)
    policy = Policy.build(config, CorridorWorld())
    how = {"num_siblings": 4, "temperature": 1.0, "seed": (3,), "final_prompts": True}
    trajectories = collect(CorridorWorld(), policy, ["c-1", "c-2"], config.rollout, **how)
    return Critic(policy, config), policy, trajectories


def prompts_of(trajectories: list[Trajectory]) -> list[tuple[int, ...]]:
    return [step.prompt_ids for t in trajectories for step in t.steps]


def with_opinions(critic: Critic, seed: int = 0) -> Critic:
    """The critic with a head that has values of about the rewards' size."""
    draw = torch.Generator().manual_seed(seed)
    critic.weight.data.normal_(std=0.1, generator=draw)
    critic.bias.data.fill_(0.3)
    return critic


def gradients(critic: Critic, prompts, targets) -> torch.Tensor:
    critic.backward(prompts, targets)
    return torch.cat([p.grad.flatten() for _, p in critic.parameters])


def snapshot(parameters) -> list[torch.Tensor]:
    return [p.detach().clone() for _, p in parameters]


def same(parameters, before: list[torch.Tensor]) -> bool:
    return all(torch.equal(p, old) for (_, p), old in zip(parameters, before, strict=True))


def test_the_value_loss_by_hand() -> None:
    """scale 10, V = 2 everywhere: errors in these units are -0.3, 0.1 and 0."""
    critic, _, trajectories = make(success_reward=10.0, critic_epochs=1, critic_minibatches=1)
    critic.bias.data.fill_(0.2)
    prompts, targets = prompts_of(trajectories)[:3], np.array([5.0, 1.0, 2.0])
    assert critic.values(prompts) == pytest.approx([2, 2, 2])
    assert critic.backward(prompts, targets) == pytest.approx((0.09 + 0.01) / 3)
    assert float(critic.bias.grad) == pytest.approx(2 * (-0.3 + 0.1) / 3)
    metrics = critic.update(prompts, targets, 1, np.random.default_rng(0))
    assert metrics["value_loss"] == pytest.approx(0.1 / 3) and critic.num_updates == 1


@pytest.mark.parametrize(("reward", "scale"), [(10.0, 10.0), (0.25, 1.0), (0.0, 1.0)])
def test_values_are_in_units_of_the_reward_and_begin_at_zero(reward: float, scale: float) -> None:
    critic, _, trajectories = make(success_reward=reward)
    assert critic.values(prompts_of(trajectories)).tolist() == [0.0] * len(prompts_of(trajectories))
    critic.bias.data.fill_(0.5)
    assert set(critic.values(prompts_of(trajectories))) == {0.5 * scale}


@pytest.mark.parametrize("lora_rank", [0, 2])
def test_a_value_is_read_at_the_last_token_of_the_prompt(lora_rank: int) -> None:
    """Against single, unpadded passes of the policy's own model, with the action still to come."""
    _, policy, trajectories = make(lora_rank=lora_rank)
    for name, p in policy.trainable():
        if "lora_B" in name:
            p.data.normal_(std=0.5, generator=torch.Generator().manual_seed(1))
    critic = with_opinions(Critic(policy, Config.from_flat(SMALL | {"lora_rank": lora_rank})))
    steps = [step for t in trajectories for step in t.steps]
    values = critic.values([step.prompt_ids for step in steps])
    assert len({len(step.prompt_ids) for step in steps}) > 2 and values.std() > 0.5
    for step, value in zip(steps, values, strict=True):
        for ids in (step.prompt_ids, step.prompt_ids + step.action_ids):
            with torch.no_grad():
                hidden = policy.model(torch.tensor([ids]), output_hidden_states=True).hidden_states[-1]
                at = hidden[0, len(step.prompt_ids) - 1]
                expected = 10 * float(at @ critic.weight + critic.bias)
            assert expected == pytest.approx(value, abs=2e-4)


def test_padding_and_micro_batches_change_neither_values_nor_gradients() -> None:
    critic, _, trajectories = make(micro_batch_tokens=100_000)
    prompts = prompts_of(with_opinions(critic) and trajectories)
    targets = np.random.default_rng(0).normal(size=len(prompts))
    values, whole = critic.values(prompts), gradients(critic, prompts, targets)
    assert whole.abs().max() > 0.01
    critic.pad_id = 5
    assert np.allclose(critic.values(prompts), values, atol=1e-5)
    critic.config = replace(critic.config, optim=replace(critic.config.optim, micro_batch_tokens=64))
    assert len(critic._groups(prompts)) > 5
    assert np.allclose(critic.values(prompts), values, atol=1e-5)
    assert torch.allclose(gradients(critic, prompts, targets), whole, atol=1e-5)


@pytest.mark.parametrize("lora_rank", [0, 2])
def test_policy_and_critic_do_not_move_each_other(lora_rank: int) -> None:
    critic, policy, trajectories = make(lora_rank=lora_rank)
    updater = Updater(policy, critic.config)
    ours, theirs = ({p.data_ptr() for p in m.parameters()} for m in (critic.trunk, policy.model))
    assert not ours & theirs
    every = [*policy.model.named_parameters()]
    before = snapshot(every)
    targets = np.linspace(-5, 5, len(prompts_of(trajectories)))
    for _ in range(2):  # the first one moves the head alone, which begins as 0
        critic.update(prompts_of(trajectories), targets, 1, np.random.default_rng(0))
    assert same(every, before) and all(p.grad is None for _, p in every)
    trained = snapshot(critic.parameters)
    frozen = [(n, p) for n, p in critic.trunk.named_parameters() if not p.requires_grad]
    assert bool(frozen) == bool(lora_rank)
    if lora_rank:
        assert all("lora_" in name or name.startswith("head.") for name, _ in critic.parameters)
        original = dict(policy.base.base_model.named_parameters())
        assert all(torch.equal(p, original[name]) for name, p in frozen)
    critic.optimizer.zero_grad()
    old = policy.score(policy.rows(trajectories), 4096)
    rows = [
        replace(r, advantage=1.0, old_logprobs=o) for r, o in zip(policy.rows(trajectories), old, strict=True)
    ]
    updater.update(rows, np.zeros(len(rows), int), 1, np.random.default_rng(0))
    assert not same(every, before)
    assert same(critic.parameters, trained) and all(p.grad is None for _, p in critic.parameters)


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_the_trunk_learns_too_and_a_critic_can_overfit(lora_rank: int) -> None:
    critic, _, trajectories = make(lora_rank=lora_rank, critic_epochs=100, critic_learning_rate=5e-3)
    prompts = prompts_of(trajectories)
    draw = np.random.default_rng(0)
    wanted = {prompt: draw.normal(3.0, 4.0) for prompt in sorted(set(prompts))}
    targets = np.array([wanted[prompt] for prompt in prompts])
    assert len(wanted) > 8 and explained_variance(targets, critic.values(prompts)) == pytest.approx(0)
    before = snapshot(critic.parameters)
    critic.update(prompts, targets, 1, np.random.default_rng(0))
    assert explained_variance(targets, critic.values(prompts)) > 0.9
    assert np.abs(critic.values(prompts) - targets).mean() < 1.0, "in units of the reward"
    moved = [not torch.equal(p, old) for (_, p), old in zip(critic.parameters, before, strict=True)]
    assert all(moved)


def test_every_step_counts_once_in_every_pass_and_draws_follow_the_generator() -> None:
    critic, _, trajectories = make(critic_epochs=3, critic_minibatches=4)
    prompts = prompts_of(trajectories)
    seen: list[tuple[int, ...]] = []
    backward = critic.backward
    critic.backward = lambda some, targets: (seen.append(tuple(targets)), backward(some, targets))[1]
    metrics = critic.update(prompts, np.arange(len(prompts), dtype=float), 1, np.random.default_rng(7))
    assert len(seen) == 12 == critic.num_updates
    for epoch in (seen[:4], seen[4:8], seen[8:]):
        assert sorted(t for part in epoch for t in part) == list(range(len(prompts)))
    assert seen[:4] != seen[4:8] and metrics["critic_gradient_norm"] > 0
    again, _, _ = make(critic_epochs=3, critic_minibatches=4)
    again.update(prompts, np.arange(len(prompts), dtype=float), 1, np.random.default_rng(7))
    assert same(again.parameters, snapshot(critic.parameters))


def test_the_critics_rate_follows_the_schedule_of_the_policys() -> None:
    critic, _, trajectories = make(
        critic_learning_rate=0.004, learning_rate=0.5, lr_schedule="linear", iterations=4
    )
    prompts = prompts_of(trajectories)
    rates = [
        critic.update(prompts, np.zeros(len(prompts)), i, np.random.default_rng(0))["critic_learning_rate"]
        for i in (1, 2, 4)
    ]
    assert rates == pytest.approx([0.004, 0.003, 0.001])
    assert critic.optimizer.param_groups[0]["lr"] == pytest.approx(0.001)


def test_gradients_are_clipped_to_the_limit() -> None:
    critic, _, trajectories = make(max_grad_norm=0.01)
    prompts = prompts_of(trajectories)
    norm = float(gradients(critic, prompts, np.full(len(prompts), 50.0)).norm())
    assert critic.clip() == pytest.approx(norm) and norm > 1
    assert sum(float(p.grad.square().sum()) for _, p in critic.parameters) ** 0.5 == pytest.approx(0.01, 1e-3)


def test_a_new_critic_makes_lambda_one_the_return() -> None:
    critic, _, trajectories = make(lam=1.0, gamma=0.9, success_reward=10.0)
    config = critic.config.credit
    table = critic.valued(StepTable.from_trajectories(trajectories), trajectories)
    credit = assign_credit(table, config)
    assert credit.value.tolist() == [0.0] * table.num_steps and credit.return_to_go.any()
    np.testing.assert_allclose(credit.advantage, credit.return_to_go, rtol=1e-12)
    np.testing.assert_allclose(lambda_returns(table, credit, config), credit.return_to_go, rtol=1e-12)
    bare = assign_credit(StepTable.from_trajectories(trajectories), replace(config, estimator="reinforce"))
    np.testing.assert_allclose(credit.normalized, bare.normalized, rtol=1e-9)


def test_a_cut_is_continued_with_the_value_of_the_prompt_that_came_next() -> None:
    critic, policy, trajectories = make(truncation="bootstrap", gamma=0.9, lam=0.0)
    with_opinions(critic)
    outcomes = [t.outcome for t in trajectories]
    assert {Outcome.TERMINATED, Outcome.TRUNCATED} == set(outcomes)
    table = critic.valued(StepTable.from_trajectories(trajectories), trajectories)
    config = critic.config.credit
    credit = assign_credit(table, config)
    targets = lambda_returns(table, credit, config)
    for i, trajectory in enumerate(trajectories):
        last = table.offsets[i + 1] - 1
        expected = 0.0
        if trajectory.outcome is Outcome.TRUNCATED:
            with torch.no_grad():
                ids = torch.tensor([trajectory.final_prompt_ids])
                hidden = policy.model(ids, output_hidden_states=True).hidden_states[-1][0, -1]
                expected = 10 * float(hidden @ critic.weight + critic.bias)
            assert abs(expected) > 0.1
        assert table.critic_final[i] == pytest.approx(expected, abs=2e-4)
        assert credit.next_value[last] == table.critic_final[i]
        assert targets[last] == pytest.approx(table.reward[last] + 0.9 * table.critic_final[i])
    plain = replace(config, truncation="terminal")
    critic.config = replace(critic.config, credit=plain)
    table = critic.valued(StepTable.from_trajectories(trajectories), trajectories)
    assert (
        table.critic_final is None and not assign_credit(table, plain).next_value[table.offsets[1:] - 1].any()
    )


def test_a_cut_without_its_next_prompt_is_named() -> None:
    critic, _, trajectories = make(truncation="bootstrap")
    bare = [replace(t, final_prompt_ids=()) for t in trajectories]
    with pytest.raises(ValueError, match=r"final_prompt_ids of task 'c-\d': empty; expected the prompt"):
        critic.valued(StepTable.from_trajectories(bare), bare)


def test_what_is_not_finite_ends_the_run() -> None:
    critic, _, trajectories = make(critic_epochs=1, critic_minibatches=1)
    prompts = prompts_of(trajectories)
    before = snapshot(critic.parameters)
    odd = np.full(len(prompts), np.nan)
    with pytest.raises(
        FloatingPointError, match="critic: 3 updates in a row had a gradient that is not finite"
    ):
        for i in range(3):
            assert critic.skipped_in_a_row == i
            metrics = critic.update(prompts, odd, 1, np.random.default_rng(0))
            assert np.isnan(metrics["value_loss"]) and metrics["critic_gradient_norm"] == 0
    assert same(critic.parameters, before) and critic.num_updates == 0
    critic.bias.data.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match=rf"critic: the value of prompt 0 of {len(prompts)} is nan"):
        critic.values(prompts)


def test_making_a_critic_draws_nothing() -> None:
    _, policy, _ = make()
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = Critic(policy, Config.from_flat(SMALL))
    assert torch.equal(before, torch.random.get_rng_state())
    assert same(Critic(policy, Config.from_flat(SMALL)).parameters, snapshot(first.parameters))


def test_a_critic_starts_from_the_policy_as_it_stands() -> None:
    _, policy, _ = make()
    next(policy.model.parameters()).data.add_(1.0)
    critic = Critic(policy, Config.from_flat(SMALL))
    own = dict(policy.base.base_model.named_parameters())
    assert own.keys() == {n.removeprefix("trunk.") for n, _ in critic.parameters if n.startswith("trunk.")}
    assert all(torch.equal(p, own[name]) for name, p in critic.trunk.named_parameters())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("critic_learning_rate", -1e-3, "at least 0"),
        ("critic_epochs", 0, "at least 1"),
        ("critic_minibatches", 0, "at least 1"),
        ("critic_warmup", -1, "at least 0"),
    ],
)
def test_settings_have_ranges(name: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: {value!r}; expected {message}"):
        CriticConfig(**{name: value})
