"""A function of a plug-in as a reward."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from numbers import Real
from typing import Annotated, Any, Literal

from pydantic import Field

from anyformer.describe import Notice, Positive, did_you_mean, load_plugins
from anyformer.rewards.aside import AsideError, aside
from anyformer.rewards.reward import Grade, Query, Response, Reward, RewardError, shown
from anyformer.tasks.question import TaskQuestion
from anyformer.tasks.task import Task

RewardFunction = Callable[[Query, Response], "float | Grade"]
FUNCTIONS: dict[str, RewardFunction] = {}
"""Functions of plug-ins by their names."""


def reward_function(function: RewardFunction) -> RewardFunction:
    """Make a function of a plug-in known by its name, to stand in a run as `{ kind = "function", function = "NAME" }`."""
    FUNCTIONS[function.__name__] = function
    return function


class FunctionReward(Reward):
    """What a function of a plug-in gives for a query and a response: a number, or a `Grade` with parts.

    The function is defined under `@anyformer.rewards.reward_function` in a file that `--plugin` names. It runs in a process
    beside this one, so that it may hang or crash: then, and where it raises, or gives no finite number, the run stops with an
    error that names the prompt, or with `otherwise` the answer gets that, `failed` is logged and a notice given once.
    """

    kind: Literal["function"] = "function"
    function: Annotated[str, Field(min_length=1)]
    """The function's name."""
    seconds: Positive = 30.0
    """The longest time of one call, of a processor; of a clock ten times that."""
    otherwise: Annotated[float, Field(ge=-1e6, le=1e6)] | None = None
    """The reward of an answer for which the function fails. Absent: the run stops."""

    @property
    def reads_tokens(self) -> bool:
        return True

    def check(self) -> None:
        _named(self.function)

    def grade(self, query: Query, response: Response) -> Grade:
        asked = {"text": query.text, "record": dict(query.record), "question": _as_data(query.question)}
        try:
            arguments = [self.function, asked, asdict(response)]
            given = aside().call(f"{__name__}:answered", arguments, self.seconds, f"{__name__}:load_plugins")
        except AsideError as error:
            what = f"reward function {self.function!r} fails for the prompt {query.shown} and the answer {shown(response.text)}"
            if self.otherwise is None:
                raise RewardError(f"{what}: {error}; mend it, or give reward.otherwise, the reward of such answers") from None
            warnings.warn(f"{what}: {error}; it gets {self.otherwise:g}", Notice, stacklevel=2)
            return Grade(self.otherwise, {"failed": 1.0})
        return Grade(given["total"], {**given["parts"], "failed": 0.0})


def answered(name: str, asked: Mapping[str, Any], response: Mapping[str, Any]) -> dict[str, Any]:
    """What a function gives of plain data, in the other process. `ValueError` says what is no reward."""
    question = asked["question"]
    found = None if question is None else TaskQuestion(_task(question["task"]), *map(tuple, question["symbols"]))
    answer = Response(response["text"], tuple(response["tokens"]), tuple(response["names"]), response["ended"])
    given = _named(name)(Query(asked["text"], asked["record"], found), answer)
    grade = given if isinstance(given, Grade) else Grade(_number("what it gives", given))
    parts = {part: _number(f"its part {part!r}", number) for part, number in grade.parts.items()}
    return {"total": _number("its total", grade.total), "parts": parts}


def _named(name: str) -> RewardFunction:
    if name not in FUNCTIONS:
        load_plugins()
    if name not in FUNCTIONS:
        raise RewardError(
            f"reward.function = {name!r}: no plug-in defines it{did_you_mean(name, FUNCTIONS)}; define it under "
            "@reward_function in a file, and name that: --plugin FILE.py"
        )
    return FUNCTIONS[name]


def _number(what: str, value: object) -> float:
    if not isinstance(value, Real):
        raise ValueError(f"{what} should be a number, got {shown(str(value))} ({type(value).__name__})")
    if not math.isfinite(value):
        raise ValueError(f"{what} should be finite, got {value}")
    return float(value)


def _as_data(question: TaskQuestion | None) -> dict[str, Any] | None:
    return None if question is None else {"task": question.task.plain(), "symbols": [question.prompt, question.wanted]}


def _task(plain: dict[str, Any]) -> Task:
    found = Task.kinds[plain["kind"]].model_validate(plain)
    assert isinstance(found, Task), "it was written from one"
    return found
