"""Python code, graded by tests in a sandbox."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal

from pydantic import Field

from anyformer.describe import Count, Positive
from anyformer.rewards.record_fields import value_of
from anyformer.rewards.reward import NO_JUDGES, Grade, Judge, Pair, Query, Response, Reward, RewardError, shown
from anyformer.rewards.sandbox import CodeOutcome, SandboxLimits, check_sandbox, run_confined

_FENCE = re.compile(r"^```[^\n`]*\n(.*?)^```", re.S | re.M)


class CodeReward(Reward):
    """The tests that Python code in an answer passes: all of them (`whole`), or the share.

    The code is that of the last fenced block (```` ``` ````) of the answer, else all of it. It runs in a process of its own
    without network, other processes, signals to others, files to write, files to read but Python's own, packages, and the
    variables of the environment (seccomp and Landlock, which Linux gives without root), with limits of time, memory and output;
    where these cannot be had, training is refused before it begins. Tests are Python text (`assert add(1, 2) == 3`), or objects
    `{"input": ..., "output": ...}`, of a program that reads and writes; `parts`: `passed`, `share`, `ran`, and `in_time`.

    Asserts are run beside the code that they test, and code that is written to deceive them may: output is compared outside.
    """

    kind: Literal["code"] = "code"
    column: str = "tests"
    """The field of the record with the tests: a text, a list of texts, or a list of objects."""
    counts: Literal["whole", "share"] = "whole"
    """Which of the two is the reward; both are logged."""
    seconds: Positive = 5.0
    """Seconds of a processor that an answer may take, or one input of a program."""
    megabytes: Annotated[int, Field(ge=64)] = 512
    """Memory that it may take."""
    workers: Count | None = None
    """Answers that run at a time. Absent: as many as this process has cores."""

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def check(self) -> None:
        check_sandbox()

    def grade(self, query: Query, response: Response) -> Grade:
        check_sandbox()
        tests, code = tests_of(value_of(query, self.column, self.kind), query), code_in(response.text)
        limits = SandboxLimits(self.seconds, self.megabytes << 20)
        if isinstance(tests[0], str):
            found = [run_confined(code, [test for test in tests if isinstance(test, str)], limits)]
            passed = list(found[0].passed)
        else:
            found = [run_confined(code, [], limits, test["input"]) for test in tests if not isinstance(test, str)]
            passed = [_says(one, test["output"]) for one, test in zip(found, tests, strict=True) if not isinstance(test, str)]
        parts = {
            "passed": float(all(passed)),
            "share": sum(passed) / len(passed),
            "ran": float(all(one.ran for one in found)),
            "in_time": float(all(one.ended != "time" for one in found)),
        }
        return Grade(parts["passed" if self.counts == "whole" else "share"], parts)

    def grades(self, pairs: Sequence[Pair], judges: Mapping[str, Judge] = NO_JUDGES) -> list[Grade]:
        check_sandbox()
        with ThreadPoolExecutor(self.workers or len(os.sched_getaffinity(0))) as pool:
            return list(pool.map(lambda pair: self.grade(*pair), pairs))


def code_in(text: str) -> str:
    """The code of an answer: its last fenced block, or all of it."""
    blocks = _FENCE.findall(text)
    return blocks[-1] if blocks else text


def tests_of(value: Any, query: Query) -> list[str | dict[str, str]]:
    """The tests of a record: texts, or objects of an input and an output."""
    tests = [value] if isinstance(value, str) else value
    if isinstance(tests, list | tuple) and tests:
        if all(isinstance(test, str) for test in tests):
            return list(tests)
        if all(_is_pair(test) for test in tests):
            return [{name: test[name] for name in ("input", "output")} for test in tests]
    raise RewardError(
        f"reward code: tests are a text, a list of texts, or a list of objects with the texts `input` and `output`, and those "
        f"of the prompt {query.shown} are {shown(str(value))}"
    )


def _is_pair(test: Any) -> bool:
    return isinstance(test, Mapping) and all(isinstance(test.get(name), str) for name in ("input", "output"))


def _says(found: CodeOutcome, wanted: str) -> bool:
    """Whether a program came to its end and wrote what was wanted, but for blanks at the ends of lines and of all."""
    said, asked = ([line.rstrip() for line in text.rstrip().splitlines()] for text in (found.output, wanted))
    return found.ended == "whole" and said == asked
