"""Play a world by hand: `Play` puts buttons around a `Session`. Every text of a world stays text."""

from __future__ import annotations

import html
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ipywidgets

from gagpo.envs.base import World
from widgets.console import Console
from widgets.session import MAX_SEED, Session, offered_tasks, visible
from widgets.tables import Table

PAGE = 40  # commands that are shown at once
# A click on a button that got another command less than this before was meant for the earlier one.
SETTLE_S = 0.3
AUTO = {"width": "auto", "max_width": "100%"}
WRAP = {"flex_flow": "row wrap", "align_items": "center"}
WIDE = {"width": "44em", "max_width": "100%"}
ROW = {**WRAP, "margin": "8px 0 0 0"}
OWN = {"description_width": "initial"}  # a label is as wide as its text
PRE = "line-height:1.4;white-space:pre-wrap;overflow-wrap:anywhere;font-family:monospace"


class Play:
    """One world in a notebook; `show` displays it.

    `task` is a task id; None takes the first of those offered, `num_tasks` of each split, drawn by
    `seed`, which also decides what is chance in the world. An error of the world is shown where it
    happened and kept in `errors` until the next click.
    """

    def __init__(
        self,
        world: World,
        *,
        task: str | None = None,
        seed: int = 0,
        num_tasks: int = 6,
        settle_s: float = SETTLE_S,
    ) -> None:
        self.world, self.settle_s = world, settle_s
        tasks = offered_tasks(world, num_tasks, seed)
        task = tasks[0] if task is None else task
        self.session = Session(world.make(task), seed)
        self.errors: list[Exception] = []
        self._commands: tuple[str, ...] = ()
        self._slots: list[_Slot] = []
        self._page = 0
        self._make_widgets(list(dict.fromkeys([task, *tasks])), seed)
        self._refresh()

    def show(self) -> None:
        """Display it in a notebook."""
        from IPython.display import display

        display(self)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        """The widget, and for a log the moments so far."""
        shown = self.box._repr_mimebundle_(**options) or {}
        bundle = shown[0] if isinstance(shown, tuple) else shown
        return {**bundle, "text/plain": repr(self.session.table(self._goal_text()))}

    # What the buttons do

    def start(self) -> None:
        """Begin the chosen task; where that fails, the one being played stays."""
        self.session = Session(self.world.make(self.task.value), self.seed.value)
        self._page, self.filter.value = 0, ""

    def play(self, command: str) -> None:
        """Play a command."""
        self.session.play(command)
        self._page, self.filter.value = 0, ""

    def play_hint(self) -> None:
        """Play the next step of the expert's plan."""
        command = self.session.hint()
        if command is None:
            raise ValueError("plan: no plan is known from here")
        self.play(command)

    def show_plan(self) -> None:
        """Show the expert's plan from here, and what it leads to."""
        plan = self.session.plan()
        caption = f"The plan from here: {len(plan)} commands" if plan else "No plan is known from here."
        if plan and plan[-1].ending:
            caption += f", then {plan[-1].ending}"
        self.plan.value = _shown(self.session.table(caption, plan) if plan else Table(caption, (), ()))

    # How it is put together

    def _make_widgets(self, tasks: Sequence[str], seed: int) -> None:
        w, row = ipywidgets, partial(ipywidgets.HBox, layout=ROW)
        self.task = w.Dropdown(options=_options(tasks), description="Task", style=OWN, layout=WIDE)
        self.seed = w.BoundedIntText(
            seed, 0, MAX_SEED, description="Seed", style=OWN, layout={"width": "12em"}
        )
        self.seed.tooltip = "Decides what is chance in the world"
        self.start_button = self._button("Start", self.start, "Begin this task from its start")
        self.goal, self.trace, self.plan, self.history = (w.HTML() for _ in range(4))
        self.console = Console()
        self.console.on_msg(self._on_message)
        self.filter = w.Text(
            description="Filter", placeholder="part of a command", style=OWN, layout={"width": "24em"}
        )
        self.filter.observe(self._on_filter, "value")
        self.earlier = self._button("Earlier", partial(self._turn, -1), "Commands before these")
        self.later = self._button("More", partial(self._turn, 1), "Commands after these")
        self.shown = w.Label()
        self.commands = w.Box(layout=WRAP)
        self._look = {"layout": w.Layout(**AUTO), "style": w.ButtonStyle()}  # shared, for a small notebook
        self.undo = self._button("Undo", lambda: self.session.undo(), "Take the last step back")
        self.back_to = w.Dropdown(description="Back to", style=OWN, layout={"width": "24em"})
        self.go_back = self._button(
            "Go back",
            lambda: self.session.undo(self.back_to.value),
            "Return to the step that is chosen beside",
        )
        self.hint_button = self._button(
            "Next step of the plan", self.play_hint, "Play what the expert would do here"
        )
        self.plan_button = self._button("Show the plan", self.show_plan, "What the expert would do from here")
        self.whole = w.ToggleButton(description="Show the whole state", layout=AUTO)
        self.whole.tooltip = "Everything in the world, also what the player has not seen"
        self.whole.observe(lambda _: self._do(lambda: None), "value")
        self.picture = w.HTML()
        self.box = w.VBox([
            row([self.task, self.seed, self.start_button]),
            self.goal, self.console, self.trace,
            row([self.filter, self.earlier, self.later, self.shown]),
            self.commands,
            row([self.undo, self.back_to, self.go_back]),
            row([self.hint_button, self.plan_button, self.whole]),
            self.plan, self.picture, self.history,
        ])  # fmt: skip

    def _button(self, label: str, action: Callable[[], object], tooltip: str) -> ipywidgets.Button:
        button = ipywidgets.Button(description=label, tooltip=tooltip, layout=AUTO)
        button.on_click(lambda _: self._do(action))
        return button

    def _on_message(self, _: object, content: Any, buffers: object) -> None:
        command = content.get("command") if isinstance(content, dict) else None
        if isinstance(command, str):
            self._do(partial(self.play, command))

    def _on_filter(self, _: object) -> None:
        self._page = 0
        self._show_commands()

    def _on_command(self, slot: _Slot) -> None:
        def play() -> None:
            if time.monotonic() - slot.since < self.settle_s:
                raise ValueError(
                    f"command: the button had only just become {slot.command!r}; click again if you mean it"
                )
            self.play(slot.command)

        self._do(play)

    def _turn(self, by: int) -> None:
        self._page += by

    def _do(self, action: Callable[[], object]) -> None:
        """Do what a button asks for, then show where that led, errors too."""
        self.errors, before = [], self.session.now
        self._try(action)
        if self.session.now is not before:
            self.plan.value = ""  # it was one from there
        self._refresh()

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:
            self.errors.append(error)

    def _refresh(self) -> None:
        self._try(self._read_commands)
        for part in (self._show_now, self._show_commands, self._show_history, self._show_picture):
            self._try(part)
        self.console.error = visible("\n".join(map(_told, self.errors)))
        unusual = [e for e in self.errors if not isinstance(e, ValueError)]
        self.trace.value = "".join(
            f"<details><summary>Traceback</summary>{_trace(e)}</details>" for e in unusual
        )

    # What is shown

    def _read_commands(self) -> None:
        self._commands = ()
        self._commands = self.session.commands()

    def _goal_text(self) -> str:
        env = self.session.env
        return f"{env.task_id}: {env.goal}"

    def _show_now(self) -> None:
        session, now = self.session, self.session.now
        goal = html.escape(visible(session.env.goal))
        self.goal.value = f'<div style="line-height:1.4"><b>Goal</b> {goal}</div>'
        ending = f" The trajectory is over: {now.ending}. Undo and Start go on." if now.ending else ""
        refused = "" if now.valid else " The command was not accepted."
        self.console.status = visible(
            f"Step {session.num_steps}, reward so far {session.total_reward:g}, state {now.state_key}."
            f"{refused}{ending}"
        )
        self.console.observation = visible(now.observation)
        self.console.suggestions = [c for c in self._commands if visible(c) == c]
        over = bool(now.ending)
        self.console.disabled = over
        for button in (self.hint_button, self.plan_button):
            button.disabled = over
        self.undo.disabled = self.go_back.disabled = self.back_to.disabled = session.num_steps == 0
        moments = session.moments[:-1]
        labels = [f"{i}: {visible(m.command or '(start)')}" for i, m in enumerate(moments)]
        self.back_to.options = [(label, i) for i, label in enumerate(labels)]
        self.back_to.value = len(moments) - 1 if moments else None

    def _show_commands(self) -> None:
        wanted = [c for c in self._commands if self.filter.value.strip().lower() in c.lower()]
        last = max(0, (len(wanted) - 1) // PAGE)
        self._page = min(max(self._page, 0), last)
        page = wanted[self._page * PAGE : (self._page + 1) * PAGE]
        while len(self._slots) < len(page):
            self._slots.append(_Slot(self._on_command, self._look))
        for slot, command in zip(self._slots, page, strict=False):
            slot.take(command)
        self.commands.children = [slot.button for slot in self._slots[: len(page)]]
        self.earlier.disabled, self.later.disabled = self._page == 0, self._page == last
        for button in (self.earlier, self.later):
            button.layout.display = None if last else "none"
        self.shown.value = self._count(len(wanted), len(page))

    def _count(self, wanted: int, page: int) -> str:
        if self.session.now.ending:
            return "The trajectory is over."
        if not self._commands:
            return "No command is admissible here; any can be typed above."
        first = self._page * PAGE + 1
        place = f"{first} to {first + page - 1} of {wanted}" if wanted > page else f"{wanted}"
        matching = f" that match, of {len(self._commands)}" if self.filter.value.strip() else ""
        return f"{place} admissible command{'' if wanted == 1 else 's'}{matching}"

    def _show_history(self) -> None:
        self.history.value = _shown(self.session.table("So far"))

    def _show_picture(self) -> None:
        self.picture.value = ""
        if self.whole.value:
            text = html.escape(visible(self.session.env.render()))
            self.picture.value = (
                f'<pre style="{PRE};margin-top:8px" role="group" aria-label="whole state">{text}</pre>'
            )


class _Slot:
    """A button that takes one command after the other: it keeps the keyboard's focus meanwhile."""

    def __init__(self, on_click: Callable[[_Slot], None], look: dict[str, Any]) -> None:
        self.command, self.since = "", 0.0
        self.button = ipywidgets.Button(**look)
        self.button.on_click(lambda _: on_click(self))

    def take(self, command: str) -> None:
        if command != self.command:
            self.command, self.since = command, time.monotonic()
        self.button.description = visible(command) or "(empty)"
        self.button.tooltip = self.button.description if len(command) > 30 else None


def _options(values: Sequence[str]) -> list[tuple[str, str]]:
    return [(visible(value), value) for value in values]


def _shown(table: Table) -> str:
    """The table in a widget, whose lines would else stand as far apart as buttons."""
    return f'<div style="line-height:1.4;margin-top:8px;overflow-x:auto">{table._repr_html_()}</div>'


def _told(error: Exception) -> str:
    """A ValueError names what was wrong by itself."""
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def _trace(error: Exception) -> str:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return f'<pre style="{PRE}">{html.escape(visible(text))}</pre>'
