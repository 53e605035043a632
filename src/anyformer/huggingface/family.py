"""A family of Hugging Face models: its configuration and the names of its weights, as data and functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.fixed_tables import FixedTable
from anyformer.huggingface.rules import Names, Renaming
from anyformer.huggingface.target import Target
from anyformer.model import Architecture

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.images.encoder_module import Images


@dataclass(frozen=True)
class Family:
    """One model type of transformers, both ways."""

    model_type: str
    read: Callable[[Config], Architecture]
    """The architecture of a configuration. Run for a `target`, it records the configuration of that architecture."""
    names: Names | Callable[[Architecture], Names]
    default_class: str
    """The class of transformers named in an export, unless `read` writes `architectures`."""
    inert: tuple[str, ...] = ()
    """Keys of its configuration that no computation depends on."""
    ignored: tuple[str, ...] = ()
    """Patterns of stored tensors that are not read, such as buffers."""
    fixed: Mapping[str, FixedTable] = field(default_factory=dict)
    """Pattern of stored tables that follow from a formula -> the formula."""
    older_names: Mapping[str, Renaming] = field(default_factory=dict)
    """Pattern in names of tensors of older files -> what transformers writes there now."""
    told: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    """Tensor that published files hold although no key says so -> the key and the value that say it."""
    stand_ins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of a tensor that files may lack -> the names under which they may hold it in its place, all of them the same."""
    kernel: str = "eager"
    """The attention implementation of transformers that results are compared with."""
    beyond_fp16: bool = False
    """Whether hidden states of published weights are larger than fp16 holds: weights in fp16 are computed with in fp32. T5 in
    transformers keeps a matrix of every layer in fp32, and with it the stream."""
    base: str = ""
    """Prefix of names that files saved from the headless model lack (GPT-2's `transformer.`)."""

    text: Family | None = None
    """Of a composite: the family of its text model, whose names these are."""
    text_name: Callable[[str], str | None] | None = None
    """Of a composite: name of a stored tensor -> the text model's own name; None for a tensor of a tower."""

    shows: Callable[[Tensor, Images], dict[str, Tensor]] | None = None
    """Of a composite with its images: what transformers' class is given for tokens (B, T) and images."""

    seen: Callable[[Tensor], Tensor] | None = None
    """Of a composite with its images: what a layer of transformers' tower gives -> its positions (n, S, D) in the order here;
    None: they are."""

    hears: Callable[[Tensor, Tensor | None], dict[str, Tensor]] | None = None
    """Of a composite with its sound: what transformers' class is given for frames (n, F, I) and their padding."""

    sees: bool = False
    """Whether its models read images, with `images=True` or without it."""

    text_path: tuple[str, ...] = ()
    """Of a composite: keys down to the text model's table."""

    @property
    def home(self) -> str:
        """The module that defines it; its `read` may be a function of another with some arguments given."""
        read = self.read
        while isinstance(read, partial):
            read = read.func
        return read.__module__

    def write(self, architecture: Architecture) -> dict[str, Any]:
        """A configuration of this model type; `UserError` with the reason where it has no key for something.

        Where the model type can express the architecture, `read` of the configuration gives it back.
        """
        config = Config({"model_type": self.model_type}, target=Target(architecture))
        self.read(config)
        return config.written

    def names_of(self, architecture: Architecture) -> Names:
        """The stored names of an architecture's weights."""
        return self.names(architecture) if callable(self.names) else self.names
