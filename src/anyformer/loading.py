"""`load`: a model and its tokenizer from a run's directory, a checkpoint's or one of Hugging Face's layout."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from os.path import exists, isdir, isfile  # which no name is too long for
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyformer import catalogue, checkpoint, hub, huggingface
from anyformer.checkpoint import at_hand
from anyformer.data import ImageTexts, SoundTexts
from anyformer.describe import Notice, UserError, read_data
from anyformer.generation.sounds import SoundFrames
from anyformer.huggingface import gguf
from anyformer.huggingface.saelens import is_saelens, load_saelens
from anyformer.model import Architecture
from anyformer.model.adapted import adapted
from anyformer.model.adapters import made_of
from anyformer.model.portions import Divide, keep_whole
from anyformer.model.transformer import Transformer
from anyformer.objectives import files_of_images, files_of_sounds
from anyformer.objectives.captions import CaptionsObjective
from anyformer.objectives.files_of_images import images_in
from anyformer.objectives.pixels import vector_size
from anyformer.objectives.sound_to_text import SoundToTextObjective
from anyformer.parts.images.encoder_module import Images
from anyformer.plan import Plan
from anyformer.resolving import architecture
from anyformer.text import Tokenizer
from anyformer.text.beside import Beside
from anyformer.text.conventions import Conventions
from anyformer.tuning import Adapter

_COLOURS = 3


def load(
    path: str | Path,
    *,
    plan: Plan | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    adapter: str | Path | None = None,
    images: bool = False,
    audio: bool = False,
    divide: Divide = keep_whole,
    among: checkpoint.Checkers = checkpoint.BY_ONE,
) -> tuple[Transformer, Tokenizer | None]:
    """The model of a checkpoint, a run's latest undamaged one, a Hugging Face directory or a GGUF file, in evaluation mode.

    And its tokenizer, None if absent. Only safetensors are read, never pickles; in a store or on a hub as `checkpoint.at_hand`
    has it. `dtype`: of the weights, by default as stored.
    `adapter`: a directory that PEFT wrote for this model, which becomes one with its weights; the adapter of a run already is.
    `images`, `audio`: of a composite in Hugging Face's layout, with its tower for images, or for sound; by default its text
    model alone is read.
    `divide`: among processes, each of which holds its share (`inference`); `among`: those that check a checkpoint together.
    A `Notice` warns of each damaged checkpoint that is skipped, and of tokens for which the model's table has no row.
    """
    model, tokenizer = _loaded(at_hand(path), plan, device, dtype, adapter, {"images": images, "audio": audio}, divide, among)
    rows = model.architecture.embedding.symbols
    if tokenizer is not None and rows is not None and tokenizer.vocab_size > rows:
        warnings.warn(
            f"{path}: the tokenizer has {tokenizer.vocab_size:,} tokens and the model's table {rows:,} rows: texts with a "
            f"token from number {rows:,} on are refused; is this the model's tokenizer?",
            Notice,
            stacklevel=2,
        )
    return model, tokenizer


def _loaded(
    path: Path,
    plan: Plan | None,
    device: torch.device | str,
    dtype: torch.dtype | None,
    adapter: str | Path | None,
    towers: huggingface.TowersAsked,
    divide: Divide,
    among: checkpoint.Checkers,
) -> tuple[Transformer, Tokenizer | None]:
    if adapter is not None:
        if divide is not keep_whole:
            raise UserError(f"{path}: is not divided among processes with an adapter beside it: load it in one process")
        model, tokenizer = load(path, plan=plan, device=device, dtype=dtype, **towers)
        return with_adapter(path, model, adapter), tokenizer
    if path.suffix == ".gguf" and isfile(path):
        return huggingface.load(path, plan=plan, device=device, dtype=dtype, divide=divide, **towers)
    if not isdir(path):
        if str(path) in (entry.name for entry in catalogue.listing()):
            raise checkpoint.CheckpointError(
                f"{path}: an architecture without weights; train it first with anyformer train {path} --data PATH, and give "
                "the directory of that run"
            )
        if hub.looks_like_a_model(str(path)) and not exists(path):
            raise checkpoint.CheckpointError(f"{path}: no such directory; a model of a hub is named hub:{path}")
        problem = "is a file" if exists(path) else "no such directory"
        raise checkpoint.CheckpointError(
            f"{path}: {problem}; give the directory of a run, a checkpoint or a Hugging Face model"
        )
    if is_saelens(path):
        return load_saelens(path, plan=plan, device=device, dtype=dtype), None
    if isfile(path / "config.json") and not isfile(path / checkpoint.MANIFEST):
        return huggingface.load(path, plan=plan, device=device, dtype=dtype, divide=divide, **towers)
    if checkpoint.steps(path):
        newest, damaged = checkpoint.latest(path, among=among)
        if newest is None:
            raise checkpoint.CheckpointError(f"{path}: every checkpoint is damaged: {'; '.join(damaged)}")
        for problem in damaged:
            warnings.warn(f"skipping a damaged checkpoint: {problem}", Notice, stacklevel=2)
        path = newest
    elif (path / "run.toml").is_file():
        raise checkpoint.CheckpointError(
            f"{path}: this run has no checkpoint yet; continue it with anyformer train --resume {path}"
        )
    elif isfile(path / "adapter_config.json"):
        raise checkpoint.CheckpointError(
            f"{path}: an adapter without the model that it stands beside; give that model, and this directory as --adapter"
        )
    elif not (path / checkpoint.MANIFEST).is_file():
        raise checkpoint.CheckpointError(
            f"{path}: holds no weights: neither checkpoints of a run, nor {checkpoint.MANIFEST} (a checkpoint), nor "
            "config.json (a Hugging Face model)"
        )
    model, tokenizer, _ = checkpoint.load(path, plan=plan, device=device, dtype=dtype, divide=divide, among=among)
    return model, tokenizer


def with_adapter(path: str | Path, model: Transformer, adapter: str | Path) -> Transformer:
    """What was loaded from a path and an adapter of PEFT's as one model, which shares the weights that the adapter leaves."""
    weights, family = {name: each.detach() for name, each in model.named_parameters()}, _family(at_hand(path), model)
    merged, values = huggingface.merge_adapter(at_hand(adapter), model.architecture, family, weights)
    return made_of(merged, model.plan, values)


