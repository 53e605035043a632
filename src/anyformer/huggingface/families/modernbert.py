"""ModernBERT and its decoder: pre-norm without biases, gated, rotary, two of three layers local."""

from __future__ import annotations

from typing import Any, Literal

from anyformer.describe import Named, change, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families import old_llama as llama
from anyformer.huggingface.families.bert import encoder_names
from anyformer.huggingface.families.encoder_heads import classes, head_of, write_head
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.spelling import activation, longest, read_rotary, rope_parameters, write_activation, write_rotary
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    Embedding,
    FeedForward,
    Head,
    Initialisation,
    LayerNorm,
    Transform,
    TruncatedNormal,
    Window,
    pre_norm,
    stack,
)
from anyformer.parts.block import Block
from anyformer.parts.heads import PROJECTIONS
from anyformer.parts.mask import Causal, Mask
from anyformer.parts.stack import Stack

THETA = {"full_attention": ("global_rope_theta", 160_000.0), "sliding_attention": ("local_rope_theta", 10_000.0)}
"""Kind of layer -> the older key of its base, and the base where nothing is said."""
POOLS: dict[str, Literal["first", "mean"]] = {"cls": "first", "mean": "mean"}
FUSED: Table = {("attention.query", "attention.key", "attention.value"): To("attn.Wqkv", Rows())}
APART: Table = {
    "attention.query": "attn.q_proj",
    "attention.key": "attn.k_proj",
    "attention.value": "attn.v_proj",
}
LAYER: Table = {
    "attention.norm_before": "attn_norm",
    "attention.output": "attn.Wo",
    "feedforward.norm_before": "mlp_norm",
    ("feedforward.gate", "feedforward.up"): To("mlp.Wi", Rows()),
    "feedforward.down": "mlp.Wo",
}


def layers_of(config: Config, norm: LayerNorm, masks: dict[str, Mask]) -> Stack:
    """Kinds of layers by `layer_types`; the first has no norm before attention, for the embeddings are normed already."""
    depth, every = config("num_hidden_layers"), config("global_attn_every_n_layers", 3)
    kinds = config("layer_types", None)
    if kinds is None:
        kinds = ["sliding_attention" if i % every else "full_attention" for i in range(depth)]
    if not kinds or set(kinds) - set(masks):
        raise config.refused("layer_types", kinds, f"a list of {' and '.join(masks)}")
    every_kind = {kind: block_of(config, norm, kind, mask) for kind, mask in masks.items()}
    blocks = {kind: every_kind[kind] for kind in dict.fromkeys(kinds)}
    first = change(blocks[kinds[0]], "attention.norm_before", None)
    names = Named[Block](
        {{"full_attention": "full", "sliding_attention": "local"}[kind]: block for kind, block in blocks.items()}, first=first
    )
    dropout = config("embedding_dropout", 0.0)
    return stack([first, *(blocks[kind] for kind in kinds[1:])], names=names, input_norm=norm, final_norm=norm, dropout=dropout)


def block_of(config: Config, norm: LayerNorm, kind: str, mask: Mask) -> Block:
    key, theta = THETA[kind]
    dropout, biased = config("attention_dropout", 0.0), config("mlp_bias", False)
    table = rope_parameters(config, theta=config(key, theta), layer_type=kind)
    attention = Attention(
        heads=config("num_attention_heads"),
        bias=PROJECTIONS if config("attention_bias", False) else (),
        rotary=read_rotary(table, rotate_in="fp32"),
        mask=mask,
        dropout=dropout,
    )
    feedforward = FeedForward(
        width=config("intermediate_size"),
        activation=activation(config("hidden_activation", "gelu")),
        bias=("gate", "up", "down") if biased else (),
        dropout=config("mlp_dropout", 0.0),
    )
    return change(pre_norm(norm, attention, feedforward), "attention.dropout", dropout)


def _norm_and_head(config: Config) -> tuple[LayerNorm, Head]:
    norm = LayerNorm(eps=config("norm_eps", 1e-5), bias=config("norm_bias", False))
    acted = activation(config("classifier_activation", "gelu"))
    transform = Transform(activation=acted, norm=norm, bias=config("classifier_bias", False))
    return norm, Head(tied=config("tie_word_embeddings", True), bias=config("decoder_bias", True), transform=transform)


def _initialisation(config: Config) -> Initialisation:
    std, cut = config("initializer_range", 0.02), config("initializer_cutoff_factor", None) or 3.0
    scale = (2 * config("num_hidden_layers")) ** -0.5
    rule, last = (TruncatedNormal(std=value, cut=cut) for value in (std, std * scale))
    return Initialisation(matrix=rule, embedding=rule, head=last, residual_scale=scale)


def read(config: Config) -> Architecture:
    norm, head = _norm_and_head(config)
    config.expect("classifier_pooling", *POOLS)
    pool = POOLS[config("classifier_pooling", "cls")]
    heads = {
        "ForMaskedLM": head,
        "ForSequenceClassification": classes(config, pool=pool, transform=head.transform),
        "ForTokenClassification": classes(config, transform=head.transform),
    }
    reach = config("local_attention", 128) // 2
    masks: dict[str, Mask] = {"full_attention": Bidirectional(), "sliding_attention": Window(size=reach + 1, after=reach)}
    return Architecture(
        width=config("hidden_size"),
        embedding=Embedding(vocab=config("vocab_size")),
        encoder=layers_of(config, norm, masks),
        head=head_of(config, heads),
        initialisation=_initialisation(config),
    )


