"""Our model against that of transformers on the same directory: the logits, and the first layer that differs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from anyformer.describe import UserError
from anyformer.huggingface.convert import architecture_of, load
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.gguf import is_gguf
from anyformer.huggingface.registry import own
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.parts import Stack
from anyformer.parts.images.encoder_module import Images

TOLERANCE = 2e-5
"""Largest difference relative to the largest value that counts as equal in fp32."""


ACROSS = "our computation and that of transformers, each from the files as it reads them"
STEPS = (
    "one pass over the files as we read them, and the same computation token by token through a cache over the files as "
    "transformers reads them: this holds files, loading and decoding against each other, not the mathematics"
)
ONCE = "the same computation over the files as we and as transformers read them: this holds files and loading, not mathematics"


@dataclass(frozen=True)
class Drift:
    """The difference of one layer's output, or of the logits: the largest, relative to the largest value."""

    where: str
    difference: float

    @property
    def agrees(self) -> bool:
        return self.difference <= TOLERANCE


@dataclass(frozen=True)
class Verdict:
    """The differences of all layers in the order of computation, the logits last."""

    model_type: str
    drifts: tuple[Drift, ...]
    compared: str = ACROSS
    """Which two computations were compared."""

    @property
    def agrees(self) -> bool:
        return self.drifts[-1].agrees

    @property
    def first_drift(self) -> Drift | None:
        """The first difference beyond the tolerance."""
        return next((drift for drift in self.drifts if not drift.agrees), None)


def verify(
    directory: str | Path, *, length: int = 32, batch: int = 2, seed: int = 0, images: bool = False, audio: bool = False
) -> Verdict:
    """Run both models in fp32 on the same random input; needs transformers (the extra `hf`).

    `images`, `audio`: of a composite compare the tower and the text model that reads an image, or a sound, not the text model
    alone.
    """
    directory = Path(directory)
    architecture, family, _ = architecture_of(directory, images=images, audio=audio)
    ours, _ = load(
        directory, dtype=torch.float32, images=images, audio=audio
    )  # before transformers, for its errors name the file that is wrong
    theirs = _in_transformers(directory, family)
    if architecture.head is not None and architecture.head.pool == "last" and architecture.head.passed_over is None:
        batch = 1  # of more rows transformers cannot tell the last tokens without a token of padding
    given = example_of(architecture, batch, length, seed)
    target = target_of(architecture, batch, length, seed + 1) if architecture.two_inputs else None
    given, target = _unpadded(given, theirs), None if target is None else _unpadded(target, theirs)
    shown: dict[str, Tensor] = {}
    images_shown: Images | None = None
    if architecture.images is not None:
        given = given.masked_fill(given == architecture.images.token, 0)
        assert family.shows is not None, "a family with images"
        given, images_shown = architecture.images.example(given, seed)
        shown = family.shows(given, images_shown)
    elif family.shows is not None:
        assert target is not None, "images are the source of a text"
        shown = family.shows(target, given)
    heard: Tensor | None = None
    if architecture.audio is not None:
        given = given.masked_fill(given == architecture.audio.token, 0)
        assert family.hears is not None, "a family with sound"
        given, heard = architecture.audio.example(given, seed)
        shown = {**shown, **family.hears(heard, None)}
    if family is own():
        return _own(ours, theirs, given, target)
    mine: dict[str, Tensor] = {}
    other: dict[str, Tensor] = {}
    modules = dict(ours.named_modules())
    for stack, (prefix, _) in family.names_of(architecture).layers.items():
        for i, layer in enumerate(modules[stack].layers if stack in modules else ()):
            inner = prefix.replace("{i}", str(i)).rstrip(".")
            found = _text_module(theirs, inner, family) or _module(theirs, inner)
            if found is not None:
                _watch(layer, mine, f"{stack} layer {i}")
                _watch(found, other, f"{stack} layer {i}", family.seen if stack == "images.stack" else None)
    with torch.no_grad():
        mine["logits"] = ours(given, target, images=images_shown, audio=heard)
        pools = architecture.embedding.rank == 4 and architecture.head is not None and architecture.head.pool is not None
        other["logits"] = output_of(theirs, given, target, shown, pools=pools)
    gaps = {where: _gap(output, _as_ours(other[where], output)) for where, output in mine.items() if where in other}
    return Verdict(family.model_type, tuple(Drift(where, gap) for where, gap in gaps.items()))


