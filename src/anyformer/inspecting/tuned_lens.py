"""Tuned lens: the logit lens behind an affine map per path, trained to say what the model says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from anyformer.describe import InputError
from anyformer.files import writing
from anyformer.inspecting.call_inputs import CallInputs
from anyformer.inspecting.logit_lens import KEPT, LensReading, read_out, reading
from anyformer.inspecting.metrics import divergence
from anyformer.inspecting.places import streams
from anyformer.inspecting.tables import table_of
from anyformer.model.transformer import Transformer
from anyformer.model.value_paths import named

if TYPE_CHECKING:
    from rich.table import Table


TENSORS = ("matrix_LDD", "bias_LD", "before_L", "after_L")


@dataclass(frozen=True, eq=False)
class TunedLens:
    """x + x A^T + b of the stream at each of L paths, in front of the final norm and the head (Belrose et al. 2023, arXiv
    2303.08112).

    `matrix_LDD` A and `bias_LD` b; `before_L` and `after_L`: mean KL(model || lens) of the last batch in nats, of the logit
    lens and of this one.
    """

    paths: tuple[str, ...]
    matrix_LDD: Tensor
    bias_LD: Tensor
    before_L: Tensor
    after_L: Tensor

    def translated(self, number: int, stream_D: Tensor) -> Tensor:
        """The stream (..., D) at path `number` as the head reads it."""
        return translated(stream_D, self.matrix_LDD[number], self.bias_LD[number])

    def read(
        self, model: Transformer, given: Tensor | CallInputs, *, wanted: Tensor | None = None, keep: int = KEPT
    ) -> LensReading:
        """What the head says behind the lens at every path of it."""
        prompt = CallInputs.of(given)
        with torch.no_grad(), model.watch(*self.paths) as seen:
            last_BTV = prompt.logits(model)
            lines = (read_out(model, self.translated(at, seen[path])) for at, path in enumerate(self.paths))
            return reading(self.paths, lines, last_BTV, wanted=wanted, keep=keep)

    def table(self) -> Table:
        """How far the head is from the model at every path, without the lens and with it."""
        rows = [
            (path, f"{float(before):.4f}", f"{float(after):.4f}")
            for path, before, after in zip(self.paths, self.before_L, self.after_L, strict=True)
        ]
        return table_of("tuned lens: KL(model || lens) in nats", ("path", "logit lens", "tuned lens"), rows)

    def save(self, path: Path) -> None:
        """Write it into a file of safetensors."""
        with writing(path) as partial:
            save_file({name: vars(self)[name].contiguous() for name in TENSORS}, partial, {"paths": "\n".join(self.paths)})

    @classmethod
    def load(cls, path: Path) -> TunedLens:
        """The lens of a file that `save` wrote."""
        try:
            with safe_open(path, "pt") as file:
                return cls(tuple(file.metadata()["paths"].split("\n")), *map(file.get_tensor, TENSORS))
        except (SafetensorError, OSError, KeyError, TypeError) as error:
            raise InputError(f"{path}: is not a tuned lens that was saved here: {error}; train one with `tuned_lens`") from None


def translated(stream_D: Tensor, matrix_DD: Tensor, bias_D: Tensor) -> Tensor:
    """x + x A^T + b, (..., D)."""
    x_D = stream_D.to(matrix_DD.dtype)
    return (x_D + x_D @ matrix_DD.mT + bias_D).to(stream_D.dtype)


def tuned_lens(
    model: Transformer,
    batches: Iterable[Tensor | CallInputs],
    paths: Sequence[str] | None = None,
    *,
    learning_rate: float = 1e-3,
) -> TunedLens:
    """The lens after one update per batch, by Adam at a rate that falls to 0, which minimises KL(model || lens) of all paths.

    `paths`: by default before the first layer and behind every one but the last, where there is nothing to translate.
    """
    chosen, given = named(model.architecture, paths or streams(model)[:-1]), [CallInputs.of(batch) for batch in batches]
    if not given:
        raise InputError("a tuned lens is trained on batches of tokens, and there is none: give at least one")
    width, device = model.architecture.width, model.device
    matrix_LDD = torch.zeros(len(chosen), width, width, device=device, requires_grad=True)
    bias_LD = torch.zeros(len(chosen), width, device=device, requires_grad=True)
    optimiser = torch.optim.Adam([matrix_LDD, bias_LD], lr=learning_rate)
    for step, prompt in enumerate(given):
        with torch.no_grad(), model.watch(*chosen) as seen:
            last_BTV = prompt.logits(model)
            kept = [seen[path] for path in chosen]
        with torch.enable_grad():
            after_L = _all_apart(model, kept, matrix_LDD, bias_LD, last_BTV)
            matrix_LDD.grad, bias_LD.grad = torch.autograd.grad(after_L.sum(), [matrix_LDD, bias_LD])
        for group in optimiser.param_groups:
            group["lr"] = learning_rate * (1 - step / len(given))
        optimiser.step()
    with torch.no_grad():
        before_L = _all_apart(model, kept, torch.zeros_like(matrix_LDD), torch.zeros_like(bias_LD), last_BTV)
        after_L = _all_apart(model, kept, matrix_LDD, bias_LD, last_BTV)
    return TunedLens(chosen, matrix_LDD.detach(), bias_LD.detach(), before_L, after_L)


def _all_apart(model: Transformer, streams: Sequence[Tensor], matrix_LDD: Tensor, bias_LD: Tensor, last_BTV: Tensor) -> Tensor:
    """The mean KL(model || lens) of every path, (L,)."""
    found = []
    for stream, matrix_DD, bias_D in zip(streams, matrix_LDD, bias_LD, strict=True):
        said_BTV = read_out(model, translated(stream, matrix_DD, bias_D))
        found.append(divergence(last_BTV, said_BTV[:, -last_BTV.shape[1] :]).mean())
    return torch.stack(found)
