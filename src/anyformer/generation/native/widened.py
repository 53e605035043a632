"""Numbers of 16 bits that operations read as they lie, where torch reads a copy of them in 32 bits."""

from __future__ import annotations

from torch import Tensor


def as_stored(view: Tensor, copy: Tensor, source: Tensor) -> Tensor | None:
    """The numbers of `source` that a view of its copy shows, with the sizes of the view; None where no strides tell them.

    Torch may copy numbers that lie apart to places side by side, so every size of the view is found in the copy by its stride.
    """
    ahead, offset = view.storage_offset() - copy.storage_offset(), source.storage_offset()
    if copy.stride() == source.stride():
        return source.as_strided(view.shape, view.stride(), offset + ahead)
    sizes = [
        (stride, size, own) for stride, size, own in zip(copy.stride(), copy.shape, source.stride(), strict=True) if size > 1
    ]
    sizes.sort(reverse=True)
    strides = [_stride(size, stride, sizes) for size, stride in zip(view.shape, view.stride(), strict=True)]
    for stride, _, own in sizes:
        offset += ahead // stride * own
        ahead %= stride
    found = [stride for stride in strides if stride is not None]
    return source.as_strided(view.shape, found, offset) if len(found) == len(strides) and not ahead else None


def _stride(size: int, stride: int, sizes: list[tuple[int, int, int]]) -> int | None:
    """The source's stride for a size of a view: of one size of the copy, or of several that lie one within another in both."""
    if size == 1 or stride == 0:
        return 0
    for place, (of_copy, count, of_source) in enumerate(sizes):
        if of_copy != stride:
            continue
        while size > count:
            place -= 1
            if place < 0 or sizes[place][0] != stride * count or sizes[place][2] != of_source * count:
                return None
            count *= sizes[place][1]
        return of_source
    return None
