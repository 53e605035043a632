"""Forty families as their authors would publish them: tiny random models of transformers, and files beside their weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tokenizers
import torch
import transformers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors, trainers

Shape = Literal["causal", "seq2seq", "masked"]
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>", "<mask>", "<|start|>", "<|end|>")
PAD, BEGIN, END, UNKNOWN, MASK, _, TURN = range(len(SPECIALS))
VOCABULARY, LENGTH = 320, 128
MORE_ENDS = range(10, VOCABULARY, 12)
"""Many tokens end a text, so that most texts of random models end."""
SHARP = 4.0
"""Factor of the random matrices, so that a model prefers some tokens clearly."""
TEXT = (
    "The model reads what its authors wrote, token for token, and says the same words as theirs. Once upon a time there was a "
    "river, and a bridge over it; two and two are four, and three 🙂 are not. What is the answer? It is forty-two!"
)
CHAT = (
    "{{ bos_token }}{% for m in messages %}{{ '<|start|>' + m['role'] + '\\n' }}{% if m['role'] == 'assistant' %}"
    "{% generation %}{{ m['content'] + '<|end|>' }}{% endgeneration %}{% else %}{{ m['content'] + '<|end|>' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant\\n' }}{% endif %}"
)
PLAIN = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": LENGTH,
}  # fmt: skip
GROUPED = PLAIN | {"num_key_value_heads": 2}
HEADS = GROUPED | {"head_dim": 8}
GPT2 = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": LENGTH}
BART = {
    "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": LENGTH,
}  # fmt: skip
T5 = {"vocab_size": VOCABULARY, "d_model": 32, "d_ff": 40, "d_kv": 8, "num_layers": 2, "num_heads": 4}
BERT = PLAIN | {"type_vocab_size": 2}


@dataclass(frozen=True)
class Family:
    """A class of transformers, its sizes, and what its tokenizer puts around a text. `start`: the decoder's first token."""

    shape: Shape
    model: str
    config: Mapping[str, Any]
    frame: str = "<s> $A"
    start: int | None = None