@torch.no_grad()
def _own(ours: Transformer, theirs: nn.Module, given: Tensor, target: Tensor | None) -> Verdict:
    """The verdict on our own layout: one pass against token by token where the architecture decodes, else two passes."""
    architecture = ours.architecture
    steps = architecture.shape_of_model == "decoder-only" and architecture.head is not None and target is None
    if steps and not architecture.folded_cost(Shape()).breaks("stepwise"):
        pieces, cache = [], None
        for place in range(given.shape[1]):
            out = theirs(input_ids=given[:, place : place + 1], past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            pieces.append(out.logits)
        return Verdict(own().model_type, (Drift("logits", _gap(ours(given), torch.cat(pieces, 1))),), STEPS)
    other = output_of(theirs, given, target)
    # A class without logits returns the features that a head would read.
    whole = ours if other.shape[-1] == architecture.outputs else ours.features
    mine = whole(given) if target is None else whole(given, target)
    return Verdict(own().model_type, (Drift("logits", _gap(mine, other)),), ONCE)


def _in_transformers(directory: Path, family: Family) -> nn.Module:
    """The model as transformers loads it."""
    try:
        transformers = importlib.import_module("transformers")
    except ImportError:
        raise HuggingFaceError(
            "verify compares with transformers, which is not installed: pip install 'anyformer[hf]'"
        ) from None
    classes = importlib.import_module("anyformer.huggingface.auto") if family is own() else transformers
    try:
        file = {"gguf_file": directory.name} if is_gguf(directory) else {}
        place = directory.parent if file else directory
        config = transformers.AutoConfig.from_pretrained(place, **file)
        named = (config.architectures or [family.default_class])[0]
        kind = getattr(classes, named, transformers.AutoModel)
        model: nn.Module = kind.from_pretrained(place, dtype=torch.float32, attn_implementation=family.kernel, **file)
    except UserError:
        raise
    except Exception as error:  # any failure of transformers' own code
        raise HuggingFaceError(f"{directory}: transformers cannot load it ({type(error).__name__}: {error})") from error
    return model.eval()


def _fits(stacks: Mapping[str, Stack], length: int) -> int:
    return min([length, *(stack.max_length for stack in stacks.values() if stack.max_length is not None)])


def _text_module(model: nn.Module, path: str, family: Family) -> nn.Module | None:
    """Of a composite, the module to which the text model's own path leads."""
    if family.text_name is None:
        return None
    # Names of modules are asked like those of their weights.
    return next((module for name, module in model.named_modules() if family.text_name(f"{name}.") == f"{path}."), None)


def _module(model: nn.Module, path: str) -> nn.Module | None:
    """The module of a stored name; None where weights are stored under other names than its module has.

    A base model's names may lack the prefix, and some classes have another.
    """
    whole: nn.Module = model.base_model  # type: ignore[assignment]  # transformers' own word for it
    for module, name in ((model, path), (whole, path.partition(".")[2])):
        try:
            return module.get_submodule(name) if name else None
        except AttributeError:
            continue
    return None


def _watch(
    module: nn.Module, outputs: dict[str, Tensor], where: str, ordered: Callable[[Tensor], Tensor] | None = None
) -> None:
    """Record a layer's output under `where`, its positions `ordered`."""

    def record(_: nn.Module, given: Any, output: Any) -> None:
        found = output[0] if isinstance(output, tuple | list) else output
        outputs[where] = found if ordered is None else ordered(found)

    module.register_forward_hook(record)


def _unpadded(tokens: Tensor, theirs: nn.Module) -> Tensor:
    """The tokens with another in place of padding, whose positions RoBERTa's classes do not count; anything else as it is."""
    padding = getattr(theirs.config, "pad_token_id", None)
    if padding is None or tokens.dtype is not torch.int64:
        return tokens
    return tokens.masked_fill(tokens == padding, padding - 1 if padding else 1)


def target_of(architecture: Architecture, batch: int, length: int, seed: int) -> Tensor:
    """Random tokens of a target, as many as its positions allow."""
    longest = architecture.output_stack.max_length
    return architecture.output_embedding.example(batch, length if longest is None else min(length, longest), seed=seed)


def example_of(architecture: Architecture, batch: int, length: int, seed: int) -> Tensor:
    """A random input: of text up to `length` tokens, of images squares with all positions of a table."""
    entrance, fits = architecture.embedding, _fits(architecture.stacks, length)
    if entrance.rank != 4:
        return entrance.example(batch, fits, seed=seed)
    first = next(iter(architecture.stacks.values())).max_length if entrance.longest is None else entrance.longest
    return entrance.published(batch, length if first is None else first, seed)


def output_of(
    theirs: nn.Module,
    given: Tensor,
    target: Tensor | None,
    shown: Mapping[str, Tensor] | None = None,
    *,
    pools: bool = False,
) -> Tensor:
    """Logits, or features where there are none; `pools`: those of a whole image."""
    main = "input_ids" if not given.is_floating_point() else getattr(theirs, "main_input_name", "input_ids")
    second = {} if target is None or shown else {"decoder_input_ids": target}
    if second:
        # One pass needs no cache, and FSMT's class leaves the causal mask out where it keeps one.
        theirs.config.use_cache = False  # type: ignore[union-attr]  # a configuration, which torch's types take for a module
    out = theirs(**{main: given, **second, **(shown or {})})
    if "start_logits" in out:
        return torch.stack([out["start_logits"], out["end_logits"]], -1)
    named = ("logits", "image_embeds", "pooler_output") if pools else ("logits", "last_hidden_state")
    logits: Tensor = next(out[name] for name in named if name in out)
    return logits


def _as_ours(other: Tensor, mine: Tensor) -> Tensor:
    """Rows before positions, which FSMT's layers have the other way round; towers have the patches of all images in one row."""
    if other.shape != mine.shape and other.shape == mine.transpose(0, 1).shape:
        return other.transpose(0, 1)
    return other.reshape(mine.shape)


def _gap(mine: Tensor, other: Tensor) -> float:
    return float((mine - other).abs().max() / other.abs().max().clamp(min=1e-30))
