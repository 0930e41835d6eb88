"""The text that a household answers with, word for word as ALFWorld 0.4.2 on TextWorld writes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gagpo.envs.rules import Action, Rules, State

WELCOME = "-= Welcome to TextWorld, ALFRED! =-"
TASK_PREFIX = "Your task is to: "
NOTHING_HAPPENS = "Nothing happens."
HELP = """\
Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""
# What a held object looks like: the first line whose conditions and abilities it all has.
LOOKS = (
    (("clean", "hot", "sliced"), "This is a hot and clean sliced {}."),
    (("clean", "cool", "sliced"), "This is a cool and clean sliced {}."),
    (("clean", "sliced"), "This is a clean sliced {}."),
    (("hot", "sliced"), "This is a hot sliced {}."),
    (("cool", "sliced"), "This is a cool sliced {}."),
    (("clean", "hot"), "This is a hot and clean {}."),
    (("clean", "cool"), "This is a cool and clean {}."),
    (("hot",), "This is a hot {}."),
    (("clean",), "This is a clean {}."),
    (("cool",), "This is a cold {}."),
    (("toggleable", "toggled"), "This {} is on."),
    (("sliceable", "sliced"), "This is a sliced {}."),
    ((), "There's nothing special about {}."),
)
ANSWERS = {
    "go": "You arrive at {r}. {seen}",
    "open": "You open the {r}. {seen}",
    "close": "You close the {r}.",
    "examine receptacle": "{seen}",
    "take": "You pick up the {o} from the {r}.",
    "move": "You move the {o} to the {r}.",
    "clean": "You clean the {o} using the {r}.",
    "heat": "You heat the {o} using the {r}.",
    "cool": "You cool the {o} using the {r}.",
    "use": "You turn on the {o}.",
    "slice": "You sliced the {o} with the {held}.",
}
ROOM = "You are in the middle of a room. Looking quickly around you, you see {seen}."
FACING = "You are facing the {here}. Next to it, you see {seen}."
SHUT = "The {r} is closed."
OPEN = "The {r} is open. In it, you see {seen}."
SURFACE = "On the {r}, you see {seen}."
CONTAINER = "This is a normal {o}. In it, you see {seen}."
CARRYING = "You are carrying: a {o}."
EMPTY_HANDS = "You are not carrying anything."
COMMANDS = (
    "look inventory help go to examine open close take from move use clean heat cool slice with put in/on"
)
TEMPLATES = (
    *(WELCOME, TASK_PREFIX, NOTHING_HAPPENS, HELP, *(text for _, text in LOOKS), *ANSWERS.values()),
    *(ROOM, FACING, SHUT, OPEN, SURFACE, CONTAINER, CARRYING, EMPTY_HANDS, COMMANDS),
    "a nothing , and",
)
MOST_OF_A_KIND = 99


def words(texts: Iterable[str]) -> set[str]:
    """The lower-case tokens (words, numbers, single punctuation marks) of everything that can be
    said about a world whose own texts (types, goals) are `texts`."""
    numbers = (str(number) for number in range(1, MOST_OF_A_KIND + 1))
    fixed = (re.sub(r"\{\w*\}", " ", template) for template in TEMPLATES)
    return {
        token for text in (*fixed, *texts, *numbers) for token in re.findall(r"\w+|[^\w\s]", text.lower())
    }


def enumerate_words(items: Sequence[str]) -> str:
    """ "nothing", "x", "x, and y", "x, y, and z"."""
    if len(items) < 2:
        return items[0] if items else "nothing"
    return ", ".join(items[:-1]) + ", and " + items[-1]


def introduction(rules: Rules) -> str:
    """What a player reads first: all receptacles, then the task."""
    if rules.receptacles_at[rules.start.location]:
        view = look(rules, rules.start)
    else:
        seen = zip(rules.receptacle_names, rules.place_of, strict=True)
        view = ROOM.format(seen=enumerate_words([f"a {name}" for name, place in seen if place >= 0]))
    return f"{WELCOME}\n\n{view}\n\n{TASK_PREFIX}{rules.problem.sentence}"


def feedback(rules: Rules, action: Action, state: State) -> str:
    """The answer to an admissible action; `state` is the one after it."""
    verb, o, r = action
    held = "" if state.held is None else rules.object_names[state.held]
    if verb == "look":
        return look(rules, state)
    if verb == "inventory":
        return CARRYING.format(o=held) if held else EMPTY_HANDS
    if verb == "help":
        return HELP
    if verb == "examine object":
        return examine_object(rules, state, o)
    seen = examine_receptacle(rules, state, r) if verb in ("go", "open", "examine receptacle") else ""
    return ANSWERS[verb].format(o=rules.object_names[o], r=rules.receptacle_names[r], held=held, seen=seen)


def look(rules: Rules, state: State) -> str:
    """Next to a receptacle lies what was taken out of it and put down at the same location. Where
    there is no receptacle, which is only so at the start, the answer is "nothing"."""
    here = rules.receptacles_at[state.location]
    if not here:
        return ROOM.format(seen="nothing")
    beside = [
        f"a {rules.object_names[o]}"
        for o, r in sorted(state.removed)
        if r in here and (o, state.location) in state.nearby
    ]
    facing = enumerate_words([rules.receptacle_names[r] for r in here])
    return FACING.format(here=facing, seen=enumerate_words(beside))


def examine_receptacle(rules: Rules, state: State, r: int) -> str:
    name = rules.receptacle_names[r]
    if rules.is_shut(state, r):
        return SHUT.format(r=name)
    seen = enumerate_words([f"a {rules.object_names[o]}" for o in rules.objects_in(state, r)])
    return (OPEN if r in rules.openable else SURFACE).format(r=name, seen=seen)


def examine_object(rules: Rules, state: State, o: int) -> str:
    name = rules.object_names[o]
    if o in rules.able["isreceptacleobject"]:
        inner = [f"a {rules.object_names[i]}" for i in rules.contents[o]]
        return CONTAINER.format(o=name, seen=enumerate_words(inner))
    for conditions, text in LOOKS:
        if all(o in (rules.able.get(name) or getattr(state, name, ())) for name in conditions):
            return text.format(name)
    raise AssertionError("the last look has no condition")
