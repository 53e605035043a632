"""`anyformer generate`."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from anyformer.cli.arguments import Model, output_option
from anyformer.cli.chatting import ChatOptions, asked, talk
from anyformer.cli.choosing import ChoiceOptions, decoding_asked
from anyformer.cli.computing import Computation, TextOptions, device, in_large_pages, model_is_loaded
from anyformer.cli.drawing import PictureOptions, check_picture_alone, draw
from anyformer.cli.hearing import check_alone, heard
from anyformer.cli.options import grouped
from anyformer.cli.processes import ProcessOptions, first_speaks, refuse_clock
from anyformer.cli.prompts import PromptOptions
from anyformer.cli.terminal import tell
from anyformer.mesh import started

if TYPE_CHECKING:
    from anyformer.generation import GenerationSettings
    from anyformer.inference import Processes
    from anyformer.model.transformer import Transformer
    from anyformer.text import Tokenizer

EXAMPLES = """
anyformer generate runs/2026-01-01-120000 "def parse(" --temperature 0.7 --top-p 0.95
anyformer generate checkpoint "Once upon" "A time" --max-tokens 64 --stop "The end"
anyformer generate checkpoint "Once upon" --repetition-penalty 1.1 --no-repeat 4 --min-tokens 20
anyformer generate checkpoint "Once upon" --beams 4 --length-penalty 0.8 --answers 2
anyformer generate checkpoint "Once upon" --temperature 1 --answers 3 --seed 1 --logprobs 5
anyformer generate checkpoint "Once upon" --weights int8
anyformer generate checkpoint "Once upon" --draft smaller
anyformer generate checkpoint --file prompts.txt --batch 8 > texts.txt
anyformer generate runs/2026-01-01-120000 --image cat.jpg --image dog.jpg --temperature 0
anyformer generate runs/2026-01-01-120000 "What does `json.dumps` do?" --chat
anyformer generate runs/2026-01-01-120000 --audio one.wav --audio two.flac
anyformer generate runs/2026-01-01-120000 --class 3 --class 8 --steps 50 --output digits.png
anyformer generate path/to/qwen2-audio "What is said?" --chat --audio talk.flac
anyformer generate checkpoint --chat --system "Be short." --template-set enable_thinking=false
"""


@grouped
def run(
    model: Model,
    *,
    given: PromptOptions,
    chat: ChatOptions,
    text: TextOptions,
    choice: ChoiceOptions,
    computing: Computation,
    picture: PictureOptions,
    several: ProcessOptions,
    json: Annotated[
        bool,
        output_option("--json", help="Print one JSON object per text and line: prompt, text, tokens, why it ended."),
    ] = False,
) -> None:
    """Continue text with a trained model, and print the words as they are generated; with --audio write what is said, with
    --class make pictures.

    On a terminal the prompt is bold, and control characters are written out, as in \\x07. With --tokens, prompts and output
    are token numbers. `torchrun --nproc-per-node N -m anyformer generate ...` divides the model among N processes.
    """
    in_large_pages()
    with first_speaks():
        with _kept():
            from anyformer.cli.text_on_screen import told
            from anyformer.loading import hears_among, opening_prompt

        begun = chat.begun()
        if picture.asked:
            check_picture_alone(_asked(given, chat, text, computing, json=json) | {"--audio": bool(given.audio)})
            draw(model, picture, device(), (choice.seed or [0])[0])
            return
        speech = given.audio if given.audio and not hears_among(model) else None
        _refuse(given, chat, text, computing, json=json, transcribes=speech is not None)
        if speech is not None:
            heard(model, speech, device(), batch=computing.batch or 16, most=text.max_tokens, json=json)
            return
        prompts, numbers = given.texts(), given.numbers()
        computing.check()
        choice.check()
        refuse_clock(text.max_time)
        talks = chat.chat and not given.ways
        with several.together(device(), waits=talks) as them:
            ready = _ready(model, given, chat, text, choice, computing, them)
            if talks:
                settings: GenerationSettings = {**ready.settings, "batch": computing.batch}
                talk(ready.model, ready.tokenizer, begun, settings, ready.line, them.same)
                return
            chats = asked(begun, _contents(ready, prompts, given)) if prompts and chat.chat else None
            if (files := given.image or given.audio) and not given.ways:
                prompts = [opening_prompt(model, ready.tokenizer)] * len(files)
            told(ready.model, ready.tokenizer, prompts or numbers, ready.settings, ready.line, chats, json=json)
        if ready.settings["draft"] is not None:
            tell(f"draft: {ready.settings['acceptance']}")


@dataclass(frozen=True)
class Ready:
    """A model, what it generates with, and a line that says so."""

    model: Transformer
    tokenizer: Tokenizer | None
    settings: GenerationSettings
    line: str


def _ready(
    place: Path,
    given: PromptOptions,
    chat: ChatOptions,
    text: TextOptions,
    choice: ChoiceOptions,
    computing: Computation,
    them: Processes,
) -> Ready:
    """Load the model, as far as it is this process's."""
    from anyformer import engines
    from anyformer.generation import Acceptance
    from anyformer.loading import load, pixels, sounds

    wanted = engines.Asked(
        place,
        engines.ModelLoading(
            place, lambda: load(place, device=device(), divide=them.divide, among=them.checkers, **given.towers)
        ),
        computing.weights,
        device(),
        tuple(word for word, is_asked in _beyond(given, chat, computing).items() if is_asked),
    )
    more = {"max_new_tokens": text.max_tokens, "max_time": text.max_time}
    with _kept():
        ready = engines.opened(computing.engine, wanted)
        decoding, line = decoding_asked(ready.tokenizer, choice, more)
        if ready.places is not None and decoding.beams is not None:
            ready = engines.opened(computing.engine, replace(wanted, beside=("beams",)))
    drafter = computing.drafter()
    model_is_loaded()
    settings: GenerationSettings = {
        "decoding": decoding, "stop": tuple(text.stop or ()), "compile": computing.compile, "block": computing.block,
        "chat": chat.chat, "special": text.special, "images": pixels(place, given.image) if given.image else None,
        "batch": computing.batch or (16 if drafter is None else None), "draft": drafter, "acceptance": Acceptance(),
        "logprobs": text.logprobs, "sounds": sounds(place, given.audio) if given.audio else None, "places": ready.places,
    }  # fmt: skip
    return Ready(ready.model, ready.tokenizer, settings, "\n".join(filter(None, (line, ready.line))))


