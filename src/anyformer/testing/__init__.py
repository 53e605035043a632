"""The contracts of parts, tasks, objectives and families, also for those kept outside the package (`anyformer check`)."""

from anyformer.testing.checks import Checks

__all__ = ["Checks"]
