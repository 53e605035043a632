"""DBRX: layer norms without biases, bounded queries, keys and values, experts stored as rows of one matrix."""

from __future__ import annotations

import warnings

from anyformer.describe import Notice
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import key_value_heads, longest
from anyformer.huggingface.rules import Names, Rows, Shaped, Table, Then, To, Transposed
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.words.activations import known, named, of_network
from anyformer.huggingface.words.names import QKV, decoder_names
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Clip,
    Experts,
    LayerNorm,
    Projection,
    Router,
    Softmax,
    pre_norm,
)


def read(config: Config) -> Architecture:
    config.expect("tie_word_embeddings", False)
    config.assume(n_layers=24, d_model=2048)
    config.assume(max_position_embeddings=config("max_seq_len", 2048, longest))
    norm = LayerNorm(bias=False)
    block = pre_norm(norm, _attention(config), _experts(config), dropout=config("resid_pdrop", 0.0))
    layers = words.repeated(config, block, "n_layers")
    return words.decoder(config, layers, norm, vocab=32000, width="d_model")


def _attention(config: Config) -> Attention:
    inner = config.inner("attn_config")
    clip = inner("clip_qkv", None)
    theta = float(inner("rope_theta", 10_000.0, lambda target: words.rope_table(target)["rope_theta"]))
    table = words.rope_parameters(config)
    if "rope_theta" in inner and table["rope_theta"] != theta:
        if any(config(name, None, nowhere) for name in ("rope_parameters", "rope_scaling", "rope_theta")):
            raise HuggingFaceError(
                f"{config.where}: rope_theta is {theta} in attn_config and {table['rope_theta']} by rope_parameters or "
                f"rope_scaling; transformers computes with the second and the published model was trained with the first: make "
                f"them equal"
            )
        warnings.warn(
            f"{config.where}: attn_config.rope_theta = {theta:g} is what is computed, as the model was trained; transformers 5 "
            f"computes with {table['rope_theta']:g}, for it reads rope_parameters alone",
            Notice,
            stacklevel=2,
        )
        table["rope_theta"] = theta
    made = Attention(
        heads=config("n_heads", 16),
        kv_heads=inner("kv_n_heads", 1, key_value_heads),
        project=Projection(adjust=Clip.of(None if clip is None else float(clip))),
        place=words.from_table(table),
        weigh=Softmax(dropout=inner("attn_pdrop", 0.0)),
    )
    inner.finish(())
    return made


def _experts(config: Config) -> Experts:
    inner = config.inner("ffn_config")
    act = inner("ffn_act_fn", None, lambda target: {"name": named(of_network(target))}) or {}
    inner.expect("moe_normalize_expert_weights", 1.0, 1, None)
    inner.expect("moe_jitter_eps", None, 0, 0.0, why="its noise reaches the experts too")
    inner.expect("hidden_size", config("d_model"))
    adds_up = inner("moe_normalize_expert_weights", 1.0, lambda target: target("experts.router.renormalise") and 1.0)
    made = words.experts(
        inner,
        Router(renormalise=None if adds_up is None else words.EXACT),
        count=4,
        chosen=1,
        width=3584,
        counted=("moe_num_experts",),
        chosen_key=("moe_top_k",),
        size="ffn_hidden_size",
        activation=known(act.get("name", "silu")),
    )
    inner.finish(("moe_loss_weight",))
    return made


def names(architecture: Architecture) -> Names:
    experts, width = Target(architecture)("experts.sublayer"), architecture.width
    rows = Shaped((-1, width))
    down = Then(Shaped((-1, width), parameters=(experts.experts, experts.width, width)), Transposed())
    table: Table = {
        QKV: To("norm_attn_norm.attn.Wqkv", Rows()),
        "attention.output": "norm_attn_norm.attn.out_proj",
        "attention.norm_before": "norm_attn_norm.norm_1",
        "experts.norm_before": "norm_attn_norm.norm_2",
        "experts.router": "ffn.router.layer",
        "experts.gate": To("ffn.experts.mlp.w1", rows),
        "experts.up": To("ffn.experts.mlp.v1", rows),
        "experts.down": To("ffn.experts.mlp.w2", down),
    }
    outside = {"embedding": "transformer.wte", "decoder.final_norm": "transformer.norm_f", "head": "lm_head"}
    return decoder_names(table, outside=outside, prefix="transformer.blocks.{i}.")


_INERT = ("emb_pdrop", "max_seq_len", "num_key_value_heads")
FAMILIES = (Family("dbrx", read, names, "DbrxForCausalLM", inert=_INERT, base="transformer."),)
