"""Problems of the package reasoning-gym: written as records, and graded as it grades them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from anyformer.describe import Positive
from anyformer.files import write_text
from anyformer.rewards.aside import AsideError, aside
from anyformer.rewards.record_fields import value_of
from anyformer.rewards.reward import Grade, Query, Response, Reward, RewardError, shown


class ReasoningGymReward(Reward):
    """The score, from 0 to 1, that reasoning-gym gives an answer to one of its problems (Stojanovski et al. 2025, arXiv
    2505.24760).

    Records are those of `write_problems`. Most of its problems give a little for an answer that is wrong: `whole` is 1 where
    the score is. With `extracted` around it the answer is a part of what a model says.
    """

    kind: Literal["reasoning_gym"] = "reasoning_gym"
    column: str = "entry"
    """The field of the record with the problem as the package has it: `question`, `answer`, `metadata`."""
    seconds: Positive = 10.0
    """The longest time of one score, of a processor; past it the answer is wrong, and `in_time` 0."""

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def check(self) -> None:
        if find_spec("reasoning_gym") is None:
            raise RewardError("reward reasoning_gym: the package is not installed: pip install 'anyformer[reasoning]'")

    def grade(self, query: Query, response: Response) -> Grade:
        self.check()
        entry = value_of(query, self.column, self.kind)
        if not isinstance(entry, Mapping) or not isinstance(entry.get("metadata"), Mapping):
            raise RewardError(
                f"reward reasoning_gym: field {self.column!r} should be a problem with `question`, `answer` and `metadata`, "
                f"got {shown(str(entry))}, in the record of the prompt {query.shown}; `write_problems` writes such records"
            )
        try:
            score = aside().call(f"{__name__}:score", [entry, response.text], self.seconds, f"{__name__}:prepared")
        except AsideError:
            return Grade(0.0, {"whole": 0.0, "in_time": 0.0})
        return Grade(score, {"whole": float(score == 1), "in_time": 1.0})


def write_problems(path: str | Path, name: str, *, count: int, seed: int = 0, **fields: Any) -> None:
    """Write problems of one of the package's generators, such as `chain_sum`, as records of `prompt`, `answer` and `entry`.

    `fields`: those of its configuration. Another seed gives other problems, of which some may be the same; `RewardError` where
    the package is missing.
    """
    ReasoningGymReward().check()
    from reasoning_gym import create_dataset

    problems = create_dataset(name, size=count, seed=seed, **fields)
    rows = (problems[number] for number in range(count))
    lines = [json.dumps({"prompt": row["question"], "answer": row["answer"], "entry": row}, default=str) for row in rows]
    write_text(Path(path), "".join(f"{line}\n" for line in lines))


def prepared() -> None:
    """Import what takes seconds."""
    import reasoning_gym  # noqa: F401


def score(entry: Mapping[str, Any], said: str) -> float:
    """What the package says of an answer; in a process that may be ended."""
    from reasoning_gym import get_score_answer_fn

    return float(get_score_answer_fn(entry["metadata"]["source_dataset"])(said.strip(), entry))
