"""What CTranslate2 is asked about: model types of transformers that its converter knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.engines.models import SHARP, VOCABULARY, made, sized, table_of
from benchmarks.engines.onnx_types import GROUPED, PLAIN, SOFTER
from benchmarks.engines.onnx_types import TYPES as OF_ONNX

import anyformer as af

WORDS = ("<pad>", "<s>", "</s>", "<unk>", *(f"w{number}" for number in range(4, VOCABULARY)))
"""The word of every token."""
TYPES: Mapping[str, Mapping[str, Any]] = {
    "bert": OF_ONNX["bert"] | {"architectures": ["BertModel"]},
    "roberta": sized(OF_ONNX["roberta"], architectures=["RobertaModel"], pad_token_id=1),
    "distilbert": OF_ONNX["distilbert"] | {"architectures": ["DistilBertModel"]},
    "t5": OF_ONNX["t5"],
    "bart": OF_ONNX["bart"],
    "gpt2": OF_ONNX["gpt2"],
    "gpt_neox": OF_ONNX["gpt_neox"],
    "gptj": {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4},
    "bloom": OF_ONNX["bloom"],
    "opt": {
        "vocab_size": VOCABULARY, "hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "max_position_embeddings": 64, "word_embed_proj_dim": 32,
    },
    "llama": GROUPED,
    "mistral": sized(GROUPED, sliding_window=64),
    "qwen2": sized(PLAIN, num_key_value_heads=2),
    "qwen3": GROUPED,
    "gemma": GROUPED,
    "gemma2": sized(OF_ONNX["gemma2"], sliding_window=64),
    "gemma3_text": sized(OF_ONNX["gemma3_text"], sliding_window=64),
    "phi": PLAIN,
    "phi3": sized(PLAIN, num_key_value_heads=2, pad_token_id=0),
    "mixtral": OF_ONNX["mixtral"],
}  # fmt: skip


def model_of(name: str) -> af.Transformer:
    """The random model of a row."""
    return made(table_of(name, **TYPES[name]), sharp=SOFTER.get(name, SHARP))


def add_words(directory: Path) -> None:
    """A tokenizer of one word per token, in the files that transformers reads."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(list(WORDS[:4]))
    tokenizer.save(str(directory / "tokenizer.json"))
    told = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")
