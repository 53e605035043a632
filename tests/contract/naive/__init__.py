"""The naive twin: every architecture again, position by position and head by head in plain loops, from its weights by name.

It shares nothing with the package but the description. Run it in float64.
"""

from naive.twin import forward, predictions

__all__ = ["forward", "predictions"]
