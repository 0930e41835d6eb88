"""From ragged actions to padded tensors, and how much each action counts in the loss.

A `Row` is one action to train on, on the host. `collate` pads rows on the right (never on the
left, so positions need no correction) and marks what is real by length, so a padding token that
equals the end-of-sequence token does no harm. Notation: R rows of an optimiser batch, B rows of
one forward pass, L tokens of a padded row, A tokens of a padded action, M allowed tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Row:
    """One action and what was shown before it.

    `allowed` holds, for masked decoding, the token ids that were open at each action position.
    `weight` is the action's share of the loss (see `gagpo.weights`). `old_logprobs` and
    `ref_logprobs` are in nats, one for each action token.
    """

    prompt_ids: tuple[int, ...]
    action_ids: tuple[int, ...]
    allowed: tuple[tuple[int, ...], ...] | None
    advantage: float
    weight: float
    old_logprobs: np.ndarray | None = None
    ref_logprobs: np.ndarray | None = None

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise ValueError("Row.prompt_ids: empty; expected at least the token before the action")
        if not self.action_ids:
            raise ValueError("Row.action_ids: empty; expected at least one token")
        for name in ("advantage", "weight"):
            if not np.isfinite(getattr(self, name)):
                raise ValueError(f"Row.{name}: {getattr(self, name)!r} is not finite")
        for name in ("allowed", "old_logprobs", "ref_logprobs"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.action_ids):
                raise ValueError(
                    f"Row.{name}: {len(values)} entries for {len(self.action_ids)} action tokens; "
                    "expected one for each"
                )
        for position, ids in enumerate(self.allowed or ()):
            if self.action_ids[position] not in ids:
                raise ValueError(
                    f"Row.allowed: token {self.action_ids[position]} of the action is not among the "
                    f"{len(ids)} allowed at position {position}"
                )

    @property
    def num_tokens(self) -> int:
        """Tokens of prompt and action together."""
        return len(self.prompt_ids) + len(self.action_ids)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Padded tensors of B actions.

    input_ids       (B, L) int64      prompt then action, then padding
    attention_mask  (B, L) int64      1 where input_ids is real
    action_pos      (B, A) int64      where the logits lie that predict the token: its position - 1
    action_ids      (B, A) int64
    action_mask     (B, A) bool       real action tokens
    allowed_ids     (B, A, M) int64   padded with -1; None when decoding is not masked
    advantage       (B,) float32
    weight          (B,) float32      sums to 1 over the optimiser batch, not over this one
    old_logprobs    (B, A) float32    the trainer's at collection; 0 in padding; may be None
    ref_logprobs    (B, A) float32    the reference policy's; 0 in padding; may be None
    """

    input_ids: Tensor
    attention_mask: Tensor
    action_pos: Tensor
    action_ids: Tensor
    action_mask: Tensor
    allowed_ids: Tensor | None
    advantage: Tensor
    weight: Tensor
    old_logprobs: Tensor | None = None
    ref_logprobs: Tensor | None = None

    def __post_init__(self) -> None:
        if self.input_ids.dim() != 2 or self.action_ids.dim() != 2:
            raise ValueError(
                f"Batch: input_ids {tuple(self.input_ids.shape)} and action_ids "
                f"{tuple(self.action_ids.shape)}; expected two dimensions each"
            )
        num, width = self.input_ids.shape
        actions = self.action_ids.shape[1]
        shapes = {"input_ids": (num, width), "attention_mask": (num, width)}
        shapes |= {name: (num, actions) for name in ("action_pos", "action_ids", "action_mask")}
        shapes |= {"advantage": (num,), "weight": (num,)}
        shapes |= {name: (num, actions) for name in ("old_logprobs", "ref_logprobs")}
        kinds = dict.fromkeys(shapes, torch.int64) | {"action_mask": torch.bool}
        kinds |= dict.fromkeys(("advantage", "weight", "old_logprobs", "ref_logprobs"), torch.float32)
        if self.allowed_ids is not None:
            shapes["allowed_ids"] = (num, actions, self.allowed_ids.shape[-1])
            kinds["allowed_ids"] = torch.int64
        for name, shape in shapes.items():
            value = getattr(self, name)
            if value is None and name in ("old_logprobs", "ref_logprobs"):
                continue
            if tuple(value.shape) != shape or value.dtype != kinds[name]:
                raise ValueError(
                    f"Batch.{name}: {tuple(value.shape)} {value.dtype}; expected {shape} {kinds[name]}"
                )


