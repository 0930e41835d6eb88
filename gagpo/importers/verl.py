"""verl's dumps of rollouts (trainer.rollout_data_dir, validation_data_dir), one JSON Lines file a step.

Field names read, as of verl 0.7: `input` and `output` (decoded texts), `score` (the sum of the token-level
scores), `step` (the trainer's global step, counted from 1). The dump has no seams between turns, so a record
is a trajectory of one step. Records with equal inputs are siblings, unless task_field names their task.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gagpo.importers.chat import goal_of, prompt_name, reward_of, task_and_sibling
from gagpo.importers.collect import collect
from gagpo.importers.entries import json_entries
from gagpo.importers.fields import mapping, text, whole
from gagpo.importers.records import Episode, Imported, Message, Options


def read_verl(path: Path, options: Options) -> Imported:
    """Every record of the file. ValueError names file, line and field."""
    return collect(path, "verl", _episodes(path, options), options, "observation")


def _episodes(path: Path, options: Options) -> Iterator[Episode]:
    for where, value in json_entries(path, options.max_entry_bytes):
        record = mapping(value, where, "a verl record")
        messages = (
            Message("user", text(record, "input", where)),
            Message("assistant", text(record, "output", where)),
        )
        step = record.get("step")
        version = 0 if step is None else max(whole(step, f"{where}: step") - 1, 0)
        reward = reward_of(record, where, options, ("score",))
        goal = goal_of(record, where, options)
        task, sibling = task_and_sibling(record, where, options)
        task = prompt_name(messages) if task is None else task
        yield Episode(where, task, sibling, messages, reward, goal=goal, policy_version=version)
