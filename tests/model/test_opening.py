"""A model opened: values watched and replaced, calls ended and begun at one, in batches, decoding and training."""

from __future__ import annotations

import re

import pytest
import torch
from zoo import ZOO

from anyformer.catalogue import architecture
from anyformer.describe import InputError
from anyformer.model import value_paths
from anyformer.model.transformer import Transformer, build
from anyformer.parts import Attention, Window
from anyformer.plan import Plan
from anyformer.testing.around import decoder_of
from anyformer.testing.inputs import tokens

LLAMA, TIED = ZOO["llama"], ZOO["shared_layers"]


def built(architecture=LLAMA, **plan) -> Transformer:
    return build(architecture, Plan(precision="fp32", **plan)).eval()


@pytest.fixture(scope="module")
def model() -> Transformer:
    return built()


@pytest.fixture(scope="module")
def given() -> torch.Tensor:
    return tokens(LLAMA)


def test_values_are_seen_by_their_paths(model, given):
    with model.watch("decoder.layer[*].feedforward.up", "decoder.layer[1].attention.weights") as seen:
        model(given)
    up = seen["decoder.layer[0].feedforward.up"]
    ffn = LLAMA.decoder.variants["layer"].branches["feedforward"].sublayer
    assert up.shape == (*given.shape, ffn.width)
    weights = seen["decoder.layer[1].attention.weights"]
    assert torch.allclose(weights.sum(-1), torch.ones(()))
    assert not weights.triu(1).any()
    assert list(seen) == [f"decoder.layer[{i}].feedforward.up" for i in range(2)] + ["decoder.layer[1].attention.weights"]


