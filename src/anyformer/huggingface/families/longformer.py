"""Longformer and LED without global tokens, which a call marks: RoBERTa, and BART's line, whose encoder sees within a window.

The projections of global tokens stand beside those read here, and no other token has a use for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyformer.describe import Named, change
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.bert_line import (
    ATTENTION,
    EMBEDDINGS,
    FEEDFORWARD,
    IGNORED,
    POST_NORMS,
    bert_head,
    bert_sublayers,
    encoder,
    encoder_names,
    position_after_padding,
)
from anyformer.huggingface.words.encoder_heads import head_names
from anyformer.huggingface.words.seq2seq import BartVariant
from anyformer.model import Architecture
from anyformer.parts import LearnedPosition, Stack, Window, post_norm
from anyformer.parts.layers.order import write_order


def read(config: Config) -> Architecture:
    norm = words.layer_norm(config, 1e-12)
    block = post_norm(norm, *bert_sublayers(config), dropout=config("hidden_dropout_prob", 0.1))
    head = bert_head(config, "Longformer", norm, "gelu")
    made = encoder(config, block, head, position=position_after_padding(config), input_norm=norm)
    assert made.encoder is not None
    return made.but(encoder=within_windows(config, made.encoder))


def names(architecture: Architecture) -> Names:
    head = head_names(architecture, ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"), "lm_head.bias")
    return encoder_names(architecture, "longformer", EMBEDDINGS, head, ATTENTION, FEEDFORWARD, POST_NORMS)


def read_led(config: Config) -> Architecture:
    made = _LED.read(config)
    assert made.encoder is not None
    return made.but(encoder=within_windows(config, made.encoder))


def within_windows(config: Config, stack: Stack) -> Stack:
    """The stack whose queries see `attention_window` / 2 keys to each side; one number, or one per layer."""
    sizes = config("attention_window", 512, _sizes)
    sizes = [sizes] * stack.depth if isinstance(sizes, int) else list(sizes)
    if len(sizes) != stack.depth or any(size < 2 or size % 2 for size in sizes):
        raise HuggingFaceError(
            f"{config.where}: attention_window = {sizes} should be an even number, or one for each of {stack.depth} layers"
        )
    return _with(stack, [size // 2 for size in sizes])


def _with(stack: Stack, sides: Sequence[int]) -> Stack:
    block = stack.variants[stack.layers[0]]
    called = {side: "layer" if len(set(sides)) == 1 else f"window{2 * side}" for side in sides}
    variants = {
        name: change(block, "attention.mask", Window(size=side + 1, after=side)) for side, name in called.items()
    }  # fmt: skip
    return stack.but(variants=Named(variants), order=write_order(called[side] for side in sides))


def _sizes(target: Target) -> list[int]:
    return [2 * mask.after for mask in Target(target.architecture, "encoder").each("attention.mask")]


def _positions(config: Config, side: str) -> LearnedPosition:
    """Learned positions of a length of its own on each side."""
    longest = {"encoder": 16_384, "decoder": 1024}[side]
    return LearnedPosition(length=config(f"max_{side}_position_embeddings", longest, f"{side}.position.length"))


_LED = BartVariant(_positions, input_norm=True)
FAMILIES = (
    Family("longformer-text", read, names, "LongformerForMaskedLM", ignored=(*IGNORED, r"lm_head\.(decoder\.weight|bias)")),
    _LED.family("led-text", "LEDForConditionalGeneration", read=read_led),
)
