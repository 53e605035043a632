"""X-MOD: RoBERTa, whose networks end in an adapter for each language; one language is read, and the others' weights are kept.

The language is the one that the configuration calls `default_language`; transformers' classes take another as `lang_ids`.
"""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Stacked, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.bert_line import (
    ATTENTION,
    EMBEDDINGS,
    FEEDFORWARD,
    IGNORED,
    bert_head,
    bert_sublayers,
    encoder,
    encoder_names,
    position_after_padding,
)
from anyformer.huggingface.words.encoder_heads import head_names
from anyformer.model import Architecture
from anyformer.parts import AdaptedNorm, LayerNorm, post_norm

_NORM = "step_1_norm_after"


def read(config: Config) -> Architecture:
    side, mask = words.stack_and_mask(config, "is_decoder")
    config.expect_all(pre_norm=False, ln_before_adapter=True)
    norm, causal = words.layer_norm(config, 1e-12), "ForCausalLM" if side == "decoder" else ""
    attention, network = bert_sublayers(config, mask=mask)
    block = post_norm(norm, attention, network, dropout=config("hidden_dropout_prob", 0.1))
    first, second = block.steps
    block = block.but(steps=(first, second.but(norm_after=_adapted(config, norm, network.activation))))
    head = bert_head(config, "Xmod", norm, "gelu", causal=causal)
    return encoder(config, block, head, side=side, position=position_after_padding(config), input_norm=norm)


def _adapted(config: Config, norm: LayerNorm, activation: str) -> AdaptedNorm:
    width = config("hidden_size")
    own = config("adapter_layer_norm", False, lambda target: _part(target).before is not None)
    config.put(adapter_reuse_layer_norm=True)
    reused = config("adapter_reuse_layer_norm", True)
    if not own and not reused:
        raise HuggingFaceError(f"{config.where}: adapters that read no norm are not known here: set adapter_reuse_layer_norm")
    languages = tuple(config("languages", ["en_XX"], lambda target: list(_part(target).languages)))
    language = config("default_language", None, lambda target: _part(target).language)
    if language not in languages:
        raise HuggingFaceError(
            f"{config.where}: default_language = {language!r} should be one of the languages, {', '.join(languages)}: one "
            f"language is read, and published files leave it to the call, so add it"
        )
    factor = config("adapter_reduction_factor", 2, lambda target: target.architecture.width // _part(target).rank)
    return AdaptedNorm(
        norm=norm,
        before=norm if own else None,
        rank=width // factor,
        activation=activation,
        languages=languages,
        language=language,
    )


def _part(target: Target) -> AdaptedNorm:
    """The norm with adapters of the first layer."""
    part = target.blocks[0].steps[-1].norm_after
    if not isinstance(part, AdaptedNorm):
        raise MismatchError("the architecture has no norm with adapters behind its networks")
    return part


def names(architecture: Architecture) -> Names:
    part = _part(Target(architecture))
    layer: Table = {
        "step_0_norm_after": "attention.output.LayerNorm",
        f"{_NORM}.norm": "output.LayerNorm",
        f"{_NORM}.before": "output.adapter_layer_norm",
    }
    for ours, theirs in (("down", "dense1"), ("up", "dense2")):
        stored = f"output.adapter_modules.{{x}}.{theirs}"
        weight, bias = (To(f"{stored}.{kind}", Stacked(), part.languages) for kind in ("weight", "bias"))
        layer = {**layer, f"{_NORM}.{ours}": weight, f"{_NORM}.{ours}_bias": bias}
    head = head_names(architecture, ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"), "lm_head.bias")
    return encoder_names(architecture, "roberta", EMBEDDINGS, head, ATTENTION, FEEDFORWARD, layer)


FAMILIES = (Family("xmod", read, names, "XmodForMaskedLM", ignored=(*IGNORED, r"lm_head\.(decoder\.(weight|bias)|bias)")),)
