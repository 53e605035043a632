"""An encoder and a decoder of two other model types, whose layers have cross-attention behind their attention.

Rothe et al. 2020 (arXiv 1907.12461): both sides begin from BERT, RoBERTa or GPT-2, and cross-attention alone is new. Of images:
TrOCR (Li et al. 2021, arXiv 2109.10282), a Vision Transformer that BART's decoder reads, and captions by GPT-2 or BERT. Of
sound: wav2vec 2.0 and its kin before such a decoder (Wang et al. 2021, arXiv 2104.06678).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from anyformer.describe import DescriptionError, UserError
from anyformer.huggingface.canonical import canonical
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Rows, Table, Then, To, Transposed
from anyformer.huggingface.words.bert_line import ATTENTION
from anyformer.huggingface.words.names import projections
from anyformer.huggingface.words.sides import joined, joined_names, parted, source_width
from anyformer.model import Architecture

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
_TROCR: Table = {
    **projections("encoder_attn.*_proj", "encoder_attn.out_proj", "cross_attention"),
    "step_1_norm_after": "encoder_attn_layer_norm",
}
_ENCODERS = ("bert", "bert-generation", "roberta", "xlm-roberta", "camembert", "ernie", "data2vec-text")
_DECODERS: Mapping[str, Table] = {
    **dict.fromkeys(("bert", "bert-generation", "roberta", "xlm-roberta", "camembert"), _BERT),
    "gpt2": _GPT2,
}
"""Model type of a decoder -> the names of its cross-attention. Types of one architecture have the same names."""
_SEERS = ("vit", "deit", "vit_msn", "ijepa", "dinov2", "dinov2_with_registers")
_READERS: Mapping[str, Table] = {"trocr": _TROCR, **_DECODERS}
_HEARERS = ("wav2vec2", "hubert", "unispeech", "unispeech-sat", "data2vec-audio")
_OTHER_NAMES = {"trocr": "trocr-text"}
"""Model type of a side -> the type that reads it alone, where its own is read with more."""
_CROSSED = "cross_attention_hidden_size"


@dataclass(frozen=True)
class Pair:
    """The family of pairs; `family`: of the model type of a side."""

    family: Callable[[str], Family]
    encoders: tuple[str, ...]
    decoders: Mapping[str, Table]
    """Model type of a decoder -> the names of its cross-attention."""
    widths: bool
    """Whether the encoder may have another width than the decoder."""

    def read(self, config: Config) -> Architecture:
        if config.target is not None:
            encoder, decoder = parted(config.target.architecture)
            config.put(encoder=self._found(encoder, "encoder", self.encoders)[1])
            found, table = self._found(decoder, "decoder", self.decoders)
            trocr = {"is_decoder": True, _CROSSED: source_width(config.target.architecture)}
            own = trocr if found.model_type == _OTHER_NAMES["trocr"] else {}
            config.put(decoder={**table, "model_type": _named(found), "add_cross_attention": True, **own})
        config.expect("tie_encoder_decoder", False, why="layers that both sides share are not known here")
        encoder = self._side(config, "encoder", self.encoders)
        decoder = self._side(config, "decoder", self.decoders, encoder.width)
        if encoder.width != decoder.width and not self.widths:
            raise HuggingFaceError(
                f"{config.where}: the encoder has {encoder.width} features and the decoder {decoder.width}: a projection "
                f"between two widths is not known here"
            )
        return joined(encoder, decoder, config("decoder").get(_CROSSED))

    def _side(self, config: Config, side: str, known: Iterable[str], source: int | None = None) -> Architecture:
        """The architecture of one side alone: an encoder without a head, or a decoder of text without cross-attention.

        `source`: the encoder's features.
        """
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
        elif model_type in ("gpt2", "trocr"):
            plain.pop("is_decoder", None)
        reader = self.family(_OTHER_NAMES.get(model_type, model_type))
        inner = Config({**plain, "model_type": reader.model_type}, where)
        inner.expect("tie_encoder_decoder", False)
        made = reader.read(inner)
        inner.expect(_CROSSED, None, source if model_type == "trocr" else made.width)
        inner.finish(reader.inert)
        if side not in made.stacks:
            raise HuggingFaceError(f"{where}: is_decoder should be {'true' if side == 'decoder' else 'false'}")
        return made

    def _found(self, part: Architecture, side: str, known: Iterable[str]) -> tuple[Family, dict[str, Any]]:
        """The first of the model types that expresses one side, and its configuration."""
        wanted = canonical(part)
        for model_type in known:
            candidate = self.family(_OTHER_NAMES.get(model_type, model_type))
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
        encoder, decoder = parted(architecture)
        outer = self._found(encoder, "encoder", self.encoders)[0].names_of(encoder)
        second = self._found(decoder, "decoder", self.decoders)[0]
        crossed = self.decoders[_named(second)]
        return joined_names(architecture, outer, second.names_of(decoder), crossed, prefixes=("encoder.", "decoder."))


def _named(family: Family) -> str:
    """The model type that a side of a family has in a pair."""
    return next((own for own, other in _OTHER_NAMES.items() if other == family.model_type), family.model_type)


@cache
def families(family: Callable[[str], Family]) -> tuple[Family, ...]:
    """The families of pairs of other families."""

    def ignored(side: str, known: Iterable[str]) -> set[str]:
        types = (_OTHER_NAMES.get(model_type, model_type) for model_type in known)
        return {rf"{side}\.({pattern})" for model_type in types for pattern in family(model_type).ignored}

    def of(model_type: str, name: str, pair: Pair, *, sees: bool = False) -> Family:
        copies = ignored("encoder", pair.encoders) | ignored("decoder", pair.decoders)
        copies |= {r"decoder\.lm_head\.weight", r"decoder\.output_projection\.weight"}
        return Family(
            model_type,
            pair.read,
            lru_cache(maxsize=16)(pair.names),
            name,
            inert=("tie_word_embeddings", "vocab_size"),
            ignored=tuple(sorted(copies)),
            sees=sees,
        )

    return (
        of("encoder-decoder", "EncoderDecoderModel", Pair(family, _ENCODERS, _DECODERS, False)),
        of("vision-encoder-decoder", "VisionEncoderDecoderModel", Pair(family, _SEERS, _READERS, True), sees=True),
        of("speech-encoder-decoder", "SpeechEncoderDecoderModel", Pair(family, _HEARERS, _READERS, True)),
    )
