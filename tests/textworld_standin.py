"""TextWorld's PDDL games without its planning library, which is a large build under another licence.

TextWorld reads a game, writes its texts and lists its commands; what it asks of the planner
(`fast_downward`) is only to ground the operators, to apply one, and to check the goal. Here
`PddlReference` does that. So the texts, the names and the order of commands are TextWorld's own, and
the rules are what the domain text inside the game file says.
"""

from __future__ import annotations

import ctypes
import sys
from collections import Counter
from importlib import reload
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from pddl_reference import PddlReference


class Atom(ctypes.Structure):
    _fields_ = (("text", ctypes.c_char * 1024),)

    @property
    def name(self) -> str:
        return self.text.decode()


class Operator(Atom):
    _fields_ = (("id", ctypes.c_int), ("nb_effect_atoms", ctypes.c_int))


class PlainAtom:
    """An atom of the initial state, as TextWorld wants it."""

    def __init__(self, predicate: str, *args: str) -> None:
        self.predicate, self.args = predicate, args


class Assign:
    """A number of the initial state; the games' only one, the cost, is left out."""


class Library:
    """What TextWorld calls of the planner's library, over one `PddlReference`."""

    def load_sas(self, text: bytes) -> None:
        domain, _, problem = text.decode().partition("\0")
        self.game = PddlReference(domain, problem)

    def load_sas_replan(self, text: bytes) -> None:
        """Only a planner needs it."""

    def get_state_size(self) -> int:
        return len(self.game.facts)

    def get_state(self, atoms: Any) -> None:
        for slot, fact in zip(atoms, sorted(self.game.facts), strict=True):
            slot.text = _written(True, fact)

    def get_applicable_operators_count(self) -> int:
        self.operators = self.game.operators()
        return len(self.operators)

    def get_applicable_operators(self, slots: Any) -> None:
        for i, (slot, operator) in enumerate(zip(slots, self.operators, strict=True)):
            slot.id, slot.text = i, operator.name.encode()
            slot.nb_effect_atoms = len(self.game.effects(operator))

    def apply_operator(self, id: int, slots: Any) -> int:
        effects = self.game.effects(self.operators[id])
        for slot, (is_added, atom) in zip(slots, effects, strict=True):
            slot.text = _written(is_added, atom)
        self.game.apply(self.operators[id])
        return 0

    def check_goal(self) -> bool:
        return self.game.won()


def _written(is_added: bool, atom: tuple[str, ...]) -> bytes:
    return f"{'Atom' if is_added else 'NegatedAtom'} {atom[0]}({', '.join(atom[1:])})".encode()


def pddl2sas(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> tuple[Any, str]:
    """(task, text); the text only carries domain and problem on to the library."""
    game = PddlReference(domain, problem)
    named = [
        SimpleNamespace(
            name=schema.name,
            parameters=[SimpleNamespace(name=name, type_name=kind) for name, kind in schema.parameters],
        )
        for schema in game.schemas
    ]
    task = SimpleNamespace(
        actions=named,
        types=[
            SimpleNamespace(name=name, supertype_names=["object"] * (name != "object"))
            for name in dict.fromkeys(("object", *game.types))
        ],
        objects=[SimpleNamespace(name=name, type_name=kind) for name, kind in game.kind_of.items()],
        init=[PlainAtom(*fact) for fact in game.init],
    )
    return task, f"{domain}\0{problem}"


def install() -> bool:
    """Put the stand-in where TextWorld imports its planner from, unless that is installed.

    Returns whether the stand-in is used."""
    if "fast_downward" in sys.modules:
        return sys.modules["fast_downward"].Atom is Atom
    if find_spec("fast_downward") is not None:
        return False
    module: Any = ModuleType("fast_downward")
    module.Atom, module.Operator, module.pddl2sas, module.load_lib = Atom, Operator, pddl2sas, Library
    module.translate = SimpleNamespace(
        pddl=SimpleNamespace(
            conditions=SimpleNamespace(Atom=PlainAtom), f_expression=SimpleNamespace(Assign=Assign)
        )
    )
    sys.modules["fast_downward"] = module
    if "textworld.envs.pddl.pddl" in sys.modules:  # it has looked for the library and not found it
        reload(sys.modules["textworld.envs.pddl.pddl"])
    return True


def load(game: Path | dict[str, Any]) -> Any:
    """A game in TextWorld, with ALFWorld's names: kinds are numbered down, the first id highest."""
    import textworld
    from textworld.envs.pddl.pddl import PddlEnv

    env = PddlEnv(textworld.EnvInfos(admissible_commands=True, won=True, feedback=True))
    env.load(game if isinstance(game, dict) else str(game))
    ids = sorted(env._entity_infos)
    kinds = {id: id.split("_bar_")[0] + ("basin" if "basin" in id else "") for id in ids if "_bar_" in id}
    left = Counter(kinds.values())
    for id in ids:
        env._entity_infos[id].name = id
        if id in kinds:
            env._entity_infos[id].name = f"{kinds[id]} {left[kinds[id]]}"
            left[kinds[id]] -= 1
    return env
