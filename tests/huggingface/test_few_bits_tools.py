"""compressed-tensors and bitsandbytes, held against the tools that write them."""

from __future__ import annotations

import json
from dataclasses import replace

import bitsandbytes.functional as bnb
import pytest
import torch
import transformers
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.nvfp4 import unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

from anyformer import huggingface
from anyformer.huggingface import HuggingFaceError
from huggingface.few_bits import LLAMA, NEAR, change_tensors, check, logit_gap, write


def ranges(matrix, args):
    """(least, largest) of the numbers that share a scale."""
    if args.strategy == "tensor":
        return matrix.min().reshape(1), matrix.max().reshape(1)
    if args.strategy == "block":
        rows, columns = args.block_structure
        tiles = matrix.unflatten(0, (-1, rows)).unflatten(-1, (-1, columns))
        return tiles.amin((1, 3)), tiles.amax((1, 3))
    grouped = matrix.unflatten(-1, (-1, args.group_size if "group" in args.strategy else matrix.shape[1]))
    return grouped.amin(-1), grouped.amax(-1)


def compress(packing, args, scale=torch.float32):
    """As llm-compressor does it: scales of the ranges, then the tool's own packing."""
    tool = BaseCompressor.get_value_from_registry(packing)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)

    def pack(name, matrix):
        low, high = ranges(matrix, args)
        outer = generate_gparam(low.min(), high.max()) if args.strategy == "tensor_group" else None
        scales, zeros = calculate_qparams(low, high, args, global_scale=outer)
        state = {"weight": matrix, "weight_scale": scales.to(scale), "weight_zero_point": zeros}
        state |= {} if outer is None else {"weight_global_scale": outer}
        stored = tool.compress(state, scheme)
        whole = tool.decompress(stored, scheme)["weight"].float() if outer is None else in_fp32(stored, args)
        stem = name.removesuffix("weight")
        return {stem + part: torch.as_tensor(tensor) for part, tensor in stored.items() if tensor is not None}, whole

    return pack


def in_fp32(stored, args):
    """NVFP4, which the tool itself restores in bf16."""
    outputs, bytes = stored["weight_packed"].shape
    numbers = unpack_fp4_from_uint8(stored["weight_packed"], outputs, 2 * bytes, torch.float32)
    scales, outer = stored["weight_scale"].float(), stored["weight_global_scale"]
    return dequantize(numbers, scales, None, args, torch.float32, outer)


def settings(packing, *groups, **more):
    return {
        "quant_method": "compressed-tensors",
        "format": packing,
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {
            f"group_{i}": {"targets": targets, "weights": json.loads(args.model_dump_json()), "input_activations": None} | own
            for i, (targets, args, own) in enumerate(groups)
        },
        **more,
    }


FORMS = {
    "int4 in groups": ("pack-quantized", {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}),
    "int4 with zero points": (
        "pack-quantized",
        {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 16, "symmetric": False},
    ),
    "int3 by rows": ("pack-quantized", {"num_bits": 3, "type": "int", "strategy": "channel", "symmetric": False}),
    "int8 packed": ("pack-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}),
    "int8": ("int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}),
    "int8 with zero points": ("int-quantized", {"num_bits": 8, "type": "int", "strategy": "tensor", "symmetric": False}),
    "fp8": ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "tensor"}),
    "fp8 by rows": ("naive-quantized", {"num_bits": 8, "type": "float", "strategy": "channel"}),
    "fp8 in blocks": ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [16, 32]}),
    "nvfp4": ("nvfp4-pack-quantized", {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}),
    "mxfp4": ("mxfp4-pack-quantized", {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}),
    "mxfp8": ("mxfp8-quantized", {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32}),
}


