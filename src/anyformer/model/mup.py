"""What muP makes of a description: factors of scores, branches and logits as plain numbers, weights with their shapes at the
base."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anyformer.describe import DescriptionError, Named, Problem
from anyformer.model.architecture import Architecture
from anyformer.model.at_width import at_width
from anyformer.operations import Shape, Tally, Weight
from anyformer.parts.derived import of_width
from anyformer.parts.embedding.head import Head
from anyformer.parts.layers.block import Block
from anyformer.parts.layers.branch import Branch
from anyformer.parts.layers.stack import Stack
from anyformer.parts.parametrisation import Parametrisation


def based(architecture: Architecture) -> Tally:
    """The declarations of a call in training; with muP every weight knows its shape at the base, and what the depth makes of
    its rate."""
    tally, rules = architecture.trained_cost(Shape()), architecture.initialisation.mup
    if rules is None:
        return tally
    base = base_of(architecture)
    tally = _of_one(tally, rules) if base is None else _beside(tally, base.trained_cost(Shape()))
    return _deep(architecture, tally, rules) if rules.follows_depth else tally


def base_of(architecture: Architecture) -> Architecture | None:
    """The architecture at the base width of its muP; None without one. `DescriptionError` where it does not fit there."""
    mup = architecture.initialisation.mup
    if mup is None or mup.width_of_base is None:
        return None
    try:
        return at_width(architecture, mup.width_of_base)
    except DescriptionError as error:
        there = f"initialisation.mup.base_width = {mup.width_of_base}"
        raise DescriptionError([Problem(there, str(problem)) for problem in error.problems]) from None


def computed(architecture: Architecture) -> Architecture:
    """The same function of the same weights without muP: its factors of scores, branches, logits and embeddings as plain
    numbers. `DescriptionError` where a part does not fit."""
    rules, base = architecture.initialisation.mup, base_of(architecture)
    if rules is None:
        return architecture
    later = architecture.mtp
    if later is not None and later.block is not None:
        of_base = None if base is None or base.mtp is None else base.mtp.block
        later = later.but(block=_block(later.block, of_base, architecture.width, rules, 1.0))
    table = 1 if base is None else base.table_width
    return architecture.but(
        embedding=architecture.embedding.resolved(table),
        decoder_embedding=architecture.decoder_embedding and architecture.decoder_embedding.resolved(table),
        head=architecture.head and _head(architecture.head, architecture, rules, base),
        initialisation=architecture.initialisation.of_depth(architecture.output_stack.depth).but(mup=None),
        mtp=later,
        **{
            name: _stack(name, stack, None if base is None else base.stacks[name], architecture.width, rules)
            for name, stack in architecture.stacks.items()
        },
    )


def _head(head: Head, architecture: Architecture, rules: Parametrisation, base: Architecture | None) -> Head:
    """The head whose logits are divided by the times that its features are those of the base."""
    if head.outputs == "features":
        return head
    features = head.features(architecture.width, architecture.table_width)
    if base is None:
        return head.but(scale=of_width(head.scale, 1) * rules.logit_scale(features))
    return head.but(scale=of_width(head.scale, base.width) * head.features(base.width, base.table_width) / features)


def _stack(name: str, stack: Stack, base: Stack | None, width: int, rules: Parametrisation) -> Stack:
    factor = rules.branch(stack.depth)
    made = {}
    for variant, block in stack.variants.items():
        if rules.follows_depth:
            _check_adds(block, f"{name}.{variant}")
        try:
            made[variant] = _block(block, None if base is None else base.variants[variant], width, rules, factor)
        except DescriptionError as error:
            raise DescriptionError(
                [Problem(f"{name}.{variant}.{each.path}", each.message) for each in error.problems]
            ) from None
    return stack.but(variants=Named(made))


def _check_adds(block: Block, path: str) -> None:
    """Refuse a block that does not add its branches to the stream: a factor of theirs would not be one of what they add."""
    for step in block.steps:
        if step.norm_after is not None or step.norm_branches is not None:
            problem = "a norm behind the sum of branches undoes their factor, which follows the depth with initialisation.mup"
        elif step.residual in ("none", "normed"):
            problem = f"residual = {step.residual!r} adds branches to no stream, so that none needs a factor for the depth"
        elif step.residual_scale == "by_layer":
            problem = "residual_scale = 'by_layer' scales branches by their number already"
        else:
            continue
        raise DescriptionError([Problem(path, f"{problem}: leave initialisation.mup.base_depth, or that of the step, out")])


def _block(block: Block, base: Block | None, width: int, rules: Parametrisation, factor: float) -> Block:
    return block.but(
        steps=tuple(
            step.but(
                branches=Named(
                    {
                        name: _branch(name, branch, None if base is None else base.branches[name], width, rules, factor)
                        for name, branch in step.branches.items()
                    }
                )
            )
            for step in block.steps
        )
    )


def _branch(name: str, branch: Branch, base: Branch | None, width: int, rules: Parametrisation, factor: float) -> Branch:
    """The branch with its factors, `factor` that of the depth."""
    if base is not None:
        sublayer = branch.sublayer.scaled_as(base.sublayer, width, rules.width_of_base or width)
        return branch.but(sublayer=sublayer, multiplier=branch.multiplier * factor)
    try:
        sublayer, undone = branch.sublayer.at_unit_scale(width, rules)
    except DescriptionError as error:
        raise DescriptionError([Problem(f"{name}.{each.path}", each.message) for each in error.problems]) from None
    undone = 1.0 if branch.norm_after is not None else undone
    ratio = rules.ratio(mixes=branch.sublayer.traits.mixing is not None)
    return branch.but(sublayer=sublayer, multiplier=branch.multiplier * factor * ratio * undone)


def _beside(tally: Tally, base: Tally) -> Tally:
    """The tally, each of its weights with its shape in another one of the same parts."""
    return replace(
        tally,
        own_weights={name: replace(each, base=base.own_weights[name].shape) for name, each in tally.own_weights.items()},
        inner={path: replace(each, tally=_beside(each.tally, base.inner[path].tally)) for path, each in tally.inner.items()},
    )


def _of_one(tally: Tally, rules: Parametrisation) -> Tally:
    """The tally, each of its weights relative to one of a single input and a single output."""
    return _with(tally, lambda each: replace(each, base=(1,) * len(each.shape), share=each.share * rules.share_of(each)))


def _deep(architecture: Architecture, tally: Tally, rules: Parametrisation) -> Tally:
    """The tally, each weight of a branch with the factors that the depth of its stack gives it."""
    inner = dict(tally.inner)
    for name, stack in architecture.stacks.items():
        share, branch = rules.share(stack.depth), rules.branch(stack.depth)

        def scaled(weight: Weight, share: float = share, branch: float = branch) -> Weight:
            return replace(weight, share=weight.share * share, branch=weight.branch * branch)

        layers = dict(inner[name].tally.inner)
        for i, variant in enumerate(stack.layers):
            layer = layers[f"layers.{i}"]
            branches = stack.variants[variant].branches
            parts = {
                path: replace(part, tally=_with(part.tally, scaled)) if path in branches else part
                for path, part in layer.tally.inner.items()
            }
            layers[f"layers.{i}"] = replace(layer, tally=replace(layer.tally, inner=parts))
        inner[name] = replace(inner[name], tally=replace(inner[name].tally, inner=layers))
    return replace(tally, inner=inner)


def _with(tally: Tally, change: Callable[[Weight], Weight]) -> Tally:
    """The tally with every weight of it and of its parts changed."""
    return replace(
        tally,
        own_weights={name: change(each) for name, each in tally.own_weights.items()},
        inner={path: replace(each, tally=_with(each.tally, change)) for path, each in tally.inner.items()},
    )