def minibatches(num_rows: int, num: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Split rows 0 ... num_rows - 1 at random into `num` optimiser batches of nearly equal size.

    Every row is in exactly one of them. With fewer rows than batches each row is a batch.
    """
    if num_rows < 1 or num < 1:
        raise ValueError(f"minibatches: {num_rows} rows in {num} batches; expected at least 1 of each")
    return np.array_split(rng.permutation(num_rows), min(num, num_rows))


def micro_batches(rows: Sequence[Row], token_budget: int) -> list[np.ndarray]:
    """Group rows for forward passes: arrays of indices into `rows`, each index exactly once.

    Rows are taken from the longest to the shortest, so that a batch pads little and the largest
    comes first (memory trouble shows at once). A batch's rows times its longest row is at most
    `token_budget`; a row that is longer than the budget goes alone.
    """
    return length_groups([row.num_tokens for row in rows], token_budget)


def length_groups(num_tokens: Sequence[int], token_budget: int) -> list[np.ndarray]:
    """`micro_batches` of rows that have `num_tokens`, one number for each."""
    if token_budget < 1:
        raise ValueError(f"micro_batch_tokens: {token_budget}; expected at least 1")
    lengths = np.asarray(num_tokens, np.int64)
    order = np.argsort(-lengths, kind="stable")
    groups = []
    start = 0
    while start < len(order):
        size = max(1, token_budget // int(lengths[order[start]]))
        groups.append(order[start : start + size])
        start += size
    return groups


def collate(rows: Sequence[Row], pad_id: int, device: str | torch.device = "cpu") -> Batch:
    """Pad rows on the right into one Batch. Columns that are None must be so in every row."""
    if not rows:
        raise ValueError("collate: no rows; expected at least one")
    input_ids, attention_mask = pad([row.prompt_ids + row.action_ids for row in rows], pad_id)
    action_ids, action_mask = pad([row.action_ids for row in rows], pad_id)
    lengths, sizes = attention_mask.sum(1), action_mask.sum(1)
    actions = action_ids.shape[1]
    action_pos = np.where(action_mask, (lengths - sizes - 1)[:, None] + np.arange(actions), 0)

    def tensor(values: np.ndarray | None) -> Tensor | None:
        return None if values is None else torch.from_numpy(values).to(device)

    return Batch(
        input_ids=tensor(input_ids),
        attention_mask=tensor(attention_mask.astype(np.int64)),
        action_pos=tensor(action_pos),
        action_ids=tensor(action_ids),
        action_mask=tensor(action_mask),
        allowed_ids=tensor(_allowed(rows, actions)),
        advantage=tensor(np.array([row.advantage for row in rows], np.float32)),
        weight=tensor(np.array([row.weight for row in rows], np.float32)),
        old_logprobs=tensor(_logprobs("old_logprobs", rows, actions)),
        ref_logprobs=tensor(_logprobs("ref_logprobs", rows, actions)),
    )


def pad(sequences: Sequence[Sequence[int]], pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Token ids (N, L) int64, padded on the right, and which are real (N, L) bool."""
    lengths = np.array([len(ids) for ids in sequences])
    real = np.arange(lengths.max()) < lengths[:, None]
    padded = np.full(real.shape, pad_id, np.int64)
    for i, ids in enumerate(sequences):
        padded[i, : lengths[i]] = ids
    return padded, real


def _allowed(rows: Sequence[Row], actions: int) -> np.ndarray | None:
    """(B, A, M) int64 padded with -1."""
    if not _in_every("allowed", rows):
        return None
    most = max(len(ids) for row in rows for ids in row.allowed)
    allowed = np.full((len(rows), actions, most), -1, np.int64)
    for i, row in enumerate(rows):
        for position, ids in enumerate(row.allowed):
            allowed[i, position, : len(ids)] = ids
    return allowed


def _logprobs(name: str, rows: Sequence[Row], actions: int) -> np.ndarray | None:
    """(B, A) float32 padded with 0."""
    if not _in_every(name, rows):
        return None
    padded = np.zeros((len(rows), actions), np.float32)
    for i, row in enumerate(rows):
        padded[i, : len(row.action_ids)] = getattr(row, name)
    return padded


def _in_every(name: str, rows: Sequence[Row]) -> bool:
    given = sum(getattr(row, name) is not None for row in rows)
    if given not in (0, len(rows)):
        raise ValueError(f"collate: {name} given in {given} of {len(rows)} rows; expected all or none")
    return given > 0
