"""Functions that are rewards, as a plug-in has them: good ones, and all that may go wrong with one."""

from __future__ import annotations

import os
import time

from anyformer.rewards import Grade, Query, Response, reward_function


@reward_function
def words(query: Query, response: Response) -> float:
    return len(response.text.split())


@reward_function
def all_seen(query: Query, response: Response) -> Grade:
    """What arrives on the other side, as numbers."""
    assert query.question is not None
    right = query.question.task.grade(query.question.wanted, response.names)["whole"]
    ends = {"prompt": len(query.text), "tokens": sum(response.tokens), "ended": response.ended, "field": query.record["a"]["b"]}
    return Grade(right, ends)


@reward_function
def broken(query: Query, response: Response) -> float:
    """It fails as the answer says."""
    print("printed by a plug-in")
    ways = {
        "hangs": lambda: time.sleep(1000),
        "loops": lambda: sum(1 for _ in iter(int, 1)),
        "raises": lambda: {}["nothing"],
        "leaves": lambda: exit(3),
        "dies": lambda: os._exit(4),
        "nan": lambda: float("nan"),
        "infinite": lambda: float("inf"),
        "none": lambda: None,
        "text": lambda: "1.0",
        "part": lambda: Grade(1.0, {"share": float("nan")}),
    }
    return ways[response.text]() if response.text in ways else 1.0  # type: ignore[return-value]