def test_values_obey_the_formulas_between_them(model, given):
    at = "decoder.layer[0]."
    with model.watch(f"{at}**", "decoder.final_norm.**", "decoder.output") as seen:
        model(given)
    branch = {name: seen[f"{at}attention.{name}"] for name in ("before", "output", "after", "scores", "weights", "value")}
    torch.testing.assert_close(branch["before"] + branch["output"], branch["after"])
    torch.testing.assert_close(branch["scores"].softmax(-1), branch["weights"])
    v = branch["value"].repeat_interleave(branch["weights"].shape[1] // branch["value"].shape[2], 2)
    torch.testing.assert_close(torch.einsum("bhts, bshu -> bthu", branch["weights"], v), seen[f"{at}attention.mixed"])
    torch.testing.assert_close(seen[f"{at}attention.head_outputs"].sum(2), seen[f"{at}attention.sublayer.output"])
    gate, up = seen[f"{at}feedforward.gate"], seen[f"{at}feedforward.up"]
    torch.testing.assert_close(torch.nn.functional.silu(gate) * up, seen[f"{at}feedforward.hidden"])
    x = seen[f"{at}attention.before"]
    torch.testing.assert_close(x / seen[f"{at}attention.norm_before.scale"], seen[f"{at}attention.norm_before.normalized"])


@pytest.mark.parametrize("attention", ["auto", "sdpa", "plain"])
def test_a_fused_kernel_gives_way_where_its_values_are_watched(given, attention):
    model = built(attention=attention)
    plain = built(attention="plain")
    path = "decoder.layer[1].attention.weights"
    with model.watch(path) as seen, plain.watch(path) as expected:
        y = model(given)
        plain(given)
    torch.testing.assert_close(seen[path], expected[path])
    torch.testing.assert_close(y, model(given))


def test_patches_go_on_with_other_values(model, given):
    path = "decoder.layer[0].attention.output"
    alone = model(given)
    with model.patch(path, lambda value: value * 0):
        by_function = model(given)
    with model.patch(path, 0.0):
        by_number = model(given)
    with model.watch(path) as seen:
        model(given)
    with model.patch(path, seen[path]):
        assert torch.equal(model(given), alone)
    assert torch.equal(by_function, by_number)
    assert not torch.equal(by_number, alone)
    assert torch.equal(model(given), alone), "nothing stays behind"


def test_patches_follow_one_another_and_watching_sees_the_last(model, given):
    path = "decoder.layer[0].output"
    with (
        model.watch(path) as before, model.patch(path, 2.0), model.patch(path, lambda value: value + 1),
        model.watch(path) as behind,
    ):  # fmt: skip
        model(given)
    assert torch.equal(before[path], torch.full_like(before[path], 3.0))
    assert torch.equal(behind[path], before[path])


def test_an_error_inside_leaves_nothing_behind(model, given):
    with pytest.raises(RuntimeError, match="mine"), model.patch("decoder.layer[0].output", 0.0):
        raise RuntimeError("mine")
    assert model.asked is None


def test_a_stopped_call_is_resumed(model, given):
    path, computed = "decoder.layer[1].input", []
    with model.stop_at(path) as stopped:
        model(given)
        raise AssertionError("the block ends with the call")
    with model.resume_at(path, stopped.value), model.watch("decoder.layer[*].output") as seen:
        resumed = model(given)
    computed = list(seen)
    assert torch.equal(resumed, model(given))
    assert computed == ["decoder.layer[1].output"]


def test_calls_within_a_stopped_one_stop_where_each_says(model, given):
    with model.stop_at("decoder.layer[1].input") as later, model.stop_at("decoder.layer[0].input") as first:
        model(given)
    assert first.value.shape == (*given.shape, LLAMA.width)
    with pytest.raises(InputError, match="none has computed it"):
        later.value  # noqa: B018


def test_gradients_of_values_are_kept(model, given):
    path = "decoder.layer[1].attention.weights"
    with model.watch(path, gradients=True) as seen:
        model(given).square().sum().backward()
    found = seen.gradients[path]
    step = 1e-3 * torch.randn(found.shape, generator=torch.Generator().manual_seed(0))

    def loss(sign):
        with torch.no_grad(), model.patch(path, lambda value: value + sign * step):
            return model(given).square().sum()

    torch.testing.assert_close((loss(1) - loss(-1)) / 2, (found * step).sum(), rtol=1e-2, atol=1e-4)


def test_gradients_reach_values_of_a_frozen_model(given):
    model = built().requires_grad_(False)
    with model.watch("embedding.output", gradients=True) as seen:
        model(given).sum().backward()
    assert seen.gradients["embedding.output"].abs().sum() > 0


def test_decoding_is_watched_step_by_step(model, given):
    path = "decoder.layer[0].attention.weights"
    whole = model(given)
    state = model.state(len(given), given.shape[1])
    with torch.no_grad(), model.watch(path, "decoder.layer[1].input") as seen:
        steps = [model(given[:, i : i + 1], state=state) for i in range(given.shape[1])]
    torch.testing.assert_close(torch.cat(steps, 1), whole)
    assert len(seen.calls) == given.shape[1]
    assert [call[path].shape[-1] for call in seen.calls] == list(range(1, given.shape[1] + 1))
    with model.watch(path) as at_once:
        model(given)
    torch.testing.assert_close(seen[path][:, :, 0], at_once[path][:, :, -1])


def test_layers_that_share_weights_have_paths_of_their_own():
    model, given = built(TIED), tokens(TIED)
    with model.watch("decoder.layer[*].attention.query") as seen:
        alone = model(given)
    assert len(seen) == TIED.decoder.depth
    first, second = list(seen.values())[:2]
    assert not torch.equal(first, second)
    with model.patch("decoder.layer[1].attention.query", 0.0), model.watch("decoder.layer[*].attention.query") as patched:
        assert not torch.equal(model(given), alone)
    assert torch.equal(patched["decoder.layer[0].attention.query"], first)


def test_training_is_watched(given):
    model = built(LLAMA).train()
    with model.watch("decoder.layer[0].output") as seen:
        model(given).sum().backward()
    assert seen["decoder.layer[0].output"].grad_fn is not None


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("decoder.layer[-1].input", ["decoder.layer[1].input"]),
        ("decoder.layer[0:1].input", ["decoder.layer[0].input"]),
        ("decoder.layer.input", ["decoder.layer[0].input", "decoder.layer[1].input"]),
        ("decoder.layer[1].*.input", ["decoder.layer[1].attention.input", "decoder.layer[1].feedforward.input"]),
        ("**.final_norm.output", ["decoder.final_norm.output"]),
        ("head.*", ["head.logits"]),
    ],
)  # fmt: skip
def test_patterns_name_several_paths(model, pattern, paths):
    with model.watch(pattern) as seen:
        assert list(seen.paths) == paths


