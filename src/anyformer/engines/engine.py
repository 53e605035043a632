"""What an engine is asked, and what it gives: a model, of which it computes the logits of texts that go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from anyformer.describe import UserError
from anyformer.engines.sequences import SequenceMaker
from anyformer.generation.places import PlaceMaker, RowReader
from anyformer.loading import beside
from anyformer.model.transformer import Transformer
from anyformer.text import Tokenizer

Loaded = tuple[Transformer, Tokenizer | None]


class EngineRefusedError(UserError):
    """An engine cannot do what is asked of it; the message says why."""


class ModelLoading:
    """A model that is loaded where it is needed, and once if it can be."""

    def __init__(self, place: Path, load: Callable[[], Loaded]) -> None:
        self._place, self._load = place, load
        self._loaded: Loaded | None = None

    @property
    def model(self) -> Transformer:
        """The model as it is stored, which is to stay so."""
        return self._held()[0]

    @property
    def tokenizer(self) -> Tokenizer | None:
        """Its tokenizer, which needs no weights."""
        return Tokenizer.found(beside(self._place)) if self._loaded is None else self._loaded[1]

    def taken(self) -> Loaded:
        """The model, which may be changed, and its tokenizer: nothing here holds them any more."""
        found, self._loaded = self._held(), None
        return found

    def _held(self) -> Loaded:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded


@dataclass(frozen=True)
class Asked:
    """A model and what it is needed for."""

    place: Path
    """Its directory, or its GGUF file."""
    loading: ModelLoading
    weights: str = "stored"
    """In which format its weights are held, as `generation.generating` has it."""
    device: str = "cpu"
    beside: tuple[str, ...] = ()
    """In words, what is asked beyond texts of one model that go on by a token."""
    whole: bool = False
    """Whether texts are to be scored, which takes the logits at many of their places."""
    served: bool = False
    """Whether texts come and go while others go on."""
    named: bool = False
    """Whether the user names the engine: then it may round otherwise than the own one."""


@dataclass(frozen=True)
class Opened:
    """A model that is ready. `places`: what computes its logits, of which `model` then has the description alone; None: itself.

    `reader`: what computes the logits of texts that do not go on, `sequences`: of texts that come and go, each where it was
    asked for. `line`: what to say of the choice.
    """

    model: Transformer
    tokenizer: Tokenizer | None
    places: PlaceMaker | None = None
    reader: RowReader | None = None
    sequences: SequenceMaker | None = None
    line: str = ""


class Engine(Protocol):
    """One kind of engine."""

    @property
    def name(self) -> str:
        """As it is asked for."""
        ...

    @property
    def installed(self) -> bool:
        """Whether it can be tried here."""
        ...

    def open(self, asked: Asked) -> Opened:
        """The model, ready; `EngineRefusedError` says why not, as far as it can be told before any work."""
        ...
