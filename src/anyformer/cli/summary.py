"""The page of `anyformer show`: an architecture on one screen, every value printed once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from anyformer.cli.arguments import stand_in_warnings
from anyformer.cli.pages import Item, Paragraph
from anyformer.cli.storing import line
from anyformer.costs.rows import PageLine
from anyformer.describe import brief, diff

if TYPE_CHECKING:
    from anyformer.catalogue.row import Listed
    from anyformer.describe import Value
    from anyformer.huggingface import StoredForm
    from anyformer.model import Architecture
    from anyformer.parts import Block, Branch, ImageEncoder, SoundEncoder, Stack, Step
    from anyformer.parts.norms.norm import Norm

LENGTH = 4096
MOST = 8
"""Variants and repeated groups that fit on a screen."""
_LONG_LIST = re.compile(rf"([\w.+-]+)(?:,[\w.+-]+){{{MOST - 1},}},([\w.+-]+)")
"""More values than fit on a screen, of which the first and the last are shown, with their number."""
LABEL = 21
"""Columns of a label, left of its description."""


def introduction(words: str, entry: Listed | None) -> Iterator[Item]:
    """The command's arguments; for a catalogue entry also its summary and the source of its figures."""
    if entry is None:
        yield PageLine(words)
        return
    yield Paragraph(f"{words} ({entry.organisation}, {entry.year}): {entry.summary}")
    yield Paragraph(f"Source: {entry.source}")
    if entry.training:
        yield Paragraph(f"Trained with {', '.join(entry.training)}, which belongs to a run and not to an architecture")
    for warning in stand_in_warnings(entry.name):
        yield Paragraph(warning[0].upper() + warning[1:])


def short_costs(architecture: Architecture, batch: int, length: int | None, form: StoredForm | None = None) -> Iterator[Item]:
    """Parameters, memory and FLOPs in a few lines; `anyformer cost` prints all of them. `form`: of weights in few bits."""
    from anyformer.costs import cost
    from anyformer.costs.figures import flops, size
    from anyformer.costs.page import longest, warnings
    from anyformer.plan import Plan
    from anyformer.precision import Bf16

    table = longest(architecture)
    length = length or min(LENGTH, table or LENGTH)
    sheet = cost(architecture, batch=batch, length=length, mode="prefill", plan=Plan(precision=Bf16()))
    forward = sheet.flops.total.exact
    rows = {
        "parameters": f"{sheet.params.total:,}",
        "used by a token": f"{sheet.params.active:,}" if sheet.params.active != sheet.params.total else "",
        "beside it": f"{sheet.params.mtp:,}, which predict later tokens in training alone" if sheet.params.mtp else "",
        "weights": f"{size(sheet.weights[sheet.precision])}",
        "stored": "" if form is None else line(form),
        "forward pass": f"{flops(forward)}FLOP, {flops(forward / (batch * length))}FLOP per token",
        "decode state": f"{size(sheet.state_bytes)}; one more token adds {sheet.state_bytes_per_token:,} B"
        if sheet.state_bytes
        else "",
        "longest input": f"{table:,} positions" if table else "",
    }
    yield PageLine(f"Costs of {batch:,} x {length:,} tokens, in bf16")
    yield from (PageLine(f"  {label:<{LABEL - 2}}{text}") for label, text in rows.items() if text)
    yield from (PageLine(f"  {warning[:1].upper()}{warning[1:]}.") for warning in warnings(sheet, ("prefill",)))


def trained_with(architecture: Architecture) -> Item:
    """The objective that `anyformer train` takes where none is named, or why there is none."""
    from anyformer.describe import UserError
    from anyformer.requirements.usual import usual_for

    try:
        usual = usual_for(architecture)
    except UserError as error:
        return _row(0, "not trained", str(error).splitlines()[1].strip())
    return _row(0, "trained with", f"{usual.kind}: {usual.says}")


def described(architecture: Architecture) -> Iterator[Item]:
    """The stacks as a tree: the first variant of a block whole, then how the other variants differ."""
    architecture = architecture.resolved()
    yield _row(0, "model", f"{architecture.shape_of_model}, width {architecture.width:,}")
    yield _row(0, "input", _words(architecture.embedding))
    if architecture.decoder_embedding is not None:
        yield _row(0, "decoder input", _words(architecture.decoder_embedding))
    if architecture.images is not None:
        yield from _images(architecture.images)
    if architecture.audio is not None:
        yield from _audio(architecture.audio)
    if architecture.latents is not None:
        yield _row(0, "latents", _words(architecture.latents))
    for name, stack in architecture.stacks.items():
        yield from _stack(name, stack)
    if architecture.head is not None:
        yield _row(0, "head", _named("head", architecture.head))
    if architecture.mtp is not None:
        yield _row(0, "later tokens", _words(architecture.mtp))


