"""Search: what Anserini answered, a slow reference, hand-computed scores, and folders that are damaged."""

from __future__ import annotations

import base64
import json
import math
import shutil
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import record_lucene
from hypothesis import given, settings
from hypothesis import strategies as st

from gagpo.envs.webshop import index_files, postings
from gagpo.envs.webshop.analysis import analyze
from gagpo.envs.webshop.index import Index, build_index
from gagpo.envs.webshop.porter import stem
from gagpo.envs.webshop.wordbreak import RANGES, words

GOLDEN = json.loads(record_lucene.GOLDEN.read_text("utf-8"))
DOCUMENTS, QUERIES = record_lucene.documents(), record_lucene.queries()
SHOP = [("c", "red shoe blue"), ("a", "red shirt"), ("b", "red shirts"), ("d", "")]


# What Anserini answered


def test_what_was_asked_is_what_is_asked_here():
    assert record_lucene.digest([DOCUMENTS, QUERIES]) == GOLDEN["asked_sha256"]
    assert len(DOCUMENTS) == 400 and len(QUERIES) == len(GOLDEN["hits"]) == 450 and len(GOLDEN["terms"]) > 500


def test_hits_and_scores_are_those_of_anserini_to_the_last_bit():
    index = Index.in_memory(DOCUMENTS)
    num_ties = 0
    for query, numbers, scores in zip(QUERIES, GOLDEN["hits"], GOLDEN["scores"], strict=True):
        hits = index.search(query, record_lucene.K)
        assert [doc_id for doc_id, _ in hits] == [DOCUMENTS[number][0] for number in numbers], query
        wanted = np.frombuffer(base64.b64decode(scores), "<f4")
        assert [score for _, score in hits] == wanted.tolist(), query
        num_ties += len(set(wanted.tolist())) < len(wanted)
    assert num_ties > 300  # so that the order of ties was put to the test


def test_terms_are_those_of_anserini():
    for text, terms in GOLDEN["terms"]:
        assert analyze(text) == terms, ascii(text)


def test_the_classes_of_characters_are_those_of_the_tokenizer():
    in_order = {letter: " ".join(ranges.split()) for letter, ranges in RANGES.items()}
    assert record_lucene.digest(in_order) == GOLDEN["classes_sha256"]


# Words and stems


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The women's T-shirt, 12.5oz", ["The", "women's", "T", "shirt", "12.5oz"]),
        (
            "a.b a..b 1,000 1,a a:b foo_bar __ _x",
            ["a.b", "a", "b", "1,000", "1", "a", "a:b", "foo_bar", "_x"],
        ),
        ("中文 ひら カメラ ภาษา", ["中", "文", "ひ", "ら", "カメラ", "ภาษา"]),
        ("👍🏽 👩\u200d🔬 🇩🇪🇫🇷 #️⃣ ™", ["👍🏽", "👩\u200d🔬", "🇩🇪", "🇫🇷", "#️⃣", "™"]),
        ("x" * 256, ["x" * 255, "x"]),
        ("\U00010400" * 128, ["\U00010400" * 127, "\U00010400"]),
        ("_" * 300 + "a", ["_" * 254 + "a"]),
        ("ℹ\u200d👍 ℹ\u200dab", ["ℹ\u200d👍", "ℹ\u200dab"]),  # the longer of two readings
    ],
)
def test_words(text, wanted):
    assert words(text) == wanted


@settings(max_examples=300)
@given(st.text("aZ19_'.,:;- \n", max_size=30), st.sampled_from(["", "x" * 130, "_" * 300]))
def test_words_of_ascii_are_those_of_the_general_rules(text, more):
    blank = "\u3000"  # makes the text one that is not in ASCII
    assert words(text + more) == words(blank + text + more)


@pytest.mark.parametrize(
    ("word", "wanted"),
    [  # from the tables of Porter's paper, and what his program does beyond it
        *(("caresses", "caress"), ("ponies", "poni"), ("ties", "ti"), ("cats", "cat"), ("feed", "feed")),
        *(("agreed", "agre"), ("plastered", "plaster"), ("bled", "bled"), ("motoring", "motor")),
        *(("sing", "sing"), ("conflated", "conflat"), ("troubled", "troubl"), ("sized", "size")),
        *(("hopping", "hop"), ("falling", "fall"), ("hissing", "hiss"), ("filing", "file")),
        *(("happy", "happi"), ("sky", "sky"), ("relational", "relat"), ("rational", "ration")),
        *(("adoption", "adopt"), ("adorion", "adorion"), ("controll", "control"), ("roll", "roll")),
        *(("probate", "probat"), ("rate", "rate"), ("cease", "ceas"), ("generalizations", "gener")),
        *(("possibly", "possibl"), ("apology", "apolog"), ("as", "as"), ("", "")),
    ],
)
def test_stems(word, wanted):
    assert stem(word) == wanted


