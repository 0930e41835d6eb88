"""What MiniGrid and BabyAI look like in words, what makes two of their states equal, and plans."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from copy import deepcopy
from importlib import import_module
from typing import Any

from gagpo.envs.gymtext import attributes, copy_sharing, digest

COMMANDS = ("turn left", "turn right", "move forward", "pick up", "drop", "toggle", "done")
LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE, _ = range(len(COMMANDS))
COMPASS = ("east", "south", "west", "north")  # in the order of MiniGrid's directions
STATES = ("open", "closed", "locked")
MAX_SEARCHED, MAX_BOT_STEPS = 6000, 300  # states of a search, steps of BabyAI's bot


class GridView:
    """A MiniGrid level: what the agent sees before it, or with `full_view` the whole grid."""

    def __init__(self, env: Any, full_view: bool) -> None:
        self.commands = COMMANDS[: int(env.action_space.n)]
        self.full_view = full_view

    def goal(self, env: Any) -> str:
        return f"{env.mission.strip().rstrip('.')}."

    def describe(self, env: Any) -> str:
        """Where the agent faces, what it carries, the walls straight around it, and what it sees.

        Distances are in cells: "1 ahead" is the next cell, "2 ahead 1 left" a knight's move away."""
        carried = _name(env.carrying) if env.carrying else "nothing"
        text = f"You face {COMPASS[env.agent_dir]}. You carry {carried}."
        if self.full_view:
            return f"{text}\n{_map(env)}"
        grid, visible = env.gen_obs_grid()
        middle, bottom = env.agent_view_size // 2, env.agent_view_size - 1
        walls: dict[str, int] = {}
        things = []
        cells = ((x, y) for y in range(bottom, -1, -1) for x in range(env.agent_view_size))
        for x, y in sorted(cells, key=lambda cell: abs(cell[0] - middle) + bottom - cell[1]):
            thing = grid.get(x, y)
            if not visible[x, y] or thing is None or (x, y) == (middle, bottom):
                continue
            ahead, side = bottom - y, x - middle
            way = "left" if side < 0 else "right"
            parts = [f"{ahead} ahead"] * (ahead > 0) + [f"{abs(side)} {way}"] * (side != 0)
            if thing.type != "wall":
                things.append(f"{_name(thing)} {' '.join(parts)}")
            elif len(parts) == 1:
                walls.setdefault("ahead" if ahead else way, ahead or abs(side))
        seen = ", ".join(f"{distance} {way}" for way, distance in walls.items())
        text += f" Wall: {seen}." if walls else ""
        return f"{text} You see {', '.join(things) or 'nothing'}."

    def key(self, env: Any) -> str:
        """A digest of the grid, the agent, what it carries, the mission and how far that is.

        BabyAI remembers which objects its mission means, even among equal ones, and where they were."""
        marks: dict[int, list[str]] = {}
        progress = []
        for number, clause in enumerate(_clauses(getattr(env, "instrs", None))):
            row: list[Any] = [getattr(clause, name, None) for name in ("a_done", "b_done", "lastStepMatch")]
            for name in ("desc", "desc_move", "desc_fixed"):
                description = getattr(clause, name, None)
                for thing in description.obj_set if description else ():
                    marks.setdefault(id(thing), []).append(f"{number} {name}")
                places = description.obj_poss if description else ()
                row.append(sorted([int(x), int(y)] for x, y in places))
            before = getattr(clause, "preCarrying", None)
            row.append(before is None)
            if before is not None:
                marks.setdefault(id(before), []).append(f"{number} before")
            progress.append(row)

        def content(thing: Any) -> Any:
            if not hasattr(thing, "cur_pos"):
                return None
            if thing.type == "wall":
                return thing.color
            place = None if thing.cur_pos is None else [int(part) for part in thing.cur_pos]
            inside = content(thing.contains)
            return [*map(int, thing.encode()), place, inside, marks.get(id(thing))]

        cells = [[i, content(thing)] for i, thing in enumerate(env.grid.grid) if thing is not None]
        return digest([cells, attributes(env, content), progress])

    def copy(self, env: Any) -> Any:
        """Walls, which are most of a grid and never change, are shared."""
        cells = env.grid.grid
        walls = {id(thing): thing for thing in cells if thing is not None and thing.type == "wall"}
        memo: dict[int, object] = dict(walls)
        memo[id(cells)] = [
            thing if thing is None or id(thing) in walls else deepcopy(thing, memo) for thing in cells
        ]
        return copy_sharing(env, memo)

    def plan(self, env: Any, key: Callable[[Any], str]) -> list[int]:
        """What BabyAI's bot does where that wins, else a shortest plan where a bounded search finds one."""
        found = _bot_plan(self.copy(env)) if hasattr(env, "instrs") else []
        return found or _search(env, key, self.copy, len(self.commands))

    def render(self, env: Any) -> str:
        carried = _name(env.carrying) if env.carrying else "nothing"
        return f"carrying: {carried}\n{_map(env)}"


