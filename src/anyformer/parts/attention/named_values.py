"""The values of attention that are seen, as its kinds declare them alike."""

from __future__ import annotations

from anyformer.operations import Watchables, value


def pairs_seen(heads: int) -> Watchables:
    """Scores and weights of the keys of each query, which fused kernels keep to themselves."""
    return {
        "scores": value("BHTS", "scores, -inf where a query does not see the key", written_out=True, H=heads),
        "weights": value("BHTS", "what the values of keys are weighed by", written_out=True, H=heads),
    }


def heads_seen(mixed: tuple[int, int], read: tuple[int, int], width: int) -> Watchables:
    """Heads as they are mixed and as the output projection reads them, (number, width) each, and what this makes of one."""
    (H, U), (heads, features) = mixed, read
    return {
        "mixed": value("BTHU", "the values that each head mixed", H=H, U=U),
        "heads": value("BTHU", "the heads that the output projection reads", H=heads, U=features),
        "head_outputs": value("BTHD", "the output of each head alone", written_out=True, H=heads, D=width),
    }