@pytest.mark.parametrize("form", FORMS)
def test_compressed_tensors(tmp_path, form):
    packing, args = FORMS[form]
    if form.startswith("mxfp"):
        args = {**args, "scale_dtype": torch.uint8}
    args = QuantizationArgs(**args)
    made = write(tmp_path, LLAMA, settings(packing, (["Linear"], args, {})), compress(packing, args))
    ours = check(made, LLAMA)
    if form in ("int4 in groups", "fp8 by rows"):
        theirs = transformers.AutoModelForCausalLM.from_pretrained(made.packed, dtype=torch.float32).eval()
        assert logit_gap(ours, theirs, LLAMA) <= NEAR


def test_groups_of_modules_with_packings_of_their_own(tmp_path):
    four = QuantizationArgs(num_bits=4, type="int", strategy="group", group_size=32)
    eight = QuantizationArgs(num_bits=8, type="float", strategy="channel")
    table = settings(
        "mixed-precision",
        (["Linear"], four, {"format": "pack-quantized"}),
        ([r"re:.*self_attn\.[qk]_proj", "model.layers.0.mlp.up_proj"], eight, {"format": "float-quantized"}),
    )
    packs = compress("pack-quantized", four), compress("float-quantized", eight)

    def pack(name, matrix):
        return packs[name.endswith(("q_proj.weight", "k_proj.weight")) or name == "model.layers.0.mlp.up_proj.weight"](
            name, matrix
        )

    check(write(tmp_path, LLAMA, table, pack), LLAMA)


INT4 = QuantizationArgs(num_bits=4, type="int", strategy="group", group_size=32)
STEM = "model.layers.1.mlp.up_proj"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "marlin-24"}, 'format = "marlin-24" is not read here'),
        ({"quantization_status": "frozen"}, 'quantization_status = "frozen" is not read here, only compressed'),
        ({"sparsity_config": {"format": "sparse-bitmask"}}, "sparsity_config = .* only weights that are not sparse"),
        ({"transform_config": {"config_groups": {"R1": {}}}}, "transform_config"),
        ({"config_groups": {}}, "config_groups"),
        (
            {"config_groups": {"a": {"targets": ["re:("], "weights": {}}}},
            r"a\.targets: '\(' is no pattern .*; take the checkpoint in full precision",
        ),
        ({"config_groups": {"a": {"targets": ["re:.*q_proj"], "weights": {"num_bits": 4, "group_size": 32}}}}, "no group of"),
        ({"config_groups": {"a": {"targets": ["Linear"], "weights": {"num_bits": 9}}}}, "num_bits = 9"),
        (
            {"config_groups": {"a": {"targets": ["Linear"], "weights": {"strategy": "block", "block_structure": "8xall"}}}},
            "block_structure = .*two whole numbers",
        ),
    ],
)
def test_variants_of_compressed_tensors_that_are_not_read(tmp_path, change, words):
    table = settings("pack-quantized", (["Linear"], INT4, {})) | change
    made = write(tmp_path, LLAMA, table, compress("pack-quantized", INT4))
    with pytest.raises(HuggingFaceError, match=words):
        huggingface.load(made.packed)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.pop(f"{STEM}.weight_scale"), rf"{STEM}.weight_packed cannot be read without {STEM}.weight_scale"),
        (lambda t: t[f"{STEM}.weight_shape"].fill_(40), rf"{STEM}.weight_packed has the shape \(96, 8\).*\(40, 40\)"),
        (lambda t: t[f"{STEM}.weight_shape"].fill_(-1), rf"{STEM}.weight_packed has the shape|cannot be restored"),
        (lambda t: t.update({f"{STEM}.weight_g_idx": torch.full((64,), -1)}), "names groups from -1 to -1 of 2"),
    ],
)
def test_damaged_tensors_of_compressed_tensors(tmp_path, change, words):
    made = write(tmp_path, LLAMA, settings("pack-quantized", (["Linear"], INT4, {})), compress("pack-quantized", INT4))
    change_tensors(made.packed, change)
    with pytest.raises(HuggingFaceError, match=words):
        huggingface.load(made.packed)


WHOLE_BLOCKS = replace(LLAMA, config={**LLAMA.config, "intermediate_size": 128})
"""Rows of whole blocks of 64."""