def test_variants_stand_for_their_layers():
    two = decoder_of(Attention(heads=4), Attention(heads=4, mask=Window(size=3)))
    model = build(two).eval()
    names = two.decoder.layers
    assert len(set(names)) == 2
    for i, name in enumerate(names):
        for pattern in (f"decoder.{name}.attention.query", f"decoder.{name}[*].attention.query"):
            with model.watch(pattern) as seen:
                assert seen.paths == (f"decoder.layer[{i}].attention.query",)
    with pytest.raises(InputError, match=r"of which \[1\] are"), model.watch(f"decoder.{names[1]}[0].attention.query"):
        pass
    patterns = value_paths.folded(two)
    paths = [path for pattern in patterns for path in value_paths.named(two, [pattern])]
    assert sorted(paths) == sorted(value_paths.watchable(two)), "the folded list names every value once"


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        ("decoder.layer[0].feedforward.upp", "did you mean 'decoder.layer\\[0\\].feedforward.up'"),
        ("decoder.layer[7].input", "names no layer of the 2 layers of decoder"),
        ("decoder.layer[x].input", r"numbered as in \[3\]"),
        ("nothing", r"`anyformer show --watchable` or model.watchable\(\) lists the \d+"),
        ("decoder.layer[*].attention.wieghts", "is called 'decoder.layer\\[\\*\\].attention.wieghts'"),
    ],
)
def test_unknown_paths_are_refused(model, paths, told):
    with pytest.raises(InputError, match=told), model.watch(paths):
        pass


def test_wrong_values_are_refused(model, given):
    path = "decoder.layer[0].output"
    shape = (*given.shape, LLAMA.width)
    for by, told in (
        (torch.zeros(5), "should broadcast to shape"),
        (lambda value: value[:, :1], "should give a tensor of shape"),
        (lambda value: 3, "got int"),
    ):
        with pytest.raises(InputError, match=told), model.patch(path, by):
            model(given)
    short = model.resume_at("decoder.layer[1].input", torch.zeros(1, *shape[1:]))
    with pytest.raises(InputError, match="to resume layer 1 from should have shape"), short:
        model(given)


@pytest.mark.parametrize(
    ("block", "told"),
    [
        (lambda model: model.resume_at("decoder.layer[1].attention.output", torch.zeros(())), "by model.patch"),
        (lambda model: model.stop_at("decoder.layer[*].input"), "names 2"),
        (lambda model: model.resume_at("decoder.layer[*].input", torch.zeros(())), "names 2"),
    ],
)
def test_wrong_ends_are_refused(model, block, told):
    with pytest.raises(InputError, match=told), block(model):
        pass


def test_a_call_with_a_state_is_not_ended_early(model, given):
    state = model.state(len(given), given.shape[1])
    with pytest.raises(InputError, match="leave the state out"), model.stop_at("decoder.layer[1].input"):
        model(given, state=state)


def test_values_that_were_not_seen_are_told(model, given):
    with model.watch("decoder.layer[0].output", gradients=False) as seen:
        with pytest.raises(InputError, match="the model was not called"):
            seen["decoder.layer[0].output"]
        model(given)
        with pytest.raises(InputError, match="was not watched; did you mean"):
            seen["decoder.layer[0].outputs"]
        with pytest.raises(InputError, match="gradients=True"):
            seen.gradients  # noqa: B018
    assert "decoder.layer[1].output" not in seen


def test_a_seen_value_is_asked_for_by_whatever_names_it_alone(model, given):
    last, head = f"decoder.layer[{model.architecture.output_stack.depth - 1}].output", "head.logits"
    with model.watch("decoder.layer[*].output", head) as seen:
        model(given)
    assert seen["decoder.layer[-1].output"] is seen[last]
    assert "decoder.layer[-1].output" in seen
    with pytest.raises(InputError, match=r"names \d+ paths: decoder.layer\[0\].output, .*ask for one of them"):
        seen["decoder.layer[*].output"]
    with pytest.raises(InputError, match="was not watched"):
        seen["decoder.layer[-1].input"]


def test_gradients_need_a_graph(model, given):
    watched = model.watch("decoder.layer[0].output", gradients=True)
    with pytest.raises(InputError, match="outside of no_grad"), torch.no_grad(), watched:
        model(given)


@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_compiled_model_refuses(model, given, fullgraph):
    compiled = torch.compile(model, backend="eager", fullgraph=fullgraph)
    with torch.no_grad():
        expected = compiled(given)
        with pytest.raises(Exception, match="compiled model shows no values"), model.watch("decoder.layer[0].output"):
            compiled(given)
        assert torch.equal(compiled(given), expected)
    torch._dynamo.reset()


@pytest.mark.parametrize("checkpointing", ["full", "selective"])
def test_checkpointing_refuses_and_says_what_to_do(given, checkpointing):
    model = built(checkpointing=checkpointing)
    with model.watch("decoder.layer[0].output") as seen:
        with pytest.raises(InputError, match=r"plan\.checkpointing = 'none'"):
            model(given)
        with torch.no_grad():
            model(given)
    assert len(seen) == 1


