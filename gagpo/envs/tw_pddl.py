"""The domain and the grammar that an exported game carries, so that TextWorld can play it alone.

The domain says in PDDL what `gagpo.envs.rules` does; its names of facts and actions are ALFWorld's,
since problems, players and planners use them. The grammar is made of the templates in
`gagpo.envs.wording`, so both say the same words. TextWorld evaluates what stands in a grammar's
brackets: only fixed text and checked sentences are put there.
"""

from __future__ import annotations

import json
import re

from gagpo.envs import wording

_TYPES = "agent location receptacle object rtype otype"
_PREDICATES = """
    (atLocation ?a - agent ?l - location) (holds ?a - agent ?o - object) (holdsAny ?a - agent)
    (receptacleAtLocation ?r - receptacle ?l - location) (receptacleType ?r - receptacle ?rt - rtype)
    (openable ?r - receptacle) (opened ?r - receptacle) (canContain ?rt - rtype ?ot - otype)
    (objectType ?o - object ?ot - otype) (objectAtLocation ?o - object ?l - location)
    (inReceptacle ?o - object ?r - receptacle) (inReceptacleObject ?inner - object ?outer - object)
    (isReceptacleObject ?o - object) (pickupable ?o - object) (checked ?x - object)
    (cleanable ?o - object) (heatable ?o - object) (coolable ?o - object)
    (sliceable ?o - object) (toggleable ?o - object)
    (isClean ?o - object) (isHot ?o - object) (isCool ?o - object)
    (isSliced ?o - object) (isToggled ?o - object)"""
_HERE = "(atLocation ?a ?l) (receptacleAtLocation ?r ?l)"
_ACCESSIBLE = "(or (not (openable ?r)) (opened ?r))"
_AT = "?a - agent ?l - location ?r - receptacle"
_WITH = f"{_AT} ?o - object"
# (name, parameters, condition, effect). What only shows something marks what it showed as checked:
# a planner drops actions without an effect.
_ACTIONS = (
    ("look", "?a - agent ?l - location", "(atLocation ?a ?l)", "(checked ?l)"),
    ("inventory", "?a - agent", "", "(checked ?a)"),
    ("help", "?a - agent", "", "(checked ?a)"),
    ("examineReceptacle", _AT, _HERE, "(checked ?r)"),
    ("examineObject", "?a - agent ?o - object", "(holds ?a ?o)", "(checked ?o)"),
    (
        "GotoLocation",
        "?a - agent ?lStart - location ?lEnd - location ?r - receptacle",
        "(atLocation ?a ?lStart) (receptacleAtLocation ?r ?lEnd) (not (= ?lStart ?lEnd))",
        "(not (atLocation ?a ?lStart)) (atLocation ?a ?lEnd)",
    ),
    ("OpenObject", _AT, f"{_HERE} (openable ?r) (not (opened ?r))", "(opened ?r)"),
    ("CloseObject", _AT, f"{_HERE} (openable ?r) (opened ?r)", "(not (opened ?r))"),
    (
        "PickupObject",
        _WITH,
        f"{_HERE} (pickupable ?o) (inReceptacle ?o ?r) (not (holdsAny ?a)) {_ACCESSIBLE}",
        "(holds ?a ?o) (holdsAny ?a) (not (inReceptacle ?o ?r)) (not (objectAtLocation ?o ?l))",
    ),
    (
        "PutObject",
        f"{_WITH} ?rt - rtype ?ot - otype",
        f"{_HERE} (holds ?a ?o) (receptacleType ?r ?rt) (objectType ?o ?ot) (canContain ?rt ?ot) "
        f"{_ACCESSIBLE}",
        "(not (holds ?a ?o)) (not (holdsAny ?a)) (inReceptacle ?o ?r) (objectAtLocation ?o ?l)",
    ),
    (
        "CleanObject",
        _WITH,
        f"{_HERE} (holds ?a ?o) (cleanable ?o) "
        "(or (receptacleType ?r SinkType) (receptacleType ?r SinkBasinType))",
        "(isClean ?o)",
    ),
    (
        "HeatObject",
        _WITH,
        f"{_HERE} (holds ?a ?o) (heatable ?o) (receptacleType ?r MicrowaveType)",
        "(isHot ?o) (not (isCool ?o))",
    ),
    (
        "CoolObject",
        _WITH,
        f"{_HERE} (holds ?a ?o) (coolable ?o) (receptacleType ?r FridgeType)",
        "(isCool ?o) (not (isHot ?o))",
    ),
    ("ToggleObject", _WITH, f"{_HERE} (inReceptacle ?o ?r) (toggleable ?o)", "(isToggled ?o)"),
    (
        "SliceObject",
        "?a - agent ?l - location ?co - object ?ko - object",
        "(atLocation ?a ?l) (holds ?a ?ko) (sliceable ?co) (objectAtLocation ?co ?l) "
        "(or (objectType ?ko KnifeType) (objectType ?ko ButterKnifeType))",
        "(isSliced ?co)",
    ),
)
# Types that the domain names; a planner wants them declared.
RECEPTACLE_TYPES = ("sink", "sinkbasin", "microwave", "fridge")
OBJECT_TYPES = ("knife", "butterknife")

