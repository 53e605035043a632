"""The paths of values inside a model, and the patterns that name several at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from anyformer.describe import InputError, did_you_mean
from anyformer.model.architecture import Architecture
from anyformer.model.hooks import path_in
from anyformer.operations import Watchable, Watchables, inside, value
from anyformer.parts.layers.stack import Stack

LAYER = re.compile(r"(?P<above>\w+)\.(?P<name>\w+)\[(?P<number>[^\]]*)\](?P<rest>.*)\Z")
BARE = re.compile(r"(?P<above>\w+)\.(?P<name>\w+)(?P<rest>\..*)\Z")
ENTRANCE = re.compile(r"(?P<above>\w+)\.layer\[(?P<number>\d+)\]\.input\Z")
LISTED_BY = "`anyformer show --watchable` or model.watchable()"


@lru_cache(maxsize=16)
def watchable(architecture: Architecture) -> Mapping[str, Watchable]:
    """Every value of a model of this architecture that can be watched, by its path, in the order computed."""
    width, table = architecture.width, architecture.table_width
    entering = value("BTD", "what is read, embedded", D=architecture.embedding.given(table))
    found: Watchables = {"embedding.output": entering}
    if architecture.two_inputs:
        found["decoder_embedding.output"] = value("BTD", "the target, embedded", D=table)
    for name, stack in architecture.stacks.items():
        found |= inside(name, stack.watchable(width, table))
    if architecture.head is not None:
        letters = "BV" if architecture.head.pool else "BTV"
        found["head.logits"] = value(letters, "what the head gives", V=architecture.outputs)
    if architecture.mtp is not None and architecture.decoder is not None:
        found |= inside("mtp", architecture.mtp.watchable(width, architecture.decoder, architecture.outputs))
    return found


def folded(architecture: Architecture) -> Mapping[str, Watchable]:
    """The same, with one pattern for all layers of a variant: `decoder.local[*].attention.query`."""
    found = {}
    for path, each in watchable(architecture).items():
        match = LAYER.match(path)
        stack = architecture.stacks.get(match["above"]) if match else None
        if match is None or stack is None:
            found[path] = each
        else:
            variant = stack.layers[int(match["number"])]
            found.setdefault(f"{match['above']}.{variant}[*]{match['rest']}", each)
    return found


def named(architecture: Architecture, patterns: Iterable[str]) -> tuple[str, ...]:
    """The paths that patterns name, each once; refuses a pattern that names none."""
    known = watchable(architecture)
    return tuple(dict.fromkeys(path for pattern in patterns for path in _of_pattern(architecture, pattern, known)))


def closed_towers(architecture: Architecture) -> Mapping[str, str]:
    """The names of encoders of images and sounds among a text's tokens, with why nothing inside them has a path."""
    towers = {"images": architecture.images, "audio": architecture.audio}
    return {
        name: f"the tower that encodes {tower.noun} is computed before the layers, and its inner values are neither watched "
        "nor patched; what it gives stands at the places of its tokens in embedding.output, which is both"
        for name, tower in towers.items()
        if tower is not None
    }


def entrance(architecture: Architecture, path: str) -> tuple[Stack, int] | None:
    """The stack and the number of the layer before which the stream at this path stands; None of another value."""
    match = ENTRANCE.match(path)
    stack = architecture.stacks.get(match["above"]) if match else None
    return None if match is None or stack is None else (stack, int(match["number"]))


def _of_pattern(architecture: Architecture, pattern: str, known: Mapping[str, Watchable]) -> list[str]:
    if pattern in known:
        return [pattern]
    numbers, pattern_of_rest = _layers(architecture, pattern)
    if numbers is None:
        matches = re.compile(_as_expression(pattern)).fullmatch
        found = [path for path in known if matches(path)]
    else:
        heads = [pattern_of_rest[0].format(i) for i in numbers]
        matches = re.compile(_as_expression(pattern_of_rest[1])).fullmatch
        found = [path for head in heads for path in known if path.startswith(head) and matches(path[len(head) :])]
    if not found:
        for name, why in closed_towers(architecture).items():
            if pattern.startswith(f"{name}."):
                raise InputError(f"{pattern!r}: {why}")
        if (path := path_in(pattern, known)) is not None:
            raise InputError(f"{pattern!r} is a hook of TransformerLens: did you mean {path!r}? That is its path here")
        tail = did_you_mean(pattern, known, all_by=LISTED_BY)
        raise InputError(f"nothing of this model is called {pattern!r}{tail}")
    return found


def _layers(architecture: Architecture, pattern: str) -> tuple[Iterable[int] | None, tuple[str, str]]:
    """The layers that a pattern names by numbers or by their variant, with a template of how their paths begin, and the
    pattern of what follows; None where it names them in no such way."""
    given = LAYER.match(pattern)
    bare = None if given else BARE.match(pattern)
    match = given or bare
    if match is None or match["above"] not in (stacks := architecture.stacks):
        return None, ("", pattern)
    stack, name = stacks[match["above"]], match["name"]
    if name not in stack.variants and not (given and name == "layer"):
        return None, ("", pattern)
    all_layers = given is not None and name == "layer"
    own = range(stack.depth) if all_layers else [i for i, variant in enumerate(stack.layers) if variant == name]
    asked = own if given is None else _chosen(given["number"], stack.depth, pattern)
    numbers = [i for i in asked if i in own]
    if not numbers:
        of = f"the {stack.depth} layers of {match['above']}" + ("" if all_layers else f", of which {list(own)} are {name}")
        raise InputError(f"{pattern!r} names no layer of {of}")
    return numbers, (f"{match['above']}.layer[{{}}]", match["rest"])


def _chosen(number: str, depth: int, pattern: str) -> Iterable[int]:
    """The numbers that stand in brackets: `*`, `3`, `-1`, `2:5`."""
    if number == "*":
        return range(depth)
    ends = number.split(":")
    try:
        parts = [int(end) if end.strip() else None for end in ends]
    except ValueError:
        parts = [None] * 4
    if len(parts) == 1 and parts[0] is not None:
        return range(depth)[parts[0] :][:1] if -depth <= parts[0] < depth else ()
    if len(parts) in (2, 3):
        return range(depth)[slice(*parts)]
    raise InputError(f"{pattern!r}: layers are numbered as in [3], [-1], [2:5] or [*], got [{number}]")


def _as_expression(pattern: str) -> str:
    """`*` is any run of characters but dots, `**` any run."""
    pieces = re.split(r"(\*+)", pattern)
    return "".join((".*" if len(each) > 1 else "[^.]*") if each[:1] == "*" else re.escape(each) for each in pieces)
