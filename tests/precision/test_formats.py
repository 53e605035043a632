"""Number formats against torch's own types, bit for bit, and against torchao's."""

from __future__ import annotations

from math import isnan

import pytest
import torch
from torchao.prototype import custom_fp_utils as custom

from anyformer.precision.formats import (
    BF16,
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    E8M0,
    FP16,
    FP32,
    FP64,
    INT4,
    INT8,
    NUMBER_FORMATS,
    TF32,
)
from anyformer.precision.rounding import on_grid, rounded

FLOATS = [FP64, FP32, BF16, FP16, E4M3, E5M2]


def assert_equal(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def of_bits(codes: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return codes.to({8: torch.uint8, 16: torch.int16}[dtype.itemsize * 8]).view(dtype).double()


@pytest.mark.parametrize("format", FLOATS, ids=lambda format: format.name)
def test_the_ranges_are_torchs(format):
    info = torch.finfo(format.dtype)
    assert (format.bits, format.largest, format.smallest_normal, format.step) == (info.bits, info.max, info.tiny, info.eps)
    assert format.smallest == info.smallest_normal * info.eps


def test_the_ranges_are_the_published_ones():
    """OCP microscaling formats (2023), tables 1 to 7; NVIDIA's tf32."""
    assert [(f.largest, f.smallest_normal, f.smallest) for f in (E3M2, E2M3, E2M1)] == [
        (28, 0.25, 0.0625),
        (7.5, 1, 0.125),
        (6, 1, 0.5),
    ]
    assert (E8M0.largest, E8M0.smallest) == (2.0**127, 2.0**-127)
    assert (E4M3.largest, E4M3.smallest_normal, E4M3.smallest) == (448, 2**-6, 2**-9)
    assert (E5M2.largest, E5M2.smallest_normal, E5M2.smallest) == (57344, 2**-14, 2**-16)
    assert [(f.bits, f.largest, f.step, f.smallest) for f in (INT8, INT4)] == [(8, 127, 1, 1), (4, 7, 1, 1)]
    assert (TF32.bits, TF32.step, TF32.smallest_normal) == (19, 2**-10, FP32.smallest_normal)
    assert {name: format.bits for name, format in NUMBER_FORMATS.items()} == {
        "fp64": 64, "fp32": 32, "tf32": 19, "bf16": 16, "fp16": 16, "fp8_e4m3": 8, "fp8_e5m2": 8,
        "fp6_e3m2": 6, "fp6_e2m3": 6, "fp4_e2m1": 4, "e8m0": 8, "int8": 8, "int4": 4,
    }  # fmt: skip


@pytest.mark.parametrize("format", [BF16, FP16, E4M3, E5M2, E8M0], ids=lambda format: format.name)
def test_every_code_is_torchs(format):
    codes = torch.arange(2**format.bits)
    theirs = of_bits(codes, format.dtype)
    ours = torch.tensor([format.value(code) for code in range(2**format.bits)], dtype=torch.float64)
    assert torch.equal(ours.nan_to_num(nan=-1.5), theirs.nan_to_num(nan=-1.5))
    assert torch.equal(ours.signbit()[~ours.isnan()], theirs.signbit()[~theirs.isnan()])


def numbers() -> torch.Tensor:
    """All bfloat16 numbers, all fp16 ones, and every number of the narrow formats with those halfway between and about them."""
    codes = torch.arange(2**16)
    found = [of_bits(codes, torch.bfloat16), of_bits(codes, torch.float16)]
    for format in (E4M3, E5M2, E3M2, E2M3, E2M1, INT8, INT4):
        grid = torch.tensor([format.value(code) for code in range(2**format.bits)], dtype=torch.float64)
        grid = grid[grid.isfinite()].sort().values
        middle = (grid[1:] + grid[:-1]) / 2
        beyond = torch.tensor([format.largest + format.step, format.largest * 17 / 16, format.largest * 1.2])
        found += [x * side for x in (grid, middle, beyond) for side in (1, 1 - 2**-20, 1 + 2**-20)]
    return torch.cat(found).float()


@pytest.mark.parametrize("format", [BF16, FP16, E4M3, E5M2], ids=lambda format: format.name)
def test_rounding_by_its_definition_is_torchs_cast(format):
    x = numbers()
    limited = x.clamp(-format.largest, format.largest)
    expected = limited.to(format.dtype).float()
    for found in (on_grid(limited.double(), format).float(), rounded(x, format), rounded(x.double(), format).float()):
        assert_equal(found, expected)


@pytest.mark.parametrize("format", [BF16, FP16], ids=lambda format: format.name)
def test_overflow_to_infinity_is_torchs(format):
    x = numbers()
    assert_equal(on_grid(x.double(), format).float(), x.to(format.dtype).float())
    assert_equal(rounded(x, format, "infinity"), x.to(format.dtype).float())


@pytest.mark.parametrize(("format", "beyond"), [(E4M3, float("nan")), (E5M2, float("inf"))], ids=str)
def test_overflow_of_8_bits(format, beyond):
    """From half a step beyond the largest number on: the tie would round to an even number that the format does not have."""
    half = format.step * 2.0 ** torch.tensor(format.largest).log2().floor().item() / 2
    odd = format is E5M2  # 57344 ends in an odd mantissa, 448 in an even one
    tie, below, above = torch.tensor([[format.largest + half], [format.largest + half * 0.99], [format.largest + half * 1.01]])
    assert rounded(below, format, "infinity").item() == format.largest
    assert_equal(rounded(above, format, "infinity"), torch.tensor([beyond]))
    assert_equal(rounded(tie, format, "infinity"), torch.tensor([beyond if odd else format.largest]))
    assert rounded(above, format).item() == rounded(tie, format).item() == format.largest


def test_double_precision_is_rounded_once():
    """1 + 2^-11 + 2^-40 is above the tie between two fp16 numbers; by way of fp32 it would fall on it, and go to 1."""
    x = torch.tensor([1 + 2**-11 + 2**-40], dtype=torch.float64)
    assert rounded(x, FP16).item() == 1 + 2**-10
    assert rounded(torch.tensor([1 + 2**-24 + 2**-50], dtype=torch.float64), FP32).item() == 1 + 2**-23


@pytest.mark.parametrize("format", [E3M2, E2M3, E2M1, INT8, INT4], ids=lambda format: format.name)
def test_formats_without_a_type_take_the_nearest_number(format):
    """Against the nearest of all values, the even code where two are as near."""
    x = numbers()
    x = x[x.isfinite()]
    grid = torch.tensor([format.value(code) for code in range(2 ** (format.bits - 1))], dtype=torch.float64)
    size = x.double().abs().clamp(max=format.largest)
    above = torch.searchsorted(grid, size).clamp(max=len(grid) - 1)
    below = (above - 1).clamp(min=0)
    up, down = grid[above] - size, size - grid[below]
    nearest = torch.where((up < down) | ((up == down) & (above % 2 == 0)), above, below)
    assert torch.equal(rounded(x, format).double(), grid[nearest].copysign(x))
    assert torch.equal(rounded(x, format, "infinity"), rounded(x, format))


@pytest.mark.parametrize(("format", "bits"), [(E3M2, (3, 2)), (E2M3, (2, 3)), (E2M1, (2, 1))], ids=str)
def test_narrow_floats_are_torchaos(format, bits):
    x = numbers()
    x = x[x.isfinite()]
    theirs = custom._floatx_unpacked_to_f32(custom._f32_to_floatx_unpacked(x, *bits), *bits)
    assert torch.equal(rounded(x, format), theirs)


def test_what_is_no_number_stays_so():
    x = torch.tensor([float("nan"), float("inf"), -float("inf")])
    assert all(isnan(rounded(x, format)[0]) for format in NUMBER_FORMATS.values() if format.sign)
    assert rounded(x, E4M3).tolist()[1:] == [448, -448]
    assert rounded(x, E5M2, "infinity").tolist()[1:] == [float("inf"), -float("inf")]
    assert rounded(x, E4M3, "infinity").isnan().all()
    with pytest.raises(ValueError, match="e8m0 holds powers of two"):
        rounded(x, E8M0)
