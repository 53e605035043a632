"""Both towers of CLIP and SigLIP at once: a directory of transformers' layout to `TwoTowers`, and back."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from anyformer.describe import UserError
from anyformer.files import check_directory, writing_directory
from anyformer.huggingface.canonical import canonical
from anyformer.huggingface.config import Config
from anyformer.huggingface.convert import fill, opened, tensors_of
from anyformer.huggingface.declared import shapes_of
from anyformer.huggingface.digests import check_digests, write_digests
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.families import clip_text
from anyformer.huggingface.family import Family
from anyformer.huggingface.files import Stored, WeightSource, write_json, write_shards
from anyformer.huggingface.registry import family
from anyformer.huggingface.rules import Names, rules
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.vocabulary import MAPPING
from anyformer.model import Architecture, TwoTowers
from anyformer.model.initialise import on_meta
from anyformer.model.mup import computed
from anyformer.model.two_towers_module import TwoTowersModule
from anyformer.operations import Weight
from anyformer.parts import Head
from anyformer.plan import Plan
from anyformer.text import Tokenizer
from anyformer.text.beside import CONFIG, Beside

_TEXT, _IMAGE = "text_config", "vision_config"
_IGNORED = r".*position_ids"
_OLD_END = 2
"""An end of text that first files of CLIP give: their class then takes the largest token of a row for it."""


@dataclass(frozen=True)
class TowerFiles:
    """One tower in the files: its family, the key of its table, and the prefixes of its tensors, of which the first stands
    before those that have none of them."""

    family: Family
    key: str
    prefixes: tuple[str, ...]
    named: str
    """The class of transformers as which the tower is read."""

    def own(self, name: str) -> str | None:
        """The name of a tensor if it is one of this tower."""
        return name if name.startswith(self.prefixes) else None

    def in_files(self, name: str) -> str:
        """The name in the files of both."""
        return name if name.startswith(self.prefixes) else self.prefixes[0] + name


@dataclass(frozen=True)
class TwoTowersFamily:
    """A model type of two towers, and its class in transformers."""

    model_type: str
    default_class: str
    text: TowerFiles
    image: TowerFiles
    numbers: Mapping[str, tuple[str, tuple[int, ...]]]
    """Own weight beside the towers -> its name and shape in the files."""
    width: int | None
    """Features of both where no key says it; None: no key says it, and they follow from the towers."""


@cache
def families() -> dict[str, TwoTowersFamily]:
    """The families of two towers by model type."""
    clip_read, clip_image = family("clip_text_model"), family("clip_vision_model")
    siglip_image = family("siglip_vision_model")
    texts = replace(clip_read, read=_projected(clip_read.read), names=_with_head(clip_text.clip_names, "text_projection"))
    siglip_texts = replace(
        clip_read, model_type="siglip_text_model", read=_read_siglip, names=_with_head(clip_text.siglip_names, "head")
    )
    clip = TwoTowersFamily(
        "clip", "CLIPModel",
        TowerFiles(texts, _TEXT, ("text_model.", "text_projection."), "CLIPTextModel"),
        TowerFiles(clip_image, _IMAGE, ("vision_model.", "visual_projection."), "CLIPVisionModelWithProjection"),
        {"log_scale": ("logit_scale", ())}, 512,
    )  # fmt: skip
    siglip = TwoTowersFamily(
        "siglip", "SiglipModel",
        TowerFiles(siglip_texts, _TEXT, ("text_model.",), "SiglipTextModel"),
        TowerFiles(siglip_image, _IMAGE, ("vision_model.",), "SiglipVisionModel"),
        {"log_scale": ("logit_scale", (1,)), "bias": ("logit_bias", (1,))}, None,
    )  # fmt: skip
    return {each.model_type: each for each in (clip, siglip)}


def _projected(read: Callable[[Config], Architecture]) -> Callable[[Config], Architecture]:
    """The reader of a tower of texts, with a projection of the vector of each text's end."""

    def with_projection(config: Config) -> Architecture:
        return read(config).but(head=Head(outputs=config("projection_dim", 512, "head.outputs"), pool="last"))

    return with_projection


