"""Groups of options of `anyformer export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from anyformer.cli.elsewhere import place

Format = Literal["transformers", "vllm", "gguf", "onnx", "ctranslate2", "saelens"]


@dataclass(frozen=True)
class FormOptions:
    """Who reads what is written, as which model type, and in which numbers."""

    format: Annotated[
        Format | None,
        typer.Option(
            help="Who reads it. `vllm` is a directory of transformers that vLLM opens too, else it is refused with the reason; "
            "`gguf` is a file for llama.cpp; `onnx` is for ONNX Runtime, by itself or in transformers.js, in fp32 or with "
            "--dtype fp16; `ctranslate2` is for CTranslate2; `saelens` is a sparse "
            "autoencoder for SAELens. By default transformers, and gguf where OUT ends in .gguf.",
            metavar="transformers|vllm|gguf|onnx|ctranslate2|saelens",
        ),
    ] = None
    family: Annotated[
        str | None,
        typer.Option(
            help="Export as this model type of transformers. By default the first that expresses the architecture exactly.",
            metavar="MODEL_TYPE",
        ),
    ] = None
    towers: Annotated[
        Path | None,
        typer.Option(
            help="Write a composite: the text model's weights, and the towers of this directory as they are. By default the "
            "directory of which the model was imported, if that was a composite.",
            metavar="DIRECTORY",
        ),
    ] = None
    dtype: Annotated[
        Literal["stored", "fp32", "bf16", "fp16"],
        typer.Option(
            help="Numbers of the weights: `stored` is the type in which they came, whatever they were trained in.",
            metavar="stored|fp32|bf16|fp16",
        ),
    ] = "stored"


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

    @property
    def given(self) -> list[str]:
        """The options that are given."""
        given = {"--quantise": self.quantise, "--length": self.length, "--no-vocabulary": not self.vocabulary}
        return [option for option, value in given.items() if value]
