"""What every number format does to the numbers of a small trained model: weights, activations and gradients.

    python -m benchmarks.rounding

A Llama-style model (4 layers of width 128, bytes) learns the source of Python's standard library in fp32. Then one batch of
text that it did not see is read forward and backward, and every matrix of a layer, the input of its product, and the gradient
of its output are rounded to each format: alone, and with the scales that the format is used with. Reported, as the median and
the worst over the matrices, are the error |r(x) - x| / |x| of the whole tensor and of its worst row (a row of a weight: one
output; of the others: one token), and the share of numbers that became zero and of those that were cut to the largest.
Writes benchmarks/results/rounding.json. About two minutes of one core.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Mapping
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from benchmarks.compare import RESULTS
from rich.console import Console
from torch import Tensor, nn

from anyformer.catalogue.llama import llama
from anyformer.data import Bytes, Text
from anyformer.model.transformer import Transformer
from anyformer.plan import Plan
from anyformer.precision import NUMBER_FORMATS, SCALED_FORMATS, NumberFormat, ScaledFormat
from anyformer.precision.rounding import rounded
from anyformer.precision.scaled_rounding import maximum, multiplier, scaled_rounded, spread
from anyformer.training import AdamW, Checkpoints, Cosine, Evaluation, Run, train

STEPS, BATCH, LENGTH = 1000, 8, 128
PLAIN = [format for name, format in NUMBER_FORMATS.items() if name not in ("fp64", "fp32", "e8m0", "int8", "int4")]
SCALED = list(SCALED_FORMATS.values())


def run() -> Run:
    """A few minutes of one core at most: enough that weights, activations and gradients have the shapes that training gives."""
    return Run(
        seed=0,
        steps=STEPS,
        batch=BATCH,
        length=LENGTH,
        data=Text(paths=("python-stdlib",), tokenizer=Bytes(), validation=0.02),
        optimiser=AdamW(learning_rate=2e-3),
        schedule=Cosine(warmup=50),
        evaluation=Evaluation(every=STEPS, batches=10, baseline=False),
        checkpoints=Checkpoints(every=STEPS, keep=1),
        plan=Plan(precision="fp32", compile="off"),
        architecture=llama(width=128, depth=4, heads=4, kv_heads=2, ffn=344, vocab=257),
    )


def tensors_of(model: Transformer, tokens: Tensor) -> Mapping[str, Mapping[str, Tensor]]:
    """Weights, inputs of products and gradients of their outputs, by the name of the matrix; rows along the last dimension."""
    found: dict[str, dict[str, Tensor]] = {"weights": {}, "activations": {}, "gradients": {}}

    def keep(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            found["activations"][name] = inputs[0].detach().flatten(0, -2)
            output.register_hook(lambda gradient: found["gradients"].update({name: gradient.flatten(0, -2)}))

        return hook

    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and ".layers." in name:
            found["weights"][name] = module.weight.detach()
            module.register_forward_hook(keep(name))
    logits = model(tokens[:, :-1])
    nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
    return found


def error(x: Tensor, back: Tensor) -> dict[str, float]:
    """Errors of the whole and of the worst row that is not all zero; the share of numbers that became zero."""
    x, back = x.double(), back.double()
    sizes = x.norm(dim=-1)
    rows = ((back - x).norm(dim=-1) / sizes)[sizes > 0]
    nonzero = x != 0
    return {
        "error": ((back - x).norm() / x.norm()).item(),
        "worst row": rows.max().item(),
        "zero": ((back == 0) & nonzero).sum().item() / nonzero.sum().item(),
    }


def cut(x: Tensor, format: NumberFormat | ScaledFormat) -> float:
    """The share of numbers that are beyond the largest of the format, by more than rounding of the scale explains in fp32."""
    if isinstance(format, NumberFormat):
        size, largest = x.abs(), format.largest
    else:
        by = multiplier(maximum(x, format), format)
        size, largest = (x * spread(by, format, x.shape[-1])).abs(), format.element.largest
    return (size > largest * (1 + 1e-6)).double().mean().item()


def back(x: Tensor, format: NumberFormat | ScaledFormat) -> Tensor:
    """The numbers as they come back from a format."""
    return rounded(x, format) if isinstance(format, NumberFormat) else scaled_rounded(x, format)


def measured(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, list[float]]]:
    """By format and figure: the median and the worst over the matrices."""
    found = {}
    for format in (*PLAIN, *SCALED):
        rows = [error(x, back(x, format)) | {"cut": cut(x, format)} for x in tensors.values()]
        found[format.name] = {
            word: [float(f"{take(row[word] for row in rows):.3g}") for take in (statistics.median, max)] for word in rows[0]
        }
    return found


def main() -> None:
    """Train, measure, print, write."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        trained = train(run(), Path(folder) / "run", console=Console(quiet=True))
    assert trained.validation is not None
    text = Path(json.__file__).with_name("decoder.py").read_bytes()[: 16 * (LENGTH + 1)]
    tensors = tensors_of(trained.model.float(), torch.tensor(list(text)).view(16, LENGTH + 1))
    record: dict[str, Any] = {
        "date": date.today().isoformat(),
        "versions": {name: version(name) for name in ("anyformer", "torch")},
        "run": {"steps": STEPS, "tokens": STEPS * BATCH * LENGTH, "validation_loss": round(trained.validation.loss, 4)},
        "largest": {what: float(f"{max(x.abs().max().item() for x in found.values()):.3g}") for what, found in tensors.items()},
        "median": {
            what: float(f"{torch.cat([x.abs().flatten() for x in found.values()]).median().item():.3g}")
            for what, found in tensors.items()
        },
        "errors": {what: measured(found) for what, found in tensors.items()},
    }
    (RESULTS / "rounding.json").write_text(json.dumps(record, indent=1) + "\n")
    for what, found in record["errors"].items():
        print(what, record["largest"][what], record["median"][what])
        for name, figures in found.items():
            print(f"  {name:18}", *(f"{word} {median:.2g} to {worst:.2g}  " for word, (median, worst) in figures.items()))


if __name__ == "__main__":
    main()
