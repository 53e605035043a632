"""Pictures of costs: why training is bound by compute and decoding by memory, and speed over length, batch and size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyformer.costs.sheet import CostSheet
from anyformer.costs.work import Mode, operations
from anyformer.model import decoder_only
from anyformer.parts import Attention, Embedding, residual
from anyformer.plan import Plan
from anyformer.tally import Shape

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEAD_WIDTH = 128
BATCHES = tuple(2**i for i in range(11))
LENGTHS = tuple(2**i for i in range(7, 18))
WIDTHS = tuple(2**i for i in range(9, 15))


def attention_intensity(width: int, kv_heads: int, batch: int, length: int, mode: Mode) -> float:
    """FLOPs per byte of one attention sublayer in 16 bits, its D / 128 query heads sharing `kv_heads` of keys and values.

    Training a multi-head layer needs O(1 / (1/d + 1/(b n))) and decoding O(1 / (n/d + 1/b)) for d features, b rows and n
    positions; with K of H heads n/d becomes (n/d) (K/H) (Shazeer 2019, arXiv 1911.02150, sections 2.3 and 3.1).
    Both for a kernel that keeps the scores on the chip. Model FLOPs: scores computed again do not count.
    """
    layer = residual(Attention(heads=width // HEAD_WIDTH, kv_heads=kv_heads))
    architecture = decoder_only(Embedding(vocab=1), width, [layer])
    decodes = mode == "decode"
    shape = Shape(batch=batch, length=1 if decodes else length, past=length if decodes else 0)
    work = [w for w in operations(architecture, shape, Plan(precision="bf16"), mode) if ".sublayer." in w.name]
    return sum(w.flops.exact for w in work) / sum(w.bytes for w in work)


def draw(sheets: Mapping[str, CostSheet], path: Path) -> None:
    """Six panels: intensity of attention over batch, length and width; the architectures' speed over batch, length and size."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 8.5), layout="constrained")
    panels = figure.subplots(2, 3)
    call = next(iter(sheets.values()))
    assert call.hardware is not None, "priced on hardware"
    width = max(call.architecture.width // HEAD_WIDTH, 1) * HEAD_WIDTH
    batch, length = call.batch, call.length
    _asymmetry(panels[0][0], "sequences per step", BATCHES, lambda k, b, m: attention_intensity(width, k(width), b, length, m))
    panels[0][0].set_title(f"attention alone: width {width:,}, length {length:,}")
    _asymmetry(panels[0][1], "length", LENGTHS, lambda k, n, m: attention_intensity(width, k(width), batch, n, m))
    panels[0][1].set_title(f"attention alone: width {width:,}, batch {batch:,}")
    _asymmetry(panels[0][2], "width", WIDTHS, lambda k, d, m: attention_intensity(d, k(d), batch, length, m))
    panels[0][2].set_title(f"attention alone: length {length:,}, batch {batch:,}")
    for panel in panels[0]:
        panel.axhline(call.hardware.ridge(call.precision), color="0.6", lw=1, label=f"ridge of {call.hardware.title}")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=7, fontsize=8)
    for name, sheet in sheets.items():
        batches = [(b, _speed(replace(sheet, batch=b))) for b in BATCHES]
        lengths = [(n, _speed(replace(sheet, length=n, source=n if sheet.source else 0))) for n in LENGTHS]
        panels[1][0].loglog(*zip(*batches, strict=True), marker=".", label=name)
        panels[1][1].loglog(*zip(*lengths, strict=True), marker=".", label=name)
        panels[1][2].loglog([sheet.params.active], [sheet.flops.total.exact / sheet.tokens], "o", label=name)
    for panel, what in zip(panels[1], ("sequences per step", "length", "parameters used by one token"), strict=True):
        panel.set_xlabel(what)
        panel.set_ylabel(f"tokens/s, {call.mode}, one {call.hardware.title}")
        panel.legend(fontsize=7)
    panels[1][2].set_ylabel(f"FLOPs per token, {call.mode}")
    figure.savefig(path, dpi=110)


def _asymmetry(
    panel: Axes, what: str, values: Iterable[int], intensity: Callable[[Callable[[int], int], int, Mode], float]
) -> None:
    """Intensity in training and decoding of multi-head, grouped (8 heads of keys) and multi-query attention."""
    values = list(values)
    kinds: dict[str, Callable[[int], int]] = {
        "MHA": lambda width: width // HEAD_WIDTH,
        "GQA": lambda width: min(8, width // HEAD_WIDTH),
        "MQA": lambda width: 1,
    }
    modes: tuple[Mode, ...] = ("train", "decode")
    for colour, (kind, heads) in enumerate(kinds.items()):
        for mode, line in zip(modes, ("-", "--"), strict=True):
            reached = [intensity(heads, value, mode) for value in values]
            panel.loglog(values, reached, line, color=f"C{colour}", label=f"{kind}, {mode}")
    panel.set_xlabel(what)
    panel.set_ylabel("FLOPs per byte")


def _speed(sheet: CostSheet) -> float:
    assert sheet.time is not None, "priced on hardware"
    return sheet.time.tokens_per_second
