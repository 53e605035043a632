"""Options of `anyformer serve`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

KEY = "ANYFORMER_SERVE_KEY"
memory_option = partial(typer.Option, rich_help_panel="Memory and batch")
chat_option = partial(typer.Option, rich_help_panel="Chats")
limit_option = partial(typer.Option, rich_help_panel="Limits")


@dataclass(frozen=True)
class AddressOptions:
    """Where the server answers, and to whom."""

    host: Annotated[str, typer.Option(help="The address to answer at: by default this machine alone.", metavar="ADDRESS")] = (
        "127.0.0.1"
    )
    port: Annotated[int, typer.Option(help="The port.", min=0, max=65535, metavar="PORT")] = 8000
    key_file: Annotated[
        Path | None,
        typer.Option(help=f"Answer only who has a key of this file, one a line; or set {KEY} to one.", metavar="FILE"),
    ] = None
    log: Annotated[
        bool, typer.Option("--log/--no-log", help="Print a line of JSON for every request, without what was written.")
    ] = False
    adapter: Annotated[
        list[str] | None,
        typer.Option(
            help="Serve the model with this adapter too, a directory that PEFT wrote, as MODEL:NAME. Repeat it for more.",
            metavar="NAME=DIR",
        ),
    ] = None
    name: Annotated[
        str | None, typer.Option(help="The name of the model for clients; by default that of its directory.", metavar="NAME")
    ] = None


@dataclass(frozen=True)
class StateOptions:
    """How many texts go on together, and what memory they have."""

    places: Annotated[int, memory_option(help="Texts that go on together; others wait.", min=1, max=4096, metavar="TEXTS")] = 8
    length: Annotated[
        int | None,
        memory_option(
            help="Positions of a prompt and its text at most: by default 4,096, or the trained ones if fewer.",
            min=2,
            metavar="TOKENS",
        ),
    ] = None
    memory: Annotated[
        int | None,
        memory_option(help="Bytes of all decode states at most: by default half of what is free.", min=1, metavar="BYTES"),
    ] = None
    own_states: Annotated[
        bool,
        memory_option(
            "--own-states/--shared-rows",
            help="Give every text a decode state of its own: its logits then have the same bits in any company, and a step "
            "reads the weights once for every text. By default texts are rows of one state where that may be.",
        ),
    ] = False
    chunk: Annotated[
        int | None,
        memory_option(
            help="Tokens of a prompt that are read between two steps of the others: by default 512.", min=1, metavar="TOKENS"
        ),
    ] = None
    prefix_memory: Annotated[
        int | None,
        memory_option(
            help="Bytes of decode states behind beginnings of prompts, from which later prompts go on: by default an eighth as "
            "much again as --memory; 0 keeps none.",
            min=0,
            metavar="BYTES",
        ),
    ] = None
    weights: Annotated[
        str, memory_option(help="Hold the weights in this format, as anyformer generate does.", metavar="FORMAT")
    ] = "stored"
    engine: Annotated[
        Literal["auto", "own", "llama.cpp", "vllm"],
        memory_option(
            help="Let this engine compute: by default the own one, which has every mixer, adapters, embeddings and beginnings "
            "of prompts. auto: the fastest that is installed, was proved to give the same texts and does what is asked. vllm "
            "has a server of its own, and is refused.",
            metavar="auto|own|llama.cpp|vllm",
        ),
    ] = "own"


@dataclass(frozen=True)
class ReplyOptions:
    """How the answers of chats are read."""

    tool_format: Annotated[
        str,
        chat_option(
            help="How calls of functions stand in answers: hermes, qwen-xml, mistral, llama, deepseek or pythonic; authors: as "
            "the tokenizer's response_template says; none: they stay text. By default the authors' form, else the one that "
            "reads back exactly what the chat template writes.",
            metavar="FORMAT",
        ),
    ] = "auto"
    reasoning_format: Annotated[
        str,
        chat_option(help="How reasoning stands in front of answers: think, mistral, seed, authors or none.", metavar="FORMAT"),
    ] = "auto"

    images: Annotated[
        bool, chat_option("--images/--no-images", help="Read images in messages, of a model that has a tower for them.")
    ] = False
    audio: Annotated[
        bool, chat_option("--audio/--no-audio", help="Read sounds in messages, of a model that has a tower for them.")
    ] = False

    @property
    def towers(self) -> dict[str, bool]:
        return {"images": self.images, "audio": self.audio}


@dataclass(frozen=True)
class LimitOptions:
    """What is refused."""

    queue: Annotated[int, limit_option(help="Texts that may wait; more are refused.", min=1, metavar="TEXTS")] = 256
    body: Annotated[int, limit_option(help="Bytes of a request.", min=1, metavar="BYTES")] = 4 * 2**20
    rate: Annotated[
        int | None, limit_option(help="Requests of one client per minute; by default any number.", min=1, metavar="REQUESTS")
    ] = None
    time_limit: Annotated[
        float | None, limit_option(help="Seconds that a text may take; by default any time.", min=0.1, metavar="SECONDS")
    ] = None
    grace: Annotated[
        float, limit_option(help="Seconds that texts have to end when the server stops.", min=0, metavar="SECONDS")
    ] = 30.0