@pytest.mark.parametrize(
    "text", ["_", "a_", "é_", "\u200d", "_\u0301", "😍\u200d", "a'", 'א"', "😍\u200d\u0301", "#\u0301"]
)
def test_no_text_costs_quadratic_time(text):
    def cpu_s(times: int) -> float:
        spent = []
        for _ in range(3):
            start = time.process_time()
            words(text * times)
            spent.append(time.process_time() - start)
        return min(spent)

    assert cpu_s(8000) < 8 * cpu_s(2000) + 0.1  # 16 times if it were quadratic


# Scores


def test_a_score_worked_out_by_hand():
    """Three documents count, of 3 + 2 + 2 terms: 7 / 3 on average. `shirt` is in two of them."""
    hits = Index.in_memory(SHOP).search("Shirt!")
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    slope = 1 / (0.9 * (0.6 + 0.4 * 2 / (7 / 3)))
    assert [doc_id for doc_id, _ in hits] == ["a", "b"]
    assert [score for _, score in hits] == pytest.approx([idf - idf / (1 + slope)] * 2, rel=1e-6)


def rounded_length(length: int) -> int:
    """Lengths from 24 on keep four bits of what is beyond 24."""
    beyond = length - 24
    lost = max(beyond.bit_length() - 4, 0)
    return length if beyond < 0 else 24 + (beyond >> lost << lost)


def test_lengths_that_a_byte_can_tell_apart():
    known = postings.lengths_of_bytes()
    assert len(known) == 256 and (np.diff(known) > 0).all() and known[-1] == 2_013_265_944
    assert known[:42].tolist() == [*range(40), 40, 42]
    for length in [*range(3000), 12_345, 10**6, 2**31 - 1]:
        assert known[known <= length].max() == rounded_length(length)


def slow_search(documents: list[tuple[str, str]], query: str, k: int) -> list[tuple[str, float]]:
    """The formula, document by document."""
    one = np.float32(1)
    terms = {doc_id: analyze(contents) for doc_id, contents in documents}
    counted = [found for found in terms.values() if found]
    average = np.float32(sum(map(len, counted)) / max(len(counted), 1))
    hits = []
    for doc_id, found in terms.items():
        total = 0.0
        for term, times in Counter(analyze(query)).items():
            frequency, num = found.count(term), sum(term in other for other in counted)
            if frequency:
                idf = np.float32(math.log(1 + (len(counted) - num + 0.5) / (num + 0.5)))
                length = np.float32(rounded_length(len(found)))
                norm = np.float32(0.9) * ((one - np.float32(0.4)) + np.float32(0.4) * length / average)
                weight = np.float32(times) * idf
                total += float(weight - weight / (one + np.float32(frequency) * (one / norm)))
        if total:
            hits.append((doc_id, float(np.float32(total))))
    return sorted(hits, key=lambda hit: (-hit[1], hit[0].encode()))[:k]


TEXTS = st.lists(
    st.sampled_from(["red", "reds", "blue", "the", "42", "é", "shoe", "-", "x " * 30]), max_size=12
)
SHOPS = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), TEXTS.map(" ".join), max_size=12)


@settings(deadline=None, max_examples=100)
@given(SHOPS, TEXTS.map(" ".join), st.integers(1, 8), st.integers(1, 40))
def test_search_equals_the_formula(shop, query, k, num_pending):
    documents = [*shop.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "NUM_PENDING", num_pending)
        index = Index.in_memory(documents)
    assert len(index) == len(documents)
    assert index.search(query, k) == slow_search(documents, query, k)


@given(st.text(max_size=300))
def test_any_text_can_be_a_document_and_a_query(text):
    hits = Index.in_memory([("a", text), ("b", "other")]).search(text)
    assert ("a" in dict(hits)) == bool(analyze(text))


