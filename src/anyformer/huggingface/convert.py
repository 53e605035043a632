"""A Hugging Face directory to a model: configuration by the family, weights rule by rule."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import reduce
from math import prod
from os.path import isdir  # which no name is too long for
from pathlib import Path

import torch
from torch import Tensor, nn

from anyformer.data.progress import meter
from anyformer.describe import Notice, UserError
from anyformer.huggingface.choices import ExpertTable
from anyformer.huggingface.config import Config, read_config
from anyformer.huggingface.declared import shapes_of
from anyformer.huggingface.digests import check_digests
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.files import Stored, WeightSource
from anyformer.huggingface.fixed_tables import EVERYWHERE, check_fixed_tables
from anyformer.huggingface.fused import as_stored
from anyformer.huggingface.gguf import GgufFile, beside_of, is_gguf
from anyformer.huggingface.registry import read_architecture, stored_format
from anyformer.huggingface.rules import WeightRule, rules
from anyformer.huggingface.stored import PLAIN, RestoredWeights, TensorFiles
from anyformer.huggingface.target import nowhere
from anyformer.model import Architecture
from anyformer.model.initialise import on_meta
from anyformer.model.portions import Divide, keep_whole
from anyformer.model.transformer import Transformer
from anyformer.plan import Plan
from anyformer.text import Tokenizer
from anyformer.text.beside import Beside


def architecture_of(
    directory: Path, dtype: torch.dtype | None = None, *, images: bool = False, audio: bool = False
) -> tuple[Architecture, Family, Stored]:
    """The architecture, family and tensors of a directory; the weights, not a flag, say whether head and embedding are tied.

    `dtype`: what weights that are stored in few bits become, by default what the configuration says. `images`, `audio`: of a
    composite, with its tower for images, or for sound.
    """
    config, source = opened(directory, dtype)
    architecture, family = read_architecture(config, images=images, audio=audio)
    stored = Stored(directory, family.base, family.older_names, family.text_name, source, family.stand_ins)
    untold = {key: value for name, (key, value) in family.told.items() if name in stored and key not in config}
    if untold:
        architecture = family.read(Config({**config.written, **untold}))
    return _tied_as_stored(_later_as_stored(architecture, family, stored), family, stored), family, stored


def opened(path: Path, dtype: torch.dtype | None = None) -> tuple[Config, WeightSource]:
    """The configuration and the plain tensors of a directory of Hugging Face's layout, or of a GGUF file."""
    if is_gguf(path):
        file = GgufFile(path, dtype)
        return file.config, file
    if not isdir(path):
        raise HuggingFaceError(f"{path}: no such directory; give one of Hugging Face's layout, or a GGUF file")
    check_digests(path, only=["config.json"])
    config = read_config(path)
    format = stored_format(config)
    return config, RestoredWeights(TensorFiles(path), format, dtype or (torch.bfloat16 if format is None else _dtype(config)))


def load(
    directory: str | Path,
    *,
    plan: Plan | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    progress: bool = False,
    images: bool = False,
    audio: bool = False,
    divide: Divide = keep_whole,
) -> tuple[Transformer, Tokenizer | None]:
    """The model in evaluation mode, in the files' own type unless `dtype` is given, or fp16 is too narrow for what it computes;
    and its tokenizer, None if absent.

    Weights in few bits are restored one by one, to `dtype` or what the configuration says. A `Notice` names scales of
    activations and of the cache that are left aside: they belong to a computation in few bits. Of a composite the text model is
    read; `images`, `audio`: with its tower and projector for them. `divide`: among processes, each of which holds its share.
    """
    directory = Path(directory)
    check_digests(directory)
    architecture, family, stored = architecture_of(directory, dtype, images=images, audio=audio)
    with on_meta():
        model = Transformer(architecture, plan)
    fill(model, family, stored, device=device, dtype=dtype, progress=progress, divide=divide)
    return model.eval(), Tokenizer.found(beside_of(directory) if is_gguf(directory) else Beside.read(directory))


def fill(
    model: Transformer,
    family: Family,
    stored: Stored,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    progress: bool = False,
    divide: Divide = keep_whole,
) -> None:
    """Give a model on the meta device the weights that are stored; refuses a tensor too few or too many."""
    architecture, directory = model.architecture, stored.directory
    shapes = shapes_of(architecture)
    of_weights = as_stored(rules(family.names_of(architecture), shapes), stored)
    computed = check_fixed_tables(stored, architecture, {**EVERYWHERE, **family.fixed})
    _check_names(of_weights, family, stored, computed)
    trained = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    if stored.source.aside:
        warnings.warn(_left_aside(directory, stored.source.aside), Notice, stacklevel=3)

    def held_as(stored: torch.dtype) -> torch.dtype:
        kept = dtype if dtype and stored.is_floating_point else stored
        return torch.float32 if kept == torch.float16 and family.beyond_fp16 else kept

    sources = {name: rule.stored for rule in of_weights for name in rule.parameters}
    portion = divide(model, lambda name: held_as(reduce(torch.promote_types, map(stored.type_of, sources[name]))))
    with meter(f"reading {directory.name}", sum(map(prod, shapes.values())), progress, "numbers") as advance:
        for name, tensor in _parameters_of(of_weights, stored, shapes):
            owner, _, leaf = name.rpartition(".")
            value = portion(name, tensor).to(device=device, dtype=held_as(tensor.dtype))
            setattr(model.get_submodule(owner), leaf, nn.Parameter(value, requires_grad=trained[name]))
            advance(tensor.numel())


def _dtype(config: Config) -> torch.dtype:
    """The type that a configuration gives its weights; bf16 where it gives none."""
    named = str(config("dtype", None, nowhere) or config("torch_dtype", None, nowhere)).removeprefix("torch.")
    return next((dtype for dtype in PLAIN if str(dtype) == f"torch.{named}"), torch.bfloat16)


