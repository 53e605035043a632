"""The architectures of GGUF files that are read: their metadata as a configuration, and their names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.gguf.keys import GgufMetadata
from anyformer.huggingface.gguf.rotary import rotary_of
from anyformer.huggingface.gguf.spelling import GgufArchitecture, minus_one, one_row, transposed, unrotated

INERT = (
    "attention.value_length",
    "expert_shared_feed_forward_length",
    "file_type",
    "quantization_version",
    "rope.dimension_count",
    "vocab_size",
)
"""Keys that repeat what the tensors say, or that were checked."""
_DEEP_GEMMA = {"gemma2": 46, "gemma3": 62}
"""Layers of the 27B models, whose scores are scaled by the width of the model over the heads: llama.cpp knows them by it."""
_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_ATTENTION = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
}
_NORMED = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_NETWORK = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
_MIXTRAL = {
    "ffn_gate_inp": "block_sparse_moe.gate",
    "ffn_gate_exps": "block_sparse_moe.experts.{x}.w1",
    "ffn_down_exps": "block_sparse_moe.experts.{x}.w2",
    "ffn_up_exps": "block_sparse_moe.experts.{x}.w3",
}
_EXPERTS = {
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.{x}.gate_proj",
    "ffn_up_exps": "mlp.experts.{x}.up_proj",
    "ffn_down_exps": "mlp.experts.{x}.down_proj",
}
_SHARED = {
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
}
_SANDWICH = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_HALVES = {"attn_q": unrotated("attention.head_count"), "attn_k": unrotated("attention.head_count_kv")}
_GAINS = dict.fromkeys((*_SANDWICH, *_NORMED, "output_norm"), minus_one)


def _decoder(keys: GgufMetadata, model_type: str, **more: Any) -> dict[str, Any]:
    """The keys that every decoder has."""
    heads = keys("attention.head_count")
    width = keys("attention.key_length", keys("embedding_length") // heads)
    keys.expect("attention.value_length", width)
    return {
        "model_type": model_type,
        "vocab_size": keys.shapes["token_embd.weight"][0],
        "hidden_size": keys("embedding_length"),
        "num_hidden_layers": keys("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": keys("attention.head_count_kv", heads),
        "head_dim": width,
        "max_position_embeddings": keys("context_length"),
        "rms_norm_eps": keys("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": "output.weight" not in keys.shapes,
        **more,
    }


def _of_head(config: dict[str, Any], keys: GgufMetadata) -> dict[str, Any]:
    """The configuration with the rotary settings of all layers."""
    return {**config, "rope_parameters": rotary_of(keys, config["head_dim"])}


def _experts(keys: GgufMetadata) -> dict[str, Any]:
    keys.expect("expert_weights_scale", 0.0, 1.0)
    width = keys.shapes["blk.0.ffn_gate_exps.weight"][1]
    keys.expect("expert_feed_forward_length", width)
    return {"num_experts_per_tok": keys("expert_used_count"), "moe_intermediate_size": width}


def _llama(keys: GgufMetadata) -> dict[str, Any]:
    """Llama and Mistral; with experts Mixtral."""
    config = _of_head(_decoder(keys, "llama", intermediate_size=keys("feed_forward_length")), keys)
    experts = keys("expert_count", 0)
    if experts:
        return {
            **config,
            "model_type": "mixtral",
            "num_local_experts": experts,
            "num_experts_per_tok": keys("expert_used_count"),
        }
    return {**config, "attention_bias": "blk.0.attn_q.bias" in keys.shapes}


def _qwen2(keys: GgufMetadata) -> dict[str, Any]:
    config = _of_head(_decoder(keys, "qwen2", intermediate_size=keys("feed_forward_length")), keys)
    if config["head_dim"] * config["num_attention_heads"] != config["hidden_size"]:
        raise HuggingFaceError(f"{keys.where}: qwen2 has heads of {config['head_dim']}, which do not fill the width")
    del config["head_dim"]
    return config


def _qwen3(keys: GgufMetadata) -> dict[str, Any]:
    return _of_head(_decoder(keys, "qwen3", intermediate_size=keys("feed_forward_length")), keys)


def _qwen2moe(keys: GgufMetadata) -> dict[str, Any]:
    config = _of_head(_decoder(keys, "qwen2_moe", intermediate_size=keys("feed_forward_length")), keys)
    del config["head_dim"]
    return {
        **config,
        "num_experts": keys("expert_count"),
        **_experts(keys),
        "shared_expert_intermediate_size": keys.shapes["blk.0.ffn_gate_shexp.weight"][0],
        "norm_topk_prob": False,
    }


def _qwen3moe(keys: GgufMetadata) -> dict[str, Any]:
    config = _of_head(_decoder(keys, "qwen3_moe", intermediate_size=keys("feed_forward_length")), keys)
    return {**config, "num_experts": keys("expert_count"), **_experts(keys), "norm_topk_prob": True}


def _gemma(keys: GgufMetadata, model_type: str) -> dict[str, Any]:
    config = _decoder(keys, model_type, intermediate_size=keys("feed_forward_length"))
    large = config["num_hidden_layers"] == _DEEP_GEMMA[keys.architecture]
    return {
        **config,
        "query_pre_attn_scalar": config["hidden_size"] // config["num_attention_heads"] if large else config["head_dim"],
        "sliding_window": keys("attention.sliding_window"),
        "hidden_activation": "gelu_pytorch_tanh",
    }


def _gemma2(keys: GgufMetadata) -> dict[str, Any]:
    return {
        **_of_head(_gemma(keys, "gemma2"), keys),
        "attn_logit_softcapping": keys("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": keys("final_logit_softcapping", 30.0),
    }


def _gemma3(keys: GgufMetadata) -> dict[str, Any]:
    config = _gemma(keys, "gemma3_text")
    near = {"rope_type": "default", "rope_theta": keys("rope.freq_base_swa", 10_000.0)}
    return {
        **config,
        "rope_parameters": {"full_attention": rotary_of(keys, config["head_dim"], theta=1e6), "sliding_attention": near},
        "sliding_window_pattern": keys("attention.sliding_window_pattern", 6),
        "final_logit_softcapping": keys("final_logit_softcapping", None),
    }


def _gpt2(keys: GgufMetadata) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
        "vocab_size": keys.shapes["token_embd.weight"][0],
        "n_embd": keys("embedding_length"),
        "n_layer": keys("block_count"),
        "n_head": keys("attention.head_count"),
        "n_inner": keys("feed_forward_length"),
        "n_positions": keys("context_length"),
        "layer_norm_epsilon": keys("attention.layer_norm_epsilon"),
        "tie_word_embeddings": "output.weight" not in keys.shapes,
    }


def _phi3(keys: GgufMetadata) -> dict[str, Any]:
    if "rope_factors_long.weight" in keys.shapes:
        raise HuggingFaceError(
            f"{keys.where}: rope_factors_long.weight: LongRoPE of phi3 is not read from GGUF files; take the checkpoint in "
            f"Hugging Face's layout"
        )
    config = _decoder(keys, "phi3", intermediate_size=keys("feed_forward_length"))
    del config["head_dim"]
    width = config["hidden_size"] // config["num_attention_heads"]
    share = keys("rope.dimension_count", width) / width
    return {
        **config,
        "rope_parameters": {**rotary_of(keys, width, whole=False), "partial_rotary_factor": share},
        "original_max_position_embeddings": keys("rope.scaling.original_context_length", config["max_position_embeddings"]),
        "sliding_window": keys("attention.sliding_window", None) or None,
    }


_GPT2_LAYER = {
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
_PHI3_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.gate_up_proj",
    "ffn_down": "mlp.down_proj",
}
SPELLINGS: Mapping[str, GgufArchitecture] = MappingProxyType(
    {
        "llama": GgufArchitecture(_llama, _OUTSIDE, {**_ATTENTION, **_NETWORK, **_MIXTRAL}, changes=_HALVES),
        "qwen2": GgufArchitecture(_qwen2, _OUTSIDE, {**_ATTENTION, **_NETWORK}),
        "qwen3": GgufArchitecture(_qwen3, _OUTSIDE, {**_ATTENTION, **_NORMED, **_NETWORK}),
        "qwen2moe": GgufArchitecture(
            _qwen2moe, _OUTSIDE, {**_ATTENTION, **_EXPERTS, **_SHARED}, changes={"ffn_gate_inp_shexp": one_row}
        ),
        "qwen3moe": GgufArchitecture(_qwen3moe, _OUTSIDE, {**_ATTENTION, **_NORMED, **_EXPERTS}),
        "gemma2": GgufArchitecture(_gemma2, _OUTSIDE, {**_ATTENTION, **_NETWORK, **_SANDWICH}, changes=_GAINS),
        "gemma3": GgufArchitecture(_gemma3, _OUTSIDE, {**_ATTENTION, **_NORMED, **_NETWORK, **_SANDWICH}, changes=_GAINS),
        "gpt2": GgufArchitecture(
            _gpt2,
            {
                "token_embd": "transformer.wte",
                "position_embd": "transformer.wpe",
                "output_norm": "transformer.ln_f",
                "output": "lm_head",
            },
            _GPT2_LAYER,
            "transformer.h.{i}.",
            dict.fromkeys(("attn_qkv", "attn_output", "ffn_up", "ffn_down"), transposed),
        ),
        "phi3": GgufArchitecture(_phi3, _OUTSIDE, _PHI3_LAYER),
    }
)
"""`general.architecture` -> its spelling."""
