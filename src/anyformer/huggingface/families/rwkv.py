"""RWKV-4: time mixing and channel mixing, each of a token and the one before (arXiv 2305.13048)."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Shaped, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import decoder_names
from anyformer.model import Architecture
from anyformer.parts import RWKV, LayerNorm, RWKVChannelMix, pre_norm

_TIME, _CHANNEL = "rwkv", "rwkv_channel_mix"


def read(config: Config) -> Architecture:
    config.assume(vocab_size=50_277, hidden_size=4096, num_hidden_layers=32)
    norm = LayerNorm(eps=config("layer_norm_epsilon", 1e-5, "stack.input_norm.eps"))
    channels = config("attention_hidden_size", None, f"{_TIME}.channels") or config("hidden_size")
    width = config("intermediate_size", None, f"{_CHANNEL}.width") or 4 * config("hidden_size")
    depth, every = config("num_hidden_layers"), config("rescale_every", 6, _every)

    # The stream and the outputs are halved every few layers, for fp16: a norm divides that out, but for its epsilon.
    norms = {f"halved{i // (every or depth)}": norm.eps * 4.0 ** (i // (every or depth)) for i in range(depth)}
    mixers = RWKV(channels=channels), RWKVChannelMix(width=width)
    halved = [f"halved{i // (every or depth)}" for i in range(depth)]
    layers = words.layered(lambda own: pre_norm(LayerNorm(eps=norms[own]), *mixers), halved)
    # The class gives its last norm torch's own epsilon.
    last = LayerNorm(eps=1e-5 * 4.0 ** (depth // every if every else 0))
    return words.decoder(config, layers, last, length="context_length", around={"input_norm": norm})


def _every(target: Target) -> int:
    """After how many layers the stream is halved; 0 where it is not."""
    if target("stack.final_norm.eps") == 1e-5:
        return 0
    epsilons = target.each(f"{_TIME}.norm_before.eps")
    return epsilons.count(epsilons[0]) if epsilons else 0  # of an architecture without such a mixer, which is not written


def _mixes(ours: str, theirs: str, *sides: str) -> Table:
    return {f"{ours}.{side}_mix": To(f"{theirs}.time_mix_{side}", Shaped((1, 1, -1))) for side in sides}


_LAYER: Table = {
    f"{_TIME}.norm_before": "ln1",
    f"{_CHANNEL}.norm_before": "ln2",
    **{f"{_TIME}.{side}": f"attention.{side}" for side in ("key", "value", "receptance", "output")},
    **_mixes(_TIME, "attention", "key", "value", "receptance"),
    f"{_TIME}.decay": "attention.time_decay",
    f"{_TIME}.bonus": "attention.time_first",
    **{f"{_CHANNEL}.{side}": f"feed_forward.{side}" for side in ("key", "value", "receptance")},
    **_mixes(_CHANNEL, "feed_forward", "key", "receptance"),
}
_OUTSIDE: Table = {
    "embedding": "rwkv.embeddings",
    "decoder.input_norm": "rwkv.blocks.0.pre_ln",
    "decoder.final_norm": "rwkv.ln_out",
    "head": "head",
}


def names(architecture: Architecture) -> Names:
    return decoder_names(_LAYER, outside=_OUTSIDE, prefix="rwkv.blocks.{i}.")


FAMILIES = (Family("rwkv", read, names, "RwkvForCausalLM", base="rwkv."),)
