"""`python tests/emulated.py haswell|arm`: chosen tests on another processor than this one, which QEMU's user mode emulates.

- `haswell`: AVX2 and no more, as of 2013: no AVX-512, no instructions for 16 bits. Libraries ask the processor what it has, and
  no environment variable hides that from all of them.
- `arm`: 64-bit ARM, with Python and torch for it from the folder `.arm` (README.md says how it is made). A Neoverse N1; as
  `QEMU_CPU=max,sve-max-vq=2` says it, with SVE of 256 bits and instructions for bf16.

It is ten to fifty times slower, so the tests are few: of kernels that a processor may lack, and of ways through the whole.
Further arguments are pytest's; tests among them are run in place of these.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ARM = ROOT / ".arm"
BOTH = (
    "tests/generation/test_weights.py::test_few_rows_are_multiplied_as_the_matrix_is_stored",
    "tests/generation/test_weights.py::test_fp32_gives_the_same_tokens_from_matrices_as_they_are_held",
    "tests/generation/test_weights.py::test_matrices_that_read_the_same_input_are_joined",
    "tests/generation/test_generation.py::test_greedy_tokens_equal_the_uncached_models[prefix]",
    "tests/generation/test_text.py::test_a_model_without_authors_is_drawn_from",
    "tests/quantising/test_model.py::test_it_computes_what_its_restored_matrices_do",
    "tests/precision/test_products.py::test_products_are_near_those_in_bf16",
    "tests/training/test_training.py::test_after_an_update_gradients_take_no_memory",
)
NATIVE = "tests/generation/test_native.py::test"
CHOSEN = {
    "haswell": (
        *BOTH,
        "tests/measuring/test_training_benchmark.py::test_every_form_of_a_matrix_multiplies_by_it",
        "tests/quantising/test_formats.py::test_scales_are_rounded_before_codes",
        "tests/precision/test_formats.py::test_rounding_by_its_definition_is_torchs_cast",
        "tests/training/test_precisions.py::test_a_scaled_update_is_the_plain_one",
        "tests/huggingface/test_parity.py::test_it_computes_what_transformers_computes[zamba2-CausalLM-biased]",
    ),
    "arm": (
        *BOTH,
        "tests/parts/test_attend_native.py::test_every_set_of_instructions_that_this_processor_has_gives_the_same",
        "tests/parts/test_attend_native.py::test_a_row_has_the_same_bits_alone_with_others_and_on_other_threads",
        "tests/generation/test_native_operators.py",
        f"{NATIVE}_a_state_of_16_bits_gives_the_logits_of_the_plain_step",
        f"{NATIVE}_weights_are_read_in_the_order_in_which_they_lie[bf16-latent-21]",
        f"{NATIVE}_weights_are_read_in_the_order_in_which_they_lie[int8-dense-3]",
        f"{NATIVE}_weights_are_read_in_the_order_in_which_they_lie[int4-32-uneven-21]",
        f"{NATIVE}_weights_are_read_in_the_order_in_which_they_lie[int4-64/int4-64-experts-3]",
        f"{NATIVE}_any_number_of_threads_computes_the_same_bits[dense-int4-32]",
        "tests/training/test_training.py::test_it_learns_and_leaves_a_whole_directory",
        "tests/training/test_training.py::test_ctrl_c_saves_and_resuming_gives_the_same_weights[3]",
        "tests/training/test_training.py::test_a_run_is_led_to_export_and_export_to_transformers",
        "tests/training/test_compiler_options.py::test_vectors_are_those_that_inductor_would_choose",
        "tests/catalogue/test_tiny.py::test_every_tiny_variant_trains[mamba-130m]",
        "tests/catalogue/test_catalogue.py::test_parameters_are_the_published_ones[gpt2]",
        "tests/huggingface/test_parity.py::test_it_computes_what_transformers_computes[bert-MaskedLM-plain]",
    ),
}
QUIET = ("-p", "no:xdist", "-p", "no:cacheprovider", "--durations=5")
CPUINFO = "processor\t: 0\nFeatures\t: fp asimd crc32 atomics fphp asimdhp asimdrdm asimddp\nCPU implementer\t: 0x41\n" + (
    "CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n"
)
"""A Neoverse N1 by its own words: torch would read of this machine's processor, and end."""


class MissingError(Exception):
    """Something that must be installed first; the message says how."""


def emulator(name: str) -> str:
    if (found := shutil.which(name)) is None:
        raise MissingError(f"no {name}: apt-get install qemu-user")
    return found


def haswell() -> tuple[list[str], dict[str, str]]:
    """A Python on such a processor, and what its environment has beside this one's."""
    return [emulator("qemu-x86_64"), "-cpu", "Haswell", sys.executable], {}


def arm() -> tuple[list[str], dict[str, str]]:
    """Likewise. It is a script, so that a test can start other processes too. C++ is compiled by a compiler of this
    machine, to which "native" instructions mean nothing, and which finds Python's headers in `.arm`."""
    if (compiler := shutil.which("aarch64-linux-gnu-g++")) is None:
        raise MissingError("no aarch64-linux-gnu-g++: apt-get install g++-aarch64-linux-gnu")
    python = next(iter(sorted((ARM / "usr" / "bin").glob("python3.[0-9][0-9]"))), None)
    if python is None:
        raise MissingError(f"no Python for 64-bit ARM in {ARM}: tests/README.md says how it comes there")
    script, cross = ARM / "bin" / "python", ARM / "bin" / "g++"
    for path, text in {
        script: f'#!/bin/sh\nexec "{emulator("qemu-aarch64")}" -L "{ARM}" -0 "$0" "{python}" "$@"\n',
        cross: '#!/bin/sh\nfor each do shift; [ "$each" = -march=native ] || set -- "$@" "$each"; done\n'
        f'exec "{compiler}" "$@" -idirafter "{ARM / "usr" / "include"}"\n',
        ARM / "pyvenv.cfg": f"home = {python.parent}\ninclude-system-site-packages = false\n",
        ARM / "proc" / "cpuinfo": CPUINFO,
        ARM / "sys/devices/system/cpu/cpu0/regs/identification/midr_el1": "0x00000000413fd0c1\n",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    script.chmod(0o755)
    cross.chmod(0o755)
    cpu = os.environ.get("QEMU_CPU", "neoverse-n1")
    return [str(script)], {"CXX": str(cross), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "QEMU_CPU": cpu}


def main(given: list[str]) -> int:
    processors = {"haswell": haswell, "arm": arm}
    if not given or given[0] not in processors:
        print(f"name a processor first: {' or '.join(processors)}", file=sys.stderr)
        return 2
    kind, *rest = given
    try:
        python, more = processors[kind]()
    except MissingError as error:
        print(error, file=sys.stderr)
        return 1
    tests = () if any(not each.startswith("-") for each in rest) else CHOSEN[kind]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **more}
    return subprocess.call([*python, "-m", "pytest", *QUIET, *rest, *tests], cwd=ROOT, env=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
