"""Records what Anserini answers: `python tests/record_lucene.py anserini-0.22.1-fatjar.jar`.

The jar lies in the wheel of pyserini 0.22.1 (`pip download --no-deps pyserini==0.22.1`); Java 11 or
newer runs it. Generated documents are indexed by Anserini's own IndexCollection, as WebShop does
it, and searched by its SimpleSearcher; odd strings go through its analyzer. The answers are written
to `tests/data/lucene_golden.json`. Documents and queries are not: they follow from a seed, by
`rng.random()` alone, which is the same in every version of Python.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gagpo.envs.webshop.wordbreak import RANGES

GOLDEN = Path(__file__).with_name("data") / "lucene_golden.json"
K = 50
PRODUCTS = """
    women's men's kids shirt shirts t-shirt dress dresses shoes shoe running runner easy-clean waterproof
    cotton polyester machine wash washable hand-made handmade imported natural organic gluten-free sugar-free
    vegan tea coffee chocolate snack snacks 12oz 16 ounce 1.5 2.4ghz 1,000 100% 4k 3-pack pack of 2 black
    white navy blue red rose gold stainless steel wood wooden solid furniture table tables chair living room
    bedroom lighting light lights led usb-c hdmi cable cables wireless bluetooth headphones noise cancelling
    quick release tripod camera battery batteries included easy to use the for with and a in heavy duty
    height adjustable memory foam mattress hair extensions extension shampoo conditioner sulfate paraben free
    cruelty sensitive skin relational relate happily happiness organization organizer organizers
    generalizations oscillators hopping hoping agreed feed caf\u00e9 na\u00efve cr\u00e8me br\u00fbl\u00e9e
    \u2122 \u00ae 5\u00bd\u2033 \u4e2d\u6587 \u30ab\u30e1\u30e9 \u3072\u3089 \ud55c\uad6d\uc5b4
    \u0e20\u0e32\u0e29\u0e32 \U0001f60d \U0001f44d\U0001f3fd \u2764\ufe0f \u0130stanbul
    \u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2 L'Or\u00e9al Levi\u2019s mother\uff07s u.s.a. at&t foo_bar
    x-large xx__y 10' 6'2 o'neill's rock'n'roll https://www.example.com/a?b=1 \U00010400\U00010401s
"""
ENDINGS = """
    ational tional enci anci izer bli alli entli eli ousli ization ation ator alism iveness fulness
    ousness aliti iviti biliti logi icate ative alize iciti ical ful ness al ance ence er ic able ible
    ant ement ment ent sion tion ion ou ism ate iti ous ive ize s es ies sses ed ing eed y e le ll
