"""Directories as authors publish them: a tiny random model of transformers, and all kinds of files beside its weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors, trainers

TEXT = (
    "The model reads what its authors wrote, token for token, and says the same words as theirs. Once upon a time there was a "
    "river, and a bridge over it; two and two are four, and three 🙂 are not. What is the answer? It is forty-two!"
)
SPECIALS = ["<unk>", "<s>", "</s>", "<pad>", "<mask>", "<|start|>", "<|end|>"]
CHAT = (
    "{{ bos_token }}{% for m in messages %}{{ '<|start|>' + m['role'] + '\\n' + m['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant\\n' }}{% endif %}"
)


def tokenizer(frame: str = "<s> $A", pair: str | None = None) -> tokenizers.Tokenizer:
    """A byte-level tokenizer of a few hundred tokens that puts `frame` around a text."""
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=SPECIALS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    inner.train_from_iterator([TEXT] * 3, trainer)
    inner.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokens = [(name, inner.token_to_id(name)) for name in SPECIALS]
    used = [each for each in tokens if each[0] in f"{frame} {pair}"]
    inner.post_processor = processors.TemplateProcessing(single=frame, pair=pair or f"{frame} $B:1", special_tokens=used)
    return inner


NUMBER = {name: number for number, name in enumerate(SPECIALS)}
SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 320}
T5 = {"d_model": 32, "d_ff": 40, "d_kv": 8, "num_layers": 2, "num_heads": 4, "vocab_size": 320}
BART = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "vocab_size": 320, "max_position_embeddings": 64,
}  # fmt: skip
LENGTH = {"max_position_embeddings": 128}


@dataclass(frozen=True)
class Layout:
    """A published directory: the class and sizes of its model, and the files beside its weights.

    `files`: contents by name; `change`: how the written `config.json` is spelt by its authors; `saved`: arguments of
    `save_pretrained`.
    """

    kind: str
    config: Mapping[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)
    frame: str | None = "<s> $A"
    change: Callable[[bytes], bytes] = lambda content: content
    dtype: torch.dtype = torch.float32
    saved: Mapping[str, Any] = field(default_factory=dict)


def table(**keys: Any) -> bytes:
    return json.dumps(keys, indent=4, ensure_ascii=False).encode()


FAST = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
LAYOUTS: Mapping[str, Layout] = {
    "chat with several ends": Layout(
        "LlamaForCausalLM",
        {**SMALL, **LENGTH, "bos_token_id": 1, "eos_token_id": [2, 6], "pad_token_id": 3},
        {
            "tokenizer_config.json": table(**FAST | {"eos_token": "<|end|>"}, chat_template=CHAT, model_max_length=128),
            "generation_config.json": table(
                bos_token_id=1, eos_token_id=[2, 6], pad_token_id=3, do_sample=True, temperature=0.6, top_p=0.9
            ),
            "README.md": b"---\nlicense: llama3\nlanguage:\n- en\n---\n# A card \xe2\x80\x94 with a dash\n",
            "LICENSE": b"the licence\r\n",
            ".gitattributes": b"*.safetensors filter=lfs\n",
        },
    ),
    "templates in files": Layout(
        "Qwen3ForCausalLM",
        {**SMALL, **LENGTH, "head_dim": 8, "num_key_value_heads": 2, "tie_word_embeddings": True},
        {
            "tokenizer_config.json": table(**FAST),
            "chat_template.jinja": CHAT.encode(),
            "additional_chat_templates/tool_use.jinja": (CHAT + "tools").encode(),
            "special_tokens_map.json": table(eos_token={"content": "<|end|>", "lstrip": False, "rstrip": False}),
        },
    ),
    "named templates": Layout(
        "MistralForCausalLM",
        {**SMALL, **LENGTH, "num_key_value_heads": 2, "sliding_window": 16},
        {"tokenizer_config.json": table(**FAST, chat_template=[{"name": "default", "template": CHAT}])},
    ),
    "in shards, bf16": Layout(
        "LlamaForCausalLM",
        {**SMALL, **LENGTH},
        {"tokenizer_config.json": table(**FAST)},
        dtype=torch.bfloat16,
        saved={"max_shard_size": "40KB"},
    ),
    "line ends of another system": Layout(
        "LlamaForCausalLM", {**SMALL, **LENGTH}, change=lambda content: content.replace(b"\n", b"\r\n"), frame=None
    ),
    "an older spelling": Layout(
        "LlamaForCausalLM",
        {**SMALL, **LENGTH},
        {"tokenizer_config.json": table(**FAST, add_bos_token=True)},
        change=lambda content: content.replace(b'"dtype"', b'"torch_dtype"'),
        dtype=torch.float16,
    ),
    "a classifier of named classes": Layout(
        "BertForSequenceClassification",
        {**SMALL, **LENGTH, "id2label": {0: "pos", 1: "neg", 2: "neither"}, "label2id": {"pos": 0, "neg": 1, "neither": 2}},
        {"tokenizer_config.json": table(**FAST), "vocab.txt": b"not read beside a tokenizer.json"},
        frame="<s> $A </s>",
    ),
    "masked words": Layout(
        "RobertaForMaskedLM",
        {**SMALL, **LENGTH, "pad_token_id": 3},
        {"tokenizer_config.json": table(**FAST, mask_token="<mask>", cls_token="<s>", sep_token="</s>")},
        frame="<s> $A </s>",
    ),
    "T5": Layout(
        "T5ForConditionalGeneration",
        {**T5, "decoder_start_token_id": 3, "eos_token_id": 2, "pad_token_id": 3},
        {
            "tokenizer_config.json": table(**FAST, extra_ids=0),
            "generation_config.json": table(decoder_start_token_id=3, eos_token_id=2, pad_token_id=3),
            "spiece.model": b"\x00 not read beside a tokenizer.json",
        },
        frame="$A </s>",
    ),
    "BART": Layout(
        "BartForConditionalGeneration",
        {
            **BART,
            "decoder_start_token_id": 2,
            "forced_eos_token_id": 2,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": 3,
        },
        {"tokenizer_config.json": table(**FAST), "merges.txt": b"#version: 0.2\n"},
        frame="<s> $A </s>",
    ),
    "GPT-2": Layout(
        "GPT2LMHeadModel",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 320, "n_positions": 64, "bos_token_id": 2, "eos_token_id": 2},
        {"tokenizer_config.json": table(tokenizer_class="GPT2Tokenizer", eos_token="</s>")},
        frame="$A",
    ),
    "without a tokenizer": Layout(
        "MambaForCausalLM", {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 320, "state_size": 4}, frame=None
    ),
    "experts": Layout(
        "MixtralForCausalLM",
        {**SMALL, **LENGTH, "num_key_value_heads": 2, "num_local_experts": 4},
        {"tokenizer_config.json": table(**FAST), "generation_config.json": table(eos_token_id=2, max_new_tokens=9)},
    ),
}


def write(layout: Layout, directory: Path, seed: int = 0) -> None:
    """Write a directory as its authors would publish it."""
    kind = getattr(transformers, layout.kind)
    torch.manual_seed(seed)
    model = kind(kind.config_class(**layout.config)).to(layout.dtype)
    model.save_pretrained(directory, **layout.saved)
    (directory / "generation_config.json").unlink(missing_ok=True)
    config = directory / "config.json"
    config.write_bytes(layout.change(config.read_bytes()))
    if layout.frame is not None:
        (directory / "tokenizer.json").write_text(tokenizer(layout.frame).to_str(pretty=True))
    for name, content in layout.files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
