"""Attention by functions from outside: those of transformers, and of an engine that keeps keys itself; what neither knows."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from torch import Tensor
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from zoo import DECODERS, ENCODERS

import anyformer as af
from anyformer.describe import change
from anyformer.huggingface import auto
from anyformer.huggingface.auto import engine as engine_file
from anyformer.huggingface.openings import misfits, openings, words
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer, build
from anyformer.parts import Causal, Chunk, Head, Window

VARIED = [
    "llama", "grouped", "window", "local_global", "softcap_scale_qk_norm", "gpt2", "sandwich", "parallel_one_norm", "streams",
    "value_residual", "gate", "experts", "batch_norm",
]  # fmt: skip
X = torch.randint(1, 37, (2, 9), generator=torch.Generator().manual_seed(0))


class Engine:
    """Attention as an engine computes it: of a row of texts side by side, over keys that it keeps, from numbers told once."""

    def __init__(self, starts: tuple[int, ...]) -> None:
        self.starts, self.seen = starts, set[int]()

    def __call__(self, module, query, key, value, attention_mask, *, scaling, sliding_window, softcap) -> tuple[Tensor, None]:
        assert attention_mask is None
        assert module.is_causal
        self.seen.add(module.layer_idx)
        key, value = (x.repeat_interleave(module.num_key_value_groups, 1) for x in (key, value))
        scores = query @ key.mT * scaling
        scores = scores if softcap is None else softcap * (scores / softcap).tanh()
        T = query.shape[2]
        at = torch.arange(T)
        text = torch.tensor([sum(start <= i for start in self.starts) for i in range(T)])
        allowed = (at[None] <= at[:, None]) & (text[None] == text[:, None])
        allowed &= at[None] > at[:, None] - (sliding_window or T)
        mixed = scores.masked_fill(~allowed, float("-inf")).softmax(-1) @ value
        return mixed.transpose(1, 2).reshape(T, -1), None


@pytest.fixture
def engine():
    made = Engine((0, 5))
    ALL_ATTENTION_FUNCTIONS.register("an engine", made)
    yield made
    del ALL_ATTENTION_FUNCTIONS._global_mapping["an engine"]


def configured(architecture: Architecture, kernel: str) -> auto.AnyformerConfig:
    config = auto.AnyformerConfig(architecture=architecture.plain())
    config._attn_implementation = kernel
    return config


def in_engine(model: Transformer) -> torch.nn.Module:
    """The form that an engine builds, its weights under the names that it reads."""
    made = transformers.AutoModel.from_config(configured(model.architecture, "an engine")).eval()
    stored = {f"model.{name}": value for name, value in model.state_dict().items()}
    renamings = get_model_conversion_mapping(made, add_legacy=False)
    named: dict[str, Tensor] = {}
    for name, value in stored.items():
        for renaming in renamings:
            name, _ = renaming.rename_source_key(name)
        named[name.removeprefix("model.")] = value
    head = {name for name in named if name.startswith("lm_head.")}
    assert head == {f"lm_head.{name}" for name, _ in model.head.named_parameters()}
    missing, unexpected = made.load_state_dict({name: value for name, value in named.items() if name not in head}, strict=False)
    assert not missing
    assert not unexpected
    return made


@pytest.mark.parametrize("name", VARIED)
@torch.no_grad()
def test_an_engine_computes_a_row_of_texts(name, engine):
    model = build(DECODERS[name]).eval()
    body = in_engine(model)
    row, positions = torch.cat([X[0, :5], X[1]])[None], torch.cat([torch.arange(5), torch.arange(9)])[None]
    (features,) = body(input_ids=row, position_ids=positions, use_cache=False, return_dict=False)
    logits = model.logits(features)[0]
    torch.testing.assert_close(logits[:5], model(X[:1, :5])[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(logits[5:], model(X[1:])[0], rtol=1e-4, atol=1e-5)
    assert engine.seen == set(range(DECODERS[name].decoder.depth))
    table = [module for module in body.get_input_embeddings().modules() if isinstance(module, torch.nn.Embedding)]
    assert [module.num_embeddings for module in table] == [37], "an engine divides it, and ties the head to it"
    (embedded,) = body(inputs_embeds=body.get_input_embeddings()(row), position_ids=positions)
    assert torch.equal(embedded, features)


@pytest.mark.parametrize("name", ["grouped", "window", "softcap_scale_qk_norm", "latent"])
@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@torch.no_grad()
def test_transformers_words_choose_among_our_kernels(name, kernel):
    plain = build(DECODERS[name]).eval()
    model = auto.AnyformerForCausalLM(configured(DECODERS[name], kernel)).eval()
    model.model.load_state_dict(plain.state_dict())
    assert model.model.plan.attention == {"eager": "plain", "sdpa": "sdpa"}[kernel]
    torch.testing.assert_close(model(X).logits, plain(X), rtol=1e-4, atol=1e-5)
    model.set_attn_implementation("anyformer")
    assert torch.equal(model(X).logits, plain(X))


@torch.no_grad()
def test_a_function_with_masks_gets_those_of_the_architecture(monkeypatch):
    """`flex_attention` compiles; here it is written out, as its function takes what is added to scores."""
    calls: list[tuple[int, ...]] = []

    def written(module, query, key, value, attention_mask, *, scaling, sliding_window, softcap):
        calls.append(tuple(attention_mask.shape))
        key, value = (x.repeat_interleave(module.num_key_value_groups, 1) for x in (key, value))
        scores = query @ key.mT * scaling
        scores = scores if softcap is None else softcap * (scores / softcap).tanh()
        return ((scores + attention_mask).softmax(-1) @ value).transpose(1, 2), None

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._local_mapping, "flex_attention", written)
    mask = torch.ones_like(X)
    mask[0, :3] = 0
    for name in ("window", "softcap_scale_qk_norm", "delta_gated"):
        plain = build(DECODERS[name]).eval()
        model = auto.AnyformerForCausalLM(configured(DECODERS[name], "flex_attention")).eval()
        model.model.load_state_dict(plain.state_dict())
        real = model(X, attention_mask=mask).logits[mask == 1]
        torch.testing.assert_close(real, plain(X, padding=mask == 0)[mask == 1], rtol=1e-4, atol=1e-5)
        tokens = [
            model.generate(X, max_new_tokens=4, do_sample=False, use_cache=cache, pad_token_id=0, eos_token_id=None)
            for cache in (True, False)
        ]
        assert torch.equal(*tokens)
    assert {shape[:2] for shape in calls} == {(2, 1)}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("alibi", "its kernel does not know score_bias"),
        ("sink", "its kernel does not know sink"),
        ("differential", "its kernel does not know differential"),
        ("chunk", "its kernel does not know the mask causal & chunk 3"),
        ("shared_keys", "its kernel does not know keys_from"),
        ("shared_layers", "layers share weights"),
        ("delta_gated", "delta_attention remembers something else"),
        ("latent", "latent_attention remembers something else"),
        ("deep_norm", "layer 1 has no softmax attention"),
        ("skips", r"layers have different numbers of heads of keys \(2, 4\)"),
        ("head_options", "it caps logits before it scales them"),
        ("head_options", "reads a bias of logits under a name"),
        ("narrow_first", "multiplies the features of the last layer by one matrix"),
    ],
)
def test_what_an_engine_does_not_know_is_refused_with_the_reason(name, reason, engine, tmp_path):
    with pytest.raises(ValueError, match=rf"attn_implementation='an engine' does not compute this architecture.*{reason}"):
        transformers.AutoModel.from_config(configured(DECODERS[name], "an engine"))
    with pytest.raises(ValueError, match=rf"vLLM does not open this architecture.*{reason}"):
        af.export(build(DECODERS[name]), tmp_path / "out", model_type="anyformer", engine="vllm")
    assert not list(tmp_path.iterdir())


def test_matrices_are_divided_where_nothing_runs_over_all_of_their_features(engine, monkeypatch):
    def plan(name: str) -> dict[str, str]:
        found = transformers.AutoModel.from_config(configured(DECODERS[name], "an engine")).tp_plan
        return {path.partition(".layers.0.")[2]: style for path, style in found.items() if ".layers.0." in path}

    attention = {f"attention.sublayer.{side}": "colwise" for side in ("query", "key", "value")}
    attention |= {"attention.sublayer.output": "rowwise"}
    network = {f"feedforward.sublayer.{name}": "colwise" for name in ("gate", "up")} | {"feedforward.sublayer.down": "rowwise"}
    assert plan("grouped") == {**attention, **network}
    assert plan("feed_sub_norm") == attention, "a norm runs over the features between"
    assert plan("experts_gated_shared") == attention
    monkeypatch.setattr(engine_file.dist, "is_initialized", lambda: True)
    monkeypatch.setattr(engine_file.dist, "get_world_size", lambda: 2)
    plan("grouped")
    for name, reason in (
        ("multi_query", "4 heads and 1 of keys do not divide by 2"),
        ("qk_norm_projection", "qk_norm needs all heads"),
        ("exclusive_learned", "exclusive is divided otherwise than a matrix"),
    ):
        with pytest.raises(ValueError, match=f"2 processes cannot divide this model: {reason}.*tensor-parallel-size 1"):
            plan(name)


def test_windows_of_two_sizes_need_two_words():
    two = change(DECODERS["local_global"], "decoder.full.attention.mask", Window(size=3))
    assert misfits(two) == ("layers have different numbers of positions of a window (3, 4)",)
    assert "sliding_window" not in words(two)
    assert misfits(change(DECODERS["llama"], "decoder.layer.attention.mask", Causal() & Window(size=3))) == ()
    assert misfits(change(DECODERS["llama"], "decoder.layer.attention.mask", Window(size=3, after=1)))
    assert misfits(change(DECODERS["llama"], "decoder.layer.attention.mask", Causal() & Chunk(size=3)))


def test_other_names_are_refused_in_words(engine):
    for kernel, reason in (("flash_attention_2", "takes masks of its own form"), ("swift", "is not registered")):
        with pytest.raises(ValueError, match=rf"{reason}.*name one of anyformer, eager, flex_attention, sdpa"):
            auto.AnyformerForCausalLM(configured(DECODERS["llama"], kernel))
    with pytest.raises(ValueError, match="flex_attention' does not know sink"):
        auto.AnyformerForCausalLM(configured(DECODERS["sink"], "flex_attention"))
    with pytest.raises(ValueError, match="flex_attention' does not know attention of another kind"):
        auto.AnyformerForCausalLM(configured(DECODERS["latent"], "flex_attention"))
    model = auto.AnyformerForCausalLM(configured(DECODERS["dropout"], "flex_attention"))
    with pytest.raises(ValueError, match="attention dropout is drawn by our kernels alone"):
        model.train()(X)


def test_a_directory_says_what_opens_it(tmp_path, call):
    tied = change(DECODERS["local_global"].but(head=Head(tied=True, scale=0.5)), "embedding.vocab", 41)
    model = build(tied)
    af.export(model, tmp_path / "own", engine="vllm")
    config = json.loads((tmp_path / "own" / "config.json").read_text())
    assert {key: config[key] for key in (*words(tied), "tie_word_embeddings", "logit_scale")} == {
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "sliding_window": 4, "logit_scale": 0.5,
        "tie_word_embeddings": True,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
    }  # fmt: skip
    assert "| vLLM | `vllm serve PATH --trust-remote-code" in (tmp_path / "own" / "README.md").read_text()
    done = call("export", str(tmp_path / "own"), str(tmp_path / "again"), "--format", "vllm")
    assert done.returncode == 0, done.stderr
    assert f"vLLM: vllm serve {tmp_path / 'again'} --trust-remote-code" in " ".join(done.stdout.split())
    af.export(build(DECODERS["sink"]), tmp_path / "sink", model_type="anyformer")
    assert "| vLLM | no; its kernel does not know sink |" in (tmp_path / "sink" / "README.md").read_text()
    done = call("export", str(tmp_path / "sink"), str(tmp_path / "never"), "--format", "vllm", "--family", "anyformer")
    assert done.returncode == 2
    assert "its kernel does not know sink" in done.stderr
    (vllm,) = (each for each in openings(ENCODERS["encoder"]) if each.engine == "vLLM")
    assert "it reads one text from left to right, and this is encoder-only" in vllm.reasons
