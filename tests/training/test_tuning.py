"""What learns in a run, and what keeps every bit: adapters by their papers' formulas, patterns, prices, checkpoints."""

from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console
from torch.nn import functional as F
from zoo import ZOO

import anyformer as af
from anyformer import checkpoint
from anyformer.describe import UserError, change_all, from_toml, to_toml
from anyformer.model.adapters import adapt, plain
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.training import Run, train
from anyformer.training.adapting import Still, tune
from anyformer.training.average import EMA
from anyformer.tuning import Dora, Lora, Tuning
from anyformer.tuning.adapter_module import AdaptedLinear

QUIET = Console(quiet=True)
ADAPTERS = [Lora(rank=3, alpha=5.0), Dora(rank=3, alpha=5.0, scaling="root_rank")]


def adapted(architecture, adapter, *, begun=False):
    """A model with an adapter; unless it has only `begun`, with values that it might have learnt."""
    model = build(architecture, seed=1).eval()
    adapt(model, adapter, 0)
    if not begun:
        generator = torch.Generator().manual_seed(2)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in model.added:
                    parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model


def inputs(architecture):
    first = architecture.embedding.example(2, 9)
    return (first, architecture.output_embedding.example(2, 7)) if architecture.two_inputs else (first,)


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.kind)
@pytest.mark.parametrize("name", ["llama", "latent", "gpt2", "original", "encoder_buckets", "delta_gated"])
def test_a_merged_model_computes_what_the_adapted_one_does(name, adapter):
    architecture = ZOO[name]
    given, model = inputs(architecture), adapted(ZOO[name], adapter)
    merged = plain(model)
    assert not any(isinstance(module, AdaptedLinear) for module in merged.modules())
    assert dict(merged.named_parameters()).keys() == dict(build(architecture, device="meta").named_parameters()).keys()
    scale = float(model(*given).detach().abs().max())
    torch.testing.assert_close(merged(*given), model(*given), atol=1e-5 * scale, rtol=1e-4)
    assert not torch.allclose(merged(*given), build(architecture, seed=1).eval()(*given), atol=1e-2 * scale)


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.kind)
def test_an_adapter_that_has_just_begun_changes_no_output(adapter):
    architecture = ZOO["llama"]
    model, base = adapted(architecture, adapter, begun=True), build(architecture, seed=1).eval()
    given = inputs(architecture)
    assert torch.equal(model(*given), base(*given))


@pytest.mark.parametrize("rank", [3, None])
def test_lora_follows_full_fine_tuning(rank):
    """Where the rows of A are orthonormal, a step of B changes s B A by s^2 times the gradient projected on them; with as many
    rows as inputs by all of it."""
    architecture = ZOO["llama"]
    width = architecture.width
    lora = Lora(rank=rank or width, alpha=float(rank or width), targets=("*.query", "*.down"))
    full, model = build(architecture, seed=1).double(), adapted(architecture, lora, begun=True).double()
    tokens = architecture.embedding.example(2, 9)
    for made in (full, model):
        made.train()
    compared = 0
    for name in lora.ranks(architecture.cost(Shape())):
        linear = model.get_submodule(name.removesuffix(".weight"))
        torch.nn.init.orthogonal_(linear.adapter_down)
    for made in (full, model):
        F.cross_entropy(made(tokens).flatten(0, 1), tokens.flatten()).backward()
    for name in lora.ranks(architecture.cost(Shape())):
        linear, gradient = model.get_submodule(name.removesuffix(".weight")), full.get_parameter(name).grad
        A = linear.adapter_down.detach()
        followed = linear.adapter_up.grad @ A
        torch.testing.assert_close(followed, gradient @ A.T @ A)
        if len(A) == A.shape[1]:
            torch.testing.assert_close(followed, gradient)
            compared += 1
    assert bool(compared) == (rank is None)


def test_dora_is_its_formula():
    """Against the paper's equations 5 and 11, in float64: outputs, and gradients with the length of V held constant."""
    torch.manual_seed(0)
    base, dora = torch.nn.Linear(7, 5).double(), Dora(rank=2, alpha=3.0)
    model = dora.linear(base)
    with torch.no_grad():
        for name in ("adapter_down", "adapter_up", "adapter_magnitude"):
            model.get_parameter(name).copy_(torch.randn(model.get_parameter(name).shape).abs() + 0.1)
    x = torch.randn(4, 7).double()
    W, A, B, m = (model.get_parameter(name).detach().clone().requires_grad_()
                  for name in ("weight", "adapter_down", "adapter_up", "adapter_magnitude"))  # fmt: skip
    twin = torch.zeros(4, 5).double()
    for row in range(5):
        v = W[row] + 3.0 / 2 * sum(B[row, r] * A[r] for r in range(2))
        length = float((v.detach() ** 2).sum() ** 0.5)
        twin[:, row] = x @ (m[row] * v / length) + base.bias[row]
    torch.testing.assert_close(model(x), twin)
    names = ("adapter_down", "adapter_up", "adapter_magnitude")
    mine = torch.autograd.grad(model(x).square().sum(), [model.get_parameter(name) for name in names])
    theirs = torch.autograd.grad(twin.square().sum(), [A, B, m])
    torch.testing.assert_close(mine, theirs)


