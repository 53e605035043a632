"""Tiny models of transformers with random weights, and the same ones as they are loaded here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.nn.utils.rnn import pad_sequence

import anyformer as af
from anyformer.model.transformer import Transformer

VOCABULARY = 40
CONFIGS: dict[str, tuple[type, dict[str, Any]]] = {
    "llama": (
        transformers.LlamaForCausalLM,
        {
            "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "max_position_embeddings": 128,
        },
    ),
    "mistral": (
        transformers.MistralForCausalLM,
        {
            "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "max_position_embeddings": 128, "sliding_window": 4,
        },
    ),
    "t5": (
        transformers.T5ForConditionalGeneration,
        {"d_model": 24, "d_kv": 6, "d_ff": 40, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0},
    ),
    "bart": (
        transformers.BartForConditionalGeneration,
        {
            "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
            "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 128, "decoder_start_token_id": 2,
            "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "forced_eos_token_id": None,
        },
    ),
}  # fmt: skip


def both(kind: str, directory: Path, *, sharp: float = 8.0) -> tuple[Any, Transformer]:
    """A model of transformers, and the same one here. `sharp` multiplies its weights, so that it prefers some tokens."""
    make, settings = CONFIGS[kind]
    torch.manual_seed(0)
    theirs = make(make.config_class(vocab_size=VOCABULARY, **settings)).eval()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.mul_(sharp if weight.dim() > 1 else 1)
    theirs.save_pretrained(directory)
    ours, _ = af.load(directory)
    return theirs, ours.eval()


def continued_there(theirs: Any, prompts: Sequence[Sequence[int]], **settings: Any) -> Any:
    """What `generate` of transformers gives for prompts padded with token 1: on the left, but sources on the right."""
    side = "right" if theirs.config.is_encoder_decoder else "left"
    pad = partial(pad_sequence, batch_first=True, padding_side=side)
    rows = [torch.tensor(prompt) for prompt in prompts]
    mask = pad([torch.ones_like(row) for row in rows])
    return theirs.generate(
        pad(rows, padding_value=1), attention_mask=mask, pad_token_id=1, return_dict_in_generate=True, **settings
    )  # fmt: skip


def without_padding(rows: Any, before: int, ends: Sequence[int]) -> list[list[int]]:
    """The new tokens of each row up to its end."""
    found = []
    for row in rows.tolist():
        new = row[before:]
        stop = next((place for place, token in enumerate(new) if token in ends), len(new) - 1)
        found.append(new[: stop + 1])
    return found
