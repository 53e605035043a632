"""Texts beyond the length for which rotary frequencies were made, and near the greatest length."""

from __future__ import annotations

from anyformer.conforming.cases.case import ConformCase, NotAskedError
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.request import CompletionRequest, Round


def _rounds(facts: ModelFacts) -> tuple[Round, ...]:
    most = facts.longest - 1
    if facts.trained and facts.trained[0] >= most:
        raise NotAskedError(
            f"the original context of {facts.trained[0]} tokens is no shorter than the {facts.longest} read here; give "
            f"--longest {2 * facts.trained[0]}"
        )
    lengths = {most // 2, most}
    for trained in facts.trained:
        lengths |= {trained, trained + 1, trained + trained // 2}
    asked = sorted(n for n in lengths if facts.plain < n <= most)
    if not asked:
        raise NotAskedError(f"the {facts.longest} tokens that are read at most are no long text; give a longer --longest")
    text = facts.drawn("long", most)
    return tuple((CompletionRequest(f"length {n}", text[:n]),) for n in asked)


long = ConformCase(
    "long",
    "texts beyond the original context of scaled rotary positions, and near the greatest length",
    "the scaling of rotary positions, or positions that are cut at some length",
    8,
    _rounds,
)
