"""Text instead of tokens."""

from __future__ import annotations

from anyformer.conforming.cases.case import ConformCase, NotAskedError
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.request import CompletionRequest, Round


def _rounds(facts: ModelFacts) -> tuple[Round, ...]:
    if facts.texts is None:
        raise NotAskedError("the model has no tokenizer")
    asked = [(text, tokens) for text, tokens in facts.texts.items() if 0 < len(tokens) < facts.longest]
    if not asked:
        raise NotAskedError(f"the texts have more than {facts.longest} tokens")
    return tuple((CompletionRequest(f"text {n}", tokens, text=text),) for n, (text, tokens) in enumerate(asked, 1))


text = ConformCase(
    "text",
    "text instead of tokens",
    "the tokenizer, or a token that begins texts and is added twice or not at all",
    5,
    _rounds,
)
