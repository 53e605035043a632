"""A tiny model of authors who frame texts, end them, and write chats in a way of their own."""

from __future__ import annotations

import json
from pathlib import Path

import tokenizers
import torch
from tokenizers import models, pre_tokenizers, processors
from transformers import GPT2Config, GPT2LMHeadModel

WORDS = ["<s>", "</s>", "<pad>", "<unk>", "the", "of", "time", "say", "two", "three", "model", "is", "a", "user", "assistant"]
FRAMES = {"begin": "<s> $A", "both": "<s> $A </s>", "none": None}
"""What stands around a text."""
LENGTH = 16
CHAT = (
    "{{ bos_token }}{% for turn in messages %}{{ turn['role'] + ' ' + turn['content'] | trim + ' ' + eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant ' }}{% endif %}"
)


def authors_model(folder: Path, frame: str) -> Path:
    """The directory of a GPT-2 of words, with its tokenizer."""
    torch.manual_seed(1)
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": LENGTH, "initializer_range": 0.4}
    GPT2LMHeadModel(GPT2Config(vocab_size=len(WORDS), bos_token_id=0, eos_token_id=1, **sizes)).save_pretrained(folder)
    inner = tokenizers.Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.add_special_tokens(WORDS[:4])
    if single := FRAMES[frame]:
        inner.post_processor = processors.TemplateProcessing(single=single, special_tokens=[("<s>", 0), ("</s>", 1)])
    (folder / "tokenizer.json").write_text(inner.to_str())
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "chat_template": CHAT}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **names}))
    return folder
