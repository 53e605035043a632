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

anyformer reads and writes {count} model types of Hugging Face. The table says how far its results are from those of
transformers {transformers}, on tiny random models in fp32 (torch {torch}).

- `configurations`: how many were tried. Each figure is the largest difference over all of them.
- `logits`: the largest difference, as a share of the largest logit.
- `padded`: the same, for a batch in which one row is padded.
- `token by token`: the same, when anyformer decodes from its decode state and transformers computes the whole text at once.
- `gradients`: the largest difference, as a share of the largest gradient of the same weight.
- `catalogue`: the architectures of the catalogue that `anyformer export` writes as this model type. An architecture that two
  types express is written as the first of them.

Every configuration is also written back, and every model is exported and loaded by transformers again: both must be equal, with
no difference at all. `python docs/make_families.py` writes this page, and the tests check every figure and every export.

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
    from anyformer.huggingface import HuggingFaceError, find_family

    found: dict[str, list[str]] = {}
    for entry in track(listing(), "expressing"):
        try:
            found.setdefault(find_family(architecture(entry.name))[0].model_type, []).append(entry.name)
        except HuggingFaceError:
            continue
    return found


def _figure(gap: float | None) -> str:
    return "" if gap is None else f"{gap:.0e}"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    from huggingface.cases import CASES

    PAGE.write_text(page(measure(CASES), export()), encoding="utf-8")
