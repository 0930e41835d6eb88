"""Training, from top to bottom: collect, assign credit, batch, update, evaluate, record.

Every draw of a run is a function of (seed, purpose, iteration), so a run that was killed goes on
from its last checkpoint with the very numbers that it would have had.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch

from gagpo.batch import Row
from gagpo.checkpoint import load_checkpoint, save_checkpoint
from gagpo.config import Config
from gagpo.credit import assign_credit
from gagpo.critic import Critic
from gagpo.envs.base import World, make_world
from gagpo.envs.worker import WorkerWorld
from gagpo.loss import kl_k1
from gagpo.policy import Policy
from gagpo.rollout import collect
from gagpo.state_keys import find_state_key, keyed_table
from gagpo.stats import credit_metrics, rollout_metrics, success_by
from gagpo.store import Run, Stopped
from gagpo.table import Credit, Step, StepTable, Trajectory
from gagpo.tensorboard import MetricsSink, TensorBoard
from gagpo.update import Learner, Updater
from gagpo.warm_start import clone, demonstrations

# Purposes of random draws. The unseen tasks do not depend on the run's seed: all runs on a world
# are evaluated on the same ones.
TASKS, ROLLOUT, UPDATE, WARM, EVAL, CRITIC = range(6)
WARM_RECORD_EVERY = 10


class Trainer:
    """One run: its world, policy, optimiser and records."""

    def __init__(self, run: Run, config: Config, should_stop: Callable[[], str | None]) -> None:
        """`should_stop` returns a reason when the run is to stop at the next opportunity."""
        self.has_critic = config.credit.estimator == "gae"
        if config.run.num_threads:
            torch.set_num_threads(config.run.num_threads)
        self.run, self.config, self.should_stop = run, config, should_stop
        find_state_key(config.credit.state_key)  # an unknown one is refused here, in the first second
        limit = config.world.env_time_limit_s
        self.world: World = (
            WorkerWorld(config.world, time_limit_s=limit) if limit else make_world(config.world)
        )
        self.policy = Policy.build(config, self.world)
        self.updater = Updater(self.policy, config)
        self.critic: Critic | None = None  # of estimator "gae", once the policy has had its warm start
        self.reference: Policy | None = None
        self.sinks: list[MetricsSink] = [run]
        if config.run.tensorboard:
            self.sinks.append(TensorBoard(run.path / "tensorboard"))

    def train(self) -> None:
        """From wherever the run stands to its last iteration. Raises Stopped when asked to stop."""
        done = self._resume()
        if done is None:
            if self.world.skipped:
                self._record("warm", 0, {f"skipped/{k}": float(n) for k, n in self.world.skipped.items()})
            self._warm_start()
            self.critic = Critic(self.policy, self.config) if self.has_critic else None
            self._evaluate(0, self.config.eval.final_eval_tasks)
            self._save(done := 0)
        if self.config.loss.kl != "none":
            self.reference = self._reference(fresh=done == 0)
        last = self.config.run.iterations
        for iteration in range(done + 1, last + 1):
            self._status("running", iteration - 1)
            if reason := self.should_stop():
                self._save(iteration - 1)
                raise Stopped(reason)
            self._record("train", iteration, self._iterate(iteration))
            every = self.config.eval.eval_every
            if iteration == last:
                self._evaluate(iteration, self.config.eval.final_eval_tasks)
            elif every and iteration % every == 0:
                self._evaluate(iteration, self.config.eval.eval_tasks)
            if iteration == last or iteration % self.config.run.checkpoint_every == 0:
                self._save(iteration)
        self.policy.save_pretrained(self.run.path / "policy")

    def _iterate(self, iteration: int) -> dict[str, float]:
        """One iteration; returns its metrics."""
        config, seed = self.config, self.config.run.seed
        times: dict[str, float] = {}
        with _timed(times, "collect_s"):
            tasks = self.world.tasks("train", config.rollout.num_tasks, _rng(seed, TASKS, iteration))
            trajectories, num_failed = self._collect(
                tasks,
                num_siblings=config.rollout.num_siblings,
                temperature=config.rollout.temperature,
                seed=(seed, ROLLOUT, iteration),
                final_prompts=self.has_critic and config.credit.truncation == "bootstrap",
            )
        with _timed(times, "score_s"):
            rows = self._rows(trajectories)
        table, credit = self._credit(trajectories, rows, times)
        with _timed(times, "record_s"):
            # Before the update: should it fail, the steps that it failed on are on disk.
            self.run.write_steps(iteration, trajectories, table, credit, [row.old_logprobs for row in rows])
        with _timed(times, "update_s"):
            rows = [replace(r, advantage=float(a)) for r, a in zip(rows, credit.normalized, strict=True)]
            rng = _rng(seed, UPDATE, iteration)
            stands = self.critic is not None and iteration <= config.critic.critic_warmup
            updates = self.updater.update([] if stands else rows, table.trajectory, iteration, rng)
        if self.critic is not None:
            with _timed(times, "critic_s"):
                draw = _rng(seed, CRITIC, iteration)
                updates |= self.critic.learn(table, credit, trajectories, iteration, draw)
        num_tokens = sum(row.num_tokens for row in rows)
        sampler_gap = [
            np.abs(row.old_logprobs - np.array(step.logprobs)).max()
            for row, step in zip(rows, _steps(trajectories), strict=True)
        ]
        return {
            **rollout_metrics(trajectories),
            **credit_metrics(table, credit),
            **updates,
            "sampler_gap_max": float(max(sampler_gap)),
            "failed_tasks": float(num_failed),
            "num_steps": float(table.num_steps),
            "num_tokens": float(num_tokens),
            **times,
            "iteration_s": sum(times.values()),
            "peak_memory_mb": _peak_memory_mb(),
        }

    def _credit(
        self, trajectories: Sequence[Trajectory], rows: Sequence[Row], times: dict[str, float]
    ) -> tuple[StepTable, Credit]:
        """The iteration's table, with the critic's values where there is one, and its credit."""
        config = self.config
        with _timed(times, "credit_s"):
            table = keyed_table(trajectories, config.credit)
            reward = table.reward
            if config.loss.kl == "k1":
                reward = reward - config.loss.kl_coef * _action_kl(rows)
        if self.critic is not None:
            with _timed(times, "critic_s"):
                table = self.critic.valued(table, trajectories)
        with _timed(times, "credit_s"):
            return table, assign_credit(replace(table, reward=reward), config.credit)

    def _collect(self, tasks: Sequence[str], **how) -> tuple[list[Trajectory], int]:
        """Trajectories of the tasks whose environments held, and the number of the others."""
        failures: dict[str, Exception] = {}
        how |= {"policy_version": self.updater.num_updates, "failures": failures}
        trajectories = collect(self.world, self.policy, tasks, self.config.rollout, **how)
        return trajectories, _report(failures, trajectories)

    def _rows(self, trajectories: Sequence[Trajectory]) -> list[Row]:
        """A row for each step with the trainer's own logprobs; advantages and weights come later."""
        policy = self.policy
        rows = policy.rows(trajectories)
        budget = self.config.optim.micro_batch_tokens
        old = policy.score(rows, budget)
        rows = [replace(row, old_logprobs=values) for row, values in zip(rows, old, strict=True)]
        if self.reference is not None:
            ref = self.reference.score(rows, budget)
            rows = [replace(row, ref_logprobs=values) for row, values in zip(rows, ref, strict=True)]
        return rows

    def _evaluate(self, iteration: int, num_tasks: int) -> None:
        """Success on unseen tasks, one trajectory each; the same tasks every time."""
        times: dict[str, float] = {}
        with _timed(times, "evaluate_s"):
            trajectories, num_failed = self._collect(
                self.world.tasks("unseen", num_tasks, _rng(EVAL)),
                num_siblings=1,
                temperature=self.config.eval.eval_temperature,
                seed=(self.config.run.seed, EVAL, iteration),
            )
        by_type = success_by(trajectories, lambda t: self.world.task_type(t.task_id))
        self._record(
            "eval",
            iteration,
            {
                **rollout_metrics(trajectories),
                **{f"success_rate/{name}": value for name, value in by_type.items()},
                "num_tasks": float(len(trajectories)),
                "failed_tasks": float(num_failed),
                **times,
            },
        )

    def _warm_start(self) -> None:
        """Clone demonstrations; they are recorded as the steps of iteration 0."""
        config, seed = self.config, (self.config.run.seed, WARM)
        if config.warm.warm_updates == 0:
            return
        self._status("warming", 0)
        failures: dict[str, Exception] = {}
        trajectories = demonstrations(self.world, self.policy, config, seed, failures)
        counts = {"failed_tasks": float(_report(failures, trajectories))}
        table = StepTable.from_trajectories(trajectories)
        if self.has_critic:  # it has yet to be made, and will begin with these values
            zeros = np.zeros(table.num_steps)
            table = replace(table, critic_value=zeros, critic_final=zeros[: table.num_trajectories])
        rows = self.policy.rows(trajectories)
        credit = assign_credit(table, config.credit)
        # No policy chose these actions: their logprobs are 0, the trainer's like the demonstrator's.
        self.run.write_steps(0, trajectories, table, credit, [np.zeros(len(r.action_ids)) for r in rows])
        counts["num_steps"] = float(len(rows))
        self._record("warm", 0, {**counts, **rollout_metrics(trajectories)})
        for update, metrics in enumerate(clone(self.policy, rows, config, seed), 1):
            if update % WARM_RECORD_EVERY == 0 or update == config.warm.warm_updates:
                self._record("warm", 0, {"update": float(update), **metrics})
                if reason := self.should_stop():
                    raise Stopped(reason)  # seconds of work: the next start clones anew

    def _resume(self) -> int | None:
        """The iteration of the newest whole checkpoint, restored; None where there is none."""
        folder = self.run.path / "checkpoints"
        critic = Critic(self.policy, self.config) if self.has_critic else None
        state = load_checkpoint(folder, self.updater.parameters, self.updater.optimizer, critic)
        if state is None:
            self.run.drop_after(-1)
            return None
        self.critic = critic
        for learner, prefix in self._learners():
            learner.set_counters(**{k: int(state[prefix + k]) for k in learner.counters()})
        self.run.drop_after(int(state["iteration"]))
        return int(state["iteration"])

    def _reference(self, fresh: bool) -> Policy:
        """The policy as it was before the first iteration, kept beside the checkpoints."""
        folder, names = self.run.path / "reference", {name for name, _ in self.updater.parameters}
        if fresh:
            save_checkpoint(folder, 0, self.updater.parameters, None, {}, keep=1)
        twin = self.policy.frozen_copy()
        weights = [(name, p) for name, p in twin.model.named_parameters() if name in names]
        if load_checkpoint(folder, weights, None) is None:
            raise ValueError(f"{folder}: no whole copy of the reference policy; the run cannot go on")
        return twin

    def _save(self, iteration: int) -> None:
        state = {prefix + k: n for learner, prefix in self._learners() for k, n in learner.counters().items()}
        policy, folder = (self.updater.parameters, self.updater.optimizer), self.run.path / "checkpoints"
        save_checkpoint(folder, iteration, *policy, state, self.config.run.keep_checkpoints, self.critic)

    def _learners(self) -> list[tuple[Learner, str]]:
        """Whatever has an optimiser, and what its counters begin with in a checkpoint."""
        return [(self.updater, ""), *([(self.critic, "critic_")] if self.critic else [])]

    def _record(self, stage: str, iteration: int, metrics: dict[str, float]) -> None:
        for sink in self.sinks:
            sink.append_metrics(stage, iteration, metrics)

    def _status(self, state: str, iteration: int) -> None:
        self.run.write_status(state, iteration, self.config.run.iterations)


