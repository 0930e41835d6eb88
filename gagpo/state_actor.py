"""An actor that plays a policy of states, so that the truth about what it recorded can be computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gagpo.envs.exact import Policy, probabilities, state_of
from gagpo.rollout import Action, Turn


class StateActor:
    """Draws commands as `policy` says. It reads the state, not the prompt; an action is one token."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def encode(self, prompts: Sequence[str]) -> list[tuple[int, ...]]:
        """One token for each prompt: nothing reads them."""
        return [(0,)] * len(prompts)

    def act(self, turns: Sequence[Turn], temperature: float, seed: Sequence[int]) -> list[Action]:
        """One command for each turn; the logprob is the policy's, whose temperature must stay 1.

        The policy is asked without an observation, which a turn does not hold."""
        if temperature != 1:
            raise ValueError(f"temperature: {temperature}; expected 1, for a policy of states has none")
        rng, actions = np.random.default_rng(list(seed)), []
        for turn in turns:
            state = state_of(turn.env)
            chances = probabilities(state, self.policy)
            drawn = int(rng.choice(len(chances), p=chances / chances.sum()))
            actions.append(Action(state.commands[drawn], (1,), (float(np.log(chances[drawn])),), False))
        return actions
