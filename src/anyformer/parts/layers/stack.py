"""A stack of layers: named block variants and the order in which they stand."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import BeforeValidator, model_validator

from anyformer.describe import DescriptionError, Named, Probability, Problem, Value, did_you_mean, with_kind
from anyformer.operations import Inner, Shape, Tally, Watchable, Watchables, inside, total, value
from anyformer.parts.attention.relative import RELATIVE, RelativeTable
from anyformer.parts.attention.score_bias import SCORE_BIAS, SharedBias
from anyformer.parts.call.shared import STREAM, TOKENS, Read
from anyformer.parts.embedding.condition import CONDITION, Condition
from anyformer.parts.embedding.input_projection import InputProjection
from anyformer.parts.embedding.layer_inputs import LAYER_INPUTS, LayerInputs
from anyformer.parts.layers.block import Block
from anyformer.parts.layers.modulation import READS_CONDITION, Modulation
from anyformer.parts.layers.order import LayerOrder, count_layers, parse_order
from anyformer.parts.layers.sharing import check_fits, check_reads, check_sharers, check_streams, reached
from anyformer.parts.layers.streams import Streams, places
from anyformer.parts.norms.norm import Norm
from anyformer.parts.positions.absolute import Position
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.stack_state import StackState
    from anyformer.parts.layers.stack_module import StackModule


class Stack(Value):
    """L blocks, (B, T, D) -> (B, T, D): position added, norm, dropout, the blocks, final norm.

    Every way in which layers differ is one mechanism: named variants and an order. Gemma 3 with 26 layers is
    `order = "(local*5 global)*4 local*2"` over the variants `local` and `global`.
    """

    through: ClassVar[tuple[str, ...]] = ("variants",)
    position: Position | None = None
    """Absolute positions, added to the input."""
    input_norm: Norm | None = None
    """Norm of the input."""
    input_norm_at: Literal["after_position", "before_position"] = "after_position"
    """Whether the norm reads tokens with their positions (BERT), or tokens alone (the decoder of BlenderbotSmall)."""
    dropout: Probability = 0.0
    """Dropout of the input (embedding dropout)."""
    input_projection: InputProjection | None = None
    """For an architecture whose `embedding_width` is not its width."""
    variants: Named[Block]
    order: Annotated[str, LayerOrder(lambda stack: stack.alike)]
    """Names of variants, each optionally `*n`; parentheses group: `dense*3 moe*58`, `(local*5 global)*8`."""
    final_norm: Norm | None = None
    final_modulation: Modulation | None = None
    """Shift and scale of what leaves, behind the final norm."""
    condition: Condition | None = None
    """A vector per row, of a time and a class, that modulations read (diffusion transformers)."""
    score_bias: SharedBias | None = None
    """A score bias that all self-attentions share (T5)."""
    relative: RelativeTable | None = None
    """A table of relative positions that all self-attentions share (DeBERTa)."""
    layer_inputs: LayerInputs | None = None
    """Features that every layer has of its own (Gemma's per-layer embeddings)."""
    streams: Annotated[Streams, BeforeValidator(with_kind("hyper_connections"))] | None = None
    """Several residual streams."""
    shared_weights: tuple[str, ...] = ()
    """Variants all of whose layers share one set of weights (ALBERT)."""

    @model_validator(mode="after")
    def _order_names_variants(self) -> Stack:
        taken = [name for name in self.variants if name in type(self).model_fields]
        if taken:
            raise ValueError(f"a variant cannot be called {taken[0]!r}: that is a field of the stack")
        layers = parse_order(self.order)
        for name in layers:
            if name not in self.variants:
                copied = f"the change {name}={next(iter(self.variants))} of this stack adds a copy under that name"
                raise ValueError(f"order names no variant {name!r}{did_you_mean(name, self.variants)}; {copied}")
        idle = sorted(set(self.variants) - set(layers))
        if idle:
            raise ValueError(f"variants {idle} do not occur in the order {self.order!r}: name them in it, or leave them out")
        return self

    @model_validator(mode="after")
    def _extras_fit(self) -> Stack:
        if self.input_norm_at == "before_position" and (self.input_norm is None or self.position is None):
            raise ValueError("input_norm_at = 'before_position' needs an input_norm and a position: set both, or leave it out")
        for name in self.shared_weights:
            if name not in self.variants:
                raise ValueError(f"shared_weights names no variant {name!r}{did_you_mean(name, self.variants)}")
        check_streams(self.streams, self.layers, self.variants, own=not self.shared_weights)
        return self

    @model_validator(mode="after")
    def _is_modulated(self) -> Stack:
        if self.final_modulation is not None and self.final_modulation.gate:
            raise ValueError("final_modulation: no branch is added behind it, so it has no gate: set gate = false")
        if self.final_modulation is not None and self.condition is None:
            raise ValueError("final_modulation reads the stack's condition, and there is none: set condition")
        if self.condition is not None and self.final_modulation is None and READS_CONDITION not in self.reads:
            raise ValueError("condition: no part of the stack has a modulation that reads it: set one, or leave it out")
        return self

    @model_validator(mode="after")
    def _finds_what_it_reads(self) -> Stack:
        check_reads(self.layers, self.variants, self.leaves, streams=self.streams is not None)
        check_sharers(self.layers, {name: self.variants[name] for name in self.shared_weights})
        return self

    def resolved(self, width: int) -> Stack:
        """A copy with a number for every size and factor of its sublayers that follows from others."""
        return self.but(variants=Named({name: block.resolved(width) for name, block in self.variants.items()}))

    @property
    def leaves(self) -> dict[str, int]:
        """The values that the stack leaves for its layers, with sizes: one stream, heads of the score bias, one condition, rows
        of a table's direction, features of each layer's input."""
        left = {STREAM: 1}
        left |= {} if self.score_bias is None else {SCORE_BIAS: self.score_bias.heads}
        left |= {} if self.condition is None else {CONDITION: 1}
        left |= {} if self.relative is None else {RELATIVE: self.relative.span}
        return left | ({} if self.layer_inputs is None else {LAYER_INPUTS: self.layer_inputs.width})

    @property
    def reads(self) -> tuple[Read, ...]:
        """The values that its layers read beside the stream."""
        return tuple(dict.fromkeys(read for block in self.variants.values() for read in block.reads))

    @property
    def layers(self) -> tuple[str, ...]:
        """The name of the variant of each of the L layers."""
        return parse_order(self.order)

    @property
    def owners(self) -> tuple[int, ...]:
        """For each layer the number of the layer that owns its weights: itself, or the first layer of a shared variant."""
        layers = self.layers
        return tuple(layers.index(name) if name in self.shared_weights else i for i, name in enumerate(layers))

    @property
    def alike(self) -> bool:
        """Whether the costs of a layer depend on its variant alone, not on its place or on how many there are."""
        blocks = self.variants.values()
        alone = self.streams is None and not any(block.detaches for block in blocks)
        return alone and all(sublayer.sharers is None for block in blocks for sublayer in block.sublayers)

    @property
    def _reached(self) -> tuple[bool, ...]:
        return reached(self.layers, self.variants)

    @property
    def depth(self) -> int:
        """L."""
        return sum(count_layers(self.order).values())

    @property
    def reads_tokens(self) -> bool:
        """Whether it or a layer looks at the tokens themselves."""
        return TOKENS in self.reads or (self.layer_inputs is not None and self.layer_inputs.vocab is not None)

    @property
    def max_length(self) -> int | None:
        """The longest sequence that the position table covers; None without a table."""
        return self.position.length if self.position else None

    def width_before(self, width: int, embedding_width: int) -> int:
        """The width at which positions, norm and dropout of the input act."""
        late = self.input_projection is not None and self.input_projection.place == "last"
        return embedding_width if late else width

    def check(self, width: int, embedding_width: int, path: str) -> None:
        """Refuse a width that does not fit; the error names the part."""
        if embedding_width != width and self.input_projection is None:
            problem = f"embeddings have {embedding_width} features and the stream {width}: set input_projection"
            raise DescriptionError([Problem(path, problem)])
        if self.position is not None:
            try:
                self.position.check(self.width_before(width, embedding_width))
            except ValueError as error:
                raise DescriptionError([Problem(f"{path}.position", str(error))]) from None
        for name, block in self.variants.items():
            block.check(width, f"{path}.{name}")
        check_fits(self.variants, width, path)

    def build(self, width: int, embedding_width: int, plan: Plan, name: str) -> StackModule:
        from anyformer.parts.layers.stack_module import StackModule

        return StackModule(self, width, embedding_width, plan, name)

    def cost(self, width: int, embedding_width: int, shape: Shape, plan: Plan) -> Tally:
        kinds = places(self.streams, self.layers)
        each = {kind: self.variants[kind[0]].cost(width, shape, plan, self.streams, kind[1]) for kind in set(kinds)}
        layers = {
            f"layers.{i}": Inner(each[kinds[i]], "layer", str(i), weights=int(owner == i), unreached=int(not learns))
            for i, (owner, learns) in enumerate(zip(self.owners, self._reached, strict=True))
        }
        return self._surroundings(width, embedding_width, shape) + Tally(inner=layers)

    def folded_cost(self, width: int, embedding_width: int, shape: Shape, plan: Plan) -> Tally:
        """The same sums as `cost`, each variant priced once: `layers.<variant>` stands for all layers of that variant."""
        if self.streams is not None and self.streams.placed:
            return self.cost(width, embedding_width, shape, plan)
        layers, unreached = {}, Counter(name for name, learns in zip(self.layers, self._reached, strict=True) if not learns)
        for name, count in count_layers(self.order).items():
            block = self.variants[name].cost(width, shape, plan, self.streams)
            weights = 1 if name in self.shared_weights else count
            layers[f"layers.{name}"] = Inner(block, "layer", name, count, weights, unreached[name])
        return self._surroundings(width, embedding_width, shape) + Tally(inner=layers)

    def _surroundings(self, width: int, embedding_width: int, shape: Shape) -> Tally:
        """The tally of the parts before, after and beside the layers."""
        parts, before = {}, self.width_before(width, embedding_width)
        if self.position is not None:
            parts["position"] = self.position.cost(before, shape.rows)
        if self.input_norm is not None:
            parts["input_norm"] = self.input_norm.cost(before, shape.rows)
        if self.score_bias is not None:
            parts["score_bias"] = self.score_bias.cost()
        if self.relative is not None:
            parts["relative"] = self.relative.cost(width)
        if self.layer_inputs is not None:
            parts["layer_inputs"] = self.layer_inputs.cost(width, self.depth, shape.rows)
        if self.condition is not None:
            parts["condition"] = self.condition.cost(width, shape.batch)
        if self.input_projection is not None:
            parts["input_projection"] = self.input_projection.cost(embedding_width, width, shape.rows)
        tally = total(parts, "branch")
        if self.streams is not None:
            enter, leave = self.streams.ends_cost(width, shape.rows)
            tally += enter.within("streams.enter", "branch", "streams") + leave.within("streams.leave", "last", "streams")
        if self.final_norm is not None:
            tally += self.final_norm.cost(width, shape.rows).within("final_norm", "last")
        if self.final_modulation is not None:
            tally += self.final_modulation.cost(width, shape.batch, shape.rows).within("final_modulation", "last")
        return tally

    def watchable(self, width: int, embedding_width: int) -> Watchables:
        """The values that are seen of it, in the order computed: those of layer 3 begin with `layer[3]`."""
        before, found = self.width_before(width, embedding_width), dict[str, Watchable]()
        if self.position is not None:
            found["position.output"] = value("BTD", "the vectors of positions", D=before)
        if self.input_norm is not None:
            first = self.input_norm.shown("input_norm", before)
            found = {**first, **found} if self.input_norm_at == "before_position" else {**found, **first}
        of_variant = {name: block.watchable(width, self.streams) for name, block in self.variants.items()}
        for i, name in enumerate(self.layers):
            found |= inside(f"layer[{i}]", of_variant[name])
        found |= {} if self.final_norm is None else self.final_norm.shown("final_norm", width)
        return found | {"output": value("BTD", "what leaves the stack", D=width)}

    def state(self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device) -> StackState:
        """Preallocated decode state for `capacity` positions and a source of `source` positions."""
        from anyformer.parts.call.stack_state import StackState
        from anyformer.parts.call.state import Slots

        layers = [self.variants[name].state(width, batch, capacity, source, dtype, device) for name in self.layers]
        return StackState(Slots.allocate(batch, capacity, device), layers)
