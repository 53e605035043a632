"""`anyformer generate`."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli import chatting, choosing
from anyformer.cli.arguments import Model, output_option
from anyformer.cli.terminal import tell

if TYPE_CHECKING:
    from anyformer.generation import Drafter, GenerationSettings

EXAMPLES = """
anyformer generate runs/2026-01-01-120000 "def parse(" --temperature 0.7 --top-p 0.95
anyformer generate checkpoint "Once upon" "A time" --max-tokens 64 --stop "The end"
anyformer generate checkpoint "Once upon" --repetition-penalty 1.1 --no-repeat 4 --min-tokens 20
anyformer generate checkpoint "Once upon" --beams 4 --length-penalty 0.8 --answers 2
anyformer generate checkpoint "Once upon" --temperature 1 --answers 3 --seed 1 --logprobs 5
anyformer generate checkpoint "Once upon" --weights int8
anyformer generate checkpoint "Once upon" --draft smaller
anyformer generate checkpoint --file prompts.txt --batch 8 > texts.txt
anyformer generate runs/2026-01-01-120000 "What does `json.dumps` do?" --chat
anyformer generate checkpoint --chat --system "Be short." --template-set enable_thinking=false
"""
text_option = partial(typer.Option, rich_help_panel="Text")
computing_option = partial(typer.Option, rich_help_panel="Computation")


def run(
    model: Model,
    prompts: Annotated[
        list[str] | None, typer.Argument(help="One prompt or several, which are computed together.", metavar="PROMPT")
    ] = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option(
            help="A prompt as token numbers, as in 1,2,3, for a model without a tokenizer. Repeat it for more prompts.",
            metavar="NUMBERS",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help="Read prompts from this file, one a line; of a .jsonl file, each line is a string, or has one as prompt.",
            metavar="FILE",
        ),
    ] = None,
    image: Annotated[
        list[Path] | None,
        typer.Option(
            help="A file of an image, for a model imported with --images; the prompt has the token for images where it stands. "
            "Repeat it for more images.",
            metavar="FILE",
        ),
    ] = None,
    chat: Annotated[
        bool,
        typer.Option(
            "--chat",
            help="Take each prompt as what a user says: write it by the tokenizer's chat template, and stop where the answer "
            "ends. Without a prompt, chat in several turns: each line is answered, and /exit ends it.",
        ),
    ] = False,
    system: chatting.System = None,
    messages: chatting.Messages = None,
    tools: chatting.Tools = None,
    template: chatting.Template = None,
    template_set: chatting.TemplateSet = None,
    max_tokens: Annotated[
        int | None,
        text_option(
            "--max-tokens",
            "-n",
            help="Stop after this many new tokens: by default as its authors, or 128.",
            min=1,
            metavar="TOKENS",
        ),
    ] = None,
    stop: Annotated[
        list[str] | None,
        text_option(help="Stop before this text, which may name special tokens. Repeat it for more texts.", metavar="TEXT"),
    ] = None,
    special: Annotated[bool, text_option("--special/--no-special", help="Show special tokens, or not.")] = False,
    logprobs: Annotated[
        int | None,
        text_option(
            help="Print each token with its log-probability and those of this many likeliest tokens, as the model gives them "
            "before any choice.",
            min=0,
            metavar="COUNT",
        ),
    ] = None,
    max_time: Annotated[float | None, text_option(help="Stop after this many seconds.", min=0.0, metavar="SECONDS")] = None,
    authors: choosing.Authors = True,
    temperature: choosing.Temperature = None,
    top_k: choosing.TopK = None,
    top_p: choosing.TopP = None,
    min_p: choosing.MinP = None,
    typical_p: choosing.TypicalP = None,
    repetition_penalty: choosing.RepetitionPenalty = None,
    frequency_penalty: choosing.FrequencyPenalty = None,
    presence_penalty: choosing.PresencePenalty = None,
    no_repeat: choosing.NoRepeat = None,
    bias: choosing.Bias = None,
    ban: choosing.Ban = None,
    min_tokens: choosing.MinTokens = None,
    setting: choosing.Setting = None,
    seed: choosing.Seed = None,
    beams: choosing.Beams = None,
    length_penalty: choosing.LengthPenalty = None,
    early_stopping: choosing.EarlyStopping = None,
    answers: choosing.Answers = None,
    weights: Annotated[
        str,
        computing_option(
            help="Hold the weights in this format: as stored, or all in 32 or 16 bits, or the matrices of layers in 8 or 4 and "
            "the table of tokens in 8. A token waits for the bytes of the weights, so fewer are faster; anyformer quantise "
            "measures what they cost.",
            metavar="stored|fp32|bf16|fp8|fp8-row|int8|int4|int4-64|int4-32|nf4",
        ),
    ] = "stored",
    block: Annotated[
        int | None,
        computing_option(
            help="Of a model that fills masks: reveal this many positions before the next ones. By default all together.",
            min=1,
            metavar="TOKENS",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        computing_option(
            help="Compute this many prompts together; one that ends leaves its place to the next. The texts are the same. By "
            "default 16, with --draft 1.",
            min=1,
            metavar="PROMPTS",
        ),
    ] = None,
    draft: Annotated[
        str | None,
        computing_option(
            help="Let this smaller model of the same vocabulary write ahead, and verify several of its tokens in one pass; or, "
            "with the word lookup, what followed the last tokens where they stood before. The text has the same distribution, "
            "and with --temperature 0 it is the same.",
            metavar="MODEL|lookup",
        ),
    ] = None,
    draft_tokens: Annotated[
        int | None,
        computing_option(help="Let --draft propose so many tokens at most: by default 4, lookup 8.", min=1, metavar="TOKENS"),
    ] = None,
    compile: Annotated[
        bool | None,
        computing_option(help="Compile the model first, or never. By default only very long jobs are compiled."),
    ] = None,
    json: Annotated[
        bool,
        output_option("--json", help="Print each text as an object of JSON on a line: prompt, text, tokens, why it ended."),
    ] = False,
) -> None:
    """Continue text with a trained model, and print each word as it is generated.

    On a terminal the prompt is bold, and control characters are written out, as in \\x07. With --tokens, prompts and output
    are token numbers.
    """
    with _kept():
        import torch

        from anyformer.cli.prompts import prompts_of
        from anyformer.cli.text_on_screen import told
        from anyformer.describe import UserError
        from anyformer.generation import Acceptance, check_weights, generating
        from anyformer.loading import load, pixels

    begun = chatting.begun(system, messages, tools, template, template_set)
    if begun is not None and not chat:
        raise UserError("--system, --messages, --tools, --template and --template-set say how a chat begins: add --chat")
    given = sum(map(bool, (prompts, tokens, file)))
    if given > 1 or not (given or chat):
        raise UserError(
            "give either prompts of text, or token numbers as in --tokens 1,2,3, or a --file of prompts, or none with --chat"
        )
    if file is not None:
        prompts = prompts_of(file)
    if chat and tokens:
        raise UserError("--chat writes prompts of text by a template, and --tokens gives token numbers: leave one of them out")
    if json and chat and not given:
        raise UserError("--json prints the answers to prompts, and a chat of several turns has none: give a PROMPT or --file")
    if stop and tokens:
        raise UserError("--stop names texts, and --tokens gives token numbers: leave one of them out")
    numbers = [_numbers(text) for text in tokens or []]
    asked = {
        "max_new_tokens": max_tokens, "max_time": max_time, "temperature": temperature, "top_k": top_k, "top_p": top_p,
        "min_p": min_p, "typical_p": typical_p, "repetition_penalty": repetition_penalty,
        "frequency_penalty": frequency_penalty, "presence_penalty": presence_penalty, "no_repeat_ngram_size": no_repeat,
        "bias": bias, "ban": ban, "min_new_tokens": min_tokens, "num_beams": beams, "length_penalty": length_penalty,
        "early_stopping": choosing.early(early_stopping), "num_return_sequences": answers,
    }  # fmt: skip
    check_weights(weights)
    if draft is None and draft_tokens is not None:
        raise UserError("--draft-tokens says how many tokens --draft proposes: give --draft, or leave it out")
    with _kept():
        loaded, tokenizer = load(model, device="cuda" if torch.cuda.is_available() else "cpu", images=bool(image))
        decoding, line = choosing.decoding_asked(tokenizer, asked, setting, authors=authors, seeds=seed)
        loaded = generating(loaded, weights)
    drafter, acceptance = None if draft is None else _drafter(draft, draft_tokens, weights), Acceptance()
    settings: GenerationSettings = {
        "decoding": decoding, "stop": tuple(stop or ()), "compile": compile, "block": block, "chat": chat, "special": special,
        "images": pixels(model, image) if image else None, "batch": batch or (16 if draft is None else None),
        "draft": drafter, "acceptance": acceptance, "logprobs": logprobs,
    }  # fmt: skip
    if chat and not given:
        chatting.talk(loaded, tokenizer, begun, {**settings, "batch": batch}, line)
        return
    chats = chatting.asked(begun, prompts) if prompts and chat else None
    told(loaded, tokenizer, prompts or numbers, settings, line, chats, json=json)
    if drafter is not None:
        tell(f"draft: {acceptance}")


@contextmanager
def _kept() -> Iterator[None]:
    """Inside, no garbage is collected, and what is there at the end stays.

    To look through it once takes as long as twenty tokens, and Python would do so several times while it imports torch.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _drafter(draft: str, tokens: int | None, weights: str) -> Drafter:
    """What --draft names."""
    import torch

    from anyformer.generation import Draft, Lookup, generating
    from anyformer.loading import load

    if draft == "lookup":
        return Lookup() if tokens is None else Lookup(tokens=tokens)
    loaded, _ = load(Path(draft), device="cuda" if torch.cuda.is_available() else "cpu")
    model = generating(loaded, weights)
    return Draft(model) if tokens is None else Draft(model, tokens=tokens)


def _numbers(text: str) -> list[int]:
    """Token numbers with commas between them."""
    from anyformer.describe import UserError

    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise UserError(f"--tokens: {text!r} should be whole numbers with commas between them, as in 1,2,3") from None
