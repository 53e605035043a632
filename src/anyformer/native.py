"""C++ sources of the package as libraries: compiled once where a compiler is, kept by digest, opened again afterwards.

A source needs no headers but the standard library's and those beside it: it gets torch's threads as the function `threads()`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

import torch

from anyformer.cache import Cache, digest
from anyformer.describe import UserError
from anyformer.files import writing

COMPILERS = ("g++", "clang++", "c++")
"""Names that are looked for, after that in `$CXX`."""
FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
INSTRUCTIONS: Mapping[str, tuple[str, ...]] = {"AVX2": ("-mavx2", "-mfma"), "AVX512": ("-mavx512f", "-mavx2", "-mfma")}
"""Flags by what torch's own kernels use here (`ATEN_CPU_CAPABILITY` lowers it). 64-bit ARM needs none: all of it has NEON."""
BYTES = ("-mavx512vnni", "-mavx512bw", "-mavx512vl")
"""Flags beside those of AVX-512 where the processor multiplies bytes and adds them up."""
PAIRS = ("-mavx512bf16",)
"""Flags beside these where it multiplies pairs of numbers in bf16 too, for compilers since 2020."""
KEPT = Cache("native", files=50)
MOST_SECONDS = 120.0


class NativeError(UserError):
    """A C++ source cannot be compiled, or not be used, on this machine; the message says why."""


def problem(source: Path) -> str:
    """Why a source is no library here, in one line; empty if it is one. Compiles it where that was not done before."""
    try:
        library(source)
    except NativeError as error:
        return str(error)
    return ""


@cache
def library(source: Path) -> ctypes.CDLL:
    """The library of a C++ source. Raises `NativeError` without a compiler, and on a processor that no source was tried on."""
    known = instructions()
    if platform.system() != "Linux" or not known:
        here = f"{platform.system()} on {platform.machine()} where torch uses {torch.backends.cpu.get_cpu_capability()}"
        raise NativeError(f"C++ kernels were tried on Linux with AVX2, AVX-512 or 64-bit ARM alone, and this is {here}")
    compiler = next(filter(None, map(shutil.which, filter(None, (os.environ.get("CXX"), *COMPILERS)))), None)
    if compiler is None:
        raise NativeError("no C++ compiler was found: install g++, or name one in CXX")
    version = _version(compiler)
    *newer, last = known
    for flags in newer:
        with contextlib.suppress(NativeError):  # a compiler that is older than these instructions
            return _opened(source, compiler, version, flags)
    return _opened(source, compiler, version, last)


def instructions() -> list[tuple[str, ...]]:
    """Flags of a compiler for what this processor can do: the most first, and then what every compiler knows."""
    if platform.machine() == "aarch64":
        return [()]
    capability = torch.backends.cpu.get_cpu_capability()
    if (usual := INSTRUCTIONS.get(capability)) is None:
        return []
    if capability != "AVX512" or not torch.cpu._is_vnni_supported():
        return [usual]
    whole = (*usual, *BYTES)
    return [(*whole, *PAIRS), whole, usual] if torch.cpu._is_avx512_bf16_supported() else [whole, usual]


def _opened(source: Path, compiler: str, version: str, flags: Sequence[str]) -> ctypes.CDLL:
    """The library of a source by these flags, compiled where none is kept."""
    texts = [path.read_text(encoding="utf-8") for path in (source, *sorted(source.parent.glob("*.h")))]
    key = digest([*texts, compiler, version, *flags, *FLAGS])
    path = KEPT.place / f"{key}.so"
    try:
        if not path.exists() or KEPT.read(key) != sha256(path.read_bytes()).hexdigest():
            _compile(compiler, [*FLAGS, *flags], source, path)
            KEPT.write(key, sha256(path.read_bytes()).hexdigest())
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise NativeError(f"{path}: cannot be opened as a library: {error}") from error


@cache
def threads() -> ctypes._FuncPointer:
    """torch's `torch_parallel_for(begin, end, grain, function, given)`, by which its own kernels share work among threads."""
    found = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    return found.torch_parallel_for


def _version(compiler: str) -> str:
    """The first line in which a compiler tells its version."""
    try:
        return subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=20).stdout.partition("\n")[0]
    except (OSError, subprocess.SubprocessError) as error:
        raise NativeError(f"{compiler} does not run: {error}") from error


def _compile(compiler: str, flags: list[str], source: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path) as partial:
        try:
            made = subprocess.run(
                [compiler, *flags, "-o", str(partial), str(source)], capture_output=True, text=True, timeout=MOST_SECONDS
            )
        except subprocess.SubprocessError as error:
            raise NativeError(f"{compiler} did not compile {source.name}: {error}") from error
        if made.returncode != 0:
            lines = made.stderr.strip().splitlines() or [f"it ended with {made.returncode}"]
            raise NativeError(f"{compiler} did not compile {source.name}: {lines[0]}")