def _clauses(instruction: Any) -> Iterator[Any]:
    """A BabyAI instruction and the parts it is made of."""
    if instruction is not None:
        yield instruction
        for part in ("instr_a", "instr_b"):
            yield from _clauses(getattr(instruction, part, None))


def _name(thing: Any) -> str:
    """ "a red key", "an open yellow door"."""
    state = f"{STATES[thing.encode()[2]]} " if thing.type == "door" else ""
    words = f"{state}{thing.color} {thing.type}"
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _map(env: Any) -> str:
    """Every row of the grid, walls as # and the agent as an arrow, and every thing with its place."""
    things, rows = [], []
    for y in range(env.grid.height):
        row = ""
        for x in range(env.grid.width):
            thing = env.grid.get(x, y)
            if (x, y) == tuple(env.agent_pos):
                row += ">v<^"[env.agent_dir]
            else:
                row += "." if thing is None else "#" if thing.type == "wall" else "?"
            if thing is not None and thing.type != "wall":
                things.append(f"{_name(thing)} at row {y} column {x}")
        rows.append(row)
    return "\n".join(["; ".join(things) or "nothing here", *rows])


def _bot_plan(env: Any) -> list[int]:
    """The steps of BabyAI's bot from here to the end; empty where it does not win."""
    bot_module = import_module("minigrid.utils.baby_ai_bot")
    actions: list[int] = []
    try:
        bot = bot_module.BabyAIBot(env)
        for _ in range(MAX_BOT_STEPS):
            actions.append(int(bot.replan(actions[-1] if actions else None)))
            _, reward, terminated, _, _ = env.step(actions[-1])
            if terminated:
                return actions if reward > 0 else []
    except Exception:  # the bot asserts where its assumptions end, as after a box was opened
        return []
    return []


def _search(env: Any, key: Callable[[Any], str], copy: Callable[[Any], Any], num_actions: int) -> list[int]:
    """A shortest plan by breadth-first search over copies; empty where none is among MAX_SEARCHED states."""
    env.gen_obs = _nothing  # nobody looks
    plans: dict[str, list[int]] = {key(env): []}
    queue = deque([(env, plans[key(env)])])
    while queue and len(plans) < MAX_SEARCHED:
        here, plan = queue.popleft()
        for action in _useful(here):
            if action >= num_actions:
                continue
            after = copy(here)
            _, reward, terminated, _, _ = after.step(action)
            if terminated and reward > 0:
                return [*plan, action]
            if not terminated and (name := key(after)) not in plans:
                plans[name] = [*plan, action]
                queue.append((after, plans[name]))
    return []


def _useful(env: Any) -> list[int]:
    """The actions that can change something here."""
    ahead = env.grid.get(*env.front_pos)
    actions = [LEFT, RIGHT]
    if ahead is None or ahead.can_overlap():
        actions.append(FORWARD)
    if ahead is not None and ahead.can_pickup() and env.carrying is None:
        actions.append(PICK_UP)
    if ahead is None and env.carrying is not None:
        actions.append(DROP)
    if ahead is not None and ahead.type in ("door", "box"):
        actions.append(TOGGLE)
    return actions


def _nothing() -> None:
    """Stands in for an observation."""
