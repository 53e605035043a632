"""Options of `anyformer generate` that say how long a text may become, and how it is computed."""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from anyformer.mesh import started

if TYPE_CHECKING:
    from anyformer.generation import Drafter

text_option = partial(typer.Option, rich_help_panel="Text")
computing_option = partial(typer.Option, rich_help_panel="Computation")


def device() -> str:
    """The accelerator, where there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def in_large_pages() -> None:
    """Let torch take tensors of 2 MB and more in large pages of memory, where weights are read up to a third faster.

    It looks at the variable once, when it makes its first tensor. Who sets THP_MEM_ALLOC_ENABLE is asked no more.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def model_is_loaded() -> None:
    """Let the collector of garbage pass over all that is there once a model is: that takes a tenth of a second."""
    gc.freeze()


@dataclass(frozen=True)
class TextOptions:
    """Where texts end, and what is shown of them."""

    max_tokens: Annotated[
        int | None,
        text_option(
            "--max-tokens",
            "-n",
            help="Stop after this many new tokens: by default as its authors, or 128.",
            min=1,
            metavar="TOKENS",
        ),
    ] = None
    stop: Annotated[
        list[str] | None,
        text_option(help="Stop before this text, which may name special tokens; may be repeated.", metavar="TEXT"),
    ] = None
    special: Annotated[bool, text_option("--special/--no-special", help="Show special tokens, or not.")] = False
    logprobs: Annotated[
        int | None,
        text_option(
            help="Print tokens with their log-probabilities and those of this many likeliest tokens, as the model gives them "
            "before any choice.",
            min=0,
            metavar="COUNT",
        ),
    ] = None
    max_time: Annotated[float | None, text_option(help="Stop after this many seconds.", min=0.0, metavar="SECONDS")] = None


@dataclass(frozen=True)
class Computation:
    """How texts are computed."""

    weights: Annotated[
        str,
        computing_option(
            help="Hold the weights in this format: as stored, or all in 32 or 16 bits, or the matrices of layers in 8 or 4 and "
            "the table of tokens in 8, or in the format behind a stroke: int4-64/int4-64. A token waits for the bytes of the "
            "weights, so fewer are faster; anyformer quantise measures what they cost.",
            metavar="stored|fp32|bf16|fp8|fp8-row|int8|int4|int4-64|int4-32|nf4",
        ),
    ] = "stored"
    block: Annotated[
        int | None,
        computing_option(
            help="Of a model that fills masks: reveal this many positions before the next ones. By default all together.",
            min=1,
            metavar="TOKENS",
        ),
    ] = None
    batch: Annotated[
        int | None,
        computing_option(
            help="Compute this many prompts together; one that ends leaves its place to the next. The texts are the same. By "
            "default 16, with --draft 1.",
            min=1,
            metavar="PROMPTS",
        ),
    ] = None
    draft: Annotated[
        str | None,
        computing_option(
            help="Let this smaller model of the same vocabulary write ahead, and verify several of its tokens in one pass; or, "
            "with the word lookup, what followed the last tokens where they stood before. The text has the same distribution, "
            "and with --temperature 0 it is the same.",
            metavar="MODEL|lookup",
        ),
    ] = None
    draft_tokens: Annotated[
        int | None,
        computing_option(help="Let --draft propose so many tokens at most: by default 4, lookup 8.", min=1, metavar="TOKENS"),
    ] = None
    engine: Annotated[
        Literal["auto", "own", "llama.cpp", "vllm"],
        computing_option(
            help="Let this engine compute: by default the fastest that is installed and was proved to give the same texts. A "
            "named one may round otherwise. It reads a file of its own, which is made and proved at first use and kept in the "
            "cache directory, up to 20 GB or ANYFORMER_ENGINES_GB.",
            metavar="auto|own|llama.cpp|vllm",
        ),
    ] = "auto"
    compile: Annotated[
        bool | None,
        computing_option(
            help="Compile the steps by torch's compiler, or compute them by torch's own calls. By default a table in C++ "
            "computes them, where a C++ compiler is found."
        ),
    ] = None

    def check(self) -> None:
        """Refuse what cannot be before the model is loaded."""
        from anyformer.describe import UserError
        from anyformer.generation import check_weights

        check_weights(self.weights, started(), device())
        if self.draft is None and self.draft_tokens is not None:
            raise UserError("--draft-tokens says how many tokens --draft proposes: give --draft, or leave it out")

    def drafter(self) -> Drafter | None:
        """What --draft names."""
        from anyformer.generation import Draft, Lookup, generating
        from anyformer.loading import load

        tokens = self.draft_tokens
        if self.draft is None:
            return None
        if self.draft == "lookup":
            return Lookup() if tokens is None else Lookup(tokens=tokens)
        model = generating(load(Path(self.draft), device=device())[0], self.weights)
        return Draft(model) if tokens is None else Draft(model, tokens=tokens)
