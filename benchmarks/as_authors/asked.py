"""What both sides are asked: prompts, documents, questions, records, and the settings of generation and training."""

from __future__ import annotations

from typing import Any

NEW = 14
"""New tokens of a text at most."""
PROMPTS = ("Once upon a time there was", "two and two", "What is the answer? It is", " the bridge 🙂 over")
GREEDY: dict[str, Any] = {"max_new_tokens": NEW, "do_sample": False}
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": GREEDY,
    "beams": GREEDY | {"num_beams": 4, "length_penalty": 1.4, "num_return_sequences": 3},
    "penalties": GREEDY | {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3, "min_new_tokens": 6},
}
DOCUMENTS = (
    "Once upon a time there was a river.",
    "It is forty-two! What is the answer? The model reads what its authors wrote.",
    "🙂 two and two are four,\n  and a bridge over it",
)
QUESTIONS = (
    {"context": "Once upon a time there was a", "choices": ["river", "bridge", "model of words"], "answer": 0},
    {"context": "two and two are", "choices": ["four", "forty-two", "not"], "answer": 0},
    {"context": "What is the answer? ", "choices": ["It is forty-two!", "It"], "answer": 0},
)
HIDDEN = ("Once upon a <mask> there was", "two and two <mask> four, and  <mask> are not")
PAIRS = (
    {"source": "two and two", "target": "are four"},
    {"source": "What is the answer?", "target": "It is forty-two!"},
    {"source": "Once upon a time there", "target": "was a river, and a bridge over it"},
    {"source": "model", "target": "reads"},
)
MESSAGES = tuple(
    {"messages": [{"role": role, "content": text} for role, text in turns]}
    for turns in (
        (("user", "two and two?"), ("assistant", "are four")),
        (("system", "short words"), ("user", "What is the answer?"), ("assistant", "It is forty-two!")),
        (("user", "a river"), ("assistant", "a bridge"), ("user", "the model"), ("assistant", "reads its words")),
        (("user", "🙂"), ("assistant", "🙂 two")),
    )
)
COMPLETIONS = tuple({"prompt": each["source"], "completion": f" {each['target']}"} for each in PAIRS)
TEXTS = tuple({"text": text} for text in (*DOCUMENTS, "the same words as theirs"))
PREFERENCES = tuple(
    {"prompt": each["source"], "chosen": f" {each['target']}", "rejected": rejected}
    for each, rejected in zip(PAIRS, (" are three", " It is not", " was the model", " 🙂"), strict=True)
)
RECORDS: dict[str, tuple[dict[str, Any], ...]] = {
    "messages": MESSAGES, "completions": COMPLETIONS, "text": TEXTS, "preferences": PREFERENCES,
}  # fmt: skip
STEPS, RATE, BETAS, LENGTH, BETA = 3, 1e-4, (0.9, 0.999), 96, 0.1
"""Updates, each on all records, at one rate; the longest row; the strength of DPO."""
