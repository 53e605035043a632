"""Tasks of lm-evaluation-harness on any decoder."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyformer.describe import UserError
from anyformer.evaluation.likelihood import check
from anyformer.evaluation.subject import Subject


@dataclass(frozen=True)
class Result:
    """One figure of one task, with its standard error if it has one."""

    task: str
    metric: str
    value: float
    error: float | None


def check_harness() -> None:
    """Refuse tasks, before any work, where lm-evaluation-harness is not installed."""
    if importlib.util.find_spec("lm_eval") is None:
        raise UserError("tasks are those of lm-evaluation-harness, which is not installed: pip install 'anyformer[eval]'")


@dataclass(frozen=True)
class Asking:
    """How the harness asks the questions of its tasks, in its own words.

    `shots`: answered questions before each, None: as the task says; `chat`: whether they are written by the model's chat
    template, or the name of that; `turns`: whether each of the answered ones is a turn; `system`: what is said first.
    """

    shots: int | None = None
    chat: bool | str = False
    turns: bool = False
    system: str | None = None


AS_THE_TASK = Asking()


def run_tasks(
    subject: Subject, names: Sequence[str], *, limit: int | None = None, asking: Asking = AS_THE_TASK
) -> tuple[Result, ...]:
    """The figures of tasks, given by the harness's names or as files of its YAML. `limit`: only so many questions of each."""
    check_harness()
    check(subject.model.architecture)
    import lm_eval
    from lm_eval.tasks import TaskManager

    from anyformer.evaluation.harness import AnyformerLM

    files = [Path(name).suffix in (".yaml", ".yml") for name in names]
    for name, is_file in zip(names, files, strict=True):
        if is_file and not Path(name).is_file():
            raise UserError(f"{name}: no such file; give the YAML of a task, or a task's name")
    # The harness's own tasks are thousands of files, read only if one of them is asked for.
    manager = TaskManager(include_defaults=not all(files))
    known = set(manager.all_tasks)
    for name, is_file in zip(names, files, strict=True):
        if not is_file and name not in known:
            raise UserError(f"lm-evaluation-harness has no task {name!r}; `lm-eval ls tasks` lists them")
    found = lm_eval.simple_evaluate(
        model=AnyformerLM(subject), tasks=list(names), task_manager=manager, limit=limit, bootstrap_iters=1000,
        num_fewshot=asking.shots, apply_chat_template=asking.chat, fewshot_as_multiturn=asking.turns,
        system_instruction=asking.system,
    )  # fmt: skip
    return tuple(figures(found["results"]))


def figures(results: Mapping[str, Mapping[str, Any]]) -> list[Result]:
    """The harness's table `metric,filter` as one figure each, its `metric_stderr` beside it."""
    found = []
    for task, table in results.items():
        for key, value in table.items():
            metric, _, kind = key.partition(",")
            if not kind or metric.endswith("_stderr") or not isinstance(value, int | float):
                continue
            error = table.get(f"{metric}_stderr,{kind}")
            name = metric if kind == "none" else f"{metric} ({kind})"
            found.append(Result(task, name, float(value), error if isinstance(error, float) else None))
    return found
