"""LongCat-Flash (arXiv 2509.01322): two attentions and two networks in a layer, and experts that are added after them."""

from __future__ import annotations

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Stacked, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.names import decoder_names, gated_names
from anyformer.model import Architecture
from anyformer.parts import Block, Branch, Experts, Router, ScoreCorrectionBias, Step, TopK

SECOND = "second_"
"""Before the names of the branches in the second half of a layer."""


def read(config: Config) -> Architecture:
    config.assume(vocab_size=131_072, hidden_size=6144, num_layers=28, num_attention_heads=64)
    # Keys of published files that transformers does not read.
    config.expect_all(mla_scale_q_lora=True, mla_scale_kv_lora=True, attention_method="MLA", zero_expert_type="identity")
    config("q_lora_rank", 1536, kind=SIZE)
    norm = words.rms_norm(config, 1e-5)
    attention = words.latent_attention(config, q_rank=1536, theta=1e7, pairing="adjacent").but(aligned_to="width")
    config.expect("head_dim", attention.rope_width)
    config.put(head_dim=attention.rope_width)
    network = words.feedforward(config, size="ffn_hidden_size", width=12_288)
    late = Branch(sublayer=_experts(config), added="after_block")
    block = Block(
        steps=(
            Step(branches=Named(latent_attention=Branch(norm_before=norm, sublayer=attention))),
            Step(norm_before=norm, branches=Named(experts=late, feedforward=Branch(sublayer=network))),
            Step(branches=Named({f"{SECOND}attention": Branch(norm_before=norm, sublayer=attention)})),
            Step(branches=Named({f"{SECOND}feedforward": Branch(norm_before=norm, sublayer=network)})),
        )
    )
    depth = config("num_layers")
    config.expect("num_hidden_layers", 2 * depth, why="each of the num_layers layers has two attentions")
    return words.decoder(config, words.repeated(config, block, "num_layers"), norm)


def _experts(config: Config) -> Experts:
    router = Router(choice=TopK(correction=ScoreCorrectionBias()), scale=float(config("routed_scaling_factor", 6.0)))
    return words.experts(
        config, router, count=512, chosen=12, width=2048, counted=("n_routed_experts",), chosen_key=("moe_topk",),
        size="expert_ffn_hidden_size", identity_experts=config("zero_expert_num", 256, "experts.identity_experts") or 0,
    )  # fmt: skip


def names(architecture: Architecture) -> Names:
    target = Target(architecture)
    count = int(target("experts.experts"))
    idle = tuple(str(count + i) for i in range(target("experts.identity_experts")))
    halves = [
        {
            **words.latent_names(architecture, f"self_attn.{i}", attention),
            f"{attention}.norm_before": f"input_layernorm.{i}",
            **gated_names(f"mlps.{i}", network),
            norm: f"post_attention_layernorm.{i}",
        }
        for i, (attention, network, norm) in enumerate(
            (
                ("latent_attention", "feedforward", "step_1_norm_before"),
                (f"{SECOND}attention", f"{SECOND}feedforward", f"{SECOND}feedforward.norm_before"),
            )
        )
    ]
    experts: Table = {
        "experts.router": "mlp.router.classifier",
        "experts.router.correction": "mlp.router.e_score_correction_bias",
        # transformers gives experts without computation matrices too, and does not use them.
        "experts.gate": To("mlp.experts.{x}.gate_proj.weight", Stacked(), idle=idle),
        "experts.up": To("mlp.experts.{x}.up_proj.weight", Stacked(), idle=idle),
        "experts.down": To("mlp.experts.{x}.down_proj.weight", Stacked()),
    }
    return decoder_names(*halves, experts)


FAMILIES = (
    Family(
        "longcat_flash",
        read,
        names,
        "LongcatFlashForCausalLM",
        # A bias of the router is stored where the key asks for one, and never added.
        inert=("router_bias",),
        ignored=(r"model\.mtp\..*", r".*\.router\.classifier\.bias"),
    ),
)