def architecture_of(path: str | Path) -> Architecture:
    """The architecture of the model that `load` gives, of which nothing else is read."""
    place = checkpoint.newest(checkpoint.at_hand(str(path)))
    made = architecture(place)
    if not (place / checkpoint.MANIFEST).is_file():
        return made
    found = checkpoint.adapter_of(place, checkpoint.read_manifest(place))
    return made if found is None else adapted(made, found[0])


def adapter_of(path: str | Path) -> tuple[Transformer, Tokenizer | None, Adapter, Mapping[str, Tensor]]:
    """The model of a run or a checkpoint without its adapter, its tokenizer, the adapter, and its parameters by name."""
    path = checkpoint.newest(at_hand(path))
    model, tokenizer, manifest = checkpoint.load(path, merge=False)
    found = checkpoint.adapter_of(path, manifest)
    if found is None:
        raise checkpoint.CheckpointError(f"{path}: was trained without an adapter (tuning.adapter), so there is none to write")
    return model, tokenizer, *found


def _family(path: Path, model: Transformer) -> huggingface.Family:
    """The family whose names the weights of a model have: that of its directory, else the first that expresses it."""
    if isfile(path / "config.json") and not isfile(path / checkpoint.MANIFEST):
        config, towers = huggingface.read_config(path), huggingface.towers_asked(model.architecture)
        towers["images"] = towers["images"] and config.model_type in huggingface.COMPOSITES
        return huggingface.read_architecture(config, **towers)[1]
    return huggingface.find_family(model.architecture)[0]


def trained_length(path: str | Path) -> int | None:
    """Length of the texts that a model was trained on, None where it is not recorded.

    The `length` of a run, also for its checkpoints; the `max_position_embeddings` of a Hugging Face directory, also for a
    checkpoint imported from it.
    """
    path = at_hand(path)
    for run in (path, path.absolute().parent.parent):
        if (run / "run.toml").is_file():
            return _whole(read_data(run / "run.toml").get("length"))
    if (path / checkpoint.MANIFEST).is_file():
        return _whole(checkpoint.read_manifest(path).facts.get("length"))
    if (path / "config.json").is_file():
        return _whole(huggingface.text_keys(huggingface.read_config(path)).get("max_position_embeddings"))
    return None


def beside(path: str | Path) -> Beside:
    """What stands beside the weights of a run's latest checkpoint, a checkpoint or a Hugging Face directory."""
    place = checkpoint.newest(at_hand(path))
    if (place / checkpoint.MANIFEST).is_file():
        return checkpoint.beside_of(place, checkpoint.read_manifest(place))
    return gguf.beside_of(place) if gguf.is_gguf(place) else Beside.read(place)


def labels_of(path: str | Path) -> tuple[str, ...]:
    """The classes of a classifier in the order of its outputs: those of its training here, else those of its configuration."""
    place = checkpoint.newest(at_hand(path))
    if (place / checkpoint.MANIFEST).is_file():
        classes = checkpoint.read_manifest(place).facts.get("classes")
        if isinstance(classes, dict) and classes:
            return tuple(next(iter(classes.values())))
    return Conventions.of(beside(path)).labels


