"""DeepSeek-V3.2 and GLM-5: latent attention over the keys that an indexer chooses, of this layer or an earlier one."""

from __future__ import annotations

from collections.abc import Sequence

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names
from anyformer.huggingface.target import nowhere
from anyformer.huggingface.words.indexers import EARLIER, INDEXERS, OWN, sharing_layers
from anyformer.huggingface.words.latent import indexer
from anyformer.huggingface.words.multi_token import as_layers, later_tokens
from anyformer.huggingface.words.names import CORRECTION, FEEDFORWARD, NORMS, ROUTED, SHARED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Indexer, LatentAttention, Router, pre_norm


def read_v32(config: Config) -> Architecture:
    config.assume(vocab_size=129_280, hidden_size=7168, num_hidden_layers=61, num_attention_heads=128, intermediate_size=18_432)
    attention = words.latent_attention(config, q_rank=1536, pairing="adjacent")
    choice = indexer(config, attention, heads=64, pairing="halves")
    router = words.v3_router(config, groups=8, keep=4, scale=2.5)
    return _decoder(config, attention, choice, router, [OWN] * config("num_hidden_layers"), eps=1e-6)


def read_glm(config: Config) -> Architecture:
    config.assume(vocab_size=154_880, hidden_size=6144, num_hidden_layers=78, num_attention_heads=64, intermediate_size=12_288)
    attention = words.latent_attention(config, q_rank=2048, nope=192, value=256, pairing="adjacent")
    choice = indexer(config, attention, heads=32, pairing="adjacent")
    return _decoder(config, attention, choice, words.v3_router(config, scale=2.5), _indexers(config), eps=1e-5)


def _indexers(config: Config) -> list[str]:
    """`full` for a layer with an indexer of its own, else `shared`; later releases give a pattern, or every how many."""
    pattern = config("index_topk_pattern", None, nowhere)
    each, first = config("index_topk_freq", 1, nowhere), config("index_skip_topk_offset", 2, nowhere)
    letters = {"F": OWN, "S": EARLIER}

    def absent(layer: int) -> str:
        if pattern is not None:
            return letters.get(word := str(pattern[layer]), word)
        return EARLIER if max(layer - first + 1, 0) % each else OWN

    return words.types(config, absent, "indexer_types", INDEXERS)


def _decoder(
    config: Config, attention: LatentAttention, choice: Indexer, router: Router, indexers: Sequence[str], *, eps: float
) -> Architecture:
    """The model, with a layer that predicts later tokens if the keys say so."""
    config.expect_all(mlp_bias=False)
    config.put(scoring_func="sigmoid", topk_method="noaux_tc")  # which vLLM reads
    norm, mlps = words.rms_norm(config, eps), words.mlp_types(config, config("first_k_dense_replace", 3))
    routed = words.experts(config, router, count=256, chosen=8, width=2048, counted=("n_routed_experts", "num_local_experts"))
    networks = {"dense": words.feedforward(config), "experts": words.shared_of(config, routed, 1, "n_shared_experts")}
    layers = sharing_layers(config, norm, attention, choice, networks, indexers, mlps)
    own = pre_norm(norm, attention.but(choice=choice), networks["experts"])
    return words.decoder(config, layers, norm, mtp=later_tokens(config, norm, own, layers[-1][1]))


def names(architecture: Architecture) -> Names:
    usual = decoder_names(words.latent_names(architecture), ROUTED, CORRECTION, SHARED, FEEDFORWARD, NORMS)
    return as_layers(usual, architecture)


_INERT = ("aux_loss_alpha", "ep_size", "head_dim", "layer_types", "moe_layer_freq", "scoring_func", "seq_aux", "topk_method")
"""`head_dim` repeats the width of the rotated features, and `layer_types` says of each layer that it has an indexer."""
FAMILIES = (
    Family("deepseek_v32", read_v32, names, "DeepseekV32ForCausalLM", inert=_INERT, ignored=(r"model\.layers\.61\..*",)),
    Family("glm_moe_dsa", read_glm, names, "GlmMoeDsaForCausalLM", inert=_INERT, ignored=(r"model\.layers\.78\..*",)),
)
