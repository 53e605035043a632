"""A stack of layers: named block variants and the order in which they stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, Literal, TypedDict, Unpack

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from anyformer.describe import DescriptionError, Named, Problem, Value, did_you_mean
from anyformer.parts.attention.relative import RelativeTable
from anyformer.parts.attention.score_bias import SharedBias
from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import Dropout
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.call.state import Slots, State
from anyformer.parts.embedding.input_projection import InputProjection
from anyformer.parts.layers.block import Block
from anyformer.parts.layers.layers_keep import layers_keep
from anyformer.parts.layers.order import parse_order, write_order
from anyformer.parts.layers.recompute import recomputed
from anyformer.parts.layers.streams import HyperConnections
from anyformer.parts.norms.norm import Norm
from anyformer.parts.positions.absolute import Position
from anyformer.plan import Plan
from anyformer.tally import Shape, Tally, total
from anyformer.tape import Held, Tape


class Stack(Value):
    """What turns (B, T, D) into (B, T, D): position added, norm, dropout, L blocks, final norm.

    Every way in which layers differ is one mechanism: named variants and an order. Gemma 3 with 26 layers is
    `order = "(local*5 global)*4 local*2"` over the variants `local` and `global`.
    """

    through: ClassVar[tuple[str, ...]] = ("variants",)
    position: Position | None = None
    """Absolute positions, added to the input."""
    input_norm: Norm | None = None
    """Norm of the input."""
    input_norm_at: Literal["after_position", "before_position"] = "after_position"
    """Whether it normalises tokens with their positions (BERT), or tokens alone (the decoder of BlenderbotSmall)."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Dropout of the input (embedding dropout)."""
    input_projection: InputProjection | None = None
    """Where the architecture's `embedding_width` is not its width."""
    variants: Named[Block]
    order: str
    """Names of variants, each optionally `*n`; parentheses group: `dense*3 moe*58`, `(local*5 global)*8`."""
    final_norm: Norm | None = None
    score_bias: SharedBias | None = None
    """A score bias that all self-attentions share (T5)."""
    relative: RelativeTable | None = None
    """A table of relative positions that all self-attentions share (DeBERTa)."""
    streams: HyperConnections | None = None
    """Several residual streams."""
    shared_weights: tuple[str, ...] = ()
    """Variants whose layers are one set of weights, computed again and again (ALBERT)."""

    @model_validator(mode="after")
    def _order_names_variants(self) -> Stack:
        taken = [name for name in self.variants if name in type(self).model_fields]
        if taken:
            raise ValueError(f"a variant cannot be called {taken[0]!r}: that is a field of the stack")
        layers = parse_order(self.order)
        for name in layers:
            if name not in self.variants:
                raise ValueError(f"order names no variant {name!r}{did_you_mean(name, self.variants)}")
        idle = sorted(set(self.variants) - set(layers))
        if idle:
            raise ValueError(f"variants {idle} stand nowhere in the order {self.order!r}: use them or leave them out")
        return self

    @model_validator(mode="after")
    def _extras_fit(self) -> Stack:
        if self.input_norm_at == "before_position" and (self.input_norm is None or self.position is None):
            raise ValueError("input_norm_at = 'before_position' needs an input_norm and a position: set both, or leave it out")
        for name in self.shared_weights:
            if name not in self.variants:
                raise ValueError(f"shared_weights names no variant {name!r}{did_you_mean(name, self.variants)}")
        for name, block in self.variants.items():
            if self.streams is not None and any(step.shapes_residual for step in block.steps):
                raise ValueError(
                    f"streams weigh the residual themselves: take norm_after, residual and its scale, and gain out of {name!r}"
                )
        return self

    @model_validator(mode="after")
    def _sharing_has_a_source(self) -> Stack:
        for i, name in enumerate(self.layers):
            for sublayer in self.variants[name].sublayers:
                source = sublayer.keys_of
                if source is not None and source not in self.layers[:i]:
                    raise ValueError(
                        f"layer {i} ({name!r}) reads the keys of variant {source!r}, "
                        f"and no layer of that variant stands before it"
                    )
                heads = sublayer.shared_bias_heads
                if self.score_bias is not None and heads is not None and heads != self.score_bias.heads:
                    raise ValueError(f"score_bias.heads is {self.score_bias.heads}, and variant {name!r} has {heads} heads")
                span = sublayer.reads_relative
                if span is not None and (self.relative is None or self.relative.span != span):
                    raise ValueError(
                        f"variant {name!r} reads a table of relative positions with span {span}: "
                        f"set relative = {{ span = {span} }} in the stack"
                    )
        return self

    @property
    def layers(self) -> tuple[str, ...]:
        """The variant's name of each of the L layers."""
        return parse_order(self.order)

    @property
    def owners(self) -> tuple[int, ...]:
        """For each layer the number of the layer whose weights it has: its own, or the first one's of a shared variant."""
        layers = self.layers
        return tuple(layers.index(name) if name in self.shared_weights else i for i, name in enumerate(layers))

    @property
    def depth(self) -> int:
        """L."""
        return len(self.layers)

    @property
    def reads_source(self) -> bool:
        """Whether a layer attends to another sequence."""
        return any(block.reads_source for block in self.variants.values())

    @property
    def reads_tokens(self) -> bool:
        """Whether a layer looks at the tokens themselves."""
        return any(sublayer.reads_tokens for block in self.variants.values() for sublayer in block.sublayers)

    @property
    def max_length(self) -> int | None:
        """Longest sequence that the position table covers; None without limit."""
        return self.position.length if self.position else None

    def width_before(self, width: int, embedding_width: int) -> int:
        """Features where positions, norm and dropout of the input act."""
        late = self.input_projection is not None and self.input_projection.place == "last"
        return embedding_width if late else width

    def check(self, width: int, embedding_width: int, path: str) -> None:
        """Refuse what only the width reveals, at its path."""
        if (embedding_width != width) != (self.input_projection is not None):
            problem = (
                f"embeddings have {embedding_width} features and the stream {width}: set input_projection"
                if self.input_projection is None
                else f"embeddings have the stream's {width} features: leave input_projection out, or set embedding_width"
            )
            raise DescriptionError([Problem(path, problem)])
        if self.position is not None:
            try:
                self.position.check(self.width_before(width, embedding_width))
            except ValueError as error:
                raise DescriptionError([Problem(f"{path}.position", str(error))]) from None
        for name, block in self.variants.items():
            block.check(width, f"{path}.{name}")

    def build(self, width: int, embedding_width: int, plan: Plan, name: str) -> StackModule:
        return StackModule(self, width, embedding_width, plan, name)

    def cost(self, width: int, embedding_width: int, shape: Shape, plan: Plan) -> Tally:
        variants = {name: block.cost(width, shape, plan, self.streams) for name, block in self.variants.items()}
        layers = {
            f"layers.{i}": variants[name] if owner == i else variants[name].without_weights
            for i, (name, owner) in enumerate(zip(self.layers, self.owners, strict=True))
        }
        return self._with_surroundings(layers, width, embedding_width, shape)

    def folded_cost(self, width: int, embedding_width: int, shape: Shape, plan: Plan) -> Tally:
        """The same sums as `cost`, each variant priced once: `layers.<variant>` stands for all layers of that variant."""
        layers = {}
        for name, count in Counter(self.layers).items():
            block = self.variants[name].cost(width, shape, plan, self.streams)
            owned = replace(block * count, weights=block.weights) if name in self.shared_weights else block * count
            layers[f"layers.{name}"] = owned
        return self._with_surroundings(layers, width, embedding_width, shape)

    def _with_surroundings(self, layers: dict[str, Tally], width: int, embedding_width: int, shape: Shape) -> Tally:
        """The layers, and what stands before, after and beside them."""
        parts, before = dict(layers), self.width_before(width, embedding_width)
        if self.position is not None:
            parts["position"] = self.position.cost(before)
        if self.input_norm is not None:
            parts["input_norm"] = self.input_norm.cost(before)
        if self.final_norm is not None:
            parts["final_norm"] = self.final_norm.cost(width)
        if self.score_bias is not None:
            parts["score_bias"] = self.score_bias.cost()
        if self.relative is not None:
            parts["relative"] = self.relative.cost(width)
        if self.input_projection is None:
            return total(parts)
        return total(parts) + self.input_projection.cost("input_projection", embedding_width, width, shape.batch * shape.length)

    def keeps(self, tape: Tape, x: Held, width: int, embedding_width: int) -> Held:
        """What positions, norms and all layers keep for backward; gives its output."""
        T, before = tape.shape.length, self.width_before(width, embedding_width)
        if self.input_projection is not None and self.input_projection.place == "first":
            x = tape.linear("input_projection", x, embedding_width, width)
        if self.position is not None:
            self.position.keeps(tape.within("position"), T)
            x = tape.like(x)
        x = self.input_norm.keeps(tape.within("input_norm"), x, before) if self.input_norm else x
        x = tape.dropped("dropout", x, self.dropout)
        if self.input_projection is not None and self.input_projection.place == "last":
            x = tape.linear("input_projection", x, embedding_width, width)
        if self.score_bias is not None:
            tape.bias = partial(self.score_bias.keeps, tape.path)
        if self.relative is not None:
            tape.relative = self.relative.keeps(tape.within("relative"), width)
        where = tape.new(T + (tape.shape.batch if tape.shape.prefix else 0), "int64", learns=False)
        beside = (where, tape.source, tape.relative, *tape.tokens.values())
        x = layers_keep(self, tape, x, beside, width)
        x = x if self.streams is None else tape.new(tape.rows * width, x.number)
        return self.final_norm.keeps(tape.within("final_norm"), x, width) if self.final_norm else x

    def state(self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device) -> StackState:
        """Preallocated decode state for `capacity` positions and a source of `source` positions."""
        layers = [self.variants[name].state(width, batch, capacity, source, dtype, device) for name in self.layers]
        return StackState(Slots.allocate(batch, capacity, device), layers)


class StackModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, stack: Stack, width: int, embedding_width: int, plan: Plan, name: str) -> None:
        super().__init__()
        before, projection = stack.width_before(width, embedding_width), stack.input_projection
        self.position = stack.position.build(before) if stack.position else None
        self.input_norm = stack.input_norm.build(before) if stack.input_norm else nn.Identity()
        self.dropout = Dropout(stack.dropout, f"{name}.dropout")
        self.input_projection = nn.Linear(embedding_width, width, bias=projection.bias) if projection else nn.Identity()
        self.norms_first = stack.input_norm_at == "before_position"
        self.projects_first = projection is not None and projection.place == "first"
        blocks: list[nn.Module] = []
        for i, (variant, owner) in enumerate(zip(stack.layers, stack.owners, strict=True)):
            build = stack.variants[variant].build
            blocks.append(build(width, plan, f"{name}.layers.{i}", stack.streams, i) if owner == i else blocks[owner])
        self.layers = nn.ModuleList(blocks)
        self.owners, self.streams = stack.owners, stack.streams.count if stack.streams else None
        self.final_norm = stack.final_norm.build(width) if stack.final_norm else nn.Identity()
        self.score_bias = stack.score_bias.build() if stack.score_bias else None
        self.relative = stack.relative.build(width) if stack.relative else None
        self.variants, self.checkpointing = stack.layers, plan.checkpointing
        self.reads = tuple(stack.variants[variant].reads for variant in stack.layers)

    def forward(self, x_BTD: Tensor, context: Context, states: list[dict[str, State]] | None = None) -> Tensor:
        if self.projects_first:
            x_BTD = self.input_projection(x_BTD)
        if self.norms_first:
            x_BTD = self.input_norm(x_BTD)
        if self.position is not None:
            x_BTD = x_BTD + self.position(context.positions.clamp(min=0)).to(x_BTD.dtype)
        x_BTD = self.dropout(x_BTD if self.norms_first else self.input_norm(x_BTD), context.noise)
        if not self.projects_first:
            x_BTD = self.input_projection(x_BTD)
        context.bias = self.score_bias
        context.relative = None if self.relative is None else self.relative()
        if self.streams is not None:
            x_BTD = x_BTD[:, :, None].expand(-1, -1, self.streams, -1)
        noise = context.noise
        for i, block in enumerate(self.layers):
            context.variant = self.variants[i]
            # A layer computed again must not drop the same elements again.
            context.noise = noise if noise is None or self.owners[i] == i else noise.other(i)
            if self.checkpointing == "none" or states is not None or not torch.is_grad_enabled():
                x_BTD = block(x_BTD, context, states[i] if states else None)
            else:
                x_BTD = recomputed(self.checkpointing, block, x_BTD, context, self.reads[i])
        return self.final_norm(x_BTD if self.streams is None else x_BTD.sum(2))  # type: ignore[no-any-return]


class Around(TypedDict, total=False):
    """What stands around the layers of a `Stack`: its fields of these names."""

    position: Position | None
    input_norm: Norm | None
    input_norm_at: Literal["after_position", "before_position"]
    dropout: float
    input_projection: InputProjection | None
    final_norm: Norm | None
    score_bias: SharedBias | None
    relative: RelativeTable | None
    streams: HyperConnections | None
    shared_weights: tuple[str, ...]


def stack(layers: Iterable[Block], *, names: Named[Block] | None = None, **around: Unpack[Around]) -> Stack:
    """A stack from its layers in order. Equal blocks are one variant, called as in `names`, else `layer` or `layer_a`, ..."""
    blocks = list(layers)
    distinct = list(dict.fromkeys(blocks))
    called = {block: name for name, block in (names or {}).items()}
    for i, block in enumerate(distinct):
        called.setdefault(block, "layer" if len(distinct) == 1 else f"layer_{chr(ord('a') + i)}" if i < 26 else f"layer_{i}")
    return Stack(
        variants=Named({called[block]: block for block in distinct}),
        order=write_order(called[block] for block in blocks),
        **around,
    )