def test_scales_are_those_of_the_papers():
    assert Lora(rank=16, alpha=32.0).scale == 2.0
    assert Lora(rank=16, alpha=32.0, scaling="root_rank").scale == 8.0


def test_values_of_an_adapter_depend_on_the_seed_and_its_name_alone():
    first, again, other = (build(ZOO["llama"], seed=1) for _ in range(3))
    adapt(first, Lora(rank=2), 5)
    adapt(again, Lora(rank=2, targets=("*.value",)), 5)
    adapt(other, Lora(rank=2), 6)
    name = next(name for name in again.added if name.endswith("adapter_down"))
    assert torch.equal(first.get_parameter(name), again.get_parameter(name))
    assert not torch.equal(first.get_parameter(name), other.get_parameter(name))
    drawn = {tuple(first.get_parameter(name).flatten()[:4].tolist()) for name in first.added if name.endswith("down")}
    assert len(drawn) == sum(name.endswith("down") for name in first.added), "no two are alike"


def test_an_adapted_model_compiles_to_one_graph():
    model = adapted(ZOO["llama"], Dora(rank=2))
    tokens = ZOO["llama"].embedding.example(2, 9)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(tokens), model(tokens))


WAYS = {
    "lora": Tuning(adapter=Lora(rank=2)),
    "lora and head": Tuning(adapter=Lora(rank=2, targets=("*.query",)), train_only=("head.*",)),
    "norms": Tuning(train_only=("*norm*",)),
    "prefix": Tuning(train_only=("*.virtual_*",)),
    "frozen": Tuning(frozen=("embedding.*", "decoder.layers.0.*")),
}
MOVED = {
    "lora": "adapter", "lora and head": ("adapter", "head"), "norms": "norm", "prefix": "virtual_", "frozen": "layers.1",
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_only_what_learns_changes(tiny, tmp_path, way):
    """Every other weight keeps its bits, after updates with weight decay; and the optimiser has no state for it."""
    changes = {"decoder.layer.attention.virtual_tokens": 3} if way == "prefix" else {"embedding.vocab": 257, "head.tied": False}
    run = change_all(tiny, changes).but(tuning=WAYS[way])
    trained = train(run, tmp_path / "run", console=QUIET)
    before = build(run.architecture, seed=run.seed)
    last = checkpoint.directory_of(tmp_path / "run", 8)
    after = checkpoint.read(last / "model.safetensors")
    expected = WAYS[way].of(run.architecture.cost(Shape(source=1))).learning
    moved = {name for name, parameter in before.named_parameters() if not torch.equal(parameter, after[name])}
    assert moved == {name for name in expected if "adapter" not in name}
    assert all(any(word in name for word in MOVED[way]) or name.startswith(("decoder.layers.1", "decoder.final", "head"))
               for name in moved) or way in ("norms", "prefix")  # fmt: skip
    state = checkpoint.read(last / "optimiser.safetensors")
    assert {key.rpartition("/")[0] for key in state} == set(expected)
    assert trained.model.adapter is None


@pytest.mark.parametrize("name", ["router_correction", "batch_norm"])
def test_what_a_rule_moves_keeps_its_bits_too(name):
    """A router's correction and a norm's running statistics are moved without a gradient; in a run only if they learn."""
    moves = {"router_correction": ".router.correction", "batch_norm": ".running_mean"}[name]
    architecture = next(each for each in ZOO.values() if any(moves in path for path in each.cost(Shape(source=1)).weights))
    model = build(architecture, seed=0)
    moved = [path for path, parameter in model.named_parameters() if not parameter.requires_grad]
    assert any(moves in path for path in moved)
    tuning = Tuning(train_only=("*norm*.weight", "*norm*.bias")) if name == "batch_norm" else Tuning(adapter=Lora(rank=2))
    tune(model, tuning, 0)
    still = Still.of(model, tuning)
    assert set(still.held) == set(moved)
    before = {path: model.get_parameter(path).detach().clone() for path in moved}
    with torch.no_grad():
        for path in moved:
            model.get_parameter(path).add_(1)
    still.put_back(model)
    assert all(torch.equal(model.get_parameter(path), before[path]) for path in moved)
    assert not Still.of(build(architecture), Tuning()).held, "in a run where everything learns they move"


@pytest.mark.parametrize("learns", [False, True])
def test_a_router_is_corrected_only_in_a_run_in_which_it_learns(tiny, tmp_path, learns):
    architecture = change_all(af.architecture("deepseek-v3", tiny=True), {"embedding.vocab": 257, "mtp": None})
    tuning = Tuning() if learns else Tuning(adapter=Lora(rank=2, targets=("*.output",)))
    run = tiny.but(architecture=architecture, tuning=tuning, steps=2, length=16)
    train(run, tmp_path / "run", console=QUIET)
    after = checkpoint.read(checkpoint.directory_of(tmp_path / "run", 2) / "model.safetensors")
    before = dict(build(architecture, seed=run.seed).named_parameters())
    corrections = [name for name in after if name.endswith("correction")]
    assert corrections
    assert all(torch.equal(after[name], before[name]) != learns for name in corrections)


def test_the_first_loss_is_that_of_the_base(tiny, tmp_path):
    plain_losses, lora_losses = (
        [float(line.split()[3]) for line in said(run, tmp_path / name) if line.startswith("step 1/")]
        for name, run in (("plain", tiny), ("lora", tiny.but(tuning=WAYS["lora"])))
    )
    assert plain_losses == lora_losses


def said(run, directory):
    console = Console(file=io.StringIO(), width=200)
    train(run, directory, console=console)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("way", ["lora", None])
def test_a_run_says_how_many_parameters_learn_where_not_all_do(tiny, tmp_path, way):
    run = (tiny if way is None else tiny.but(tuning=WAYS[way])).but(steps=1)
    found = [line for line in said(run, tmp_path / "run") if line.endswith("%)")]
    assert [" parameters learn (" in line for line in found] == [True] * (way is not None)


def test_a_run_with_an_adapter_is_used_from_its_directory(tiny, tmp_path):
    """Loaded and exported it has the adapter; base and adapter are two files, and the base is what it was."""
    run = tiny.but(tuning=Tuning(adapter=Dora(rank=2)), average=EMA(decay=0.5))
    trained = train(run, tmp_path / "run", console=QUIET)
    loaded, tokenizer = af.load(tmp_path / "run")
    tokens = torch.arange(24)[None]
    assert torch.equal(loaded(tokens), trained.model(tokens))
    assert af.generate(loaded, tokenizer, "def", max_tokens=4)
    af.export(loaded, tmp_path / "out", tokenizer=tokenizer)
    torch.testing.assert_close(af.load(tmp_path / "out")[0](tokens), loaded(tokens), atol=1e-5, rtol=1e-5)
    bare, _, _ = checkpoint.load(checkpoint.directory_of(tmp_path / "run", 8), merge=False)
    assert torch.equal(bare(tokens), build(run.architecture, seed=run.seed).eval()(tokens))
    assert from_toml(Run, to_toml(run)) == run


@pytest.mark.usefixtures("counted_memory")
@pytest.mark.parametrize("way", ["lora", "norms", "dora", "ema"])
def test_what_training_holds_is_what_was_priced(tiny, tmp_path, way):
    """Bytes of tensors at the peak of an update, measured, within 1 %."""
    wide = change_all(tiny, {"architecture.width": 64, "decoder.layer.feedforward.width": 128, "length": 64, "steps": 3})
    tuning = WAYS.get(way, Tuning(adapter=Dora(rank=2)) if way == "dora" else Tuning())
    found = train(wide.but(tuning=tuning, average=EMA() if way == "ema" else None), tmp_path / "run", console=QUIET).summary
    assert found.memory.predicted == pytest.approx(found.memory.measured, rel=0.01)
    assert found.flops.predicted == pytest.approx(found.flops.measured, rel=0.1)


@pytest.mark.parametrize(
    ("tuning", "message"),
    [
        (Tuning(adapter=Lora(targets=("*.qury",))), r"targets: '\*.qury' names no matrix of a layer; a path is 'decoder"),
        (Tuning(train_only=("heads.*",)), r"train_only: 'heads.\*' names no weight; a path is"),
        (Tuning(frozen=("*",)), "no weight is left that learns"),
        (Tuning(base="int8"), "tuning.base = 'int8': every weight learns, so none is frozen"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(tiny, tmp_path, tuning, message):
    with pytest.raises(UserError, match=message):
        train(tiny.but(tuning=tuning), tmp_path / "run", console=QUIET)
    assert not (tmp_path / "run").exists()


def test_stacked_experts_have_no_adapter():
    architecture = af.architecture("mixtral-8x7b", tiny=True)
    with pytest.raises(UserError, match="names only stacked experts"):
        Tuning(adapter=Lora(targets=("*.experts.*up",))).of(architecture.cost(Shape()))
