"""Apertus' line: a plain network of xIELU, whose two curvatures are learned, and normed query and key heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import Shapes, Table, To
from anyformer.huggingface.words.names import ATTENTION, QK_NORM, UP_DOWN, decoder_names
from anyformer.model import Architecture
from anyformer.parts import QKNorm, pre_norm

if TYPE_CHECKING:
    from torch import Tensor

BETA, EPS = 0.5, -1e-6


@dataclass(frozen=True)
class WithConstants:
    """The learned curvatures of xIELU, stored with two constants that transformers requires."""

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        import torch

        *learned, beta, eps = stored
        as_stored = (torch.tensor(constant, dtype=each.dtype) for constant, each in ((BETA, beta), (EPS, eps)))
        if any(not torch.equal(each.reshape(()), own) for each, own in zip((beta, eps), as_stored, strict=True)):
            raise HuggingFaceError(f"xIELU here has beta = {BETA} and eps = {EPS}, and the file {float(beta)} and {float(eps)}")
        return learned

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        import torch

        return [*parameters, *(torch.tensor(constant, dtype=parameters[0].dtype) for constant in (BETA, EPS))]


_LAYER: Table = {
    "attention.norm_before": "attention_layernorm",
    "feedforward.norm_before": "feedforward_layernorm",
    ("feedforward.activation.positive", "feedforward.activation.negative"): To(
        "mlp.act_fn.{x}", WithConstants(), ("alpha_p", "alpha_n", "beta", "eps")
    ),
}
_ROPE = {
    "rope_type": "llama3", "rope_theta": 12_000_000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip


def read(config: Config) -> Architecture:
    config.expect_all(qk_norm=True, post_norm=False, mlp_bias=False)
    norm, rotary = words.rms_norm(config, 1e-5), words.rotary_or(config, _ROPE, theta=12_000_000.0)
    block = pre_norm(
        norm, words.attention(config, rotary=rotary, qk_norm=QKNorm(norm=norm)), words.plain(config, "xielu", bias=False)
    )
    return words.decoder(config, words.repeated(config, block), norm)


NAMES = decoder_names(ATTENTION, QK_NORM, UP_DOWN, _LAYER)
