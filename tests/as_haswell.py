"""`python tests/as_haswell.py`: chosen tests on a processor with AVX2 and no more: no AVX-512, no instructions for 16 bits.

QEMU runs Python itself as a Haswell of 2013 does (Debian's `qemu-user`), since libraries ask the processor what it has, and no
environment variable hides that from all of them. It is some ten times slower, so the tests are few: of kernels that a
processor may lack, and of ways through the whole. Further arguments are pytest's; tests among them are run in place of these.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
QEMU = "qemu-x86_64"
CHOSEN = (
    "tests/measuring/test_training_benchmark.py::test_every_form_of_a_matrix_multiplies_by_it",
    "tests/generation/test_weights.py::test_few_rows_are_multiplied_as_the_matrix_is_stored",
    "tests/generation/test_weights.py::test_fp32_gives_the_same_tokens_from_matrices_as_they_are_held",
    "tests/generation/test_weights.py::test_matrices_that_read_the_same_input_are_joined",
    "tests/generation/test_generation.py::test_greedy_tokens_equal_the_uncached_models[llama]",
    "tests/generation/test_text.py::test_a_model_without_authors_is_drawn_from",
    "tests/quantising/test_model.py::test_it_computes_what_its_restored_matrices_do",
    "tests/quantising/test_formats.py::test_scales_are_rounded_before_codes",
    "tests/precision/test_products.py::test_products_are_near_those_in_bf16",
    "tests/precision/test_formats.py::test_rounding_by_its_definition_is_torchs_cast",
    "tests/training/test_training.py::test_after_an_update_gradients_take_no_memory",
    "tests/training/test_precisions.py::test_a_scaled_update_is_the_plain_one",
    "tests/huggingface/test_parity.py::test_it_computes_what_transformers_computes[zamba2-CausalLM-biased]",
)
QUIET = ("-p", "no:xdist", "-p", "no:cacheprovider", "--durations=5")


def main() -> int:
    qemu = shutil.which(QEMU)
    if qemu is None:
        print(f"no {QEMU}: apt-get install qemu-user", file=sys.stderr)
        return 1
    given = sys.argv[1:]
    tests = () if any(not each.startswith("-") for each in given) else CHOSEN
    command = [qemu, "-cpu", "Haswell", sys.executable, "-m", "pytest", *QUIET, *given, *tests]
    return subprocess.call(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})


if __name__ == "__main__":
    sys.exit(main())
