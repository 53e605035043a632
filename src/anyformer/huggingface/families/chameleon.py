"""Chameleon's text: Llama with a LayerNorm of every head of queries and keys, and for 34B norms after the branches.

transformers gives the logits of the codes of images its least number; here they are what the head computes.
"""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Shaped, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.vocabulary import FLAG
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import LayerNorm, QKNorm, output_norm, pre_norm


def read(config: Config) -> Architecture:
    config.assume(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, intermediate_size=11_008, vocab_size=65_536)
    norm, qk_norm = words.rms_norm(config, 1e-5), QKNorm(norm=LayerNorm(eps=1e-5), over="each_head")
    heads = words.attention(config, kv_heads=32, rotary=words.rotary(config), qk_norm=qk_norm)
    biased = config("mlp_bias", False)
    after = config("swin_norm", False, lambda target: target("attention.norm_after") is not None, kind=FLAG)
    block = (output_norm if after else pre_norm)(norm, heads, words.feedforward(config, bias=biased))
    return words.decoder(config, words.repeated(config, block), norm)


def names(architecture: Architecture) -> Names:
    """Names of the weights; those of the norms of heads are stored as (H, E)."""
    by_head = Shaped((-1, Target(architecture)("attention.sublayer").width_of_head(architecture.width)))
    qk_norm = {f"attention.{side}_norm": To(f"self_attn.{side[0]}_norm", by_head) for side in ("query", "key")}
    after = {ours.replace("before", "after"): theirs for ours, theirs in NORMS.items()}
    return decoder_names(ATTENTION, qk_norm, FEEDFORWARD, NORMS, after)


FAMILIES = (Family("chameleon-text", read, names, "ChameleonForConditionalGeneration"),)
