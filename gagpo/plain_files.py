"""Files of a folder that may come from elsewhere: no links out of it, no pipes that never end."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_plain(path: Path, flags: int = os.O_RDONLY) -> BinaryIO:
    """Open a regular file, unbuffered where it is written. ValueError for a link, a folder, a pipe, and
    for what the system refuses."""
    try:
        number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}; expected a plain file") from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise ValueError(f"{path}: expected a plain file")
    return os.fdopen(number, "rb" if flags == os.O_RDONLY else "r+b", -1 if flags == os.O_RDONLY else 0)
