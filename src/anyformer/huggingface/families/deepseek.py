"""DeepSeek V2 and V3, GLM 4.7 Flash and A.X K1: latent attention, dense layers, then fine experts beside shared ones."""

from __future__ import annotations

from typing import Any

from anyformer.describe import change
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.multi_token import as_layers, later_tokens
from anyformer.huggingface.words.names import CORRECTION, FEEDFORWARD, NORMS, ROUTED, SHARED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Experts, Groups, LatentAttention, Router, TopK, pre_norm


def read_v3(config: Config) -> Architecture:
    config.assume(vocab_size=129_280, hidden_size=7168, num_hidden_layers=61, num_attention_heads=128, intermediate_size=18_432)
    router = _corrected(config, groups=8, keep=4, scale=2.5)
    experts = _experts(config, router, count=256, chosen=8, shared=1, width=2048)
    mlps = words.dense_first(config, "first_k_dense_replace", 3)
    attention = words.latent_attention(config, q_rank=1536, interleave=True, turned="head_dim")
    return _decoder(config, attention, experts, mlps, eps=1e-6, later=1)


def read_glm(config: Config) -> Architecture:
    config.assume(vocab_size=154_880, hidden_size=2048, num_hidden_layers=47, num_attention_heads=20, intermediate_size=10_240)
    experts = _experts(config, _corrected(config, scale=1.8), count=64, chosen=4, shared=1, width=1536)
    attention = words.latent_attention(config, q_rank=768, nope=192, value=256, interleave=True)
    config.expect("head_dim", attention.rope_width, None, why="it is another name of qk_rope_head_dim")
    return _decoder(config, attention, experts, words.mlp_types(config, 1), eps=1e-5)


def read_v2(config: Config) -> Architecture:
    config.assume(vocab_size=102_400, hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, intermediate_size=11_008)
    config.expect_all(mlp_bias=False, scoring_func="softmax")
    config.expect("norm_topk_prob", False, None)
    where = "experts.router.choice.groups"
    method = config("topk_method", "greedy", lambda target: "group_limited_greedy" if target(where) else "greedy")
    count, keep = (config(key, None, f"{where}.{field}") for key, field in (("n_group", "count"), ("topk_group", "keep")))
    if method not in ("greedy", "group_limited_greedy"):
        raise HuggingFaceError(f"{config.where}: topk_method = {method!r} is not known for deepseek_v2")
    # transformers sets scores in other groups to 0; one still chosen, where all others underflow, has weight 0 too.
    groups = Groups(count=count, keep=keep) if method == "group_limited_greedy" else None
    config.put(n_group=1, topk_group=1)  # vLLM asks for both, also where there are no groups
    router = Router(choice=TopK(groups=groups), scale=float(config("routed_scaling_factor", 1.0)))
    experts = _experts(config, router, count=64, chosen=6, shared=2, width=1407)
    attention = words.latent_attention(config, q_rank=1536, rotate_in="fp32", pairing="adjacent")
    return _decoder(config, attention, experts, words.dense_first(config, "first_k_dense_replace", 0), eps=1e-6)


def read_axk1(config: Config) -> Architecture:
    """Queries always have a latent, and a norm follows the experts."""
    config.assume(vocab_size=163_840, hidden_size=7168, num_hidden_layers=61, num_attention_heads=64)
    config("q_lora_rank", 1536, kind=SIZE)
    norm, attention = words.rms_norm(config), words.latent_attention(config, q_rank=1536, interleave=True, turned="head_dim")
    router, counted = words.v3_router(config, groups=8, keep=4, scale=2.5), ("n_routed_experts", "num_local_experts")
    experts = words.experts(config, router, count=192, chosen=8, width=2048, counted=counted)
    experts = words.shared_of(config, experts, 1, "n_shared_experts")
    sparse = change(pre_norm(norm, attention, experts), "experts.norm_after", norm)
    blocks = {"dense": pre_norm(norm, attention, words.feedforward(config, width=18_432)), "experts": sparse}
    kinds = words.mlp_types(config, config("first_k_dense_replace", 1))
    return words.decoder(config, words.layered(blocks.__getitem__, kinds), norm)


def _corrected(config: Config, **absent: Any) -> Router:
    computed = {"scoring_func": "sigmoid", "topk_method": "noaux_tc"}
    config.put(**computed)  # transformers reads neither, and vLLM would take softmax and no correction without them
    config.expect_all(**computed)
    return words.v3_router(config, **absent)


def _experts(config: Config, router: Router, *, shared: int, **absent: Any) -> Experts:
    config.expect("moe_layer_freq", 1)
    routed = words.experts(config, router, counted=("n_routed_experts", "num_local_experts", "num_experts"), **absent)
    return words.shared_of(config, routed, shared, "n_shared_experts")


def _decoder(
    config: Config, attention: LatentAttention, experts: Experts, mlps: list[str], *, eps: float, later: int = 0
) -> Architecture:
    """The model of layers that are dense or have experts; `later`: tokens predicted after the next one where no key says."""
    norm = words.rms_norm(config, eps)
    blocks = {"dense": pre_norm(norm, attention, words.feedforward(config)), "experts": pre_norm(norm, attention, experts)}
    layers = words.layered(blocks.__getitem__, mlps)
    return words.decoder(config, layers, norm, mtp=later_tokens(config, norm, blocks["experts"], layers[-1][1], absent=later))


def names(architecture: Architecture) -> Names:
    after = {"experts.norm_after": "post_mlp_layernorm"}
    usual = decoder_names(words.latent_names(architecture), ROUTED, CORRECTION, SHARED, FEEDFORWARD, NORMS, after)
    return as_layers(usual, architecture)


_INERT = ("aux_loss_alpha", "ep_size", "seq_aux")
# The class of V2 reads nothing of `head_dim`: it turns `qk_rope_head_dim` features.
FAMILIES = (
    Family("deepseek_v3", read_v3, names, "DeepseekV3ForCausalLM", inert=_INERT, ignored=(r"model\.layers\.61\..*",)),
    Family("deepseek_v2", read_v2, names, "DeepseekV2ForCausalLM", inert=(*_INERT, "head_dim")),
    Family("glm4_moe_lite", read_glm, names, "Glm4MoeLiteForCausalLM", inert=_INERT, ignored=(r"model\.layers\.47\..*",)),
    Family("axk1", read_axk1, names, "AXK1ForCausalLM"),
)
