"""IDEFICS' text: Llama, of whose layers every n-th begins with what reads an image, and without one its network alone.

Its two last tokens stand for images and around them; their rows are stored apart, in the table and in the head.
"""

from __future__ import annotations

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import JoinedTables, Names, Shaped, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.vocabulary import NAME, SIZE
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, LAYER, NORMS, OUTSIDE
from anyformer.model import Architecture
from anyformer.parts import Block, Branch, Gain, Step, pre_norm

_SEEN = "image_network"
_ADDED = 2
"""Rows of the table beyond the vocabulary that the configuration names."""
_GAINS = {"float": "branch", "vector": "feature"}


def read(config: Config) -> Architecture:
    config.assume(vocab_size=32_000, hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, intermediate_size=11_008)
    config.put(additional_vocab_size=_ADDED)
    config.expect("additional_vocab_size", _ADDED, why="the rows stored apart are those of the two tokens of images")
    norm, rate = words.rms_norm(config), config("dropout", 0.0, "attention.dropout")
    heads = words.attention(config, bias=(), dropout=rate, rotary=words.rotary(config))
    network = words.feedforward(config)
    block = pre_norm(norm, heads, network, dropout=rate)
    kind = config("alpha_type", "float", _kind, kind=NAME)
    if kind not in _GAINS:
        raise config.refused("alpha_type", kind, " or ".join(_GAINS))
    gain = Gain.model_validate({"per": _GAINS[kind], "initial": 0.0, "bounded": True})
    seen = Branch(norm_before=norm, sublayer=network, gain=gain, dropout=rate)
    blocks = {"seen": Block(steps=(Step(branches=Named({_SEEN: seen})), *block.steps)), "plain": block}
    interval = config("cross_layer_interval", 1, _interval, kind=SIZE)
    depth = config("num_hidden_layers")
    if depth % interval:
        raise HuggingFaceError(f"{config.where}: cross_layer_interval = {interval} does not divide num_hidden_layers = {depth}")
    layers = words.layered(blocks.__getitem__, ["plain" if i % interval else "seen" for i in range(depth)])
    vocab = config("vocab_size", at=lambda target: target("embedding.vocab") - _ADDED)
    made = words.decoder(config, layers, norm, tied=False)
    return made.but(embedding=made.embedding.but(vocab=vocab + _ADDED))


def _places(target: Target) -> list[int]:
    return [i for i, block in enumerate(target.blocks) if _SEEN in block.branches]


def _interval(target: Target) -> int:
    first, *others = _places(target) or [0]
    return others[0] - first if others else target.depth()


def _kind(target: Target) -> str:
    return next(theirs for theirs, ours in _GAINS.items() if ours == target(f"{_SEEN}.gain.per"))


def names(architecture: Architecture) -> Names:
    target = Target(architecture)
    rows = JoinedTables(((architecture.embedding.symbols or 0) - _ADDED, _ADDED))
    outside: Table = {ours: theirs for ours, theirs in OUTSIDE.items() if ours == "decoder.final_norm"}
    tables = {
        "embedding.weight": ("model.embed_tokens.{x}weight", ("", "additional_embedding.")),
        "head.weight": ("lm_head.{x}weight", ("", "additional_fc.")),
    }
    outside = {**outside, **{ours: To(theirs, rows, each) for ours, (theirs, each) in tables.items()}}
    for number, layer in enumerate(_places(target)):
        ours, theirs = f"decoder.layers.{layer}.{_SEEN}", f"model.gated_cross_attn_layers.{number}"
        outside = {
            **outside,
            **{f"{ours}.{side}": f"{theirs}.mlp.{side}_proj" for side in ("gate", "up", "down")},
            f"{ours}.norm_before": f"{theirs}.post_attention_layernorm",
            f"{ours}.gain": To(f"{theirs}.alpha_dense", Shaped((1,) if _kind(target) == "float" else (1, 1, -1))),
        }
    return Names(outside, {"decoder": (LAYER, {**ATTENTION, **FEEDFORWARD, **NORMS})})


FAMILIES = (
    Family(
        "idefics-text",
        read,
        names,
        "",
        inert=(
            "alpha_initializer", "alphas_initializer_range", "freeze_lm_head", "freeze_text_layers",
            "freeze_text_module_exceptions", "freeze_vision_layers", "freeze_vision_module_exceptions", "qk_layer_norms",
            "use_resampler",
        ),
    ),
)  # fmt: skip
