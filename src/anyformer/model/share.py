"""What one of several processes has of a model that they compute together."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.model.architecture import Architecture


@dataclass(frozen=True)
class ProcessShare:
    """A process's share: `architecture` has, of each divided sublayer, what this process computes.

    `processes`: those that compute the model together; so many of them, `here`, take memory from one device.
    """

    architecture: Architecture
    processes: int
    here: int
