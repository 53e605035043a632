"""`anyformer export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from anyformer.cli.arguments import Json, Model
from anyformer.cli.as_json import print_json
from anyformer.cli.options import grouped

if TYPE_CHECKING:
    import torch

    from anyformer.huggingface import Family
    from anyformer.model.transformer import Transformer
    from anyformer.text.beside import Beside

EXAMPLES = """
anyformer export runs/2026-01-01-120000 exported
anyformer export checkpoint exported --family llama
anyformer export checkpoint exported --towers path/to/gemma3
anyformer export checkpoint model.gguf
anyformer export checkpoint model.gguf --quantise q4_k_m
"""


GGUF = ".gguf"
"""The end of the name of a file that is written in place of a directory."""


@dataclass(frozen=True)
class AdapterOptions:
    """Whether the adapter of a run is written alone, and where its base is."""

    adapter: Annotated[
        bool,
        typer.Option(
            "--adapter",
            help="Write the adapter of a run alone, in PEFT's files, and the model beside which it stands into OUT/base.",
        ),
    ] = False
    base: Annotated[
        Path | None,
        typer.Option(help="With --adapter: an existing base model, which is then not written.", metavar="DIRECTORY"),
    ] = None


@dataclass(frozen=True)
class GgufOptions:
    """What a GGUF file says beside the model."""

    quantise: Annotated[
        str | None,
        typer.Option(
            help="Of a GGUF file: round the matrices to a type in few bits: q8_0, q4_0, q4_1, q5_0 or q5_1; with "
            "llama-cpp-python installed also q2_k to q6_k (q4_k_m) and iq types.",
            metavar="TYPE",
        ),
    ] = None
    length: Annotated[
        int | None,
        typer.Option(
            help="Of a GGUF file: the longest text. By default that of the model's training or configuration.",
            min=1,
            metavar="TOKENS",
        ),
    ] = None
    vocabulary: Annotated[
        bool,
        typer.Option(help="Of a GGUF file: with the tokenizer inside; without it for token numbers alone."),
    ] = True


@grouped
def run(
    model: Model,
    out: Annotated[Path, typer.Argument(help="The new directory to write, or a file whose name ends in .gguf.", metavar="OUT")],
    family: Annotated[
        str | None,
        typer.Option(
            help="Export as this model type of transformers. By default the first that expresses the architecture exactly.",
            metavar="MODEL_TYPE",
        ),
    ] = None,
    towers: Annotated[
        Path | None,
        typer.Option(
            help="Write a composite: the text model's weights, and the towers of this directory as they are. By default the "
            "directory of which the model was imported, if that was a composite.",
            metavar="DIRECTORY",
        ),
    ] = None,
    dtype: Annotated[
        Literal["stored", "fp32", "bf16", "fp16"],
        typer.Option(
            help="Numbers of the weights: `stored` is the type in which they came, whatever they were trained in.",
            metavar="stored|fp32|bf16|fp16",
        ),
    ] = "stored",
    *,
    alone: AdapterOptions,
    gguf: GgufOptions,
    json: Json = False,
) -> None:
    """Write a model as a directory that transformers loads: configuration, weights, tokenizer, and the digests of all files; or
    as a GGUF file, which llama.cpp runs.

    The AutoModel classes of transformers load it without remote code. An architecture that no model type of transformers
    expresses is written in anyformer's own layout, which they load after `import anyformer.huggingface.auto`. Adapters are
    merged into the weights, unless --adapter asks for them alone.
    """
    from anyformer.describe import UserError
    from anyformer.files import check_directory

    if out.suffix == GGUF:
        export_gguf(model, out, family, towers, dtype, alone, gguf, json=json)
        return
    if gguf.quantise or gguf.length:
        raise UserError(f"{out}: --quantise and --length are of GGUF files: give a name that ends in {GGUF}, or leave them out")
    check_directory(out)
    if alone.base is not None and not alone.adapter:
        raise UserError("--base says where the model beside an adapter is: give --adapter too, or leave it out")
    if alone.adapter:
        export_adapter(model, out, family, alone.base, dtype, json=json)
        return
    export_directory(model, out, family, towers, dtype, json=json)


def export_directory(model: Path, out: Path, family: str | None, towers: Path | None, dtype: str, *, json: bool) -> None:
    """Write a directory that transformers loads; of a composite with the towers that it came with."""
    from anyformer import checkpoint, huggingface
    from anyformer.loading import beside, imported_towers, labels_of, load, trained_length, trained_pixels, training_facts

    if towers is None and (family is None or family in huggingface.COMPOSITES):
        towers = imported_towers(model)
    loaded, tokenizer = load(model)
    place = checkpoint.newest(model)
    kept = beside(place)
    exported = huggingface.export(
        loaded, out, tokenizer=tokenizer, beside=kept, model_type=family, length=trained_length(model),
        labels=labels_of(place), facts=training_facts(place), towers=towers, dtype=_type(dtype, kept, loaded),
        pixels=trained_pixels(place),
    )  # fmt: skip
    if json:
        print_json({"directory": out, "model_type": exported.model_type, "own_layout": exported is huggingface.own()})
    else:
        _tell(out, exported)


def export_gguf(
    model: Path,
    out: Path,
    family: str | None,
    towers: Path | None,
    dtype: str,
    alone: AdapterOptions,
    options: GgufOptions,
    *,
    json: bool,
) -> None:
    """Write a GGUF file of a model, its adapter merged; of a composite, of the text model alone."""
    from anyformer import checkpoint, huggingface
    from anyformer.describe import UserError
    from anyformer.files import check_file
    from anyformer.loading import beside, load, trained_length

    check_file(out)
    if alone.adapter or alone.base is not None or towers is not None:
        raise UserError(
            f"{out}: --adapter, --base and --towers are of directories: leave them out, and the file has the text model, its "
            f"adapter merged"
        )
    loaded, tokenizer = load(model)
    kept = beside(checkpoint.newest(model))
    plan = huggingface.export_gguf(
        loaded, out, tokenizer=tokenizer if options.vocabulary else None, beside=kept, model_type=family,
        length=options.length or trained_length(model), dtype=_type(dtype, kept, loaded), quantise=options.quantise,
        progress=not json,
    )  # fmt: skip
    if json:
        print_json({"file": out, "model_type": plan.form.model_type, "bytes": out.stat().st_size})
        return
    print(f"{out}: {plan.form.model_type} as {plan.form.architecture}, {out.stat().st_size:,} bytes")
    print(f"try next, with llama.cpp:\n  llama-cli -m {out}")


def _tell(out: Path, exported: Family) -> None:
    """Print what was written, and how it is loaded."""
    from anyformer import huggingface
    from anyformer.describe import plugin_of

    is_own = exported is huggingface.own()
    print(f"{out}: {exported.model_type}{'; load it after `import anyformer.huggingface.auto`' if is_own else ''}")
    if plugin_of(exported.home):  # a model type that transformers has not
        print(f"try next, in Python:\n  import anyformer\n  model, tokenizer = anyformer.load({str(out)!r})")
        return
    (name, *_) = huggingface.read_config(out)("architectures", None) or ("AutoModel",)
    home = "anyformer.huggingface.auto" if is_own else "transformers"
    print(f"try next, in Python:\n  from {home} import {name}\n  model = {name}.from_pretrained({str(out)!r})")


def export_adapter(model: Path, out: Path, model_type: str | None, base: Path | None, dtype: str, *, json: bool) -> None:
    """Write the adapter of a run or checkpoint in PEFT's files, and its base beside it unless that is somewhere already."""
    from anyformer import huggingface
    from anyformer.loading import adapter_of, beside, trained_length

    bare, tokenizer, adapter, own = adapter_of(model)
    family = huggingface.find_family(bare.architecture, model_type)[0]
    where = (out / "base" if base is None else base).absolute()
    huggingface.write_adapter(out, adapter, own, bare.architecture, family, str(where))
    if base is None:
        length, kept = trained_length(model), beside(model)
        huggingface.export(
            bare, where, tokenizer=tokenizer, beside=kept, model_type=family.model_type, length=length,
            dtype=_type(dtype, kept, bare),
        )  # fmt: skip
    if json:
        print_json({"directory": out, "adapter": adapter.kind, "model_type": family.model_type, "base": where})
        return
    print(f"{out}: {adapter.kind} for {family.model_type}, beside {where}")
    print(f"try next, in Python:\n  from peft import AutoPeftModel\n  model = AutoPeftModel.from_pretrained({str(out)!r})")


def _type(asked: str, beside: Beside, model: Transformer) -> torch.dtype | None:
    """The type that the weights are written in; None: the type of every weight stays."""
    from anyformer.huggingface.number_types import TYPES, came_in

    if asked != "stored":
        return TYPES[asked]
    came, now = came_in(beside), next(model.parameters()).dtype
    return None if came == now else came
