"""Settings of credit as text that brings them back: papermill parameters, recipe lines, a link's end.

Each names only what differs from `base`, the settings that the reader already has.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import fields, replace
from urllib.parse import parse_qsl, quote, urlencode

from gagpo.checked import hints, unknown
from gagpo.config import CreditConfig

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def changes(settings: CreditConfig, base: CreditConfig) -> dict[str, str | int | float]:
    """{name: value} of the settings that differ from `base`, in the order of the class."""
    names = [field.name for field in fields(CreditConfig)]
    return {name: getattr(settings, name) for name in names if getattr(settings, name) != getattr(base, name)}


def as_parameters(settings: CreditConfig, base: CreditConfig) -> str:
    """What to add to a papermill command line: `-p gamma 0.9`; "" where nothing differs.

    papermill takes `-p` for a number, a truth value or nothing where it looks like one; a text that does
    is given by `-r`, which leaves it alone. Texts are quoted for a POSIX shell.
    """
    parts = []
    for name, value in changes(settings, base).items():
        raw = isinstance(value, str) and _looks_typed(value)
        parts += ["-r" if raw else "-p", name, shlex.quote(_text(value))]
    return " ".join(parts)


def as_yaml(settings: CreditConfig, base: CreditConfig) -> str:
    """Lines of a recipe: `gamma: 0.9`. Texts are always quoted, so that none reads as something else."""
    lines = (
        f"{name}: {_yaml_string(value) if isinstance(value, str) else _text(value)}\n"
        for name, value in changes(settings, base).items()
    )
    return "".join(lines)


def as_fragment(settings: CreditConfig, base: CreditConfig) -> str:
    """The end of a link, without its "#": `gamma=0.9&estimator=grpo`; `from_fragment` reads it."""
    pairs = {name: _text(value) for name, value in changes(settings, base).items()}
    return urlencode(pairs, quote_via=quote, safe="")


def from_fragment(fragment: str, base: CreditConfig) -> CreditConfig:
    """The settings that a link names, over `base`. A link is hostile: a ValueError says what is wrong."""
    kinds = hints(CreditConfig)
    try:
        text, most = fragment.removeprefix("#"), len(kinds)
        strict = {"strict_parsing": bool(text), "errors": "strict", "max_num_fields": most}
        pairs = parse_qsl(text, keep_blank_values=True, **strict)
    except ValueError as error:
        raise ValueError(f"fragment: {fragment[:80]!r}; expected name=value&name=value ({error})") from None
    given: dict[str, str | int | float] = {}
    for name, value in pairs:
        if name not in kinds:
            raise ValueError(unknown("setting of credit", name, kinds))
        if name in given:
            raise ValueError(f"{name}: given twice; expected once")
        try:
            given[name] = kinds[name](value)
        except ValueError:
            raise ValueError(f"{name}: {value!r}; expected {kinds[name].__name__}") from None
    return replace(base, **given)


def _text(value: str | int | float) -> str:
    """A value such that YAML, papermill and Python read it as what it is."""
    if isinstance(value, str):
        return value
    digits, e, exponent = repr(value).partition("e")
    return f"{digits}.0e{exponent}" if e and "." not in digits else f"{digits}{e}{exponent}"  # not 1e-05


def _looks_typed(text: str) -> bool:
    """Whether papermill's -p could take a text for something else."""
    if not _PLAIN.fullmatch(text) or text in ("True", "False", "None"):
        return True
    try:
        float(text)  # "nan", "inf"
    except ValueError:
        return False
    return True


def _yaml_string(text: str) -> str:
    """A text in YAML's double quotes; what is not plain ASCII is escaped."""
    plain = (c if " " <= c <= "~" and c not in '"\\' else f"\\U{ord(c):08x}" for c in text)
    return '"' + "".join(plain) + '"'
