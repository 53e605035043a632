"""Named accelerators: peak rates by precision, memory, links, and how much of each is reached.

All figures are of one chip as the program sees it, in FLOP/s, bytes and bytes/s (10^9, not 2^30), matrix units without
sparsity (data sheets often print twice as much), links per direction (data sheets print the sum of both).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from anyformer.describe import UserError, did_you_mean
from anyformer.plan import Plan, Precision

T, G = 1e12, 1e9


@dataclass(frozen=True)
class Efficiency:
    """Share of each peak that well-written code reaches; time = work / (peak * share)."""

    matrix: float = 0.72
    """Large matrix products."""
    attention: float = 0.5
    """A fused attention kernel, forward and backward together."""
    memory: float = 0.85
    """Long reads and writes."""
    network: float = 0.8
    """Links within a node and between nodes."""

    def __post_init__(self) -> None:
        for name in ("matrix", "attention", "memory", "network"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"efficiency.{name} is a share of the peak, above 0 and at most 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class Hardware:
    """One accelerator and its links; `source` says where the figures are printed."""

    name: str
    title: str
    peaks: Mapping[str, float]
    """FLOP/s of the fastest unit by precision: fp32 (no tf32), tf32, fp16, bf16, fp8, fp4, int8."""
    bandwidth: float
    """Memory, bytes/s."""
    memory: float
    """Bytes."""
    link: float
    """To the other accelerators of its domain (NVLink, Infinity Fabric, ICI, PCIe), bytes/s per direction."""
    network: float
    """Between domains, bytes/s per direction for each accelerator."""
    domain: int
    """Accelerators that `link` joins."""
    source: str
    efficiency: Efficiency = Efficiency()
    launch: float = 2e-6
    """Seconds that the shortest kernel takes when kernels are launched back to back."""

    def peak(self, precision: str) -> float:
        """FLOP/s at a precision; where a chip has no bf16, its fp16."""
        for known in (precision, "fp16") if precision == "bf16" else (precision,):
            if known in self.peaks:
                return self.peaks[known]
        raise UserError(f"{self.title} has no peak for {precision!r}{did_you_mean(precision, self.peaks)}")

    def ridge(self, precision: str) -> float:
        """FLOPs per byte above which reaching the compute peak, not memory, is the bound (Williams et al. 2009)."""
        return self.peak(precision) / self.bandwidth

    def resolved(self, plan: Plan) -> Plan:
        """The same plan with `auto` precision as this hardware is used: the faster of fp32 and 16 bits."""
        if plan.precision != "auto":
            return plan
        half = max(self.peaks.get("bf16", 0.0), self.peaks.get("fp16", 0.0))
        faster: Precision = "bf16" if half > self.peaks.get("fp32", 0.0) else "fp32"
        return plan.but(precision=faster)

    def but(self, **changes: object) -> Hardware:
        """A copy with other figures: another efficiency, say."""
        return replace(self, **changes)  # type: ignore[arg-type]


def _peaks(**rates: float) -> Mapping[str, float]:
    """FLOP/s from TFLOP/s."""
    return MappingProxyType({name: rate * T for name, rate in rates.items()})


_HOPPER = _peaks(fp32=67, tf32=494.7, fp16=989.4, bf16=989.4, fp8=1978.9, int8=1978.9)
_AMPERE = _peaks(fp32=19.5, tf32=156, fp16=312, bf16=312, int8=624)

# Matrix and memory shares of A100: cuBLAS on large squares, and gpt-fast's 82 % of bandwidth at batch 1; of its attention:
# FlashAttention-2 (arXiv 2307.08691) trains at up to 225 of 312 TFLOP/s. Of Hopper: FlashAttention-3 (arXiv 2407.08608), 614 of
# 989 TFLOP/s forward at a head of 128, less backward; 790 of 989 TFLOP/s and 4.3 of 4.8 TB/s measured on one H200.
# Of MI300X: matrix products at about half the printed peak, as users report. The others are the defaults.
_AMPERE_REACHED = Efficiency(matrix=0.8, attention=0.6)
_HOPPER_REACHED = Efficiency(matrix=0.75, attention=0.5, memory=0.88)

_KNOWN = (
    Hardware(
        "v100",
        "V100 SXM2 32 GB",
        _peaks(fp32=15.7, fp16=125),
        900 * G,
        32 * G,
        150 * G,
        12.5 * G,
        8,
        "NVIDIA V100 data sheet (2020); DGX-1: 4 x 100 Gb/s for 8",
        Efficiency(matrix=0.72, attention=0.35),
    ),
    Hardware(
        "a100-40",
        "A100 SXM 40 GB",
        _AMPERE,
        1555 * G,
        40 * G,
        300 * G,
        25 * G,
        8,
        "NVIDIA A100 data sheet (2021); DGX A100: 200 Gb/s for each GPU",
        _AMPERE_REACHED,
    ),
    Hardware(
        "a100",
        "A100 SXM 80 GB",
        _AMPERE,
        2039 * G,
        80 * G,
        300 * G,
        25 * G,
        8,
        "NVIDIA A100 data sheet (2021); DGX A100: 200 Gb/s for each GPU",
        _AMPERE_REACHED,
    ),
    Hardware(
        "h100",
        "H100 SXM 80 GB",
        _HOPPER,
        3.35 * T,
        80 * G,
        450 * G,
        50 * G,
        8,
        "NVIDIA H100 data sheet; DGX H100: 400 Gb/s for each GPU",
        _HOPPER_REACHED,
    ),
    Hardware(
        "h800",
        "H800 SXM 80 GB",
        _HOPPER,
        3.35 * T,
        80 * G,
        200 * G,
        50 * G,
        8,
        "H100's chip with NVLink at 400 GB/s; InfiniBand as in DeepSeek-V3 (arXiv 2412.19437)",
        _HOPPER_REACHED,
    ),
    Hardware(
        "h200",
        "H200 SXM 141 GB",
        _HOPPER,
        4.8 * T,
        141 * G,
        450 * G,
        50 * G,
        8,
        "NVIDIA H200 data sheet; HGX H200: 400 Gb/s for each GPU",
        Efficiency(matrix=0.8, attention=0.5, memory=0.9),
    ),
    Hardware(
        "b200",
        "B200 SXM 180 GB",
        _peaks(fp32=75, tf32=1125, fp16=2250, bf16=2250, fp8=4500, fp4=9000, int8=4500),
        8 * T,
        180 * G,
        900 * G,
        50 * G,
        8,
        "NVIDIA DGX B200 data sheet (1,440 GB, 64 TB/s, 72 PFLOP/s sparse FP8 for 8)",
    ),
    Hardware(
        "mi300x",
        "MI300X 192 GB",
        _peaks(fp32=163.4, tf32=653.7, fp16=1307.4, bf16=1307.4, fp8=2614.9, int8=2614.9),
        5.3 * T,
        192 * G,
        448 * G,
        50 * G,
        8,
        "AMD MI300X data sheet; seven Infinity Fabric links of 64 GB/s, one to each other accelerator",
        Efficiency(matrix=0.5, attention=0.35, memory=0.8),
    ),
    Hardware(
        "l40s",
        "L40S 48 GB",
        _peaks(fp32=91.6, tf32=183, fp16=362, bf16=362, fp8=733, int8=733),
        864 * G,
        48 * G,
        32 * G,
        25 * G,
        8,
        "NVIDIA L40S data sheet; PCIe 4.0 x16; network assumed at 200 Gb/s for each GPU",
    ),
    Hardware(
        "rtx4090",
        "GeForce RTX 4090 24 GB",
        _peaks(fp32=82.6, tf32=82.6, fp16=165.2, bf16=165.2, fp8=330.3, int8=660.6),
        1008 * G,
        24 * G,
        32 * G,
        1.25 * G,
        2,
        "NVIDIA Ada whitepaper, sums kept in fp32; PCIe 4.0 x16; network assumed at 10 Gb/s",
        Efficiency(matrix=0.85),
    ),
    *(
        Hardware(
            name, title, _peaks(fp32=rate, fp16=rate, bf16=rate), speed * G, size * G, 5 * G, 1.25 * G, 1, source, launch=5e-6
        )
        for name, title, rate, speed, size, source in (
            ("m1", "Apple M1 (GPU)", 2.6, 68.25, 16, "Apple M1 announcement"),
            ("m1-max", "Apple M1 Max (GPU)", 10.4, 400, 64, "Apple M1 Max announcement"),
            ("m2-ultra", "Apple M2 Ultra (GPU)", 27.2, 800, 192, "Apple M2 Ultra announcement"),
            ("m3-max", "Apple M3 Max (40-core GPU)", 14.1, 400, 128, "bandwidth: Apple; rate: 40 x 128 x 2 x 1.38 GHz"),
            ("m4-max", "Apple M4 Max (40-core GPU)", 16.2, 546, 128, "bandwidth: Apple; rate: 40 x 128 x 2 x 1.58 GHz"),
        )
    ),
    *(
        Hardware(
            name,
            title,
            _peaks(bf16=rate, **more),
            speed * G,
            size * G,
            link * G,
            6.25 * G,
            domain,
            "Google Cloud TPU documentation; links: Austin et al. 2025, How to Scale Your Model",
        )
        for name, title, rate, more, speed, size, link, domain in (
            ("tpu-v3", "TPU v3 chip", 123, {}, 900, 32, 400, 1024),
            ("tpu-v4", "TPU v4 chip", 275, {"int8": 275}, 1200, 32, 270, 4096),
            ("tpu-v5e", "TPU v5e chip", 197, {"int8": 393}, 819, 16, 180, 256),
            ("tpu-v5p", "TPU v5p chip", 459, {"int8": 918}, 2765, 95, 540, 8960),
        )
    ),
)
HARDWARE: Mapping[str, Hardware] = MappingProxyType({item.name: item for item in _KNOWN})
ALIASES: Mapping[str, str] = MappingProxyType({"a100-80": "a100", "h100-sxm": "h100", "4090": "rtx4090", "rtx-4090": "rtx4090"})
HERE = "here"
"""The name of this machine, as `calibrated` measures it."""


def hardware_of(given: str | Hardware) -> Hardware:
    """The accelerator of that name, or the value itself; `here` measures this machine, in about five seconds."""
    if isinstance(given, Hardware):
        return given
    if given == HERE:
        from anyformer.costs.calibration import calibrated

        return calibrated()
    name = ALIASES.get(given.lower(), given.lower())
    if name not in HARDWARE:
        raise UserError(f"no hardware is called {given!r}{did_you_mean(name, [*HARDWARE, HERE])}")
    return HARDWARE[name]
