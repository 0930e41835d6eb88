"""The widget's wiring, by clicking: every button does what it says, and no text of a world comes alive."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from corridor import Corridor
from odd_worlds import Breaking, Mute, OddWorld, Planless, Silent, Wide, hostile
from test_widgets import PAYLOADS, parse

from gagpo.config import WorldConfig
from gagpo.envs.base import make_world
from gagpo.envs.check import check_world
from gagpo.envs.exact import enumerate_states, optimal, solve, uniform
from widgets import console
from widgets.graph import label, small_world, value_graph
from widgets.play import PAGE, Play
from widgets.plots import mimebundle
from widgets.session import visible

RIGHT = "corridor-train-1"
TAGS = {"table", "caption", "thead", "tbody", "tr", "th", "td", "div", "pre", "b", "details", "summary"}


def played(kind: type = Corridor, task: str = RIGHT, **options) -> Play:
    return Play(OddWorld(kind), task=task, **{"settle_s": 0, **options})


def shown(play: Play) -> list[str]:
    return [button.description for button in play.commands.children]


def click(play: Play, command: str) -> None:
    (button,) = [button for button in play.commands.children if button.description == command]
    button.click()


def submit(play: Play, command: object) -> None:
    """What the browser sends when Enter is pressed."""
    play.console._handle_custom_msg(command if isinstance(command, dict) else {"command": command}, [])


def test_clicks_play_and_show_where_that_led() -> None:
    play = played()
    assert shown(play) == ["go left", "go right", "wait"] == play.console.suggestions
    assert "<b>Goal</b> reach place 4<" in play.goal.value and play.undo.disabled
    click(play, "go right")
    assert play.console.observation == "you are at place 3."
    assert play.console.status == "Step 1, reward so far 0, state 3."
    assert play.back_to.options == (("0: (start)", 0),) and play.back_to.value == 0
    submit(play, "fly")
    assert play.console.status.endswith("state 3. The command was not accepted.")
    assert "fly (not accepted)" in play.history.value and play.console.error == ""
    for nonsense in ({}, {"command": 3}, {"do": "x"}):
        submit(play, nonsense)
    assert play.session.num_steps == 2


def test_after_the_end_only_the_ways_back_are_open() -> None:
    play = played()
    click(play, "go right")
    click(play, "go right")
    assert "reward so far 1" in play.console.status and "The trajectory is over: won." in play.console.status
    assert shown(play) == [] and play.console.disabled and play.shown.value == "The trajectory is over."
    assert play.hint_button.disabled and play.plan_button.disabled and not play.undo.disabled
    submit(play, "wait")  # a message that was under way
    assert "trajectory is over (won) after 2 steps" in play.console.error and play.session.num_steps == 2
    play.undo.click()
    assert play.session.now.state_key == "3" and not play.console.disabled and play.console.error == ""
    assert shown(play) == ["go left", "go right", "wait"] and not play.hint_button.disabled
    click(play, "go left")
    click(play, "go left")
    play.back_to.value = 1
    play.go_back.click()
    assert play.session.env.snapshot() == (3, 1)
    play.start_button.click()
    assert play.session.num_steps == 0 and play.undo.disabled and play.go_back.disabled


def test_the_plan_is_shown_without_a_move_and_played_step_by_step() -> None:
    play = played()
    play.plan_button.click()
    assert "The plan from here: 2 commands, then won" in play.plan.value and play.session.num_steps == 0
    assert parse(play.plan.value).text.count("go right") == 2
    play.whole.value = True
    assert "..A.." in play.picture.value and play.plan.value, "looking around does not drop the plan"
    play.hint_button.click()
    assert play.session.now.state_key == "3" and play.plan.value == "" and "...A." in play.picture.value
    play.hint_button.click()
    assert play.session.now.ending == "won"
    planless = played(Planless)
    planless.plan_button.click()
    assert "No plan is known from here." in planless.plan.value
    planless.hint_button.click()
    assert planless.console.error == "plan: no plan is known from here" and planless.session.num_steps == 0


def test_a_world_that_tells_no_commands_can_be_typed_into() -> None:
    play = played(Mute)
    assert shown(play) == [] and "any can be typed" in play.shown.value and not play.console.disabled
    submit(play, "wait")
    assert play.session.num_steps == 1


def test_many_commands_are_paged_and_filtered() -> None:
    play = played(Wide)
    every = list(play.session.commands())
    assert len(every) == 103 and shown(play) == every[:PAGE] and play.earlier.disabled
    play.later.click()
    play.later.click()
    assert shown(play) == every[2 * PAGE :] and play.later.disabled
    assert play.shown.value == "81 to 103 of 103 admissible commands" and play.earlier.layout.display is None
    play.filter.value = "SAY 3"
    assert shown(play) == [f"say 3{i}" for i in range(10)] and play.later.layout.display == "none"
    assert play.shown.value == "10 admissible commands that match, of 103"
    click(play, "say 37")
    assert play.session.moments[1].command == "say 37"
    assert play.filter.value == "" and shown(play) == every[:PAGE]


def test_a_second_click_does_not_play_what_the_first_one_brought() -> None:
    play = played(settle_s=3600)
    button = play.commands.children[1]
    play._slots[1].since = -1e9  # it has said "go right" for long
    button.click()
    assert play.session.now.command == "go right"
    button.click()  # it says so still: meant
    assert play.session.num_steps == 2 and play.session.now.ending == "won"
    play.undo.click()
    play.filter.value = "left"
    assert play.commands.children[0].description == "go left" == play._slots[0].command
    play.filter.value = "wait"
    play.commands.children[0].click()
    assert play.session.num_steps == 1 and "had only just become 'wait'" in play.console.error


def test_errors_are_shown_where_they_happened_and_play_goes_on() -> None:
    play = played(Breaking)
    click(play, "go left")
    for broken in (lambda: submit(play, "boom"), play.hint_button.click, play.plan_button.click):
        broken()
        assert play.console.error == "ZeroDivisionError: division by zero"
        assert "in step" in play.trace.value and [type(e) for e in play.errors] == [ZeroDivisionError]
        assert play.session.num_steps == 1 and play.session.env.snapshot() == (1, 1)
    click(play, "go right")
    assert play.console.error == play.trace.value == "" and play.errors == []
    silent = played(Silent)
    silent.whole.value = True
    assert silent.console.error == "RuntimeError: no picture"
    click(silent, "go left")
    assert silent.session.num_steps == 1 and silent.console.observation == "you are at place 1."
    silent.session.commands = lambda: 1 / 0
    submit(silent, "go right")
    assert "ZeroDivisionError" in silent.console.error and silent.console.observation == "you are at place 2."
    assert shown(silent) == []


def test_a_task_is_chosen_and_one_that_cannot_be_made_changes_nothing() -> None:
    play = Play(OddWorld(Corridor), task="corridor-train-2", num_tasks=4, settle_s=0)
    values = [value for _, value in play.task.options]
    assert values[0] == "corridor-train-2" == play.task.value and len(values) == 9
    (bad,) = [value for value in values if value.endswith("train-" + values[1].split("-")[2][:-1] + "3")]
    play.task.value = bad
    play.start_button.click()
    assert f"{bad!r} cannot be made" in play.console.error and play.session.env.task_id == values[0]
    play.task.value = values[2]
    play.start_button.click()
    assert play.session.env.task_id == values[2] and play.console.error == ""
    with pytest.raises(ValueError, match="'corridor-train-3' cannot be made"):
        played(task="corridor-train-3")


def test_the_seed_decides_what_is_chance() -> None:
    play = Play(make_world(WorldConfig(env="frozenlake")), settle_s=0)
    ends = {}
    for seed in [*range(20)] * 2:
        play.seed.value = seed
        play.start_button.click()
        click(play, "go east")
        assert ends.setdefault(seed, play.session.now.state_key) == play.session.now.state_key
    assert len(set(ends.values())) > 1


@pytest.mark.parametrize("payload", PAYLOADS)
def test_text_of_a_world_stays_text(payload: str) -> None:
    """The corridor plays on whatever it says; HTML widgets hold it escaped, all others show plain text."""
    play = played(hostile(payload), task="corridor-train-1")
    play.whole.value = True
    play.plan_button.click()
    pages = [play.plan.value]
    click(play, visible(payload))
    submit(play, payload)
    assert play.session.now.ending == "won"
    play.session.env.step = lambda action: 1 / len(action)
    play.undo.click()
    submit(play, payload + "x")
    assert "TypeError" in play.console.error
    pages += [play.goal.value, play.history.value, play.picture.value, play.trace.value]
    for page in pages:
        tags = parse(page)
        assert page and tags.tags <= TAGS
        assert tags.attributes <= {"style", "role", "aria-label"}
    for page in (*pages[:4],):
        assert any(visible(payload) in text for text in parse(page).text)
    assert payload not in play._repr_mimebundle_()["text/plain"] or payload.isprintable()


def test_the_console_puts_text_into_the_page_as_text() -> None:
    script = Path(console.__file__).with_suffix(".js").read_text("utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|srcdoc|\.html\(", script)
    assert 'role: "status"' in script and 'role: "alert"' in script and "for: id" in script
    read = set(re.findall(r'model\.get\("(\w+)"\)', script))
    assert read == {"status", "observation", "error", "suggestions", "disabled"}
    assert read <= set(console.Console.class_trait_names(sync=True))


def test_the_widget_is_named_for_screen_readers_and_small() -> None:
    play = Play(make_world(WorldConfig()), settle_s=0)
    for widget in (play.task, play.seed, play.filter, play.back_to, play.undo, play.whole, play.plan_button):
        assert widget.description
    for button in (
        play.start_button,
        play.undo,
        play.go_back,
        play.hint_button,
        play.plan_button,
        play.whole,
    ):
        assert button.tooltip
    children = {id(button.layout) for button in play.commands.children}
    assert len(children) == 1 < len(play.commands.children), "one layout for all of them"
    bundle = play._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "application/vnd.jupyter.widget-view+json"}
    assert "(start)" in bundle["text/plain"]


@pytest.mark.parametrize("name", ["keydoor", "frozenlake"])
@pytest.mark.parametrize("policy", ["optimal", "random"])
def test_the_state_graph_shows_the_exact_values(name: str, policy: str) -> None:
    env = small_world(name, 4)
    figure, graph = value_graph(env, policy=policy, gamma=0.9), enumerate_states(env)
    values = optimal(graph, 0.9)[1] if policy == "optimal" else solve(graph, uniform, 0.9)
    nodes = figure.data[-1]
    np.testing.assert_allclose(nodes.marker.color, values.value)
    assert list(nodes.text) == [f"{value:.2f}" for value in values.value]
    assert [trace.name for trace in figure.data].count("where a best policy may go") == (policy == "optimal")
    key, command = graph.states[2].key, graph.states[2].commands[0]
    assert f"state {label(key)}: V = {values.value[2]:.4g}" in nodes.hovertext[2]
    assert f"{command}: Q = {values.q[graph.pair(key, command)]:.4g}" in nodes.hovertext[2]
    # Distances again, by growing a ball around the start.
    near = np.zeros(len(graph.states), bool)
    near[0] = True
    for distance in range(int(max(nodes.x)) + 1):
        assert np.array_equal(near, np.array(nodes.x) <= distance)
        near |= graph.transition[near[graph.pair_state]].any(0)
    places = set(zip(nodes.x, nodes.y, strict=True))
    assert len(places) == len(graph.states), "no state hides another"
    assert len(str(mimebundle(figure))) < 60_000


def test_the_arrows_of_a_best_policy_go_where_plans_do() -> None:
    env = small_world("keydoor", 1)
    graph = enumerate_states(env)
    figure = value_graph(env)
    arrows, nodes = figure.data[1], figure.data[-1]
    place = {key: (nodes.x[row], nodes.y[row]) for key, row in graph.index.items()}
    drawn = set(
        zip(
            zip(arrows.x[::3], arrows.y[::3], strict=True),
            zip(arrows.x[1::3], arrows.y[1::3], strict=True),
            strict=True,
        )
    )
    expected = set()
    for state in graph.states:
        env.restore(state.snapshot)
        if not env.step(env.expert())[2]:
            expected.add((place[state.key], place[env.state_key()]))
    assert drawn == expected and list(arrows.marker.size) == [0, 12, 0] * len(expected)


def test_hostile_labels_and_bad_settings_of_the_graph() -> None:
    assert label("<a href='x'>$1$</a>&\x1b") == "&lt;a href='x'&gt;&#36;1&#36;&lt;/a&gt;&amp;\ufffd"
    figure = value_graph(hostile("<b>x</b>")(RIGHT))
    figure.layout.meta = None  # what a log shows, as text
    text = str(mimebundle(figure)["application/vnd.plotly.v1+json"])
    assert "<b>" not in text and "&lt;b&gt;" in text
    with pytest.raises(ValueError, match="policy: 'best'; expected one of optimal, random"):
        value_graph(small_world("keydoor"), policy="best")


def test_the_odd_worlds_are_worlds() -> None:
    """But for what makes them odd, they keep the contract: the tests play what could be installed."""
    check_world(OddWorld(Planless))
