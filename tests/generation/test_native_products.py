"""Products of rows with a matrix whose rows lie side by side, of any numbers of both, beside sums in fp64."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from anyformer.generation.native.captured import captured
from anyformer.generation.native.decode import NativeStep, unavailable
from anyformer.generation.native.table import OPERATIONS
from anyformer.generation.native.translated import WRITES, translated
from anyformer.native import INSTRUCTIONS, instructions
from anyformer.parts.experts.chosen import chosen_product

ROWS = (1, 2, 4, 5, 6, 16, 17, 35)
"""Less than, as many as, and more than are multiplied at once, with all remainders."""
SIZES = ((67, 7), (64, 264), (130, 768), (1, 523))
"""Outputs and inputs: fewer than a vector, whole ones, more than a block of them, and remainders."""


def table(function, *given):
    """The table of one function of tensors, and what torch gives."""
    with torch.inference_mode(), captured(WRITES) as operators:
        result = function(*given)
    return translated(operators, given, (), result), result


def drawn(outputs, inputs, rows):
    draws = torch.Generator().manual_seed(outputs * inputs + rows)
    return torch.randn(outputs, inputs, generator=draws), torch.randn(rows, inputs, generator=draws)


def assert_close(found, x, W):
    """An error of rounding in fp32 for every product: a number that is left out, or taken twice, is far more."""
    exact, size = x.double() @ W.double().T, x.double().abs() @ W.double().abs().T
    assert found.shape == exact.shape
    assert ((found.double() - exact).abs() <= 1e-6 * size).all(), (tuple(x.shape), tuple(W.shape), W.dtype)


def check_kinds():
    """Matrices in fp32 and bf16; those in bf16 are read as they lie, also where torch multiplies by a copy in fp32."""
    for outputs, inputs in SIZES:
        for rows in ROWS:
            W, x = drawn(outputs, inputs, rows)
            half = W.bfloat16()
            for matrix, made in ((W, table(F.linear, x, W)), (half, table(lambda x, W: F.linear(x, W.float()), x, half))):
                assert sum(made[0].sizes) <= 2 * rows * outputs * 4, "no copy of the matrix"
                assert_close(NativeStep(made[0], ())(x, matrix), x, matrix)


def _by_codes(codes, scales, x):
    return torch._weight_int8pack_mm(x, codes, scales)


def check_codes():
    """Codes of 8 bits with a scale per output: torch's kernel takes rows in bf16, of sixty-fours of inputs."""
    for outputs, inputs in ((64, 64), (80, 320), (144, 768)):
        for rows in ROWS:
            W, x = drawn(outputs, inputs, rows)
            codes, scales = (W * 40).clamp(-128, 127).to(torch.int8), W[:, 0].abs().bfloat16()
            made, _ = table(partial(_by_codes, codes, scales), x.bfloat16())
            found, restored = NativeStep(made, ())(x.bfloat16()), codes * scales.float()[:, None]
            exact = x.bfloat16().double() @ restored.double().T
            torch.testing.assert_close(found.double(), exact, atol=1e-5 * exact.abs().max().item(), rtol=2**-8)


def _by_choice(choice, x, matrices):
    return chosen_product(x, matrices, choice)


def check_chosen():
    """Rows that choose one of several matrices, some of which many chose and some none."""
    for dtype in (torch.float32, torch.bfloat16):
        matrices, x = torch.stack([drawn(70, 269, each)[0] for each in range(4)]).to(dtype), drawn(70, 269, 19)[1].to(dtype)
        choice = torch.tensor([2] * 9 + [0, 2, 0] + [2] * 5 + [3, 0])
        made, _ = table(partial(_by_choice, choice), x, matrices)
        found = NativeStep(made, ())(x, matrices)
        exact = torch.einsum("qi,qoi->qo", x.double(), matrices[choice].double())
        close = 1e-4 if dtype == torch.float32 else 2**-7
        torch.testing.assert_close(found.double(), exact, atol=close * 10, rtol=close)


def check_chosen_of_two_sets():
    """Rows that choose a matrix from each of two sets: one operation, but where the first makes the rows of the second."""
    first, second = (torch.stack([drawn(70, 70, 4 * part + each)[0] for each in range(4)]) for part in range(2))
    x, choice = drawn(70, 70, 19)[1], torch.tensor([2] * 9 + [0, 2, 0] + [2] * 5 + [3, 0])

    def both(x, first, second):
        one, other = chosen_product(x, first, choice), chosen_product(x, second, choice)
        return one * 2 + other

    def in_turn(x, first, second):
        return chosen_product(chosen_product(x, first, choice), second, choice)

    kind, found = OPERATIONS.index("chosen product"), list[int]()
    for function in (both, in_turn):
        for matrices in ((first, second), (first.bfloat16(), second.bfloat16())):
            made, expected = table(function, x.to(matrices[0].dtype), *matrices)
            found.append([int(made.words[start]) for start in made.starts].count(kind))
            close = 1e-3 if matrices[0].dtype == torch.float32 else 2**-5
            step = NativeStep(made, ())(x.to(matrices[0].dtype), *matrices)
            torch.testing.assert_close(step, expected, atol=close * expected.abs().max().item(), rtol=close)
    assert found == [1, 1, 2, 2]


def _by_copies(x, w):
    return x @ w.float()


def check_batches():
    """Batches of matrices whose columns, or rows, lie side by side; batches of one among their sizes."""
    for rows, depth, across in ((1, 269, 70), (1, 66, 320), (1, 7, 32), (3, 7, 130), (4, 64, 64), (12, 269, 67), (35, 300, 33)):
        draws = torch.Generator().manual_seed(rows)
        x, w = (torch.randn(3, 1, *size, generator=draws) for size in ((rows, depth), (across, depth)))
        for wide in (w.mT, w.mT.contiguous()):
            for matrices in (wide, wide.bfloat16()):
                made, _ = table(_by_copies, x, matrices)
                found, exact = NativeStep(made, ())(x, matrices), x.double() @ matrices.double()
                torch.testing.assert_close(found.double(), exact, atol=1e-6 * depth, rtol=1e-5)


def check_not_a_number():
    """A row with one has it everywhere after softmax, and no other row has."""
    x = torch.randn(3, 40, generator=torch.Generator().manual_seed(0))
    for place in (0, 20, 39):
        given = x.clone()
        given[1, place] = torch.nan
        made, expected = table(partial(torch.softmax, dim=-1), given)
        torch.testing.assert_close(NativeStep(made, ())(given), expected, equal_nan=True)


CHECKS = (check_kinds, check_codes, check_chosen, check_chosen_of_two_sets, check_batches, check_not_a_number)


def check_on_avx2_alone():
    assert instructions() == [INSTRUCTIONS["AVX2"]]
    for check in CHECKS:
        check()


@pytest.fixture(autouse=True)
def compiled():
    if unavailable():
        pytest.skip(unavailable())


@pytest.mark.parametrize("check", CHECKS)
def test_products_are_those_of_a_sum_in_fp64(check):
    check()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86")
def test_so_they_are_with_avx2_alone():
    """A processor with more has other kernels, so that these are asked for in a process of its own."""
    code = f"import runpy; runpy.run_path({__file__!r})['check_on_avx2_alone']()"
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": "avx2", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    told = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr
