"""What a family of Hugging Face models says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.fixed_tables import Fixed
from anyformer.huggingface.rules import Names
from anyformer.huggingface.target import Target
from anyformer.model import Architecture


@dataclass(frozen=True)
class Family:
    """One model type of transformers, both ways."""

    model_type: str
    read: Callable[[Config], Architecture]
    """The architecture of a configuration. Run for a `target`, it records the configuration of that architecture."""
    names: Names | Callable[[Architecture], Names]
    default_class: str
    """The class of transformers that an export names, unless the configuration has `architectures`."""
    inert: tuple[str, ...] = ()
    """Keys of its configuration that change nothing that is computed."""
    ignored: tuple[str, ...] = ()
    """Patterns of stored tensors that no model needs: buffers."""
    fixed: Mapping[str, Fixed] = field(default_factory=dict)
    """Patterns of stored tables that follow from a formula -> the formula."""
    older_names: Mapping[str, str] = field(default_factory=dict)
    """Patterns in names of tensors that published files have -> what transformers saves in their place."""
    kernel: str = "eager"
    """The attention implementation of transformers that defines its numbers."""
    base: str = ""
    """Start of names that files saved from the headless model leave out (GPT-2's `transformer.`)."""

    def write(self, architecture: Architecture) -> dict[str, Any]:
        """A configuration of this model type; raises a `UserError` with the reason where it has no word for something.

        `read` of what is written gives back every architecture that the model type can express.
        """
        config = Config({"model_type": self.model_type}, target=Target(architecture))
        self.read(config)
        return config.written

    def names_of(self, architecture: Architecture) -> Names:
        """Where the weights of an architecture are stored."""
        return self.names(architecture) if callable(self.names) else self.names
