"""Operations of a step that become one: norms, and results that are only converted; what must stay apart does."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
import torch.nn.functional as F

from anyformer.generation.native import tables as native_tables
from anyformer.generation.native.captured import captured
from anyformer.generation.native.decode import NativeStep, unavailable
from anyformer.generation.native.step_memory import StepMemory
from anyformer.generation.native.table import OPERATIONS
from anyformer.generation.native.tables import Tables
from anyformer.generation.native.translated import WRITES, translated

DRAWS = torch.Generator().manual_seed(0)
X, Y, W = torch.randn(3, 5, 64, generator=DRAWS), torch.randn(3, 5, 64, generator=DRAWS), torch.randn(64, generator=DRAWS)
HALF, SHORT = X.bfloat16(), W[:10].clone()


@pytest.fixture(autouse=True)
def compiled():
    if unavailable():
        pytest.skip(unavailable())


def table(function, *given, kept=()):
    with torch.inference_mode(), captured(WRITES) as operators:
        result = function(*given)
    return translated(operators, given, kept, result), result


def operations(made):
    """How many of each kind."""
    return Counter(OPERATIONS[int(made.words[start])] for start in made.starts)


def checked(function, *given):
    """The operations of a function, whose table gives what torch does, of other numbers too."""
    made, result = table(function, *given)
    step, close = NativeStep(made, ()), 1e-2 if result.dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(step(*given), result, atol=close, rtol=close)
    others = [each.flip(0).contiguous() * 2 for each in given]
    torch.testing.assert_close(step(*others), function(*others), atol=close, rtol=close)
    return operations(made)


def normal(x, dim=-1, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(dim, keepdim=True) + eps)


def of_two(x):
    root = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    return x * root + root


def seen_before(x):
    square = x.square()
    return x * torch.rsqrt(square.mean(-1, keepdim=True) + 1e-6) - square


@pytest.mark.parametrize(
    "function",
    [normal, lambda x: normal(x) * W, lambda x: normal(x[:, 1:3, :10]) * SHORT, lambda x: normal(x[:, 0])],
)
def test_a_norm_is_one_operation(function):
    assert checked(function, X) == {"rows": 1}


@pytest.mark.parametrize(
    ("function", "others"),
    [
        (lambda x: normal(x, dim=1), 4),
        (of_two, 5),
        (seen_before, 5),
        (lambda x: (x + 1) * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6), 5),
        (lambda x: normal(x, eps=x[0, 0, 0].abs()), 5),
    ],
    ids=["of another size", "whose root is read", "whose squares are read", "of other numbers", "by a number of the step"],
)
def test_what_is_no_norm_stays(function, others):
    assert checked(function, X) == {"elementwise": others, "reduction": 1}


def test_a_norm_is_multiplied_by_a_weight_alone():
    assert checked(lambda x, y: normal(x) * y, X, Y) == {"rows": 1, "elementwise": 1}
    assert checked(lambda x: (n := normal(x)) * W + n, X) == {"rows": 1, "elementwise": 2}


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (lambda x, y: x * y, {"elementwise": 1}),
        (lambda x, y: x * y[:, :1], {"elementwise": 1}),
        (lambda x, y: normal(x + y), {"elementwise": 1, "rows": 1}),
        (lambda x, y: x @ y.mT, {"matrix product": 1}),
        (lambda x, y: F.scaled_dot_product_attention(x[None], y[None], x[None]), {"attention": 1}),
    ],
)
def test_a_result_is_put_down_converted(function, kinds):
    """What the table gives is a copy of it."""
    assert checked(lambda x, y: function(x, y).bfloat16(), X, Y) == Counter(kinds) + Counter(elementwise=1)
    assert checked(function, X, Y) == kinds, "this is put down in place of the copy"


@pytest.mark.parametrize(
    ("function", "copies"),
    [
        (lambda x, y: (z := x * y).bfloat16() * z, 2),
        (lambda x, y: (x * y)[:, 1:3].bfloat16(), 2),
        (lambda x, y: (x * y)[0].bfloat16(), 2),
        (lambda x, y: (z := x * y, torch.stack([z.bfloat16(), z.bfloat16()]))[1], 5),
    ],
    ids=["it is read", "a part in the middle", "a part at the beginning", "twice"],
)
def test_a_result_that_is_more_than_converted_stays(function, copies):
    """Beside the operation that computes it."""
    assert checked(function, X, Y) == {"elementwise": 1 + copies}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_an_operation_reads_is_not_overwritten_by_its_result(dtype):
    """Numbers that move by one place in memory, from which they are computed."""

    def step(x):
        held = x.clone().to(dtype).flatten()
        held[1:].copy_(held[:-1].float() * 2)
        return held

    checked(step, X)


def test_numbers_of_16_bits_are_read_without_a_copy():
    """By products, attention, norms and functions of numbers; where rows lie apart too."""
    functions = (
        (lambda x: x.float() * 2 + x.float(), {"elementwise": 2}),
        (lambda x: normal(x.float()) * W, {"rows": 1}),
        (lambda x: F.linear(x.float()[:, 1], Y[0]), {"product": 1, "elementwise": 1}),
        (lambda x: x.float() @ Y[:1].mT, {"matrix product": 1}),
        (lambda x: F.scaled_dot_product_attention(Y[None], *[x.float()[None]] * 2), {"attention": 1}),
    )
    for given in (HALF, HALF.transpose(0, 1).contiguous().transpose(0, 1), HALF[:, ::2]):
        for function, kinds in functions:
            made, result = table(function, given)
            torch.testing.assert_close(NativeStep(made, ())(given), result, atol=1e-4, rtol=1e-4)
            turned = Counter(elementwise=0 if result.is_contiguous() else 1)  # to the result, whose numbers lie side by side
            assert Counter(kinds) <= operations(made) <= Counter(kinds) + turned


def test_rows_that_lie_apart_are_multiplied_at_once():
    """Torch's copy of them, which lies side by side, is made for that."""
    given = HALF.transpose(0, 1).contiguous().transpose(0, 1)
    made, result = table(lambda x: F.linear(x.to(torch.float32, memory_format=torch.contiguous_format), Y[0]), given)
    torch.testing.assert_close(NativeStep(made, ())(given), result, atol=1e-4, rtol=1e-4)
    assert operations(made)["product"] == 1


def test_memory_is_planned_for_more_slots_than_are_seen(monkeypatch):
    """Numbers of slots that grow by one plan a new memory only after a fourth of them, and each has room in it."""

    def step(x):
        return (torch.cat([x, x * 2], 1).square() + 1).sum(1)

    tables, planned, plan = Tables(), list[int](), StepMemory.of
    for visible in (8, 16, 24):
        tables.add(visible, table(step, torch.randn(2, visible))[0], spans=True)
    assert not tables.unknown
    monkeypatch.setattr(native_tables.StepMemory, "of", lambda *given: planned.append(1) or plan(*given))
    for visible in range(25, 200):
        made, x = tables.at(visible, spans=True), torch.randn(2, visible)
        assert made is not None
        torch.testing.assert_close(NativeStep(made, ())(x), step(x))
    assert len(planned) <= 12
