"""Hunyuan dense: Llama with query and key heads normed after the rotation, and a base stretched by a fixed factor."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import QKNorm, pre_norm


def read(config: Config) -> Architecture:
    words.needs(config, "head_dim")
    config.expect_all(use_qk_norm=True, use_cla=False)
    norm, rotary = words.rms_norm(config, 1e-5), words.rotary_with_alpha(config, config("head_dim", kind=SIZE))
    heads = words.attention(config, rotary=rotary, qk_norm=QKNorm(norm=norm, at="after_rotary"))
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, words.feedforward(config))), norm)


_QK_NORM = {f"attention.{side}_norm": f"self_attn.{side}_layernorm" for side in ("query", "key")}
_NAMES = decoder_names(ATTENTION, _QK_NORM, FEEDFORWARD, NORMS)
FAMILIES = (Family("hunyuan_v1_dense", read, _NAMES, "HunYuanDenseV1ForCausalLM", inert=("eod_token_id",)),)
