"""XLNet: Transformer-XL's scores, post-norm, a bias on the logits; bidirectional (`bi`) or causal (`uni`).

The content stream is read, which computes the outputs of a call without a permutation. The query stream of pre-training and
the segments' biases have weights of their own, which are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Shapes, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.gpt_line import INERT
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    Causal,
    Score,
    Softmax,
    TransformerXL,
    post_norm,
)

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ByHead:
    """(D, H, E) to (H * E, D), a projection into heads; `output`: to (D, H * E), one out of them."""

    heads: int
    output: bool = False

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        flat = [x.flatten(1) for x in stored]
        return flat if self.output else [x.mT for x in flat]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        matrices = parameters if self.output else [x.mT for x in parameters]
        return [x.unflatten(1, (self.heads, -1)) for x in matrices]  # type: ignore[no-untyped-call]


def read(config: Config) -> Architecture:
    config.assume(d_model=1024, n_layer=24)
    width, heads, dropout = config("d_model"), config("n_head", 16), config("dropout", 0.1)
    config.expect("attn_type", "bi", "uni")
    config.expect("d_head", None, width // heads)
    config.expect_all(untie_r=True, bi_data=False, same_length=False, clamp_len=-1)
    causal = config("attn_type", "bi", lambda target: "uni" if target.architecture.decoder else "bi") == "uni"
    mask = Causal() if causal else Bidirectional()
    attention = Attention(heads=heads, mask=mask, score=Score(terms=TransformerXL()), weigh=Softmax(dropout=dropout))
    network = words.plain(config, "gelu", "ff_activation", size="d_inner", width=4096, dropout=dropout)
    block = post_norm(words.layer_norm(config, 1e-12), attention, network, dropout=dropout)
    side, around = "decoder" if causal else "encoder", {"dropout": dropout}
    layers = words.repeated(config, block, "n_layer")
    keys: dict[str, Any] = {"vocab": 32000, "width": "d_model", "length": None}
    return words.decoder(config, layers, None, tied=True, side=side, around=around, bias=True, **keys)


def names(architecture: Architecture) -> Names:
    stack, heads = next(iter(architecture.stacks)), Target(architecture)("attention.heads")
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
    outside = {"embedding": "transformer.word_embedding", "head": "lm_loss"}
    return Names(outside, {stack: ("transformer.layer.{i}.", layers)})


FAMILIES = (
    Family(
        "xlnet",
        read,
        names,
        "XLNetLMHeadModel",
        # How long to keep memories of earlier text, which are arguments of a call.
        inert=(
            *INERT, "mem_len", "reuse_len", "use_mems_eval", "use_mems_train", "start_n_top", "end_n_top",
            "summary_last_dropout",
        ),
        ignored=(r"(transformer\.)?mask_emb", r"(transformer\.)?layer\.\d+\.rel_attn\.(r_s_bias|seg_embed)"),
        base="transformer.",
    ),
)  # fmt: skip
