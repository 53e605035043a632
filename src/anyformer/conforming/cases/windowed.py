"""Texts about as long as a window, and longer."""

from __future__ import annotations

from anyformer.conforming.cases.case import ConformCase, NotAskedError
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.request import CompletionRequest, Round


def _rounds(facts: ModelFacts) -> tuple[Round, ...]:
    if not facts.windows:
        raise NotAskedError("no layer has a window")
    asked: list[Round] = []
    for window in facts.windows:
        text = facts.drawn("windowed", 2 * window + 1)
        lengths = [n for n in (window - 1, window, window + 1, 2 * window + 1) if 1 <= n < facts.longest]
        if window >= facts.longest:
            continue
        asked += [(CompletionRequest(f"length {n} (window {window})", text[:n]),) for n in lengths]
        if window > 2 and window + 4 <= facts.longest:  # a ring of slots that comes round while tokens are made
            asked.append((CompletionRequest(f"length {window - 2} and tokens made (window {window})", text[: window - 2], 5),))
    if not asked:
        raise NotAskedError(
            f"the windows, {facts.windows[0]} tokens at least, are no shorter than the {facts.longest} tokens read here; give "
            f"--longest {2 * facts.windows[0] + 2}"
        )
    return tuple(asked)


windowed = ConformCase(
    "windowed",
    "texts of one token less than a window, as many, one more, and twice as many",
    "a window that is ignored, or off by one, or a ring of slots that comes round wrongly",
    8,
    _rounds,
)
