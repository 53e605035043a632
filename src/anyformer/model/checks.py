"""Checks of a model's sizes and inputs before any work, with errors for people."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor

from anyformer.describe import DescriptionError, InputError
from anyformer.model.architecture import Architecture
from anyformer.model.inputs import Call
from anyformer.operations import Tally
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.call.state import EMPTY
from anyformer.parts.embedding.embedding import Input, readable
from anyformer.parts.embedding.embedding_module import WHOLE

_MOST_PARAMETERS = 2**53
"""Most parameters of a module; with many more, the bytes of one tensor exceed a 64-bit number."""


def check_weights(tally: Tally) -> None:
    """Refuse weights that no tensor can hold, before any is made."""
    total = sum(prod(weight.shape) for weight in tally.weights.values())
    if total > _MOST_PARAMETERS:
        name, largest = max(tally.weights.items(), key=lambda item: prod(item[1].shape))
        raise DescriptionError(
            f"{total:.3g} parameters cannot be built, {_MOST_PARAMETERS:.3g} at most; the largest is {name}, "
            f"{' x '.join(map(str, largest.shape))}: choose smaller sizes"
        )


def check_inputs(architecture: Architecture, tally: Tally, call: Call, *, training: bool) -> None:
    """Refuse a call that does not fit `architecture`, whose declarations are `tally`, with an `InputError`."""
    tokens, decoder_tokens, state = call.tokens, call.decoder_tokens, call.state
    padding, documents, prefix, positions = call.padding, call.documents, call.prefix, call.positions
    two = architecture.two_inputs
    if two and decoder_tokens is None:
        raise InputError(f"this {architecture.shape_of_model} model reads two inputs: model(source, decoder_tokens)")
    if not two and decoder_tokens is not None:
        raise InputError(f"a {architecture.shape_of_model} model reads one sequence: leave decoder_tokens out")
    if tokens is None and (not two or state is None):
        raise InputError("tokens are missing; they may be None only in a model of two inputs whose state holds the source")
    if state is not None and (documents is not None or positions is not None):
        raise InputError("decode state keeps its own positions and one document per row: leave documents and positions out")
    if call.images is not None and architecture.images is None:
        raise InputError("this model reads no images: leave them out, or load a composite with its tower (images=True)")
    if call.audio is not None and architecture.audio is None:
        raise InputError("this model reads no sound: leave audio out, or load a composite with its tower (audio=True)")
    if call.audio is None and call.audio_padding is not None:
        raise InputError("audio_padding is padding of audio, which is missing: give both, or neither")
    _check_condition(architecture, call)
    if documents is not None and (packed := tally.breaks("packed", training=training)):
        raise InputError(f"documents cannot be packed in one row: {'; '.join(packed)}")
    if positions is not None and architecture.source == "prefix":
        raise InputError("positions are counted from the first of the source that stands before the target: leave them out")
    read = 0 if tokens is None else _positions(architecture.embedding, "tokens", tokens, padding)
    length = read
    if decoder_tokens is not None:
        length = _positions(architecture.output_embedding, "decoder_tokens", decoder_tokens, call.decoder_padding)
    if call.images is not None and architecture.images is not None and tokens is not None:
        architecture.images.check(call.images, tokens)
    if call.audio is not None and architecture.audio is not None and tokens is not None:
        architecture.audio.check(call.audio, call.audio_padding, tokens)
    for name, value, like in (
        ("padding", padding, tokens), ("decoder_padding", call.decoder_padding, decoder_tokens),
        ("documents", documents, tokens), ("types", _segments(architecture, call.types), tokens),
    ):  # fmt: skip
        if value is not None and like is not None and value.shape != like.shape[:2]:
            raise InputError(f"{name} should have the shape of its tokens {tuple(like.shape[:2])}, got {tuple(value.shape)}")
    late = call.decoder_padding if two else padding
    if late is not None and state is not None and not state.allows_padding and _has_gap(late, state):
        raise InputError(
            "padding in a later chunk of a row that has begun: a window has a fixed number of slots, and padding would push "
            "positions out; pad the first chunk instead"
        )
    if tokens is not None and decoder_tokens is not None and len(tokens) != len(decoder_tokens):
        raise InputError(f"every row needs a source and a target: got {len(tokens)} sources and {len(decoder_tokens)} targets")
    _check_types(
        {"padding": padding, "decoder_padding": call.decoder_padding},
        {"documents": documents, "types": call.types, "positions": positions, "prefix": prefix, "kept": call.kept}
        | {"classes": call.classes},
    )
    if positions is not None and tuple(positions.shape) not in ((len(call.generated), length), (1, length)):
        raise InputError(f"positions should have shape {(len(call.generated), length)}, got {tuple(positions.shape)}")
    if call.kept is not None:
        _check_kept(architecture, call, length)
    if prefix is not None and tuple(prefix.shape) != (len(call.generated),):
        raise InputError(f"prefix is a length per row, of shape ({len(call.generated)},), got {tuple(prefix.shape)}")
    _check_lengths(architecture, read, length, 0 if state is None else state.slots.used)


def _segments(architecture: Architecture, types: Tensor | None) -> Tensor | None:
    """The kinds of segments among the numbers of tokens; refuses tokens that have more or fewer numbers."""
    more = architecture.embedding.more_numbers
    if types is None or types.dim() != 3 or not more:
        return types
    if types.shape[2] != 1 + more:
        raise InputError(
            f"types should have {1 + more} numbers of every token, the kind of its segment first, or that one alone, got "
            f"{tuple(types.shape)}"
        )
    return types[..., 0]


def _check_kept(architecture: Architecture, call: Call, length: int) -> None:
    """Refuse positions that are kept beside what holds for whole rows, and numbers that no position has."""
    kept, first = call.kept, architecture.source == "prefix" or architecture.virtual_tokens is not None
    assert kept is not None, "asked of a call with them"
    if architecture.two_inputs or first or architecture.latents is not None:
        raise InputError("kept leaves positions of the one input of a stack out, and this model reads more: leave kept out")
    given: dict[str, object] = {"state": call.state, "documents": call.documents, "prefix": call.prefix}
    given |= {"positions": call.positions, "images": call.images, "audio": call.audio}
    if others := [name for name, value in given.items() if value is not None]:
        raise InputError(f"kept leaves positions of whole rows out, and {', '.join(others)} would not fit them: give one alone")
    if kept.dim() != 2 or len(kept) != len(call.generated) or not kept.shape[1]:
        raise InputError(f"kept should have shape ({len(call.generated)}, positions), got {tuple(kept.shape)}")
    cells = architecture.embedding.cells
    front = 0 if cells is None else cells.front
    if kept.shape[1] < front or (readable(kept) and bool((kept[:, :front] != torch.arange(front, device=kept.device)).any())):
        raise InputError(f"kept should begin with the {front} learned vectors in front of the patches, 0 to {front - 1}")
    if readable(kept) and not 0 <= int(kept.min()) <= int(kept.max()) < length:
        raise InputError(f"kept should hold numbers from 0 to {length - 1}, got {int(kept.min())} to {int(kept.max())}")


def _check_condition(architecture: Architecture, call: Call) -> None:
    """Refuse times and classes that no stack reads, or of which there is not one per row."""
    conditions = [stack.condition for stack in architecture.stacks.values() if stack.condition is not None]
    classes = [condition for condition in conditions if condition.classes is not None]
    for name, given, readers in (("times", call.times, conditions), ("classes", call.classes, classes)):
        if given is None:
            continue
        if not readers:
            raise InputError(f"no stack of this model has a condition that reads {name}: leave them out")
        if call.state is not None:
            raise InputError(f"decode state keeps no condition: leave {name} out, or call the model without a state")
        if tuple(given.shape) != (len(call.generated),):
            raise InputError(f"{name} are one per row, of shape ({len(call.generated)},), got {tuple(given.shape)}")
    if call.times is not None and not call.times.is_floating_point():
        raise InputError(f"times should be real numbers from 0 to 1, got {call.times.dtype}")


def check_ahead(architecture: Architecture, call: Call) -> None:
    """Refuse a call for predictions of later tokens that has a state or too few positions."""
    assert architecture.mtp is not None, "asked of a model with them"
    if call.state is not None:
        raise InputError("later tokens are predicted in training alone, from whole texts: leave the state out")
    if call.tokens is not None and call.tokens.dim() == 2 and call.tokens.shape[1] <= architecture.mtp.depth:
        raise InputError(
            f"{architecture.mtp.depth} tokens after the next one are to be predicted (mtp.depth), and the rows have "
            f"{call.tokens.shape[1]} in all: give longer rows, or a smaller mtp.depth"
        )


def _positions(entrance: Input, name: str, given: Tensor, padding: Tensor | None) -> int:
    """The number of positions that the input becomes; refuses an empty one."""
    if not isinstance(given, Tensor):
        raise InputError(f"{name} should be a tensor, got {type(given).__name__}: torch.tensor(...) makes one")
    length = entrance.check(name, given, padding)
    if given.numel() == 0:
        raise InputError(f"{name} should have at least one row and one position, got shape {tuple(given.shape)}")
    return length


def _check_types(booleans: Mapping[str, Tensor | None], whole: Mapping[str, Tensor | None]) -> None:
    """Refuse tensors of another type than bool or whole numbers."""
    for name, value in booleans.items():
        if value is not None and value.dtype != torch.bool:
            raise InputError(f"{name} should be true or false (torch.bool), true on padding, got {value.dtype}")
    for name, value in whole.items():
        if value is not None and value.dtype not in WHOLE:
            raise InputError(f"{name} should be whole numbers (torch.int64 or int32), got {value.dtype}")


def _has_gap(padding_BT: Tensor, state: StackState) -> bool:
    """Whether a row that already holds positions gets padding; False if values cannot be read."""
    if padding_BT.is_meta or torch.compiler.is_compiling() or state.slots.used == 0:
        return False
    begun = state.slots.positions.amax(1, keepdim=True) != EMPTY
    return bool((begun & padding_BT).any())


def _check_lengths(architecture: Architecture, read: int, length: int, used: int) -> None:
    """Refuse more positions than a table has: `read` of the source or the one input, `length` of the target."""
    if architecture.source == "prefix":
        length += read
    elif architecture.virtual_tokens is not None and used == 0:
        read, length = read + architecture.virtual_tokens, length + architecture.virtual_tokens
    lengths = {"encoder": read, "decoder": used + length}
    for name, stack in architecture.stacks.items():
        latent = name == "decoder" and architecture.latents is not None
        if stack.max_length is not None and not latent and lengths[name] > stack.max_length:
            raise InputError(
                f"tokens reach position {lengths[name]}, and the position table of the {name} ends at {stack.max_length}"
            )
