"""`anyformer generate`."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """
anyformer generate runs/2026-01-01-120000 "def parse(" --temperature 0.7 --top-p 0.95
anyformer generate checkpoint "Once upon" "A time" --max-tokens 64 --stop "The end"
"""
SAMPLING, COMPUTING = "Sampling", "Computation"


class Precision(enum.StrEnum):
    """Number format of the weights while generating."""

    stored = "stored"
    fp32 = "fp32"
    bf16 = "bf16"


def run(
    model: Annotated[
        Path,
        typer.Argument(
            help="The directory of a run, a checkpoint or a Hugging Face model.", metavar="RUN|CHECKPOINT|DIRECTORY"
        ),
    ],
    prompts: Annotated[
        list[str] | None, typer.Argument(help="One prompt or several. Several are computed together.", metavar="PROMPT")
    ] = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option(
            help="A prompt as token numbers, as in 1,2,3, for a model without a tokenizer. Repeat it for more prompts.",
            metavar="NUMBERS",
        ),
    ] = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", "-n", help="Stop after this many new tokens.", min=1, metavar="TOKENS")
    ] = 128,
    stop: Annotated[
        list[str] | None, typer.Option(help="Stop before this text. Repeat it for more texts.", metavar="TEXT")
    ] = None,
    temperature: Annotated[
        float,
        typer.Option(
            help="Divide the logits by this: 0 always takes the likeliest token, higher values vary more.",
            min=0.0,
            metavar="NUMBER",
            rich_help_panel=SAMPLING,
        ),
    ] = 0.8,
    top_k: Annotated[
        int | None,
        typer.Option(help="Choose among this many likeliest tokens.", min=1, metavar="COUNT", rich_help_panel=SAMPLING),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            help="Choose among the likeliest tokens whose probabilities add up to this.",
            metavar="SHARE",
            rich_help_panel=SAMPLING,
        ),
    ] = None,
    min_p: Annotated[
        float | None,
        typer.Option(
            help="Choose among the tokens that are at least this share as likely as the likeliest.",
            metavar="SHARE",
            rich_help_panel=SAMPLING,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same text.", min=0, metavar="SEED", rich_help_panel=SAMPLING)
    ] = 0,
    precision: Annotated[
        Precision,
        typer.Option(
            help="Compute with weights in this number format: as stored, fp32 or bf16.",
            metavar="stored|fp32|bf16",
            rich_help_panel=COMPUTING,
        ),
    ] = Precision.stored,
    compile: Annotated[
        bool | None,
        typer.Option(
            "--compile/--no-compile",
            help="Compile the model first, or never. By default only very long jobs are compiled.",
            rich_help_panel=COMPUTING,
        ),
    ] = None,
) -> None:
    """Continue text with a trained model, and print it as it comes.

    On a terminal the prompt is bold, and control characters are written out, as in \\x07. With --tokens it continues token
    numbers, and prints token numbers.
    """
    import torch

    from anyformer.cli.generated import shown
    from anyformer.describe import UserError
    from anyformer.generation import Sampling, generate, stream
    from anyformer.loading import load

    if (not prompts) == (not tokens):
        raise UserError("give either prompts of text, or token numbers as in --tokens 1,2,3")
    numbers = [_numbers(text) for text in tokens or []]
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)
    dtype = {"stored": None, "fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loaded, tokenizer = load(model, device=device, dtype=dtype)
    if numbers:
        found = generate(
            loaded, tokenizer, numbers, max_tokens=max_tokens, sampling=sampling, stop=tuple(stop or ()), compile=compile
        )
        for given, more in zip(numbers, found, strict=True):
            print(",".join(map(str, given + more)))
        return
    assert prompts
    pieces = stream(
        loaded, tokenizer, prompts, max_tokens=max_tokens, sampling=sampling, stop=tuple(stop or ()), compile=compile
    )
    if len(prompts) == 1:
        print(shown(prompts[0], bold=True), end="", flush=True)
        for _, piece in pieces:
            print(shown(piece), end="", flush=True)
        print()
        return
    texts = [""] * len(prompts)
    for row, piece in pieces:
        texts[row] += piece
    for number, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
        print(f"--- {number + 1} of {len(texts)}\n{shown(prompt, bold=True)}{shown(text)}")


def _numbers(text: str) -> list[int]:
    """Token numbers with commas between them."""
    from anyformer.describe import UserError

    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise UserError(f"--tokens: {text!r} should be whole numbers with commas between them, as 1,2,3") from None
