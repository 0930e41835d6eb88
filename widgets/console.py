"""What is seen in a world, told to screen readers too, and a line to type any command into.

A widget of its own because ipywidgets' Text can lose the last key before Enter when the kernel is
busy, and its HTML would have to be trusted: here text enters the page as text only (console.js).
"""

from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets


class Console(anywidget.AnyWidget):
    """Enter sends the message {"command": text}; listen with `on_msg`."""

    _esm = Path(__file__).with_name("console.js")

    status = traitlets.Unicode("").tag(sync=True)
    observation = traitlets.Unicode("").tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)
    suggestions = traitlets.List(traitlets.Unicode()).tag(sync=True)
    disabled = traitlets.Bool(False).tag(sync=True)
