"""ONNX Runtime's side, run by the interpreter of its environment: `python read_onnx.py QUESTION.json`.

The question is a list of models: `name`, `directory` as `anyformer export --format onnx` writes it, `prompts`, `new` tokens and
`start`, the first token of a target. Nothing but onnxruntime and numpy reads the graphs, whose inputs say what they are. A line
of JSON per answer has its `case`, the number of its row, the `tokens` that follow and the `read` numbers after every position.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

PIECE = 3
"""Positions of a prompt that are read at once in pieces."""
Array = np.ndarray[Any, Any]
Rows = Sequence[Sequence[int]]


def session(path: Path) -> Any:
    """A graph on the processor, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def padded(rows: Rows, *, left: bool) -> tuple[Array, Array]:
    """Tokens and mask of rows of unequal lengths."""
    longest = max(map(len, rows))
    tokens, mask = np.zeros((len(rows), longest), np.int64), np.zeros((len(rows), longest), np.int64)
    for number, row in enumerate(rows):
        place = slice(longest - len(row), longest) if left else slice(len(row))
        tokens[number, place], mask[number, place] = row, 1
    return tokens, mask


def no_past(graph: Any, rows: int) -> dict[str, Array]:
    """The empty cache of a graph."""
    return {
        given.name: np.zeros([rows, given.shape[1], 0, given.shape[3]], np.float32)
        for given in graph.get_inputs()
        if given.name.startswith("past_key_values.")
    }


def call(graph: Any, given: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
    """The first output of a graph, and the cache for the next call."""
    wanted = {each.name for each in graph.get_inputs()}
    names = [each.name for each in graph.get_outputs()]
    first, *rest = graph.run(None, {name: value for name, value in given.items() if name in wanted})
    return first, {name.replace("present", "past_key_values", 1): value for name, value in zip(names[1:], rest, strict=True)}


def continued(graph: Any, rows: Rows, new: int, piece: int | None = None) -> Iterator[tuple[list[int], list[Any]]]:
    """What follows rows that are padded on the left and read `piece` positions at a time, and what was read of each."""
    tokens, mask = padded(rows, left=True)
    past, read = no_past(graph, len(rows)), []
    length = tokens.shape[1]
    for start in range(0, length, piece or length):
        stop = min(start + (piece or length), length)
        logits, past = call(graph, {"input_ids": tokens[:, start:stop], "attention_mask": mask[:, :stop], **past})
        read.append(logits)
    made: list[Array] = []
    for _ in range(new):
        chosen = read[-1][:, -1].argmax(-1)
        made.append(chosen)
        mask = np.concatenate([mask, np.ones((len(rows), 1), np.int64)], 1)
        logits, past = call(graph, {"input_ids": chosen[:, None], "attention_mask": mask, **past})
        read.append(logits)
    whole = np.concatenate(read, 1)
    for number, row in enumerate(rows):
        yield [int(chosen[number]) for chosen in made], whole[number, length - len(row) : length + new].tolist()


def decoder_only(graph: Any, model: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows alone, together with padding on the left, and in pieces."""
    rows, new = model["prompts"], model["new"]
    for number, row in enumerate(rows):
        for tokens, read in continued(graph, [row], new):
            yield {"case": "alone", "row": number, "tokens": tokens, "read": read}
    for case, piece in (("together, padded", None), ("in pieces", PIECE)):
        for number, (tokens, read) in enumerate(continued(graph, rows, new, piece)):
            yield {"case": case, "row": number, "tokens": tokens, "read": read}


def targets(
    encoder: Any, decoder: Any, given: dict[str, Array], model: dict[str, Any]
) -> Iterator[tuple[list[int], list[Any]]]:
    """What follows the start of each target, whose source is read once."""
    (hidden,) = encoder.run(None, {each.name: given[each.name] for each in encoder.get_inputs()})
    beside = {"encoder_hidden_states": hidden}
    if "attention_mask" in given:
        beside["encoder_attention_mask"] = given["attention_mask"]
    past, tokens, made, read = no_past(decoder, len(hidden)), np.full((len(hidden), 1), model["start"], np.int64), [], []
    for _ in range(model["new"]):
        logits, past = call(decoder, {"input_ids": tokens, **beside, **past})
        read.append(logits[:, -1:])
        tokens = logits[:, -1:].argmax(-1)
        made.append(tokens)
    for number in range(len(hidden)):
        yield [int(each[number, 0]) for each in made], np.concatenate(read, 1)[number].tolist()


def encoder_decoder(encoder: Any, decoder: Any, model: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Sources alone, and together with padding on the right; those that are no text are of one length."""
    for case, group in (*(("alone", [number]) for number in range(model["rows"])), ("together, padded", range(model["rows"]))):
        for number, (tokens, read) in zip(group, targets(encoder, decoder, read_inputs(model, group), model), strict=True):
            yield {"case": case, "row": number, "tokens": tokens, "read": read}


def whole(graph: Any, model: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows alone, and together with padding on the right, without a cache."""
    for case, group in (*(("alone", [number]) for number in range(model["rows"])), ("together, padded", range(model["rows"]))):
        given = read_inputs(model, group)
        first, _ = call(graph, given)
        lengths = given["attention_mask"].sum(1) if "attention_mask" in given else None
        for place, number in enumerate(group):
            kept = first[place] if lengths is None or first.ndim == 2 else first[place, : lengths[place]]
            yield {"case": case, "row": number, "tokens": [], "read": np.atleast_2d(kept).tolist()}


def read_inputs(model: dict[str, Any], group: Sequence[int]) -> dict[str, Array]:
    """The inputs of some rows: tokens with their mask and kinds, or the numbers that the question has."""
    if "numbers" in model:
        name, values = model["numbers"]
        return {name: np.asarray(values, np.float32)[list(group)]}
    tokens, mask = padded([model["prompts"][number] for number in group], left=False)
    return {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}


def answers(model: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """By the graphs that the directory has."""
    folder = Path(model["directory"]) / "onnx"
    if (folder / "encoder_model.onnx").exists():
        yield from encoder_decoder(session(folder / "encoder_model.onnx"), session(folder / "decoder_model_merged.onnx"), model)
        return
    graph = session(folder / "model.onnx")
    cached = any(each.name.startswith("past_key_values.") for each in graph.get_inputs())
    yield from decoder_only(graph, model) if cached else whole(graph, model)


if __name__ == "__main__":
    for each in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        for answer in answers(each):
            print(json.dumps({"name": each["name"], **answer}), flush=True)
