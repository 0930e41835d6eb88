"""Importers against hostile files: every one ends in trajectories or in a ValueError that names the file."""

from __future__ import annotations

import copy
import json
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recordings import atif, chat, inspect_sample, prime_rl, swe_agent, verl, write_lines, write_zip

from gagpo.importers import READERS, Imported, Options, import_file
from gagpo.importers.prime_rl import MAX_PROMPT_IDS
from gagpo.importers.run_folder import write_run

RECORDS = {
    "chat": chat(0, 1.0, "JFK"),
    "atif": atif(1.0, "ls"),
    "verl": verl("2+2?", "4", 1.0),
    "prime_rl": prime_rl(),
    "swe_agent": swe_agent(),
    "inspect": inspect_sample(1),
}
ANY = Options(missing_reward=0)
GONE, DEEP, TWICE = "<gone>", "<deep>", "<twice>"
RAW = {f'"{DEEP}"': "[" * 3000 + "]" * 3000, f'"{TWICE}"': '{"k": 1, "k": 2}'}
HOSTILE: list[Any] = [
    GONE, DEEP, TWICE, None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, -(10**4000), 0.5, 1e308,
    float("nan"), float("inf"), "", "x", "\ud800", "\udc00 tail", "\x00", "\u202e", [], {}, [[]], [{}],
    [None], ["x"],
    {"": ""}, {"role": "assistant"}, {"text": "\ud83d"}, [{"type": "image"}], [{"type": "\udfff"}],
]  # fmt: skip
FUZZ = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """Every place in a JSON value, the whole included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inner for place in places(part, (*path, key)))]


def changed(value: Any, place: tuple, new: Any) -> Any:
    """A copy with another value at that place; GONE takes it out."""
    if not place:
        return new
    whole = copy.deepcopy(value)
    holder = whole
    for key in place[:-1]:
        holder = holder[key]
    if new == GONE:
        del holder[place[-1]]
    else:
        holder[place[-1]] = new
    return whole


def dumped(value: Any) -> str:
    text = json.dumps(value)
    for mark, raw in RAW.items():
        text = text.replace(mark, raw)
    return text


def write(path: Path, format: str, text: str) -> Path:
    if format == "inspect":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("samples/a_epoch_1.json", text)
    else:
        path.write_text(text)
    return path


def read_or_refused(path: Path, format: str | None, options: Options = ANY) -> Imported | str:
    """What was read, of which credit can be assigned; or the message, which names the file."""
    try:
        read = import_file(path, options, format)
    except ValueError as error:
        assert str(path) in str(error)
        assert str(error).isprintable()
        return str(error)
    assert np.isfinite(read.table().reward).all()
    return read


def test_the_recordings_themselves_are_read(tmp_path):
    for format, record in RECORDS.items():
        assert isinstance(read_or_refused(write(tmp_path / "f", format, json.dumps(record)), None), Imported)
    assert {*RECORDS, "steps"} == set(READERS)


@pytest.mark.parametrize("format", RECORDS)
@FUZZ
@given(data=st.data())
def test_any_field_may_hold_anything(tmp_path, format, data):
    record = RECORDS[format]
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(places(record)))
        new = data.draw(st.sampled_from(HOSTILE))
        record = changed(record, place, None if new == GONE and not place else new)
    path = write(tmp_path / "f", format, dumped(record))
    read_or_refused(path, format)
    read_or_refused(path, None)


@pytest.mark.parametrize("format", RECORDS)
def test_every_field_in_turn_holds_everything(tmp_path, format):
    """The same without chance, one field at a time; some of it is read, and most is refused."""
    told = []
    for place in places(RECORDS[format])[1:]:
        for new in HOSTILE:
            path = write(tmp_path / "f", format, dumped(changed(RECORDS[format], place, new)))
            told.append(read_or_refused(path, format))
    assert 0 < sum(isinstance(answer, str) for answer in told) < len(told)


@pytest.mark.parametrize("format", RECORDS)
@FUZZ
@given(data=st.data())
def test_any_bytes(tmp_path, format, data):
    path = write(tmp_path / "f", format, json.dumps(RECORDS[format]))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(bytes(content[:cut]) + data.draw(st.binary(max_size=8)))
    read_or_refused(path, format)
    read_or_refused(path, None)


@FUZZ
@given(data=st.data())
def test_any_bytes_of_a_steps_file(tmp_path, data):
    good = tmp_path / "run" / "steps" / "000001.parquet"
    if not good.exists():
        write_run(import_file(write_lines(tmp_path / "p", [prime_rl()]), ANY), tmp_path / "run")
    content = bytearray(good.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "f"
    path.write_bytes(content)
    read_or_refused(path, "steps")


@pytest.mark.parametrize(
    ("format", "place", "new", "told"),
    [
        (
            "chat",
            ("traj", 4, "tool_calls", 0, "function"),
            GONE,
            r"traj\[4\]: tool_calls\[0\]: function: null",
        ),
        ("chat", ("traj", 2, "role"), "bot", r'traj\[2\]: role: "bot"; expected one of system'),
        (
            "chat",
            ("traj", 2, "content"),
            "\ud800",
            r'traj\[2\]: content: "\\ud800"; expected whole characters',
        ),
        ("chat", ("traj", 2, "content"), 7, r"traj\[2\]: content: 7; expected a text or a list of parts"),
        ("chat", ("traj", 2), TWICE, 'key "k" stands twice in an object'),
        ("chat", ("traj",), DEEP, "nested too deeply"),
        ("chat", ("reward",), float("nan"), "reward: NaN; expected a finite number"),
        ("chat", ("reward",), 1e101, "reward: 1e.101; expected a finite number of at most 1e.100"),
        ("chat", ("trial",), 2**31, "trial: 2147483648; expected a whole number from 0 to 2147483647"),
        ("chat", ("task_id",), True, "task_id: true; expected a name or a whole number"),
        ("chat", ("truncated",), 1, "truncated: 1; expected true or false"),
        ("atif", ("schema_version",), "ATIF-v2.0", 'schema_version: "ATIF-v2.0"; expected ATIF-v1.0'),
        ("atif", ("steps", 3, "step_id"), 3, r"steps\[3\]: step_id: 3; expected a whole number from 4"),
        (
            "atif",
            ("steps", 2, "source"),
            "me",
            r'steps\[2\]: source: "me"; expected one of system, user, agent',
        ),
        ("atif", ("steps", 2, "metrics", "logprobs"), [0], "logprobs: 1 values for 3 completion tokens"),
        ("verl", ("score",), "high", 'score: "high"; expected a finite number'),
        ("verl", ("output",), None, "output: null; expected a text"),
        ("prime_rl", ("token_ids", 1), -1, r"token_ids\[1\]: -1; expected a whole number"),
        ("prime_rl", ("loss_mask", 1), 0, r"loss_mask\[1\]: 0; expected true or false"),
        ("prime_rl", ("loss_mask", 1), GONE, "expected columns of equal length"),
        (
            "swe_agent",
            ("trajectory", 1, "action"),
            GONE,
            r"trajectory\[1\]: action: missing; expected a text",
        ),
        ("swe_agent", ("info", "exit_status"), 3, "info: exit_status: 3; expected a text"),
        ("inspect", ("epoch",), 0, "epoch: 0; expected a whole number from 1"),
        ("inspect", ("scores", "match", "value"), "yes", 'scores: "match": value: "yes"; expected a finite'),
    ],
)
def test_errors_name_place_and_field(tmp_path, format, place, new, told):
    bad = dumped(changed(RECORDS[format], place, new))
    if format == "inspect":
        path = write(tmp_path / "f.eval", format, bad)
        where = r'f\.eval: "samples/a_epoch_1\.json": '
    else:
        good = {**RECORDS[format], "trial": 5} if format == "chat" else RECORDS[format]
        path = write(tmp_path / "f.jsonl", format, json.dumps(good) + "\n" + bad)
        where = r"f\.jsonl: line 2: "
    with pytest.raises(ValueError, match=where + ".*" + told):
        import_file(path, ANY)


def test_entries_of_a_list_are_counted(tmp_path):
    bad = dumped([RECORDS["chat"], TWICE])
    with pytest.raises(ValueError, match='f: entry 2: key "k" stands twice'):
        import_file(write(tmp_path / "f", "chat", bad))
    with pytest.raises(ValueError, match="f: entry 2: sibling 0 of task '3' is there twice"):
        import_file(write(tmp_path / "f", "chat", json.dumps([RECORDS["chat"]] * 2)))
    with pytest.raises(ValueError, match=r"f: line 1: .*expected UTF-8|f: .*expected UTF-8"):
        path = tmp_path / "f"
        path.write_bytes(b'{"messages": "\xff"}\n{}')
        import_file(path)


@pytest.mark.parametrize(
    "text", ["", "\n \n", "[]", "[", "{", "nonsense", "\x00" * 9, "[" * 10**6, "7", '"x"']
)
def test_files_that_hold_nothing(tmp_path, text):
    answer = read_or_refused(write(tmp_path / "f", "chat", text), None)
    assert isinstance(answer, str)
    assert isinstance(read_or_refused(tmp_path / "f", "chat"), str)


def test_files_that_are_none(tmp_path):
    for format in (*READERS, None):
        for path in (tmp_path, tmp_path / "missing"):
            assert isinstance(read_or_refused(path, format), str)


def test_sizes_are_bounded(tmp_path):
    small = Options(missing_reward=0, max_entry_bytes=2000)
    long = {**RECORDS["chat"], "pad": "x" * 2000}
    path = tmp_path / "f"
    for text, told in [
        (json.dumps(RECORDS["chat"] | {"trial": 1}) + "\n" + json.dumps(long), "line 2: longer than 2000"),
        (json.dumps([long]), "an item|of 2000 bytes at most"),
        (json.dumps(long, indent=1), "longer than 2000 bytes, and neither lines of JSON nor a list"),
    ]:
        with pytest.raises(ValueError, match=told):
            import_file(write(path, "chat", text), small, "chat")


def test_zip_bombs_are_refused_before_they_are_unpacked(tmp_path):
    bomb = b"[" + b" " * (64 << 20) + b"]"
    path = tmp_path / "f"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(3):
            archive.writestr(f"samples/{i}_epoch_1.json", bomb)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ValueError, match=r"f: \d+ bytes unpacked; expected 134217728 at most"):
        import_file(path, Options(max_total_bytes=128 << 20))
    with pytest.raises(
        ValueError, match=r'f: "samples/0_epoch_1.json": \d+ bytes unpacked; expected 1048576'
    ):
        import_file(path, Options(max_entry_bytes=1 << 20))
    # A header that lies about the size does not make zipfile unpack more than it says.
    content = path.read_bytes().replace(len(bomb).to_bytes(4, "little"), (100).to_bytes(4, "little"))
    path.write_bytes(content)
    assert isinstance(read_or_refused(path, None), str)


def test_a_text_that_is_repeated_until_it_fills_the_memory_is_refused(tmp_path):
    samples = [inspect_sample(i + 1) for i in range(20)]
    for sample in samples:
        sample["messages"][0]["content"] = "long " * 10_000
    run = write_run(import_file(write_zip(tmp_path / "f.eval", samples)), tmp_path / "run")
    path = run.steps_path(1)
    assert path.stat().st_size < 100_000
    with pytest.raises(ValueError, match=r"000001\.parquet: column '(goal|observation)': .* expected 500000"):
        import_file(path, Options(max_total_bytes=500_000))


def test_prompts_that_repeat_without_end_are_refused(tmp_path):
    num = 40_000  # 20,000 steps with 20,000 ids before them on average
    mask = [i % 2 == 1 for i in range(num)]
    ones = [0.0] * num
    record = prime_rl() | {"token_ids": [1] * num, "loss_mask": mask}
    record |= {"inference_logprobs": ones, "trainer_logprobs": ones}
    with pytest.raises(ValueError, match=f"line 1: loss_mask: .*exceed {MAX_PROMPT_IDS} ids"):
        import_file(write_lines(tmp_path / "f", [record]), ANY)


def test_nothing_is_executed(tmp_path):
    mark = tmp_path / "mark"
    code = f"__import__('pathlib').Path({str(mark)!r}).touch()"
    record = json.loads(json.dumps(RECORDS["chat"]).replace("hello", code).replace("JFK", code))
    (made,) = import_file(write_lines(tmp_path / "f", [record])).trajectories
    assert code in made.steps[0].observation and not mark.exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"state_key": "tool"}, "state_key: 'tool'; expected one of tools.*did you mean 'tools'"),
        ({"state_key": lambda messages: 7}, "state_key: name: 7; expected a text"),
        ({"state_key": lambda messages: "\ud800"}, "state_key: name: .*expected whole characters"),
        ({"missing_reward": float("nan")}, "missing_reward: NaN; expected a finite number"),
        ({"max_steps": 0}, "max_steps: 0; expected a whole number from 1"),
        ({"max_entry_bytes": 0}, "max_entry_bytes: 0; expected"),
        ({"reward_field": ""}, "reward_field: ''; expected a dotted path"),
    ],
)
def test_options_are_checked(tmp_path, options, told):
    with pytest.raises(ValueError, match=told):
        import_file(write_lines(tmp_path / "f", [RECORDS["chat"]]), Options(**options))


def test_a_tool_key_without_tools_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no tool is ever called: all states would be one"):
        import_file(write_lines(tmp_path / "f", [RECORDS["verl"]]), Options("tools"))


@pytest.mark.parametrize("is_list", [False, True])
def test_one_entry_is_held_at_a_time(tmp_path, is_list):
    record = json.dumps({"messages": [{"role": "user", "content": "x" * 100_000}]})
    records = [record] * 300  # without a step of the agent: none of it is kept
    records.append(json.dumps(RECORDS["chat"]))
    path = tmp_path / "f"
    path.write_text(f"[{','.join(records)}]" if is_list else "\n".join(records))
    assert path.stat().st_size > 30e6
    tracemalloc.start()
    read = import_file(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(read.trajectories) == 1 and list(read.dropped.values()) == [300]
    assert peak < (20e6 if is_list else 2e6)  # windows of 4 MiB, as bytes and as text