def _left_aside(directory: Path, names: Sequence[str]) -> str:
    return (
        f"{directory}: {len(names)} scales of activations or of the cache are left aside, the first {', '.join(names[:3])}: "
        f"they belong to a computation in few bits, and the weights are restored without them"
    )


def _later_as_stored(architecture: Architecture, family: Family, stored: Stored) -> Architecture:
    """The architecture, without predictions of later tokens if the files hold nothing of them: transformers saves none."""
    bare = architecture.but(mtp=None)
    own = shapes_of(architecture).keys() - shapes_of(bare).keys()
    of_weights = rules(family.names_of(architecture), shapes_of(architecture)) if own else []
    there = any(name in stored for rule in of_weights if own.issuperset(rule.parameters) for name in rule.stored)
    return architecture if there else bare


def _tied_as_stored(architecture: Architecture, family: Family, stored: Stored) -> Architecture:
    """The architecture, tied if the files have a matrix of the head that equals the embedding; refuses an untied head without
    one, which transformers would draw at random."""
    head = architecture.head
    if head is None or not head.may_be_tied:
        return architecture
    untied, tied = (architecture.but(head=head.but(tied=value)) for value in (False, True))
    stored_as = {rule.parameters: rule for rule in rules(family.names_of(untied), shapes_of(untied))}
    own, shared = (stored_as.get((variant.head_table[0],)) for variant in (untied, tied) if variant.head_table)
    if own is None or own.stored[0] not in stored:
        if own is not None and not head.tied:
            raise HuggingFaceError(_headless(stored, own.stored[0]))
        return tied
    if shared is None or stored.shape(own.stored[0]) != stored.shape(shared.stored[0]):
        return untied
    return tied if torch.equal(stored.tensor(own.stored[0]), stored.tensor(shared.stored[0])) else untied


def _headless(stored: Stored, name: str) -> str:
    return (
        f"{stored.directory}: has no tensor {name}, the head, and tie_word_embeddings is false, so the embedding's table "
        f"is not it either: transformers would draw one at random. Add the file that has it; or set tie_word_embeddings to "
        f"true in config.json if the table is the head; or name the class without a head in architectures, to read features"
    )


def _check_names(of_weights: list[WeightRule], family: Family, stored: Stored, computed: Set[str]) -> None:
    """Refuse files that lack a tensor, or that have one without a place which is not `computed` by a formula."""
    needed = [name for rule in of_weights for name in rule.stored]
    beside = [name for rule in of_weights for name in (*rule.copies, *rule.idle) if name in stored]
    missing = [name for name in needed if name not in stored]
    if missing:
        raise HuggingFaceError(f"{stored.directory}: {len(missing)} tensors are missing, the first {', '.join(missing[:4])}")
    unused = stored.unused([*needed, *beside, *computed], (*family.ignored, r"lm_head\.weight"))
    unused = [name for name in unused if not _is_empty(stored, name)]
    if unused:
        raise HuggingFaceError(
            f"{stored.directory}: {len(unused)} tensors have no place in this {family.model_type} architecture, "
            f"the first {', '.join(unused[:4])}"
        )


def _is_empty(stored: Stored, name: str) -> bool:
    """Whether a tensor has no numbers, and needs no place: transformers keeps experts of width 0."""
    try:
        return not prod(stored.shape(name))
    except UserError:  # of a file that cannot be read
        return False


def _parameters_of(
    of_weights: list[WeightRule], stored: Stored, shapes: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[str, Tensor]]:
    """(name, value) of parameters, one rule at a time; each owns its memory."""
    for rule in of_weights:
        # A table of whole numbers is no weight in few bits, and is read as it is stored.
        tensors = [(stored.kept if isinstance(rule.op, ExpertTable) else stored.tensor)(name) for name in rule.stored]
        for name in rule.copies:
            if name in stored and not torch.equal(stored.tensor(name), tensors[0]):
                raise HuggingFaceError(
                    f"{stored.directory}: {name} should be a copy of {rule.stored[0]}, which all predictions share, and "
                    f"differs from it; leave it out of the files to use the shared one"
                )
        try:
            read = rule.op.read(tensors, [shapes[name] for name in rule.parameters])
        except (RuntimeError, ValueError, IndexError) as error:  # from shapes that the rule cannot split or reshape
            raise HuggingFaceError(
                f"{stored.directory}: {' + '.join(rule.stored[:3])} of shape {tuple(tensors[0].shape)} cannot be read as "
                f"{' + '.join(rule.parameters[:3])} of shape {shapes[rule.parameters[0]]} ({error})"
            ) from None
        for name, tensor in zip(rule.parameters, read, strict=True):
            if tuple(tensor.shape) != shapes[name]:
                raise HuggingFaceError(
                    f"{stored.directory}: {' + '.join(rule.stored[:3])} gives {name} the shape {tuple(tensor.shape)}, "
                    f"and the configuration says {shapes[name]}"
                )
            yield name, tensor.clone() if len(read) > 1 or not tensor.is_contiguous() else tensor


def tensors_of(of_weights: list[WeightRule], parameters: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """(name, tensor) to store, one rule at a time, on the CPU."""
    for rule in of_weights:
        written = rule.op.write([parameters[name].detach().cpu() for name in rule.parameters])
        for name, tensor in zip(rule.stored, written, strict=True):
            yield name, tensor.contiguous().clone() if len(written) > 1 else tensor.contiguous()
        for name in rule.copies:
            yield name, written[0].contiguous().clone()
        for name in rule.idle:
            yield name, torch.zeros_like(written[0])
