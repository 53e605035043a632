"""`anyformer serve`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyformer.cli.arguments import Json, Model
from anyformer.cli.as_json import print_json
from anyformer.cli.computing import device, in_large_pages, model_is_loaded
from anyformer.cli.options import grouped
from anyformer.cli.server_options import KEY, AddressOptions, LimitOptions, ReplyOptions, StateOptions
from anyformer.cli.terminal import tell
from anyformer.describe import UserError

if TYPE_CHECKING:
    from anyformer.model.transformer import Transformer
    from anyformer.serving.application import ModelService
    from anyformer.serving.reloading import LoadedModels
    from anyformer.text import Tokenizer

EXAMPLES = """
anyformer serve path/to/model
anyformer serve runs/2026-01-01-120000 --port 8080 --places 16 --length 8192
anyformer serve path/to/model --adapter law=path/to/lora --tool-format hermes
anyformer serve path/to/model --weights int8 --own-states --memory 4000000000
anyformer serve path/to/model --host 0.0.0.0 --key-file keys.txt --rate 60
"""
NEEDED = {"starlette": "starlette", "uvicorn": "uvicorn", "prometheus_client": "prometheus-client"}
"""Modules that serve, and their packages."""


@grouped
def run(
    model: Model,
    *,
    address: AddressOptions,
    states: StateOptions,
    replies: ReplyOptions,
    limits: LimitOptions,
    json: Json = False,
) -> None:
    """Serve a model by OpenAI's protocol: completions, chats, embeddings, tokens; and a page to chat.

    Every text is the one that `anyformer generate` gives for its prompt and seed alone, whatever else is asked. What a request
    needs of memory is known before it is taken. SIGHUP loads the weights again without a dropped stream; SIGTERM or Ctrl-C
    ends the server when its texts have ended. --json prints what would be served and the bytes of its decode states, and ends.
    """
    lacking = [package for module, package in NEEDED.items() if find_spec(module) is None]
    if lacking:
        raise UserError(f"models are served by {' and '.join(lacking)}, not installed here: pip install 'anyformer[serve]'")
    keys = _keys(address.key_file)
    if json:
        print_json(data(_service(model, address, states, replies, limits, keys)))
        return
    from anyformer.serving.serve import LOOPBACK, listening, serve

    with listening(address.host, address.port) as socket:
        service = _service(model, address, states, replies, limits, keys)
        port = socket.getsockname()[1]
        if address.host not in (LOOPBACK, "localhost", "::1") and not keys:
            tell(f"warning: {address.host} may be reached from other machines, and no key is asked (--key-file)")
        tell(f"http://{address.host}:{port}/v1 serves {service.model.name} ({_told(service)}; Ctrl-C ends)")
        serve(service, socket, lambda line: tell(f"anyformer serve: {line}"))


def _service(
    place: Path,
    address: AddressOptions,
    states: StateOptions,
    replies: ReplyOptions,
    limits: LimitOptions,
    keys: tuple[str, ...],
) -> ModelService:
    """The model, loaded, with memory for its texts."""
    from anyformer.generation import check_weights
    from anyformer.loading import pixels, sounds, trained_length
    from anyformer.serving.application import HOSTS, ModelService
    from anyformer.serving.guard import ServingLimits
    from anyformer.serving.media import MediaReaders
    from anyformer.serving.memory_of_states import StateMemory
    from anyformer.serving.metrics import ServingMetrics
    from anyformer.serving.reloading import Reloading
    from anyformer.serving.scheduler import Scheduler
    from anyformer.serving.served_model import ServedModel
    from anyformer.serving.several_states import SeveralStates
    from anyformer.serving.worker import ServingWorker
    from anyformer.text.replies import ReplyForm, form_of

    check_weights(states.weights, 1, device())
    in_large_pages()
    adapters = _adapters(address.adapter)
    load = partial(_loaded, place, adapters, states, replies.towers)
    loaded, tokenizer, line = load()
    if line:
        tell(line)
    media = MediaReaders(partial(pixels, place) if replies.images else None, partial(sounds, place) if replies.audio else None)
    _check_towers(loaded.base, replies)
    memory = StateMemory(states.places, states.length, states.memory, states.own_states, states.chunk, states.prefix_memory)
    form = ReplyForm() if tokenizer is None else form_of(tokenizer, replies.tool_format, replies.reasoning_format)
    length = memory.longest(loaded.base, trained_length(place))
    scheduler = Scheduler(SeveralStates(*loaded.states(memory, length)), tokenizer, most_waiting=limits.queue)
    name = address.name or place.resolve().name
    embeds = loaded.sequences is None
    model = ServedModel(name, loaded.base, tokenizer, length, form, loaded.adapters, media, embeds)
    worker = ServingWorker(scheduler, ServingMetrics())
    model_is_loaded()
    return ModelService(
        model,
        worker,
        ServingLimits(limits.body, rate=limits.rate, seconds=limits.time_limit, keys=keys),
        HOSTS if address.host in HOSTS else None,
        limits.grace,
        partial(print, flush=True) if address.log else None,
        Reloading(model, worker, memory, lambda: load()[0]),
    )


def _check_towers(model: Transformer, asked: ReplyOptions) -> None:
    """Refuse images and sounds for a model without towers for them."""
    architecture = model.architecture
    for option, is_asked, tower in (
        ("--images", asked.images, architecture.images),
        ("--audio", asked.audio, architecture.audio),
    ):
        if is_asked and tower is None:
            raise UserError(f"{option}: the model has no tower for these: leave it out")


def _loaded(
    place: Path, adapters: Mapping[str, Path], states: StateOptions, towers: Mapping[str, bool]
) -> tuple[LoadedModels, Tokenizer | None, str]:
    """The model with its weights in a format, and the same with each adapter; or in another engine. And what to say of that."""
    from anyformer.engines import Asked, ModelLoading, opened
    from anyformer.generation import generating
    from anyformer.loading import load, with_adapter
    from anyformer.serving.reloading import LoadedModels

    loading = ModelLoading(place, lambda: load(place, device=device(), images=towers["images"], audio=towers["audio"]))
    beyond = {
        "--adapter": bool(adapters), "--images": towers["images"], "--audio": towers["audio"],
        "--own-states": states.own_states, "--prefix-memory": bool(states.prefix_memory),
    }  # fmt: skip
    beside = tuple(word for word, is_asked in beyond.items() if is_asked)
    if states.engine != "own" and not (states.engine == "auto" and beside):
        found = opened(states.engine, Asked(place, loading, states.weights, device(), beside, served=True))
        return LoadedModels(found.model, {}, found.sequences), found.tokenizer, found.line
    model, tokenizer = loading.taken()
    merged = {name: with_adapter(place, model, folder) for name, folder in adapters.items()}
    line = f"engine: own (others do not do {' and '.join(beside)})" if states.engine == "auto" else ""
    base = generating(model, states.weights)
    return LoadedModels(base, {name: generating(each, states.weights) for name, each in merged.items()}), tokenizer, line


def _adapters(given: Sequence[str] | None) -> dict[str, Path]:
    """The directories of adapters by name."""
    found: dict[str, Path] = {}
    for text in given or ():
        name, _, folder = text.partition("=")
        if not name or not folder or ":" in name or name in found:
            raise UserError(f"--adapter {text}: should be NAME=DIR, without : in the name, and each name once")
        found[name] = Path(folder)
    return found


def _keys(file: Path | None) -> tuple[str, ...]:
    """The keys of a file, and that of the environment."""
    found = [os.environ.get(KEY, "")]
    if file is not None:
        try:
            found += file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeError) as error:
            raise UserError(f"--key-file {file}: cannot be read ({error})") from None
    keys = tuple(key.strip() for key in found if key.strip())
    if file is not None and not keys:
        raise UserError(f"--key-file {file}: holds no key: write one a line")
    return keys


def data(service: ModelService) -> dict[str, Any]:
    """What is served, and the bytes of its decode states, as plain data."""
    from anyformer.serving.other_routes import model_table

    states = service.worker.scheduler.states
    kept = 0 if states.prefixes is None else states.prefixes.total
    held = {"foretold": states.foretold, "held": states.held, "total": states.total, "prefixes": kept}
    return {
        **model_table(service.model, service.model.name),
        "adapters": sorted(service.model.adapters),
        "places": states.places,
        "state_bytes": held,
    }


def _told(service: ModelService) -> str:
    """How texts are held."""
    states: Any = service.worker.scheduler.states
    return f"decode states: {states.held:,} bytes held, {states.total:,} at most; {service.model.length:,} positions a text"