def _read_siglip(config: Config) -> Architecture:
    """SigLIP's tower of texts: its last position is read, padding or not, for so it was trained."""
    made = clip_text.read_siglip(config)
    outputs = config("projection_size", made.width, "head.outputs")
    return made.but(head=Head(outputs=outputs, pool="last", bias=True))


def _with_head(names: Callable[[Architecture], Names], head: str) -> Callable[[Architecture], Names]:
    def with_head(architecture: Architecture) -> Names:
        made = names(architecture)
        return replace(made, outside={**made.outside, "head": head})

    return with_head


def read_two_towers(config: Config) -> TwoTowers:
    """The towers of a configuration; every key is read, known to be inert, or refused by name."""
    found = _family_of(config)
    width = {} if found.width is None else {"projection_dim": config("projection_dim", found.width)}
    (text, end), (image, _) = (_tower(config, each, width) for each in (found.text, found.image))
    if "bias" in found.numbers:
        config.finish(("initializer_factor",))
        return _joined(config, text=text, image=image, log_scale=math.log(10), bias=-10.0)
    log_scale = config("logit_scale_init_value", 2.6592, nowhere)
    config.finish(("initializer_factor",))
    if end is None:
        raise config.refused(f"{_TEXT}.eos_token_id", end, "the token that ends a text")
    symbols = text.embedding.symbols
    assert symbols is not None, "a tower of texts reads tokens"
    return _joined(config, text=text, image=image, log_scale=log_scale, end=symbols - 1 if end == _OLD_END else end)


def _joined(config: Config, **fields: Any) -> TwoTowers:
    with config.naming():
        return TwoTowers(**fields)


def _family_of(config: Config) -> TwoTowersFamily:
    found = families().get(config.model_type)
    if found is None:
        raise HuggingFaceError(
            f"{config.where}: {config.model_type} has no two towers that are compared, as {' and '.join(families())} have: "
            f"read it with `load`"
        )
    if (named := config.class_name) not in ("", found.default_class):
        raise HuggingFaceError(f"{config.where}: {config.model_type} is read as {found.default_class}, not as {named}")
    return found


def _tower(config: Config, files: TowerFiles, around: Mapping[str, Any]) -> tuple[Architecture, int | None]:
    """One tower, and the token that ends its texts; what older files have in `..._dict` goes before the table."""
    table = {key: config(key, None, nowhere, kind=MAPPING) or {} for key in (files.key, f"{files.key}_dict")}
    plain: dict[str, Any] = {key: value for each in table.values() for key, value in each.items()}
    own = {"model_type": files.family.model_type, "architectures": [files.named]}
    inner = Config({**plain, **around, **own}, f"{config.where}: {files.key}")
    inner.expect("dropout", 0.0, why="no class of transformers reads it")
    with inner.naming():
        made = files.family.read(inner)
    inner.finish(files.family.inert)
    return made, plain.get("eos_token_id", 49_407)


def load_two_towers(
    directory: str | Path,
    *,
    plan: Plan | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    progress: bool = False,
) -> tuple[TwoTowersModule, Tokenizer | None]:
    """The model of a directory of CLIP or SigLIP in evaluation mode, in the files' own type unless `dtype` is given, and its
    tokenizer, None if absent."""
    directory = Path(directory)
    check_digests(directory)
    config, source = opened(directory, dtype)
    towers, found = read_two_towers(config), _family_of(config)
    with on_meta():
        model = TwoTowersModule(towers, plan or Plan())
    sides = ((model.text, found.text), (model.image, found.image))
    _check_names(directory, source, found)
    for tower, files in sides:
        own = files.family
        stored = Stored(directory, own.base, own.older_names, files.own, source)
        fill(tower, own, stored, device=device, dtype=dtype, progress=progress)
    beside = Stored(directory, source=source)
    for name, weight in towers.own_weights().items():
        model.register_parameter(name, nn.Parameter(_number(beside, found.numbers[name][0], weight, dtype).to(device)))
    return model.eval(), Tokenizer.found(Beside.read(directory))


