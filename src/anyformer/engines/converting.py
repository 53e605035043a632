"""Engines that read a model from a file of their own: it is made once, proved, and kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import torch

from anyformer.cache import contents, digest
from anyformer.describe import InputError
from anyformer.engines.converted import ConvertedModel, ConvertedModels, digest_of
from anyformer.engines.described_model import DescribedModel
from anyformer.engines.engine import Asked, EngineRefusedError, Opened
from anyformer.engines.proof import Proof, prove
from anyformer.engines.sequences import SequenceMaker
from anyformer.engines.stored_form import files_of
from anyformer.generation import generating
from anyformer.generation.checks import check_model
from anyformer.generation.places import PlaceMaker, RowReader
from anyformer.model.transformer import Transformer

KEPT = ConvertedModels()


class ConvertingEngine(ABC):
    """An engine with a format of its own, in which numbers are held in one of several forms."""

    name: str
    suffix: str
    """Of the name of its files."""
    same: Sequence[str]
    """Forms in which it computes what the own engine does; `auto` takes these alone."""
    plain: Sequence[str]
    """Forms that hold the numbers of a model as they are."""
    serves: bool = False
    """Whether texts may come and go in it one by one."""

    @property
    @abstractmethod
    def installed(self) -> bool:
        """Whether it is here."""

    @property
    @abstractmethod
    def remedy(self) -> str:
        """How it is installed."""

    @abstractmethod
    def versions(self) -> list[str]:
        """Its version, and all else of it on which its numbers may depend."""

    @abstractmethod
    def form(self, asked: Asked) -> str:
        """The form for weights that are held as they are asked for; `EngineRefusedError` where there is none."""

    @abstractmethod
    def own_file(self, place: Path) -> bool:
        """Whether a model's place is a file of its own format."""

    @abstractmethod
    def write(self, model: Transformer, place: Path, path: Path, form: str) -> None:
        """Make its file of the model at `place`; `EngineRefusedError` for one whose type it does not know, before any work."""

    @abstractmethod
    def size(self, model: Transformer, form: str) -> int:
        """About how many bytes the file takes."""

    @abstractmethod
    def read(self, path: Path, form: str) -> PlaceMaker:
        """What computes the logits of a file."""

    def reader(self, places: PlaceMaker) -> RowReader | None:
        """What computes the logits of whole texts, for what `read` gave; None: it computes those of the next token alone."""
        return None

    def sequences(self, places: PlaceMaker) -> SequenceMaker:
        """Memory of texts that come and go, for what `read` gave; asked where `serves` is true."""
        raise NotImplementedError(f"{self.name} serves no texts")

    @abstractmethod
    def reference(self, path: Path) -> Transformer:
        """The numbers of a file in a form that is not plain, as a model."""

    def open(self, asked: Asked) -> Opened:
        """The model from its file, which is made and proved where it was not before."""
        form = self._form(asked)
        key = digest([self.name, [digest_of(path) for path in files_of(asked.place)], form, _writer()])
        made_of = None if self.own_file(asked.place) else self.suffix
        entry = KEPT.find(key, made_of)
        if entry is None:
            with KEPT.making(key):
                entry = KEPT.find(key, made_of) or self._made(key, form, asked)
        path = asked.place if made_of is None else entry.file(made_of)
        versions = [*self.versions(), str(torch.__version__), torch.backends.cpu.get_cpu_capability(), contents()]
        proof, places = Proof.kept(entry.proof, versions), None
        if proof is None:
            places = self.read(path, form)
            proof = prove(self._reference(asked, form, path), places, versions)
            entry.keep(proof.plain())
        if not (proof.exact if form in self.same else proof.rounded):
            raise EngineRefusedError(f"it computes something else ({proof})")
        described = DescribedModel(entry.architecture, torch.float32 if form in self.same else torch.bfloat16)
        line = f"engine: {self.name} {versions[0]}, {'' if form in self.same else f'{form}, '}{proof}"
        places = places or self.read(path, form)
        reader = self.reader(places)
        if asked.whole and reader is None:
            raise EngineRefusedError("it gives logits of the next token alone, and texts are to be scored")
        sequences = self.sequences(places) if asked.served else None
        return Opened(described, asked.loading.tokenizer, places, reader, sequences, line)

    def _form(self, asked: Asked) -> str:
        """The form, where what is asked can be had."""
        if asked.beside:
            raise EngineRefusedError(f"it does not do {' and '.join(asked.beside)}")
        if asked.served and not self.serves:
            raise EngineRefusedError("it takes a group of texts until all have ended, and a server's come and go")
        if asked.device != "cpu":
            raise EngineRefusedError(f"it computes on the processor here, and there is {asked.device}")
        if asked.weights != "stored" and self.own_file(asked.place):
            raise EngineRefusedError("a file of its own format is taken as it is: leave --weights out")
        form = self.form(asked)
        if form not in self.same and not asked.named:
            raise EngineRefusedError(f"with weights in {form} it rounds otherwise, so texts would differ")
        if not self.installed:
            raise EngineRefusedError(f"it is not installed: {self.remedy}")
        return form

    def _made(self, key: str, form: str, asked: Asked) -> ConvertedModel:
        """A new entry: of a file of its own format the description alone."""
        model = asked.loading.model
        try:
            check_model(model)
        except InputError as error:
            raise EngineRefusedError(str(error)) from None
        if model.architecture.two_inputs:
            raise EngineRefusedError("it is asked for one text that goes on, and this model has two inputs")
        if self.own_file(asked.place):
            return KEPT.add(key, model.architecture, 0, lambda entry: None)

        def write(entry: ConvertedModel) -> None:
            self.write(model, asked.place, entry.file(self.suffix), form)

        return KEPT.add(key, model.architecture, self.size(model, form), write)

    def _reference(self, asked: Asked, form: str, path: Path) -> Transformer:
        """What a file in this form should compute: the model with weights of as many bits, or with the few of the file."""
        return generating(asked.loading.taken()[0], asked.weights) if form in self.plain else generating(self.reference(path))


def _writer() -> str:
    """A digest of what writes files of other formats here."""
    room = Path(__file__).parents[1] / "huggingface"
    return digest([path.read_bytes().hex() for path in sorted(room.glob("gguf/**/*.py"))])
