"""Writes `docs/families.md`: every family of Hugging Face models, and how far ours is from transformers, measured.

python docs/make_families.py

Takes a minute or two: the tiny random models of tests/huggingface are made by transformers, read, run and held against ours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

PAGE = Path(__file__).with_name("families.md")
ROOT = PAGE.parents[1]
INTRODUCTION = """# Hugging Face families

The {count} model types that are read and written, each held against transformers {transformers} on tiny random models in fp32
(torch {torch}): the largest difference over all configurations tried, of the largest logit or, for gradients, of the largest
gradient of the same weight. `padded`: a batch with a padded row. `token by token`: from our decode state, against their
whole forward. Every configuration is also written back, and every model exported, loaded by transformers and found
exactly equal. `catalogue`: the architectures of the catalogue that `anyformer export` writes as this type; what two types say
alike goes to the first. Written by `python docs/make_families.py`; the tests hold each figure and each export.

"""
GAPS = ("logits", "padded", "token by token", "gradients")


def page(measured: dict[str, dict[str, float | None]], exported: dict[str, list[str]]) -> str:
    """The whole page, from the largest differences of each model type and the names of what is exported as it."""
    import torch
    import transformers

    from anyformer.huggingface import FAMILIES, family
    from huggingface.cases import CASES

    rows = []
    for file, types in FAMILIES.items():
        for model_type in types:
            cases = [case for case in CASES if case.model_type == model_type]
            figures = [_figure(measured[model_type][gap]) for gap in GAPS]
            link = f"[{file}](../src/anyformer/huggingface/families/{file}.py)"
            notes = "; ".join(dict.fromkeys(why for case in cases for why in (case.why, case.unpadded) if why))
            names = ", ".join(exported.get(model_type, []))
            rows.append([f"`{model_type}`", family(model_type).default_class, link, str(len(cases)), *figures, names, notes])
    head = ["model type", "class", "file", "configurations", *GAPS, "catalogue", "notes"]
    table = [head, ["---"] * len(head), *sorted(rows)]
    return INTRODUCTION.format(count=len(rows), transformers=transformers.__version__, torch=torch.__version__) + "".join(
        f"| {' | '.join(row)} |\n" for row in table
    )


def measure(cases: Iterable[object]) -> dict[str, dict[str, float | None]]:
    """Model type -> gap -> the largest over its configurations; None where there is nothing to measure."""
    import torch
    from rich.progress import track

    from huggingface import parity

    torch.set_num_threads(1)  # the models are too small to share

    measures: dict[str, Callable[[parity.Pair], float | None]] = {
        "logits": parity.logit_gap,
        "padded": lambda pair: parity.padded_gap(pair) if parity.pads(pair) else None,
        "token by token": lambda pair: parity.cached_gap(pair) if parity.decodes(pair) else None,
        "gradients": parity.gradient_gap,
    }
    found: dict[str, dict[str, float | None]] = {}
    for case in track(list(cases), "measuring"):
        worst = found.setdefault(case.model_type, dict.fromkeys(measures))
        for gap, of in measures.items():
            figure = of(parity.pair(case))
            if figure is not None:
                worst[gap] = max(worst[gap] or 0.0, figure)
    return found


def export() -> dict[str, list[str]]:
    """Model type -> what of the catalogue is exported as it."""
    from rich.progress import track

    from anyformer.catalogue import architecture, listing
    from anyformer.huggingface import HuggingFaceError, express

    found: dict[str, list[str]] = {}
    for entry in track(listing(), "expressing"):
        try:
            found.setdefault(express(architecture(entry.name))[0].model_type, []).append(entry.name)
        except HuggingFaceError:
            continue
    return found


def _figure(gap: float | None) -> str:
    return "" if gap is None else f"{gap:.0e}"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    from huggingface.cases import CASES

    PAGE.write_text(page(measure(CASES), export()), encoding="utf-8")
