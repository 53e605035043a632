"""Published runs and measurements: read, described as architectures, and priced in their layouts."""

from __future__ import annotations

import tomllib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from anyformer import catalogue
from anyformer.catalogue.gpt import gpt2
from anyformer.catalogue.llama import llama
from anyformer.costs import cost
from anyformer.costs.hardware import Hardware
from anyformer.costs.named_hardware import hardware_of
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, RMSNorm, Rotary, pre_norm
from anyformer.plan import Plan
from anyformer.planning.dealing import stages
from anyformer.planning.layout import Layout, bounds, problems
from anyformer.planning.planner import Candidate, machine_of, plan_training, price_layout, priced
from anyformer.planning.stages import PlannedStage, UnitRow, row_of

RUNS = tomllib.loads(Path(__file__).with_name("published.toml").read_text())["run"]
MEASURED = tomllib.loads(Path(__file__).with_name("measured.toml").read_text())
BF16 = Plan(precision="bf16")
_LAYOUT = {field.name for field in fields(Layout)}


def _plain(*, width: int, depth: int, heads: int, head_width: int, ffn: int, vocab: int) -> Architecture:
    """Rotary positions and a feed-forward network without a gate."""
    attention = Attention(heads=heads, head_width=head_width, place=Rotary(theta=10_000.0))
    block = pre_norm(RMSNorm(), attention, FeedForward(width=ffn, activation="relu", gated=False))
    return decoder_only(Embedding(vocab=vocab), width, [block] * depth, final_norm=RMSNorm())


def _cut(*, name: str, order: str) -> Architecture:
    """An architecture of the catalogue with other layers of the same kinds, and no later token predicted."""
    whole = catalogue.architecture(name)
    return whole.but(decoder=whole.decoder.but(order=order), mtp=None)


_FAMILIES: dict[str, Callable[..., Architecture]] = {
    "gpt": lambda length, *, dropout=0.0, **sizes: gpt2(length=length, dropout=dropout, **sizes),
    "llama": lambda length, **sizes: llama(**sizes),
    "plain": lambda length, **sizes: _plain(**sizes),
    "like": lambda length, **sizes: _cut(**sizes),
}


@cache
def architecture(name: str, length: int) -> Architecture:
    """Of the catalogue, or of measured.toml; learned positions are as many as a sequence has."""
    if name not in MEASURED["models"]:
        return catalogue.architecture(name)
    sizes = dict(MEASURED["models"][name])
    return _FAMILIES[sizes.pop("family")](length, **sizes)


@cache
def flops_per_token(name: str, length: int) -> float:
    """Forward and backward, every query-key pair counted."""
    return cost(architecture(name, length), length=length).flops.total.dense / length


@cache
def _units(name: str, length: int, plan: Plan) -> UnitRow:
    return row_of(architecture(name, length), length, plan)


@cache
def _stages(name: str, length: int, plan: Plan, pp: int, chunks: int, even: bool) -> tuple[PlannedStage, ...]:
    return stages(_units(name, length, plan), pp, chunks, even=even)


@dataclass(frozen=True, eq=False)
class Timed:
    """A run whose time can be predicted: `rate` in tokens per second and accelerator, of running steps or `whole` runs."""

    source: str
    name: str
    row: int
    """Which of the source's runs of this name."""
    on: Hardware
    gpus: int
    length: int
    rate: float
    whole: bool
    layout: dict[str, Any]
    """What is published of it."""
    sequences: int | None
    """Of a step."""
    plan: Plan
    """With `plain` attention where scores were written, before there were kernels that do not."""
    shares: dict[str, float]
    """Of what is reached, what is published."""
    assumed: tuple[str, ...]
    """What of these is not published."""
    remark: str

    @property
    def fitted(self) -> bool:
        """Whether shares are fitted to it: the parity of a checksum of what it is called, which nobody chooses."""
        return zlib.crc32(f"{self.source}|{self.name}|{self.row}".encode()) % 2 == 0

    @property
    def mixture(self) -> bool:
        """Whether it has experts."""
        return bool(bounds(architecture(self.name, self.length)).experts)

    @property
    def active(self) -> int:
        """Parameters that a token uses."""
        return cost(architecture(self.name, self.length)).params.active

    @property
    def kernel(self) -> str:
        """What computes attention."""
        return "scores written" if self.plan.attention == "plain" else "one kernel"

    @property
    def generation(self) -> str:
        return self.on.generation

    def layouts(self, on: Hardware) -> list[Layout]:
        """The one published, or all that agree with what is published of it; else the planner's fastest."""
        if not self.layout:
            assert self.sequences is not None
            arch, tokens = architecture(self.name, self.length), self.sequences * self.length
            planned = plan_training(arch, ranks=self.gpus, batch_tokens=tokens, length=self.length, hardware=on, plan=self.plan)
            return [each.layout for each in planned.fastest[:1]]
        return [
            each for each in self._agreeing() if not problems(each, bounds(architecture(self.name, self.length)), self.length)
        ]

    def _agreeing(self) -> Iterator[Layout]:
        open_to: dict[str, tuple[Any, ...]] = {"checkpointing": ("none", "selective", "full"), "micro_batch": (1, 2, 4, 8)}
        if self.layout.get("pp", 1) > 1:
            open_to["chunks"] = (1, 2, 3, 4, 6)
        free = {name: values for name, values in open_to.items() if name not in self.layout}
        for values in product(*free.values()):
            layout = Layout(**{**self.layout, **dict(zip(free, values, strict=True))})
            if self.sequences is not None:
                m, rest = divmod(self.sequences, layout.replicas * layout.micro_batch)
                if rest or not m:
                    continue
                layout = Layout(**{**vars(layout), "micro_batches": m})
            yield layout

    def candidate(self, on: Hardware, layout: Layout) -> Candidate:
        parts = _stages(self.name, self.length, self.plan, layout.pp, layout.chunks, layout.even)
        return priced(_units(self.name, self.length, self.plan), parts, layout, machine_of(on, self.plan))

    def best(self, on: Hardware, layouts: list[Layout]) -> Candidate | None:
        """The fastest of those that fit; of those that do not, the nearest."""
        found = [self.candidate(on, layout) for layout in layouts]
        fitting = [each for each in found if each.fits]
        if fitting:
            return min(fitting, key=lambda each: each.time.total)
        return min(found, key=lambda each: each.memory.total, default=None)