def training_facts(path: str | Path) -> huggingface.Facts | None:
    """What a model card says of the training of a checkpoint; None of one that was not trained here."""
    run = trained_in(path)
    if run is None:
        return None
    manifest = checkpoint.read_manifest(checkpoint.newest(at_hand(path)))
    return huggingface.Facts.of(run, manifest.facts.get("step"), manifest.validation_loss)


def imported_towers(path: str | Path) -> Path | None:
    """The directory of the composite whose text model this is: itself, or where a checkpoint was imported from; else None."""
    path = at_hand(path)
    if (path / checkpoint.MANIFEST).is_file():
        source = checkpoint.read_manifest(path).facts.get("towers")
        return at_hand(source) if isinstance(source, str) else None
    return path if huggingface.left_aside(path) else None


def _seen_by(path: Path) -> Path | None:
    """The directory that says how the model at `path`, no composite, reads images: itself, or where it was imported from."""
    if (path / checkpoint.MANIFEST).is_file():
        source = checkpoint.read_manifest(path).facts.get("images")
        return at_hand(source) if isinstance(source, str) else None
    sees = isfile(path / "config.json") and huggingface.family_of(huggingface.read_config(path)).sees
    return path if sees else None


def pixels(path: str | Path, files: Sequence[str | Path]) -> Images:
    """Files of images for the model at `path`: a composite, a checkpoint imported from one, or one trained on images here.

    (n, 3, height, width), or each of its own size. They are resized, cropped and centred as its `preprocessor_config.json`
    says, beside its weights or where they came from; or as in its training, for a model that reads vectors as these.
    """
    if (trained := _trained_on_images(path)) is not None:
        return images_in(files, *trained, architecture_of(path))
    source = imported_towers(path) or _seen_by(at_hand(path))
    if source is None:
        raise checkpoint.CheckpointError(f"{path}: was not imported from a composite, so nothing says how it reads images")
    return huggingface.pixels(files, source)


def hears_among(path: str | Path) -> bool:
    """Whether the model at `path` hears sounds among the tokens of its text, by a tower of its own."""
    source = imported_towers(path)
    imported = source is not None and huggingface.read_config(source).model_type in huggingface.HEARING
    return imported or _trained_on_sounds(path) is not None


def sounds(path: str | Path, files: Sequence[str | Path]) -> SoundFrames:
    """Files of sound for the model at `path`, as its composite's `preprocessor_config.json` or its training here says."""
    if (trained := _trained_on_sounds(path)) is not None:
        return files_of_sounds.sounds_in(files, *trained, architecture_of(path), str(path))
    source = imported_towers(path)
    if source is None:
        raise checkpoint.CheckpointError(f"{path}: was not imported from a composite, so nothing says how it hears sounds")
    return SoundFrames(*huggingface.sounds(files, source))


def trained_pixels(path: str | Path) -> huggingface.TrainedPixels | None:
    """How the images of a model's training here became pixels; None of one that was not trained on coloured images."""
    trained = _trained_on_images(path)
    if trained is None or trained[1].channels != _COLOURS or vector_size(architecture_of(path)) is not None:
        return None
    objective, data = trained
    mean, deviation = ((each * _COLOURS)[:_COLOURS] for each in (objective.mean, objective.deviation))
    return huggingface.TrainedPixels(data.height, data.width, mean, deviation)


def opening_prompt(path: str | Path, tokenizer: Tokenizer | None) -> str:
    """The beginning of a text with an image or a sound for the model at `path`; empty where that stands in front by itself."""
    if (seen := _trained_on_images(path)) is not None:
        return files_of_images.image_prompt(seen[0], architecture_of(path), tokenizer)
    heard = _trained_on_sounds(path)
    return "" if heard is None else files_of_sounds.sound_prompt(heard[0], architecture_of(path), tokenizer)


def _trained_on_images(path: str | Path) -> tuple[CaptionsObjective, ImageTexts] | None:
    """The objective and the data of a checkpoint that was trained on texts beside images here."""
    return files_of_images.trained_on(trained_in(path))


def _trained_on_sounds(path: str | Path) -> tuple[SoundToTextObjective, SoundTexts] | None:
    """The objective and the data of a checkpoint that was trained on sounds among the tokens of texts here."""
    return files_of_sounds.trained_on(trained_in(path))


def trained_in(path: str | Path) -> dict[str, Any] | None:
    """The run as plain data that a checkpoint is of; None of any other model."""
    place = checkpoint.newest(at_hand(path))
    if not (place / checkpoint.MANIFEST).is_file():
        return None
    run = checkpoint.read_manifest(place).facts.get("run")
    return run if isinstance(run, dict) else None


def _whole(length: object) -> int | None:
    return length if isinstance(length, int) and length > 0 else None
