"""`anyformer generate`."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer


class Precision(enum.StrEnum):
    """Type of the weights while generating."""

    stored = "stored"
    fp32 = "fp32"
    bf16 = "bf16"


def run(
    model: Annotated[
        Path,
        typer.Argument(help="The directory of a run, a checkpoint or a Hugging Face model.", metavar="RUN_DIR|CHECKPOINT|DIR"),
    ],
    prompts: Annotated[
        list[str] | None, typer.Argument(help="One prompt or several; several are computed together.", metavar="PROMPT...")
    ] = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option(help="A prompt as token numbers, for a model without a tokenizer. Repeat for more.", metavar="1,2,3"),
    ] = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", "-n", help="Longest continuation, in tokens.", min=1)] = 128,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token; higher is freer.", min=0.0)] = 0.8,
    top_k: Annotated[int | None, typer.Option(help="Keep the k likeliest tokens.", min=1)] = None,
    top_p: Annotated[float | None, typer.Option(help="Keep the likeliest tokens until their probabilities reach p.")] = None,
    min_p: Annotated[float | None, typer.Option(help="Keep tokens at least this share as likely as the likeliest.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same text.", min=0)] = 0,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text. Repeat for more.")] = None,
    precision: Annotated[Precision, typer.Option(help="Type of the weights while generating.")] = Precision.stored,
    compile: Annotated[
        bool | None, typer.Option("--compile/--no-compile", help="Default: compile only very long jobs.")
    ] = None,
) -> None:
    """Continue text with a trained model, streaming it as it comes; or token numbers, which come as token numbers."""
    import torch

    from anyformer.describe import UserError
    from anyformer.generation import Sampling, generate, stream
    from anyformer.loading import load

    if (not prompts) == (not tokens):
        raise UserError("give either prompts of text, or token numbers with --tokens 1,2,3")
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
        print(prompts[0], end="", flush=True)
        for _, piece in pieces:
            print(piece, end="", flush=True)
        print()
        return
    texts = list(prompts)
    for row, piece in pieces:
        texts[row] += piece
    for number, text in enumerate(texts):
        print(f"--- {number + 1} of {len(texts)}\n{text}")


def _numbers(text: str) -> list[int]:
    """Token numbers with commas between them."""
    from anyformer.describe import UserError

    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise UserError(f"--tokens: {text!r} should be whole numbers with commas between them, as 1,2,3") from None
