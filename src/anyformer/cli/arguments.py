"""What several commands say of their arguments."""

from __future__ import annotations

WHAT = "A catalogue name, a .toml or .json file, or a directory: a run's or one of Hugging Face's layout."
"""What a name of an architecture may be."""