@cache
def _plan(precision: str) -> Plan:
    """Of formats of fewer bits, with the products of experts in them."""
    return BF16 if precision == "bf16" else Plan.parse({"precision": {"kind": precision, "experts": True}})


def rate_of(run: dict[str, Any], name: str, length: int) -> float | None:
    """Tokens per second and accelerator, as reported or as what is reported implies."""
    if "seconds" in run:
        layout = Layout(**run["layout"])
        return layout.sequences * length / layout.ranks / run["seconds"]
    if "rate" in run:
        return float(run["rate"])
    if "tflops" in run:
        return run["tflops"] * 1e12 / flops_per_token(name, length)
    return run["tokens"] / run["hours"] / 3600 if "hours" in run else None


def timed() -> list[Timed]:
    """Every run and measurement with accelerators, batch and a rate or hours, in the order of the files."""
    found: list[Timed] = []
    counts: dict[tuple[str, str], int] = {}
    for run in _every():
        name, length = run["name"], run["length"]
        rate = rate_of(run, name, length)
        layout = {key: run["layout"][key] for key in run["layout"].keys() & _LAYOUT}
        if rate is None or not (layout or "batch" in run):
            continue
        on = hardware_of(run["hardware"])
        on = on.but(**{each: run[each] * 1e9 for each in ("network", "link", "bandwidth") if each in run})
        known = run.get("shares", {})
        on = on.but(efficiency=replace(on.efficiency, **known))
        key = run["source"], name
        counts[key] = counts.get(key, -1) + 1
        sizes = [layout.get(each, 1) for each in ("dp", "fsdp", "tp", "pp")]
        gpus = run.get("gpus", sizes[0] * sizes[1] * sizes[2] * sizes[3])
        sequences = run["sequences"] if "sequences" in run else run["batch"] // length if "batch" in run else None
        whole = not run.get("steady", {"rate", "tflops", "seconds"} & run.keys())
        plan = _plan(run.get("precision", "bf16")).but(attention=run.get("attention", "auto"))
        assumed, remark = tuple(run.get("assumed", ())), run.get("remark", "")
        how = gpus, length, rate, whole, layout, sequences, plan, known
        found.append(Timed(*key, counts[key], on, *how, assumed, remark))
    return found


def memories() -> Iterator[tuple[str, str, float, Candidate]]:
    """(source, name, reported bytes, priced) of every accelerator whose memory is published."""
    for table in MEASURED["memory"]:
        for row in table["rows"]:
            run = {**table, **dict(zip(table["columns"], row, strict=True))}
            layout = Layout(**{key: run[key] for key in run.keys() & _LAYOUT})
            arch, length = architecture(run["name"], run["length"]), run["length"]
            found = price_layout(arch, layout, length=length, hardware=run["hardware"])
            yield run["source"], run["name"], run["memory"] * 2**30, found


def _every() -> Iterator[dict[str, Any]]:
    yield from ({"layout": {}, **run} for run in RUNS)
    for table in MEASURED["table"]:
        common = {key: value for key, value in table.items() if key not in ("rows", "columns", "note", "skipped")}
        for row in table["rows"]:
            run = {**common, **dict(zip(table["columns"], row, strict=True))}
            yield {**run, "layout": {key: run[key] for key in run.keys() & _LAYOUT}}
