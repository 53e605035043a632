"""Which engines open a directory in our own layout, and why others do not: read from what its parts declare.

vLLM's backend for classes of transformers computes every attention by its own kernel, over keys that it keeps itself: it hands
a model a row of tokens of several texts, in pieces of any length, and takes what it has to know of an attention from the words
of the configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from anyformer.huggingface.errors import HuggingFaceError
from anyformer.model import Architecture
from anyformer.operations import Contract, Shape
from anyformer.parts.layout import OutsideAttention
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan

_CONTRACTS: tuple[Contract, ...] = ("causal", "stepwise", "chunked", "packed", "cached")
"""What an engine relies on: it reads texts in pieces, side by side in one row, from keys and values that it keeps."""


@dataclass(frozen=True)
class Opening:
    """An engine, how it opens a directory, and why not; no reasons where it does."""

    engine: str
    how: str
    reasons: tuple[str, ...] = ()


def openings(architecture: Architecture) -> tuple[Opening, ...]:
    """What opens a directory in our own layout."""
    vllm = "vllm serve PATH --trust-remote-code --model-impl transformers"
    return (
        Opening("transformers", "trust_remote_code=True"),
        Opening("vLLM", vllm, misfits(architecture)),
        Opening("llama.cpp", "", ("it reads files of the model types that it knows, and this layout is of none",)),
    )


def check_opens(architecture: Architecture, engine: str) -> None:
    """Refuse an architecture whose directory in our own layout an engine (`vllm`) would not open."""
    (found,) = (opening for opening in openings(architecture) if opening.engine.lower() == engine)
    if found.reasons:
        raise HuggingFaceError(
            f"{found.engine} does not open this architecture in anyformer's own layout: {'; '.join(found.reasons)}. "
            f"Leave --format vllm out: `anyformer generate` and transformers open what is written"
        )


def attentions(architecture: Architecture) -> tuple[OutsideAttention, ...]:
    """What a kernel from outside is told of the attention of every layer of the stack that the head reads; empty where a layer
    has none, or several."""
    layers = [_told(architecture, layer) for layer in _layers(architecture)]
    return tuple(told[0] for told in layers) if all(len(told) == 1 for told in layers) else ()


def misfits(architecture: Architecture) -> tuple[str, ...]:
    """The reasons why vLLM's backend does not compute an architecture as it is computed here; none where it does."""
    return tuple(dict.fromkeys((*_of_model(architecture), *_of_layers(architecture), *_of_head(architecture))))


def words(architecture: Architecture) -> dict[str, object]:
    """The words of a configuration that say what its attentions are, where one word serves all layers."""
    told = attentions(architecture)
    if not told:
        return {}
    first, windows = told[0], sorted({each.window for each in told if each.window})
    found: dict[str, object] = {}
    for word, values in (
        ("num_attention_heads", {each.heads for each in told}),
        ("num_key_value_heads", {each.kv_heads for each in told}),
        ("head_dim", {each.head_width for each in told}),
    ):
        found |= {word: values.pop()} if len(values) == 1 else {}
    found["layer_types"] = ["sliding_attention" if each.window else "full_attention" for each in told]
    found |= {"sliding_window": windows[0]} if len(windows) == 1 else {}
    return found | ({} if first.softcap is None else {"attn_logit_softcapping": first.softcap})


def _layers(architecture: Architecture) -> Iterator[tuple[Sublayer, ...]]:
    """The sublayers of every layer."""
    stack = architecture.output_stack
    for i, variant in enumerate(stack.layers):
        block = stack.variants[variant].of_layer(i, stack.depth)
        yield tuple(branch.sublayer for step in block.steps for branch in step.branches.values())


def _told(architecture: Architecture, layer: tuple[Sublayer, ...]) -> list[OutsideAttention]:
    found = (sublayer.outside(architecture.width) for sublayer in layer)
    return [told for told in found if told is not None]


def _of_model(architecture: Architecture) -> Iterator[str]:
    if architecture.shape_of_model != "decoder-only" or architecture.two_inputs:
        yield f"it reads one text from left to right, and this is {architecture.shape_of_model}"
    if architecture.embedding.symbols is None or architecture.images is not None or architecture.audio is not None:
        yield "it reads tokens alone, and this model reads more"
    if architecture.virtual_tokens is not None:
        yield "virtual tokens stand in front of the text"
    stack = architecture.output_stack
    if stack.score_bias is not None or stack.relative is not None:
        yield "its kernel adds nothing to scores, and the stack does"
    if stack.condition is not None or stack.reads_tokens:
        yield "layers read more than the stream"
    if tuple(stack.owners) != tuple(range(stack.depth)):
        yield "layers share weights, and it keeps the keys of one layer per attention"
    tally = architecture.folded_cost(Shape())
    for contract in _CONTRACTS:
        yield from tally.breaks(contract)


def _of_layers(architecture: Architecture) -> Iterator[str]:
    told: list[OutsideAttention] = []
    for i, layer in enumerate(_layers(architecture)):
        found = _told(architecture, layer)
        told += found
        for sublayer in layer:
            tally = sublayer.cost(architecture.width, Shape(length=1, capacity=8), Plan())
            if sublayer.outside(architecture.width) is None and tally.total_state_bytes:
                yield f"it keeps keys and values, and {sublayer.called} remembers something else"
        if len(found) != 1:
            yield f"layer {i} has {len(found) or 'no'} softmax attention{'s' if len(found) > 1 else ''}, and it looks for one"
        for each in found:
            yield from (f"its kernel does not know {name}" for name in each.unknown)
            if each.value_width > each.head_width:
                yield f"heads of values have {each.value_width} features, more than the {each.head_width} of keys"
    for name, values in (
        ("heads", {each.heads for each in told}),
        ("heads of keys", {each.kv_heads for each in told}),
        ("features of a head", {each.head_width for each in told}),
        ("positions of a window", {each.window for each in told if each.window}),
        ("soft-caps of scores", {each.softcap for each in told}),
    ):
        if len(values) > 1:
            yield f"layers have different numbers of {name} ({', '.join(map(str, sorted(values, key=str)))})"


def _of_head(architecture: Architecture) -> Iterator[str]:
    head = architecture.head
    if head is None or head.pool is not None or head.outputs is not None:
        yield "it generates text by a logit per token, and the head gives others or none"
        return
    if head.transform is not None or head.own is not None or architecture.table_width != architecture.width:
        yield "it multiplies the features of the last layer by one matrix, and the head does more"
    if head.gain is not None:
        yield "it has no factor of each logit, and the head has"
    if head.bias:
        yield "it reads a bias of logits under a name that this layout has not"
    if head.softcap is not None and head.scale != 1.0:
        yield "it caps logits before it scales them, and here they are scaled first"
