"""`anyformer export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from anyformer.cli.arguments import Json, Model
from anyformer.cli.as_json import print_json
from anyformer.cli.exporting_to_engines import write_for_engine
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
anyformer export checkpoint exported --format onnx
"""


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

    def check(self, towers: Path | None, reader: str) -> None:
        """Refuse what does not go together."""
        from anyformer.describe import UserError

        if self.base is not None and not self.adapter:
            raise UserError("--base says where the model beside an adapter is: give --adapter too, or leave it out")
        if reader != "transformers" and (self.adapter or towers is not None):
            raise UserError(f"--adapter and --towers are of directories for transformers, and --format is {reader}")


@dataclass(frozen=True)
class EngineOptions:
    """For what reads the directory, if that is not transformers."""

    format: Annotated[
        Literal["transformers", "onnx", "ctranslate2"],
        typer.Option(
            help="What reads the directory: `onnx` is for ONNX Runtime, by itself or in transformers.js, in fp32 or with "
            "--dtype fp16; `ctranslate2` is for CTranslate2, of the model types that its converter knows.",
            metavar="transformers|onnx|ctranslate2",
        ),
    ] = "transformers"


@grouped
def run(
    model: Model,
    out: Annotated[Path, typer.Argument(help="The new directory to write.", metavar="OUT")],
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
    engine: EngineOptions,
    json: Json = False,
) -> None:
    """Write a model as a directory that transformers loads: configuration, weights, tokenizer, and the digests of all files.

    The AutoModel classes of transformers load it without remote code. An architecture that no model type of transformers
    expresses is written in anyformer's own layout, which they load after `import anyformer.huggingface.auto`. Adapters are
    merged into the weights, unless --adapter asks for them alone. With --format it is for another engine.
    """
    from anyformer import checkpoint, huggingface
    from anyformer.files import check_directory
    from anyformer.loading import beside, imported_towers, labels_of, load, trained_length, trained_pixels, training_facts

    check_directory(out)
    alone.check(towers, engine.format)
    if alone.adapter or engine.format != "transformers":
        _write_apart(model, out, family, engine.format, alone.base, dtype, json=json)
        return
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


def _write_apart(
    model: Path,
    out: Path,
    family: str | None,
    reader: Literal["transformers", "onnx", "ctranslate2"],
    base: Path | None,
    dtype: str,
    *,
    json: bool,
) -> None:
    """Write what is no whole directory for transformers: one for another engine, or an adapter alone."""
    if reader == "transformers":
        export_adapter(model, out, family, base, dtype, json=json)
    else:
        write_for_engine(model, out, family, reader, dtype, json=json)


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
