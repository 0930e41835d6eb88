"""What makes two states equal: functions that name the states of a trajectory.

Each takes a Trajectory and returns len(steps) + 1 names, one for the state before each step and
one for the final state; `StepTable.from_trajectories` compares them within a group. The choice
trades false neighbours against none at all: text that looks alike may hide different states,
and a key that holds the whole history is shared by nobody.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from gagpo.table import Trajectory, recorded_state_keys

HISTORY_STEPS = 2


def observation_keys(trajectory: Trajectory) -> list[str]:
    """The observation's text as it is: the key of the paper."""
    return [*(step.observation for step in trajectory.steps), trajectory.final_observation]


def history_keys(trajectory: Trajectory) -> list[str]:
    """The observation, after the observations and actions of the last HISTORY_STEPS steps.

    The parts are joined as a JSON list, so that no text can imitate a seam.
    """
    steps = trajectory.steps
    keys = []
    for t, observation in enumerate(observation_keys(trajectory)):
        past = steps[max(0, t - HISTORY_STEPS) : t]
        keys.append(json.dumps([[step.observation, step.action] for step in past] + [observation]))
    return keys


def normalized_keys(trajectory: Trajectory) -> list[str]:
    """The observation in lower case, each run of white space as one blank, digits kept."""
    return [" ".join(text.lower().split()) for text in observation_keys(trajectory)]


STATE_KEYS: dict[str, Callable[[Trajectory], list[str]]] = {
    "exact": recorded_state_keys,
    "observation": observation_keys,
    "history": history_keys,
    "normalized": normalized_keys,
}