def _report(failures: dict[str, Exception], trajectories: Sequence[Trajectory]) -> int:
    """Warn of each task that failed and return how many. Raises RuntimeError where all did."""
    for task_id, error in failures.items():
        warnings.warn(f"task {task_id!r} is left out: {error!r}", RuntimeWarning, stacklevel=3)
    if not trajectories:
        task_id, error = next(iter(failures.items()))
        raise RuntimeError(f"every task failed; the first, {task_id!r}: {error!r}") from error
    return len(failures)


def _action_kl(rows: Sequence[Row]) -> np.ndarray:
    """(S,) float64, k1 of each action to the reference: the sum over its tokens, in nats."""
    return np.array([float(np.sum(kl_k1(row.old_logprobs, row.ref_logprobs))) for row in rows])


def _steps(trajectories: Sequence[Trajectory]) -> list[Step]:
    return [step for trajectory in trajectories for step in trajectory.steps]


def _rng(*key: int) -> np.random.Generator:
    return np.random.default_rng(key)


@contextmanager
def _timed(times: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    times[name] = times.get(name, 0.0) + time.perf_counter() - start


def _peak_memory_mb() -> float:
    """Peak resident memory of the process, plus that of the GPU where there is one."""
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss: bytes there, KiB on Linux
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    if torch.cuda.is_available():
        peak += torch.cuda.max_memory_allocated()
    return peak / 2**20
