"""`anyformer export`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyformer.cli.arguments import Json, Model
from anyformer.cli.as_json import print_json
from anyformer.cli.elsewhere import place
from anyformer.cli.options import grouped
from anyformer.cli.pushing import PushOptions, send, written_to

if TYPE_CHECKING:
    import torch

    from anyformer.huggingface import Family
    from anyformer.model.transformer import Transformer
    from anyformer.text.beside import Beside

EXAMPLES = """
anyformer export runs/2026-01-01-120000 exported
anyformer export checkpoint exported --family llama
anyformer export runs/2026-01-01-120000 --push org/model --private
anyformer export runs/2026-01-01-120000 --push org/model --dry-run
anyformer export checkpoint exported --towers path/to/gemma3
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
        typer.Option(
            help="With --adapter: an existing base model, a directory or a model of a hub, which is then not written.",
            metavar="DIRECTORY|hub:ORG/NAME",
            parser=place,
        ),
    ] = None

    def check(self, *, pushed: bool) -> None:
        """Refuse options that do not go together; `pushed`: whether the directory is pushed to a hub."""
        from anyformer.describe import UserError
        from anyformer.hub import pinned

        if self.base is not None and not self.adapter:
            raise UserError("--base says where the model beside an adapter is: give --adapter too, or leave it out")
        if self.adapter and pushed and (self.base is None or pinned(self.base) is None):
            raise UserError(
                "--adapter --push: PEFT finds the model beside it by its name on a hub: give --base hub:ORG/NAME too"
            )


@grouped
def run(
    model: Model,
    out: Annotated[
        Path | None, typer.Argument(help="The new directory to write; it may be left out with --push.", metavar="OUT")
    ] = None,
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
    pushing: PushOptions,
    json: Json = False,
) -> None:
    """Write a model as a directory that transformers loads: configuration, weights, tokenizer, and the digests of all files.
    Or push it to a hub, with a model card.

    The AutoModel classes of transformers load it without remote code. An architecture that no model type of transformers
    expresses is written in anyformer's own layout, which they load after `import anyformer.huggingface.auto`. Adapters are
    merged into the weights, unless --adapter asks for them alone.
    """
    from anyformer.files import check_directory

    pushing.check(out)
    if out is not None:
        check_directory(out)
    alone.check(pushed=pushing.push is not None)
    destination = pushing.destination()
    with written_to(out) as folder:
        name = None if destination is None else destination.name.repo
        if alone.adapter:
            made = export_adapter(model, folder, family, alone.base, dtype, name)
        else:
            made = export_model(model, folder, family, towers, dtype, name)
        pushed = {} if destination is None else {"pushed": send(folder, destination, pushing, model, json=json)}
    if json:
        print_json({"directory": out, **made.facts, **pushed})
    elif not pushing.dry_run:
        print("\n".join(made.lines))


@dataclass(frozen=True)
class Exported:
    """What was written, as plain data, and in lines that say how it is loaded."""

    facts: Mapping[str, Any]
    lines: Sequence[str]


def export_model(
    model: Path, out: Path, family: str | None, towers: Path | None, dtype: str, name: str | None = None
) -> Exported:
    """Write a model, which is loaded by `name`, that of a hub, or by its path."""
    from anyformer import checkpoint, huggingface
    from anyformer.huggingface.card import PLACE
    from anyformer.loading import beside, imported_towers, labels_of, load, trained_length, trained_pixels, training_facts

    if towers is None and (family is None or family in huggingface.COMPOSITES):
        towers = imported_towers(model)
    loaded, tokenizer = load(model)
    place = checkpoint.newest(model)
    kept = beside(place)
    exported = huggingface.export(
        loaded, out, tokenizer=tokenizer, beside=kept, model_type=family, length=trained_length(model),
        labels=labels_of(place), facts=training_facts(place), towers=towers, dtype=_type(dtype, kept, loaded),
        pixels=trained_pixels(place), name=name or PLACE,
    )  # fmt: skip
    facts = {"model_type": exported.model_type, "own_layout": exported is huggingface.own()}
    return Exported(facts, [*_lines(out, exported, name or str(out))])


def _lines(out: Path, exported: Family, name: str) -> Iterator[str]:
    """What was written, and how it is loaded."""
    from anyformer import huggingface
    from anyformer.describe import plugin_of

    is_own = exported is huggingface.own()
    yield f"{name}: {exported.model_type}{'; load it after `import anyformer.huggingface.auto`' if is_own else ''}"
    if plugin_of(exported.home):  # a model type that transformers has not
        yield f"try next, in Python:\n  import anyformer\n  model, tokenizer = anyformer.load({name!r})"
        return
    (kind, *_) = huggingface.read_config(out)("architectures", None) or ("AutoModel",)
    home = "anyformer.huggingface.auto" if is_own else "transformers"
    yield f"try next, in Python:\n  from {home} import {kind}\n  model = {kind}.from_pretrained({name!r})"


def export_adapter(
    model: Path, out: Path, model_type: str | None, base: Path | None, dtype: str, name: str | None = None
) -> Exported:
    """Write the adapter of a run or checkpoint in PEFT's files, and its base beside it unless that is somewhere already."""
    from anyformer import huggingface
    from anyformer.files import write_text
    from anyformer.hub import parsed, pinned
    from anyformer.huggingface.card import PLACE, adapter_card
    from anyformer.loading import adapter_of, beside, trained_length, training_facts
    from anyformer.text.beside import README

    bare, tokenizer, adapter, own = adapter_of(model)
    family = huggingface.find_family(bare.architecture, model_type)[0]
    where, public = (out / "base" if base is None else base).absolute(), None if base is None else pinned(base)
    named = str(where) if public is None else parsed(public).repo
    huggingface.write_adapter(out, adapter, own, bare.architecture, family, named)
    if public is not None:
        card = adapter_card(named, adapter.kind, family, training_facts(model) or huggingface.Facts(), name or PLACE)
        write_text(out / README, card)
    if base is None:
        length, kept = trained_length(model), beside(model)
        huggingface.export(
            bare, where, tokenizer=tokenizer, beside=kept, model_type=family.model_type, length=length,
            dtype=_type(dtype, kept, bare),
        )  # fmt: skip
    place = name or str(out)
    facts = {"adapter": adapter.kind, "model_type": family.model_type, "base": named}
    lines = f"try next, in Python:\n  from peft import AutoPeftModel\n  model = AutoPeftModel.from_pretrained({place!r})"
    return Exported(facts, [f"{place}: {adapter.kind} for {family.model_type}, beside {named}", lines])


def _type(asked: str, beside: Beside, model: Transformer) -> torch.dtype | None:
    """The type that the weights are written in; None: the type of every weight stays."""
    from anyformer.huggingface.number_types import TYPES, came_in

    if asked != "stored":
        return TYPES[asked]
    came, now = came_in(beside), next(model.parameters()).dtype
    return None if came == now else came