def test_nothing_to_find():
    for documents in ([], [("a", "")], [("a", "the of")], SHOP):
        index = Index.in_memory(documents)
        assert index.search("") == index.search("the") == index.search("unknown") == []
    assert Index.in_memory([]).search("red") == [] and len(Index.in_memory([("a", "")])) == 1
    with pytest.raises(ValueError, match="k: 0, expected at least 1"):
        Index.in_memory(SHOP).search("red", 0)


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([("a", "x"), ("b", "y"), ("a", "z")], "id: 'a' came twice"),
        ([("a", None)], "contents of document 0: None"),
        ([("a", ""), (3, "x")], "id of document 1: 3"),
        ([("\ud800", "x")], "surrogates"),
    ],
)
def test_documents_that_cannot_be(documents, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        Index.in_memory(documents)
    with pytest.raises(ValueError, match=message):
        build_index(documents, tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


# Folders


@pytest.mark.parametrize("documents", [[], [("a", "")], SHOP, DOCUMENTS], ids=len)
def test_a_folder_answers_as_memory_does(documents, tmp_path, monkeypatch):
    in_memory = Index.in_memory(documents)
    monkeypatch.setattr(postings, "NUM_PENDING", 5000)
    build_index(iter(documents[::-1]), tmp_path / "new" / "index", source="a test")
    index = Index.open(tmp_path / "new" / "index")
    assert len(index) == len(documents)
    for query in ["red shirt", *QUERIES]:
        assert index.search(query) == in_memory.search(query)
    assert json.loads((tmp_path / "new/index/manifest.json").read_text())["source"] == "a test"
    names = {path.name for path in (tmp_path / "new" / "index").iterdir()}
    assert names == {"manifest.json", *(f"{name}.npy" for name in index_files.TYPES)}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["index"]


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    def broken():
        yield "a", "red shirt"
        raise KeyError("the source broke off")

    with pytest.raises(KeyError):
        build_index(broken(), tmp_path / "index")
    assert list(tmp_path.iterdir()) == []
    build_index(SHOP, tmp_path / "index")
    with pytest.raises(ValueError, match="index exists, expected a new name"):
        build_index([], tmp_path / "index")
    assert len(Index.open(tmp_path / "index")) == 4


@pytest.fixture
def folder(tmp_path) -> Path:
    build_index(SHOP, tmp_path / "index")
    return tmp_path / "index"


def refused(folder: Path, name: str) -> str:
    """The message of the error, which has to name the file and what to do."""
    with pytest.raises(ValueError, match="build it again") as caught:
        Index.open(folder)
    assert str(caught.value).startswith(f"{folder / name}: ")
    return str(caught.value)


FILES = ["manifest.json", *(f"{name}.npy" for name in index_files.TYPES)]


@pytest.mark.parametrize("name", FILES)
def test_damage_to_any_file_is_seen(folder, name):
    path = folder / name
    content = path.read_bytes()
    for at in {0, len(content) // 3, len(content) // 2, len(content) - 3}:
        path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        refused(folder, name)
    for damaged in (content[:-1] + b"~", content[:-2], content + b"0", b""):
        path.write_bytes(damaged)
        refused(folder, name)
    path.unlink()
    assert "missing" in refused(folder, name)
    path.symlink_to("/dev/zero")
    assert "not a regular file" in refused(folder, name)
    path.unlink()
    path.mkdir()
    assert "not a regular file" in refused(folder, name)


def test_a_folder_that_is_none(tmp_path):
    refused(tmp_path, "manifest.json")
    refused(tmp_path / "missing", "manifest.json")
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    assert "not JSON" in refused(tmp_path, "manifest.json")
    (tmp_path / "manifest.json").write_bytes(b" " * (index_files.MAX_MANIFEST + 1))
    assert "more than" in refused(tmp_path, "manifest.json")


def sign(folder: Path, **changes: object) -> None:
    """Make the manifest fit the files: what someone would do who means harm."""
    content = json.loads((folder / "manifest.json").read_text())
    del content["checksum"]
    for name, entry in content["files"].items():
        path = folder / f"{name}.npy"
        values = np.load(path, allow_pickle=True)
        entry |= {"size": len(values), "num_bytes": path.stat().st_size, "sha256": index_files._sha256(path)}
    content |= changes
    content["checksum"] = index_files._checksum(content)
    (folder / "manifest.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("docs", np.array([0, 1, 2, 0, 1, 2_000_000_000], np.int32), "outside 0 to 3"),
        ("docs", np.array([0, 1, 2, 0, 1, -1, 0], np.int32), "outside 0 to 3"),
        ("docs", np.zeros(7), "float64"),
        ("docs", np.array([{}] * 7, object), "not a .npy file of numbers"),
        ("divisors", np.array([2, 2, 2, 2, 2, 2, np.nan], np.float32), "at least 1"),
        ("divisors", np.array([2, 2, 2, 2, 2, 2, 0], np.float32), "at least 1"),
        ("divisors", np.array([2, 2], np.float32), "for each pair"),
        ("starts", np.array([0, 1, 4, 2, 7]), "does not ascend"),
        ("starts", np.array([0, -1, 4, 6, 7]), "does not ascend"),
        ("starts", np.array([0, 1, 4, 6, 9]), "does not ascend"),
        ("starts", np.array([0, 1, 7]), "one row for each term"),
        ("starts", np.array([], np.int64), "does not ascend"),
        ("id_offsets", np.array([0, 1, 2, 3, 2**62]), "does not ascend"),
        ("term_offsets", np.array([[0], [1]]), r"\(2, 1\)"),
    ],
)
def test_a_signed_folder_with_numbers_that_point_elsewhere_is_refused(folder, name, values, message):
    if name == "docs" and len(values) == 6:
        values = np.append(values, np.int32(0))
    np.save(folder / f"{name}.npy", values)
    sign(folder)
    refused(folder, f"{name}.npy")
    with pytest.raises(ValueError, match=message):
        Index.open(folder)


@pytest.mark.parametrize(
    "changes",
    [
        *({"num_counted": number} for number in (-1, 2, 5, True, 3.0, "3", None)),
        *({"files": files} for files in ({}, [], None, {"docs": {}})),
        {"format": "gagpo search index 0"},
    ],
    ids=str,
)
def test_a_signed_manifest_of_another_kind_is_refused(folder, changes):
    sign(folder)
    assert Index.open(folder).search("shirt")
    sign(folder, **changes)
    refused(folder, "manifest.json")


def test_an_index_needs_no_other_name_or_place(folder, tmp_path):
    shutil.move(folder, tmp_path / "elsewhere")
    assert Index.open(tmp_path / "elsewhere").search("shoe") == Index.in_memory(SHOP).search("shoe")
