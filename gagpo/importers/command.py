"""The command `gagpo import`: what its arguments are, and what it answers with."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from gagpo.config import CreditConfig
from gagpo.credit import ESTIMATORS
from gagpo.importers import READERS, Imported, Options, combine, detect_format, import_file
from gagpo.importers.entries import parse
from gagpo.importers.fields import finite, mapping, short
from gagpo.importers.keys import KEYS
from gagpo.importers.own_steps import OWN_KEYS
from gagpo.importers.run_folder import write_run
from gagpo.stats import sharing_metrics


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Every option of `gagpo import`."""
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="of one format")
    parser.add_argument("--out", type=Path, help="new run folder; without it, only the report is printed")
    parser.add_argument("--format", help=f"one of {', '.join(READERS)}; told from the content by default")
    parser.add_argument("--state-key", help=f"one of {', '.join(KEYS)}")
    for name in ("reward", "task", "sibling", "goal"):
        parser.add_argument(f"--{name}-field", help=f"dotted path of the {name} within a record")
    parser.add_argument("--missing-reward", type=float, help="of attempts without one; else they are dropped")
    parser.add_argument("--rewards", type=Path, help="JSON object: missing rewards by FILE as given here")
    parser.add_argument("--success-at", type=float, default=1.0, help="reward from which the goal is reached")
    parser.add_argument("--max-steps", type=int, help="attempts of so many steps were cut by a limit")
    parser.add_argument("--estimator", default="gagpo", help=f"one of {', '.join(ESTIMATORS)}")
    parser.add_argument("--gamma", type=float, default=CreditConfig().gamma, help="discount")
    parser.add_argument("--lam", type=float, default=CreditConfig().lam, help="lambda of the advantage")


def import_command(arguments: argparse.Namespace) -> str:
    """Import, and write the run folder where one is named. ValueError for what is wrong."""
    settings = {field.name: getattr(arguments, field.name, None) for field in fields(Options)}
    options = Options(**{name: value for name, value in settings.items() if value is not None})
    credit = CreditConfig(estimator=arguments.estimator, gamma=arguments.gamma, lam=arguments.lam)
    if credit.estimator not in ESTIMATORS:
        raise ValueError(f"estimator: {credit.estimator!r}; expected one of {', '.join(ESTIMATORS)}")
    rewards = _rewards(arguments.rewards)
    if arguments.out is None:
        return _shares(arguments.files, options, arguments.format, rewards)
    imported = _read(arguments.files, options, arguments.format, rewards)
    run = write_run(imported, arguments.out, credit)
    return f"{imported.report()}\nwritten: {run.path}"


def _read(files: Sequence[Path], options: Options, format: str | None, rewards: dict[str, float]) -> Imported:
    parts = []
    for path in files:
        missing = rewards.get(str(path), options.missing_reward)
        parts.append(import_file(path, replace(options, missing_reward=missing), format))
    return combine(parts) if len(parts) > 1 else parts[0]


def _rewards(path: Path | None) -> dict[str, float]:
    if path is None:
        return {}
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    values = mapping(parse(content, str(path)), str(path), "an object of rewards by file")
    return {name: finite(value, f"{path}: {short(name)}") for name, value in values.items()}


def _shares(files: Sequence[Path], options: Options, format: str | None, rewards: dict[str, float]) -> str:
    """The report, then what each state key leaves to compare: steps in states that siblings share."""
    imported = _read(files, options, format, rewards)
    lines = [
        imported.report(),
        f"{'state key':<14}{'states':>8}{'shared':>9}{'beyond start':>14}{'repeated':>10}",
    ]
    is_own = (format or detect_format(files[0], options.max_entry_bytes)) == "steps"
    chosen = [options.state_key] if options.state_key else list(OWN_KEYS if is_own else KEYS)
    for key in chosen:
        try:
            table = _read(files, replace(options, state_key=key), format, rewards).table()
        except ValueError as error:
            lines.append(f"{key:<14}{error}")
            continue
        shares = sharing_metrics(table)
        num_states = len(set(zip(table.group[table.trajectory].tolist(), table.state.tolist(), strict=True)))
        lines.append(
            f"{key:<14}{num_states:>8}{shares['shared_share']:>9.1%}{shares['later_shared_share']:>14.1%}"
            f"{shares['state_repeat_share']:>10.1%}"
        )
    return "\n".join(lines)
