"""Plain networks of squared ReLU: Nemotron-3 and 4 (LayerNorm of 1 + w, half of each head rotated), Jais 2, Arcee."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.names import ATTENTION, NORMS, UP_DOWN, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Rotary, pre_norm


def read(config: Config) -> Architecture:
    config.assume(initializer_range=0.0134)
    words.needs(config, "num_key_value_heads")
    norm = words.layer_norm(config, key="norm_eps", gain="one_plus_weight")
    return _read(config, norm, words.rotary(config, fraction=0.5))


def read_jais(config: Config) -> Architecture:
    config.assume(attention_bias=True, mlp_bias=True)
    return _read(config, words.layer_norm(config), words.rotary(config))


def read_arcee(config: Config) -> Architecture:
    return _read(config, words.rms_norm(config, 1e-5), words.rotary(config))


def _read(config: Config, norm: words.Norm, rotary: Rotary) -> Architecture:
    network = words.plain(config, "relu2", bias=config("mlp_bias", False))
    block = pre_norm(norm, words.attention(config, rotary=rotary), network)
    return words.decoder(config, words.repeated(config, block), norm)


_NAMES = decoder_names(ATTENTION, UP_DOWN, NORMS)
FAMILIES = (
    Family("nemotron", read, _NAMES, "NemotronForCausalLM", inert=("hidden_dropout", "kv_channels")),
    Family("jais2", read_jais, _NAMES, "Jais2ForCausalLM"),
    Family("arcee", read_arcee, _NAMES, "ArceeForCausalLM"),
)
