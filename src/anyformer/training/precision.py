"""The machine of a run: a short measurement of matrix products, and whether torch.compile works."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from anyformer.costs.calibration import DTYPES, fastest
from anyformer.costs.named_hardware import recognised
from anyformer.describe import UserError
from anyformer.plan import Plan
from anyformer.precision import Auto
from anyformer.processor import compiler_options
from anyformer.quantising import FORMATS, Quantising
from anyformer.training.attention_kernel import with_kernel
from anyformer.training.products import notes_of
from anyformer.tuning import Base

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
CAPABILITIES = {"tf32": (8, 0), "fp8": (8, 9)}
"""The least compute capability of NVIDIA GPUs with products in a format."""
SMALL = 100_000
"""Parameters below which one thread may be faster than several."""


@dataclass(frozen=True)
class Host:
    """The device of a run, and the measured peak of matrix products in FLOP/s for some number formats."""

    device: torch.device
    peaks: dict[str, float]

    def peak(self, plan: Plan) -> float:
        """FLOP/s of products in the format of the plan's activations; the greatest measured where that was not measured."""
        return self.peaks.get(plan.number, max(self.peaks.values()))

    def rated(self, plan: Plan) -> float:
        """FLOP/s that shares of the peak are told of: those printed of a known accelerator, else those measured."""
        known = recognised(self.name) if self.device.type == "cuda" else None
        printed = None if known is None else known.peaks.get(plan.precision.unit)
        return self.peak(plan) if printed is None else printed

    @property
    def name(self) -> str:
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return f"{torch.get_num_threads()} CPU threads"


def default_device() -> torch.device:
    """The GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def measured_host(device: torch.device, plan: Plan, seconds: float = 0.25) -> Host:
    """The best speed of large square products in the precision of the plan, or in every one where it leaves that open."""
    own = DTYPES if plan.precision == Auto() or plan.number not in DTYPES else (plan.number,)
    return Host(device, {name: _peak(device, DTYPES[name], seconds) for name in own})


def _peak(device: torch.device, dtype: torch.dtype, seconds: float) -> float:
    """FLOP/s of a large square product; of a small one if the type is emulated, so that a large one takes too long."""
    small, large = 512, 8192 if device.type == "cuda" else 1024
    rate = _rate(small, device, dtype, 0.01)
    # Twice the time: on a busy machine a product is slow without being emulated.
    return rate if 2 * large**3 / rate > 2 * seconds else _rate(large, device, dtype, seconds)


def _rate(n: int, device: torch.device, dtype: torch.dtype, seconds: float) -> float:
    """The best FLOP/s of (n, n) products within `seconds`, the first one not counted."""
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    return 2 * n**3 / fastest(lambda: a @ b, device, seconds)


def resolve(plan: Plan, machine: Host, base: Base = "fp32", *, long: bool) -> tuple[Plan, list[str]]:
    """The plan with every `auto` decided for this machine, and notes for the user; `base`: the run's `tuning.base`.

    `compile` becomes `on` for long jobs where compiling works, else `off`, with the reason.
    """
    notes: list[str] = []
    if plan.precision == Auto():
        plan = plan.but(precision=max(machine.peaks, key=lambda name: machine.peaks[name]))
    if plan.compile != "off":
        problem = "the job is short"
        if plan.precision.narrow is not None:
            problem = f"the products of plan.precision = {plan.precision.kind!r} are not compiled yet"
        elif isinstance(FORMATS[base], Quantising):
            problem = f"weights of tuning.base = {base!r} are restored one by one, which is not compiled yet"
        elif plan.mesh.expert > 1:
            problem = "the rows that travel to experts (plan.mesh.expert) differ from step to step, which is not compiled yet"
        elif plan.mesh.schedule == "zero_bubble":
            problem = "plan.mesh.schedule = 'zero_bubble' cuts backward passes in two, which torch does not compile yet"
        elif long or plan.compile == "on":
            problem = compile_problem(machine.device.type)
        if problem and plan.compile == "on":
            raise UserError(f"plan.compile: 'on' was asked for, but torch.compile does not work here: {problem}")
        if problem and long:
            notes.append(f"running without torch.compile: {problem}")
        plan = plan.but(compile="off" if problem else "on")
    plan, told = with_kernel(plan, machine.device, long=long)
    return plan, [*notes, *told, *notes_of(plan, machine.device)]


def thread_hint(parameters: int, device: torch.device) -> list[str]:
    """A hint for small models, whose threads wait for one another longer than they compute. It is left to the user, since the
    number of threads may change the last bits of a result."""
    if parameters >= SMALL or device.type != "cpu" or torch.get_num_threads() == 1:
        return []
    return [f"this model is so small ({parameters:,} parameters) that one thread may be faster: set OMP_NUM_THREADS=1"]


@cache
def compile_problem(device_type: str) -> str:
    """Why torch.compile does not work here, in one line; empty if it does. Probed once, by compiling a tiny function."""
    try:
        if device_type == "cpu":
            from torch._inductor.cpp_builder import get_cpp_compiler

            get_cpp_compiler()
        probe = torch.compile(lambda x: (x * 2 + 1).sum(), dynamic=False, options=compiler_options())
        probe(torch.ones(64, device=device_type))
    except Exception as error:  # whatever the reason, the run goes on in eager mode and says why
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return "no working C++ compiler was found" if "ompiler" in type(error).__name__ else lines[0][:160]
    return ""


def autocast(plan: Plan, device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Matrix products and the residual stream in the plan's 16 bits, where it has such; weights stay as they are."""
    if plan.precision.autocasts:
        return torch.autocast(device.type, dtype=AUTOCAST[plan.number])
    return contextlib.nullcontext()


@contextlib.contextmanager
def units(plan: Plan) -> Iterator[None]:
    """Within, products in fp32 may round their operands to TF32 where the plan says so, and nowhere else."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = plan.precision.unit == "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def check_units(plan: Plan, device: torch.device) -> list[str]:
    """Notes on products that this device only emulates. Raises `UserError` for a precision that it has no units for."""
    precision = plan.precision
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
    least = CAPABILITIES.get(precision.unit)
    if precision.unit == "tf32" and (capability is None or least is None or capability < least):
        raise UserError(
            f"plan.precision = 'tf32': {device.type} has no TF32 units, which NVIDIA GPUs have since Ampere; take 'fp32'"
        )
    narrow = precision.narrow
    if narrow is None:
        return []
    if narrow.emulated or capability is None:
        return [
            f"plan.precision = {precision.kind!r} is emulated on {device.type}: operands are rounded and multiplied in fp32, "
            "which shows the loss and gives no speed"
        ]
    if least is not None and capability < least:
        raise UserError(
            f"plan.precision = {precision.kind!r}: this GPU's compute capability is {capability[0]}.{capability[1]}, and 8-bit "
            f"products start at {least[0]}.{least[1]}; take 'bf16'"
        )
    return []


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """Same bits from run to run: without it, compiled training with a tied embedding drifts on a CPU."""
    settings: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled(), settings.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    settings.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        settings.fill_uninitialized_memory = before[1]
