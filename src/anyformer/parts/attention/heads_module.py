"""The base module of attentions over heads: projections, norms and scales of queries, keys and values, and the kernel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.attention.attend import attend
from anyformer.parts.attention.attends import Attends
from anyformer.parts.attention.heads import Heads, Projection
from anyformer.parts.call.context import Context, Visible
from anyformer.parts.call.noise import Dropout
from anyformer.parts.masks.mask import Mask
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.grouped import projection
from anyformer.plan import Plan


class HeadsModule(Attends):
    """The projections, separate in storage, the norms and scales of queries, keys and values, and the attention kernel.

    `own_keys`: keys and values are this layer's own. Norms that come after the rotation are applied by the module that rotates.
    """

    def __init__(
        self, heads: Heads, width: int, plan: Plan, name: str, *, mask: Mask | None = None, own_keys: bool = True
    ) -> None:
        super().__init__(mask)
        self.heads, self.plan = heads, plan
        self.norms_heads = heads.qk_norm is None or heads.qk_norm.over == "head"
        self.head_width = E = heads.width_of_head(width)
        self.value_width = U = heads.width_of_value(width)
        self.scale, inputs = heads.scale_of(width), heads.inputs(width)
        self.query = _linear(heads, "query", inputs, heads.heads * E)
        self.output = _linear(heads, "output", heads.read_by_output(width), width)
        self.query_norm = heads.qk_norm.build(heads.heads, E) if heads.qk_norm else nn.Identity()
        for side, features in (("query", heads.heads * E), ("key", heads.groups * E), ("value", heads.groups * U)):
            adds = heads.lora is not None and (side == "query" or (own_keys and (side == "key" or heads.values == "own")))
            self.add_module(f"{side}_lora", heads.lora.build(inputs, {"up": features}) if heads.lora and adds else None)
        if own_keys:
            own = heads.values == "own"
            self.key = _linear(heads, "key", inputs, heads.groups * E)
            self.value = _linear(heads, "value", inputs, heads.groups * U) if own else None
            self.key_norm = heads.qk_norm.build(heads.groups, E) if heads.qk_norm else nn.Identity()
            self.value_norm = _norm(heads.value_norm, U)
        self.sink = nn.Parameter(torch.empty(heads.heads)) if heads.sink else None
        self.gate = heads.gate.build(inputs, *heads.mixed(width)) if heads.gate else None
        self.exclusive: nn.Module | None = None
        self.value_convolution: nn.Module | None = None
        self.sub_norm = _norm(heads.sub_norm, heads.heads * U)
        self.dropout = Dropout(heads.dropout, f"{name}.dropout", along=2)

    def extra_repr(self) -> str:
        return f"heads={self.heads.heads}, kv_heads={self.heads.groups}, head_width={self.head_width}"

    @property
    def drops(self) -> bool:
        """Whether attention weights are dropped in this mode."""
        return self.training and self.dropout.rate > 0

    def queries(self, x_BTD: Tensor, context: Context) -> Tensor:
        """(B, T, D) -> (B, T, H, E)."""
        return self._normed(self.query_norm, self._projected("query", x_BTD, context))

    def keys_and_values(self, x_BSD: Tensor, context: Context, of_values: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(B, S, D) -> (B, S, K, E) and (B, S, K, U); `of_values`: what values read in its place."""
        key = self._projected("key", x_BSD, context)
        value = key if self.value is None else self._projected("value", x_BSD if of_values is None else of_values, context)
        value = self.value_norm(value.view(*value.shape[:-1], -1, self.value_width))
        return self._normed(self.key_norm, key), value if self.heads.value_scale == 1 else value * self.heads.value_scale

    def _normed(self, norm: nn.Module, x: Tensor) -> Tensor:
        if self.heads.norms_late:
            return self._split(x)
        return norm(self._split(x)) if self.norms_heads else self._split(norm(x))

    def _projected(self, side: str, x: Tensor, context: Context) -> Tensor:
        """The projection, with what the layer of this call adds to it, clipped."""
        y: Tensor = self.get_submodule(side)(x)
        if self.heads.lora is not None:
            y = y + self.get_submodule(f"{side}_lora")(x, context.turn)[0]
        return y if self.heads.clip is None else y.clamp(-self.heads.clip, self.heads.clip)

    def _split(self, x: Tensor) -> Tensor:
        """(B, T, heads * E) -> (B, T, heads, E)."""
        return x.view(*x.shape[:-1], -1, self.head_width)

    def mix(
        self,
        x_BTD: Tensor,
        q_BHTE: Tensor,
        k_BKSE: Tensor,
        v_BKSU: Tensor,
        visible: Visible,
        context: Context,
        bias_BHTS: Tensor | None = None,
        own_BTKU: Tensor | None = None,
        beside: Tensor | None = None,
    ) -> Tensor:
        """Attention, then what follows it (`finished`): (B, T, D)."""
        # Differential heads mix in pairs: half as many, twice as wide.
        mixed = self.attended(q_BHTE, k_BKSE.to(q_BHTE.dtype), v_BKSU.to(q_BHTE.dtype), visible, context, bias_BHTS)
        return self.finished(x_BTD, mixed, context, own_BTKU, beside)

    def finished(
        self, x_BTD: Tensor, mixed: Tensor, context: Context, own_BTKU: Tensor | None, beside: Tensor | None = None
    ) -> Tensor:
        """What follows attention, from the mixed values (B, H, T, U): each token's own value taken out, the values around it
        added, the gate by x, then the output projection of the heads side by side, with what is `beside` them."""
        if self.exclusive is not None:
            assert own_BTKU is not None, "an exclusive layer has values of its own"
            mixed = self.exclusive(mixed, own_BTKU)
        if self.value_convolution is not None:
            mixed = self.value_convolution(mixed, own_BTKU, context)
        mixed = mixed.transpose(1, 2)
        if self.gate is not None:
            mixed = self.gate(x_BTD, mixed)
        read = self.sub_norm(mixed.flatten(2))
        return self.output(read if beside is None else torch.cat([read, beside], -1))  # type: ignore[no-any-return]

    def attended(
        self, q_BHTE: Tensor, k_BKSE: Tensor, v_BKSU: Tensor, visible: Visible, context: Context, bias_BHTS: Tensor | None
    ) -> Tensor:
        """The mixed values, (B, H, T, U)."""
        return attend(
            q_BHTE,
            k_BKSE,
            v_BKSU,
            visible,
            scale=self.scale,
            softcap=self.heads.softcap,
            bias_BHTS=bias_BHTS,
            sink_H=self.sink,
            drop=self.dropout.drop(context.noise),
            weigh=self.heads.weights,
            kernel=self.plan.attention,
        )


def _linear(heads: Heads, name: Projection, inputs: int, outputs: int) -> nn.Module:
    return projection(inputs, outputs, bias=name in heads.bias, groups=heads.in_groups(name))


def _norm(norm: Norm | None, width: int) -> nn.Module:
    return norm.build(width) if norm else nn.Identity()
