"""The contracts of parts, objectives, optimisers, tasks and families, those of plug-ins too (`anyformer check`)."""

from anyformer.testing.checks import Checks

__all__ = ["Checks"]
