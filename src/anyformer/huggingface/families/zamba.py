"""Zamba: layers of Mamba, some of which read one block of attention that they share (arXiv 2405.16712)."""

from __future__ import annotations

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import MismatchError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Alternating, BlockedRows, Names, Rows, Shaped, Table, Then, To
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.words.names import ATTENTION, OUTSIDE, fused_convolutions, gated_names
from anyformer.huggingface.words.shared_blocks import (
    HYBRID,
    SHARED,
    beside_embeddings,
    hybrid_names,
    hybrid_stack,
    hybrid_types,
    shared_block,
)
from anyformer.huggingface.words.state_space import KERNELS, LINEAR
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, Branch, Mamba, RMSNorm, ShortConvolution, Step

_FIRST = "mamba_0"
"""The branch of the first head of Mamba."""


def read(config: Config) -> Architecture:
    config.assume(vocab_size=32_000, hidden_size=3712, intermediate_size=14_848, tie_word_embeddings=True)
    norm = words.rms_norm(config, 1e-5)
    period, offset = config("attn_layer_period", 6, nowhere), config("attn_layer_offset", 4, nowhere)

    def usual(depth: int) -> list[str]:
        """Where nothing lists them: the third layer, and every few of those behind it."""
        return [LINEAR, LINEAR, HYBRID, *(HYBRID if i % period == offset else LINEAR for i in range(depth - 3))]

    kinds = hybrid_types(config, 76, usual)
    shared = shared_block(_heads(config, norm), norm, words.feedforward(config, default="gelu"))
    mixes = _mixer(config, norm)
    stack = hybrid_stack(kinds, 1, lambda _: shared, mixes, norm, tied=config("tie_word_embeddings", at=_shares))
    return words.decoder(config, [("layer", Block(steps=(mixes,)))], norm).but(decoder=stack)


def _shares(target: Target) -> bool:
    """Whether the layers share a block, which transformers ties by the flag that ties the head."""
    return bool(target.stack.shared_weights)


def _heads(config: Config, norm: RMSNorm) -> Attention:
    width, heads = config("hidden_size"), config("num_attention_heads", 16)
    config.expect("attention_hidden_size", None, 2 * width, why="attention reads the stream and the embeddings side by side")
    features = config("attention_head_dim", None, "attention.head_width") or 2 * width // heads
    return beside_embeddings(
        norm,
        heads=heads,
        kv_heads=config("num_key_value_heads", 16),
        head_width=features,
        dropout=config("attention_dropout", 0.0),
    )


def _mixer(config: Config, norm: RMSNorm) -> Step:
    """Heads of Mamba: each a Mamba of its own over a share of the channels."""
    width, expand = config("hidden_size"), config("mamba_expand", 2, _expansion)
    heads, rank = config("n_mamba_heads", 2, _heads_of_mamba), config("mamba_dt_rank", None, f"{_FIRST}.step_rank")
    if expand * width % heads:
        raise config.refused("n_mamba_heads", heads, f"a divisor of the {expand * width} channels of Mamba")
    activation = words.activation(config, "hidden_mamba_act", at=f"{_FIRST}.convolution.activation")
    biased = config("mamba_proj_bias", False, lambda target: bool(target(f"{_FIRST}.bias")))
    first = Mamba(
        channels=expand * width // heads,
        state_width=config("mamba_d_state", 16, f"{_FIRST}.state_width"),
        step_rank=-(-width // 16) if rank in (None, "auto") else rank,
        convolution=ShortConvolution(
            kernel=config("mamba_d_conv", 4, f"{_FIRST}.convolution.kernel"),
            activation=activation,
            bias=config("mamba_conv_bias", True, f"{_FIRST}.convolution.bias"),
        ),
        bias=("gate", "value", "output") if biased else (),
    )
    # The heads are added up, and one bias with them.
    others = first.but(bias=tuple(name for name in first.bias if name != "output"))
    branches = {f"mamba_{i}": Branch(sublayer=others if i else first) for i in range(heads)}
    return Step(norm_before=norm, branches=Named(branches))


def _heads_of_mamba(target: Target) -> int:
    return len(target.blocks[-1].steps[-1].branches)


def _expansion(target: Target) -> int:
    channels, width = target(f"{_FIRST}.channels") * _heads_of_mamba(target), target.architecture.width
    if channels % width:
        raise MismatchError(f"Mamba has {channels} channels, no multiple of the width {width}")
    return int(channels // width)


_SHARED: Table = {
    **ATTENTION,
    **gated_names("feed_forward"),
    "attention.joined.norm": "input_layernorm",
    "feedforward.norm_before": "pre_ff_layernorm",
}


def names(architecture: Architecture) -> Names:
    target = Target(architecture)
    heads = _heads_of_mamba(target)
    channels, kernel = target(f"{_FIRST}.channels"), target.get(f"{_FIRST}.convolution.kernel", 0)
    state, rank = target(f"{_FIRST}.state_width"), target(f"{_FIRST}.step_rank")

    def each(*sides: str) -> tuple[str, ...]:
        """What every head has of these, head after head."""
        return tuple(f"mamba_{i}.{side}" for i in range(heads) for side in sides)

    def stacked(*rows: int) -> Then:
        """Rows of each head, stored with a dimension for the heads."""
        return Then(Shaped((heads, *rows), (-1, *rows[1:])), Rows())

    def mixer(step: int) -> Table:
        return {
            f"step_{step}_norm_before": "input_layernorm",
            each("value.weight", "gate.weight"): To("mamba.in_proj.weight", BlockedRows(heads, Alternating())),
            each("value.bias", "gate.bias"): To("mamba.in_proj.bias", BlockedRows(heads, Alternating())),
            each("convolution.weight"): To("mamba.conv1d.weight", fused_convolutions(kernel)),
            each("convolution.bias"): To("mamba.conv1d.bias", Rows()),
            each("step_down.weight", "key.weight", "query.weight"): To(
                "mamba.x_proj_weight", stacked(rank + 2 * state, channels)
            ),
            each("step.weight"): To("mamba.dt_proj_weight", stacked(channels, rank)),
            each("dt_bias"): To("mamba.dt_proj_bias", stacked(channels)),
            each("A_log"): To("mamba.A_log", stacked(channels, state)),
            each("skip"): To("mamba.D", stacked(channels)),
            each("output.weight"): To("mamba.out_proj.weight", Rows(1)),
            f"{_FIRST}.output.bias": "mamba.out_proj.bias",
        }

    layers = hybrid_names(architecture, "shared_transf", lambda _: _SHARED, {f"{SHARED}.projection": "linear"}, mixer)
    return Names({**OUTSIDE, "decoder.final_norm": "model.final_layernorm", **layers}, {})


_INERT = (*KERNELS, "layer_types", "num_logits_to_keep", "time_step_floor", "time_step_max", "time_step_min")
FAMILIES = (Family("zamba", read, names, "ZambaForCausalLM", inert=_INERT),)