def _images(tower: ImageEncoder) -> Iterator[Item]:
    """The tower for images: what it reads, its layers, and what reaches the text."""
    yield _row(0, "images", tower.facts)
    yield _row(1, "tower", f"width {tower.width:,}, {_words(tower.patches)}")
    yield _row(1, "projector", _words(tower.projector))
    yield from _stack("image layers", tower.stack)


def _audio(tower: SoundEncoder) -> Iterator[Item]:
    """The tower for sound, likewise."""
    yield _row(0, "audio", tower.facts)
    yield _row(1, "tower", f"width {tower.width:,}, {_words(tower.embedding)}")
    yield _row(1, "projector", _words(tower.projector))
    yield from _stack("sound layers", tower.stack)


def layers(order: str) -> str:
    """An order in words: `(local*5 global)*8 local*2` -> `(5 local, 1 global) x 8, then 2 local`."""
    from anyformer.parts.layers.order import parse_order, repeats, runs

    units = repeats(runs(parse_order(order)))
    groups = []
    for unit, times in units[:MOST]:
        group = ", ".join(f"{count} {name}" for name, count in unit)
        groups.append(f"({group}) x {times}" if times > 1 else group)
    return ", then ".join(groups) + ", ..." * (len(units) > MOST)


def _stack(name: str, stack: Stack) -> Iterator[Item]:
    blocks = dict(stack.variants)
    count = f"{stack.depth} layers" if stack.depth > 1 else "1 layer"
    yield _row(0, name, f"{count}: {layers(stack.order)}" if len(blocks) > 1 else f"{count}, all alike")
    parts = _changed_fields(stack, "variants", "order")
    final_norm = parts.pop("final_norm", None)
    norm = _only_norm(stack)
    for field, value in parts.items():
        yield _row(1, field.replace("_", " "), _text(value, norm))
    if norm is not None:
        yield _row(1, "norm", _words(norm))
    yield from _variants(blocks, norm)
    if final_norm is not None:
        yield _row(1, "final norm", "the same norm" if final_norm == norm else _text(final_norm, None))


def _changed_fields(value: Value, *skipped: str) -> dict[str, object]:
    """The fields of a description that differ from their defaults, `skipped` ones left out."""
    fields = {name: (getattr(value, name), field.default) for name, field in type(value).model_fields.items()}
    return {name: item for name, (item, default) in fields.items() if name not in skipped and item not in (None, default)}


def _variants(blocks: Mapping[str, Block], norm: Norm | None) -> Iterator[Item]:
    """The first variant whole, and the others by their differences from the most similar one before it."""
    (first, block), *others = blocks.items()
    yield from [PageLine(f"  {first}")] * bool(others)
    for step in block.steps:
        yield from _step(step, norm, 1 + bool(others))
    if _changed_fields(block, "steps"):
        yield _row(1 + bool(others), "output", block.output)
    printed = {first: block}
    for name, block in others[: MOST - 1]:
        differences = {other: list(_differences(base, block, norm)) for other, base in printed.items()}
        similar = min(differences, key=lambda other: sum(map(len, map(str, differences[other]))))
        yield PageLine(f"  {name}: as {similar}{', but' * bool(differences[similar])}")
        for label, text in differences[similar]:
            yield _row(2, label, text)
        if differences[similar]:
            printed[name] = block
    if len(blocks) > MOST:
        yield PageLine(f"  {len(blocks) - MOST} more variants: --toml shows them")


def _only_norm(stack: Stack) -> Norm | None:
    """The norm of the residual stream, if all of its norms are alike."""
    norms = {norm for block in stack.variants.values() for norm in block.norms}
    return norms.pop() if len(norms) == 1 else None


def _step(step: Step, norm: Norm | None, depth: int) -> Iterator[Item]:
    """A row per branch; those after the first are added to the same input."""
    for number, (name, branch) in enumerate(step.branches.items()):
        label = f"{'+ ' if number else ''}{name.replace('_', ' ')}"
        yield _row(depth, label, _branch(name, branch, norm))
    around = _around(step, norm)
    if around:
        yield _row(depth, "", f"around {'it' if len(step.branches) == 1 else 'them'}: {around}")


