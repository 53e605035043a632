"""Weights in few bits against torchao, plain loops, and the price."""

from __future__ import annotations

import pytest
import torch
from torchao.quantization import Float8Tensor
from torchao.quantization.granularity import PerRow, PerTensor
from torchao.quantization.quantize_.workflows.nf4.nf4_tensor import to_nf4

from anyformer.operations import Weight
from anyformer.quantising import FORMATS, Grouped, NormalFloat, Quantising
from anyformer.quantising.normal_float import NF4_NUMBERS
from anyformer.quantising.packing import packed, unpacked
from anyformer.quantising.tensor import Quantised

NARROW = [format for format in FORMATS.values() if isinstance(format, Quantising)]


def matrix(*shape: int) -> torch.Tensor:
    torch.manual_seed(1)
    x = torch.randn(shape) * 0.02
    x[..., 3, :] *= 30
    x[..., 5, :] = 0
    return x


@pytest.mark.parametrize("shape", [(24, 200), (7, 33), (3, 9, 130)], ids=str)
@pytest.mark.parametrize("format", NARROW, ids=lambda format: format.name)
def test_bytes_predicted_are_bytes_allocated(format, shape):
    role = "expert" if len(shape) == 3 else "column"
    made = Quantised.of(matrix(*shape), format)
    assert made.stored_bytes == format.bytes(Weight(shape, role, "matrix"))
    assert {name: (tuple(plane.shape), str(plane.dtype).removeprefix("torch.")) for name, plane in made.planes.items()} == dict(
        format.planes(shape)
    )
    assert format.bytes(Weight(shape, role, "matrix", copies=3)) == 3 * made.stored_bytes
    assert format.bytes(Weight(shape, role, "head")) == 2 * made.numel()


@pytest.mark.parametrize("format", NARROW, ids=lambda format: format.name)
def test_numbers_come_back_and_what_is_zero_stays_so(format):
    x = matrix(24, 200)
    back = Quantised.of(x, format).restored
    assert (back[5] == 0).all()
    error = ((back - x).norm(dim=1) / x.norm(dim=1))[[i for i in range(24) if i != 5]]
    assert error.median() < {8: 0.03, 4: 0.12}[format.bits]


@pytest.mark.parametrize("format", NARROW, ids=lambda format: format.name)
def test_experts_are_matrices_of_their_own(format):
    x = matrix(3, 24, 64)
    x[1] *= 100
    whole = Quantised.of(x, format).restored
    if isinstance(format, NormalFloat):  # whose blocks of scales reach over experts
        return
    assert torch.equal(whole, torch.stack([Quantised.of(one, format).restored for one in x]))


@pytest.mark.parametrize(("name", "granularity"), [("fp8", PerTensor()), ("fp8-row", PerRow())], ids=str)
def test_fp8_is_torchaos(name, granularity):
    x = matrix(32, 64)
    x[5] = x[4]  # for a row of zeros torchao has no scale
    made, theirs = Quantised.of(x, FORMATS[name]), Float8Tensor.from_hp(x, torch.float8_e4m3fn, granularity=granularity)
    assert torch.equal(made.planes["codes"].float(), theirs.qdata.float())
    assert torch.equal(made.planes["scales"].flatten(), theirs.scale.flatten())


@pytest.mark.parametrize("name", ["int4", "int4-64", "int4-32"])
def test_int4_against_a_plain_loop(name):
    x, size = matrix(8, 150), FORMATS[name].group
    back = Quantised.of(x, FORMATS[name]).restored
    for row, returned in zip(x, back, strict=True):
        for piece, found in zip(row.split(size), returned.split(size), strict=True):
            low, high = min(piece.min().item(), 0), max(piece.max().item(), 0)
            scale = torch.tensor(max((high - low) / 15, 1e-12)).bfloat16().item()
            zero = min(max(round(-low / scale), 0), 15)
            for number, got in zip(piece.tolist(), found.tolist(), strict=True):
                levels = [(code - zero) * scale for code in range(16)]
                assert abs(got - number) <= min(abs(level - number) for level in levels) + 1e-8
                assert min(abs(got - level) for level in levels) < 1e-7


def test_nf4_has_torchaos_numbers_and_error():
    """Its scales are stored with a mean, ours without, so codes may differ next to a boundary."""
    x = torch.randn(256, 256, generator=torch.Generator().manual_seed(0)) * 0.05
    theirs = to_nf4(x, 64, 256)
    torch.testing.assert_close(theirs.nf4, torch.tensor(NF4_NUMBERS), rtol=0, atol=5.1e-5)  # four decimals
    back, other = Quantised.of(x, FORMATS["nf4"]).restored, theirs.get_original_weight()
    assert ((back - x).norm() / (other - x).norm()).item() == pytest.approx(1, abs=0.02)
    assert ((back - other).abs() > 0.02 * x.abs().max()).double().mean() < 0.01


def test_two_codes_share_a_byte():
    codes = torch.randint(0, 16, (3, 7), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    assert packed(codes).shape == (3, 4)
    assert torch.equal(unpacked(packed(codes), 7), codes)


def test_scales_are_rounded_before_codes():
    """With a scale of 8 bits of mantissa, codes that were chosen with the exact one would be off by up to half a step more."""
    format = FORMATS["int8"]
    assert isinstance(format, Grouped)
    x = matrix(8, 64)
    scale, _ = format.grid(x)
    assert torch.equal(scale, scale.bfloat16().float())
    inner = (x / scale).abs() < 127
    assert (((Quantised.of(x, format).restored - x) / scale).abs()[inner] <= 0.5001).all()


def test_scales_of_nf4_use_all_of_their_8_bits():
    """The largest of 256 blocks has 255, and others their share of that."""
    x = torch.zeros(4, 64)
    x[:, 0] = torch.tensor([1.0, 0.75, 0.25, 1 / 255])
    planes = FORMATS["nf4"].quantised(x)
    assert planes["scales"].tolist() == [255, 191, 64, 1]
    assert planes["factors"].tolist() == pytest.approx([1 / 255])
