"""Families that are wrong, each in one respect: Llama's layer with the fading sum in the place of attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import torch
from tests.testing.wrong.fading import FadingSum
from tests.testing.wrong.table import Promises, Table
from torch import Tensor, nn

from anyformer.huggingface import Config, Family, plugin_families, register, words
from anyformer.huggingface.rules import Shapes, To
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.names import FEEDFORWARD, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import RMSNorm, pre_norm
from anyformer.testing import families

MODEL_TYPE = "fading"
CONFIGURATION = {
    "model_type": MODEL_TYPE, "vocab_size": 37, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 1,
    "state_size": 6, "rms_norm_eps": 1e-3,
}  # fmt: skip
MIXER: Mapping[str, Any] = {
    "fading_sum.norm_before": "input_layernorm",
    "fading_sum.value": "mixer.v_proj",
    "fading_sum.gate": "mixer.g_proj",
    "fading_sum.output": "mixer.o_proj",
}


def read(config: Config, *, keep: float = 0.8, **place: Any) -> Architecture:
    """The right reading; its arguments are what wrong ones change."""
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6, **place))
    mixer = FadingSum(features=config("state_size", at="fading_sum.features", kind=SIZE), keep=keep)
    block = pre_norm(norm, mixer, words.feedforward(config))
    return words.decoder(config, words.repeated(config, block), norm)


def family(reading: Callable[[Config], Architecture] = read, **more: Any) -> Family:
    names = {**MIXER, **more.pop("mixer", {})}
    return Family(MODEL_TYPE, reading, decoder_names(names, FEEDFORWARD, NORMS), "FadingForCausalLM", **more)


def reference(config: Mapping[str, Any], stored: Mapping[str, Tensor], tokens: Tensor) -> Tensor:
    """The logits of the right family, from its files."""

    def norm(x: Tensor, name: str) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + config["rms_norm_eps"]).rsqrt() * stored[f"{name}.weight"]

    x = stored["model.embed_tokens.weight"][tokens]
    steps = torch.arange(x.shape[1])
    fading = torch.tril(0.8 ** (steps[:, None] - steps).clamp(min=0))
    for layer in range(config["num_hidden_layers"]):
        weights = {name: stored[f"model.layers.{layer}.{name}.weight"] for name in NAMES}
        h = norm(x, f"model.layers.{layer}.input_layernorm")
        sums = fading @ (h @ weights["mixer.v_proj"].T)
        x = x + (nn.functional.silu(h @ weights["mixer.g_proj"].T) * sums) @ weights["mixer.o_proj"].T
        h = norm(x, f"model.layers.{layer}.post_attention_layernorm")
        x = (
            x
            + (nn.functional.silu(h @ weights["mlp.gate_proj"].T) * (h @ weights["mlp.up_proj"].T)) @ weights["mlp.down_proj"].T
        )
    return norm(x, "model.norm") @ stored["lm_head.weight"].T


NAMES = [f"mixer.{name}_proj" for name in "vgo"] + [f"mlp.{name}_proj" for name in ("gate", "up", "down")]


def owed(made: Callable[[], Family]) -> Promises:
    """The contracts of a family, which is known while they are asked."""

    def known(holds: Callable[..., None], *further: Any) -> None:
        with mock.patch.dict(plugin_families._REGISTERED):
            register(made())
            holds(CONFIGURATION, *further)

    found = {each.__name__: partial(known, each) for each in families.CONTRACTS}
    parity = families.logits_are_those_of_its_reference
    return {**found, parity.__name__: partial(known, parity, reference)}


FAMILIES = Table(owed)


@FAMILIES.breaks(
    "configuration_there_and_back",
    "exported_weights_are_loaded_again",
    "logits_are_those_of_its_reference",
    because="an export is refused if its configuration would be read as another architecture",
)
def writes_another_number() -> Family:
    """Finds the number of a key in the wrong place when it writes."""
    return family(partial(read, at=lambda target: 0.5))


@FAMILIES.breaks("unknown_key_is_refused_by_name")
def takes_any_key() -> Family:
    """Passes over a key that it does not know."""
    return family(inert=(families.UNKNOWN,))


@dataclass(frozen=True)
class Doubled:
    """Read twice as large as it is written."""

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return [2 * x for x in stored]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return list(parameters)


@FAMILIES.breaks("exported_weights_are_loaded_again")
def reads_another_weight() -> Family:
    """Doubles a weight that it reads, and not one that it writes."""
    return family(mixer={"fading_sum.value": To("mixer.v_proj", Doubled())})


@FAMILIES.breaks("logits_are_those_of_its_reference")
def fades_faster() -> Family:
    """Computes with another number than its model type has."""
    return family(partial(read, keep=0.7))
