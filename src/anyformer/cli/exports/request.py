"""What is asked of an export, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyformer.cli.export_options import AdapterOptions, Format, FormOptions, GgufOptions

if TYPE_CHECKING:
    import torch

    from anyformer.model.transformer import Transformer
    from anyformer.text.beside import Beside


@dataclass(frozen=True)
class ExportRequest:
    """A model, the place where it is written, and how."""

    model: Path
    out: Path
    form: FormOptions = field(default_factory=FormOptions)
    alone: AdapterOptions = field(default_factory=AdapterOptions)
    gguf: GgufOptions = field(default_factory=GgufOptions)
    name: str | None = None
    """That by which it is loaded, of a hub; None: its path."""
    progress: bool = True

    @property
    def format(self) -> Format:
        """The format: by the end of the name where none is asked for."""
        from anyformer.resolving import GGUF

        return self.form.format or ("gguf" if self.out.suffix == GGUF else "transformers")

    @property
    def place(self) -> str:
        """What it is loaded by."""
        return self.name or str(self.out)

    def check(self) -> None:
        """Refuse options that are of another format."""
        from anyformer.describe import UserError

        if self.format != "gguf" and (idle := self.gguf.given):
            raise UserError(
                f"{' and '.join(idle)}: of GGUF files, and --format is {self.format}: give OUT a name that ends in .gguf, or "
                f"leave {'it' if len(idle) == 1 else 'them'} out"
            )
        if self.format not in ("transformers", "vllm") and (self.alone.adapter or self.form.towers is not None):
            raise UserError(
                f"--adapter and --towers are of directories for transformers, and --format is {self.format}: leave them out, "
                f"and the text model is written, its adapter merged"
            )

    def plain(self, dtype: torch.dtype | None) -> tuple[Transformer, dict[str, Any]]:
        """The model with attention as plain operations, which other engines' formats can say, and what is told of it in
        writing. `dtype`: of its weights, by default as they are stored."""
        from anyformer import checkpoint
        from anyformer.loading import beside, labels_of, load, trained_length
        from anyformer.plan import Plan

        loaded, tokenizer = load(self.model, plan=Plan(attention="plain"), dtype=dtype)
        place = checkpoint.newest(self.model)
        told = {"tokenizer": tokenizer, "beside": beside(place), "model_type": self.form.family}
        return loaded, told | {"length": trained_length(self.model), "labels": labels_of(place)}

    def number_type(self, beside: Beside, model: Transformer) -> torch.dtype | None:
        """The type that the weights are written in; None: the type of every weight stays."""
        from anyformer.huggingface.number_types import TYPES, came_in

        if self.form.dtype != "stored":
            return TYPES[self.form.dtype]
        came, now = came_in(beside), next(model.parameters()).dtype
        return None if came == now else came


@dataclass(frozen=True)
class Exported:
    """What was written, as plain data, and in lines that say how it is loaded."""

    facts: Mapping[str, Any]
    lines: Sequence[str]
