"""ModernBERT and its decoder: pre-norm without biases, gated, rotary, two of three layers local."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.describe import Named, change
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING, window
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.bert_line import encoder_names
from anyformer.huggingface.words.encoder_heads import classes, head_of, tie_of_masked
from anyformer.huggingface.words.names import QKV
from anyformer.huggingface.words.rope_types import scaling_in_tables, written_by_type
from anyformer.model import Architecture
from anyformer.parts import (
    Bidirectional,
    Block,
    Causal,
    Embedding,
    Head,
    Initialisation,
    LayerNorm,
    Stack,
    Transform,
    TruncatedNormal,
    Window,
    pre_norm,
    stack,
)

_THETA = {"full": (FULL, "global_rope_theta", 160_000.0), "local": (SLIDING, "local_rope_theta", 10_000.0)}
"""Our word for a type of layer -> transformers', the older key of its theta, and its default."""
_POOLS = {"cls": "first", "mean": "mean"}


def read(config: Config) -> Architecture:
    norm, head = _norm(config), _head(config)
    config.expect("classifier_pooling", *_POOLS)
    back = {ours: theirs for theirs, ours in _POOLS.items()}
    pool = _POOLS[config("classifier_pooling", "cls", lambda target: back.get(target("head.pool"), "cls"))]
    heads = {
        "ForMaskedLM": head,
        "ForSequenceClassification": classes(config, pool=pool, transform=head.transform),
        "ForTokenClassification": classes(config, transform=head.transform),
    }
    half = config("local_attention", 128, lambda target: 2 * (window(target) - 1)) // 2
    masks = {"full": Bidirectional(), "local": Window(size=half + 1, after=half)}
    return _model(config, head_of(config, "ModernBert", heads), encoder=_stack(config, norm, masks))


def read_decoder(config: Config) -> Architecture:
    norm, head = _norm(config), _head(config)
    size = config("local_attention", 128, lambda target: 2 * window(target)) // 2
    size = config("sliding_window", size, nowhere, kind=SIZE)  # which the class sets to half of the other unless a file has it
    heads = {"ForCausalLM": head, "ForSequenceClassification": _of_text(config, head)}
    stack = _stack(config, norm, {"full": Causal(), "local": Window(size=size)})
    return _model(config, head_of(config, "ModernBertDecoder", heads), decoder=stack)


def _of_text(config: Config, head: Head) -> Head:
    """Classes of a text, read off its last token."""
    padding, bias = config("pad_token_id", 50283, _padding), config("classifier_bias", False)
    passed = padding if padding < config("vocab_size") else None
    return classes(config, pool="last", passed_over=passed, transform=head.transform, bias=bias)


def _padding(target: Target) -> int:
    """The token that the head passes over, or the class's own, which must be a row of the table."""
    passed: int | None = target.get("head.passed_over")
    return min(50283, target("embedding.vocab") - 1) if passed is None else passed


def _model(config: Config, head: Head | None, **stacks: Any) -> Architecture:
    config("max_position_embeddings", None)
    config.put(pad_token_id=_padding)
    std, cut = config("initializer_range", 0.02), config("initializer_cutoff_factor", 2.0) or 3.0
    last = std * (2 * config("num_hidden_layers")) ** -0.5
    rule, head_rule = (TruncatedNormal(std=value, cut=cut) for value in (std, last))
    return Architecture(
        width=config("hidden_size"),
        embedding=Embedding(vocab=config("vocab_size")),
        head=head,
        initialisation=Initialisation(matrix=rule, embedding=rule, head=head_rule, residual_scale="inverse_sqrt_2_depth"),
        **stacks,
    )


def _norm(config: Config) -> LayerNorm:
    return words.layer_norm(config, key="norm_eps", bias=config("norm_bias", False, "stack.final_norm.bias"))


def _head(config: Config) -> Head:
    acted = words.activation(config, "classifier_activation", "gelu", "head.transform.activation")
    biased = config("classifier_bias", False, "head.transform.bias")
    transform = Transform(activation=acted, norm=_norm(config), bias=biased)
    bias = config("decoder_bias", True)
    return Head(tied=config("tie_word_embeddings", True, tie_of_masked), bias=bias, transform=transform)


