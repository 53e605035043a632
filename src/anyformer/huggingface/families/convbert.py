"""ConvBERT: BERT with narrow embeddings, half of whose heads are those of a span-based convolution."""

from __future__ import annotations

from anyformer.describe import get
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Shaped, Table, Then, To, Transposed
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.words.bert_line import (
    ATTENTION,
    EMBEDDINGS,
    FEEDFORWARD,
    IGNORED,
    POST_NORMS,
    bert_head,
    encoder_names,
    narrow_encoder,
    table_width,
)
from anyformer.huggingface.words.encoder_heads import head_names
from anyformer.huggingface.words.names import convolution
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    FeedForward,
    NetworkGroups,
    Projection,
    Softmax,
    SpanConvolution,
    Transform,
)

_RATIO = 2
"""`head_ratio` where it is absent, and of every configuration that is written."""


def read(config: Config) -> Architecture:
    config.assume(vocab_size=30_522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072)
    pooled = Transform(activation=words.activation(config, default="gelu"), width=config("hidden_size"))
    head = bert_head(config, "ConvBert", words.layer_norm(config, 1e-12), "gelu", pooled=pooled)
    width = table_width(config, "embedding_size", 768)
    return narrow_encoder(config, head, width, always=False, sublayers=(_attention(config), _network(config)))


def _attention(config: Config) -> Attention:
    """H heads beside as many of the convolution, each of D / 2H features; H is the key's number over `head_ratio`."""
    ratio = config("head_ratio", _RATIO, nowhere)
    heads = max(1, config("num_attention_heads", at=lambda target: _RATIO * target("attention.heads")) // ratio)
    kernel = config("conv_kernel_size", 9, "attention.convolution.kernel")
    if kernel % 2 == 0:
        raise config.refused("conv_kernel_size", kernel, "odd, as the kernel reaches as far to both sides")
    each, left = divmod(config("hidden_size"), 2 * heads)
    if left:
        raise config.refused("hidden_size", config("hidden_size"), f"a multiple of {2 * heads}, twice the heads of attention")
    return Attention(
        heads=heads,
        head_width=each,
        mask=Bidirectional(),
        project=Projection(bias=words.ALL),
        weigh=Softmax(dropout=config("attention_probs_dropout_prob", 0.1)),
        combine=SpanConvolution(kernel=kernel, bias=("key", "kernel", "value")),
    )


def _network(config: Config) -> FeedForward:
    groups = config("num_groups", 1, _groups)
    return words.plain(config).but(grouped=NetworkGroups(up=groups, down=groups) if groups > 1 else None)


def _groups(target: Target) -> int:
    grouped = target("feedforward.grouped")
    return 1 if grouped is None else int(grouped.up)


def names(architecture: Architecture) -> Names:
    block = next(iter(architecture.output_stack.variants.values()))
    modules = ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head")
    head = head_names(architecture, modules, "generator_lm_head.bias")
    outside: Table = {**EMBEDDINGS, "encoder.input_projection": "embeddings_project"}
    spans: Table = {
        "attention.convolution.depthwise": To(
            f"{_KEY}.depthwise.weight", convolution(get(block, "attention.convolution.kernel"))
        ),
        "attention.convolution.key.weight": To(f"{_KEY}.pointwise.weight", Shaped((-1, architecture.width, 1))),
        "attention.convolution.key.bias": To(f"{_KEY}.bias", Shaped((-1, 1))),
        "attention.convolution.kernel": "attention.self.conv_kernel_layer",
        "attention.convolution.value": "attention.self.conv_out_layer",
    }
    grouped = get(block, "feedforward.grouped")
    network = FEEDFORWARD if grouped is None else _grouped(architecture.width, get(block, "feedforward.width"), grouped.up)
    return encoder_names(architecture, "convbert", outside, head, ATTENTION, spans, network, POST_NORMS)


def _grouped(width: int, inner: int, groups: int) -> Table:
    """Names of a network whose matrices are stored as (groups, inputs, outputs)."""
    made: dict[str, str | To] = {}
    for (ours, theirs), (inputs, outputs) in zip(FEEDFORWARD.items(), ((width, inner), (inner, width)), strict=True):
        stored = Then(Transposed(), Shaped((groups, outputs // groups, inputs // groups)))
        made |= {f"{ours}.weight": To(f"{theirs}.weight", stored), f"{ours}.bias": f"{theirs}.bias"}
    return made


_KEY = "attention.self.key_conv_attn_layer"
FAMILIES = (Family("convbert", read, names, "ConvBertForMaskedLM", ignored=IGNORED),)
