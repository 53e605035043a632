"""Llama under the keys and names of files that bring code of their own: EXAONE 3, Qwen 1, MiniCPM, InternLM, Baichuan, MiMo.

The code is never run. Keys and names are facts of the published files; vLLM (vllm/model_executor/models) reads the same ones in
exaone.py, qwen.py, minicpm.py, internlm2.py, baichuan.py and mimo.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from anyformer.describe import Notice
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import GroupedRows, Names, Rows, Shapes, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.gpt_line import NORMS as GPT_NORMS
from anyformer.huggingface.words.gpt_line import OUTSIDE as GPT_OUTSIDE
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, OUTSIDE, QKV, decoder_names, projections
from anyformer.model import Architecture
from anyformer.parts import ALiBi, LengthTemperature, Rotary, pre_norm

if TYPE_CHECKING:
    from torch import Tensor

_GPT_LAYER = "transformer.h.{i}."
_WAVES = r".*\.rotary_emb\.inv_freq"
"""Buffers of rotary positions in older files."""


def read_exaone(config: Config) -> Architecture:
    config.assume(vocab_size=102_400, hidden_size=2048, num_layers=32, num_attention_heads=32, activation_function="silu")
    config.expect("mlp_bias", False)
    depth, eps, acted = (later if later in config.written else own for own, later in _EXAONE_KEYS)
    norm = words.rms_norm(config, key=eps)
    heads = words.attention(config, rotary=words.rotary(config))
    width = config("intermediate_size", None) or 4 * config("hidden_size")
    network = words.feedforward(config, acted, size=None, width=width)
    around = {"dropout": config("embed_dropout", 0.0)}
    layers = words.repeated(config, pre_norm(norm, heads, network), depth)
    return words.decoder(config, layers, norm, tied=True, around=around)


_EXAONE_KEYS = (
    ("num_layers", "num_hidden_layers"),
    ("layer_norm_epsilon", "rms_norm_eps"),
    ("activation_function", "hidden_act"),
)
"""Key of published files -> what transformers 5.24 calls it."""
_EXAONE: Table = {
    **projections("attn.attention.*_proj", "attn.attention.out_proj"),
    **GPT_NORMS,
    "feedforward.gate": "mlp.c_fc_0",
    "feedforward.up": "mlp.c_fc_1",
    "feedforward.down": "mlp.c_proj",
}


def read_qwen(config: Config) -> Architecture:
    """Qwen 1: half of `intermediate_size` in each of two projections; queries grow with their position beyond `seq_length`."""
    config.assume(vocab_size=151_936, hidden_size=4096, num_hidden_layers=32, num_attention_heads=32)
    config.expect_all(rotary_pct=1.0, no_bias=True, scale_attn_weights=True)
    norm, length = words.rms_norm(config, key="layer_norm_epsilon"), config("seq_length", 2048)
    rotary = Rotary(theta=float(config("rotary_emb_base", 10_000.0)))
    if config("use_dynamic_ntk", True):
        warnings.warn(
            f"{config.where}: use_dynamic_ntk stretches rotary positions of texts beyond seq_length = {length} tokens, "
            f"which is not described here: up to there the model is the published one",
            Notice,
            stacklevel=2,
        )
    heads = words.attention(
        config,
        rotary=rotary,
        head_width=config("kv_channels", 128),
        bias=words.QKV,
        dropout=config("attn_dropout_prob", 0.0),
        temperature=LengthTemperature(trained=length) if config("use_logn_attn", True) else None,
    )
    network = words.feedforward(config, size=None, width=config("intermediate_size", 22_016) // 2)
    around = {"dropout": config("emb_dropout_prob", 0.0)}
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, network)), norm, around=around)


_QWEN: Table = {
    QKV: To("attn.c_attn", Rows()),
    "attention.output": "attn.c_proj",
    **GPT_NORMS,
    "feedforward.gate": "mlp.w2",
    "feedforward.up": "mlp.w1",
    "feedforward.down": "mlp.c_proj",
}


def read_minicpm(config: Config) -> Architecture:
    """MiniCPM 1 and 2: Llama with factors of embeddings, branches and logits."""
    config.assume(vocab_size=32_000, hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, intermediate_size=11_008)
    config.expect_all(num_experts=0, pe_type="ROPE")
    norm, heads = words.rms_norm(config), words.attention(config, rotary=words.rotary(config))
    deep, base = config("scale_depth", 1.0), config("dim_model_base", 1)
    factor = 1.0 if deep is None else deep / sqrt(config("num_hidden_layers"))
    block = words.multiplied(pre_norm(norm, heads, words.feedforward(config)), factor)
    scale = 1.0 if base is None else base / config("hidden_size")
    layers, embedding = words.repeated(config, block), config("scale_emb", 1.0)
    return words.decoder(config, layers, norm, embedding_scale=embedding, starts=words.initialisation(config), scale=scale)


def read_internlm(config: Config) -> Architecture:
    """InternLM 1: Llama with biases around attention, its rotary positions stretched beyond the trained length."""
    config.assume(vocab_size=103_168, hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, intermediate_size=11_008)
    theta, kind = 10_000.0, "dynamic"
    given = config.written.get("rotary")
    config.expect("rotary", {"base": 10_000, "type": "dynamic"}, {"base": 10_000, "type": "origin"})
    if given is not None:
        kind = given["type"]
    length = config("max_position_embeddings", 2048)
    table = {"rope_type": "default", "rope_theta": theta}
    if kind == "dynamic":
        table |= {"rope_type": "dynamic", "factor": 1.0, "original_max_position_embeddings": length}
    biased = config("bias", True, lambda target: bool(target("attention.bias")))
    heads = words.attention(config, rotary=words.from_table(table), bias=words.ALL if biased else (), dropout=0.0)
    norm = words.rms_norm(config)
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, words.feedforward(config))), norm)


def read_internlm2(config: Config) -> Architecture:
    """InternLM 2 and 2.5: queries, keys and values fused group by group."""
    config.assume(vocab_size=103_168, hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, intermediate_size=11_008)
    biased = config("bias", True, lambda target: bool(target("attention.bias")))
    heads = words.attention(config, rotary=words.rotary(config), bias=words.ALL if biased else (), dropout=0.0)
    norm = words.rms_norm(config)
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, words.feedforward(config))), norm)


def internlm2_names(architecture: Architecture) -> Names:
    groups = Target(architecture)("attention.sublayer").groups
    layer: Table = {
        QKV: To("attention.wqkv", GroupedRows(groups)),
        "attention.output": "attention.wo",
        "attention.norm_before": "attention_norm",
        "feedforward.norm_before": "ffn_norm",
        "feedforward.gate": "feed_forward.w1",
        "feedforward.up": "feed_forward.w3",
        "feedforward.down": "feed_forward.w2",
    }
    return decoder_names(layer, outside={**OUTSIDE, "embedding": "model.tok_embeddings", "head": "output"})


@dataclass(frozen=True)
class _Normalised:
    """Rows of length 1, as Baichuan 2 computes them of the matrix of its head whenever it runs."""

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        import torch.nn.functional as F

        return [F.normalize(x.float()).to(x.dtype) for x in stored]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return list(parameters)


_SECOND = 125_696
"""The size of Baichuan 2's vocabulary, by which its files are told from Baichuan 1's."""


def read_baichuan(config: Config) -> Architecture:
    """Baichuan 1 and 2: 7B has rotary positions; 13B, whose files have no `max_position_embeddings`, has ALiBi."""
    config.assume(vocab_size=64_000)
    norm = words.rms_norm(config)
    turns = "max_position_embeddings" in config
    positions = {"rotary": Rotary()} if turns else {"score_bias": ALiBi()}
    heads = words.attention(config, bias=(), dropout=0.0, **positions)
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, words.feedforward(config))), norm)


def baichuan_names(architecture: Architecture) -> Names:
    second = Target(architecture)("embedding.vocab") == _SECOND
    head = {"head": To("lm_head", _Normalised())} if second else {}
    fused: Table = {QKV: To("self_attn.W_pack", Rows()), "attention.output": "self_attn.o_proj"}
    return decoder_names(fused, FEEDFORWARD, NORMS, outside={**OUTSIDE, **head})


def read_mimo(config: Config) -> Architecture:
    """MiMo 7B: Qwen 2 with heads of a width of their own, and modules that predict later tokens, which are left out."""
    config.assume(vocab_size=151_680, hidden_size=4096, num_hidden_layers=36, num_attention_heads=32, intermediate_size=11_008)
    config.expect_all(use_sliding_window=False, attention_bias=True)
    norm, heads = words.rms_norm(config), words.attention(config, kv_heads=8, rotary=words.rotary(config), bias=words.QKV)
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, words.feedforward(config))), norm)


_LLAMA = decoder_names(ATTENTION, FEEDFORWARD, NORMS)
FAMILIES = (
    Family(
        "exaone",
        read_exaone,
        decoder_names(_EXAONE, outside=GPT_OUTSIDE, prefix=_GPT_LAYER),
        "ExaoneForCausalLM",
        ignored=(_WAVES,),
    ),
    Family(
        "qwen",
        read_qwen,
        decoder_names(_QWEN, outside=GPT_OUTSIDE, prefix=_GPT_LAYER),
        "QWenLMHeadModel",
        inert=(
            "bf16", "fp16", "fp32", "onnx_safe", "softmax_in_fp32", "tokenizer_type", "use_cache_kernel",
            "use_cache_quantization", "use_flash_attn",
        ),
        ignored=(_WAVES, r"transformer\.h\.\d+\.attn\.(masked_)?bias"),
    ),
    Family("minicpm", read_minicpm, _LLAMA, "MiniCPMForCausalLM", ignored=(_WAVES,)),
    Family("internlm", read_internlm, _LLAMA, "InternLMForCausalLM", ignored=(_WAVES,)),
    Family("internlm2", read_internlm2, internlm2_names, "InternLM2ForCausalLM", inert=("attn_implementation",)),
    Family(
        "baichuan",
        read_baichuan,
        baichuan_names,
        "BaichuanForCausalLM",
        inert=("_from_model_config", "z_loss_weight"),
        ignored=(_WAVES,),
    ),
    Family(
        "mimo",
        read_mimo,
        _LLAMA,
        "MiMoForCausalLM",
        inert=("max_window_layers", "num_nextn_predict_layers", "sliding_window"),
        ignored=(r"model\.mtp_layers\..*",),
    ),
)  # fmt: skip
