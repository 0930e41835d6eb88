"""Every setting of a run, as nested frozen dataclasses with their ranges.

Leaf names are unique across the sections, so the same settings can be given flat: that is what
papermill parameters and `recipes/*.yaml` do (`Config.from_flat`). Unknown names are refused
with the nearest known one; values are checked when the object is made.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from typing import Any


def _at(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] | None = None,
) -> Any:
    """A field with its default, its meaning and what it may be."""
    limits = {"help": help, "low": low, "high": high, "choices": choices}
    if isinstance(default, type):
        return field(default_factory=default, metadata=limits)
    return field(default=default, metadata=limits)


class _Checked:
    """Base of the sections: `__post_init__` checks type, range and choices of every field."""

    __slots__ = ()

    def __post_init__(self) -> None:
        hints = _hints(type(self))
        for f in fields(self):
            value = _typed(f.name, getattr(self, f.name), hints[f.name])
            _in_range(f.name, value, **{k: f.metadata[k] for k in ("low", "high", "choices")})
            object.__setattr__(self, f.name, value)


@dataclass(frozen=True, slots=True)
class WorldConfig(_Checked):
    env: str = _at(
        "household",
        "household, alfworld, webshop, textworld, minigrid, keydoor, frozenlake, or a package's own",
    )
    games: str | None = _at(None, "folder or file with games (env alfworld or textworld)")
    unseen_games: str | None = _at(None, "games to evaluate on; else a fifth of `games` is held out")
    task_types: tuple[str, ...] = _at((), "task types to play; empty means all of them")
    max_steps: int = _at(30, "steps after which a trajectory is truncated", low=1)
    success_reward: float = _at(10.0, "reward for reaching the goal", low=0)
    full_view: bool = _at(False, "show the whole grid, not what the agent sees (env minigrid)")
    score_reward: float = _at(0.0, "reward for all points of a game that has points (env textworld)", low=0)
    env_time_limit_s: float = _at(
        0.0, "seconds a call may take, each environment in a process of its own; 0 plays in this one", low=0
    )
    catalogue: str | None = _at(None, "WebShop's data folder or products file (env webshop); else generated")
    catalogue_index: str | None = _at(None, "folder for the index of `catalogue`; else beside the file")
    num_products: int = _at(0, "products of the catalogue; 0 takes all of a file, or generates 2000", low=0)
    shop_seed: int = _at(0, "of a generated catalogue, of prices and price limits", low=0)
    human_goals: bool = _at(True, "what people asked for, else synthetic instructions (env webshop)")
    page_text: str = _at("text", "WebShop's observation mode", choices=("text", "text_rich"))
    suggest_searches: bool = _at(
        True, "offer searches in words of the request, as `masked` needs; else search[<words>] (env webshop)"
    )
    partial_reward: bool = _at(False, "a purchase pays success_reward times its score (env webshop)")
    num_receptacles: int = _at(8, "receptacles of a generated house, up to 40 a room", low=4, high=160)
    num_objects: int = _at(6, "objects of a generated house", low=2, high=60)
    num_rooms: int = _at(1, "rooms that a generated house is furnished like", low=1, high=4)
    num_spares: int | None = _at(
        None,
        "objects of the wanted type that the task does not need; None leaves it to chance",
        low=0,
        high=58,
    )
    min_plan_steps: int = _at(0, "steps of a generated house's shortest plan, at the least", low=0)
    max_plan_steps: int | None = _at(None, "and at the most; None sets no bound", low=1)

    def __post_init__(self) -> None:
        _Checked.__post_init__(self)
        least, most = 3 + self.num_rooms, 40 * self.num_rooms  # three may be needed for the task
        if not least <= self.num_receptacles <= most:
            given = f"{self.num_receptacles} with num_rooms {self.num_rooms}"
            raise ValueError(f"num_receptacles: {given}; expected {least} to {most}")
        for name, most in (("max_plan_steps", self.max_plan_steps), ("max_steps", self.max_steps)):
            if most is not None and self.min_plan_steps > most:
                raise ValueError(f"min_plan_steps: {self.min_plan_steps}; expected at most {name}, {most}")


@dataclass(frozen=True, slots=True)
class RolloutConfig(_Checked):
    num_tasks: int = _at(16, "tasks in an iteration", low=1)
    num_siblings: int = _at(8, "trajectories for each task", low=1)
    temperature: float = _at(1.0, "of sampling, and of the trained logprobs too", low=1e-3, high=10)
    prompt: str = _at("compact", "how a state is put into words", choices=("compact", "instruct", "gigpo"))
    history: int = _at(10, "earlier steps that the prompt shows", low=0)
    max_prompt_tokens: int = _at(512, "longer prompts lose their oldest history", low=16)
    max_action_tokens: int = _at(16, "an action longer than this is cut off", low=1)
    masked: bool = _at(True, "sample and train among the admissible commands only")

    def __post_init__(self) -> None:
        _Checked.__post_init__(self)
        if self.masked and self.prompt == "gigpo":
            raise ValueError(
                "masked: True with prompt 'gigpo', whose answers think in words of their own; "
                "expected False (and max_action_tokens that leave room for thoughts)"
            )


@dataclass(frozen=True, slots=True)
class CreditConfig(_Checked):
    estimator: str = _at("gagpo", "a name in gagpo.credit.ESTIMATORS; docs/credit.md explains each")
    gamma: float = _at(0.95, "discount", low=0, high=1)
    lam: float = _at(0.8, "lambda of the generalized advantage", low=0, high=1)
    normalize: str = _at("group", "where mean and deviation are taken", choices=("group", "batch", "none"))
    own_return: str = _at("included", "a step's own return in its value", choices=("included", "left_out"))
    truncation: str = _at("terminal", "a cut episode's last value", choices=("terminal", "bootstrap"))
    invalid_penalty: float = _at(0.1, "taken off for an invalid action", low=0)
    penalty_rule: str = _at(
        "reward",
        "where the penalty enters: in r_t, at its own step after "
        "discounting, or after normalisation at its own scale",
        choices=("reward", "after_discounting", "after_normalization"),
    )
    omega: float = _at(1.0, "weight of GiGPO's and GraphGPO's step term", low=0)
    episode_term: float = _at(0.0, "weight of GRPO's advantage, added to GAGPO's (an ablation)", low=0)
    hgpo_history: int = _at(2, "K: earlier states that HGPO's finest groups share", low=0, high=64)
    hgpo_alpha: float = _at(1.0, "HGPO's groups that share k + 1 states weigh (k + 1)^alpha", low=0, high=16)
    goal_worth: float = _at(10.0, "C of GraphGPO, which counts where sigma does not divide", low=0)
    state_key: str = _at(
        "exact",
        "what makes two states equal: exact, observation, history, normalized, similar, or a package's own",
    )
    key_history: int = _at(2, "earlier steps that state_key history compares, too", low=0)
    key_similarity: float = _at(
        0.95, "state_key similar links observations that are this similar", low=0, high=1
    )


@dataclass(frozen=True, slots=True)
class LossConfig(_Checked):
    ratio: str = _at(
        "sequence", "one importance ratio an action, or one a token", choices=("sequence", "token")
    )
    loss_mean: str = _at("action", "what the loss is a mean over", choices=("action", "token", "trajectory"))
    clip_low: float = _at(0.2, "ratios below 1 - clip_low are clipped", low=0, high=1)
    clip_high: float = _at(0.2, "ratios above 1 + clip_high are clipped", low=0)
    dual_clip: float | None = _at(None, "floor of ratio * advantage for negative advantages", low=1)
    kl: str = _at(
        "none",
        "penalty to the reference policy: k1 in the reward, k2 or k3 in the loss",
        choices=("none", "k1", "k2", "k3"),
    )
    kl_coef: float = _at(0.01, "weight of that penalty", low=0)
    entropy_coef: float = _at(0.0, "weight of an entropy bonus", low=0)


@dataclass(frozen=True, slots=True)
class OptimConfig(_Checked):
    learning_rate: float = _at(3e-4, "of AdamW", low=0)
    lr_schedule: str = _at("constant", "over the iterations", choices=("constant", "linear", "cosine"))
    lr_warmup: int = _at(0, "iterations over which the learning rate rises", low=0)
    weight_decay: float = _at(0.0, "of AdamW", low=0)
    max_grad_norm: float = _at(1.0, "gradients are clipped to this norm", low=0)
    num_minibatches: int = _at(1, "updates in one pass over an iteration's steps", low=1)
    num_epochs: int = _at(1, "passes over an iteration's steps", low=1)
    micro_batch_tokens: int = _at(4096, "padded tokens in one forward pass", low=64)


@dataclass(frozen=True, slots=True)
class PolicyConfig(_Checked):
    model: str = _at("tiny", "tiny, or a Hugging Face model id or folder")
    hidden_size: int = _at(96, "width of the tiny model", low=8)
    num_layers: int = _at(2, "layers of the tiny model", low=1)
    num_heads: int = _at(4, "attention heads of the tiny model", low=1)
    lora_rank: int = _at(0, "0 trains every weight, else the rank of the adapters", low=0)
    dtype: str = _at("float32", "of the weights", choices=("float32", "bfloat16"))
    device: str = _at("cpu", "cpu, cuda, cuda:1 ...")


@dataclass(frozen=True, slots=True)
class WarmConfig(_Checked):
    warm_updates: int = _at(200, "behaviour-cloning updates before training; 0 skips the stage", low=0)
    warm_episodes: int = _at(400, "demonstrations to clone", low=1)
    warm_batch: int = _at(64, "steps in a cloning update", low=1)
    warm_learning_rate: float = _at(1e-3, "of the cloning updates", low=0)
    expert_share: float = _at(
        0.4,
        "share of moves that the planner makes in a demonstration; "
        "the others are random, and every one of them is cloned",
        low=0,
        high=1,
    )


@dataclass(frozen=True, slots=True)
class EvalConfig(_Checked):
    eval_tasks: int = _at(64, "unseen tasks at each evaluation", low=1)
    final_eval_tasks: int = _at(200, "unseen tasks before the first and after the last iteration", low=1)
    eval_every: int = _at(10, "iterations between evaluations; 0 evaluates at both ends only", low=0)
    eval_temperature: float = _at(0.4, "of sampling in evaluations", low=1e-3, high=10)


@dataclass(frozen=True, slots=True)
class RunConfig(_Checked):
    run_id: str = _at("smoke", "name of the folder under runs/")
    iterations: int = _at(50, "collect-and-update rounds", low=1)
    seed: int = _at(0, "of everything that is drawn", low=0)
    checkpoint_every: int = _at(5, "iterations between checkpoints", low=1)
    keep_checkpoints: int = _at(2, "checkpoints to keep", low=1)
    tensorboard: bool = _at(False, "write TensorBoard events too")
    num_threads: int = _at(0, "torch threads; 0 leaves torch's choice", low=0)


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of one run."""

    world: WorldConfig = field(default_factory=WorldConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    credit: CreditConfig = field(default_factory=CreditConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    warm: WarmConfig = field(default_factory=WarmConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    run: RunConfig = field(default_factory=RunConfig)

    @classmethod
    def from_dict(cls, nested: Mapping[str, Mapping[str, Any]]) -> Config:
        """From {section: {name: value}}, as `to_dict` returns and config.json holds."""
        sections = _hints(cls)
        made = {}
        for section, values in nested.items():
            if section not in sections:
                raise ValueError(_unknown("section", section, sections))
            if not isinstance(values, Mapping):
                raise ValueError(f"{section}: {values!r}; expected a mapping of names to values")
            known = [f.name for f in fields(sections[section])]
            for name in values:
                if name not in known:
                    raise ValueError(_unknown(f"setting of {section}", name, known))
            made[section] = sections[section](**values)
        return cls(**made)

    @classmethod
    def from_flat(cls, settings: Mapping[str, Any]) -> Config:
        """From {name: value} without sections: papermill parameters, a recipe."""
        nested: dict[str, dict[str, Any]] = {}
        for name, value in settings.items():
            if name not in section_of():
                raise ValueError(_unknown("setting", name, section_of()))
            nested.setdefault(section_of()[name], {})[name] = value
        return cls.from_dict(nested)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Nested dictionaries of JSON values; `from_dict` takes them back."""
        plain = asdict(self)
        plain["world"]["task_types"] = list(self.world.task_types)
        return plain

    def to_flat(self) -> dict[str, Any]:
        """{name: value} of every setting."""
        return {name: value for values in self.to_dict().values() for name, value in values.items()}


@cache
def section_of() -> dict[str, str]:
    """{name of a setting: its section}."""
    return {f.name: section for section, cls in _hints(Config).items() for f in fields(cls)}


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _unknown(what: str, name: str, known: typing.Iterable[str]) -> str:
    near = get_close_matches(str(name), list(known), 1, 0.5)
    return f"unknown {what} {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _typed(name: str, value: Any, hint: Any) -> Any:
    """`value` as the type that `hint` names, or a ValueError."""
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value is None and type(None) in options:
        return None
    kind = options[0]
    if typing.get_origin(kind) is tuple:
        items = (
            [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value
        )
        if isinstance(items, (list, tuple)) and all(isinstance(item, str) for item in items):
            return tuple(items)
    elif kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if abs(value) < float("inf"):
            return float(value)
    elif isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    hint_text = " (YAML reads 1e-4 as text; write 1.0e-4)" if kind is float and isinstance(value, str) else ""
    wanted = "a list of names" if typing.get_origin(kind) is tuple else kind.__name__
    raise ValueError(f"{name}: {value!r} is {type(value).__name__}; expected {wanted}{hint_text}")


def _in_range(
    name: str, value: Any, low: float | None, high: float | None, choices: tuple[str, ...] | None
) -> None:
    if choices is not None and value not in choices:
        near = get_close_matches(str(value), choices, 1, 0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{name}: {value!r}; expected one of {', '.join(choices)}{hint}")
    if value is None:
        return
    if low is not None and value < low:
        raise ValueError(f"{name}: {value!r}; expected at least {low}")
    if high is not None and value > high:
        raise ValueError(f"{name}: {value!r}; expected at most {high}")
