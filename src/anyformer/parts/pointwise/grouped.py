"""Grouped projections: the features are cut into groups, and each group of outputs reads its own group of inputs alone."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import model_validator

from anyformer.describe import Count, DescriptionError, Value


class ProjectionGroups(Value):
    """The base of the groups of several projections, a field for each."""

    @model_validator(mode="after")
    def _some(self) -> ProjectionGroups:
        if all(groups == 1 for groups in self.counts.values()):
            raise ValueError("every projection has one group: leave grouped out, or set one of them higher")
        return self

    @property
    def counts(self) -> dict[str, int]:
        """The number of groups of each projection."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    @property
    def words(self) -> str:
        """In words: `query, key in 4 groups, output in 2 groups`."""
        counts = {n: [name for name, own in self.counts.items() if own == n] for n in dict.fromkeys(self.counts.values())}
        said = [f"{', '.join(names)} in {groups} groups" for groups, names in counts.items() if groups > 1]
        return ", ".join(said)

    def check(self, projections: Mapping[str, tuple[int, int]]) -> None:
        """Refuse the inputs and outputs of a projection that its groups do not divide."""
        for name, (inputs, outputs) in projections.items():
            groups = self.counts[name]
            if inputs % groups or outputs % groups:
                raise DescriptionError(
                    f"grouped.{name} must divide the {inputs} inputs and the {outputs} outputs of the projection, got {groups}"
                )


class HeadGroups(ProjectionGroups):
    """Groups of the projections of attention: y = x W, W block-diagonal, as a convolution of width 1 in groups is.

    SqueezeBERT (Iandola et al. 2020, arXiv 2006.11316) has 4, 4, 4 and 1.
    """

    query: Count = 1
    key: Count = 1
    value: Count = 1
    output: Count = 1


class NetworkGroups(ProjectionGroups):
    """Groups of the projections of a feed-forward network: y = x W, W block-diagonal.

    SqueezeBERT (Iandola et al. 2020, arXiv 2006.11316) has 4 and 4; these are the grouped linear layers of ConvBERT (Jiang et
    al. 2020, arXiv 2008.02496).
    """

    gate: Count = 1
    up: Count = 1
    down: Count = 1
