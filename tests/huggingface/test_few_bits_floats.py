"""fp8, MXFP4 and NVFP4 as they are published, held against transformers' own restoring."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from anyformer import huggingface
from anyformer.describe import Notice
from anyformer.huggingface import HuggingFaceError
from huggingface.case import Case
from huggingface.cases import deepseek, gpt_oss
from huggingface.composite_cases import case_of
from huggingface.few_bits import LLAMA, NEAR, blocks, change_tensors, check, in_layers, logit_gap, spread, write

E4M3 = torch.float8_e4m3fn
DEEPSEEK = Case(
    "deepseek_v3",
    deepseek.BASE
    | {
        "vocab_size": 53, "hidden_size": 64, "q_lora_rank": 16, "kv_lora_rank": 12, "n_group": 3, "topk_group": 2,
        "moe_intermediate_size": 32, "intermediate_size": 48, "qk_nope_head_dim": 12, "qk_rope_head_dim": 4, "v_head_dim": 8,
    },
)  # fmt: skip
GPT_OSS = Case("gpt_oss", {**gpt_oss.CASES[0].config, "hidden_size": 64, "intermediate_size": 32})
FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic"}


def block_fp8(rows, columns, ending="_scale_inv", scale=torch.float32):
    def pack(name, matrix):
        scales = blocks(matrix, rows, columns, 448.0).to(scale)
        codes = (matrix / spread(scales.float(), rows, columns, matrix.shape)).to(E4M3)
        whole = codes.float() * spread(scales.float(), rows, columns, matrix.shape)
        return {name: codes, name + ending: scales}, whole

    return pack


def reference(directory, name, ending="_scale_inv"):
    """The weight as transformers restores it."""
    from safetensors.torch import load_file

    tensors = load_file(directory / "model.safetensors")
    return Fp8Dequantize(None)._dequantize_one(tensors[name], tensors[name + ending], torch.float32)


def test_deepseek_in_blocks_of_fp8(tmp_path):
    made = write(tmp_path, DEEPSEEK, {**FP8, "weight_block_size": [8, 16]}, block_fp8(8, 16))
    ours = check(made, DEEPSEEK)
    name = "model.layers.1.mlp.experts.2.down_proj.weight"
    assert torch.equal(ours.get_parameter("decoder.layers.1.experts.sublayer.down")[2], reference(made.packed, name)), (
        "transformers restores the same"
    )
    theirs = transformers.AutoModelForCausalLM.from_pretrained(made.packed, dtype=torch.float32).eval()
    assert logit_gap(ours, theirs, DEEPSEEK) <= NEAR


def test_blocks_at_the_edges_are_cut(tmp_path):
    """576 rows of DeepSeek-V3's key-value projection are four and a half blocks of 128."""
    made = write(tmp_path, LLAMA, {**FP8, "weight_block_size": [20, 40]}, block_fp8(20, 40))
    check(made, LLAMA)


@pytest.mark.parametrize("scale", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("method", "rows", "ending"), [("fp8", 1000, "_scale"), ("fbgemm_fp8", 1, "_scale")])
def test_one_scale_for_each_matrix_or_row(tmp_path, method, rows, ending, scale):
    def pack(name, matrix):
        stored, whole = block_fp8(rows, 1000, ending, scale)(name, matrix)
        squeezed = stored[name + ending].squeeze() if rows > 1 else stored[name + ending]
        return {name: stored[name], name + ending: squeezed}, whole

    check(write(tmp_path, LLAMA, {"quant_method": method, "activation_scheme": "static"}, pack), LLAMA)


