"""GPT (2018): GPT-2's names around post-norm layers, without a final norm."""

from __future__ import annotations

from collections.abc import Mapping

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.family import Family
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.gpt_line import BASE, INERT, MASKS, TRANSPOSED, gpt_names
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    FeedForward,
    LearnedPosition,
    Projection,
    Softmax,
    post_norm,
)

_ACTIVATIONS: Mapping[str, str] = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}
"""Name in its class's own table, where `gelu` is the tanh form -> ours."""


def read(config: Config) -> Architecture:
    config.assume(n_layer=12, n_embd=768)
    width, name, heads = config("n_embd"), config("afn", "gelu", _activation), config("n_head", 12)
    if name not in _ACTIVATIONS:
        raise HuggingFaceError(f"{config.where}: afn = {name!r} is not known to openai-gpt, only {', '.join(_ACTIVATIONS)}")
    block = post_norm(
        words.layer_norm(config, key="layer_norm_epsilon"),
        Attention(heads=heads, project=Projection(bias=words.ALL), weigh=Softmax(dropout=config("attn_pdrop", 0.1))),
        FeedForward(width=4 * width, activation=_ACTIVATIONS[name], gated=False, bias=("up", "down")),
        dropout=config("resid_pdrop", 0.1),
    )
    length = config.either("n_positions", "max_position_embeddings", default=512)
    around = {"position": LearnedPosition(length=length), "dropout": config("embd_pdrop", 0.1)}
    layers = words.repeated(config, block, "n_layer")
    return words.decoder(config, layers, None, tied=True, vocab=40478, width="n_embd", length="n_positions", around=around)


def _activation(target: Target) -> str:
    ours = target("feedforward.activation")
    for theirs, known in _ACTIVATIONS.items():
        if known == ours:
            return str(theirs)
    raise MismatchError(f"openai-gpt has no activation {ours!r}")


_OUTSIDE = {
    "embedding": "transformer.tokens_embed",
    "decoder.position": "transformer.positions_embed",
    "head": "lm_head",
}
_NAMES = gpt_names({"step_0_norm_after": "ln_1", "step_1_norm_after": "ln_2"}, TRANSPOSED, outside=_OUTSIDE)
FAMILIES = (Family("openai-gpt", read, _NAMES, "OpenAIGPTLMHeadModel", inert=INERT, ignored=(MASKS,), base=BASE),)
