"""What the credit laboratory can be asked for besides the settings of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from gagpo.checked import Checked, at
from gagpo.config import Config
from gagpo.fidelity_cell import Cell
from gagpo.importers import Options
from gagpo.state_keys import STATE_KEYS


@dataclass(frozen=True, slots=True)
class LabSettings(Checked):
    success: float | None = at(
        0.5, "how often the policy that is played succeeds; None: uniform", low=0, high=1
    )
    num_batches: int = at(16, "batches that the measures are taken on", low=2)
    task: str | None = at(None, "the task that is looked at; None takes one whose siblings differ")
    num_shown: int = at(4, "siblings that are shown side by side", low=1)
    compared_keys: tuple[str, ...] = at(tuple(STATE_KEYS), "state keys to compare")
    runs_dir: str | None = at(None, "where run_id is; None is the checkout's runs/")
    iteration: int | None = at(None, "of the run; None is the last one recorded")
    trajectories: str | None = at(None, "a file of another project, or one of our own steps files")
    trajectory_format: str | None = at(None, "its format; None tells it from the content")
    import_key: str | None = at(None, "what makes two of its states equal; None takes the format's own")
    reward_field: str | None = at(None, "dotted path of the reward within a record; None: the format's own")
    task_field: str | None = at(None, "likewise, of the task")
    sibling_field: str | None = at(None, "likewise, of the attempt's number")
    goal_field: str | None = at(None, "likewise, of the task in words")
    missing_reward: float | None = at(None, "of attempts without a reward; None leaves them out")
    success_at: float = at(1.0, "the reward from which on an attempt succeeded")
    import_max_steps: int | None = at(None, "attempts of so many steps were cut by a limit", low=1)

    @classmethod
    def of(cls, namespace: Mapping[str, Any]) -> LabSettings:
        """Those among a notebook's variables."""
        return cls(**{name: namespace[name] for name in OWN_PARAMETERS if name in namespace})

    def options(self, state_key: str | None = None) -> Options:
        """How the file is read; `state_key` stands for `import_key` where it is given."""
        same = ("reward_field", "task_field", "sibling_field", "goal_field", "missing_reward", "success_at")
        return Options(
            state_key=state_key or self.import_key,
            max_steps=self.import_max_steps,
            **{name: getattr(self, name) for name in same},
        )

    def cell(self, config: Config) -> Cell:
        """The setting in which credit is held against the truth."""
        world, rollout = config.world, config.rollout
        return Cell(
            env=world.env,
            success=self.success,
            num_siblings=rollout.num_siblings,
            horizon=world.max_steps,
            gamma=config.credit.gamma,
            min_plan_steps=world.min_plan_steps,
            max_plan_steps=world.max_plan_steps,
            num_tasks=rollout.num_tasks,
            num_batches=self.num_batches,
            seed=config.run.seed,
        )


OWN_PARAMETERS = tuple(field.name for field in fields(LabSettings))
