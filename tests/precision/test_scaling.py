"""Numbers that share a scale: against torchao's formats, and against plain loops."""

from __future__ import annotations

import pytest
import torch
from torchao.float8.config import ScalingGranularity
from torchao.float8.float8_utils import tensor_to_scale, to_fp8_saturated
from torchao.prototype.mx_formats.mx_tensor import MXTensor
from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale

from anyformer.precision import E4M3, E5M2, MXFP4, MXFP8, NVFP4, SCALED_FORMATS
from anyformer.precision.rounding import rounded
from anyformer.precision.scaled_rounding import maximum, multiplier, scaled, scaled_rounded


def weights(rows: int = 24, columns: int = 256) -> torch.Tensor:
    """Numbers whose rows and blocks differ widely in size, with zeros and one row of nothing else."""
    torch.manual_seed(3)
    x = torch.randn(rows, columns) * torch.logspace(-6, 3, rows)[:, None]
    x[:, ::16] *= torch.logspace(-2, 2, columns // 16)
    x[5] = 0
    return x


@pytest.mark.parametrize("per", ["tensor", "row"])
@pytest.mark.parametrize(
    ("element", "dtype", "name"), [(E4M3, torch.float8_e4m3fn, "fp8"), (E5M2, torch.float8_e5m2, "fp8_e5m2")]
)
def test_fp8_is_torchaos(per, element, dtype, name):
    x, format = weights(), SCALED_FORMATS[f"{name}_{per}"]
    granularity = ScalingGranularity.TENSORWISE if per == "tensor" else ScalingGranularity.AXISWISE
    theirs = tensor_to_scale(x, dtype, scaling_granularity=granularity, axiswise_dim=None if per == "tensor" else -1)
    codes, by = scaled(x, format)
    assert torch.equal(by, theirs)
    assert torch.equal(codes, to_fp8_saturated(x * theirs, dtype).float())
    assert format.element is element


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("mxfp8", torch.float8_e4m3fn),
        ("mxfp8_e5m2", torch.float8_e5m2),
        ("mxfp6_e3m2", "fp6_e3m2"),
        ("mxfp6_e2m3", "fp6_e2m3"),
        ("mxfp4", torch.float4_e2m1fn_x2),
    ],
)
def test_mx_is_torchaos(name, theirs):
    x = weights()
    expected = MXTensor.to_mx(x, theirs, block_size=32)
    assert torch.equal(scaled_rounded(x, SCALED_FORMATS[name]), expected.dequantize(torch.float32))
    stored = (127 - multiplier(maximum(x, SCALED_FORMATS[name]), SCALED_FORMATS[name]).log2()).to(torch.uint8)
    assert torch.equal(stored, expected.scale.view(torch.uint8))


def test_nvfp4_is_torchaos():
    """Codes and scales bit for bit; numbers to the rounding of fp32, as the two divide in another order."""
    x = weights()
    expected = NVFP4Tensor.to_nvfp4(x, per_tensor_scale=per_tensor_amax_to_scale(x.abs().amax()))
    torch.testing.assert_close(scaled_rounded(x, NVFP4), expected.dequantize(torch.float32), rtol=3e-7, atol=0)


@pytest.mark.parametrize(("name", "size", "largest"), [("int8_row", 200, 127), ("int4_32", 32, 7), ("int4_128", 128, 7)])
def test_integers_against_a_plain_loop(name, size, largest):
    """Python's `round` takes ties to the even number too."""
    x = weights()[:, :200]
    found = scaled_rounded(x, SCALED_FORMATS[name])
    for row, back in zip(x.tolist(), found, strict=True):
        for start in range(0, 200, size):
            piece = row[start : start + size]
            step = max(max(abs(number) for number in piece), 1e-12) / largest
            expected = torch.tensor([round(number / step) * step for number in piece])
            torch.testing.assert_close(back[start : start + size], expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["mxfp8", "mxfp4", "nvfp4", "int4_32"])
def test_a_shorter_last_block_is_one_filled_with_zeros(name):
    x = weights()
    x[:, 200:] = 0
    assert torch.equal(scaled_rounded(x[:, :200], SCALED_FORMATS[name]), scaled_rounded(x, SCALED_FORMATS[name])[:, :200])


def test_blocks_of_nvfp4_vanish_that_are_much_smaller_than_the_tensors_largest():
    """E4M3 holds scales from 2^-6 to 448: a ratio of 28,672 between blocks."""
    x = torch.ones(1, 64)
    x[:, 32:] = 1 / 28672 / 30
    assert (scaled_rounded(x, NVFP4)[:, 32:] == 0).all()
    assert (scaled_rounded(x, MXFP4)[:, 32:] != 0).all()


def test_a_scale_of_earlier_steps_saturates():
    codes, by = scaled(torch.tensor([[1.0, 2.0, 8.0]]), SCALED_FORMATS["fp8_tensor"], torch.tensor(448 / 4.0))
    assert codes.tolist() == [[112, 224, 448]]
    assert by.item() == 112


def test_scales_have_the_shape_of_what_shares_them():
    x = weights()[:, :200]
    shapes = {name: tuple(scaled(x, format)[1].shape) for name, format in SCALED_FORMATS.items()}
    assert shapes["fp8_tensor"] == ()
    assert shapes["int8_row"] == (24, 1)
    assert (shapes["int4_32"], shapes["int4_128"], shapes["mxfp8"], shapes["nvfp4"]) == ((24, 7), (24, 2), (24, 7), (24, 13))


@pytest.mark.parametrize("format", [MXFP8, MXFP4], ids=lambda format: format.name)
def test_mx_scales_are_powers_of_two_so_that_they_round_nothing(format):
    x = torch.tensor([[2.0**k for k in range(-3, 3)]])
    assert torch.equal(scaled_rounded(x * 2**40, format), scaled_rounded(x, format) * 2**40)
    assert torch.equal(rounded(x, E4M3), x)
