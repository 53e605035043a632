"""DBRX: layer norms without biases, bounded queries, keys and values, experts stored as rows of one matrix."""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families.experts import blocks_of, first, written_activation
from anyformer.huggingface.families.old_llama import decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Rows, Shaped, Table, Then, To, Transposed
from anyformer.huggingface.spelling import activation, initialisation, longest, read_rotary, rope_parameters, write_rope
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, Experts, LayerNorm, Renormalise, Router, pre_norm

_ANY = (
    "_name_or_path", "architectures", "chunk_size_feed_forward", "dtype", "id2label", "is_encoder_decoder", "label2id",
    "model_type", "output_attentions", "output_hidden_states", "problem_type", "return_dict", "transformers_version",
)  # fmt: skip


def read(config: Config) -> Architecture:
    config.expect("tie_word_embeddings", False)
    inner = Config(config("attn_config", None) or {}, f"{config.where}: attn_config")
    outer = Config(config("ffn_config", None) or {}, f"{config.where}: ffn_config")
    attention = Attention(
        heads=config("n_heads", 16),
        kv_heads=inner("kv_n_heads", 1),
        clip=None if inner("clip_qkv", None) is None else float(inner("clip_qkv")),
        rotary=read_rotary(rope_parameters(config, theta=_theta(config, inner))),
        dropout=inner("attn_pdrop", 0.0),
    )
    act = outer("ffn_act_fn", None) or {"name": "silu"}
    outer.expect("moe_normalize_expert_weights", 1.0, 1, None)
    outer.expect("moe_jitter_eps", None, 0, 0.0, why="its noise reaches the experts too")
    outer.expect("hidden_size", config("d_model", 2048))
    experts = Experts(
        experts=outer("moe_num_experts", 4),
        chosen=outer("moe_top_k", 1),
        width=outer("ffn_hidden_size", 3584),
        activation=activation(act.get("name", "silu")),
        router=Router(renormalise=None if outer("moe_normalize_expert_weights", 1.0) is None else Renormalise(eps=0.0)),
    )
    inner.finish(_ANY)
    outer.finish((*_ANY, "moe_loss_weight"))
    norm = LayerNorm(bias=False)
    depth = config("n_layers", 24)
    block = pre_norm(norm, attention, experts, dropout=config("resid_pdrop", 0.0))
    return decoder_only(
        Embedding(vocab=config("vocab_size", 32000)),
        config("d_model", 2048),
        [block] * depth,
        final_norm=norm,
        initialisation=initialisation(config),
    )


def _theta(config: Config, inner: Config) -> float:
    """Published files hold it in `attn_config`; transformers reads the table beside that, 10000 where it is absent."""
    here = float(inner("rope_theta", 10_000.0))
    if "rope_parameters" in config or "rope_theta" in config:
        there = rope_parameters(config)["rope_theta"]
        if "rope_theta" in inner and there != here:
            raise HuggingFaceError(
                f"{config.where}: rope_theta is {here} in attn_config and {there} in rope_parameters; transformers computes "
                f"with the second and the published model was trained with the first: make them equal"
            )
        return float(there)
    return here


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = first(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    table = write_rope(attention.rotary)["rope_parameters"]
    return {
        "vocab_size": get(architecture, "embedding.vocab"),
        "d_model": architecture.width,
        "n_heads": attention.heads,
        "n_layers": architecture.output_stack.depth,
        "max_seq_len": longest(architecture),
        "resid_pdrop": blocks_of(architecture)[0].branches["experts"].dropout,
        "rope_parameters": table,
        "tie_word_embeddings": get(architecture, "head.tied"),
        "attn_config": {
            "kv_n_heads": attention.groups,
            "clip_qkv": attention.clip,
            "attn_pdrop": attention.dropout,
            "rope_theta": table["rope_theta"],
        },
        "ffn_config": {
            "ffn_act_fn": {"name": written_activation(architecture)},
            "ffn_hidden_size": experts.width,
            "moe_num_experts": experts.experts,
            "moe_top_k": experts.chosen,
            "moe_normalize_expert_weights": None if experts.router.renormalise is None else 1.0,
        },
    }


def names(architecture: Architecture) -> Names:
    experts: Experts = first(architecture, "experts")
    rows = Shaped((-1, architecture.width))
    down = Then(Shaped((-1, architecture.width), ours=(experts.experts, experts.width, architecture.width)), Transposed())
    table: Table = {
        ("attention.query", "attention.key", "attention.value"): To("norm_attn_norm.attn.Wqkv", Rows()),
        "attention.output": "norm_attn_norm.attn.out_proj",
        "attention.norm_before": "norm_attn_norm.norm_1",
        "experts.norm_before": "norm_attn_norm.norm_2",
        "experts.router": "ffn.router.layer",
        "experts.gate": To("ffn.experts.mlp.w1", rows),
        "experts.up": To("ffn.experts.mlp.v1", rows),
        "experts.down": To("ffn.experts.mlp.w2", down),
    }
    outside: Table = {"embedding": "transformer.wte", "decoder.final_norm": "transformer.norm_f", "head": "lm_head"}
    return decoder_names(table, outside=outside, prefix="transformer.blocks.{i}.")


FAMILIES = (
    Family(
        "dbrx",
        read,
        write,
        names,
        "DbrxForCausalLM",
        inert=("emb_pdrop", "max_seq_len", "num_key_value_heads"),
    ),
)
