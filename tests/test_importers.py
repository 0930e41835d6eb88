"""Importers: what hand-written recordings of each format become, field by field."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from recordings import (
    atif,
    chat,
    inspect_sample,
    prime_rl,
    said,
    swe_agent,
    verl,
    write_json,
    write_lines,
    write_zip,
)

from gagpo.config import CreditConfig
from gagpo.credit import assign_credit
from gagpo.importers import Options, combine, detect_format, import_file
from gagpo.importers.run_folder import write_run
from gagpo.stats import sharing_metrics
from gagpo.steps_file import read_credit, read_steps, read_trajectories
from gagpo.table import Outcome


def states(imported) -> list[list[int]]:
    """The state numbers of each trajectory, the final one last."""
    table = imported.table()
    parts = np.split(table.state, table.offsets[1:-1])
    return [[*map(int, part), int(last)] for part, last in zip(parts, table.final_state, strict=True)]


CHATS = [chat(0, 1.0, "JFK"), chat(1, 0.0, "EWR", greeting="hi")]


def test_a_chat_becomes_one_step_for_each_answer(tmp_path):
    read = import_file(write_json(tmp_path / "c.json", CHATS))
    assert (read.format, read.state_key, read.dropped) == ("chat", "tools", {})
    first, second = read.trajectories
    assert (first.task_id, first.sibling, first.success, second.sibling, second.success) == (
        *("3", 0, True, 1, False),
    )
    assert [step.observation for step in first.steps] == [
        "You book flights.\n\nhello", "Seven.", '{"id":7,"name":"Ann"}', "done",
    ]  # fmt: skip
    assert [step.action for step in first.steps] == [
        "Who are you?", 'look_up({"full":true,"user":7})', 'book({"to":"JFK"})', "Booked.",
    ]  # fmt: skip
    assert [step.reward for step in first.steps] == [0, 0, 0, 1.0]
    assert (first.goal, first.final_observation, first.outcome) == ("hello", "Thanks.", Outcome.TERMINATED)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        # Nothing called; nothing; looked up; booked JFK or EWR, whose results and further chat add nothing.
        ("tools", [[0, 0, 1, 2, 2], [0, 0, 1, 3, 3]]),
        ("last_result", [[0, 0, 1, 2, 2], [0, 0, 1, 2, 2]]),
        # Only the texts count: the two greetings differ, and so do the texts of the looked-up user.
        ("observation", [[0, 1, 2, 3, 4], [5, 1, 6, 3, 4]]),
        ("conversation", [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]),
        (lambda messages: str(sum(m.role == "user" for m in messages)), [[0, 1, 1, 1, 2], [0, 1, 1, 1, 2]]),
    ],
)
def test_states_under_each_key(tmp_path, key, expected):
    read = import_file(write_json(tmp_path / "c.json", CHATS), Options(state_key=key))
    assert states(read) == expected


def test_tool_keys_compare_values_and_not_their_writing(tmp_path):
    def keys(*pairs: tuple[str, str]) -> list[str]:
        records = []
        for arguments, result in pairs:
            call = {"id": "x", "type": "function", "function": {"name": "f", "arguments": arguments}}
            messages = [said("user", "u"), said("assistant", "", tool_calls=[call])]
            messages += [said("tool", result, tool_call_id="x"), said("assistant", "end")]
            records.append({"messages": messages, "reward": 0})
        read = import_file(write_lines(tmp_path / "k.jsonl", records))
        return [trajectory.steps[1].state_key for trajectory in read.trajectories]

    same = keys(('{"a": 1, "b": [2]}', "3"), ('{"b":[2],"a":1}', " 3 "))
    assert same[0] == same[1]
    others = keys(
        ('{"a": 1}', "3"), ('{"a": "1"}', "3"), ('{"a": 1.0}', "3"), ('{"a": true}', "3"),
        ('{"a": 1, "a": 1}', "3"), ('{"a": NaN}', "3"), ('{"a": 1e999}', "3"), ('{"a": 2e999}', "3"),
        ("[" * 5000, "3"), ('{"a": 1}', '"3"'),
        ('{"a": 1}', "text:3"), ('text:{"a":1}', "3"), ('{"a": 1}', ""),
    )  # fmt: skip
    assert len(set(others)) == len(others)


def test_parallel_calls_and_the_last_result(tmp_path):
    def call(key: str, name: str) -> dict:
        return {"id": key, "type": "function", "function": {"name": name, "arguments": "{}"}}

    both = said("assistant", "", tool_calls=[call("1", "f"), call("2", "g")])
    results = [said("tool", "one", tool_call_id="1"), said("tool", "two", tool_call_id="2")]
    again = [said("assistant", "", tool_calls=[call("3", "g")]), said("tool", "two", tool_call_id="3")]
    only = [said("user", "u"), *again, said("assistant", "end")]
    records = [
        {
            "messages": [
                said("user", "u"),
                both,
                *results,
                said("assistant", "x"),
                *again,
                said("assistant", "e"),
            ]
        },
        {"messages": only},
    ]
    path = write_lines(tmp_path / "p.jsonl", records)
    read = import_file(path, Options(state_key="last_result", missing_reward=0))
    # Start; both results, which chat leaves alone; the new call replaces them: as if it were the only one.
    assert states(read) == [[0, 1, 1, 2, 2], [0, 2, 2]]


def test_chats_without_tasks_are_siblings_where_their_prompts_are_equal(tmp_path):
    records = [
        [said("user", "1+1?"), said("assistant", "2")],
        {"messages": [said("user", "1+2?"), said("assistant", "3")], "reward": 0.5, "truncated": True},
        {"messages": [said("user", "1+1?"), said("assistant", "3")]},
    ]
    path = write_lines(tmp_path / "c.jsonl", records)
    read = import_file(path, Options(missing_reward=-1, state_key="observation", success_at=0.5))
    assert [(t.sibling, t.goal, t.total_reward, t.success) for t in read.trajectories] == [
        (0, "1+1?", -1.0, False), (1, "1+1?", -1.0, False), (0, "1+2?", 0.5, True),
    ]  # fmt: skip
    assert [t.outcome.name for t in read.trajectories] == ["TERMINATED", "TERMINATED", "TRUNCATED"]
    assert read.trajectories[0].task_id == read.trajectories[1].task_id != read.trajectories[2].task_id


def test_what_is_dropped_is_counted_by_reason(tmp_path):
    records = [
        {"messages": [said("user", "u"), said("assistant", "a")], "reward": 1},
        {"messages": [said("user", "u"), said("assistant", "a")]},
        {"messages": [said("user", "u"), said("assistant", "a")], "reward": None},
        {"messages": [said("user", "u")], "reward": 1},
    ]
    read = import_file(write_lines(tmp_path / "c.jsonl", records), Options(state_key="observation"))
    assert len(read.trajectories) == 1
    assert (
        sorted(read.dropped.values()) == [1, 2] and "left out: 2 attempts without a reward" in read.report()
    )
    with pytest.raises(
        ValueError, match=r"d\.jsonl: no trajectory left; left out: 1 attempts without a step"
    ):
        import_file(write_lines(tmp_path / "d.jsonl", records[3:]))


def test_fields_can_be_chosen(tmp_path):
    record = {"messages": [said("user", "u"), said("assistant", "a")], "reward": 0}
    record |= {"meta": {"score": 2.5, "id": "t-9", "run": 4, "what": "Do it."}}
    options = Options("observation", "meta.score", "meta.id", "meta.run", "meta.what", max_steps=1)
    (made,) = import_file(write_lines(tmp_path / "c.jsonl", [record]), options).trajectories
    assert (made.total_reward, made.task_id, made.sibling, made.goal) == (2.5, "t-9", 4, "Do it.")
    assert made.outcome == Outcome.TRUNCATED
    with pytest.raises(ValueError, match=r"line 1: meta\.scores: missing; it was chosen"):
        import_file(tmp_path / "c.jsonl", Options("observation", "meta.scores"))


def test_atif(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [atif(1.0, "ls"), atif(0.0, "ls"), atif(None, "ls")])
    read = import_file(path)
    assert (read.format, len(read.trajectories)) == ("atif", 2)
    assert read.dropped["steps copied from an earlier context"] == 3
    first, second = read.trajectories
    assert first.task_id == second.task_id and (first.sibling, second.sibling) == (0, 1)
    assert [step.action for step in first.steps] == ['I look.\nbash({"command":"ls"})', "Fixed."]
    assert [step.observation for step in first.steps] == ["Fix it.\n\nFrom before.", "a.py"]
    assert first.steps[0].action_ids == (7, 8, 9) and first.steps[0].prompt_ids == (5, 6)
    assert first.steps[0].logprobs == (-0.5, -0.25, -1.0) and first.steps[1].action_ids == ()
    assert states(read) == [[0, 1, 1], [0, 1, 1]]


def test_verl(tmp_path):
    records = [verl("2+2?", "4", 1.0), verl("2+3?", "4", 0.0), verl("2+2?", "5", 0.0)]
    read = import_file(write_lines(tmp_path / "3.jsonl", records))
    assert (read.format, read.state_key) == ("verl", "observation")
    assert [(t.goal, t.steps[0].action, t.sibling, t.success) for t in read.trajectories] == [
        ("2+2?", "4", 0, True), ("2+2?", "5", 1, False), ("2+3?", "4", 0, False),
    ]  # fmt: skip
    assert {t.policy_version for t in read.trajectories} == {2}
    credit = assign_credit(read.table(), CreditConfig(estimator="grpo", normalize="none", gamma=1.0))
    assert credit.advantage.tolist() == [0.5, -0.5, 0.0]


def test_prime_rl(tmp_path):
    gap = {**prime_rl(), "inference_logprobs": [None, 0.0, -0.5, None, 0.0, -1.0]}
    path = write_lines(tmp_path / "rank_0.jsonl", [prime_rl(), prime_rl(9), gap])
    read = import_file(
        path, Options(missing_reward=0.25, decode=lambda ids: "".join(chr(96 + i) for i in ids))
    )
    assert (read.format, sum(read.dropped.values())) == ("prime_rl", 1)
    first, second = read.trajectories
    assert [(s.observation, s.action) for s in first.steps] == [("ab", "cd"), ("e", "f")]
    assert [s.prompt_ids for s in first.steps] == [(1, 2), (1, 2, 3, 4, 5)]
    assert [s.logprobs for s in second.steps] == [(-0.5, -0.25), (-1.0,)]
    assert [old.tolist() for old in read.old_logprobs] == [[-0.5, -0.75], [-1.5]] * 2
    assert first.task_id == second.task_id and first.policy_version == 2 and first.total_reward == 0.25
    assert states(read) == [[0, 1, 2], [0, 1, 3]]
    plain = import_file(path, Options(missing_reward=0))
    assert plain.trajectories[0].steps[1].observation == "5"


def test_swe_agent(tmp_path):
    read = import_file(write_json(tmp_path / "repo-1.traj", swe_agent()), Options(missing_reward=1))
    (made,) = read.trajectories
    assert (read.format, made.task_id, made.outcome) == ("swe_agent", "repo-1", Outcome.TERMINATED)
    assert [s.observation for s in made.steps] == ["You fix.\n\nBug 1.\n\nExample.", "a.py\n"]
    assert [s.action for s in made.steps] == ["Look first.\naction(ls\n)", "action(submit)"]
    assert (made.goal, made.final_observation) == ("Bug 1.", "diff")
    old = swe_agent("exit_cost")
    old["history"] = [
        said("user", "Bug 1."),
        said("assistant", "Demo.", is_demo=True),
        said("assistant", "x"),
    ]
    del old["trajectory"][0]["query"]
    (made,) = import_file(write_json(tmp_path / "o.traj", old), Options(missing_reward=0)).trajectories
    assert made.steps[0].observation == "Bug 1.\n\nDemo." and made.outcome == Outcome.TRUNCATED


def test_inspect(tmp_path):
    failed = inspect_sample(3, error={"message": "boom"})
    refused = inspect_sample(4, 0.75, limit={"type": "message", "limit": 4})
    refused["messages"][2]["error"] = {"type": "timeout", "message": "too slow"}
    path = write_zip(tmp_path / "x.eval", [inspect_sample(2, "I"), inspect_sample(1), failed, refused])
    read = import_file(path)
    assert (read.format, read.dropped) == ("inspect", {"samples that ended in an error": 1})
    assert [(t.task_id, t.sibling, t.total_reward, t.outcome.name) for t in read.trajectories] == [
        ("sum-1", 0, 1.0, "TERMINATED"), ("sum-1", 1, 0.0, "TERMINATED"), ("sum-1", 3, 0.75, "TRUNCATED"),
    ]  # fmt: skip
    assert [s.action for s in read.trajectories[0].steps] == ['I add.\nadd({"a":1,"b":2})', "3"]
    assert read.trajectories[0].steps[1].observation == "three"
    assert [[s.valid for s in t.steps] for t in read.trajectories] == [[True, True]] * 2 + [[False, True]]
    two = inspect_sample(1, scores={"a": {"value": 1}, "b": {"value": {"f": 0.5}}})
    write_zip(path, [two])
    with pytest.raises(ValueError, match=r'scores: \["a", "b"\]; expected one, or its reward_field'):
        import_file(path)
    assert import_file(path, Options(reward_field="scores.b.value.f")).trajectories[0].total_reward == 0.5


def test_own_steps_come_back_as_they_were(tmp_path):
    path = write_lines(tmp_path / "rank_0.jsonl", [prime_rl(), prime_rl(9)])
    first = import_file(path, Options(missing_reward=1))
    run = write_run(first, tmp_path / "run")
    again = import_file(run.steps_path(1))
    assert (again.format, again.state_key) == ("steps", "recorded")
    assert again.trajectories == first.trajectories
    assert [old.tolist() for old in again.old_logprobs] == [old.tolist() for old in first.old_logprobs]
    assert states(import_file(run.steps_path(1), Options("observation"))) == [[0, 1, 2], [0, 1, 2]]
    assert states(import_file(run.steps_path(1), Options("conversation"))) == [[0, 1, 2], [0, 1, 3]]
    with pytest.raises(ValueError, match="state_key: 'tools'; expected one of recorded, observation"):
        import_file(run.steps_path(1), Options("tools"))


def test_every_policy_version_is_an_iteration_of_the_run_folder(tmp_path):
    late = [{**verl("2+2?", answer, score), "step": 9} for answer, score in (("4", 1.0), ("6", 1.0))]
    early = [verl("2+2?", "4", 1.0), verl("2+2?", "5", 0.0)]
    parts = [import_file(write_lines(tmp_path / n, r)) for n, r in (("9.jsonl", late), ("3.jsonl", early))]
    both = combine(parts)
    assert [(t.sibling, t.policy_version) for t in both.trajectories] == [(0, 8), (1, 8), (2, 2), (3, 2)]
    run = write_run(both, tmp_path / "runs" / "x", CreditConfig(estimator="grpo", normalize="none"))
    assert run.iterations_with_steps() == [1, 2]
    assert read_credit(read_steps(run.steps_path(1))).advantage.tolist() == [0.5, -0.5]
    assert read_credit(read_steps(run.steps_path(2))).advantage.tolist() == [0.0, 0.0]
    assert [t.policy_version for t in read_trajectories(read_steps(run.steps_path(2)))] == [8, 8]
    assert (run.read_status().state, run.read_config().credit.estimator) == ("complete", "grpo")
    assert run.read_facts()["imported"] == {"format": "verl", "state_key": "observation", "dropped": {}}
    with pytest.raises(ValueError, match="x: holds a run already"):
        write_run(both, tmp_path / "runs" / "x")
    with pytest.raises(ValueError, match="expected one format and one state key"):
        combine([*parts, import_file(write_json(tmp_path / "c.json", CHATS))])


def test_shares_by_hand(tmp_path):
    read = import_file(write_json(tmp_path / "c.json", CHATS))
    # 0 0 1 2 and 0 0 1 3: three of four steps in shared states, one of them beyond the start; 0 repeats.
    expected = {"shared_share": 6 / 8, "later_shared_share": 2 / 8, "state_repeat_share": 2 / 8}
    assert sharing_metrics(read.table()) == expected


def test_formats_are_told_from_the_content(tmp_path):
    records = {"chat": CHATS[0], "atif": atif(1, "ls"), "verl": verl("a", "b", 0), "prime_rl": prime_rl()}
    for format, record in {**records, "swe_agent": swe_agent()}.items():
        for write in (write_json, lambda path, value: write_lines(path, [value, value])):
            assert detect_format(write(tmp_path / "file", record)) == format
    assert detect_format(write_json(tmp_path / "file", [CHATS[0]])) == "chat"
    assert detect_format(write_lines(tmp_path / "file", [[said("user", "u")]] * 2)) == "chat"
    assert detect_format(write_zip(tmp_path / "file", [inspect_sample(1)])) == "inspect"


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"input": "a", "output": "b"}, "nearest is verl, of which it lacks 'score'"),
        ({"input": "a", "output": "b", "scores": 1}, r"lacks 'score' \(it has \"scores\"\)"),
        ({"message": []}, r"nearest is chat, of which it lacks 'messages' \(it has \"message\"\)"),
        ({"steps": []}, "nearest is atif, of which it lacks 'schema_version'"),
        ({"zzz": 1}, "expected one of steps, inspect, atif"),
        (7, "7; expected an object, or a list of chat messages"),
    ],
)
def test_the_nearest_format_is_named(tmp_path, record, told):
    with pytest.raises(ValueError, match=told):
        import_file(write_lines(tmp_path / "file", [record]))
    with pytest.raises(ValueError, match=r"format: 'inspct'; .*did you mean 'inspect'"):
        import_file(tmp_path / "file", format="inspct")


def test_all_ways_to_write_json_are_one(tmp_path):
    ways = {
        "list.json": json.dumps(CHATS),
        "pretty.json": json.dumps(CHATS, indent=2),
        "lines.jsonl": "\n\n".join(json.dumps(chat) for chat in CHATS),
        "crlf.jsonl": "".join(json.dumps(chat) + "\r\n" for chat in CHATS),
        "bom.jsonl": "\ufeff" + "".join(json.dumps(chat) + "\n" for chat in CHATS),
    }
    for name, text in ways.items():
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
        assert import_file(tmp_path / name).trajectories == import_file(tmp_path / "list.json").trajectories
    lists = [chat["traj"] for chat in CHATS]
    write_lines(tmp_path / "lists.jsonl", lists)
    assert len(import_file(tmp_path / "lists.jsonl", Options(missing_reward=0)).trajectories) == 2


def test_a_stored_zip_is_read_and_others_are_refused(tmp_path):
    path = write_zip(tmp_path / "s.eval", [inspect_sample(1)], zipfile.ZIP_STORED)
    assert len(import_file(path).trajectories) == 1
    write_zip(path, [inspect_sample(1)], zipfile.ZIP_BZIP2)
    with pytest.raises(ValueError, match=r'epoch_1\.json": packed by method 12; expected deflate'):
        import_file(path)
