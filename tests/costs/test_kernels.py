"""What a step computes and moves: beside the sheet, beside the running model, and by hand."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from zoo import PAIRS, ZOO

import anyformer as af
from anyformer.catalogue import listing
from anyformer.costs import cost
from anyformer.costs.kernels import kernels
from anyformer.describe import change_all
from anyformer.operations import Contraction, ExpertProduct, Flops, Shape, distinct_experts
from anyformer.operations.work import Product
from anyformer.plan import Plan
from anyformer.testing.traits import decodes_tokens, sublayers
from covering import cover, kinds, remembering

MODES = ("train", "prefill", "decode")
NAMES = [entry.name for entry in listing()]
BF16 = Plan(precision="bf16")


def total(work, field):
    return sum(getattr(item, field) * item.layers for item in work)


class Moved(TorchDispatchMode):
    """Bytes of the operands and the result of each product by a weight as the model holds it, and the name of the weight.

    A weight that the model multiplies by in another form has none here: copied for several heads, or joined with another.
    """

    def __init__(self, model):
        super().__init__()
        self.products = []
        self.weights = {parameter.untyped_storage().data_ptr(): name for name, parameter in model.named_parameters()}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        first = {"mm": 0, "bmm": 0, "addmm": 1}.get(function.overloadpacket.__name__)
        if first is not None:
            operands = args[first : first + 2]
            names = [self.weights.get(each.untyped_storage().data_ptr()) for each in operands]
            if name := next(filter(None, names), None):
                self.products.append((name, sum(each.nbytes for each in (*operands, result))))
        return result


@pytest.mark.parametrize("at", range(8))
def test_operations_add_up_to_the_sheet_for_every_entry(at):
    for i, name in enumerate(NAMES[at::8]):
        architecture, mode = af.architecture(name), MODES[i % 3]
        sheet = cost(architecture, batch=2, length=48, mode=mode)
        work = kernels(architecture, sheet.shape, Plan(), mode)
        assert sum((Flops(w.flops.dense * w.layers, w.flops.exact * w.layers) for w in work), Flops()) == sheet.flops.total, (
            name
        )


@pytest.mark.parametrize("mode", MODES)
def test_operations_add_up_to_the_sheet_in_the_zoo(mode):
    for name, architecture in ZOO.items():
        sheet = cost(architecture, batch=2, length=12, mode=mode)
        work = kernels(architecture, sheet.shape, Plan(), mode)
        assert sum((Flops(w.flops.dense * w.layers, w.flops.exact * w.layers) for w in work), Flops()) == sheet.flops.total, (
            name
        )


def reads_one_row_of_tokens(architecture):
    tokens = architecture.embedding.symbols is not None and not architecture.two_inputs and architecture.latents is None
    return tokens and not any(stack.reads_tokens for stack in architecture.stacks.values())


def mixes_experts(architecture):
    return any(part.routed(architecture.width, 1) for part in sublayers(architecture))


ONE_ROW = [n for n, a in ZOO.items() if reads_one_row_of_tokens(a) and not mixes_experts(a)]
DECODES = [n for n in ONE_ROW if decodes_tokens(ZOO[n])]
KINDS = cover({name: ZOO[name] for name in ONE_ROW}, kinds)
STATES = cover({name: ZOO[name] for name in DECODES}, remembering)
IN_FP32 = Plan(precision="fp32")


def check_products(architecture, shape, mode, moved):
    """Every product that the model makes by a weight is one that is declared, of as many bytes; gives how many of how many
    declared ones were made so. Left out are those whose rows are the same for any text, of which a model need not make all, and
    those with attention weights."""
    works = (item for node in architecture.cost(shape).nodes() for item in node.tally.own_work.items())
    constant = {name for name, each in works if isinstance(each, Contraction) or (isinstance(each, Product) and each.constant)}
    counted = Counter()
    for each in kernels(architecture, shape, IN_FP32, mode):
        if each.unit == "matrix" and each.name not in constant:
            counted[each.bytes] += each.layers
    made = Counter(size for name, size in moved.products if not constant & set(name.split(".")))
    assert not made - counted, (made - counted, counted - made)
    return made.total(), counted.total()


@torch.no_grad()
def one_pass(name):
    architecture = ZOO[name]
    model = af.build(architecture, plan=IN_FP32, seed=0).eval()
    with Moved(model) as moved:
        model(torch.randint(0, architecture.embedding.symbols, (2, 12)))
    return check_products(architecture, Shape(batch=2, length=12), "prefill", moved)


@torch.no_grad()
def one_token(name):
    architecture = ZOO[name]
    model = af.build(architecture, plan=IN_FP32, seed=0).eval()
    tokens, state = torch.randint(0, architecture.embedding.symbols, (2, 13)), model.state(2, 13)
    model(tokens[:, :12], state=state)
    with Moved(model) as moved:
        model(tokens[:, 12:], state=state)
    return check_products(architecture, Shape(batch=2, past=12), "decode", moved)


@pytest.mark.parametrize(
    ("run", "names"),
    [
        pytest.param(one_pass, KINDS, id="a pass-kinds"),
        pytest.param(one_token, STATES, id="one more token-kinds"),
        pytest.param(one_pass, ONE_ROW, id="a pass-all", marks=pytest.mark.slow),
        pytest.param(one_token, DECODES, id="one more token-all", marks=pytest.mark.slow),
    ],
)
def test_bytes_of_products_are_those_of_the_running_model(run, names):
    """A part may multiply by another form of its weights, but hardly any product of the zoo is made so."""
    every = [run(name) for name in names]
    made, counted = map(sum, zip(*every, strict=True))
    assert made > 0.98 * counted
    assert sum(one == all for one, all in every) > 0.9 * len(every)


@pytest.mark.parametrize("name", [n for n, a in PAIRS.items() if a.embedding.symbols is not None])
def test_bytes_of_products_of_two_sequences_are_those_of_the_running_model(name):
    architecture = PAIRS[name]
    model = af.build(architecture, plan=IN_FP32, seed=0).eval()
    source = torch.randint(0, architecture.embedding.symbols, (2, 9))
    target = torch.randint(0, architecture.output_embedding.symbols, (2, 12))
    with torch.no_grad(), Moved(model) as moved:
        model(source, target)
    work = kernels(architecture, Shape(batch=2, length=12, source=9), IN_FP32, "prefill")
    assert sum(size for _, size in moved.products) == total([each for each in work if each.unit == "matrix"], "bytes")


@pytest.mark.parametrize(("experts", "chosen", "tokens"), [(8, 2, 1), (8, 2, 5), (64, 6, 20), (16, 16, 3)])
def test_expected_experts_are_those_of_many_draws(experts, chosen, tokens):
    draw = random.Random(0)
    seen = [len({e for _ in range(tokens) for e in draw.sample(range(experts), chosen)}) for _ in range(4000)]
    assert distinct_experts(experts, chosen, tokens) == pytest.approx(sum(seen) / len(seen), rel=0.01)


def test_one_token_reads_the_experts_it_chooses_and_a_batch_not_more_than_all():
    def weight_bytes(tokens):
        return 2 * ExpertProduct(2 * tokens, 2 * tokens, 12, 20, experts=8, chosen=2).weight_read

    assert weight_bytes(1) == 2 * 2 * 20 * 12
    assert weight_bytes(1000) == 2 * 8 * 20 * 12
    assert weight_bytes(3) == 2 * round(8 * 20 * 12 * (1 - 0.75**3))


def test_decoding_reads_every_used_weight_once():
    """At batch 1 the products read the weights that one token uses, but the table of embeddings, norms and biases."""
    for name in ("llama-3-8b", "mixtral-8x7b", "deepseek-v3"):
        architecture = af.architecture(name)
        tally = architecture.cost(Shape(past=64))
        used = sum(w.active for n, w in tally.weights.items() if len(w.shape) > 1 and n != "embedding.weight")
        work = [w for w in kernels(architecture, Shape(past=64), BF16, "decode") if w.unit == "matrix"]
        assert total(work, "weights") == 2 * used, name


MLA_WIDTH = 512 + 64
GROWTH = {
    # bytes in bf16 that one more cached position adds to what one row reads: keys and values of each layer that reads them
    "llama-3-8b": 32 * 2 * 8 * 128 * 2,
    "gpt2": 12 * 2 * 12 * 64 * 2,
    "deepseek-v3": 61 * MLA_WIDTH * 2,
    "mistral-7b-v0.1": 0,  # its window of 4,096 is full
}


@pytest.mark.parametrize("name", GROWTH)
def test_decoding_reads_the_cache(name):
    architecture, rows = af.architecture(name), 3
    short, long = (
        total(
            [w for w in kernels(architecture, Shape(batch=rows, past=past), BF16, "decode") if w.address.sublayer],
            "bytes",
        )
        for past in (8000, 8100)
    )
    assert long - short == rows * 100 * GROWTH[name]


def test_a_recurrent_state_is_read_and_written_and_a_cache_only_read():
    for name, times in (("lightning_plain", 2), ("linear_elu", 2), ("llama", 1), ("latent", 1)):
        architecture, shape = ZOO[name], Shape(batch=2, past=40)
        held = architecture.cost(shape, BF16).total_state_bytes
        assert total(kernels(architecture, shape, BF16, "decode"), "state") == times * held, name


def test_a_layer_that_borrows_keys_reads_its_neighbours():
    architecture = ZOO["shared_keys"]
    tally = architecture.cost(Shape(batch=2, past=40), BF16)
    assert total(kernels(architecture, Shape(batch=2, past=40), BF16, "decode"), "state") > tally.total_state_bytes


def test_training_moves_three_times_the_forward_pass_and_the_optimiser():
    architecture = af.architecture("llama-12m")
    shape = Shape(batch=4, length=64)
    train, forward = (by_title(kernels(architecture, shape, BF16, mode)) for mode in ("train", "prefill"))
    state = architecture.cost(shape, BF16).total_state_bytes
    names = train.keys() & forward.keys()
    assert train.keys() - names == {"optimiser", "head.loss"}
    there, again = ([kernel for name in names for kernel in of[name]] for of in (forward, train))
    # A gradient of a weight is read and written in fp32 where it is added up, 8 bytes where 2 were written.
    added = 3 * total(there, "weights")
    assert total(again, "bytes") == 3 * (total(there, "bytes") - state) + added
    assert total(train["optimiser"], "bytes") == 28 * architecture.cost(shape).parameters
    for name in names:
        scores_again = 3.5 if train[name][0].unit == "attention" else 3
        assert total(train[name], "executed") == scores_again * total(forward[name], "executed"), name


def by_title(work):
    """Kernels by their title; a product in training is two."""
    found = {}
    for kernel in work:
        found.setdefault(kernel.title, []).append(kernel)
    return found


@pytest.mark.parametrize("name", ["cycles", "cycles_detached", "cycles_stored"])
def test_layers_that_no_gradient_reaches_have_a_forward_pass_alone(name):
    """Of the products written out, the backward pass is what torch counts of it (the contracts hold `total_flops` to that)."""
    shape, plan = Shape(batch=1, length=64), Plan(attention="plain")
    sheet = cost(ZOO[name], plan=plan, length=64, mode="train")
    assert sheet.executed.backward == ZOO[name].cost(shape, plan).total_flops.backward < 2 * sheet.executed.forward
    all_learn = {
        path: "input"
        for variant, block in ZOO[name].decoder.variants.items()
        if block.detaches
        for path in [f"decoder.variants.{variant}.steps.0.residual"]
    }
    whole, cut = (kernels(made, shape, plan, "train") for made in (change_all(ZOO[name], all_learn), ZOO[name]))
    forward = kernels(ZOO[name], shape, plan, "prefill")
    for field in ("executed", "moves", "launches"):
        assert total(forward, field) < total(cut, field) < total(whole, field)


def test_the_gradient_of_a_weight_is_a_kernel_that_is_not_recomputed():
    architecture, shape = af.architecture("llama-12m"), Shape(batch=4, length=64)
    once, again = (
        by_title(kernels(architecture, shape, BF16.but(checkpointing=how), "train"))["decoder.attention.query"]
        for how in ("none", "full")
    )
    assert [kernel.passes for kernel in once] == [2, 0]
    assert once[0].executed == 2 * once[1].executed
    assert again[0].executed * 2 == once[0].executed * 3
    assert again[1] == once[1]


def test_products_of_experts_are_narrow_where_asked():
    architecture, shape = af.architecture("qwen3-30b-a3b"), Shape(batch=1, length=1024)
    wide, narrow = (
        by_title(kernels(architecture, shape, Plan.parse({"precision": {"kind": "fp8", "experts": way}}), "train"))
        for way in (False, True)
    )
    assert [kernel.number for kernel in wide["decoder.experts.down"]] == ["bf16", "bf16"]
    assert [kernel.number for kernel in narrow["decoder.experts.down"]] == ["fp8", "fp8"]
    assert wide["decoder.attention.query"] == narrow["decoder.attention.query"]
    rounding = narrow["decoder.experts.down rounding"][0]
    rows = 8 * 1024
    assert rounding.moves == rows * (768 + 2048) * (2 + 1)
    assert rounding.weights == 0, "weights of experts are rounded once in a step"


def test_fewer_bits_move_fewer_bytes():
    architecture = af.architecture("llama-12m")
    fp32, bf16 = (
        total(kernels(architecture, Shape(batch=2, length=64), Plan(precision=p), "prefill"), "bytes") for p in ("fp32", "bf16")
    )
    assert fp32 == 2 * bf16


def test_layers_that_share_weights_read_them_again():
    deep = af.architecture("albert-base-v2")
    shallow = change_all(deep, {"encoder.order": "layer"})
    shape = Shape(batch=1, length=16)
    per_layer = total([w for w in kernels(shallow, shape, BF16, "prefill") if w.address.layer is not None], "bytes")
    assert total([w for w in kernels(deep, shape, BF16, "prefill") if w.address.layer is not None], "bytes") == 12 * per_layer


def test_layers_of_an_input_belong_to_the_input():
    """Convolutions before a stack are called `embedding.layers.<i>`, and are no layers of the stack."""
    name = next(
        n for n, a in ZOO.items() if any(".".join(k.split(".")[:2]) == "embedding.layers" for k in a.cost(Shape()).weights)
    )
    sheet = cost(ZOO[name], batch=2, length=12)
    assert sheet.flops.forward.by_component["embedding"].dense > 0
    work = kernels(ZOO[name], sheet.shape, Plan(), "train")
    assert any(item.title == "embedding.layers.0" and item.address.layer is None for item in work)