@pytest.mark.parametrize("name", ["decoder", "decoder.layers.0.attention"])
def test_a_divided_model_refuses(given, name):
    model = built()
    module = model.get_submodule(name)
    setattr(module, "relay" if name == "decoder" else "crossing", lambda *given: given)
    with pytest.raises(InputError, match="is divided among processes"), model.watch("decoder.layer[0].output"):
        model(given)


def test_experts_are_watched_by_the_choices_of_each_token():
    architecture = ZOO["experts_gated_shared"]
    model, x = built(architecture), tokens(architecture)
    with model.watch("decoder.layer[0].experts.**") as seen:
        model(x)
    found = {path.removeprefix("decoder.layer[0].experts."): value for path, value in seen.items()}
    weighed = (found["expert_outputs"] * found["router.weights"][..., None]).sum(2)
    torch.testing.assert_close(weighed, found["mixed"])
    path = "decoder.layer[0].experts.router.chosen"
    with model.patch(path, lambda value: value.flip(-1)), model.watch(path) as swapped:
        y = model(x)
    assert torch.equal(swapped[path], found["router.chosen"].flip(-1))
    torch.testing.assert_close(y, model(x), msg="the order of the experts chosen is that of their weights too")


def test_a_recurrent_state_is_watched_and_replaced():
    architecture = ZOO["mamba2"]
    model, x = built(architecture), tokens(architecture)
    path = next(path for path, each in model.watchable().items() if each.ahead)
    state = model.state(len(x), x.shape[1])
    with model.watch(path) as seen:
        for token in x.split(1, 1):
            model(token, state=state)
    with model.watch(path) as whole:
        model(x)
    torch.testing.assert_close(seen[path], whole[path])
    after = model.state(len(x), x.shape[1])
    with model.patch(path, 0.0):
        model(x[:, :-1], state=after)
    fresh = model.state(len(x), x.shape[1])
    model(x[:, :-1], state=fresh)
    assert not torch.equal(model(x[:, -1:], state=after), model(x[:, -1:], state=fresh))


@pytest.mark.parametrize(
    ("name", "tower", "noun"), [("llava-1.5-7b", "images", "images"), ("qwen2-audio-7b", "audio", "sounds")]
)
def test_towers_are_closed_but_for_what_they_give(name, tower, noun):
    made = architecture(name, tiny=True)
    model, encoder = build(made, seed=1).eval(), {"images": made.images, "audio": made.audio}[tower]
    tokens, given = encoder.example(torch.randint(0, 9, (1, 4), generator=torch.Generator().manual_seed(1)))
    for path in (f"{tower}.stack.layer[0].output", f"{tower}.*"):
        with pytest.raises(InputError, match=f"encodes {noun}.*neither watched nor patched"), model.watch(path):
            pass
    with pytest.raises(InputError, match="neither watched nor patched"), model.patch(f"{tower}.output", 0.0):
        pass
    inside = tokens == encoder.token
    with torch.no_grad(), model.watch("embedding.output") as seen:
        whole = model(tokens, **{tower: given})
    assert torch.allclose(seen["embedding.output"][inside], tower_output(model, tower, given), atol=1e-5)
    with torch.no_grad(), model.patch("embedding.output", lambda value: value.masked_fill(inside[:, :, None], 0.0)):
        assert not torch.allclose(model(tokens, **{tower: given}), whole)


def tower_output(model, tower, given):
    """What a tower gives of its inputs, token after token."""
    found = getattr(model, tower)(given)
    return (found[0] if isinstance(found, tuple) else found).flatten(0, -2)


@pytest.mark.parametrize("name", ["gpt2", "llama-3-8b"])
def test_a_hook_of_transformerlens_is_told_its_path(name):
    model = build(architecture(name, tiny=True), seed=0)
    up = "decoder.layer[1].feedforward." + ("gate" if name.startswith("llama") else "up")
    for hook, path in (
        ("blocks.1.attn.hook_pattern", "decoder.layer[1].attention.weights"),
        ("blocks.1.mlp.hook_pre", up),
        ("ln_final.hook_scale", "decoder.final_norm.scale"),
    ):
        with pytest.raises(InputError, match=re.escape(f"did you mean {path!r}")), model.watch(hook):
            pass
        assert path in model.watchable()
    with pytest.raises(InputError, match="nothing of this model is called"), model.watch("blocks.99.hook_resid_pre"):
        pass
