"""Writes `docs/reference/families.md`: every family of Hugging Face models, and how far ours is from transformers, measured.

python docs/make_families.py [--types | MODEL_TYPE ...]

With model types only their rows are measured anew, with --types none: only the list of every type is written. Pages that count the model types are kept right. All take a minute or two: the tiny random models of tests/huggingface are
made by transformers, read, run and held against ours.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from page_text import table

PAGE = Path(__file__).with_name("reference") / "families.md"
ROOT = PAGE.parents[2]
COUNTED = (ROOT / "README.md", ROOT / "docs" / "huggingface.md")
"""Pages that say how many model types there are."""
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
COMPOSITES = """
## Composites

{count} types of model hold a text model beside towers for images and sound, which are left aside when it is read, named, and carried
when it is written again ([images.md](../images.md#composites)). The figures are those of the table above, of tiny
composites with tiny towers, given text alone; {whole} are read with images too ([images.md](../images.md#images)),
and {heard} with sound ([images.md](../images.md#sound)).

"""
TYPES = """
## Every text-capable model type

transformers {transformers} has {count} types of model that read or write text (those of its auto classes for language modelling of
all kinds, speech, images to text, classes, tokens, encoding and retrieval): {read} are read, {composites} are read as their text
model, and {missing} are refused with what is missing, which the error names too. A test holds this list against the
default configuration of every one.

"""
GAPS = ("logits", "padded", "token by token", "gradients")


Exported = dict[str, str]
"""Name of a catalogue's row -> the model type that it is exported as."""


def page(rows: dict[str, list[str]], exported: Exported, composites: dict[str, list[str]]) -> str:
    """The whole page, from the row of each family without its catalogue, the types of what is exported, and the composites'."""
    import torch
    import transformers

    from anyformer import huggingface
    from anyformer.huggingface.sound.models import HEARING
    from anyformer.huggingface.vision.models import VISION
    from anyformer.huggingface.vision.sources import SOURCES
    from huggingface.every_type import READ, outcome, text_capable

    own = [
        [*row[:-1], ", ".join(name for name, of in exported.items() if of == model_type), row[-1]]
        for model_type, row in sorted(rows.items(), key=lambda each: each[1][0])
    ]
    types = text_capable()
    every = [[f"`{model_type}`", types[model_type], outcome(model_type)] for model_type in sorted(types)]
    kinds = {"read": READ, "composites": huggingface.COMPOSITES.keys(), "missing": huggingface.MISSING.keys()}
    counts = {name: sum(model_type in kind for model_type in types) for name, kind in kinds.items()}
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    return "".join(
        [
            INTRODUCTION.format(count=len(rows), **versions),
            table(["model type", "class", "file", "configurations", *GAPS, "catalogue", "notes"], own),
            COMPOSITES.format(
                count=len(composites), whole=_listed(sorted({*VISION, *SOURCES})), heard=_listed(sorted(HEARING))
            ),
            table(["model type", "class", "text model", *GAPS], [row for _, row in sorted(composites.items())]),
            TYPES.format(count=len(types), **counts, **versions),
            table(["model type", "class", "here"], every),
        ]
    )


def _listed(names: list[str]) -> str:
    """Names in a sentence: `a`, `b` and `c`."""
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} and {last}"


def composite_row(model_type: str, measured: dict[str, float | None]) -> list[str]:
    """The row of a composite, from its largest differences."""
    from anyformer.huggingface import COMPOSITES as KNOWN

    composite = KNOWN[model_type]
    figures = [_figure(measured[gap]) for gap in GAPS]
    return [f"`{model_type}`", composite.default_class, f"`{composite.text}`", *figures]


def row_of(model_type: str, file: str, measured: dict[str, float | None]) -> list[str]:
    """The row of a model type without its catalogue, from its largest differences."""
    from anyformer.huggingface import family
    from huggingface.cases import CASES

    cases = [case for case in CASES if case.model_type == model_type]
    link = f"[{file}](../../src/anyformer/huggingface/families/{file}.py)"
    notes = "; ".join(dict.fromkeys(why for case in cases for why in (case.why, case.unpadded) if why))
    figures = [_figure(measured[gap]) for gap in GAPS]
    return [f"`{model_type}`", family(model_type).default_class, link, str(len(cases)), *figures, notes]


def written() -> tuple[dict[str, list[str]], Exported, dict[str, list[str]]]:
    """The rows that the page has, what it says of the catalogue, and its composites."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")] for line in lines]
    families = [row for row in cells if len(row) == 6 + len(GAPS)]
    exported = {name: row[0].strip("`") for row in families for name in filter(None, row[-2].split(", "))}
    composites = {row[0].strip("`"): row for row in cells if len(row) == 3 + len(GAPS)}
    return {row[0].strip("`"): [*row[:-2], row[-1]] for row in families}, exported, composites


def measure(cases: Iterable[object]) -> dict[str, dict[str, float | None]]:
    """Model type -> gap -> the largest over its configurations; None where there is nothing to measure."""
    import torch
    from rich.progress import track

    from huggingface import nearness, parity

    torch.set_num_threads(1)  # the models are too small to share

    measures: dict[str, Callable[[parity.Pair], float | None]] = {
        "logits": nearness.LOGITS.found,
        "padded": lambda pair: nearness.PADDED.found(pair) if parity.pads(pair) else None,
        "token by token": lambda pair: nearness.CACHED.found(pair) if parity.decodes(pair) else None,
        "gradients": nearness.GRADIENTS.found,
    }
    found: dict[str, dict[str, float | None]] = {}
    for case in track(list(cases), "measuring"):
        worst = found.setdefault(case.model_type, dict.fromkeys(measures))
        for gap, of in measures.items():
            figure = of(parity.pair(case))
            if figure is not None:
                worst[gap] = max(worst[gap] or 0.0, figure)
    return found


def export(known: Exported, types: list[str]) -> Exported:
    """What each row of the catalogue is exported as, where these model types are tried anew and `known` holds for others."""
    from rich.progress import track

    from anyformer.catalogue import architecture, listing
    from anyformer.huggingface import FAMILIES, HuggingFaceError, find_family

    order = [each for file in FAMILIES.values() for each in file]
    found: Exported = {}
    for entry in track(listing(), "expressing"):
        tried = {each for each in (known.get(entry.name), *types) if each in order}
        for model_type in sorted(tried, key=order.index):
            try:
                found[entry.name] = find_family(architecture(entry.name), model_type)[0].model_type
            except HuggingFaceError:
                continue
            break
    return found


def _figure(gap: float | None) -> str:
    return "" if gap is None else f"{gap:.0e}"


def main(asked: list[str]) -> None:
    """Write the page, or the rows of the model types asked for."""
    sys.path.insert(0, str(ROOT / "tests"))
    from anyformer.huggingface import COMPOSITES as KNOWN
    from anyformer.huggingface import FAMILIES
    from huggingface.cases import CASES
    from huggingface.composite_cases import HELD, case_of

    files = {model_type: file for file, types in FAMILIES.items() for model_type in types}
    only_types = asked == ["--types"]
    named = [] if only_types else asked
    unknown = sorted(set(named) - set(files) - set(KNOWN))
    if unknown:
        sys.exit(f"no model type is called {', '.join(unknown)}")
    rows, exported, composites = written() if asked else ({}, {}, {})
    types = [name for name in named if name in files] if asked else list(files)
    whole = [name for name in named if name in KNOWN] if asked else list(HELD)
    cases = [case for case in CASES if case.model_type in types]
    measured = measure([*cases, *map(case_of, whole)])
    rows |= {model_type: row_of(model_type, files[model_type], measured[model_type]) for model_type in types}
    rows = {model_type: row for model_type, row in rows.items() if model_type in files}
    composites |= {model_type: composite_row(model_type, measured[model_type]) for model_type in whole}
    composites = {model_type: row for model_type, row in composites.items() if model_type in KNOWN}
    exported = export(exported, types) if types else exported
    PAGE.write_text(page(rows, exported, composites), encoding="utf-8")
    for path in COUNTED:
        counted = re.sub(r"\d+ model types", f"{len(rows)} model types", path.read_text(encoding="utf-8"))
        counted = re.sub(r"\d+ composites", f"{len(composites)} composites", counted)
        path.write_text(counted, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