def read_decoder(config: Config) -> Architecture:
    norm, head = _norm_and_head(config)
    masks: dict[str, Mask] = {
        "full_attention": Causal(),
        "sliding_attention": Window(size=config("local_attention", 128) // 2),
    }
    return Architecture(
        width=config("hidden_size"),
        embedding=Embedding(vocab=config("vocab_size")),
        decoder=layers_of(config, norm, masks),
        head=head,
        initialisation=_initialisation(config),
    )


def common(architecture: Architecture) -> dict[str, Any]:
    """What ModernBERT and its decoder write alike; the last layer's variant stands for all where they agree."""
    layers = architecture.output_stack
    kinds = ["sliding_attention" if _reach(block) else "full_attention" for block in _blocks(layers)]
    rope = {kind: write_rotary(get(block, "attention.rotary")) for kind, block in zip(kinds, _blocks(layers), strict=True)}
    block = _blocks(layers)[-1]
    attention: Attention = get(block, "attention.sublayer")
    feedforward: FeedForward = get(block, "feedforward.sublayer")
    norm: LayerNorm = get(block, "feedforward.norm_before")
    vocab: int = get(architecture, "embedding.vocab")
    return {
        "vocab_size": vocab,
        "pad_token_id": min(50283, vocab - 1),
        "hidden_size": architecture.width,
        "num_hidden_layers": layers.depth,
        "max_position_embeddings": longest(architecture),
        "layer_types": kinds,
        "rope_parameters": rope,
        "embedding_dropout": layers.dropout,
        "norm_eps": norm.eps,
        "norm_bias": norm.bias,
        "num_attention_heads": attention.heads,
        "attention_bias": bool(attention.bias),
        "attention_dropout": attention.dropout,
        "intermediate_size": feedforward.width,
        "hidden_activation": write_activation(feedforward.activation),
        "mlp_bias": bool(feedforward.bias),
        "mlp_dropout": feedforward.dropout,
    } | _write_head(architecture.head)


def _write_head(head: Head | None) -> dict[str, Any]:
    if head is None:
        return {}
    transform = get(head, "transform")
    return {
        "decoder_bias": head.bias,
        "classifier_bias": transform.bias,
        "classifier_activation": write_activation(transform.activation),
        "classifier_pooling": next((theirs for theirs, ours in POOLS.items() if ours == head.pool), "cls"),
    }


def _blocks(layers: Stack) -> list[Block]:
    return [layers.variants[name] for name in layers.layers]


def _reach(block: Block) -> int | None:
    """Positions that attention looks back, itself included; None: all."""
    reach: int | None = get(block, "attention.mask").reach
    return reach


def _window(architecture: Architecture) -> int:
    return next((reach for block in _blocks(architecture.output_stack) if (reach := _reach(block))), 65)


def write(architecture: Architecture) -> dict[str, Any]:
    return common(architecture) | write_head(architecture, "ModernBert") | {"local_attention": 2 * (_window(architecture) - 1)}


def write_decoder(architecture: Architecture) -> dict[str, Any]:
    tied = {"tie_word_embeddings": get(architecture, "head.tied")}
    return common(architecture) | tied | {"local_attention": 2 * _window(architecture)}


def names(architecture: Architecture) -> Names:
    classifies = architecture.head is not None and architecture.head.outputs is not None
    head: Table = {} if architecture.head is None else _head("head", "classifier" if classifies else "decoder")
    return encoder_names(architecture, "model", _outside("encoder"), head, FUSED, LAYER, path="layers.{i}.")


def decoder_names(architecture: Architecture) -> Names:
    outside: Table = {**_outside("decoder", "model."), **_head("lm_head")}
    return llama.decoder_names(APART, LAYER, outside=outside)


def _outside(stack: str, prefix: str = "") -> Table:
    return {
        "embedding": f"{prefix}embeddings.tok_embeddings",
        f"{stack}.input_norm": f"{prefix}embeddings.norm",
        f"{stack}.final_norm": f"{prefix}final_norm",
    }


def _head(name: str, matrix: str = "decoder") -> Table:
    return {"head.transform.dense": f"{name}.dense", "head.transform.norm": f"{name}.norm", "head": matrix}


INERT = (
    "cls_token_id", "deterministic_flash_attn", "initializer_cutoff_factor", "layer_norm_eps",
    "mask_token_id", "position_embedding_type", "reference_compile", "repad_logits_with_grad", "sparse_pred_ignore_index",
    "sparse_prediction",
)  # fmt: skip
IGNORED = (r".*inv_freq", r"decoder\.weight")
FAMILIES = (
    Family("modernbert", read, write, names, "ModernBertForMaskedLM", inert=INERT, ignored=IGNORED),
    Family(
        "modernbert-decoder", read_decoder, write_decoder, decoder_names, "ModernBertDecoderForCausalLM",
        inert=(*INERT, "classifier_pooling", "sliding_window"), ignored=IGNORED,
    ),
)  # fmt: skip