def four_bits(kind, nested, block, storage=torch.uint8):
    def pack(name, matrix):
        codes, state = bnb.quantize_4bit(
            matrix, blocksize=block, compress_statistics=nested, quant_type=kind, quant_storage=storage
        )
        stored = {f"{name}.{part}": tensor for part, tensor in state.as_dict(packed=True).items()}
        # Its kernel for processors with bf16 restores rows wrongly that are not whole blocks, so it is given one block a row.
        state.shape = torch.Size((matrix.numel() // block, block))
        return {name: codes, **stored}, bnb.dequantize_4bit(codes, state).view(matrix.shape)

    return pack


def bits(kind="nf4", nested=False, **more):
    return {
        "quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False, "_load_in_4bit": True,
        "bnb_4bit_quant_type": kind, "bnb_4bit_use_double_quant": nested, "bnb_4bit_compute_dtype": "float32",
        "bnb_4bit_quant_storage": "uint8", "llm_int8_skip_modules": None, "llm_int8_threshold": 6.0, **more,
    }  # fmt: skip


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("kind", ["nf4", "fp4"])
def test_bitsandbytes_in_4_bits(tmp_path, kind, nested):
    made = write(tmp_path, WHOLE_BLOCKS, bits(kind, nested), four_bits(kind, nested, 64))
    ours = check(made, WHOLE_BLOCKS)
    if kind == "nf4":
        # Restored, since its product of codes rounds to bf16 on processors that have it.
        theirs = transformers.AutoModelForCausalLM.from_pretrained(made.packed, dtype=torch.float32).dequantize().eval()
        assert logit_gap(ours, theirs, WHOLE_BLOCKS) <= NEAR


def test_bitsandbytes_in_other_blocks_and_another_storage(tmp_path):
    made = write(tmp_path, LLAMA, bits(bnb_4bit_quant_storage="bfloat16"), four_bits("nf4", True, 128, torch.bfloat16))
    check(made, LLAMA)


def test_bitsandbytes_in_8_bits(tmp_path):
    def pack(name, matrix):
        codes, scales, _ = bnb.int8_vectorwise_quant(matrix.half())
        stem = name.removesuffix("weight")
        stored = {name: codes, f"{stem}SCB": scales, f"{stem}weight_format": torch.tensor(0, dtype=torch.uint8)}
        return stored, bnb.int8_vectorwise_dequant(codes, scales)

    made = write(tmp_path, LLAMA, bits(load_in_4bit=False, load_in_8bit=True), pack)
    check(made, LLAMA)
    change_tensors(made.packed, lambda t: t[f"{STEM}.weight_format"].fill_(2))
    with pytest.raises(HuggingFaceError, match=f"{STEM}.weight_format: int8 codes in the layout of a GPU"):
        huggingface.load(made.packed)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.pop(f"{STEM}.weight.absmax"), f"{STEM}.weight cannot be read without {STEM}.weight.absmax"),
        (lambda t: t.pop(f"{STEM}.weight.nested_absmax"), f"{STEM}.weight cannot be restored from .*its outer are missing"),
        (
            lambda t: t.update({f"{STEM}.weight.absmax": t[f"{STEM}.weight.absmax"][:-1]}),
            rf"{STEM}.weight.absmax has the shape \(95,\).*needs \(96,\)",
        ),
        (lambda t: t[f"{STEM}.weight.quant_state.bitsandbytes__nf4"].fill_(9), "is no state of a weight in 4 bits"),
        (lambda t: t.pop(f"{STEM}.weight.quant_state.bitsandbytes__nf4"), f"{STEM}.weight"),
    ],
)
def test_damaged_tensors_of_bitsandbytes(tmp_path, change, words):
    made = write(tmp_path, LLAMA, bits("nf4", True), four_bits("nf4", True, 64))
    change_tensors(made.packed, change)
    with pytest.raises(HuggingFaceError, match=words):
        huggingface.load(made.packed)
