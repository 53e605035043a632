"""The values of attention that are seen, as its kinds declare them alike."""

from __future__ import annotations

from anyformer.operations import Watchables, sized, value


def pairs_seen(heads: int) -> Watchables:
    """Scores and weights of the keys of each query, which fused kernels keep to themselves."""
    return {
        "scores": value("BHTS", "scores, -inf where a query does not see the key", written_out=True, H=heads),
        "weights": value("BHTS", "what the values of keys are weighed by", written_out=True, H=heads),
    }


def heads_seen(mixed: tuple[int, int], read: tuple[int, int], width: int) -> Watchables:
    """Heads as they are mixed and as the output projection reads them, (number, width) each, and what this makes of one."""
    (H, U) = mixed
    return {"mixed": value("BTHU", "the values that each head mixed", H=H, U=U), **put_out_seen(read, width)}


def put_out_seen(heads: tuple[int, int], width: int) -> Watchables:
    """Heads as the output projection reads them, (number, width), and what this makes of each."""
    H, U = heads
    return {
        "heads": value("BTHU", "the heads that the output projection reads", H=H, U=U),
        "head_outputs": value("BTHD", "the output of each head alone", written_out=True, H=H, D=width),
    }


def state_seen(letters: str, **sizes: int) -> Watchables:
    """Running sums, which the next call of a model with a decode state reads."""
    return {"state": sized(letters, "the sums behind the call's last position", sizes, ahead=True)}