def _around(step: Step, norm: Norm | None) -> str:
    return ", ".join(_place(field, value, norm) for field, value in _changed_fields(step, "branches").items())


def _branch(name: str, branch: Branch, norm: Norm | None) -> str:
    """Norms, then the sublayer, then the other fields of the branch."""
    texts = {field: _place(field, value, norm) for field, value in _changed_fields(branch, "sublayer").items()}
    norms = [texts.pop(field) for field in ("norm_before", "norm_after") if field in texts]
    if norms == ["norm before", "norm after"]:
        norms = ["norm before and after"]
    return "; ".join(filter(None, [", ".join(norms), _named(name, branch.sublayer, norm), ", ".join(texts.values())]))


def _differences(base: Block, other: Block, norm: Norm | None) -> Iterator[tuple[str, str]]:
    """Labels and texts of the branches and steps that differ."""
    ours, theirs = base.branches, other.branches
    for name, branch in theirs.items():
        label = name.replace("_", " ")
        if name not in ours or type(ours[name].sublayer) is not type(branch.sublayer):
            yield label, _branch(name, branch, norm)
        elif ours[name] != branch:
            yield label, ", ".join(_changed(path, value, norm) for path, _, value in diff(ours[name], branch))
    gone = [name.replace("_", " ") for name in ours if name not in theirs]
    if gone:
        yield "without", ", ".join(gone)
    if [len(step.branches) for step in base.steps] != [len(step.branches) for step in other.steps]:
        around = [_around(step, norm) for step in other.steps]
        named = (" + ".join(step.branches) for step in other.steps)
        yield "steps", "; then ".join(f"{name} ({text})" if text else name for name, text in zip(named, around, strict=True))
    elif any(_around(a, norm) != _around(b, norm) for a, b in zip(base.steps, other.steps, strict=True)):
        yield "around", "; ".join(_around(step, norm) or "nothing" for step in other.steps)
    if base.output != other.output:
        yield "output", other.output


def _changed(path: str, value: object, norm: Norm | None) -> str:
    name = path.replace(".", " ").replace("_", " ").removeprefix("sublayer ")
    return f"no {name}" if value is None else f"{name} {_text(value, norm)}"


def _place(field: str, value: object, norm: Norm | None) -> str:
    """`norm before`; a norm unlike the others with its values; `dropout 0.1`; `modulation`, which is both field and kind."""
    name = field.replace("_", " ")
    if norm is not None and value == norm:
        return name
    text = _text(value, norm)
    return text if text == name or text.startswith(f"{name} (") else f"{name} {text}"


def _text(value: object, norm: Norm | None) -> str:
    """A value in words; a norm within it that equals `norm` by its kind alone."""
    from anyformer.describe import Value

    if not isinstance(value, Value):
        return _plain(value)
    text = brief(value)
    return _spaced(text if norm is None or value == norm else text.replace(brief(norm), norm.kind))


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        words = [*map(_plain, value)]
        return f"{words[0]} ... {words[-1]} [{len(words)}]" if len(words) > MOST else "+".join(words) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:g}"
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)


def _words(value: Value) -> str:
    return _spaced(brief(value))


def _named(label: str, value: Value, norm: Norm | None = None) -> str:
    """A part beside a label: its kind only where the label does not say it."""
    text, kind = _text(value, norm), _spaced(brief(value).split("(")[0])
    if label.replace("_", " ") != kind:
        return text
    return text[len(kind) + 2 : -1] or "with default values"


def _spaced(text: str) -> str:
    """`kv_heads=8, tied=True, gated=False` -> `kv heads 8, tied, gated no`."""
    text = text.replace("=True", "").replace("=False", " no").replace("_", " ").replace("=", " ").replace("(", " (")
    text = _LONG_LIST.sub(lambda match: f"{match[1]} ... {match[2]} [{match[0].count(',') + 1}]", text)
    text = re.sub(r"(?<=\w),(?=\w)", "+", text)  # commas of a list of words; others have a space after them
    return re.sub(r"(?<![\w.])\d{4,}(?![\w.])", lambda match: f"{int(match[0]):,}", text)


def _row(depth: int, label: str, text: str) -> Paragraph:
    """A label and its description, wrapped under itself."""
    left = f"{'  ' * depth}{label}"
    return Paragraph(text, f"{left:<{LABEL}}" if len(left) < LABEL else f"{left} ", " " * LABEL)
