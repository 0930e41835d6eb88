"""Porter's stemmer of 1980 with the two rules of his later programs, `bli` and `logi`.

M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980. A word is a sequence of
consonants c and vowels v; its measure m is how often a vowel is followed by a consonant. Lucene's
PorterStemFilter counts in UTF-16 units, so a letter beyond U+FFFF is two consonants here as well.
"""

from __future__ import annotations

from collections.abc import Container

# Suffix to what takes its place.
DOUBLE_SUFFIXES = {
    **{"ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble"},
    **{"alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate"},
    **{"ator": "ate", "alism": "al", "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al"},
    **{"iviti": "ive", "biliti": "ble", "logi": "log"},
}
SINGLE_SUFFIXES = {
    **{"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""},
}
LAST_SUFFIXES = {
    *("ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ion", "ism", "ate", "iti"),
    *("ous", "ive", "ize", "al", "er", "ic", "ou"),
}
LONGEST = 7


def stem(word: str) -> str:
    """The stem of a word in lower case; words of one or two letters stay as they are."""
    if word and max(word) > "\uffff":
        units = word.encode("utf-16-le", "surrogatepass")
        split = "".join(chr(low | high << 8) for low, high in zip(units[::2], units[1::2], strict=True))
        return _stem(split).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _stem(word)


def _stem(word: str) -> str:
    if len(word) < 3:
        return word
    word = _without_past_or_gerund(_without_plural(word))
    if word[-1] == "y" and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    for suffixes in (DOUBLE_SUFFIXES, SINGLE_SUFFIXES):
        suffix = _longest(word, suffixes)
        if suffix and _measure(word[: -len(suffix)]) > 0:
            word = word[: -len(suffix)] + suffixes[suffix]
    return _without_final_e(_without_last_suffix(word))


def _longest(word: str, suffixes: Container[str]) -> str:
    """The longest of the suffixes that the word ends with; "" where it has none. It alone decides."""
    for length in range(LONGEST, 1, -1):
        if word[-length:] in suffixes:
            return word[-length:]
    return ""


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word[-1] == "s" and word[-2] != "s" else word


def _without_past_or_gerund(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    before = word[:-2] if word.endswith("ed") else word[:-3] if word.endswith("ing") else ""
    if "v" not in _shape(before):
        return word
    if before.endswith(("at", "bl", "iz")):
        return before + "e"
    if _ends_doubled(before):
        return before if before[-1] in "lsz" else before[:-1]
    return before + "e" if _measure(before) == 1 and _is_short(before) else before


def _without_last_suffix(word: str) -> str:
    suffix = _longest(word, LAST_SUFFIXES)
    if not suffix or (suffix == "ion" and not word.endswith(("sion", "tion"))):
        return word
    before = word[: -len(suffix)]
    return before if _measure(before) > 1 else word


def _without_final_e(word: str) -> str:
    measure = _measure(word)
    if word[-1] == "e" and (measure > 1 or (measure == 1 and not _is_short(word[:-1]))):
        word = word[:-1]
    return word[:-1] if measure > 1 and word[-1] == "l" and _ends_doubled(word) else word


class _Shapes(dict):
    """Code point to v, c or y, for str.translate."""

    def __missing__(self, code: int) -> str:
        return "c"


_SHAPES = _Shapes({ord("y"): "y", **{ord(vowel): "v" for vowel in "aeiou"}})


def _shape(word: str) -> str:
    """The word as a string of c and v; y is a vowel after a consonant."""
    shape = word.translate(_SHAPES)
    while (at := shape.find("y")) >= 0:
        shape = shape[:at] + ("v" if shape[:at].endswith("c") else "c") + shape[at + 1 :]
    return shape


def _measure(word: str) -> int:
    return _shape(word).count("vc")


def _ends_doubled(word: str) -> bool:
    """Whether a consonant stands twice at the end."""
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _is_short(word: str) -> bool:
    """Whether it ends with consonant, vowel and a consonant other than w, x and y."""
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"
