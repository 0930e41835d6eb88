"""Every setting of a run, as nested frozen dataclasses with their ranges.

Leaf names are unique across the sections, so the same settings can be given flat: that is what
papermill parameters and `recipes/*.yaml` do (`Config.from_flat`). Unknown names are refused
with the nearest known one; values are checked when the object is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Any

from gagpo.checked import Checked, at, hints, unknown


@dataclass(frozen=True, slots=True)
class WorldConfig(Checked):
    env: str = at(
        "household",
        "household, alfworld, webshop, textworld, minigrid, keydoor, frozenlake, or a package's own",
    )
    games: str | None = at(None, "folder or file with games (env alfworld or textworld)")
    unseen_games: str | None = at(None, "games to evaluate on; else a fifth of `games` is held out")
    task_types: tuple[str, ...] = at((), "task types to play; empty means all of them")
    max_steps: int = at(30, "steps after which a trajectory is truncated", low=1)
    success_reward: float = at(10.0, "reward for reaching the goal", low=0)
    full_view: bool = at(False, "show the whole grid, not what the agent sees (env minigrid)")
    score_reward: float = at(0.0, "reward for all points of a game that has points (env textworld)", low=0)
    env_time_limit_s: float = at(
        0.0, "seconds a call may take, each environment in a process of its own; 0 plays in this one", low=0
    )
    catalogue: str | None = at(None, "WebShop's data folder or products file (env webshop); else generated")
    catalogue_index: str | None = at(None, "folder for the index of `catalogue`; else beside the file")
    num_products: int = at(0, "products of the catalogue; 0 takes all of a file, or generates 2000", low=0)
    shop_seed: int = at(0, "of a generated catalogue, of prices and price limits", low=0)
    human_goals: bool = at(True, "what people asked for, else synthetic instructions (env webshop)")
    page_text: str = at("text", "WebShop's observation mode", choices=("text", "text_rich"))
    suggest_searches: bool = at(
        True, "offer searches in words of the request, as `masked` needs; else search[<words>] (env webshop)"
    )
    partial_reward: bool = at(False, "a purchase pays success_reward times its score (env webshop)")
    num_receptacles: int = at(8, "receptacles of a generated house, up to 40 a room", low=4, high=160)
    num_objects: int = at(6, "objects of a generated house", low=2, high=60)
    num_rooms: int = at(1, "rooms that a generated house is furnished like", low=1, high=4)
    num_spares: int | None = at(
        None,
        "objects of the wanted type that the task does not need; None leaves it to chance",
        low=0,
        high=58,
    )
    min_plan_steps: int = at(0, "steps of a generated house's shortest plan, at the least", low=0)
    max_plan_steps: int | None = at(None, "and at the most; None sets no bound", low=1)

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        least, most = 3 + self.num_rooms, 40 * self.num_rooms  # three may be needed for the task
        if not least <= self.num_receptacles <= most:
            given = f"{self.num_receptacles} with num_rooms {self.num_rooms}"
            raise ValueError(f"num_receptacles: {given}; expected {least} to {most}")
        for name, most in (("max_plan_steps", self.max_plan_steps), ("max_steps", self.max_steps)):
            if most is not None and self.min_plan_steps > most:
                raise ValueError(f"min_plan_steps: {self.min_plan_steps}; expected at most {name}, {most}")


@dataclass(frozen=True, slots=True)
class RolloutConfig(Checked):
    num_tasks: int = at(16, "tasks in an iteration", low=1)
    num_siblings: int = at(8, "trajectories for each task", low=1)
    temperature: float = at(1.0, "of sampling, and of the trained logprobs too", low=1e-3, high=10)
    prompt: str = at("compact", "how a state is put into words", choices=("compact", "instruct", "gigpo"))
    history: int = at(10, "earlier steps that the prompt shows", low=0)
    max_prompt_tokens: int = at(512, "longer prompts lose their oldest history", low=16)
    max_action_tokens: int = at(16, "an action longer than this is cut off", low=1)
    masked: bool = at(True, "sample and train among the admissible commands only")

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.masked and self.prompt == "gigpo":
            raise ValueError(
                "masked: True with prompt 'gigpo', whose answers think in words of their own; "
                "expected False (and max_action_tokens that leave room for thoughts)"
            )


@dataclass(frozen=True, slots=True)
class CreditConfig(Checked):
    estimator: str = at("gagpo", "a name in gagpo.credit.ESTIMATORS; docs/credit.md explains each")
    gamma: float = at(0.95, "discount", low=0, high=1)
    lam: float = at(0.8, "lambda of the generalized advantage", low=0, high=1)
    normalize: str = at("group", "where mean and deviation are taken", choices=("group", "batch", "none"))
    own_return: str = at("included", "a step's own return in its value", choices=("included", "left_out"))
    truncation: str = at("terminal", "a cut episode's last value", choices=("terminal", "bootstrap"))
    invalid_penalty: float = at(0.1, "taken off for an invalid action", low=0)
    penalty_rule: str = at(
        "reward",
        "where the penalty enters: in r_t, at its own step after "
        "discounting, or after normalisation at its own scale",
        choices=("reward", "after_discounting", "after_normalization"),
    )
    omega: float = at(1.0, "weight of GiGPO's and GraphGPO's step term", low=0)
    episode_term: float = at(0.0, "weight of GRPO's advantage, added to GAGPO's (an ablation)", low=0)
    hgpo_history: int = at(2, "K: earlier states that HGPO's finest groups share", low=0, high=64)
    hgpo_alpha: float = at(1.0, "HGPO's groups that share k + 1 states weigh (k + 1)^alpha", low=0, high=16)
    goal_worth: float = at(10.0, "C of GraphGPO, which counts where sigma does not divide", low=0)
    state_key: str = at(
        "exact",
        "what makes two states equal: exact, observation, history, normalized, similar, or a package's own",
    )
    key_history: int = at(2, "earlier steps that state_key history compares, too", low=0)
    key_similarity: float = at(
        0.95, "state_key similar links observations that are this similar", low=0, high=1
    )


@dataclass(frozen=True, slots=True)
class LossConfig(Checked):
    ratio: str = at(
        "sequence", "one importance ratio an action, or one a token", choices=("sequence", "token")
    )
    loss_mean: str = at("action", "what the loss is a mean over", choices=("action", "token", "trajectory"))
    clip_low: float = at(0.2, "ratios below 1 - clip_low are clipped", low=0, high=1)
    clip_high: float = at(0.2, "ratios above 1 + clip_high are clipped", low=0)
    dual_clip: float | None = at(None, "floor of ratio * advantage for negative advantages", low=1)
    kl: str = at(
        "none",
        "penalty to the reference policy: k1 in the reward, k2 or k3 in the loss",
        choices=("none", "k1", "k2", "k3"),
    )
    kl_coef: float = at(0.01, "weight of that penalty", low=0)
    entropy_coef: float = at(0.0, "weight of an entropy bonus", low=0)


@dataclass(frozen=True, slots=True)
class OptimConfig(Checked):
    learning_rate: float = at(3e-4, "of AdamW", low=0)
    lr_schedule: str = at("constant", "over the iterations", choices=("constant", "linear", "cosine"))
    lr_warmup: int = at(0, "iterations over which the learning rate rises", low=0)
    weight_decay: float = at(0.0, "of AdamW", low=0)
    max_grad_norm: float = at(1.0, "gradients are clipped to this norm", low=0)
    num_minibatches: int = at(1, "updates in one pass over an iteration's steps", low=1)
    num_epochs: int = at(1, "passes over an iteration's steps", low=1)
    micro_batch_tokens: int = at(4096, "padded tokens in one forward pass", low=64)


@dataclass(frozen=True, slots=True)
class CriticConfig(Checked):
    """Of the critic that the estimator "gae" reads; the others have none, and ignore this.

    Schedule, weight decay and clipping of its updates are those of `OptimConfig`.
    """

    critic_learning_rate: float = at(1e-3, "of the critic's AdamW", low=0)
    critic_epochs: int = at(2, "the critic's passes over an iteration's steps", low=1)
    critic_minibatches: int = at(4, "the critic's updates in one pass", low=1)
    critic_warmup: int = at(0, "iterations in which only the critic learns", low=0)


@dataclass(frozen=True, slots=True)
class PolicyConfig(Checked):
    model: str = at("tiny", "tiny, or a Hugging Face model id or folder")
    hidden_size: int = at(96, "width of the tiny model", low=8)
    num_layers: int = at(2, "layers of the tiny model", low=1)
    num_heads: int = at(4, "attention heads of the tiny model", low=1)
    lora_rank: int = at(0, "0 trains every weight, else the rank of the adapters", low=0)
    dtype: str = at("float32", "of the weights", choices=("float32", "bfloat16"))
    device: str = at("cpu", "cpu, cuda, cuda:1 ...")


@dataclass(frozen=True, slots=True)
class WarmConfig(Checked):
    warm_updates: int = at(200, "behaviour-cloning updates before training; 0 skips the stage", low=0)
    warm_episodes: int = at(400, "demonstrations to clone", low=1)
    warm_batch: int = at(64, "steps in a cloning update", low=1)
    warm_learning_rate: float = at(1e-3, "of the cloning updates", low=0)
    expert_share: float = at(
        0.4,
        "share of moves that the planner makes in a demonstration; "
        "the others are random, and every one of them is cloned",
        low=0,
        high=1,
    )


@dataclass(frozen=True, slots=True)
class EvalConfig(Checked):
    eval_tasks: int = at(64, "unseen tasks at each evaluation", low=1)
    final_eval_tasks: int = at(200, "unseen tasks before the first and after the last iteration", low=1)
    eval_every: int = at(10, "iterations between evaluations; 0 evaluates at both ends only", low=0)
    eval_temperature: float = at(0.4, "of sampling in evaluations", low=1e-3, high=10)


@dataclass(frozen=True, slots=True)
class RunConfig(Checked):
    run_id: str = at("smoke", "name of the folder under runs/")
    iterations: int = at(50, "collect-and-update rounds", low=1)
    seed: int = at(0, "of everything that is drawn", low=0)
    checkpoint_every: int = at(5, "iterations between checkpoints", low=1)
    keep_checkpoints: int = at(2, "checkpoints to keep", low=1)
    tensorboard: bool = at(False, "write TensorBoard events too")
    num_threads: int = at(0, "torch threads; 0 leaves torch's choice", low=0)


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of one run."""

    world: WorldConfig = field(default_factory=WorldConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    credit: CreditConfig = field(default_factory=CreditConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    critic: CriticConfig = field(default_factory=CriticConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    warm: WarmConfig = field(default_factory=WarmConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        warmup, last = self.critic.critic_warmup, self.run.iterations
        if self.credit.estimator == "gae" and warmup >= last:
            raise ValueError(f"critic_warmup: {warmup}; expected less than iterations, {last}")

    @classmethod
    def from_dict(cls, nested: Mapping[str, Mapping[str, Any]]) -> Config:
        """From {section: {name: value}}, as `to_dict` returns and config.json holds."""
        sections = hints(cls)
        made = {}
        for section, values in nested.items():
            if section not in sections:
                raise ValueError(unknown("section", section, sections))
            if not isinstance(values, Mapping):
                raise ValueError(f"{section}: {values!r}; expected a mapping of names to values")
            known = [f.name for f in fields(sections[section])]
            for name in values:
                if name not in known:
                    raise ValueError(unknown(f"setting of {section}", name, known))
            made[section] = sections[section](**values)
        return cls(**made)

    @classmethod
    def from_flat(cls, settings: Mapping[str, Any]) -> Config:
        """From {name: value} without sections: papermill parameters, a recipe."""
        nested: dict[str, dict[str, Any]] = {}
        for name, value in settings.items():
            if name not in section_of():
                raise ValueError(unknown("setting", name, section_of()))
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
    return {f.name: section for section, cls in hints(Config).items() for f in fields(cls)}