"""
WORDS, SUFFIXES = PRODUCTS.split(), ENDINGS.split()
# The letters of RANGES for the tokenizer's own numbers of the classes. Hangul behaves as other letters do.
CLASSES = dict(zip(range(1, 29), "\"#',.1:a_pxhnsvazkictrofgmyw", strict=True))


def pick(rng: random.Random, values: Sequence) -> object:
    return values[int(rng.random() * len(values))]


def text(rng: random.Random, num_words: int) -> str:
    """Words of which the first are common and the last are rare, with some punctuation between them."""
    words = [WORDS[int(len(WORDS) * rng.random() ** 1.7)] for _ in range(num_words)]
    marks = [", ", ". ", "-", "/", "\n", *45 * [" "]]
    return "".join(f"{word}{pick(rng, marks)}" for word in words)


def documents() -> list[tuple[str, str]]:
    """400 products: many of one length, some equal to others, some empty, some very long."""
    rng = random.Random(7)
    found = []
    for number in range(400):
        length = pick(rng, [3, 8, 8, 8, 20, 20, 60, 60, 150, 150, 400])
        contents = text(rng, length if number % 80 else 6000)
        kind = rng.random()
        if kind < 0.15 and found:
            contents = pick(rng, found)[1]  # so that scores are equal
        elif kind < 0.2:
            contents = pick(rng, ["", "  ", "the of and", "-", "to be or not to be"])
        elif kind < 0.25:
            contents += " " + pick(rng, ["ab", "_", "\U00010400", "7"]) * pick(rng, [127, 255, 256, 300])
        prefix = pick(rng, ["B0", "b0", "A", "_", "é", "中", ""])
        found.append((f"{prefix}{number * 7919 % 1000}", contents))
    return found


def queries() -> list[str]:
    """450 queries of one to twelve words, some of them repeated or unknown, and a few odd ones."""
    rng = random.Random(8)
    found = ["", "the", "zzzzz", "ab" * 150, "shirt " * 40, "!!!", "\U0001f60d", " ".join(WORDS)]
    while len(found) < 450:
        words = text(rng, 1 + int(rng.random() * 12))
        found.append(words + pick(rng, ["", "", "", words, " unknownword", " shirt shirt"]))
    return found


def odd_strings() -> list[str]:
    """Strings of every class of characters, words around the longest length, and words with suffixes."""
    rng = random.Random(9)
    points = {
        letter: [chr(int(end, 16)) for part in ranges.split() for end in part.split("-")]
        for letter, ranges in RANGES.items()
    } | {" ": [" ", "-", "\u2014", "\n", "\u0378", "\U00010fff"]}
    found = []
    for _ in range(220):
        letters = [pick(rng, list(points)) for _ in range(1 + int(rng.random() * 5))]
        if rng.random() < 0.3:
            letters = list("pzmfi")
        length = 1 + int(rng.random() * 12)
        found.append("".join(pick(rng, points[pick(rng, letters)]) for _ in range(length)))
    for length in (127, 128, 254, 255, 256, 511):
        found += [letter * length + "a.b" for letter in ("x", "\U00010400", "_", "\u200d", "1")]
    for _ in range(250):
        word = "".join(pick(rng, "aeiouybcdlstwxz") for _ in range(int(rng.random() * 5)))
        word += "".join(pick(rng, SUFFIXES) for _ in range(int(rng.random() * 3)))
        found.append(word + pick(rng, ["", "", "", "'s", "\u2019S", "s'"]))
    return found + WORDS[-60:]


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def run(*command: str | Path) -> None:
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL)


def ask(jar: Path, request: dict, folder: Path) -> dict:
    """What LuceneRecorder answers."""
    (folder / "request.json").write_text(json.dumps(request))
    recorder = Path(__file__).with_name("LuceneRecorder.java")
    run("java", "-cp", jar, recorder, folder / "request.json", folder / "answer.json")
    return json.loads((folder / "answer.json").read_text("utf-8"))


def index(jar: Path, docs: list[tuple[str, str]], folder: Path) -> Path:
    """An index that Anserini makes, with the options that WebShop gives it."""
    (folder / "documents").mkdir()
    lines = [json.dumps({"id": doc_id, "contents": contents}) + "\n" for doc_id, contents in docs]
    (folder / "documents" / "all.jsonl").write_text("".join(lines))
    options = ["-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator"]
    options += ["-threads", "1", "-storePositions", "-storeDocvectors", "-storeRaw"]
    where = ["-input", folder / "documents", "-index", folder / "index"]
    run("java", "-cp", jar, "io.anserini.index.IndexCollection", *options, *where)
    return folder / "index"


def ranges(runs: list[list[int]]) -> dict[str, str]:
    """The tokenizer's classes in the form of RANGES."""
    spans: dict[str, list[list[int]]] = {letter: [] for letter in RANGES}
    for number, first, last in runs:
        known = spans.get(CLASSES.get(number, ""), [])
        if known and known[-1][1] + 1 == first:
            known[-1][1] = last
        else:
            known.append([first, last])
    return {
        letter: " ".join(f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in known)
        for letter, known in spans.items()
    }


def main(jar: Path) -> None:
    docs, asked, strings = documents(), queries(), odd_strings()
    number_of = {doc_id: number for number, (doc_id, _) in enumerate(docs)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        request = {"index": str(index(jar, docs, folder)), "queries": asked, "k": K, "texts": strings}
        answer = ask(jar, {**request, "classes": True}, folder)
    bits = [np.array([score for _, score in hits], "<i4").tobytes() for hits in answer["hits"]]
    golden = {
        "jar": jar.name,
        "asked_sha256": digest([docs, asked]),
        "classes_sha256": digest(ranges(answer["classes"])),
        "hits": [[number_of[doc_id] for doc_id, _ in hits] for hits in answer["hits"]],
        "scores": [base64.b64encode(scores).decode() for scores in bits],
        "terms": [[string, terms] for string, terms in zip(strings, answer["terms"], strict=True)],
    }
    GOLDEN.parent.mkdir(exist_ok=True)
    lines = [f'"{key}": {json.dumps(value, separators=(",", ":"))}' for key, value in golden.items()]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
