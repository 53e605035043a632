"""`Conventions`: how a model's authors run it: where texts begin and end, and how they are continued."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anyformer.text.beside import CONFIG, GENERATION, Beside
from anyformer.text.errors import DataError

IDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
"""Keys that name special tokens by their numbers."""
GENERATION_KEYS = (
    *IDS, "assistant_confidence_threshold", "assistant_early_exit", "assistant_ensemble_weight", "assistant_lookbehind",
    "bad_words_ids", "begin_suppress_tokens", "cache_config", "cache_implementation", "compile_config", "constraints",
    "disable_compile", "diversity_penalty", "do_sample", "dola_layers", "early_stopping", "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty", "epsilon_cutoff", "eta_cutoff", "exponential_decay_length_penalty", "force_words_ids",
    "forced_bos_token_id", "forced_eos_token_id", "guidance_scale", "is_assistant", "length_penalty", "low_memory",
    "max_cache_len", "max_length", "max_matching_ngram_size", "max_new_tokens", "max_time", "min_length", "min_new_tokens",
    "min_p", "no_repeat_ngram_size", "num_assistant_tokens", "num_assistant_tokens_schedule", "num_beam_groups", "num_beams",
    "num_return_sequences", "output_attentions", "output_hidden_states", "output_logits", "output_scores", "penalty_alpha",
    "prefill_chunk_size", "prompt_lookup_num_tokens", "remove_invalid_values", "renormalize_logits", "repetition_penalty",
    "return_dict_in_generate", "sequence_bias", "speculation_type", "stop_strings", "suppress_tokens", "target_lookbehind",
    "temperature", "token_healing", "top_h", "top_k", "top_p", "typical_p", "use_cache", "use_mtp", "watermarking_config",
)  # fmt: skip
"""Keys of a `generation_config.json`, which older models have in their `config.json`."""
_DECODERS = ("decoder", "generator", "text_config")
"""Tables of a composite's `config.json` of which the first one says what the outer one does not."""
_OF_CLASSES: Mapping[str, Mapping[str, tuple[str, int]]] = {
    "blip": {IDS[0]: ("bos_token_id", 30_522), IDS[1]: ("sep_token_id", 102), IDS[2]: ("pad_token_id", 0)},
}
"""Model type whose class generates with tokens of its `text_config`, whatever other files say -> its key there, and its value
where that is absent."""
_LENGTHS = ("max_position_embeddings", "n_positions", "max_target_positions", "max_seq_len", "seq_length")


@dataclass(frozen=True)
class Conventions:
    """Read once from `generation_config.json` and `config.json`, as transformers reads them.

    Where there is a `generation_config.json`, it alone says how text is generated; else `config.json` does.
    """

    begin: int | None = None
    """The token that begins a text."""
    ends: tuple[int, ...] = ()
    """Every token that ends a generated text; empty where neither file names one."""
    pad: int | None = None
    """The token that fills rows."""
    start: int | None = None
    """The first token of a decoder that reads a source: `decoder_start_token_id`, else `begin`."""
    generation: Mapping[str, Any] = field(default_factory=dict)
    """What a `generation_config.json` says, without keys that are null."""
    labels: tuple[str, ...] = ()
    """The classes of a classifier in the order of its outputs (`id2label`)."""
    context: int | None = None
    """The longest text that the model was made for."""

    @classmethod
    def of(cls, beside: Beside) -> Conventions:
        """What the files say; `DataError` names the key whose value is no token's number."""
        config = beside.table(CONFIG)
        generation = _generation(beside, config)
        file = GENERATION if GENERATION in beside else CONFIG
        begin, pad, start = (_one(generation.get(key), beside, file, key) for key in (IDS[0], IDS[2], IDS[3]))
        asked = config.get(IDS[3]) if file != CONFIG else None  # training reads it from there
        start = _one(asked, beside, CONFIG, IDS[3]) if start is None else start
        return cls(
            begin=begin,
            ends=_several(generation.get(IDS[1]), beside, file, IDS[1]),
            pad=pad,
            start=begin if start is None else start,
            generation=generation,
            labels=_labels(config, beside),
            context=_context(config),
        )


def _generation(beside: Beside, config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of generation: those of its own file, else those of `config.json`, else those of its decoder's table."""
    own = _OF_CLASSES.get(str(config.get("model_type")), {})
    text = config.get("text_config") if own else None
    text = text if isinstance(text, dict) else {}
    fixed = {key: text.get(inner, usual) for key, (inner, usual) in own.items()}
    return {**_written(beside, config), **fixed}


def _written(beside: Beside, config: Mapping[str, Any]) -> dict[str, Any]:
    if GENERATION in beside:
        return {key: value for key, value in beside.table(GENERATION).items() if value is not None}
    inner = next((table for key in _DECODERS if isinstance(table := config.get(key), dict) and table), {})
    both = {key: config.get(key, inner.get(key)) for key in GENERATION_KEYS}
    found = {key: inner.get(key) if value is None else value for key, value in both.items()}
    if config.get("force_bos_token_to_be_generated") and found.get("forced_bos_token_id") is None:
        found["forced_bos_token_id"] = found["bos_token_id"]
    return {key: value for key, value in found.items() if value is not None}


def _several(value: Any, beside: Beside, file: str, key: str) -> tuple[int, ...]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in values):
        raise DataError(f"{beside.where}/{file}: {key} = {value!r} should be a token's number, or a list of them")
    return tuple(dict.fromkeys(each for each in values if each >= 0))


def _one(value: Any, beside: Beside, file: str, key: str) -> int | None:
    return next(iter(_several(value, beside, file, key)), None)


def _labels(config: Mapping[str, Any], beside: Beside) -> tuple[str, ...]:
    table = config.get("id2label")
    if table is None:
        return ()
    try:
        numbered = {int(number): str(name) for number, name in table.items()}
    except (AttributeError, TypeError, ValueError):
        raise DataError(f"{beside.where}/{CONFIG}: id2label = {table!r} should be a table of numbers and names") from None
    if sorted(numbered) != list(range(len(numbered))):
        raise DataError(f"{beside.where}/{CONFIG}: id2label numbers its classes {sorted(numbered)}; number them from 0")
    return tuple(numbered[number] for number in range(len(numbered)))


def _context(config: Mapping[str, Any]) -> int | None:
    tables = [config, *(table for key in _DECODERS if isinstance(table := config.get(key), dict))]
    lengths = (table.get(key) for table in tables for key in _LENGTHS)
    return next((length for length in lengths if isinstance(length, int) and length > 0), None)