def _check_names(directory: Path, source: WeightSource, found: TwoTowersFamily) -> None:
    """Refuse tensors that belong to neither tower."""
    numbers = {name for name, _ in found.numbers.values()}
    known = (*found.text.prefixes, *found.image.prefixes)
    others = [n for n in source.names if n not in numbers and not n.startswith(known) and not re.fullmatch(_IGNORED, n)]
    if others:
        raise HuggingFaceError(
            f"{directory}: {len(others)} tensors belong to neither tower of {found.model_type}, the first "
            f"{', '.join(others[:4])}"
        )


def _number(stored: Stored, name: str, weight: Weight, dtype: torch.dtype | None) -> Tensor:
    """A number that files hold as such, or as a list of one."""
    tensor = stored.tensor(name)
    if tensor.numel() != 1:
        raise HuggingFaceError(f"{stored.directory}: {name} should be one number, got the shape {tuple(tensor.shape)}")
    return tensor.reshape(weight.shape).to(dtype or tensor.dtype)


def export_two_towers(
    model: TwoTowersModule, directory: str | Path, *, tokenizer: Tokenizer | None = None, dtype: torch.dtype | None = None
) -> str:
    """Write a directory that transformers' AutoModel loads, whole or not at all; returns its model type.

    `tokenizer`: its files stand beside the weights. `dtype`: of the weights, by default that of the model's.
    """
    directory = Path(directory)
    check_directory(directory)
    found, table = written(model.description)
    kept = next(model.parameters()).dtype if dtype is None else dtype
    table["dtype"] = str(kept).removeprefix("torch.")
    with writing_directory(directory) as partial:
        write_shards(partial, ((name, tensor.to(kept)) for name, tensor in _tensors(model, found)))
        (Beside() if tokenizer is None else tokenizer.beside).but({CONFIG: None}).write(partial)
        write_json(partial / CONFIG, table)
        write_digests(partial)
    return found.model_type


def written(towers: TwoTowers) -> tuple[TwoTowersFamily, dict[str, Any]]:
    """The family that expresses the towers, and their configuration; `MismatchError` where none does."""
    found = families()["clip" if towers.bias is None else "siglip"]
    text, image = computed(towers.text), computed(towers.image)
    if found.width is not None and towers.end is None:
        raise MismatchError(f"{found.default_class} of transformers reads a text up to its end: set end, the token of it")
    table: dict[str, Any] = {
        "model_type": found.model_type,
        "architectures": [found.default_class],
        _TEXT: _side(found.text, text),
        _IMAGE: _side(found.image, image),
    }
    if found.width is not None:
        table |= {"projection_dim": towers.features, "logit_scale_init_value": towers.log_scale}
        table[_TEXT]["eos_token_id"] = towers.end
    try:
        again = read_two_towers(Config(table))
    except UserError as error:
        raise MismatchError(f"{found.default_class} of transformers cannot hold these towers: {error}") from None
    pairs = {
        "text": (canonical(again.text), canonical(text)),
        "image": (canonical(again.image), canonical(image)),
        "end": (again.end, towers.end),
    }
    if other := [name for name, (theirs, ours) in pairs.items() if theirs != ours]:
        raise MismatchError(
            f"{found.default_class} of transformers computes something else than these towers: {', '.join(other)}"
        )
    return found, table


def _side(files: TowerFiles, tower: Architecture) -> dict[str, Any]:
    table = Config({"model_type": files.family.model_type}, target=Target(tower))
    files.family.read(table)
    return {key: value for key, value in table.written.items() if key != "architectures"}


def _tensors(model: TwoTowersModule, found: TwoTowersFamily) -> Iterator[tuple[str, Tensor]]:
    """(name, tensor) to store."""
    for tower, files in ((model.text, found.text), (model.image, found.image)):
        architecture = computed(tower.architecture)
        of_weights = rules(files.family.names_of(architecture), shapes_of(architecture))
        for name, tensor in tensors_of(of_weights, dict(tower.named_parameters())):
            yield files.in_files(name), tensor
    for own, (name, shape) in found.numbers.items():
        yield name, model.get_parameter(own).detach().cpu().reshape(shape)
