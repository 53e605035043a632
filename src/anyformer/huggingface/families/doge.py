"""Doge without experts: Llama whose keys are weighed by their values, and whose residuals have learned factors."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Shaped, Table, To
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, QK_NORM, decoder_names
from anyformer.model import Architecture
from anyformer.parts import QKNorm, ScaledResidual, ValueBias, pre_norm


def read(config: Config) -> Architecture:
    config.assume(vocab_size=32_768, hidden_size=1024, intermediate_size=2048, num_hidden_layers=32, num_attention_heads=8)
    config.expect("is_moe", False, why="experts by products of keys, which the class routes across tokens, are not known here")
    longest = config("max_position_embeddings", 2048)
    config.put(keep_window_size=longest)
    kept = config("keep_window_size", 2048)
    if kept < longest:
        raise HuggingFaceError(
            f"{config.where}: keep_window_size = {kept} keys of max_position_embeddings = {longest} are kept by their values: "
            f"this choice is not known here; where both are equal, every key is seen"
        )
    norm = words.rms_norm(config)
    heads = words.attention(config, qk_norm=QKNorm(norm=norm), rotary=words.rotary(config))
    config.expect("sliding_window", None, why="what a window keeps beside its keys is not known here")
    heads = heads.but(value_bias=ValueBias(bias=bool(heads.project.bias)))
    network = words.feedforward(config, bias=config("mlp_bias", False))
    block = pre_norm(norm, heads, network, dropout=config("hidden_dropout", 0.0, "attention.dropout"))
    return words.decoder(config, words.repeated(config, block), norm, around={"streams": ScaledResidual()})


_OWN: Table = {
    "attention.value_bias.rate": "self_attn.A",
    "attention.value_bias.values": "self_attn.dt_proj",
    "step_0_streams.gain": To("input_residual", Shaped((-1,))),
    "step_1_streams.gain": To("post_attention_residual", Shaped((-1,))),
}
FAMILIES = (
    Family(
        "doge",
        read,
        decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, NORMS, _OWN),
        "DogeForCausalLM",
        inert=("norm_topk_prob", "num_experts", "num_experts_per_tok"),
    ),
)
