"""Types of transformers 5.24: Sarvam with latent attention, Lara Mini, gated delta nets beside attention in windows, and the
text models of Apertus 1.5 and of Hy4 with images. Dory and Inkling 2's loops have files of their own.

An export writes them as another type, since the tests run an earlier transformers, which has no class for them.
"""

from __future__ import annotations

from typing import Any

from anyformer.describe import change_all
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words import DELTA, SIDES, apertus_line, hy_line
from anyformer.huggingface.words.names import (
    ATTENTION,
    CORRECTION,
    FEEDFORWARD,
    NORMS,
    QK_NORM,
    ROUTED,
    SHARED,
    decoder_names,
    fused_convolutions,
    shared_names,
)
from anyformer.model import Architecture
from anyformer.parts import Embedding, QKNorm, RMSNorm, Router, pre_norm


def read_sarvam(config: Config) -> Architecture:
    """Sarvam 105B: DeepSeek-V3's layers without a latent of the queries; its published files call the experts by other keys."""
    config.assume(vocab_size=262_144, hidden_size=4096, num_hidden_layers=32, num_attention_heads=64, intermediate_size=16_384)
    config.expect_all(embedding_dropout=0.0, output_dropout=0.0, moe_router_enable_expert_bias=True)
    for key in ("num_nextn_predict_layers", "num_mtp_layers"):
        config.expect(key, 0, None, why="no published file has layers that predict later tokens")
    router = words.v3_router(config, scale=2.5)
    counted = ("n_routed_experts", "num_local_experts", "num_experts")
    experts = words.experts(config, router, count=128, chosen=8, width=2048, counted=counted)
    shared = "num_shared_experts" if "num_shared_experts" in config.written else "n_shared_experts"
    experts = words.shared_of(config, experts, 1, shared)
    norm, attention = words.rms_norm(config), words.latent_attention(config, q_rank=None, interleave=True)
    config.expect("q_head_dim", attention.nope_width + attention.rope_width, None)
    blocks = {"dense": pre_norm(norm, attention, words.feedforward(config)), "experts": pre_norm(norm, attention, experts)}
    kinds = words.dense_first(config, "first_k_dense_replace", 1)
    return words.decoder(config, words.layered(blocks.__getitem__, kinds), norm)


def sarvam_names(architecture: Architecture) -> Names:
    return decoder_names(words.latent_names(architecture), ROUTED, CORRECTION, SHARED, FEEDFORWARD, NORMS)


_PERIOD = ("linear_attention", SLIDING, "linear_attention", FULL, SLIDING)


def read_lara(config: Config) -> Architecture:
    """Positions turn queries and keys in windows alone; every layer has experts."""
    config.assume(vocab_size=151_936, hidden_size=1024, num_hidden_layers=34, num_attention_heads=16, sliding_window=512)
    norm = words.rms_norm(config, cast="after_gain")
    full = words.attention(config, kv_heads=4, head_width=128, qk_norm=QKNorm(norm=norm))
    local = full.but(rotary=words.rotary(config), mask=words.mask(config, "local"))
    delta = words.gated_delta_net(config, eps=norm.eps, num_key_heads=8, num_value_heads=16)
    parts: dict[str, Any] = {"full": full, "local": local, "linear": delta}
    router = Router(renormalise=words.renormalised(config, True))
    experts = words.experts(config, router, count=128, chosen=4, width=512, counted=("num_experts",))
    experts = words.shared_of_width(config, experts, 512)
    known = {FULL: "full", SLIDING: "local", "linear_attention": "linear"}
    kinds = words.types(config, lambda i: _PERIOD[i % len(_PERIOD)], "layer_types", known)
    layers = words.layered(lambda kind: pre_norm(norm, parts[kind], experts), kinds)
    return words.decoder(config, layers, norm, tied=True)


def lara_names(architecture: Architecture) -> Names:
    kernel = Target(architecture).get(f"{DELTA}.convolution.kernel", 0)
    sides = tuple(f"{DELTA}.{side}" for side in SIDES)
    fused = (*sides, *(f"{DELTA}.{name}" for name in ("gate.projection", "beta", "decay.projection")))
    own: Table = {
        **shared_names("mlp.shared_expert"),
        f"{DELTA}.norm_before": "input_layernorm",
        fused: To("linear_attn.in_proj", Rows()),
        tuple(f"{side}_convolution" for side in sides): To("linear_attn.conv1d", fused_convolutions(kernel)),
        f"{DELTA}.decay.A_log": "linear_attn.A_log",
        f"{DELTA}.decay.dt_bias": "linear_attn.dt_bias",
        f"{DELTA}.norm": "linear_attn.out_norm",
        f"{DELTA}.output": "linear_attn.out_proj",
    }
    return decoder_names(ATTENTION, QK_NORM, ROUTED, NORMS, own)


def read_apertus(config: Config) -> Architecture:
    """Apertus 1.5's text model: rows of the table for codes of images and of sound, and a head that may have none for them."""
    config.assume(
        vocab_size=266_752, hidden_size=4096, intermediate_size=14_336, num_hidden_layers=32, num_attention_heads=32,
    )  # fmt: skip
    made = apertus_line.read(config)
    kept = config("output_vocab_size", None, "head.outputs", kind=SIZE)
    if kept is None or made.head is None or not isinstance(made.embedding, Embedding):
        return made
    if not kept <= made.embedding.vocab:
        raise HuggingFaceError(
            f"{config.where}: output_vocab_size = {kept} is more than the vocab_size = {made.embedding.vocab}, of which a head "
            f"can keep the first rows"
        )
    config.expect("tie_word_embeddings", False, why="a head of fewer rows has a matrix of its own")
    return made.but(head=made.head.but(outputs=kept))


def read_hy(config: Config) -> Architecture:
    """The text model beside images: pairs of neighbours turn, and latents are normalised with the layers' epsilon."""
    config.assume(vocab_size=120_832, hidden_size=6144, num_hidden_layers=78, num_attention_heads=64, intermediate_size=18_432)
    made = hy_line.read_of(config, q_rank=2048, index_heads=32, expert_width=2048, pairing="adjacent")
    return change_all(made, {f"decoder.{name}.latent_attention.norm.eps": _eps(made) for name in made.output_stack.variants})


def _eps(made: Architecture) -> float:
    norm = made.output_stack.final_norm
    assert isinstance(norm, RMSNorm), "as it is read"
    return norm.eps


FAMILIES = (
    Family("sarvam_mla", read_sarvam, sarvam_names, "", inert=("default_theta", "head_dim", "use_qk_norm")),
    Family("lara_mini", read_lara, lara_names, ""),
    Family("apertus1p5_text", read_apertus, apertus_line.NAMES, "", inert=("hidden_dropout",)),
    Family(
        "hy_v4_vl_text",
        read_hy,
        hy_line.names,
        "",
        inert=hy_line.INERT,
        ignored=(r"model\.mtp_layers\..*",),
        older_names=hy_line.SPELLINGS,
    ),
)
