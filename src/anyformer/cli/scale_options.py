"""Pods and regions in `anyformer plan`: their options, and what they ask."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.describe import UserError

if TYPE_CHECKING:
    from anyformer.costs.hardware import Hardware
    from anyformer.planning.fabric import Fabric

_option = partial(typer.Option, rich_help_panel="Pods and regions (above 16,384 accelerators, or with --pod)")


@dataclass(frozen=True)
class ScaleOptions:
    """The options as they are typed; None where they are left out."""

    pod: Annotated[
        int | None,
        _option(
            help="Accelerators of a pod, within which every node reaches every other at full speed. By default one network, or "
            "pods of 3,072 as those of Llama 3 above 16,384 accelerators.",
            min=1,
            metavar="COUNT",
        ),
    ] = None
    region: Annotated[
        int | None, _option(help="Accelerators of a region. By default 8 pods, one building.", min=1, metavar="COUNT")
    ] = None
    between_pods: Annotated[
        float | None,
        _option(
            help="GB/s per accelerator between pods, in one direction. By default a seventh of its network, as Llama 3's.",
            metavar="GB",
        ),
    ] = None
    between_regions: Annotated[
        float | None,
        _option(
            help="Gbit/s of all links of a region to others together, in one direction. By default 1,000, an assumption.",
            metavar="GBIT",
        ),
    ] = None
    inner_steps: Annotated[
        int | None,
        _option(
            help="Inner steps between outer steps of DiLoCo. By default as in the papers: 500, in Streaming DiLoCo 100.",
            min=1,
            metavar="COUNT",
        ),
    ] = None
    power: Annotated[
        float | None,
        _option(help="Watts of an accelerator. By default its thermal design power.", metavar="WATTS"),
    ] = None
    pue: Annotated[
        float | None,
        _option(help="Energy of a data centre over that of its accelerators. By default 1.1.", metavar="RATIO"),
    ] = None

    @property
    def given(self) -> dict[str, float]:
        """Options that were typed, as they were typed."""
        return {f"--{name.replace('_', '-')}": value for name, value in asdict(self).items() if value is not None}

    def asked(self, gpus: int) -> bool:
        """Whether so many accelerators stand in pods; an option that cannot be is refused by its name."""
        from anyformer.planning.coupling import LARGEST

        for name, value in self.given.items():
            if not (value > 0 and math.isfinite(value)):
                raise UserError(f"{name} should be above 0, got {value:g}")
        if self.pue is not None and self.pue < 1:
            raise UserError(f"--pue is energy of all over energy of a part, 1 or more, got {self.pue:g}")
        self._check_inner_steps()
        asked = self.pod is not None or gpus > LARGEST
        if self.given and not asked:
            raise UserError(
                f"{', '.join(self.given)}: {gpus:,} accelerators stand in one pod unless --pod says how many one has: add "
                f"--pod COUNT, or --gpus above {LARGEST:,}"
            )
        return asked

    def _check_inner_steps(self) -> None:
        """Refuse fewer inner steps than one of the ways that are compared can have."""
        from anyformer.planning.outer_steps import PUBLISHED_LOSSES

        most = max(PUBLISHED_LOSSES.values(), key=lambda published: published.outer.least)
        if self.inner_steps is not None and self.inner_steps < most.outer.least:
            raise UserError(
                f"--inner-steps {self.inner_steps}: {most.title} sends the model in {most.outer.fragments} parts, one after "
                f"another, which takes {most.outer.least} inner steps: give {most.outer.least} or more"
            )

    def fabric(self, gpus: int, on: Hardware) -> tuple[Fabric, int]:
        """The network, and how many of so many accelerators are in whole pods of equal regions; all where they fill no pod."""
        from anyformer.planning.fabric import POD, PODS, REGION, Fabric, default, used

        pod = self.pod or POD
        most, rest = divmod(self.region or PODS * pod, pod)
        if rest:
            raise UserError(
                f"--region {self.region:,} is no number of pods of {pod:,} accelerators: try {max(most, 1) * pod:,}, or "
                "another --pod"
            )
        regions, pods = used(gpus, pod, most)
        if not pods:
            return Fabric(), gpus
        between = None if self.between_pods is None else self.between_pods * 1e9
        out = REGION if self.between_regions is None else self.between_regions * 1e9 / 8
        return default(on, pod, pods, between, out), regions * pods * pod
