"""CTranslate2's side, run by the interpreter of its environment: `python read_ctranslate2.py QUESTION.json`.

The question is a list of models: `name`, `directory` as `anyformer export --format ctranslate2` writes it, the `kind` of its
interface, `prompts`, `new` tokens, `words`, that of every token, and the number of the `end`. A line of JSON per answer has its
`case`, the number of its row, the `tokens` that follow and the `read` numbers after every position.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np

Rows = Sequence[Sequence[int]]
EXACT = {"device": "cpu", "compute_type": "float32", "inter_threads": 1, "intra_threads": 1}
GREEDY = {"beam_size": 1, "sampling_topk": 1}


def groups(count: int) -> Iterator[tuple[str, list[int]]]:
    """Every row alone, then all of them together."""
    yield from (("alone", [number]) for number in range(count))
    yield "together, padded", list(range(count))


def generator(model: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A decoder: what follows the prompts, and the logits of those and of what follows."""
    engine, words, new = (
        ctranslate2.Generator(model["directory"], device="cpu", compute_type="float32"),
        model["words"],
        model["new"],
    )
    for case, group in groups(len(model["prompts"])):
        rows = [model["prompts"][number] for number in group]
        # Of rows of unequal lengths it counts from the shortest on, so the whole text is asked for.
        longest = max(map(len, rows)) + new
        made = engine.generate_batch(
            [[words[token] for token in row] for row in rows], max_length=longest, min_length=longest,
            end_token=[words[model["end"]]], **GREEDY,
        )  # fmt: skip
        whole = [each.sequences_ids[0][: len(row) + new] for each, row in zip(made, rows, strict=True)]
        follow = [each[len(row) :] for each, row in zip(whole, rows, strict=True)]
        logits = np.asarray(engine.forward_batch([[words[token] for token in row] for row in whole]))
        for number, tokens, row, read in zip(group, follow, whole, logits, strict=True):
            yield {"case": case, "row": number, "tokens": tokens, "read": read[: len(row)].tolist()}


def translator(model: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An encoder and a decoder: what follows the first token of a target."""
    engine, words, new = (
        ctranslate2.Translator(model["directory"], device="cpu", compute_type="float32"),
        model["words"],
        model["new"],
    )
    for case, group in groups(len(model["prompts"])):
        made = engine.translate_batch(
            [[words[token] for token in model["prompts"][number]] for number in group], max_decoding_length=new,
            min_decoding_length=new, end_token=[words[model["end"]]], return_logits_vocab=True, **GREEDY,
        )  # fmt: skip
        for number, each in zip(group, made, strict=True):
            read = [np.asarray(step).tolist() for step in each.logits[0]]
            tokens = [words.index(word) for word in each.hypotheses[0]]
            yield {"case": case, "row": number, "tokens": tokens, "read": read, "untold": [model["end"]]}


def encoder(model: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An encoder alone: features after every position."""
    engine, words = ctranslate2.Encoder(model["directory"], **EXACT), model["words"]
    for case, group in groups(len(model["prompts"])):
        rows = [model["prompts"][number] for number in group]
        read = np.asarray(engine.forward_batch([[words[token] for token in row] for row in rows]).last_hidden_state)
        for number, row, features in zip(group, rows, read, strict=True):
            yield {"case": case, "row": number, "tokens": [], "read": features[: len(row)].tolist()}


KINDS = {"generator": generator, "translator": translator, "encoder": encoder}

if __name__ == "__main__":
    for asked in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        for answer in KINDS[asked["kind"]](asked):
            print(json.dumps({"name": asked["name"], **answer}), flush=True)