def test_exponents_as_scales(tmp_path):
    def pack(name, matrix):
        exponents = torch.randint(110, 125, (matrix.shape[0], matrix.shape[1] // 32)).to(torch.uint8)
        codes = matrix.to(E4M3)
        whole = codes.float() * spread(2.0 ** (exponents.float() - 127), 1, 32, matrix.shape)
        return {name: codes, name + "_scale_inv": exponents}, whole

    made = write(tmp_path, LLAMA, {"quant_method": "mxfp8", "scale_fmt": "ue8m0"}, pack)
    check(made, LLAMA)
    name = "model.layers.0.mlp.down_proj.weight"
    ours = huggingface.load(made.packed)[0].get_parameter("decoder.layers.0.feedforward.sublayer.down.weight")
    assert torch.equal(ours, reference(made.packed, name))


def test_scales_of_activations_and_of_the_cache_are_named_and_left_aside(tmp_path):
    more = {
        "model.layers.0.self_attn.k_scale": torch.ones(1),
        "model.layers.0.self_attn.v_scale": torch.ones(1),
        "model.layers.0.mlp.up_proj.input_scale": torch.ones(1),
        "model.layers.1.mlp.up_proj.activation_scale": torch.ones(1),
    }
    settings = {**FP8, "activation_scheme": "static", "kv_cache_scheme": {"num_bits": 8}, "weight_block_size": [16, 16]}
    made = write(tmp_path, LLAMA, settings, block_fp8(16, 16), more=more)
    with pytest.warns(Notice, match=r"4 scales of activations or of the cache are left aside, the first model.layers.0.mlp"):
        huggingface.load(made.packed)
    check(made, LLAMA)


def test_weights_become_what_the_configuration_or_the_user_says(tmp_path):
    made = write(tmp_path, LLAMA, {**FP8, "weight_block_size": [16, 16]}, block_fp8(16, 16))
    config = json.loads((made.packed / "config.json").read_text())
    whole = dict(huggingface.load(made.whole)[0].named_parameters())
    name = "decoder.layers.0.feedforward.sublayer.down.weight"
    for keys, asked, expected in (
        ({"dtype": "bfloat16"}, None, torch.bfloat16),
        ({"dtype": None, "torch_dtype": "float16"}, None, torch.float16),
        ({"dtype": None}, None, torch.bfloat16),
        ({"dtype": "bfloat16"}, torch.float32, torch.float32),
    ):
        (made.packed / "config.json").write_text(json.dumps({**config, **keys}))
        found = huggingface.load(made.packed, dtype=asked)[0].get_parameter(name)
        assert found.dtype == expected
        assert torch.equal(found, whole[name].to(expected)), "rounded once"


def mxfp4(name, experts):
    """Random codes and exponents: every code is a number."""
    count, inputs, outputs = experts.shape
    generator = torch.Generator().manual_seed(len(name))
    codes = torch.randint(0, 256, (count, outputs, inputs // 32, 16), dtype=torch.uint8, generator=generator)
    exponents = torch.randint(118, 126, (count, outputs, inputs // 32), generator=generator).to(torch.uint8)
    whole = convert_moe_packed_tensors(codes, exponents, dtype=torch.float32)
    return {f"{name}_blocks": codes, f"{name}_scales": exponents}, whole


def stacked(name, tensor):
    return name.endswith(("gate_up_proj", "down_proj")) and tensor.dim() == 3


def test_gpt_oss_in_mxfp4(tmp_path):
    settings = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    made = write(tmp_path, GPT_OSS, settings, mxfp4, stacked)
    ours = check(made, GPT_OSS)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(made.packed, dtype=torch.float32).eval()
    assert logit_gap(ours, theirs, GPT_OSS) <= NEAR


FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def test_experts_in_one_tensor_have_scales_of_their_own(tmp_path):
    def pack(name, experts):
        each = [block_fp8(20, 40)(name, expert) for expert in experts]
        stored = {key: torch.stack([tensors[key] for tensors, _ in each]) for key in each[0][0]}
        return stored, torch.stack([whole for _, whole in each])

    check(write(tmp_path, GPT_OSS, {**FP8, "weight_block_size": [20, 40]}, pack, stacked), GPT_OSS)


def nvfp4(name, matrix):
    """Random codes, a scale of 8 bits for each 16 inputs and one for the matrix."""
    outputs, inputs = matrix.shape
    codes = torch.randint(0, 16, (outputs, inputs), generator=torch.Generator().manual_seed(len(name)))
    scales, outer = (torch.rand(outputs, inputs // 16) + 0.1).to(E4M3), torch.tensor(0.125)
    whole = FP4[codes] * (spread(scales.float(), 1, 16, (outputs, inputs)) * outer)
    stored = {name: (codes[:, ::2] | codes[:, 1::2] << 4).to(torch.uint8), name + "_scale": scales, name + "_scale_2": outer}
    return stored, whole


@pytest.mark.parametrize("beside", [False, True])
def test_nvfp4_of_model_optimizer(tmp_path, beside):
    settings = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "producer": {"name": "modelopt"}}
    more = {"model.layers.0.mlp.up_proj.input_scale": torch.ones(1)}
    made = write(tmp_path, LLAMA, settings, nvfp4, more=more)
    if beside:
        config = json.loads((made.packed / "config.json").read_text())
        del config["quantization_config"], settings["quant_method"]
        (made.packed / "config.json").write_text(json.dumps(config))
        table = {"producer": {"name": "modelopt"}, "quantization": settings | {"exclude_modules": ["lm_head"]}}
        (made.packed / "hf_quant_config.json").write_text(json.dumps(table))
    check(made, LLAMA)


def test_fp8_of_model_optimizer(tmp_path):
    def pack(name, matrix):
        stored, whole = block_fp8(1000, 1000, "_scale")(name, matrix)
        return {name: stored[name], name + "_scale": stored[name + "_scale"].squeeze()}, whole

    settings = {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "ignore": ["lm_head"]}
    check(write(tmp_path, LLAMA, settings, pack), LLAMA)


NAME = "model.layers.1.mlp.up_proj.weight"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.pop(NAME + "_scale_inv"), rf"model\.safetensors: {NAME} is stored as float8_e4m3fn"),
        (
            lambda t: t.update({NAME + "_scale_inv": torch.ones(3, 3)}),
            rf"model\.safetensors: {NAME}_scale_inv has the shape \(3, 3\), and {NAME} of shape \(96, 64\) in fp8 in blocks of "
            r"16 x 16 needs \(6, 4\)",
        ),
        (lambda t: t.pop(NAME), rf"{NAME} are? missing|tensors are missing, the first {NAME}"),
        (lambda t: t.update({NAME: t[NAME][:80]}), rf"{NAME}_scale_inv has the shape \(6, 4\)"),
    ],
)
def test_damaged_tensors_are_named(tmp_path, change, words):
    made = write(tmp_path, LLAMA, {**FP8, "weight_block_size": [16, 16]}, block_fp8(16, 16))
    change_tensors(made.packed, change)
    with pytest.raises(HuggingFaceError, match=words):
        huggingface.load(made.packed)


def test_damaged_blocks_are_named(tmp_path):
    made = write(tmp_path, GPT_OSS, {"quant_method": "mxfp4"}, mxfp4, stacked)
    name = "model.layers.1.mlp.experts.down_proj"
    change_tensors(made.packed, lambda t: t.update({f"{name}_scales": t[f"{name}_scales"][:, :-1]}))
    with pytest.raises(HuggingFaceError, match=rf"model\.safetensors: {name}_scales has the shape .* needs \(5, 64, 1\)"):
        huggingface.load(made.packed)
    change_tensors(made.packed, lambda t: t.pop(f"{name}_scales"))
    with pytest.raises(HuggingFaceError, match=rf"{name}_blocks cannot be read without {name}_scales"):
        huggingface.load(made.packed)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({**FP8, "weight_block_size": [128]}, r"fp8: weight_block_size = \[128\] is not read here, only two whole numbers"),
        ({**FP8, "expert_dtype": "fp4"}, r'fp8: expert_dtype = "fp4" is not read here, only fp8; take the checkpoint in full'),
        ({**FP8, "rotation": "hadamard"}, "keys that are not known here.*rotation"),
        ({"quant_method": "mxfp3"}, 'stored as "mxfp3", which is not read here; did you mean'),
        ({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, 'quant_algo = "W4A8_AWQ" is not read here, only nvfp4 or fp8'),
        ({"quant_method": ["fp8"]}, "which is not read here"),
        ({}, None),
    ],
)
def test_unknown_variants_are_refused_with_the_remedy(tmp_path, settings, words):
    made = write(tmp_path, LLAMA, settings, lambda name, matrix: ({name: matrix}, matrix))
    if words is None:
        check(made, LLAMA)
        return
    with pytest.raises(HuggingFaceError, match=words):
        huggingface.load(made.packed)
    assert not in_layers("model.embed_tokens.weight", torch.ones(1, 1))


def test_a_composite_whose_text_model_says_the_format(tmp_path):
    """`quantization_config` inside `text_config`, beside a tower in full precision."""
    case, format = case_of("llava"), {**FP8, "weight_block_size": [8, 16]}

    def texts(name, tensor):
        return name.startswith("language_model.") and in_layers(name, tensor)

    made = write(tmp_path, case, format, block_fp8(8, 16), texts)
    path = made.packed / "config.json"
    config = json.loads(path.read_text())
    config["text_config"]["quantization_config"] = config.pop("quantization_config")
    path.write_text(json.dumps(config))
    assert any(way.restored for way in huggingface.form_of(made.packed).ways)
    packed, whole = (dict(huggingface.load(directory)[0].named_parameters()) for directory in (made.packed, made.whole))
    assert packed.keys() == whole.keys()
    assert all(torch.equal(value, whole[name]) for name, value in packed.items())
