"""BitNet b1.58, with its weights as trained: Llama with a norm before every output projection, and squared ReLU in the gate."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import pre_norm


def read(config: Config) -> Architecture:
    norm = words.rms_norm(config, 1e-5)
    heads = words.attention(config, kv_heads=5, rotary=words.rotary(config, theta=500_000.0), sub_norm=norm)
    network = words.feedforward(config, default="relu2", sub_norm=norm)
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, network)), norm)


_SUB_NORMS = {"attention.sub_norm": "self_attn.attn_sub_norm", "feedforward.sub_norm": "mlp.ffn_sub_norm"}
FAMILIES = (Family("bitnet", read, decoder_names(ATTENTION, FEEDFORWARD, NORMS, _SUB_NORMS), "BitNetForCausalLM"),)
