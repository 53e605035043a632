"""Several data of one kind, with shares of the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from anyformer.data.description import Data, Files, Text
from anyformer.data.shares import BLOCK, quotas
from anyformer.describe import Value, with_kind


class Component(Value):
    """One of the data of a mixture."""

    data: Annotated[Data, BeforeValidator(with_kind("text"))]
    """The examples; their tokenizer is that of the mixture."""
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """Its share of the rows, beside the weights of the others: 7 and 3 are 70 % and 30 %."""
    repeats: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Most epochs of it, after which its rows go to the others in proportion; absent: no bound."""
    name: Annotated[str, Field(min_length=1)] | None = None
    """What it is called where its loss is told; absent: its first path, without directories and suffix."""

    @field_validator("data")
    @classmethod
    def _of_files(cls, data: Data) -> Data:
        if not isinstance(data, Files):
            raise ValueError(f"is of kind {data.kind!r}: the parts of a mixture are in files; write its own parts in its place")
        usual = type(data).model_fields["tokenizer"].default
        if data.tokenizer != usual:
            raise ValueError(
                f"names a tokenizer (kind {data.tokenizer.kind!r}), and all parts of a mixture have the same one: leave it "
                "out, and set data.tokenizer"
            )
        return data

    @property
    def files(self) -> Files:
        """Its data, which is in files."""
        assert isinstance(self.data, Files), "checked above"
        return self.data

    @property
    def called(self) -> str:
        """Its name."""
        first = self.files.paths[0]
        return self.name or Path(first).stem or first


class Mixture(Data):
    """Rows of several data of one kind, by shares.

    Of every 1,000 rows a part gives as many as its weight says, rounded by the largest remainder, in an order that only the
    seed decides. A part with `repeats` gives at most floor(repeats * the rows of an epoch); from the thousand on in which
    these end, its rows are divided among the others by their weights (Muennighoff et al. 2023, arXiv 2305.16264, on how often
    data may repeat). The tokenizer is learnt from the training text of the parts in proportion to their weights. Each part is
    prepared on its own: with the same tokenizer, other weights change nothing on disk.
    """

    kind: Literal["mixture"] = "mixture"
    parts: Annotated[tuple[Component, ...], Field(min_length=1)]
    """The data that are mixed, all of one kind."""

    @model_validator(mode="after")
    def _mixes(self) -> Mixture:
        kinds = sorted({part.data.kind for part in self.parts})
        if len(kinds) > 1:
            raise ValueError(f"parts are of one kind of data, and these are of {len(kinds)}: {', '.join(kinds)}")
        twice = [name for name, count in Counter(part.called for part in self.parts).items() if count > 1]
        if twice:
            raise ValueError(f"two parts are called {twice[0]!r}: give them different names, as in name = '{twice[0]}-2'")
        if all(part.repeats is not None for part in self.parts):
            raise ValueError(
                "every part has a bound on its repeats, and the rows may end before the run: leave out `repeats` of one"
            )
        if len({part.data.isolate for part in self.parts if isinstance(part.data, Text)}) > 1:
            raise ValueError("isolate differs between the parts: rows of one batch are isolated alike; set it equal in all")
        for part, quota in zip(self.parts, quotas([part.weight for part in self.parts], BLOCK), strict=True):
            if not quota:
                raise ValueError(
                    f"{part.called} has a weight of {part.weight:g}, which is less than one row in {BLOCK:,}: give it more, or "
                    "leave it out"
                )
        return self

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(path for part in self.parts for path in part.files.paths)

    @property
    def holds_out(self) -> bool:
        return any(part.files.validation for part in self.parts)

    @property
    def components(self) -> Mapping[str, Files]:
        return {part.called: part.files.but(tokenizer=self.tokenizer) for part in self.parts}
