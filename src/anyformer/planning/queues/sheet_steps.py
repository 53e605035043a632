"""`SheetSteps`: steps of an engine as the cost sheet times them, kernel by kernel, on one layout of accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from anyformer.costs.kernel import Kernel, Mode
from anyformer.costs.kernels import kernels
from anyformer.costs.roofline import bounds_of_kernel
from anyformer.operations import Address, Shape
from anyformer.planning.dealing import stages
from anyformer.planning.layout import Layout
from anyformer.planning.queues.curve import FINEST, LengthCurve
from anyformer.planning.queues.steps import PromptChunk
from anyformer.planning.serving import LayoutSearch

ROWS = 512
"""Rows at which what grows with rows is asked for."""
Key = tuple[Address, str, str]
Quantities = NDArray[np.float64]


class SheetSteps:
    """Steps of an architecture under a layout: the kernels of decoding and of prompts, one pass of both together.

    A product reads its weight once for the rows of both, attention is a kernel of each; the head reads the rows of texts under
    way and the last row of a prompt. One text at a time takes exactly what the sheet says: `prefill` with the head of one row,
    then `decode` after decode. Texts under way are counted with their mean length, which is exact for caches that grow with
    every token, and at most that of the windows for rings. With dp replicas and pp stages, texts stand in as many `lanes`,
    which go on side by side; a pass through all stages is one step. `scores`: the head reads every position of a prompt, as
    where its tokens are scored.
    """

    def __init__(self, search: LayoutSearch, layout: Layout, *, scores: bool = False) -> None:
        self.search, self.layout, self.scores = search, layout, scores
        self.lanes = layout.dp * layout.pp
        decoding = self._listed("decode", 1, 1)
        bare = {_key(each) for each in self._kernels("prefill", ROWS, 0, headless=True)}
        self._keys = [key for key, kernel in decoding.items() if not _mixes(kernel)]
        self._mixing = [key for key, kernel in decoding.items() if _mixes(kernel)]
        self._head = np.array([key not in bare for key in self._keys])
        self._known: dict[tuple[int, int, int, int], float] = {}
        self._sent: dict[int, float] = {}

    def step(self, decoding: int, cached: float, chunks: Sequence[PromptChunk], ended: int, positions: int = 1) -> float:
        rows = -(-decoding // self.lanes)
        tokens = sum(chunk.tokens for chunk in chunks)
        if tokens and self.lanes > 1:
            tokens = max(-(-tokens // self.lanes), *(chunk.tokens for chunk in chunks))
        past = sum(chunk.past for chunk in chunks) // min(self.lanes, len(chunks)) if chunks else 0
        read = tokens if self.scores else -(-ended // self.lanes)
        seconds = self._products(rows * positions, tokens, past, read)
        if decoding:
            seconds += self._decoding(rows, cached / decoding, positions)
        if chunks:
            seconds += sum(self._reading(*chunk) for chunk in chunks) / min(self.lanes, len(chunks))
        return seconds + self._sending(rows * positions + tokens)

    def held(self, length: int) -> int:
        return round(sum(self._held.at(length)))

    @cached_property
    def room(self) -> float:
        """Bytes for decode states: what the weights leave of the accelerators of every lane, its fullest stage counted."""
        layout, search = self.layout, self.search
        row = stages(search.row, layout.pp, 1)
        left = min(search.on.usable_memory - search.of_stage(stage, layout, 0) for stage in row)
        fullest = max(search.cache_of(stage, layout) for stage in row)
        share = fullest / sum(search.cache_of(stage, layout) for stage in row for _ in range(stage.copies)) if fullest else 1.0
        return max(left, 0) * layout.dp / share

    def _kernels(self, mode: Mode, length: int, past: int, *, batch: int = 1, headless: bool = False) -> list[Kernel]:
        """The kernels of one rank."""
        search = self.search
        architecture = search.architecture.but(head=None, mtp=None) if headless else search.architecture
        source = search.length if architecture.two_inputs else 0
        work = kernels(architecture, Shape(batch=batch, length=length, past=past, source=source), search.plan, mode)
        return [search.rank.share(kernel, self.layout) for kernel in work]

    def _listed(self, mode: Mode, length: int, past: int, *, batch: int = 1) -> dict[Key, Kernel]:
        return {_key(each): each for each in self._kernels(mode, length, past, batch=batch)}

    @cached_property
    def _fixed(self) -> _RowProducts:
        """The kernels between which no length stands, by what a row adds to each."""
        ways = (self._listed("decode", 1, 1), self._listed("prefill", ROWS, 0), self._listed("prefill", ROWS, ROWS))
        one, none, some = ([way[key] for key in self._keys] for way in ways)
        far = np.array([(each.executed, each.moves) for each in some], float).reshape(-1, 2)
        near = np.array([(each.executed, each.moves) for each in none], float).reshape(-1, 2)
        row = np.array([(each.executed, each.moves) for each in one], float).reshape(-1, 2)
        return _RowProducts(one, row, near / ROWS, (far - near) / ROWS, self)

    def _products(self, rows: int, tokens: int, past: int, ended: int) -> float:
        known = rows, tokens, past if self._fixed.past else 0, ended
        if known not in self._known:
            self._known[known] = self._fixed.seconds(*known, self._head, self.layout.dp)
        return self._known[known]

    def weights(self, rows: int) -> tuple[float, ...]:
        """Bytes of weights that each kernel reads: those of experts grow with the rows that choose among them."""
        if not self._chosen:
            return self._read_weights.ask(2)
        return self._read_weights.ask(rows) if rows < FINEST else self._read_weights.at(rows)

    @cached_property
    def _chosen(self) -> bool:
        """Whether rows choose weights."""
        return self._read_weights.ask(2) != self._read_weights.ask(ROWS)

    @cached_property
    def _read_weights(self) -> LengthCurve:
        def of(rows: int) -> tuple[float, ...]:
            found = self._listed("decode", 1, 1, batch=rows)
            return tuple(float(found[key].weights) for key in self._keys)

        return LengthCurve(of)

    @cached_property
    def _step(self) -> LengthCurve:
        """(FLOPs, bytes of a state) of each mixing kernel by the keys of a text, its new token among them."""

        def of(keys: int) -> tuple[float, ...]:
            found = self._listed("decode", 1, keys - 1)
            return tuple(figure for key in self._mixing for figure in (found[key].executed, found[key].state))

        return LengthCurve(of)

    @cached_property
    def _prompt(self) -> LengthCurve:
        """(FLOPs, bytes of a state) of each mixing kernel by the tokens of a whole prompt."""

        def of(tokens: int) -> tuple[float, ...]:
            found = self._listed("prefill", max(tokens, 2), 0)
            return tuple(figure for key in self._mixing for figure in (found[key].executed, found[key].state))

        return LengthCurve(of)

    @cached_property
    def _held(self) -> LengthCurve:
        return LengthCurve(lambda length: (float(self.search.held(self.layout, length)),))

    @cached_property
    def _mixers(self) -> list[tuple[Kernel, float, float, float, float, float]]:
        """Each mixing kernel: FLOP/s, bytes/s, moves of a row of decoding, of a row of a prompt, and per row behind it."""
        step, near, far = (
            self._listed("decode", 1, 1),
            self._listed("prefill", ROWS, 0),
            self._listed("prefill", ROWS, ROWS),
        )
        made: list[tuple[Kernel, float, float, float, float, float]] = []
        for key in self._mixing:
            kernel = step[key]
            moves = near[key].moves / ROWS
            made.append((kernel, *_rates(kernel, self), kernel.moves, moves, (far[key].moves - near[key].moves) / ROWS))
        return made

    def _decoding(self, rows: int, past: float, positions: int) -> float:
        """Seconds of what mixes texts under way with their states, each of which is read once for all new positions."""
        figures, seconds = self._step.at(past + 1), 0.0
        launch = self.search.on.launch
        for i, (kernel, flops, bytes, moves, _, _) in enumerate(self._mixers):
            compute = rows * positions * figures[2 * i] / flops
            memory = rows * (figures[2 * i + 1] + positions * moves) / bytes
            seconds += max(compute, memory, kernel.launches * launch) * kernel.layers
        return seconds

    def _reading(self, tokens: int, past: int) -> float:
        """Seconds of what mixes a chunk with what is before it."""
        before, behind, seconds = self._prompt.at(past), self._prompt.at(past + tokens), 0.0
        launch = self.search.on.launch
        for i, (kernel, flops, bytes, _, moves, more) in enumerate(self._mixers):
            compute = (behind[2 * i] - before[2 * i]) / flops
            memory = (behind[2 * i + 1] + tokens * moves + past * more) / bytes
            seconds += max(compute, memory, kernel.launches * launch) * kernel.layers
        return seconds

    def _sending(self, rows: int) -> float:
        if rows not in self._sent:
            self._sent[rows] = self.search.rank.sending(self.layout, rows)
        return self._sent[rows]


class _RowProducts:
    """Kernels whose work grows with rows alone: (K, 2) FLOPs and moves per row of decoding, per row of a prompt, and per
    token before a chunk."""

    def __init__(self, of: list[Kernel], row: Quantities, read: Quantities, past: Quantities, steps: SheetSteps) -> None:
        self._row, self._read, self._past, self._steps = row, read, past, steps
        self.past = bool(past.any())
        rates = np.array([_rates(kernel, steps) for kernel in of])
        self._flops, self._bytes = rates[:, 0], rates[:, 1]
        self._launch = np.array([kernel.launches for kernel in of]) * steps.search.on.launch
        self._layers = np.array([kernel.layers for kernel in of])
        self._experts = np.array([kernel.share == "experts" for kernel in of])
        self._summed = np.array([kernel.share == "experts" and kernel.unit == "matrix" for kernel in of])

    def seconds(self, rows: int, tokens: int, past: int, ended: int, head: NDArray[np.bool_], dp: int) -> float:
        """Seconds of one pass."""
        work = rows * self._row + tokens * self._read + past * self._past
        work[head] = (rows + ended) * self._row[head]
        work[self._experts] *= dp
        weights = np.array(self._steps.weights(rows + tokens))
        if dp > 1:
            more = np.array(self._steps.weights((rows + tokens) * dp))
            weights[self._experts] = more[self._experts]
        compute, memory = work[:, 0] / self._flops, (work[:, 1] + weights) / self._bytes
        each = np.where(self._summed, compute + memory, np.maximum(compute, memory))
        launched = ~head | (rows + ended > 0)
        return float((np.maximum(each, self._launch) * self._layers)[launched].sum())


def _key(kernel: Kernel) -> Key:
    return kernel.address, kernel.name, kernel.path


def _mixes(kernel: Kernel) -> bool:
    """Whether its work depends on the positions before."""
    return kernel.unit == "attention" or kernel.state > 0


def _rates(kernel: Kernel, steps: SheetSteps) -> tuple[float, float]:
    """FLOP/s and bytes/s that a kernel reaches, as the roofline has them."""
    unit = replace(kernel, executed=10**12, moves=10**12, weights=0, state=0)
    bounds = bounds_of_kernel(unit, steps.search.on)
    return 1e12 / bounds["compute"], 1e12 / bounds["memory"]
