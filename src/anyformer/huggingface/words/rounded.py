"""What transformers rounds to the type of a file, and is computed in fp32 here."""

from __future__ import annotations

import warnings

from anyformer.describe import Notice
from anyformer.huggingface.config import Config


def tell_of_rounding(config: Config, what: str) -> None:
    """Tell, where the files are in 16 bits, that transformers rounds `what` to them: its results differ by that."""
    stored = next((key for key in ("dtype", "torch_dtype") if config.written.get(key) in ("bfloat16", "float16")), None)
    if stored:
        warnings.warn(
            f"{config.where}: {stored} = {config.written[stored]} is what transformers rounds {what} to, computed in fp32 here",
            Notice,
            stacklevel=3,
        )
