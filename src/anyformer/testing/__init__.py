"""The contracts of parts, tasks, objectives, optimisers and families, also of those kept outside the package (`anyformer check`)."""

from anyformer.testing.checks import Checks

__all__ = ["Checks"]
