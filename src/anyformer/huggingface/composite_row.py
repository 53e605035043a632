"""A composite as data: what a model type has of a text model, and how names and keys of its text model are found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anyformer.model import Architecture


@dataclass(frozen=True)
class Composite:
    """A model type whose configuration holds that of a text model."""

    model_type: str
    default_class: str
    """The class of transformers that computes logits."""
    text: str
    """Type of the text model where its table does not say."""
    tied: bool | None = None
    """Whether head and embedding are tied where the table around the text model's does not say; None: what that one says."""
    path: tuple[str, ...] = ("text_config",)
    """Keys down to the text model's table."""
    older_key: str = ""
    """What older files call the last of them."""
    flat: bool = False
    """Whether there are files without that table, older than it, with its keys beside the composite's own."""
    absent: Mapping[str, Any] = field(default_factory=dict)
    """Values of the text model's absent keys, where they are others in this composite."""
    headless: str = ""
    """Class of the text model, where that is not its family's default: one without a head for tokens, or with one."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Pattern of the composite's own names -> the text model's, before those of `TEXT_NAMES`."""

    changes: Mapping[str, Any] | Callable[[Architecture], Mapping[str, Any]] = field(default_factory=dict)
    """Path in the text model's architecture -> its value where the composite's class computes another than the text model's."""
    said: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the text model's table that say what `changes` computes, and that its own family refuses -> their value."""
    only: Mapping[str, Any] = field(default_factory=dict)
    """Keys beside the text model's table that change what it computes -> the one value that is read."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Key of the text model's table -> what its family calls it."""
    outside: tuple[str, ...] = ()
    """Patterns of keys beside the text model's own that change nothing of text."""
    aside: tuple[str, ...] = ()
    """Patterns of names that would be the text model's, of weights that text alone does not reach: left aside as towers are."""
    reached: Callable[[Mapping[str, Any]], Sequence[int]] | None = None
    """Of the text model's table: the numbers of the layers that text alone goes through, where those are not all. The others
    are left aside, and these are counted from 0 in the text model."""

    def is_outside(self, key: str) -> bool:
        """Whether a key of its own changes nothing of text."""
        return any(re.fullmatch(pattern, key) for pattern in self.outside)

    def text_name(self, name: str) -> str | None:
        """The text model's own name of a stored tensor; None for a tensor of a tower."""
        if any(re.fullmatch(pattern, name) for pattern in self.aside):
            return None
        for pattern, own in {**self.renamed, **TEXT_NAMES}.items():
            if re.fullmatch(pattern, name):
                return re.sub(pattern, own, name, count=1)
        return None

    def names_of(self, table: Mapping[str, Any]) -> Callable[[str], str | None]:
        """`text_name` for the text model of this table."""
        if self.reached is None:
            return self.text_name
        numbers = {str(layer): str(own) for own, layer in enumerate(self.reached(table))}

        def named(name: str) -> str | None:
            own = self.text_name(name)
            layer = re.fullmatch(r"(model\.layers\.)(\d+)(\..*)", own or "")
            if layer is None:
                return own
            return f"{layer[1]}{numbers[layer[2]]}{layer[3]}" if layer[2] in numbers else None

        return named


TEXT_NAMES: Mapping[str, str] = {
    r"(?:thinker\.|vlm\.)?model\.(?:language_model|text_model)\.(?:model\.)?(.*)": r"model.\1",
    r"(?:language_model|text_model)\.((?:model\.|lm_head\.|final_logits_bias).*)": r"\1",
    r"language_model\.(.*)": r"model.\1",
    r"(?:thinker\.)?((?:model\.(?:layers|embed_tokens|norm)|lm_head|mtp)\..*)": r"\1",
}
"""Pattern of names of a composite's text weights -> the text model's own name, of which the first that fits counts.

In this order: transformers 5 (`model.language_model.layers`, `lm_head`), published files (`language_model.model.layers`,
`language_model.lm_head`), files without a head, and files whose towers stand beside a text model's own names (Qwen2-VL).
"""
