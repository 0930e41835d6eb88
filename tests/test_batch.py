"""Padding, weights and splits, with literal tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gagpo.batch import Row, collate, micro_batches, minibatches
from gagpo.weights import action_weights

PAD = EOS = 9  # the same token, as in many tokenizers: padding must be told apart by length

SHORT = Row(
    prompt_ids=(1, 2),
    action_ids=(3, EOS),
    allowed=((3, 4, 5), (EOS,)),
    advantage=1.5,
    weight=0.25,
    old_logprobs=np.array([-0.5, -0.25]),
)
LONG = Row(
    prompt_ids=(1, EOS, 2),
    action_ids=(4, 5, EOS),
    allowed=((3, 4), (5,), (5, EOS)),
    advantage=-2,
    weight=0.75,
    old_logprobs=np.array([-1, -2, -4]),
)


def row(prompt: int, action: int, fill: int = 1) -> Row:
    return Row((fill,) * prompt, (fill,) * action, None, 1.0, 1.0)


def test_collate_pads_on_the_right_and_marks_by_length():
    batch = collate([SHORT, LONG], PAD)
    assert batch.input_ids.tolist() == [[1, 2, 3, 9, 9, 9], [1, 9, 2, 4, 5, 9]]
    assert batch.attention_mask.tolist() == [[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]]
    assert batch.action_ids.tolist() == [[3, 9, 9], [4, 5, 9]]
    assert batch.action_mask.tolist() == [[True, True, False], [True, True, True]]
    assert batch.action_pos.tolist() == [[1, 2, 0], [2, 3, 4]]
    assert batch.allowed_ids.tolist() == [
        [[3, 4, 5], [9, -1, -1], [-1, -1, -1]],
        [[3, 4, -1], [5, -1, -1], [5, 9, -1]],
    ]
    assert batch.advantage.tolist() == [1.5, -2]
    assert batch.weight.tolist() == [0.25, 0.75]
    assert batch.old_logprobs.tolist() == [[-0.5, -0.25, 0], [-1, -2, -4]]
    assert batch.ref_logprobs is None


def test_the_logits_at_action_pos_predict_the_action():
    batch = collate([replace(SHORT, allowed=None), replace(LONG, allowed=None)], PAD)
    predicted = batch.input_ids.gather(1, batch.action_pos + 1)
    assert torch.equal(predicted[batch.action_mask], batch.action_ids[batch.action_mask])
    assert predicted[batch.action_mask].tolist() == [3, EOS, 4, 5, EOS]


def test_columns_are_in_every_row_or_in_none():
    with pytest.raises(ValueError, match="old_logprobs given in 1 of 2 rows"):
        collate([SHORT, replace(LONG, old_logprobs=None)], PAD)
    with pytest.raises(ValueError, match="no rows"):
        collate([], PAD)
    assert collate([row(2, 2)], PAD).allowed_ids is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt_ids": ()}, "prompt_ids: empty"),
        ({"action_ids": ()}, "action_ids: empty"),
        ({"advantage": float("nan")}, "advantage: nan is not finite"),
        ({"weight": float("inf")}, "weight: inf is not finite"),
        ({"old_logprobs": np.zeros(3)}, "old_logprobs: 3 entries for 2 action tokens"),
        ({"allowed": ((3,),)}, "allowed: 1 entries for 2 action tokens"),
        ({"allowed": ((4, 5), (EOS,))}, "allowed: token 3 of the action is not among the 2 allowed"),
    ],
)
def test_rows_that_cannot_be_trained_on_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(SHORT, **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": torch.zeros(3)}, r"Batch.weight: \(3,\) torch.float32; expected \(2,\)"),
        ({"action_mask": torch.zeros(2, 3)}, r"Batch.action_mask: \(2, 3\) torch.float32; .* torch.bool"),
        ({"old_logprobs": torch.zeros(2, 2)}, r"Batch.old_logprobs: \(2, 2\)"),
        ({"allowed_ids": torch.zeros(2, 2, 3, dtype=torch.int64)}, r"Batch.allowed_ids: \(2, 2, 3\)"),
        ({"input_ids": torch.zeros(6, dtype=torch.int64)}, "expected two dimensions"),
    ],
)
def test_batches_of_wrong_shape_or_kind_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(collate([SHORT, LONG], PAD), **change)


def test_means_weigh_long_trajectories_as_they_say():
    """Trajectories of 3, 10 and 50 steps: 4.8, 15.9 and 79.4 % by steps, a third each otherwise."""
    trajectory = np.repeat([7, 3, 5], [3, 10, 50])
    tokens = np.full(63, 4)

    def shares(mean):
        weight = action_weights(mean, tokens, trajectory)
        return [weight[trajectory == i].sum() for i in (7, 3, 5)]

    assert shares("action") == pytest.approx([3 / 63, 10 / 63, 50 / 63], rel=1e-12)
    assert shares("token") == pytest.approx([0.048, 0.159, 0.794], abs=5e-4)
    assert shares("trajectory") == pytest.approx([1 / 3] * 3, rel=1e-12)


def test_the_token_mean_weighs_actions_by_their_tokens():
    assert action_weights("token", [1, 3, 4], [0, 0, 0]).tolist() == [0.125, 0.375, 0.5]
    assert action_weights("action", [1, 3, 4, 9], [0, 0, 0, 0]).tolist() == [0.25] * 4
    assert action_weights("trajectory", [1, 3, 4], [0, 1, 1]).tolist() == [0.5, 0.25, 0.25]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("step", [1], [0]), "loss_mean: 'step'"),
        (("token", [1, 0], [0, 0]), "num_tokens holds 0"),
        (("token", [1, 2], [0]), "two equal"),
        (("token", [], []), "non-empty"),
    ],
)
def test_weights_refuse_what_makes_no_mean(arguments, message):
    with pytest.raises(ValueError, match=message):
        action_weights(*arguments)


@pytest.mark.parametrize(("num_rows", "num"), [(1, 1), (10, 3), (64, 4), (3, 8)])
def test_minibatches_hold_every_row_once_and_are_even(num_rows, num):
    parts = minibatches(num_rows, num, np.random.default_rng(0))
    assert sorted(np.concatenate(parts)) == list(range(num_rows))
    sizes = [len(part) for part in parts]
    assert len(parts) == min(num, num_rows) and max(sizes) - min(sizes) <= 1


def test_minibatches_are_drawn_anew_from_the_generator_alone():
    rng = np.random.default_rng(5)
    first, second = (np.concatenate(minibatches(50, 2, rng)).tolist() for _ in range(2))
    again = np.concatenate(minibatches(50, 2, np.random.default_rng(5))).tolist()
    assert first == again and first != second and first != sorted(first)


def test_micro_batches_keep_the_budget_and_lose_no_row():
    rng = np.random.default_rng(3)
    rows = [row(int(p), int(a)) for p, a in rng.integers(1, 30, (200, 2))]
    groups = micro_batches(rows, 256)
    assert sorted(np.concatenate(groups)) == list(range(200))
    for group in groups:
        longest = max(rows[i].num_tokens for i in group)
        assert len(group) * longest <= 256
    padded = sum(len(g) * max(rows[i].num_tokens for i in g) for g in groups)
    assert padded <= 1.25 * sum(r.num_tokens for r in rows)  # sorting leaves little padding


def test_a_row_beyond_the_budget_goes_alone():
    rows = [row(2, 1), row(50, 1), row(2, 2)]
    assert [group.tolist() for group in micro_batches(rows, 8)] == [[1], [2, 0]]
    with pytest.raises(ValueError, match="micro_batch_tokens: 0"):
        micro_batches(rows, 0)
