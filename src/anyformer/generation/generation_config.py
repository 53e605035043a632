"""A model's settings of generation as its authors wrote them: the keys of a `generation_config.json`, by transformers' names.

Every key of transformers' `GenerationConfig` is honoured, is without effect on the text, or is refused by name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from anyformer.describe import Notice, UserError
from anyformer.generation.beams import Beams
from anyformer.generation.decoding import Decoding
from anyformer.generation.processors import (
    BadWords,
    EncoderNoRepeatNGrams,
    EncoderRepetitionPenalty,
    EpsilonCutoffWarper,
    EtaCutoffWarper,
    ForcedFirst,
    ForcedLast,
    LengthDecay,
    MinLength,
    MinNewTokens,
    MinPWarper,
    NoRepeatNGrams,
    Normalise,
    Processor,
    RemoveInvalid,
    RepetitionPenalty,
    SequenceBias,
    Suppress,
    SuppressFirst,
    TemperatureWarper,
    TopHWarper,
    TopKWarper,
    TopPWarper,
    TypicalPWarper,
)
from anyformer.generation.sampling import Sampling
from anyformer.text.conventions import IDS

WHERE = "generation_config.json"
TOP_K = 50
"""What transformers cuts draws to where nobody says how many tokens they are made among."""


class AuthorsError(UserError):
    """A setting of generation that is not computed here, or that makes no sense."""


Part = Callable[[Any], Processor | None]
PARTS: Mapping[str, Part] = {
    "sequence_bias": lambda value: SequenceBias(runs=tuple((tuple(run), float(bias)) for run, bias in value)),
    "encoder_repetition_penalty": lambda value: None if value == 1 else EncoderRepetitionPenalty(penalty=float(value)),
    "repetition_penalty": lambda value: None if value == 1 else RepetitionPenalty(penalty=float(value)),
    "no_repeat_ngram_size": lambda value: NoRepeatNGrams(size=value) if value else None,
    "encoder_no_repeat_ngram_size": lambda value: EncoderNoRepeatNGrams(size=value) if value else None,
    "bad_words_ids": lambda value: BadWords(runs=tuple(map(tuple, value))) if value else None,
    "min_length": lambda value: MinLength(tokens=value) if value else None,
    "min_new_tokens": lambda value: MinNewTokens(tokens=value) if value else None,
    "forced_bos_token_id": lambda value: ForcedFirst(token=value),
    "forced_eos_token_id": lambda value: ForcedLast(tokens=tuple(value) if isinstance(value, list) else (value,)),
    "remove_invalid_values": lambda value: RemoveInvalid() if value else None,
    "exponential_decay_length_penalty": lambda value: LengthDecay(start=value[0], factor=float(value[1])),
    "suppress_tokens": lambda value: Suppress(tokens=tuple(value)) if value else None,
    "renormalize_logits": lambda value: Normalise() if value else None,
}
"""Keys of parts that change scores, in the words of transformers."""
DRAWN: Mapping[str, Part] = {
    "temperature": lambda value: None if value == 1 else TemperatureWarper(value=float(value)),
    "top_h": lambda value: TopHWarper(share=float(value)),
    "top_k": lambda value: TopKWarper(count=value) if value else None,
    "top_p": lambda value: None if value == 1 else TopPWarper(share=float(value)),
    "min_p": lambda value: MinPWarper(share=float(value)),
    "typical_p": lambda value: None if value == 1 else TypicalPWarper(share=float(value)),
    "epsilon_cutoff": lambda value: EpsilonCutoffWarper(least=float(value)) if value else None,
    "eta_cutoff": lambda value: EtaCutoffWarper(least=float(value)) if value else None,
}
"""Keys that shape draws: without `do_sample` they mean nothing."""
STRATEGY = frozenset((
    "do_sample", "num_beams", "length_penalty", "early_stopping", "num_return_sequences", "max_length", "max_new_tokens",
    "max_time", "stop_strings", "begin_suppress_tokens",
))  # fmt: skip
"""Keys that `decoding_of` reads itself."""
_DRAFTS = (
    "is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold",
    "assistant_early_exit", "assistant_lookbehind", "target_lookbehind", "assistant_ensemble_weight", "speculation_type",
    "max_matching_ngram_size",
)  # fmt: skip
INERT: Mapping[str, str] = {
    **dict.fromkeys(
        ("use_cache", "cache_implementation", "cache_config", "max_cache_len", "prefill_chunk_size", "low_memory"),
        "how earlier positions are kept changes no token",
    ),
    **dict.fromkeys(("compile_config", "disable_compile"), "a compiled step computes the same"),
    **dict.fromkeys(
        ("output_attentions", "output_hidden_states", "output_scores", "output_logits", "return_dict_in_generate"),
        "what is given back beside the text",
    ),
    **dict.fromkeys(_DRAFTS, "asks for a draft model, which the call names"),
    **dict.fromkeys(("prompt_lookup_num_tokens", "use_mtp"), "what is proposed is verified, so that no token changes"),
    "continuous_batching_config": "how many texts are computed together changes none of them",
    **dict.fromkeys(("transformers_version", "_from_model_config", "_commit_hash"), "where the file came from"),
}
"""Keys without an effect on the text, each with the reason."""
_HUB = "transformers itself runs it from a repository of code only"
REFUSED: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "guidance_scale": ((1,), "it needs a second pass of the model without the prompt"),
    "watermarking_config": ((), "it marks texts"),
    "token_healing": ((False,), "it writes the prompt's last token anew"),
    "penalty_alpha": ((0,), f"contrastive search: {_HUB}"),
    "dola_layers": ((), f"contrasting layers: {_HUB}"),
    "diversity_penalty": ((0,), f"groups of beams: {_HUB}"),
    "num_beam_groups": ((1,), f"groups of beams: {_HUB}"),
    "constraints": (([],), f"constrained beams: {_HUB}"),
    "force_words_ids": (([],), f"constrained beams: {_HUB}"),
}
"""Keys that are not computed here: the values that ask for nothing, and what they would need."""
KEYS = frozenset((*PARTS, *DRAWN, *STRATEGY, *IDS, *INERT, *REFUSED))
"""Every key that is known."""
MANNERS = frozenset((
    "forced_bos_token_id", "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens", "max_length", "max_new_tokens",
    "max_time", "stop_strings",
))  # fmt: skip
"""Keys that belong to how a model is spoken to, whatever else its tokens are chosen by."""


def decoding_of(table: Mapping[str, Any], where: str = WHERE) -> Decoding:
    """What `generate` of transformers does by these keys; `AuthorsError` names a key that cannot be honoured.

    A key that neither transformers nor this reads is told by a `Notice`.
    """
    told = {key: value for key, value in table.items() if value is not None}
    _refuse(told, where)
    read = partial(_read, told, where)
    draws, count = read("do_sample", _flag, False), read("num_beams", _count, 1)
    parts = {key: made for key, make in PARTS.items() if (made := _read(told, where, key, make, None)) is not None}
    if "min_new_tokens" in parts:
        parts.pop("min_length", None)  # transformers, too, takes the other one alone
    if (first := read("begin_suppress_tokens", tuple, ())) != ():
        after = "forced_bos_token_id" in told
        parts["begin_suppress_tokens"] = SuppressFirst(tokens=first, after_forced=after)
    if draws:
        drawn = {"top_k": TOP_K} | told
        parts |= {key: made for key, make in DRAWN.items() if (made := _read(drawn, where, key, make, None)) is not None}
    penalty, early = read("length_penalty", float, 1.0), read("early_stopping", _early, False)
    return Decoding(
        sampling=_sampling(parts, draws),
        beams=Beams(count=count, length_penalty=penalty, early_stopping=early) if count > 1 else None,
        answers=read("num_return_sequences", _count, 1),
        max_tokens=read("max_new_tokens", _count, None),
        max_length=read("max_length", _count, None),
        stop=read("stop_strings", _texts, ()),
        max_time=read("max_time", float, None),
    )


def _sampling(parts: Mapping[str, Processor], draws: bool) -> Sampling:
    """The parts as one value, in which the everyday ones have fields."""
    everyday = {"temperature": 1.0 if draws else 0.0}
    fields: dict[str, Any] = dict(everyday)
    for key, name in (("temperature", "value"), ("top_k", "count"), ("top_p", "share"), ("min_p", "share")):
        if key in parts and not (key == "top_p" and getattr(parts[key], name) == 0):
            fields[key] = getattr(parts[key], name)
    rest = tuple(part for key, part in parts.items() if key not in fields)
    return Sampling(**fields, processors=rest)


def _read(table: Mapping[str, Any], where: str, key: str, make: Callable[[Any], Any], default: Any) -> Any:
    """What is made of the value of a key; `AuthorsError` for one of which nothing can be made."""
    if key not in table:
        return default
    try:
        return make(table[key])
    except (TypeError, ValueError, IndexError) as error:
        raise AuthorsError(f"{where}: {key} = {table[key]!r} is no setting that transformers takes ({error})") from None


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("should be a whole number from 1")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("should be true or false")
    return value


def _early(value: Any) -> bool | str:
    return value if value == "never" else _flag(value)


def _texts(value: Any) -> tuple[str, ...]:
    texts = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(text, str) and text for text in texts):
        raise ValueError("should be texts")
    return texts


def _refuse(table: Mapping[str, Any], where: str) -> None:
    """Refuse what cannot be honoured, and tell what nobody reads."""
    for key, (neutral, needs) in REFUSED.items():
        if key in table and table[key] not in neutral:
            raise AuthorsError(
                f"{where}: {key} = {table[key]!r} is not computed here: {needs}. Set it to null, or give a sampling of your own"
            )
    unknown = sorted(set(table) - KEYS)
    if unknown:
        warnings.warn(
            f"{where}: {', '.join(unknown)}: no setting of generation that transformers reads; left out", Notice, stacklevel=3
        )
