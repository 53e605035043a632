"""XLNet: Transformer-XL's scores, post-norm, a bias on the logits; both ways (`bi`) or causal (`uni`).

What is read is the content stream, which answers when no permutation is asked for. The query stream of its pre-training and
the segments' biases have weights of their own, which take no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.gpt2 import INERT
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Shapes, Table, To
from anyformer.huggingface.spelling import activation, initialisation, write_activation
from anyformer.model import Architecture, decoder_only, encoder_only
from anyformer.parts import Attention, Bidirectional, Causal, Embedding, FeedForward, Head, LayerNorm, TransformerXL, post_norm

OUTSIDE: Table = {"embedding": "transformer.word_embedding", "head": "lm_loss"}


@dataclass(frozen=True)
class ByHead:
    """(D, H, E) to (H * E, D), a projection into heads; `output`: to (D, H * E), one out of them."""

    heads: int
    output: bool = False

    def read(self, theirs: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        flat = [x.flatten(1) for x in theirs]
        return flat if self.output else [x.mT for x in flat]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        turned = ours if self.output else [x.mT for x in ours]
        return [x.unflatten(1, (self.heads, -1)) for x in turned]  # type: ignore[no-untyped-call]


def read(config: Config) -> Architecture:
    width, heads = config("d_model", 1024), config("n_head", 16)
    config.expect("attn_type", "bi", "uni")
    config.expect("d_head", None, width // heads)
    config.expect("untie_r", True)
    for name in ("bi_data", "same_length"):
        config.expect(name, False)
    config.expect("clamp_len", -1)
    causal, dropout = config("attn_type", "bi") == "uni", config("dropout", 0.1)
    mask = Causal() if causal else Bidirectional()
    attention = Attention(heads=heads, score_bias=TransformerXL(), mask=mask, dropout=dropout)
    feedforward = FeedForward(
        width=config("d_inner", 4096),
        activation=activation(config("ff_activation", "gelu")),
        gated=False,
        bias=("up", "down"),
        dropout=dropout,
    )
    block = post_norm(LayerNorm(eps=config("layer_norm_eps", 1e-12)), attention, feedforward, dropout=dropout)
    make = decoder_only if causal else encoder_only
    return make(
        Embedding(vocab=config("vocab_size", 32000)),
        width,
        [block] * config("n_layer", 24),
        dropout=dropout,
        head=Head(tied=config("tie_word_embeddings", True), bias=True),
        initialisation=initialisation(config),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    stack = next(iter(architecture.stacks))
    feedforward: FeedForward = get(architecture, f"{stack}.layer.feedforward.sublayer")
    return {
        "vocab_size": get(architecture, "embedding.vocab"),
        "d_model": architecture.width,
        "n_layer": architecture.output_stack.depth,
        "n_head": get(architecture, f"{stack}.layer.attention.heads"),
        "d_inner": feedforward.width,
        "ff_activation": write_activation(feedforward.activation),
        "attn_type": "uni" if stack == "decoder" else "bi",
        "layer_norm_eps": get(architecture, f"{stack}.layer.steps.0.norm_after.eps"),
        "dropout": architecture.output_stack.dropout,
        "tie_word_embeddings": get(architecture, "head.tied"),
    }


def names(architecture: Architecture) -> Names:
    stack = next(iter(architecture.stacks))
    heads = get(architecture, f"{stack}.layer.attention.heads")
    into = {"query": "q", "key": "k", "value": "v", "score_bias.relative": "r"}
    layers: Table = {
        **{f"attention.{ours}.weight": To(f"rel_attn.{theirs}", ByHead(heads)) for ours, theirs in into.items()},
        "attention.output.weight": To("rel_attn.o", ByHead(heads, output=True)),
        "attention.score_bias.content_bias": "rel_attn.r_w_bias",
        "attention.score_bias.position_bias": "rel_attn.r_r_bias",
        "step_0_norm_after": "rel_attn.layer_norm",
        "step_1_norm_after": "ff.layer_norm",
        "feedforward.up": "ff.layer_1",
        "feedforward.down": "ff.layer_2",
    }
    return Names(OUTSIDE, {stack: ("transformer.layer.{i}.", layers)})


FAMILIES = (
    Family(
        "xlnet",
        read,
        write,
        names,
        "XLNetLMHeadModel",
        # Memories of earlier text are given to a call; these say how long to keep them.
        inert=(*INERT, "mem_len", "reuse_len", "use_mems_eval", "use_mems_train", "start_n_top", "end_n_top",
               "summary_last_dropout"),
        ignored=(r"(transformer\.)?mask_emb", r"(transformer\.)?layer\.\d+\.rel_attn\.(r_s_bias|seg_embed)"),
        base="transformer.",
    ),
)  # fmt: skip
