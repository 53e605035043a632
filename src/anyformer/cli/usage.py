"""How a part that stands in a slot of attention is asked for, in Python and by a path."""

from __future__ import annotations

from anyformer.describe import Part, Value
from anyformer.describe.inside import inside


def usage(kind: type[Value]) -> str:
    """`Attention(score=Score(terms=ALiBi(...)))` and `--set`, in words; nothing of what stands in no slot."""
    from anyformer.parts import Attention

    found = inside(Attention, "", kind) if issubclass(kind, Part) else None
    if found is None:
        return ""
    path = f"decoder.layer.attention.{found.keys[-1]}"
    return f"`Attention(heads=H, {found.python})`, or `--set '{path}={_table(kind)}'`"


def _table(kind: type[Value]) -> str:
    """Its kind, and dots where more is needed."""
    fields = kind.model_fields
    more = ["..."] if any(field.is_required() for field in fields.values()) or "kind" not in fields else []
    own = [f'kind="{fields["kind"].default}"'] if "kind" in fields else []
    return f"{{{', '.join(own + more)}}}"
