"""Checkpoints that are whole or invisible: safetensors and JSON, never pickle.

A checkpoint is written into a folder aside, flushed, listed in a manifest with a SHA-256 of every
file, and then renamed into place. A reader takes the newest one whose files match its manifest.
Random states need no place in it: every draw of a run is a function of the seed and the iteration.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Protocol

import torch
from safetensors.torch import load_file, save_file

MANIFEST = "manifest.json"
WEIGHTS = "weights.safetensors"
OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"
# Only of runs with a critic.
CRITIC, CRITIC_OPTIMIZER = "critic.safetensors", "critic_optimizer.safetensors"
PLAIN = frozenset({WEIGHTS, OPTIMIZER, STATE})

NamedParameters = list[tuple[str, torch.nn.Parameter]]


class Trained(Protocol):
    """Weights with the optimiser that trains them."""

    parameters: NamedParameters
    optimizer: torch.optim.Optimizer


def save_checkpoint(
    folder: Path,
    iteration: int,
    parameters: NamedParameters,
    optimizer: torch.optim.Optimizer | None,
    state: dict[str, int | float | str],
    keep: int,
    critic: Trained | None = None,
) -> Path:
    """Write `folder/<iteration>` with the trained weights, the optimiser, the critic where there
    is one, and `state`; then remove all but the newest `keep`. Returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f".writing-{iteration:06d}"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    save_file({name: p.detach().cpu().contiguous() for name, p in parameters}, aside / WEIGHTS)
    save_file(_optimizer_tensors(parameters, optimizer), aside / OPTIMIZER)
    if critic is not None:
        save_file({name: p.detach().cpu().contiguous() for name, p in critic.parameters}, aside / CRITIC)
        save_file(_optimizer_tensors(critic.parameters, critic.optimizer), aside / CRITIC_OPTIMIZER)
    (aside / STATE).write_text(json.dumps({"iteration": iteration, **state}))
    digests = {path.name: _sha256(path) for path in sorted(aside.iterdir())}
    (aside / MANIFEST).write_text(json.dumps({"schema_version": 1, "sha256": digests}))
    for path in (*aside.iterdir(), aside):
        _flush(path)
    final = folder / f"{iteration:06d}"
    if final.exists():  # a broken one that was passed over when the run resumed
        shutil.rmtree(final)
    os.rename(aside, final)
    _flush(folder)
    for old in _checkpoints(folder)[keep:]:
        shutil.rmtree(old)
    return final


def load_checkpoint(
    folder: Path,
    parameters: NamedParameters,
    optimizer: torch.optim.Optimizer | None,
    critic: Trained | None = None,
) -> dict[str, int | float | str] | None:
    """Restore the newest whole checkpoint in place and return its state, or None if there is none.

    A ValueError names the first weight that the checkpoint and the policy, or the critic, do not
    share; another one tells of a critic in the checkpoint where there is to be none, or the reverse.
    """
    for path in _checkpoints(folder):
        if _is_whole(path):
            if _has_critic(path) != (critic is not None):
                found, wanted = ("no critic", "one") if critic else ("a critic", "none")
                raise ValueError(f"checkpoint {path}: it holds {found}; expected {wanted}, by the estimator")
            _restore_weights(load_file(path / WEIGHTS), parameters, "policy")
            if optimizer is not None:
                _restore_optimizer(load_file(path / OPTIMIZER), parameters, optimizer)
            if critic is not None:
                _restore_weights(load_file(path / CRITIC), critic.parameters, "critic")
                _restore_optimizer(load_file(path / CRITIC_OPTIMIZER), critic.parameters, critic.optimizer)
            return json.loads((path / STATE).read_text())
    return None


def _checkpoints(folder: Path) -> list[Path]:
    """The newest first; folders that are being written do not count."""
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted((p for p in found if p.name.isdigit() and p.is_dir()), key=lambda p: -int(p.name))


def _is_whole(path: Path) -> bool:
    try:
        digests = json.loads((path / MANIFEST).read_text())["sha256"]
        return set(digests) in (PLAIN, PLAIN | {CRITIC, CRITIC_OPTIMIZER}) and all(
            _sha256(path / name) == digest for name, digest in digests.items()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _has_critic(path: Path) -> bool:
    """By its manifest, which is what was checked."""
    return CRITIC in json.loads((path / MANIFEST).read_text())["sha256"]


def _optimizer_tensors(
    parameters: NamedParameters, optimizer: torch.optim.Optimizer | None
) -> dict[str, torch.Tensor]:
    """{"<weight>/<field>": tensor}; AdamW keeps nothing but tensors."""
    if optimizer is None:
        return {}
    return {
        f"{name}/{field}": value.detach().cpu().contiguous()
        for name, p in parameters
        for field, value in optimizer.state.get(p, {}).items()
    }


def _restore_weights(saved: dict[str, torch.Tensor], parameters: NamedParameters, owner: str) -> None:
    known = dict(parameters)
    for name in sorted(saved.keys() ^ known.keys()):
        raise ValueError(f"checkpoint: weight {name!r} is only in the {'file' if name in saved else owner}")
    for name, p in parameters:
        if saved[name].shape != p.shape:
            raise ValueError(f"checkpoint: {name!r} is {tuple(saved[name].shape)}; expected {tuple(p.shape)}")
        p.data.copy_(saved[name])


def _restore_optimizer(
    saved: dict[str, torch.Tensor], parameters: NamedParameters, optimizer: torch.optim.Optimizer
) -> None:
    fields: dict[str, dict[str, torch.Tensor]] = {}
    for key, value in saved.items():
        name, field = key.rsplit("/", 1)
        fields.setdefault(name, {})[field] = value
    for name, p in parameters:
        if name in fields:
            # AdamW's step counter stays on the CPU; its moments lie where the weight does.
            optimizer.state[p] = {
                field: value if field == "step" else value.to(p.device)
                for field, value in fields[name].items()
            }


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _flush(path: Path) -> None:
    """Make a file's bytes, or a folder's names, survive a crash of the machine."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
