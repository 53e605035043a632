"""The models of `benchmarks.cases` as transformers has them."""

from __future__ import annotations

from typing import Any

from benchmarks.cases import Decoder, Training
from torch import nn


def decoder(sizes: Decoder, length: int, **settings: Any) -> nn.Module:
    """A decoder of transformers' own classes for `length` tokens; `settings` of `from_config`."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(decoder_config(sizes, length), **settings).eval()


def decoder_config(sizes: Decoder, length: int) -> Any:
    """Llama, Mixtral, or DeepSeek-V3 whose layers are all dense."""
    from transformers import DeepseekV3Config, LlamaConfig, MixtralConfig

    shared: dict[str, Any] = {
        "vocab_size": sizes.vocab, "hidden_size": sizes.width, "intermediate_size": sizes.ffn,
        "num_hidden_layers": sizes.depth, "num_attention_heads": sizes.heads, "num_key_value_heads": sizes.kv_heads,
        "max_position_embeddings": length, "tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": None,
        "rope_parameters": {"rope_type": "default", "rope_theta": sizes.theta}, "attn_implementation": "sdpa",
    }  # fmt: skip
    if sizes.latents is not None:
        latents = sizes.latents
        return DeepseekV3Config(
            **shared, first_k_dense_replace=sizes.depth, q_lora_rank=latents.q_rank, kv_lora_rank=latents.kv_rank,
            qk_nope_head_dim=latents.nope, qk_rope_head_dim=latents.rope, v_head_dim=latents.value,
        )  # fmt: skip
    if sizes.experts > 1:
        return MixtralConfig(**shared, num_local_experts=sizes.experts, num_experts_per_tok=sizes.chosen)
    return LlamaConfig(**shared)


def active(model: nn.Module, sizes: Decoder) -> int:
    """Parameters that a token uses, a tied matrix once; matrices of experts are stacked in tensors of three dimensions."""
    counts = [(value.numel(), value.dim() == 3) for value in model.parameters()]
    return round(sum(count * (sizes.active_share if stacked else 1) for count, stacked in counts))


def trained(sizes: Training, attention: str) -> nn.Module:
    """A model to be trained, without dropout and without a cache; `attention`: sdpa or plain."""
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        GPT2Config,
        GPT2LMHeadModel,
        LlamaConfig,
        LlamaForCausalLM,
        T5Config,
        T5ForConditionalGeneration,
    )

    kernel = "sdpa" if attention == "sdpa" else "eager"
    match sizes.kind:
        case "llama":
            return LlamaForCausalLM(
                LlamaConfig(
                    vocab_size=sizes.vocab,
                    hidden_size=sizes.width,
                    intermediate_size=sizes.ffn,
                    num_hidden_layers=sizes.depth,
                    num_attention_heads=sizes.heads,
                    max_position_embeddings=sizes.length,
                    tie_word_embeddings=sizes.tied,
                    use_cache=False,
                    attn_implementation=kernel,
                )
            )
        case "gpt2":
            return GPT2LMHeadModel(
                GPT2Config(
                    vocab_size=sizes.vocab,
                    n_embd=sizes.width,
                    n_layer=sizes.depth,
                    n_head=sizes.heads,
                    n_inner=sizes.ffn,
                    n_positions=sizes.length,
                    activation_function="gelu",
                    resid_pdrop=0.0,
                    embd_pdrop=0.0,
                    attn_pdrop=0.0,
                    use_cache=False,
                    attn_implementation=kernel,
                )
            )
        case "bert":
            return BertForMaskedLM(
                BertConfig(
                    vocab_size=sizes.vocab,
                    hidden_size=sizes.width,
                    num_hidden_layers=sizes.depth,
                    num_attention_heads=sizes.heads,
                    intermediate_size=sizes.ffn,
                    hidden_dropout_prob=0.0,
                    attention_probs_dropout_prob=0.0,
                    attn_implementation=kernel,
                )
            )
        case "t5":
            return T5ForConditionalGeneration(
                T5Config(
                    vocab_size=sizes.vocab,
                    d_model=sizes.width,
                    d_kv=sizes.width // sizes.heads,
                    d_ff=sizes.ffn,
                    num_layers=sizes.depth,
                    num_heads=sizes.heads,
                    dropout_rate=0.0,
                    use_cache=False,
                )
            )
