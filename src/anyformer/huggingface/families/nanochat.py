"""nanochat: norms without weights, also right after the embedding; heads turned the other way round; capped logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from anyformer.describe import change, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, attention, each, model, plain, repeated
from anyformer.huggingface.families.llama import ATTENTION, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Shapes, Table, To
from anyformer.huggingface.spelling import read_rope
from anyformer.model import Architecture
from anyformer.parts import Attention, QKNorm, RMSNorm, pre_norm

FEEDFORWARD: Table = {"feedforward.up": "mlp.fc1", "feedforward.down": "mlp.fc2"}


@dataclass(frozen=True)
class HalvesSwapped:
    """The rows of each of `heads` heads with their halves swapped.

    Rotating (a, b) by -t is rotating (b, a) by t; scores and norms without weights do not see the order of features.
    """

    heads: int

    def read(self, theirs: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return [x.unflatten(0, (self.heads, 2, -1)).flip(1).flatten(0, 2) for x in theirs]  # type: ignore[no-untyped-call]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return self.read(ours, ())


def read(config: Config) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6), gain="none")
    heads = attention(config, rotary=read_rope(config), qk_norm=QKNorm(norm=norm, at="after_rotary"))
    block = pre_norm(norm, heads, plain(config, "relu2"))
    made = model(config, repeated(config, block), norm, softcap=config("final_logit_softcapping", 15.0))
    return change(made, "decoder.input_norm", norm)


def write(architecture: Architecture) -> dict[str, Any]:
    return {
        **decoder.write(architecture),
        "attention_bias": decoder.biased(architecture),
        "final_logit_softcapping": get(architecture, "head.softcap"),
    }


def names(architecture: Architecture) -> Names:
    heads: Attention = each(architecture, "attention.sublayer")[0]
    turned: Table = {
        "attention.query": To("self_attn.q_proj", HalvesSwapped(heads.heads)),
        "attention.key": To("self_attn.k_proj", HalvesSwapped(heads.groups)),
    }
    return decoder_names({**ATTENTION, **turned}, FEEDFORWARD)


FAMILIES = (Family("nanochat", read, write, names, "NanoChatForCausalLM", ignored=BUFFERS),)
