"""A llama.cpp model file with random weights, so that its speed can be measured without downloading a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path

import gguf
import numpy as np
from benchmarks.cases import Decoder
from gguf.quants import quantize

QUANTISATIONS = {
    "f32": gguf.GGMLQuantizationType.F32,
    "bf16": gguf.GGMLQuantizationType.BF16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
    "q4_1": gguf.GGMLQuantizationType.Q4_1,
}
TABLE = "token_embd.weight"
"""The table of tokens, which is the head too."""
ROUTER = "ffn_gate_inp"
"""Matrices that are stored in fp32 whatever the others are in."""


def write(path: Path, sizes: Decoder, context: int, weights: str, seed: int) -> int:
    """Write a decoder with a tied head; returns the parameters that a token uses.

    `weights`: how its matrices are stored, and behind a stroke, if another is meant, the table of tokens (`q4_1/q8_0`).
    """
    writer = gguf.GGUFWriter(path, "llama" if sizes.latents is None else "deepseek2")
    writer.add_context_length(context)
    writer.add_embedding_length(sizes.width)
    writer.add_block_count(sizes.depth)
    writer.add_feed_forward_length(sizes.ffn)
    writer.add_head_count(sizes.heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(sizes.theta)
    writer.add_vocab_size(sizes.vocab)
    (_add_latents if sizes.latents else _add_heads)(writer, sizes)
    if sizes.experts > 1:
        writer.add_expert_count(sizes.experts)
        writer.add_expert_used_count(sizes.chosen)
    _add_vocabulary(writer, sizes.vocab)
    layers, _, table = weights.partition("/")
    generator = np.random.default_rng(seed)
    for name, size in tensors(sizes):
        if len(size) == 1:
            writer.add_tensor(name, np.ones(size, dtype=np.float32))
            continue
        matrix = generator.standard_normal(size, dtype=np.float32) * np.float32(0.02)
        if ROUTER in name:
            writer.add_tensor(name, matrix)
        else:
            kind = QUANTISATIONS[(name == TABLE and table) or layers]
            writer.add_tensor(name, quantize(matrix, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return active(sizes)


def active(sizes: Decoder) -> int:
    """Parameters that a token uses."""
    return round(sum(prod(size) * (sizes.active_share if "_exps" in name else 1) for name, size in tensors(sizes)))


def tensors(sizes: Decoder) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The name and the size of every tensor."""
    yield TABLE, (sizes.vocab, sizes.width)
    attention = dict(_latent_attention(sizes) if sizes.latents else _attention(sizes))
    network = dict(_experts(sizes) if sizes.experts > 1 else _network(sizes))
    norms = {"attn_norm": (sizes.width,), "ffn_norm": (sizes.width,)}
    for block in range(sizes.depth):
        for name, size in (norms | attention | network).items():
            yield f"blk.{block}.{name}.weight", size
    yield "output_norm.weight", (sizes.width,)


def _attention(sizes: Decoder) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, keys = sizes.width, sizes.width // sizes.heads * sizes.kv_heads
    yield "attn_q", (width, width)
    yield "attn_k", (keys, width)
    yield "attn_v", (keys, width)
    yield "attn_output", (width, width)


def _latent_attention(sizes: Decoder) -> Iterator[tuple[str, tuple[int, ...]]]:
    latents = sizes.latents
    assert latents is not None, "asked for latent attention"
    yield "attn_q_a", (latents.q_rank, sizes.width)
    yield "attn_q_a_norm", (latents.q_rank,)
    yield "attn_q_b", (sizes.heads * (latents.nope + latents.rope), latents.q_rank)
    yield "attn_kv_a_mqa", (latents.kv_rank + latents.rope, sizes.width)
    yield "attn_kv_a_norm", (latents.kv_rank,)
    yield "attn_k_b", (sizes.heads, latents.kv_rank, latents.nope)
    yield "attn_v_b", (sizes.heads, latents.value, latents.kv_rank)
    yield "attn_output", (sizes.width, sizes.heads * latents.value)


def _network(sizes: Decoder) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "ffn_gate", (sizes.ffn, sizes.width)
    yield "ffn_up", (sizes.ffn, sizes.width)
    yield "ffn_down", (sizes.width, sizes.ffn)


def _experts(sizes: Decoder) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield ROUTER, (sizes.experts, sizes.width)
    for name, size in _network(sizes):
        yield f"{name}_exps", (sizes.experts, *size)


def _add_heads(writer: gguf.GGUFWriter, sizes: Decoder) -> None:
    writer.add_head_count_kv(sizes.kv_heads)
    writer.add_rope_dimension_count(sizes.width // sizes.heads)


def _add_latents(writer: gguf.GGUFWriter, sizes: Decoder) -> None:
    """What llama.cpp reads of DeepSeek: one head of keys, the latent; every layer dense, so that its experts are made up."""
    latents = sizes.latents
    assert latents is not None, "asked for latent attention"
    writer.add_head_count_kv(1)
    writer.add_q_lora_rank(latents.q_rank)
    writer.add_kv_lora_rank(latents.kv_rank)
    writer.add_key_length(latents.kv_rank + latents.rope)
    writer.add_value_length(latents.kv_rank)
    writer.add_key_length_mla(latents.nope + latents.rope)
    writer.add_value_length_mla(latents.value)
    writer.add_rope_dimension_count(latents.rope)
    writer.add_leading_dense_block_count(sizes.depth)
    writer.add_expert_feed_forward_length(sizes.ffn)
    writer.add_expert_count(0)
    writer.add_expert_used_count(0)
    writer.add_expert_shared_count(0)
    writer.add_expert_weights_scale(1.0)


def _add_vocabulary(writer: gguf.GGUFWriter, size: int) -> None:
    """A vocabulary of made-up pieces: llama.cpp wants one to load, the benchmark works on token numbers."""
    special = ["<unk>", "<s>", "</s>"]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    octets = [f"<0x{value:02X}>" for value in range(256)]
    pieces = [f"t{number}" for number in range(size - len(special) - len(octets))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([*special, *octets, *pieces])
    writer.add_token_scores([0.0] * size)
    writer.add_token_types([*kinds, *[gguf.TokenType.BYTE] * len(octets), *[gguf.TokenType.NORMAL] * len(pieces)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
