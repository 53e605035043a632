"""MiniCPM 3 and Youtu-LLM: latent attention and one feed-forward network; MiniCPM: factors of embeddings, branches, logits."""

from __future__ import annotations

from math import sqrt

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import FEEDFORWARD, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Initialisation, Normal, pre_norm


def read_youtu(config: Config) -> Architecture:
    config.assume(vocab_size=128_256, hidden_size=2048, num_hidden_layers=32, num_attention_heads=16, intermediate_size=6144)
    deviation = config("initializer_range", None) or 2 / sqrt(5 * config("hidden_size"))
    table = config("embedding_initializer_range", None) or 2 * deviation
    starts = Initialisation(matrix=Normal(std=deviation), embedding=Normal(std=table))
    norm, attention = words.rms_norm(config), words.latent_attention(config, q_rank=1536, interleave=True, turned="head_dim")
    layers = words.repeated(config, pre_norm(norm, attention, words.feedforward(config)))
    return words.decoder(config, layers, norm, tied=True, starts=starts)


def read_minicpm(config: Config) -> Architecture:
    config.assume(vocab_size=73_448, hidden_size=2560, num_hidden_layers=62, num_attention_heads=40, intermediate_size=6400)
    norm, depth, width = words.rms_norm(config, 1e-5), config("num_hidden_layers"), config("hidden_size")
    value = width // config("num_attention_heads", at="latent_attention.heads")
    attention = words.latent_attention(config, q_rank=768, kv_rank=256, nope=64, rope=32, value=value, pairing="halves")
    network = words.feedforward(config, bias=config("mlp_bias", False))
    deep, base = config("scale_depth", 1.4, _deep), config("dim_model_base", 256, _base)
    block = words.multiplied(pre_norm(norm, attention, network), 1.0 if deep is None else deep / sqrt(depth))
    return words.decoder(
        config,
        words.repeated(config, block),
        norm,
        tied=True,
        embedding_scale=config("scale_emb", 12),
        starts=words.initialisation(config, 0.1),
        scale=1.0 if base is None else base / width,
    )


def _deep(target: Target) -> float | None:
    multiplier: float = target("latent_attention.multiplier")
    return None if multiplier == 1.0 else round(multiplier * sqrt(target.stack.depth), 9)


def _base(target: Target) -> int:
    return round(float(target("head.scale")) * target.architecture.width)


def names(architecture: Architecture) -> Names:
    return decoder_names(words.latent_names(architecture), FEEDFORWARD, NORMS)


FAMILIES = (
    Family("youtu", read_youtu, names, "YoutuForCausalLM"),
    Family("minicpm3", read_minicpm, names, "MiniCPM3ForCausalLM", inert=("head_dim",)),
)
