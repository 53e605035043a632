"""An encoder and a decoder of two other model types, whose layers have cross-attention behind their attention.

Rothe et al. 2020 (arXiv 1907.12461): both sides begin from BERT, RoBERTa or GPT-2, and cross-attention alone is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from anyformer.describe import DescriptionError, Named, UserError
from anyformer.huggingface.canonical import canonical
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Rows, Table, Then, To, Transposed, under
from anyformer.huggingface.words.bert_line import ATTENTION
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, CrossAttention, Stack

_BERT: Table = {
    **{f"cross_{ours}": f"cross{theirs}" for ours, theirs in ATTENTION.items()},
    "step_1_norm_after": "crossattention.output.LayerNorm",
}
_GPT2: Table = {
    "cross_attention.query": To("crossattention.q_attn", Transposed()),
    ("cross_attention.key", "cross_attention.value"): To("crossattention.c_attn", Then(Transposed(), Rows())),
    "cross_attention.output": To("crossattention.c_proj", Transposed()),
    "cross_attention.norm_before": "ln_cross_attn",
}
_ENCODERS = ("bert", "bert-generation", "roberta", "xlm-roberta", "camembert", "ernie", "data2vec-text")
_DECODERS: Mapping[str, Table] = {
    **dict.fromkeys(("bert", "bert-generation", "roberta", "xlm-roberta", "camembert"), _BERT),
    "gpt2": _GPT2,
}
"""Model type of a decoder -> the names of its cross-attention. Types of one architecture have the same names."""


@dataclass(frozen=True)
class Pair:
    """The family of pairs; `family`: of the model type of a side."""

    family: Callable[[str], Family]

    def read(self, config: Config) -> Architecture:
        if config.target is not None:
            encoder, decoder = _sides(config.target.architecture)
            config.put(encoder=self._found(encoder, "encoder", _ENCODERS)[1])
            config.put(decoder={**self._found(decoder, "decoder", _DECODERS)[1], "add_cross_attention": True})
        config.expect("tie_encoder_decoder", False, why="layers that both sides share are not known here")
        encoder, decoder = self._side(config, "encoder", _ENCODERS), self._side(config, "decoder", _DECODERS)
        if encoder.width != decoder.width:
            raise HuggingFaceError(
                f"{config.where}: the encoder has {encoder.width} features and the decoder {decoder.width}: a projection "
                f"between two widths is not known here"
            )
        assert decoder.decoder is not None, "checked where it was read"
        return decoder.but(
            embedding=encoder.embedding,
            decoder_embedding=decoder.embedding,
            encoder=encoder.encoder,
            decoder=_each(decoder.decoder, _crossed),
        )

    def _side(self, config: Config, side: str, known: Iterable[str]) -> Architecture:
        """The architecture of one side alone: an encoder without a head, or a decoder of text without cross-attention."""
        table: dict[str, Any] = config(side)
        model_type, where = str(table.get("model_type")), f"{config.where}: {side}"
        if model_type not in known:
            raise HuggingFaceError(f"{where}: {model_type} as one side of two is not known here, only {', '.join(known)}")
        # Whatever class a side was saved from, it becomes a model without a head, or one that generates text.
        plain = {key: value for key, value in table.items() if key not in ("architectures", "add_cross_attention")}
        if side == "encoder":
            plain["architectures"] = ["Model"]
        elif table.get("add_cross_attention") is not True:
            raise HuggingFaceError(f"{where}: add_cross_attention should be true, for otherwise no layer reads the source")
        elif model_type == "gpt2":
            plain.pop("is_decoder", None)
        reader, inner = self.family(model_type), Config(plain, where)
        inner.expect("tie_encoder_decoder", False)
        made = reader.read(inner)
        inner.expect("cross_attention_hidden_size", None, made.width)
        inner.finish(reader.inert)
        if side not in made.stacks:
            raise HuggingFaceError(f"{where}: is_decoder should be {'true' if side == 'decoder' else 'false'}")
        return made

    def _found(self, part: Architecture, side: str, known: Iterable[str]) -> tuple[Family, dict[str, Any]]:
        """The first of the model types that expresses one side, and its configuration."""
        wanted = canonical(part)
        for model_type in known:
            candidate = self.family(model_type)
            for form in (part, part.resolved()):
                try:
                    written = candidate.write(form)
                    if canonical(candidate.read(Config(written))) == wanted:
                        return candidate, written
                except (DescriptionError, UserError):
                    continue
        raise MismatchError(f"the {side} is that of none of the types {', '.join(known)}")

    def names(self, architecture: Architecture) -> Names:
        """The names of the types of both sides, under `encoder.` and `decoder.`."""
        encoder, decoder = _sides(architecture)
        outer = self._found(encoder, "encoder", _ENCODERS)[0].names_of(encoder)
        second = self._found(decoder, "decoder", _DECODERS)[0]
        inner = second.names_of(decoder)
        (first, outer_layer), (last, inner_layer) = outer.layers["encoder"], inner.layers["decoder"]
        # Cross-attention takes the place of the second step, the network's.
        later = _renamed(inner_layer, "step_1_", "step_2_")
        headless = {ours: theirs for ours, theirs in outer.outside.items() if not ours.startswith("head")}
        return Names(
            {
                **under("encoder.", headless),
                **under("decoder.", _renamed(inner.outside, "embedding", "decoder_embedding")),
            },
            {
                "encoder": (f"encoder.{first}", outer_layer),
                "decoder": (f"decoder.{last}", {**later, **_DECODERS[second.model_type]}),
            },
        )


def _sides(architecture: Architecture) -> tuple[Architecture, Architecture]:
    """The encoder, and the decoder without cross-attention, each as an architecture of its own."""
    second, decoder = architecture.decoder_embedding, architecture.decoder
    if architecture.encoder is None or decoder is None or second is None:
        raise MismatchError("each side has a stack and a table of tokens of its own")
    encoder = architecture.but(decoder=None, decoder_embedding=None, head=None)
    alone = _each(decoder, lambda block: block.but(steps=tuple(s for s in block.steps if "cross_attention" not in s.branches)))
    return encoder, architecture.but(encoder=None, decoder_embedding=None, embedding=second, decoder=alone)


def _each(stack: Stack, change: Any) -> Stack:
    return stack.but(variants=Named({name: change(block) for name, block in stack.variants.items()}))


def _crossed(block: Block) -> Block:
    """The block with cross-attention behind its attention, of the same heads, norms and dropout."""
    steps = []
    for step in block.steps:
        steps.append(step)
        branch = step.branches.get("attention")
        if branch is not None and isinstance(own := branch.sublayer, Attention):
            shared = (Attention.model_fields.keys() & CrossAttention.model_fields.keys()) - {"kind", "score"}
            cross = CrossAttention(**{name: getattr(own, name) for name in shared}, score=own.score.but(terms=()))
            steps.append(step.but(branches=Named({"cross_attention": branch.but(sublayer=cross)})))
    return block.but(steps=tuple(steps))


def _renamed(table: Table, begin: str, other: str) -> Table:
    """The table with another beginning of our names that begin so."""
    return {
        other + ours.removeprefix(begin) if isinstance(ours, str) and ours.startswith(begin) else ours: theirs
        for ours, theirs in table.items()
    }


@cache
def families(family: Callable[[str], Family]) -> tuple[Family, ...]:
    """The family of pairs of other families."""
    pair = Pair(family)

    def ignored(side: str, known: Iterable[str]) -> set[str]:
        return {rf"{side}\.({pattern})" for model_type in known for pattern in family(model_type).ignored}

    copies = ignored("encoder", _ENCODERS) | ignored("decoder", _DECODERS) | {r"decoder\.lm_head\.weight"}
    return (
        Family(
            "encoder-decoder",
            pair.read,
            lru_cache(maxsize=16)(pair.names),
            "EncoderDecoderModel",
            inert=("tie_word_embeddings", "vocab_size"),
            ignored=tuple(sorted(copies)),
        ),
    )
