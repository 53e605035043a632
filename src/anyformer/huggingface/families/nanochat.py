"""nanochat: norms without weights, also right after the embedding; rotation in the opposite direction; capped logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Shapes, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import ATTENTION, decoder_names
from anyformer.model import Architecture
from anyformer.parts import QKNorm, pre_norm

if TYPE_CHECKING:
    from torch import Tensor

_FEEDFORWARD = {"feedforward.up": "mlp.fc1", "feedforward.down": "mlp.fc2"}


@dataclass(frozen=True)
class HalvesSwapped:
    """The rows of each of `heads` heads with their halves swapped.

    Rotating (a, b) by -t is rotating (b, a) by t; scores and norms without weights do not depend on the order of features.
    """

    heads: int

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return [x.unflatten(0, (self.heads, 2, -1)).flip(1).flatten(0, 2) for x in stored]  # type: ignore[no-untyped-call]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return self.read(parameters, ())


def read(config: Config) -> Architecture:
    norm = words.rms_norm(config, gain="none")
    heads = words.attention(config, rotary=words.rotary(config), qk_norm=QKNorm(norm=norm, at="after_rotary"))
    layers = words.repeated(config, pre_norm(norm, heads, words.plain(config, "relu2", bias=False)))
    softcap = config("final_logit_softcapping", 15.0)
    return words.decoder(config, layers, norm, around={"input_norm": norm}, softcap=softcap)


def names(architecture: Architecture) -> Names:
    heads = Target(architecture)("attention.sublayer")
    swapped = {
        "attention.query": To("self_attn.q_proj", HalvesSwapped(heads.heads)),
        "attention.key": To("self_attn.k_proj", HalvesSwapped(heads.groups)),
    }
    return decoder_names(ATTENTION, swapped, _FEEDFORWARD)


FAMILIES = (Family("nanochat", read, names, "NanoChatForCausalLM"),)
