"""A household as a person wants to see it: everything, also what the player has not found yet."""

from __future__ import annotations

from gagpo.envs.rules import Rules, State

CONDITIONS = ("clean", "hot", "cool", "sliced", "toggled")


def picture(rules: Rules, state: State) -> str:
    """The goal, what is held, and a line for each receptacle with what lies in it.

    ">" marks the receptacles that the agent stands at.
    """
    held = "nothing" if state.held is None else _object(rules, state, state.held)
    lines = [f"goal: {rules.problem.sentence}", f"held: {held}"]
    for r, name in enumerate(rules.receptacle_names):
        mark = ">" if rules.place_of[r] == state.location else " "
        door = "" if r not in rules.openable else " (closed)" if rules.is_shut(state, r) else " (open)"
        inside = ", ".join(_object(rules, state, o) for o in rules.objects_in(state, r))
        lines.append(f"{mark} {name}{door}: {inside or '-'}")
    lying = {o for o, _ in state.inside} | {state.held}
    if lost := [_object(rules, state, o) for o in range(len(rules.object_names)) if o not in lying]:
        lines.append(f"  out of reach: {', '.join(lost)}")
    return "\n".join(lines)


def _object(rules: Rules, state: State, o: int) -> str:
    """Its name with what has been done to it, and what it holds: "mug 1 (clean, hot)"."""
    notes = [condition for condition in CONDITIONS if o in getattr(state, condition)]
    notes += [f"holds {rules.object_names[i]}" for i in rules.contents[o]]
    return rules.object_names[o] + (f" ({', '.join(notes)})" if notes else "")
