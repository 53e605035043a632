"""Fields of a run that may change once it has begun, and the refusal of others, which its updates were computed with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from anyformer.data import Corpus
from anyformer.describe import UserError, Value, brief, change_all, diff
from anyformer.training.run import Run

FREE = (
    "steps",
    "minutes",
    "evaluation",
    "checkpoints",
    "sample",
    "non_finite",
    "spikes",
    "loggers",
    "plan.mesh",
    "plan.profile",
)
"""The fields that decide when a run ends, how it is evaluated, what is kept, what becomes of instabilities, where metrics are
told, which processes share the work and what of it is traced, but not what an update computes."""


class ChangedError(UserError):
    """A run is continued with other values or data than it was trained with."""


def revised(run: Run, changes: Mapping[str, Any]) -> Run:
    """The run with values changed by path; new steps replace minutes, and new minutes replace steps."""
    changes = dict(changes)
    if "steps" in changes:
        changes.setdefault("minutes", None)
    elif "minutes" in changes:
        changes.setdefault("steps", None)
    return change_all(run, changes) if changes else run


def check_changes(before: Run, now: Run, where: str) -> list[str]:
    """A line per change since the checkpoint. Raises `ChangedError` for a field that updates were computed with."""
    if lines := computed_otherwise(before, now):
        raise ChangedError(
            f"{where}: was begun with other values than those given now:\n{lines}\n"
            f"Set them back (run.toml, --set), or start a new run with --out. What may change is {', '.join(FREE)}."
        )
    return [f"{path}: {_shown(old)} -> {_shown(new)}" for path, old, new in diff(before, now)]


def computed_otherwise(one: Run, other: Run) -> str:
    """A line per field in which two runs differ that updates are computed with; empty for the same run."""
    fixed = [each for each in diff(one, other) if not any(f"{each[0]}.".startswith(f"{field}.") for field in FREE)]
    return "\n".join(f"  {path}: {_shown(before)} -> {_shown(after)}" for path, before, after in fixed)


def check_data(trained: Mapping[str, Any], corpus: Corpus, where: str) -> None:
    """Raise `ChangedError` for other text than the run began with. `trained`: its digest and its files' fingerprints then."""
    if trained.get("digest") == corpus.digest:
        return
    lines = list(_files(trained.get("sources", {}), corpus.sources))
    changed = "\n".join(f"  {line}" for line in lines[:10]) or "  no file; the tokenizer or the split is another one"
    more = f"\n  and {len(lines) - 10} more" if len(lines) > 10 else ""
    raise ChangedError(
        f"{where}: was trained on other data than its files hold now. Changed:\n{changed}{more}\n"
        "Restore the files, or start a new run."
    )


def _files(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for path in sorted(before.keys() | now.keys()):
        if path not in now:
            yield f"{path}: is no longer read"
        elif path not in before:
            yield f"{path}: is new"
        elif before[path] != now[path]:
            yield f"{path}: its text changed"


def _shown(value: object) -> str:
    return "none" if value is None else brief(value) if isinstance(value, Value) else str(value)
