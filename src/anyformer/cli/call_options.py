"""Options of `anyformer explore` that say the call which is priced, as a page and its address have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from anyformer.cli.arguments import Batch, Length, SourceLength, machine_option
from anyformer.precision import Kind

NONE = "none"
"""The word for no accelerator."""


@dataclass(frozen=True)
class PricedCallOptions:
    """A call; what is not given is as the page has it."""

    length: Length = None
    batch: Batch = 1
    source_length: SourceLength = None
    precision: Annotated[
        Kind, machine_option(help="The number formats of training and decoding.", metavar="|".join(get_args(Kind)))
    ] = "bf16"
    checkpointing: Annotated[
        Literal["none", "selective", "full"],
        machine_option(help="What the backward pass computes again instead of storing it.", metavar="none|selective|full"),
    ] = "none"
    hardware: Annotated[
        list[str] | None,
        machine_option(
            help=f"An accelerator: h100, a100, tpu-v5p and others. Repeat it for more; `{NONE}` for no times. By default h100.",
            metavar="NAME",
        ),
    ] = None
    rate: Annotated[
        float | None,
        machine_option(help="Dollars for an hour of one accelerator. By default 2.", metavar="DOLLARS"),
    ] = None

    @property
    def query(self) -> dict[str, list[str]]:
        """Its words in a query; those that are as usual are left out."""
        said: dict[str, object] = {"length": self.length, "source": self.source_length, "rate": self.rate}
        usual = PricedCallOptions()
        chosen = {"batch": self.batch, "precision": self.precision, "checkpointing": self.checkpointing}
        said |= {name: given for name, given in chosen.items() if given != vars(usual)[name]}
        named = {} if self.hardware is None else {"on": ["" if name == NONE else name for name in self.hardware]}
        return {name: [str(given)] for name, given in said.items() if given is not None} | named
