"""Code that torch compiled for one processor and kept on disk is not run on another."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from anyformer.processor import compiler_options

WORK = """
import torch
from anyformer.processor import compiler_options

def gradient(compiled):
    def loss(x):
        return (torch.exp(-x / 640) * x.roll(1, 0)).softmax(-1).square().sum(-1).log().sum()

    x = torch.arange(640.0).reshape(10, 64).requires_grad_()
    (torch.compile(loss, options=compiler_options()) if compiled else loss)(x).backward()
    return x.grad

torch.testing.assert_close(gradient(True), gradient(False))
"""


def test_vectors_are_those_that_inductor_would_choose() -> None:
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    chosen = pick_vec_isa()
    if platform.machine() in ("x86_64", "AMD64", "aarch64"):
        assert compiler_options() == {"cpp.simdlen": chosen.bit_width() if chosen else 1}
    else:
        assert compiler_options() == {}, "there inductor's own choice is kept"


@pytest.mark.slow
@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() != "AVX512", reason="hides AVX-512, which this processor lacks")
def test_graphs_that_were_kept_with_wider_vectors_are_compiled_again(tmp_path: Path) -> None:
    kept = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    for hidden in ({}, {"ATEN_CPU_CAPABILITY": "avx2"}):
        done = subprocess.run(
            [sys.executable, "-c", WORK], env=kept | hidden, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr
