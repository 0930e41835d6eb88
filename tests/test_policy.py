"""The policy: what it samples is what it scores, under mask and temperature alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from corridor import Corridor, CorridorWorld

from gagpo.batch import collate
from gagpo.config import Config
from gagpo.policy import Policy
from gagpo.rollout import Turn, collect
from gagpo.tiny import tiny_tokenizer
from gagpo.warm_start import Demonstrator


def build(**settings) -> Policy:
    small = {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "max_action_tokens": 6}
    return Policy.build(Config.from_flat(small | settings), CorridorWorld())


def play(policy: Policy, temperature: float, seed=(0, 1), **settings):
    config = Config.from_flat({"temperature": temperature, **settings})
    tasks = ["c-1", "c-2", "c-3"]
    return collect(
        CorridorWorld(), policy, tasks, config.rollout, num_siblings=4, temperature=temperature, seed=seed
    )


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_sampled_logprobs_equal_scored_ones(masked: bool, temperature: float) -> None:
    policy = build(masked=masked, temperature=temperature)
    trajectories = play(policy, temperature)
    scored = policy.score(policy.rows(trajectories), token_budget=500)
    sampled = [np.array(s.logprobs) for t in trajectories for s in t.steps]
    assert max(np.abs(a - b).max() for a, b in zip(scored, sampled, strict=True)) < 2e-5


def test_masked_actions_are_admissible_and_unmasked_ones_mostly_not() -> None:
    assert all(s.valid and s.action in s.admissible for t in play(build(masked=True), 1.0) for s in t.steps)
    wild = [s for t in play(build(masked=False), 1.0) for s in t.steps]
    assert sum(s.valid for s in wild) < len(wild) / 2
    assert any(s.cut_off for s in wild)
    assert all((s.action_ids[-1] == 1) != s.cut_off for s in wild), "an action that ended holds the end token"


def test_a_seed_fixes_a_rollout_and_leaves_the_global_random_state_alone() -> None:
    policy = build()
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = play(policy, 1.0)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(6)
    assert play(policy, 1.0) == first
    assert play(policy, 1.0, seed=(0, 2)) != first


@pytest.mark.parametrize("masked", [True, False])
def test_logprobs_and_entropy_equal_their_definition(masked: bool) -> None:
    """Against a plain loop over single, unpadded rows and a softmax over a written-out set."""
    policy = build(masked=masked, temperature=0.7)
    trajectories = play(policy, 0.7)
    rows = policy.rows(trajectories)[:9]
    batch = collate(rows, policy.pad_id)
    with torch.no_grad():
        logprobs, entropy = policy.logprobs(batch)
        for i, row in enumerate(rows):
            logits = policy.model(torch.tensor([row.prompt_ids + row.action_ids])).logits[0] / 0.7
            for j, token in enumerate(row.action_ids):
                open_ids = list(row.allowed[j]) if masked else list(range(logits.shape[1]))
                p = logits[len(row.prompt_ids) + j - 1, open_ids].double().softmax(0)
                assert float(logprobs[i, j]) == pytest.approx(float(p[open_ids.index(token)].log()), abs=2e-5)
                assert float(entropy[i, j]) == pytest.approx(float(-(p * p.log()).sum()), abs=2e-5)
            assert torch.all(logprobs[i, len(row.action_ids) :] == 0)


def test_gradients_are_finite_where_the_mask_leaves_one_token() -> None:
    policy = build()
    batch = collate(policy.rows(play(policy, 1.0)), policy.pad_id)
    logprobs, entropy = policy.logprobs(batch)
    (logprobs.sum() + entropy.sum()).backward()
    assert all(torch.isfinite(p.grad).all() for _, p in policy.trainable())


def test_sampling_follows_the_scored_distribution() -> None:
    """2,000 draws of one state against the policy's own probabilities (3-sigma bands)."""
    policy = build()
    world = CorridorWorld()
    env = world.make("c-1")
    env.reset()
    (prompt,) = policy.encode(["goal : reach place 4 see : you are at place 2 . act :"])
    turn = Turn(prompt, env.goal, env.admissible(), env)
    drawn = [a.text for a in policy.act([turn] * 2000, 1.0, seed=(3,))]
    rows = [
        policy.row(env.goal, env.admissible(), prompt, policy.command_ids(env.goal, c))
        for c in env.admissible()
    ]
    probabilities = [float(np.exp(values.sum())) for values in policy.score(rows, 1000)]
    assert sum(probabilities) == pytest.approx(1, abs=1e-5)
    for command, p in zip(env.admissible(), probabilities, strict=True):
        assert abs(drawn.count(command) / 2000 - p) < 3 * np.sqrt(p * (1 - p) / 2000) + 1e-3


def test_a_command_longer_than_an_action_may_be_is_refused() -> None:
    with pytest.raises(ValueError, match=r"max_action_tokens: 2; .* needs 3 tokens"):
        play(build(max_action_tokens=2), 1.0)


class Spaced(Corridor):
    def admissible(self):
        return (*super().admissible(), "go  left")  # to the tokenizer the same as "go left"


class SpacedWorld(CorridorWorld):
    def make(self, task_id):
        return Spaced(task_id) if task_id == "c-0" else super().make(task_id)


@pytest.mark.parametrize("learns_by", ["playing", "demonstrations"])
def test_commands_that_read_the_same_cost_their_group_and_not_the_run(learns_by: str) -> None:
    policy = build()
    actor = policy if learns_by == "playing" else Demonstrator(policy, 0.5)
    failures: dict[str, Exception] = {}
    how = {"num_siblings": 2, "temperature": 1.0, "seed": (0, 1), "failures": failures}
    config = Config().rollout
    kept = collect(SpacedWorld(), actor, ["c-1", "c-0", "c-3"], config, **how)
    assert [t.task_id for t in kept] == ["c-1", "c-1", "c-3", "c-3"] and list(failures) == ["c-0"]
    assert "have the same tokens" in str(failures["c-0"])
    assert len(policy.rows(kept)) == sum(len(t.steps) for t in kept)


def test_equal_seeds_give_equal_models_and_a_frozen_copy_stays() -> None:
    first, second, other = build(seed=1), build(seed=1), build(seed=2)
    weights = [dict(policy.model.named_parameters()) for policy in (first, second, other)]
    assert all(torch.equal(p, weights[1][name]) for name, p in weights[0].items())
    assert any(not torch.equal(p, weights[2][name]) for name, p in weights[0].items())
    twin = first.frozen_copy()
    next(first.model.parameters()).data.add_(1)
    assert not torch.equal(next(first.model.parameters()), next(twin.model.parameters()))
    assert twin.trainable() == []


def test_lora_trains_adapters_only_and_starts_as_the_base_model() -> None:
    plain, adapted = build(), build(lora_rank=2)
    names = [name for name, _ in adapted.trainable()]
    assert names and all("lora_" in name for name in names)
    rows = plain.rows(play(plain, 1.0))
    same = zip(plain.score(rows, 500), adapted.score(rows, 500), strict=True)
    assert max(np.abs(a - b).max() for a, b in same) < 1e-6, "fresh adapters change nothing"
    for name, p in adapted.trainable():
        if "lora_B" in name:
            p.data.normal_(std=0.5, generator=torch.Generator().manual_seed(0))
    trajectories = play(adapted, 1.0)
    scored = adapted.score(adapted.rows(trajectories), 500)
    sampled = [np.array(s.logprobs) for t in trajectories for s in t.steps]
    gaps = [np.abs(a - b).max() for a, b in zip(scored, sampled, strict=True)]
    assert max(gaps) < 2e-5 and trajectories != play(plain, 1.0)


def test_a_saved_policy_is_a_hugging_face_folder(tmp_path) -> None:
    policy = build()
    policy.save_pretrained(tmp_path)
    again = build(model=str(tmp_path))
    assert play(again, 1.0) == play(policy, 1.0)


def test_the_tokenizer_splits_punctuation_and_reads_back_commands() -> None:
    tokenizer = tiny_tokenizer({"go", "to", "bed", "1", "Desk's"})
    ids = tokenizer("Go to bed 1.")["input_ids"]
    assert [tokenizer.unk_token_id == i for i in ids] == [False] * 4 + [True]
    assert tokenizer.decode(tokenizer("go to bed 1")["input_ids"]) == "go to bed 1"
    assert tokenizer.unk_token_id not in tokenizer("desk ' s")["input_ids"]


def test_a_chat_template_wraps_the_prompt_once() -> None:
    policy = build()
    plain = policy.encode(["see : you are at place 2 ."])[0]
    answer = "{% if add_generation_prompt %} act{% endif %}"
    policy.tokenizer.chat_template = "{% for m in messages %}see {{ m.content }}{% endfor %}" + answer
    (wrapped,) = policy.encode(["see : you are at place 2 ."])
    see, act = policy.tokenizer("see act")["input_ids"]
    assert wrapped == (see, *plain, act)
    assert all(s.valid for t in play(policy, 1.0) for s in t.steps)


def test_a_model_may_not_bring_sampling_settings_of_its_own(tmp_path) -> None:
    """A folder whose generation_config cuts the distribution samples from all of it nevertheless."""
    policy = build(masked=False)
    policy.model.generation_config.update(do_sample=True, top_k=1, temperature=0.1, repetition_penalty=2.0)

    again = build(masked=False)
    again.save_pretrained(tmp_path / "model")
    policy.model.generation_config.save_pretrained(tmp_path / "model")
    loaded = build(masked=False, model=str(tmp_path / "model"))
    assert play(loaded, 1.0) == play(again, 1.0)
