"""T5Gemma: Gemma 2's layers as an encoder and, with cross-attention between, as a decoder; two configurations in one."""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.old_llama import ATTENTION, FEEDFORWARD
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import (
    activation,
    initialisation,
    read_rotary,
    rope_parameters,
    write_activation,
    write_rotary,
)
from anyformer.huggingface.vocabulary import SIZE
from anyformer.model import Architecture, encoder_decoder
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    Causal,
    CrossAttention,
    Embedding,
    FeedForward,
    Head,
    RMSNorm,
    Stack,
    Window,
    sandwich,
    stack,
)
from anyformer.parts.heads import PROJECTIONS
from anyformer.parts.mask import Mask

INERT = ("attention_dropout", "dropout_rate", "is_decoder", "tie_word_embeddings")
"""What a side's configuration repeats of the whole one's."""
TYPES = {"sliding_attention": "local", "full_attention": "full"}
"""Their name of a kind of layer -> the variant."""
WINDOW = 4096
"""What the class takes for granted, and demands even where no layer is local."""
CROSS: Table = {
    f"cross_attention.{name}": to.replace("self", "cross")
    for name, to in zip(PROJECTIONS, map(str, ATTENTION.values()), strict=True)
}
NORMS: Table = {
    f"{branch}.{place}": f"{theirs}_{called}_layernorm"
    for branch, called in (("attention", "self_attn"), ("cross_attention", "cross_attn"), ("feedforward", "feedforward"))
    for place, theirs in (("norm_before", "pre"), ("norm_after", "post"))
}
LAYER: Table = {**ATTENTION, **CROSS, **FEEDFORWARD, **NORMS}
OUTSIDE: Table = {
    "embedding": "model.encoder.embed_tokens",
    "decoder_embedding": "model.decoder.embed_tokens",
    "encoder.final_norm": "model.encoder.norm",
    "decoder.final_norm": "model.decoder.norm",
    "head": "lm_head.out_proj",
}
NAMES = Names(OUTSIDE, {side: (f"model.{side}.layers.{{i}}.", LAYER) for side in ("encoder", "decoder")})


def read(config: Config) -> Architecture:
    sides = {side: Config(config(side), f"{config.where}: {side}") for side in ("encoder", "decoder")}
    encoder, decoder = sides["encoder"], sides["decoder"]
    width = encoder("hidden_size")
    decoder.expect("hidden_size", width, why="both sides have one width here")
    made = encoder_decoder(
        Embedding(vocab=encoder("vocab_size"), scale=width**0.5),
        width,
        _stack(config, encoder, "encoder"),
        _stack(config, decoder, "decoder"),
        decoder_embedding=Embedding(vocab=decoder("vocab_size"), scale=width**0.5),
        head=Head(tied=config("tie_word_embeddings", True), softcap=decoder("final_logit_softcapping", 30.0)),
        initialisation=initialisation(config),
    )
    encoder.finish((*INERT, "final_logit_softcapping"))
    decoder.finish(INERT)
    return made


def _stack(whole: Config, config: Config, side: str) -> Stack:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6), gain="one_plus_weight", cast="after_gain")
    rotary, dropout = read_rotary(rope_parameters(config)), whole("dropout_rate", 0.0)
    depth, window = config("num_hidden_layers"), config("sliding_window", WINDOW, kind=SIZE)
    heads = {
        "heads": config("num_attention_heads"),
        "kv_heads": config("num_key_value_heads", 4),
        "head_width": config("head_dim", 256),
        "bias": PROJECTIONS if config("attention_bias", False) else (),
        "scale": config("query_pre_attn_scalar", 256) ** -0.5,
        "softcap": config("attn_logit_softcapping", 50.0),
        "dropout": whole("attention_dropout", 0.0),
    }
    network = FeedForward(
        width=config("intermediate_size"),
        activation=activation(config("hidden_activation", "gelu_pytorch_tanh")),
        dropout=dropout,
    )

    def block(mask: Mask) -> Block:
        cross = (CrossAttention(**heads),) if side == "decoder" else ()
        return sandwich(norm, Attention(mask=mask, rotary=rotary, **heads), *cross, network, dropout=dropout)

    blocks = {"local": block(_near(window, side)), "full": block(Causal() if side == "decoder" else Bidirectional())}
    types = config("layer_types", None) or [list(TYPES)[i % 2] for i in range(depth)]
    if set(types) - set(TYPES):
        raise config.refused("layer_types", types, f"a list of {' and '.join(TYPES)}")
    return stack(
        [blocks[TYPES[each]] for each in types],
        names=Named(blocks),
        dropout=dropout,
        final_norm=norm,
    )


def _near(window: int, side: str) -> Window:
    """So many backwards, the query among them, or so many to either side."""
    return Window(size=window) if side == "decoder" else Window(size=window + 1, after=window)


def write(architecture: Architecture) -> dict[str, Any]:
    sides = {side: _write_stack(architecture, side) for side in ("encoder", "decoder")}
    return {
        "encoder": sides["encoder"] | {"vocab_size": get(architecture, "embedding.vocab")},
        "decoder": sides["decoder"]
        | {
            "vocab_size": get(architecture, "decoder_embedding.vocab"),
            "final_logit_softcapping": get(architecture, "head.softcap"),
        },
        "vocab_size": get(architecture, "decoder_embedding.vocab"),
        "dropout_rate": get(architecture, "decoder.dropout"),
        "attention_dropout": _attention(architecture, "decoder").dropout,
        "tie_word_embeddings": get(architecture, "head.tied"),
    }


def _attention(architecture: Architecture, side: str) -> Attention:
    found: Attention = get(architecture, f"{side}.{_order(architecture, side)[0]}.attention.sublayer")
    return found


def _order(architecture: Architecture, side: str) -> tuple[str, ...]:
    """The variants of the layers."""
    return tuple(architecture.stacks[side].layers)


def _write_stack(architecture: Architecture, side: str) -> dict[str, Any]:
    order, attention = _order(architecture, side), _attention(architecture, side)
    network: FeedForward = get(architecture, f"{side}.{order[0]}.feedforward.sublayer")
    local = "local" in order
    size = get(architecture, f"{side}.local.attention.mask.size") if local else WINDOW
    assert attention.scale is not None
    return {
        "hidden_size": architecture.width,
        "num_hidden_layers": len(order),
        "layer_types": ["sliding_attention" if each == "local" else "full_attention" for each in order],
        "sliding_window": size - 1 if local and side == "encoder" else size,
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.kv_heads,
        "head_dim": attention.head_width,
        "attention_bias": bool(attention.bias),
        "query_pre_attn_scalar": round(attention.scale**-2),
        "attn_logit_softcapping": attention.softcap,
        "rope_parameters": write_rotary(get(architecture, f"{side}.{order[0]}.attention.rotary")),
        "intermediate_size": network.width,
        "hidden_activation": write_activation(network.activation),
        "rms_norm_eps": get(architecture, f"{side}.final_norm.eps"),
    }


FAMILIES = (
    Family(
        "t5gemma", read, write, lambda architecture: NAMES, "T5GemmaForConditionalGeneration",
        inert=("classifier_dropout_rate", "vocab_size"), ignored=(r".*rotary_emb\.inv_freq", r"lm_head\.out_proj\.weight"),
    ),
)  # fmt: skip