def _stack(config: Config, norm: LayerNorm, masks: Mapping[str, Any]) -> Stack:
    """The stack, whose first layer has no norm before attention, since the embeddings are normed."""
    period = config("global_attn_every_n_layers", 3)
    kinds = words.types(config, lambda i: SLIDING if i % period else FULL)
    blocks = {kind: _block(config, norm, kind, masks[kind]) for kind in dict.fromkeys([*masks, *kinds])}
    first = change(blocks[kinds[0]], "attention.norm_before", None)
    names = Named[Block]({kind: blocks[kind] for kind in dict.fromkeys(kinds)}, first=first)
    layers = [first, *(blocks[kind] for kind in kinds[1:])]
    dropout = config("embedding_dropout", 0.0)
    return stack(layers, names=names, input_norm=norm, final_norm=norm, dropout=dropout)


def _block(config: Config, norm: LayerNorm, kind: str, mask: Any) -> Block:
    theirs, key, theta = _THETA[kind]
    config.expect("rope_theta", None, why=f"thetas are {' and '.join(key for _, key, _ in _THETA.values())} here")
    scaling_in_tables(config)
    table = words.rope_parameters(config, theta=config(key, theta), layer_type=theirs, at=written_by_type)
    heads = words.full_heads(config, rotary=words.from_table(table, rotate_in="fp32"), mask=mask)
    bias, dropout = config("mlp_bias", False), config("mlp_dropout", 0.0)
    network = words.feedforward(config, "hidden_activation", "gelu", bias=bias, dropout=dropout)
    return change(pre_norm(norm, heads, network), "attention.dropout", heads.weigh.dropped)


_FUSED: Table = {QKV: To("attn.Wqkv", Rows())}
_SEPARATE: Table = {f"attention.{side}": f"attn.{side[0]}_proj" for side in words.QKV}
_LAYER: Table = {
    "attention.norm_before": "attn_norm",
    "attention.output": "attn.Wo",
    "feedforward.norm_before": "mlp_norm",
    ("feedforward.gate", "feedforward.up"): To("mlp.Wi", Rows()),
    "feedforward.down": "mlp.Wo",
}


def names(architecture: Architecture) -> Names:
    classifies = architecture.head is not None and architecture.head.outputs is not None
    head = {} if architecture.head is None else _head_names("head", "classifier" if classifies else "decoder")
    return encoder_names(architecture, "model", _outside("encoder"), head, _FUSED, _LAYER, path="layers.{i}.")


def _outside(side: str, prefix: str = "") -> Table:
    return {
        "embedding": f"{prefix}embeddings.tok_embeddings",
        f"{side}.input_norm": f"{prefix}embeddings.norm",
        f"{side}.final_norm": f"{prefix}final_norm",
    }


def _head_names(name: str, matrix: str = "decoder") -> Table:
    return {"head.transform.dense": f"{name}.dense", "head.transform.norm": f"{name}.norm", "head": matrix}


def decoder_names(architecture: Architecture) -> Names:
    head: Table = {}
    if architecture.head is not None:
        classifies = architecture.head.pool is not None
        head = _head_names("head", "classifier") if classifies else _head_names("lm_head")
    return encoder_names(architecture, "model", _outside("encoder"), head, _SEPARATE, _LAYER, path="layers.{i}.")


_INERT = (
    "cls_token_id", "deterministic_flash_attn", "initializer_cutoff_factor", "layer_norm_eps",
    "mask_token_id", "position_embedding_type", "reference_compile", "repad_logits_with_grad", "sparse_pred_ignore_index",
    "sparse_prediction",
)  # fmt: skip
_IGNORED = (r"decoder\.weight",)
FAMILIES = (
    Family("modernbert", read, names, "ModernBertForMaskedLM", inert=_INERT, ignored=_IGNORED),
    Family(
        "modernbert-decoder",
        read_decoder,
        decoder_names,
        "ModernBertDecoderForCausalLM",
        inert=(*_INERT, "classifier_pooling"),
        ignored=_IGNORED,
        base="model.",
    ),
)
