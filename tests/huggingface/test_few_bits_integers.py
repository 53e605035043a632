"""GPTQ and AWQ: packed here bit by bit from the description of the formats, whose tools need a GPU to install."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from torch import Tensor

from anyformer import huggingface
from anyformer.huggingface import HuggingFaceError
from anyformer.huggingface.stored.numbers import whole_numbers
from huggingface.few_bits import LLAMA, change_tensors, check, write

GPTQ = {"quant_method": "gptq", "desc_act": False, "sym": False, "lm_head": False, "damp_percent": 0.1, "true_sequential": True}
AWQ = {"quant_method": "awq", "bits": 4, "zero_point": True, "version": "gemm", "modules_to_not_convert": None}


def words_of(codes: Iterable[int], bits: int) -> list[int]:
    """Codes one after the other from the lowest bit on, cut into signed words of 32 bits."""
    codes = list(codes)
    stream = sum(code << (bits * place) for place, code in enumerate(codes))
    words = [(stream >> (32 * i)) & 0xFFFFFFFF for i in range(-(-len(codes) * bits // 32))]
    return [word - 2**32 if word >= 2**31 else word for word in words]


def down_columns(codes: Tensor, bits: int) -> Tensor:
    """(R, C) -> words (R bits / 32, C)."""
    return torch.tensor([words_of(column, bits) for column in codes.mT.tolist()], dtype=torch.int32).mT


def along_rows(codes: Tensor, bits: int) -> Tensor:
    return torch.tensor([words_of(row, bits) for row in codes.tolist()], dtype=torch.int32)


def gptq(bits: int, group: int, version: int, order: bool):
    """Random codes, scales and zero points; with `order` every input has a group at random."""

    def pack(name, matrix):
        outputs, inputs = matrix.shape
        generator = torch.Generator().manual_seed(len(name))
        count = 1 if group == -1 else -(-inputs // group)
        codes = torch.randint(0, 2**bits, (inputs, outputs), generator=generator)
        # Version 1 cannot store 0 as a zero point without touching its neighbours.
        zeros = torch.randint(1, 2**bits, (count, outputs), generator=generator)
        scales = (torch.rand(count, outputs, generator=generator) * 0.4 / 2**bits).half()
        of = torch.arange(inputs) // (inputs if group == -1 else group)
        of = of[torch.randperm(inputs, generator=generator)] if order else of
        whole = torch.stack([scales[of[i]].float() * (codes[i] - zeros[of[i]]) for i in range(inputs)], 1)
        stored = {
            "qweight": down_columns(codes, bits),
            "qzeros": along_rows(zeros - int(version == 1), bits),
            "scales": scales,
            "g_idx": of.int(),
        }
        stem = name.removesuffix("weight")
        return {stem + part: tensor for part, tensor in stored.items()}, whole

    return pack


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_gptq_of_every_width_and_version(tmp_path, bits, version):
    settings = {**GPTQ, "bits": bits, "group_size": 32, "checkpoint_format": "gptq" if version == 1 else "gptq_v2"}
    check(write(tmp_path, LLAMA, settings, gptq(bits, 32, version, order=False)), LLAMA)


@pytest.mark.parametrize(("group", "order"), [(-1, False), (48, False), (32, True)])
def test_gptq_in_other_groups_and_in_another_order(tmp_path, group, order):
    settings = {**GPTQ, "bits": 4, "group_size": group, "desc_act": order}
    made = write(tmp_path, LLAMA, settings, gptq(4, group, 1, order))
    check(made, LLAMA)
    if not order:  # the order of the inputs need not be there
        change_tensors(made.packed, lambda t: [t.pop(name) for name in list(t) if name.endswith("g_idx")])
        check(made, LLAMA)


def test_a_zero_point_of_nought_wraps_in_version_1(tmp_path):
    """It is stored as -1 in as many bits as there are."""
    made = write(tmp_path, LLAMA, {**GPTQ, "bits": 4, "group_size": 32}, gptq(4, 32, 1, order=False))
    name = "model.layers.0.mlp.up_proj"

    def change(tensors):
        tensors[f"{name}.qzeros"] = torch.full_like(tensors[f"{name}.qzeros"], -1)  # every code is 15

    change_tensors(made.packed, change)
    found = huggingface.load(made.packed)[0].get_parameter("decoder.layers.0.feedforward.sublayer.up.weight")
    assert found.min() == 0, "codes are not negative"


def test_three_bits_cross_words_as_autogptq_packs_them():
    """Ten numbers, two bits of the next; its third bit, ten numbers, one bit of the next; its other two, ten numbers."""
    numbers = torch.randint(0, 8, (32,)).tolist()
    first = sum(numbers[i] << 3 * i for i in range(10)) | (numbers[10] & 3) << 30
    second = numbers[10] >> 2 | sum(numbers[11 + i] << 3 * i + 1 for i in range(10)) | (numbers[21] & 1) << 31
    third = numbers[21] >> 1 | sum(numbers[22 + i] << 3 * i + 2 for i in range(10))
    words = torch.tensor([[first, second, third]], dtype=torch.int64).to(torch.int32)
    assert whole_numbers(words, 3, 32).tolist() == [numbers]


def awq(group: int):
    """Random codes of eight outputs in a word, in the order 0 2 4 6 1 3 5 7 from the lowest bits on."""

    def pack(name, matrix):
        outputs, inputs = matrix.shape
        generator = torch.Generator().manual_seed(len(name))
        count = 1 if group == -1 else inputs // group
        codes = torch.randint(0, 16, (inputs, outputs), generator=generator)
        zeros = torch.randint(0, 16, (count, outputs), generator=generator)
        scales = (torch.rand(count, outputs, generator=generator) * 0.03).half()
        of = torch.arange(inputs) // (inputs if group == -1 else group)
        whole = ((codes - zeros[of]) * scales[of].float()).mT.contiguous()

        def shuffled(rows):
            return [
                row[8 * word + place] for row in [rows] for word in range(len(row) // 8) for place in (0, 2, 4, 6, 1, 3, 5, 7)
            ]

        packed = (along_rows(torch.tensor([shuffled(row) for row in each.tolist()]), 4) for each in (codes, zeros))
        stem = name.removesuffix("weight")
        return dict(zip((f"{stem}qweight", f"{stem}qzeros", f"{stem}scales"), (*packed, scales), strict=True)), whole

    return pack


@pytest.mark.parametrize("group", [32, -1])
@pytest.mark.parametrize("spelling", ["today", "AutoAWQ"])
def test_awq(tmp_path, group, spelling):
    old = {"quant_method": "awq", "w_bit": 4, "q_group_size": group, "zero_point": True, "version": "GEMM"}
    settings = {**AWQ, "group_size": group} if spelling == "today" else old
    check(write(tmp_path, LLAMA, settings, awq(group)), LLAMA)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({**GPTQ, "bits": 5}, "gptq: bits = 5 is not read here, only 2 or 3 or 4 or 8"),
        ({**GPTQ, "checkpoint_format": "marlin"}, 'checkpoint_format = "marlin" is not read here, only gptq or gptq_v2'),
        ({**GPTQ, "dynamic": {"+:.*down.*": {"bits": 8}}}, "gptq: dynamic = .*modules that are left out"),
        ({**GPTQ, "dynamic": 5}, "dynamic = 5 is not read here"),
        ({**GPTQ, "group_size": 0}, "group_size = 0"),
        ({**AWQ, "version": "gemv"}, 'awq: version = "gemv" is not read here, only gemm; take the checkpoint in full'),
        ({**AWQ, "bits": 8}, "awq: bits = 8"),
        ({**AWQ, "zero_point": False}, "awq: zero_point = false is not read here"),
        ({**AWQ, "rotated": True}, "awq has keys that are not known here.*rotated = true"),
    ],
)
def test_variants_that_are_not_read_are_refused(tmp_path, settings, words):
    made = write(tmp_path, LLAMA, settings, lambda name, matrix: ({name: matrix}, matrix))
    with pytest.raises(HuggingFaceError, match=words):
        huggingface.load(made.packed)


STEM = "model.layers.1.mlp.up_proj"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.pop(f"{STEM}.scales"), rf"model\.safetensors: {STEM}.qweight cannot be read without {STEM}.scales"),
        (
            lambda t: t.update({f"{STEM}.scales": t[f"{STEM}.scales"][:1]}),
            rf"{STEM}.scales has the shape \(1, 96\).*needs \(2, 96\)",
        ),
        (lambda t: t.update({f"{STEM}.qzeros": t[f"{STEM}.qzeros"][:, :3]}), rf"{STEM}.qzeros has the shape \(2, 3\)"),
        (lambda t: t.update({f"{STEM}.g_idx": t[f"{STEM}.g_idx"] + 1}), rf"{STEM}.g_idx names group 2, and there are 2"),
        (
            lambda t: t.update({f"{STEM}.weight": torch.ones(96, 64)}),
            rf"{STEM}.weight is there in full, and once more in few bits",
        ),
        (lambda t: t.update({f"{STEM}.qweight": t[f"{STEM}.qweight"].flatten()}), rf"{STEM}.weight cannot be restored from"),
        (lambda t: t.update({"model.norm.qzeros": torch.ones(1)}), r"1 tensors have no place.*model\.norm\.qzeros"),
    ],
)
def test_damaged_tensors_are_named(tmp_path, change, words):
    made = write(tmp_path, LLAMA, {**GPTQ, "bits": 4, "group_size": 32}, gptq(4, 32, 1, order=True))
    change_tensors(made.packed, change)
    with pytest.raises(HuggingFaceError, match=words):
        huggingface.load(made.packed)


def test_a_truncated_file_is_named(tmp_path):
    made = write(tmp_path, LLAMA, {**AWQ, "group_size": 32}, awq(32))
    path = made.packed / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(HuggingFaceError, match=r"model\.safetensors: cannot be read as safetensors"):
        huggingface.load(made.packed)