def _beyond(given: PromptOptions, chat: ChatOptions, computing: Computation) -> dict[str, bool]:
    """What is asked beside texts that go on by a token, and whether it is."""
    return {
        "images": bool(given.image), "sounds": bool(given.audio), "--draft": computing.draft is not None,
        "--block": computing.block is not None, "--compile": bool(computing.compile), "several processes": started() > 1,
        "a chat of several turns": chat.chat and not given.ways,
    }  # fmt: skip


def _contents(ready: Ready, prompts: Sequence[str], given: PromptOptions) -> Sequence[str | Sequence[Any]]:
    """What a user says: the prompts, or where a tower is shown images or sounds, parts of these and text."""
    from anyformer.generation.images import parts_of

    architecture, tokenizer = ready.model.architecture, ready.tokenizer
    for kind, tower, files in (("image", architecture.images, given.image), ("audio", architecture.audio, given.audio)):
        token = None if tower is None or tokenizer is None else tokenizer.token(tower.token)
        if files and token is not None:
            return parts_of(prompts, kind, len(files), token)
    return prompts


def _refuse(
    given: PromptOptions, chat: ChatOptions, text: TextOptions, computing: Computation, *, json: bool, transcribes: bool
) -> None:
    """Refuse options that do not go together."""
    from anyformer.describe import UserError

    if transcribes:
        check_alone(_asked(given, chat, text, computing))
        return
    if given.ways > 1 or not (given.ways or chat.chat or given.image or given.audio):
        raise UserError(
            "give either prompts of text, or token numbers as in --tokens 1,2,3, or a --file of prompts, or none with --chat"
        )
    if chat.chat and given.tokens:
        raise UserError("--chat writes prompts of text by a template, and --tokens gives token numbers: leave one of them out")
    if json and chat.chat and not given.ways:
        raise UserError("--json prints the answers to prompts, and a chat of several turns has none: give a PROMPT or --file")
    if text.stop and given.tokens:
        raise UserError("--stop names texts, and --tokens gives token numbers: leave one of them out")


def _asked(
    given: PromptOptions, chat: ChatOptions, text: TextOptions, computing: Computation, *, json: bool = False
) -> dict[str, bool]:
    """Options of texts that continue a prompt, and whether they are given."""
    return {
        "a prompt": given.ways > 0, "--image": bool(given.image), "--chat": chat.chat, "--stop": bool(text.stop),
        "--logprobs": text.logprobs is not None, "--max-time": text.max_time is not None, "--special": text.special,
        "--draft": computing.draft is not None, "--block": computing.block is not None,
        "--weights": computing.weights != "stored", "--compile": computing.compile is not None, "--json": json,
    }  # fmt: skip


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