_COMMANDS = {
    "look": "look",
    "inventory": "inventory",
    "help": "help",
    "examineReceptacle": "examine {r}",
    "examineObject": "examine {o}",
    "GotoLocation": "go to {r}",
    "OpenObject": "open {r}",
    "CloseObject": "close {r}",
    "PickupObject": "take {o} from {r}",
    "PutObject": "move {o} to {r}",
    "CleanObject": "clean {o} with {r}",
    "HeatObject": "heat {o} with {r}",
    "CoolObject": "cool {o} with {r}",
    "ToggleObject": "use {o}",
    "SliceObject": "slice {co} with {ko}",
}
# The key of wording.ANSWERS for the actions that have one.
_ANSWER_OF = {
    "GotoLocation": "go",
    "OpenObject": "open",
    "CloseObject": "close",
    "examineReceptacle": "examine receptacle",
    "PickupObject": "take",
    "PutObject": "move",
    "CleanObject": "clean",
    "HeatObject": "heat",
    "CoolObject": "cool",
    "ToggleObject": "use",
    "SliceObject": "slice",
}
_FACT_OF = {
    "clean": "isclean",
    "hot": "ishot",
    "cool": "iscool",
    "toggled": "istoggled",
    "sliced": "issliced",
}
_FACING = "atlocation(a:agent, l:location) & receptacleatlocation(r:receptacle, l:location)"
_BESIDE = f"{_FACING} & objectatlocation(o:object, l:location) & not_inreceptacle(o:object, r:receptacle)"
_INSIDE = "[{'a ' + o.name | inreceptacle(o:object, r:receptacle)}]"
_SENTENCE = re.compile(r"[\w ,.'!?-]{1,400}", re.ASCII)


def domain() -> str:
    """The rules as a PDDL domain."""
    actions = "\n".join(
        f"  (:action {name}\n    :parameters ({parameters})\n    :precondition (and {condition})\n"
        f"    :effect (and {effect}))"
        for name, parameters, condition, effect in _ACTIONS
    )
    return (
        f"(define (domain alfred)\n  (:requirements :adl :typing)\n  (:types {_TYPES})\n"
        f"  (:predicates{_PREDICATES})\n{actions}\n)\n"
    )


def grammar(sentence: str) -> str:
    """The texts and commands as a TextWorld grammar; `sentence` is the task in words.

    Raises ValueError for a sentence with anything but plain words: brackets would be evaluated.
    """
    if not _SENTENCE.fullmatch(sentence):
        raise ValueError(f"sentence: {sentence[:80]!r}; expected up to 400 letters, digits and plain marks")
    text = json.dumps(_rules(sentence), indent=1)
    actions = (
        f'action {name} {{\n    template :: "{command}";\n    feedback :: "#{name}.feedback#";\n}}\n'
        for name, command in _COMMANDS.items()
    )
    return f'grammar :: """\n{text}\n""";\n\n' + "\n".join(actions)


def _rules(sentence: str) -> dict[str, list[dict[str, str]]]:
    """Symbol -> the texts it can become, the first whose condition holds."""
    here = f"[{{r.name | {_FACING}}}]"
    beside = f"[{{'a ' + o.name | {_BESIDE}}}]"
    everywhere = "[{'a ' + r.name | receptacleatlocation(r:receptacle, l:location)}]"
    carried = wording.CARRYING.replace("a {o}", "[{'a ' + o.name | holds(a:agent, o:object)}]")
    rules = {
        "intro": _plain(f"{wording.WELCOME}\n\n#look.feedback#\n\n{wording.TASK_PREFIX}{sentence}"),
        "look.feedback": [
            {"condition": _FACING, "rhs": wording.FACING.format(here=here, seen=beside)},
            {"rhs": wording.ROOM.format(seen=everywhere)},
        ],
        "inventory.feedback": [
            {"condition": "holdsany(a:agent)", "rhs": carried},
            {"rhs": wording.EMPTY_HANDS},
        ],
        "help.feedback": _plain(wording.HELP),
        "seen": [
            {
                "condition": "openable(r:receptacle) & opened(r:receptacle)",
                "rhs": wording.OPEN.format(r="{r.name}", seen=_INSIDE),
            },
            {"condition": "openable(r:receptacle)", "rhs": wording.SHUT.format(r="{r.name}")},
            {"rhs": wording.SURFACE.format(r="{r.name}", seen=_INSIDE)},
        ],
        "examineObject.feedback": _looks(),
        "list_empty": _plain("nothing"),
        "list_separator": _plain(", "),
        "list_last_separator": _plain(", and "),
    }
    for name, verb in _ANSWER_OF.items():
        thing = "{co.name}" if name == "SliceObject" else "{o.name}"
        answer = wording.ANSWERS[verb].format(o=thing, r="{r.name}", held="{ko.name}", seen="#seen#")
        rules[f"{name}.feedback"] = _plain(answer)
    return rules


def _looks() -> list[dict[str, str]]:
    inner = "[{'a ' + i.name | inreceptacleobject(i:object, o:object)}]"
    container = wording.CONTAINER.format(o="{o.name}", seen=inner)
    looks = [{"condition": "isreceptacleobject(o:object)", "rhs": container}]
    for conditions, text in wording.LOOKS:
        facts = " & ".join(f"{_FACT_OF.get(name, name)}(o:object)" for name in conditions)
        looks.append({"condition": facts, "rhs": text.format("{o.name}")})
    return looks


def _plain(text: str) -> list[dict[str, str]]:
    return [{"rhs": text}]
