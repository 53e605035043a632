"""GPT-BigCode (SantaCoder, StarCoder): GPT-2 with one head of keys and values."""

from __future__ import annotations

from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import GroupedRows, Names, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.gpt_line import BASE, INERT, MASKS, NORMS, gpt_attention, gpt_names, learned_decoder
from anyformer.huggingface.words.names import QKV
from anyformer.model import Architecture
from anyformer.parts import LayerNorm

_ROUNDING = ("attention_softmax_in_fp32", "scale_attention_softmax_in_fp32")
_SERVING = (
    "inference_runner", "max_batch_size", "max_sequence_length", "pad_key_length", "pre_allocate_kv_cache",
    "runner_max_sequence_length", "validate_runner_input",
)  # fmt: skip
_FEEDFORWARD = {"feedforward.up": "mlp.c_fc", "feedforward.down": "mlp.c_proj"}


def read(config: Config) -> Architecture:
    config.assume(n_layer=12, n_embd=768)
    shared = config("multi_query", True, lambda target: target("attention.kv_heads") == 1)
    attention = gpt_attention(config, 12, 1 if shared else None)
    config.expect("num_key_value_heads", attention.groups, why="it follows from multi_query")
    attentions = [attention] * config("n_layer")
    return learned_decoder(config, config("n_embd"), attentions, "gelu_pytorch_tanh", LayerNorm())


def names(architecture: Architecture) -> Names:
    fused = {QKV: To("attn.c_attn", GroupedRows(Target(architecture)("attention.sublayer").groups))}
    return gpt_names(NORMS, fused, {"attention.output": "attn.c_proj"}, _FEEDFORWARD)


FAMILIES = (
    Family(
        "gpt_bigcode",
        read,
        names,
        "GPTBigCodeForCausalLM",
        inert=(*INERT, *_ROUNDING, *_SERVING),
        ignored=(MASKS, r"(transformer\.)?bias"),
        base=BASE,
    ),
)