CAUSAL: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "llama": ("LlamaForCausalLM", GROUPED),
    "mistral": ("MistralForCausalLM", GROUPED | {"sliding_window": 16}),
    "mixtral": ("MixtralForCausalLM", GROUPED | {"num_local_experts": 4}),
    "qwen2": ("Qwen2ForCausalLM", GROUPED),
    "qwen3": ("Qwen3ForCausalLM", HEADS),
    "qwen3_moe": ("Qwen3MoeForCausalLM", HEADS | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}),
    "gemma": ("GemmaForCausalLM", HEADS),
    "gemma2": ("Gemma2ForCausalLM", HEADS | {"sliding_window": 16, "query_pre_attn_scalar": 8}),
    "gemma3_text": ("Gemma3ForCausalLM", HEADS | {"sliding_window": 16, "query_pre_attn_scalar": 8}),
    "phi": ("PhiForCausalLM", PLAIN),
    "phi3": ("Phi3ForCausalLM", GROUPED),
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", GPT2),
    "gptj": ("GPTJForCausalLM", GPT2 | {"rotary_dim": 4}),
    "gpt_neox": ("GPTNeoXForCausalLM", PLAIN),
    "opt": ("OPTForCausalLM", {
        "vocab_size": VOCABULARY, "hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "max_position_embeddings": LENGTH, "word_embed_proj_dim": 32,
    }),
    "bloom": ("BloomForCausalLM", {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "mpt": ("MptForCausalLM", {
        "vocab_size": VOCABULARY, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": LENGTH,
    }),
    "falcon": ("FalconForCausalLM", {
        "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_hidden_size": 48,
    }),
    "olmo2": ("Olmo2ForCausalLM", GROUPED),
    "olmoe": ("OlmoeForCausalLM", GROUPED | {"num_experts": 4, "num_experts_per_tok": 2}),
    "starcoder2": ("Starcoder2ForCausalLM", GROUPED),
    "stablelm": ("StableLmForCausalLM", GROUPED),
    "granite": ("GraniteForCausalLM", GROUPED | {"attention_multiplier": 0.3, "logits_scaling": 2.0}),
    "cohere": ("CohereForCausalLM", GROUPED),
}  # fmt: skip
FAMILIES: Mapping[str, Family] = {
    **{name: Family("causal", *of) for name, of in CAUSAL.items()},
    "t5": Family("seq2seq", "T5ForConditionalGeneration", T5, "$A </s>", PAD),
    "mt5": Family("seq2seq", "MT5ForConditionalGeneration", T5, "$A </s>", PAD),
    "umt5": Family("seq2seq", "UMT5ForConditionalGeneration", T5, "$A </s>", PAD),
    "switch_transformers": Family(
        "seq2seq", "SwitchTransformersForConditionalGeneration",
        T5 | {
            "num_experts": 2, "num_decoder_layers": 2, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1,
            "expert_capacity": 64, "router_jitter_noise": 0.0,
        },
        "$A </s>", PAD,
    ),
    "bart": Family("seq2seq", "BartForConditionalGeneration", BART | {"forced_eos_token_id": END}, "<s> $A </s>", END),
    "mbart": Family("seq2seq", "MBartForConditionalGeneration", BART | {"forced_eos_token_id": END}, "$A </s>", BEGIN),
    "marian": Family("seq2seq", "MarianMTModel", BART | {"forced_eos_token_id": END}, "$A </s>", PAD),
    "pegasus": Family("seq2seq", "PegasusForConditionalGeneration", BART | {"forced_eos_token_id": END}, "$A </s>", PAD),
    "bert": Family("masked", "BertForMaskedLM", BERT, "<s> $A </s>"),
    "roberta": Family("masked", "RobertaForMaskedLM", BERT, "<s> $A </s>"),
    "xlm-roberta": Family("masked", "XLMRobertaForMaskedLM", BERT, "<s> $A </s>"),
    "electra": Family("masked", "ElectraForMaskedLM", BERT | {"embedding_size": 16}, "<s> $A </s>"),
    "albert": Family("masked", "AlbertForMaskedLM", BERT | {"embedding_size": 16}, "<s> $A </s>"),
    "distilbert": Family("masked", "DistilBertForMaskedLM", {
        "vocab_size": VOCABULARY, "dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4, "max_position_embeddings": LENGTH,
    }, "<s> $A </s>"),
    "modernbert": Family("masked", "ModernBertForMaskedLM", PLAIN | {
        "local_attention": 16, "cls_token_id": BEGIN, "sep_token_id": END,
    }, "<s> $A </s>"),
}  # fmt: skip


def tokenizer(frame: str) -> tokenizers.Tokenizer:
    """A byte-level tokenizer of 320 tokens that puts `frame` around a text."""
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[*SPECIALS], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    inner.train_from_iterator([TEXT] * 3, trainer)
    inner.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    used = [(name, number) for number, name in enumerate(SPECIALS) if name in frame]
    inner.post_processor = processors.TemplateProcessing(
        single=frame, pair=f"{frame} {frame.replace('$A', '$B')}", special_tokens=used
    )
    return inner


def write(family: Family, directory: Path) -> None:
    """Write a directory as its authors would publish it: several ends, padding, and a chat template where it can chat."""
    kind = getattr(transformers, family.model)
    ids: dict[str, Any] = {"bos_token_id": BEGIN, "eos_token_id": END, "pad_token_id": PAD}
    ends = {"eos_token_id": [END, TURN, *MORE_ENDS]} if family.shape != "masked" else {}
    starts = {} if family.start is None else {"decoder_start_token_id": family.start}
    torch.manual_seed(0)
    config = kind.config_class(**family.config, **ids, **starts)
    for key, value in vars(config).items():
        if "drop" in key and isinstance(value, float):  # both sides draw what they drop differently
            setattr(config, key, 0.0)
    model = kind(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # Tables of positions may follow from a formula.
            weight.mul_(SHARP if weight.dim() > 1 and "position" not in name else 1)
    model.save_pretrained(directory)
    forced = {key: family.config[key] for key in ("forced_eos_token_id",) if key in family.config}
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
    files: dict[str, dict[str, Any]] = {
        "generation_config.json": {**ids, **ends, **starts, **forced},
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": LENGTH, **names}
        | ({"chat_template": CHAT} if family.shape == "causal" else {"cls_token": "<s>", "sep_token": "</s>"}),
    }
    for name, table in files.items():
        (directory / name).write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    (directory / "tokenizer.json").write_text(tokenizer(family.frame).to_str(), encoding="utf-8")
