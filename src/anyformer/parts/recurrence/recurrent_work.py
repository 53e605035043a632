"""What recurrences over time take: their states, and the FLOPs of their chunks."""

from __future__ import annotations

from anyformer.operations import Contraction, Product, Shape, StateBytes, Tally


def linear_flops(
    batch: int, heads: int, groups: int, key: int, value: int, length: int, chunk: int, *, pairs: int | None = None
) -> Tally:
    """FLOPs of `linear_recurrence` from an empty state, with `heads` outputs, `groups` states, one decay per head or none.

    `pairs`: heads of which queries meet keys: as many as outputs unless several states share both.
    """
    if length == 1:
        return even(read=2 * batch * heads * key * value)
    size, chunks = cut(length, chunk, channels=False)
    rows = batch * chunks * size
    write, read = 2 * rows * groups * key * value, 2 * rows * heads * key * value
    alone = chunks == 1
    return even(scores=2 * rows * (pairs or heads) * size * key, mix=2 * rows * heads * size * value) + Tally(
        own_work={
            "write": Contraction(write, no_gradient=2 * write if alone else 0),
            "read": Contraction(read, no_gradient=read if alone else 0),
        }
    )


def delta_flops(
    batch: int, heads: int, key_heads: int, key: int, value: int, length: int, chunk: int, *, channels: bool
) -> Tally:
    """FLOPs of `delta_recurrence` from an empty state, with `heads` states; `channels`: with a decay per channel."""
    if length == 1:
        return even(write=2 * batch * heads * key * value, read=2 * batch * heads * key * value)
    size, chunks = cut(length, chunk, channels=channels)
    rows = batch * chunks * size
    products = heads * (size - 1) * key if channels else 2 * key_heads * size * key
    mix, through = 2 * rows * heads * size * value, 2 * rows * heads * key * value
    return even(scores=2 * rows * products, mix=mix) + Tally(
        own_work={
            # The first chunk reads a state of zeros, and no chunk reads the state after the last one.
            "write": Contraction(2 * through, no_gradient=3 * through // chunks),
            "read": Contraction(through, no_gradient=through if chunks == 1 else 0),
            # A solve is no matrix product, but the gradient of its triangle is one.
            "solve": Contraction(0, no_gradient=-2 * rows * heads * size * (key + value)),
        }
    )


def recurrent(size: int, shape: Shape, heads: int = 1) -> StateBytes:
    """A state of fixed size with `heads` heads: a call of one position reads and writes all of it, a longer one writes it."""
    return StateBytes(size, size if shape.length == 1 else 0, size, heads)


def even(**work: int) -> Tally:
    """Work that no mask reduces, so that dense and exact FLOPs are equal."""
    return Tally(own_work={name: Contraction(count) for name, count in work.items()})


def cut(length: int, chunk: int, *, channels: bool) -> tuple[int, int]:
    """The size of a chunk, a power of two if decay is per channel, and the number of chunks."""
    size = min(chunk, length)
    size = 1 << (size - 1).bit_length() if channels else size
    return size, -(-length // size)


def log_linear_flops(batch: int, heads: int, key: int, value: int, levels: int, length: int, chunk: int) -> Tally:
    """FLOPs of `log_linear_recurrence` from an empty state."""
    size, chunks = cut(length, chunk, channels=False)
    rows = batch * heads * chunks * size
    through, moved = 2 * rows * levels * key * value, 2 * batch * heads * levels * levels * key * value
    alone = chunks == 1
    return even(scores=2 * rows * size * key, mix=2 * rows * size * value) + Tally(
        own_work={
            "write": Contraction(through, no_gradient=2 * through if alone else 0),
            "read": Contraction(through, no_gradient=through if alone else 0),
            # Where states of levels go takes no gradient, nor does what is before the first chunk and behind the last.
            "move": Contraction(chunks * moved, no_gradient=2 * chunks * moved - max(chunks - 2, 0) * moved),
        }
    )


def scan_flops(batch: int, channels: int, width: int, length: int) -> Tally:
    """FLOPs of `selective_scan`: the queries read states; all else in it is element-wise."""
    read = 2 * batch * length * channels * width
    # Beside the queries, the gradients of keys, values, steps and rates are products with states or with their gradients.
    return Tally(own_work={"read": Contraction(read, no_gradient=0 if length == 1 else -3 * read)})


def generalised_delta_flops(batch: int, heads: int, key: int, value: int, length: int, chunk: int) -> Tally:
    """FLOPs of `generalised_delta` from an empty state, with `heads` states."""
    if length == 1:
        return even(write=2 * batch * heads * key * value, read=2 * batch * heads * key * value)
    size, chunks = cut(length, chunk, channels=True)
    rows = batch * chunks * size
    through = 2 * rows * heads * key * value
    return even(scores=4 * rows * heads * (size - 1) * key, mix=6 * rows * heads * size * value) + Tally(
        own_work={
            # The first chunk reads a state of zeros, and no chunk reads the state after the last one.
            "write": Contraction(3 * through, no_gradient=5 * through // chunks),
            "read": Contraction(through, no_gradient=through if chunks == 1 else 0),
            # A solve is no matrix product, but the gradient of its triangle is one.
            "solve": Contraction(0, no_gradient=-2 * rows * heads * size * (key + value)),
        }
    )


def slstm_flops(batch: int, heads: int, width: int, length: int) -> Tally:
    """FLOPs of `slstm_recurrence` from zeros."""
    outputs = heads * 4 * width
    if length == 1:
        # A product with a weight like others: h takes no gradient.
        return Tally(own_work={"recurrent": Product(batch, width, outputs, "replicate", constant=True, blocks=heads)})
    count = 2 * batch * length * width * outputs
    # The backward pass computes the products again.
    return Tally(own_work={"recurrent": Contraction(count, no_gradient=-count)})


def training_flops(batch: int, heads: int, width: int, length: int, minibatch: int) -> Tally:
    """FLOPs of `train_at_test_time` of whole rows, from new weights."""
    size = min(minibatch, length)
    rows = batch * heads * -(-length // size) * size
    through = 2 * rows * (width + 1) * width
    if length == 1:
        return even(write=through, read=through)
    pairs = 2 * rows * size * (width + 1)
    # The backward pass computes errors, updates and scores again; each error has a second derivative.
    return even(read=through, mix=2 * rows * size * width) + Tally(
        own_work={"scores": Contraction(pairs, no_gradient=-pairs), "write": Contraction(2 * through, no_gradient=-2 * through)}
    )
