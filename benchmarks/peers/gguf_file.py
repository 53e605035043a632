"""A llama.cpp model file with random weights, so that its speed can be measured without downloading a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import quantize

QUANTISATIONS = {
    "f32": gguf.GGMLQuantizationType.F32,
    "bf16": gguf.GGMLQuantizationType.BF16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
}


def write(path: Path, shape: Mapping[str, int], context: int, weights: str, seed: int) -> int:
    """Write a Llama of `shape` with a tied head, all matrices stored as `weights`; returns its number of parameters."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(context)
    writer.add_embedding_length(shape["width"])
    writer.add_block_count(shape["depth"])
    writer.add_feed_forward_length(shape["ffn"])
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["heads"])
    writer.add_rope_dimension_count(shape["width"] // shape["heads"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(shape["vocab"])
    _add_vocabulary(writer, shape["vocab"])
    kind = QUANTISATIONS[weights]
    generator = np.random.default_rng(seed)
    parameters = 0
    for name, size in _tensors(shape):
        parameters += int(np.prod(size))
        if len(size) == 1:
            writer.add_tensor(name, np.ones(size, dtype=np.float32))
        else:
            matrix = generator.normal(0.0, 0.02, size).astype(np.float32)
            writer.add_tensor(name, quantize(matrix, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return parameters


def _tensors(shape: Mapping[str, int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, ffn = shape["width"], shape["ffn"]
    yield "token_embd.weight", (shape["vocab"], width)
    for block in range(shape["depth"]):
        for norm in ("attn_norm", "ffn_norm"):
            yield f"blk.{block}.{norm}.weight", (width,)
        for projection in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"blk.{block}.{projection}.weight", (width, width)
        for projection in ("ffn_gate", "ffn_up"):
            yield f"blk.{block}.{projection}.weight", (ffn, width)
        yield f"blk.{block}.ffn_down.weight", (width, ffn)
    yield "output_norm.weight", (width,)


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
