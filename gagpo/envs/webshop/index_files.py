"""A search index as a folder: a .npy file for each array of `Postings`, and a manifest with their SHA-256.

A folder appears under its name only when it is whole. Reading one trusts nothing: the manifest's own
checksum, sizes, digests, types and shapes are compared, and that every number points inside the arrays.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gagpo.envs.webshop.postings import Builder, Postings

MANIFEST = "manifest.json"
FORMAT = "gagpo search index 1"
MAX_MANIFEST = 1 << 20  # bytes
TYPES = {
    **{name: np.dtype(np.int64) for name in ("id_offsets", "term_offsets", "starts")},
    **{name: np.dtype(np.uint8) for name in ("id_data", "term_data")},
    **{"docs": np.dtype(np.int32), "divisors": np.dtype(np.float32)},
}


@contextmanager
def writing(folder: Path, source: str) -> Iterator[Builder]:
    """Gives a builder; `folder` is there when all has gone well, and nothing is left otherwise.

    Raises ValueError where `folder` exists.
    """
    taken = ValueError(f"folder: {folder} exists, expected a new name; remove it or choose another")
    if folder.exists():
        raise taken
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        runs = aside / "runs"
        runs.mkdir()

        def keep(run: np.ndarray) -> np.ndarray:
            path = runs / f"{len(list(runs.iterdir())):06d}.npy"
            np.save(path, run)
            return _map(path)

        def allocate(name: str, size: int, dtype: type) -> np.ndarray:
            return _map(aside / f"{name}.npy", np.dtype(dtype), size)

        builder = Builder(keep, allocate)
        yield builder
        postings = builder.finish()
        shutil.rmtree(runs)
        _write_manifest(aside, postings, source)
        aside.chmod(0o755)  # mkdtemp's are for their owner alone
        try:
            os.rename(aside, folder)
        except OSError as error:
            raise (taken if folder.exists() else error) from error
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _map(path: Path, dtype: np.dtype | None = None, size: int = 0) -> np.ndarray:
    """The array of a .npy file, mapped; with a dtype a new file, whose zeros can be written over."""
    if dtype is None:
        return np.lib.format.open_memmap(path, "r")
    return np.lib.format.open_memmap(path, "w+", dtype, (size,))


def _write_manifest(folder: Path, postings: Postings, source: str) -> None:
    files = {}
    for name in TYPES:
        values = getattr(postings, name)
        values.flush()
        path = folder / f"{name}.npy"
        files[name] = {"size": len(values), "num_bytes": path.stat().st_size, "sha256": _sha256(path)}
    content = {"format": FORMAT, "source": source, "num_counted": postings.num_counted, "files": files}
    text = json.dumps({**content, "checksum": _checksum(content)}, indent=1)
    (folder / MANIFEST).write_text(text + "\n", "utf-8")


def read(folder: Path) -> Postings:
    """The postings of a folder, mapped into memory. Raises ValueError naming the file that is damaged."""
    try:
        files, num_counted = _read_manifest(folder / MANIFEST)
        arrays = {name: _read_array(folder / f"{name}.npy", name, files) for name in TYPES}
    except OSError as error:
        raise _damage(Path(error.filename or folder), error.strerror or str(error)) from error
    postings = Postings(**arrays, num_counted=num_counted)
    _check(folder, postings)
    return postings


def _damage(path: Path, what: str) -> ValueError:
    return ValueError(f"{path}: {what}; expected a search index as build_index writes it: build it again")


def _read_manifest(path: Path) -> tuple[dict[str, dict], int]:
    _regular(path, None)
    if path.stat().st_size > MAX_MANIFEST:
        raise _damage(path, f"more than {MAX_MANIFEST} bytes")
    try:
        content = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _damage(path, "not JSON in UTF-8") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _damage(path, f"not of the format {FORMAT!r}")
    checksum = content.pop("checksum", None)
    if checksum != _checksum(content):
        raise _damage(path, "the checksum is not that of its content")
    files, num_counted = content.get("files"), content.get("num_counted")
    entries_fit = isinstance(files, dict) and all(
        isinstance(files.get(name), dict)
        and {key: type(value) for key, value in files[name].items()}
        == {"size": int, "num_bytes": int, "sha256": str}
        for name in TYPES
    )
    if not entries_fit or type(num_counted) is not int:
        raise _damage(path, "files or num_counted are missing or of another kind")
    return files, num_counted


def _read_array(path: Path, name: str, files: dict[str, dict]) -> np.ndarray:
    wanted = files[name]
    _regular(path, wanted["num_bytes"])
    if _sha256(path) != wanted["sha256"]:
        raise _damage(path, "the content is not what was written")
    try:
        values = _map(path)
    except ValueError as error:
        raise _damage(path, "not a .npy file of numbers") from error
    if values.dtype != TYPES[name] or values.shape != (wanted["size"],):
        raise _damage(path, f"{values.dtype} {values.shape}, not {TYPES[name]} ({wanted['size']},)")
    return values


def _check(folder: Path, postings: Postings) -> None:
    """That all numbers point inside the arrays, and that no size can be larger than what is there."""
    ends = {
        "id_offsets": len(postings.id_data),
        "term_offsets": len(postings.term_data),
        "starts": len(postings.docs),
    }
    for name, end in ends.items():
        values = getattr(postings, name)
        if not len(values) or values[0] != 0 or values[-1] != end or (values[1:] < values[:-1]).any():
            raise _damage(folder / f"{name}.npy", f"does not ascend from 0 to {end}")
    num_docs, docs, divisors = len(postings.id_offsets) - 1, postings.docs, postings.divisors
    if len(docs) and not 0 <= docs.min() <= docs.max() < num_docs:
        raise _damage(folder / "docs.npy", f"numbers outside 0 to {num_docs - 1}")
    if len(divisors) != len(docs) or not (np.isfinite(divisors).all() and (divisors >= 1).all()):
        raise _damage(folder / "divisors.npy", "not one number of at least 1 for each pair")
    if len(postings.term_offsets) != len(postings.starts):
        raise _damage(folder / "starts.npy", "not one row for each term")
    most = int(np.diff(postings.starts).max(initial=0))
    if not most <= postings.num_counted <= num_docs:
        raise _damage(folder / MANIFEST, f"num_counted {postings.num_counted}, not {most} to {num_docs}")


def _regular(path: Path, num_bytes: int | None) -> None:
    if not path.is_file() or path.is_symlink():
        raise _damage(path, "missing" if not path.exists() else "not a regular file")
    if num_bytes is not None and path.stat().st_size != num_bytes:
        raise _damage(path, f"{path.stat().st_size} bytes, not {num_bytes}")


def _checksum(content: dict) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
