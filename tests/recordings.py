"""Small recordings in every format that is imported, written by hand from the documented fields."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def called(name: str, arguments: str, key: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return said("assistant", None, tool_calls=[{"id": key, "type": "function", "function": function}])


def answered(content: str, key: str) -> dict[str, Any]:
    return said("tool", content, tool_call_id=key)


def chat(trial: int, reward: float, place: str, greeting: str = "hello") -> dict[str, Any]:
    """Looks a user up, then books; four steps. Ids, key order and blanks differ between trials."""
    order = '{"user": 7, "full": true}' if trial % 2 else '{"full":true,"user":7}'
    return {
        "task_id": 3,
        "trial": trial,
        "reward": reward,
        "traj": [
            said("system", "You book flights."),
            said("user", greeting),
            said("assistant", "Who are you?"),
            said("user", "Seven."),
            called("look_up", order, f"a{trial}"),
            answered('{"name": "Ann", "id": 7}' if trial % 2 else '{"id":7,"name":"Ann"}', f"a{trial}"),
            called("book", json.dumps({"to": place}), f"b{trial}"),
            answered("done", f"b{trial}"),
            said("assistant", "Booked."),
            said("user", "Thanks."),
        ],
    }


def atif(reward: float | None, command: str) -> dict[str, Any]:
    """Two steps of the agent after one that was copied."""
    record = {
        "schema_version": "ATIF-v1.6",
        "session_id": "s",
        "agent": {"name": "a", "version": "1"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "Fix it."},
            {"step_id": 2, "source": "agent", "message": "From before.", "is_copied_context": True},
            {
                "step_id": 3,
                "source": "agent",
                "message": "I look.",
                "tool_calls": [
                    {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": command}}
                ],
                "observation": {"results": [{"source_call_id": "c1", "content": "a.py"}]},
                "metrics": {
                    "prompt_token_ids": [5, 6],
                    "completion_token_ids": [7, 8, 9],
                    "logprobs": [-0.5, -0.25, -1.0],
                },
            },
            {"step_id": 4, "source": "agent", "message": "Fixed."},
        ],
    }
    return record if reward is None else {**record, "extra": {"reward": reward}}


def verl(question: str, answer: str, score: float) -> dict[str, Any]:
    return {"input": question, "output": answer, "gts": "4", "score": score, "step": 3, "acc": score}


def prime_rl(last: int = 6) -> dict[str, Any]:
    """Two given tokens, two trained, one given, one trained."""
    return {
        "schema_version": 1,
        "step": 2,
        "env_name": "sums",
        "token_ids": [1, 2, 3, 4, 5, last],
        "loss_mask": [False, False, True, True, False, True],
        "advantages": [0.0, 0.0, 0.5, 0.5, 0.0, 0.5],
        "inference_logprobs": [None, 0.0, -0.5, -0.25, 0.0, -1.0],
        "trainer_logprobs": [None, 0.0, -0.5, -0.75, 0.0, -1.5],
    }


def swe_agent(status: str = "submitted") -> dict[str, Any]:
    step = {"execution_time": 0.1, "state": {}, "extra_info": {}}
    return {
        "trajectory": [
            {
                **step,
                "query": [said("system", "You fix."), said("user", "Bug 1."), said("assistant", "Example.")],
                "thought": "Look first.",
                "response": "Look first.\n```\nls\n```",
                "action": "ls\n",
                "observation": "a.py\n",
            },
            {**step, "thought": "", "response": "", "action": "submit", "observation": "diff"},
        ],
        "history": [],
        "info": {"exit_status": status, "submission": "diff"},
        "environment": "main",
    }


def inspect_sample(epoch: int, value: Any = "C", **more: Any) -> dict[str, Any]:
    call = {"id": "c", "function": "add", "arguments": {"a": 1, "b": 2}, "type": "function"}
    return {
        "id": "sum-1",
        "epoch": epoch,
        "input": "1 + 2?",
        "target": "3",
        "messages": [
            said("user", "1 + 2?", source="input"),
            said("assistant", [{"type": "text", "text": "I add."}], tool_calls=[call]),
            said("tool", "attachment://0a", tool_call_id="c", function="add"),
            said("assistant", "3", model="m"),
        ],
        "scores": {"match": {"value": value, "answer": "3"}},
        "attachments": {"0a": "three"},
        **more,
    }


def write_lines(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def write_json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value, indent=1))
    return path


def write_zip(path: Path, samples: list[Any], packed: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packed) as archive:
        archive.writestr("header.json", '{"version": 2, "status": "success", "eval": {"task": "sums"}}')
        for i, sample in enumerate(samples):
            archive.writestr(f"samples/sum-1_epoch_{i + 1}.json", json.dumps(sample))
    return path
