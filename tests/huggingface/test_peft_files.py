"""PEFT's files both ways, against the real package: the same logits, whoever wrote the adapter."""

from __future__ import annotations

import json
import pickle

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import anyformer as af
from anyformer import checkpoint, huggingface
from anyformer.cli import app
from anyformer.huggingface import HuggingFaceError, read_adapter, write_adapter
from anyformer.huggingface.auto import AnyformerForCausalLM
from anyformer.loading import adapter_of
from anyformer.model.adapters import adapt, plain
from anyformer.model.transformer import build
from anyformer.tuning import Dora, Lora, Prompt

TOKENS = torch.arange(11).reshape(1, -1)
USUAL = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99,
}  # fmt: skip
SIZES = {
    "llama": USUAL | {"num_key_value_heads": 2},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "bos_token_id": 0, "eos_token_id": 0},
    "gpt_neox": USUAL,
    "phi3": USUAL | {"pad_token_id": 0},
}
"""Separate projections; one stored as (inputs, outputs); one by head; two of several matrices, one after the other."""


@pytest.fixture(scope="module", params=SIZES)
def base(request, tmp_path_factory):
    """A directory that transformers wrote."""
    torch.manual_seed(0)
    directory = tmp_path_factory.mktemp(request.param)
    config = transformers.AutoConfig.for_model(request.param, **SIZES[request.param])
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    return directory


def theirs(base):
    return transformers.AutoModelForCausalLM.from_pretrained(base, attn_implementation="eager").eval()


def trained(model):
    """With values that PEFT's adapter might have learnt."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.copy_(parameter + 0.1 * torch.randn(parameter.shape))
    return model


OPTIONS = {
    "lora": {"lora_alpha": 6},
    "rank-stabilised": {"lora_alpha": 6, "use_rslora": True},
    "dora": {"lora_alpha": 6, "use_dora": True},
    "other ranks": {"lora_alpha": 8, "rank_pattern": {r".*\.0\..*": 2}, "alpha_pattern": {r".*\.1\..*": 3}},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.filterwarnings("ignore:fan_in_fan_out")
def test_an_adapter_of_peft_gives_its_logits(base, tmp_path, options):
    config = peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", **OPTIONS[options])
    model = trained(peft.get_peft_model(theirs(base), config)).eval()
    model.save_pretrained(tmp_path / "adapter")
    ours, _ = af.load(base, adapter=tmp_path / "adapter")
    bare, _ = af.load(base)
    expected = model(TOKENS).logits
    torch.testing.assert_close(ours(TOKENS), expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(bare(TOKENS), expected, atol=1e-3)


@pytest.mark.parametrize(
    "adapter",
    [
        Lora(rank=3, alpha=5.0),
        Dora(rank=3, alpha=5.0, scaling="root_rank"),
        Lora(rank=2, alpha=3.0, scaling="root_rank", targets=("*.query", "*.down")),
    ],
    ids=["lora", "dora", "some"],
)
def test_peft_reads_ours_with_equal_logits(base, tmp_path, adapter):
    """And read again it is the same adapter."""
    model, _ = af.load(base)
    adapt(model, adapter, 0)
    own = {name: parameter for name, parameter in model.named_parameters() if name in model.added}
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in own.values():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    _, family, _ = huggingface.architecture_of(base)
    write_adapter(tmp_path / "adapter", adapter, own, model.architecture, family, str(base))
    loaded = peft.PeftModel.from_pretrained(theirs(base), tmp_path / "adapter").eval()
    torch.testing.assert_close(loaded(TOKENS).logits, model(TOKENS), atol=1e-5, rtol=1e-5)
    auto = peft.AutoPeftModelForCausalLM.from_pretrained(tmp_path / "adapter", attn_implementation="eager").eval()
    assert torch.equal(auto(TOKENS).logits, loaded(TOKENS).logits)
    again, tensors = read_adapter(tmp_path / "adapter", model.architecture, family)
    assert (again.kind, again.rank, again.scaling) == (adapter.kind, adapter.rank, adapter.scaling)
    assert again.scale == pytest.approx(adapter.scale)
    assert tensors.keys() == own.keys()
    for name, parameter in own.items():
        torch.testing.assert_close(tensors[name], parameter.detach(), msg=name)


def test_a_prompt_of_peft_gives_its_logits(base, tmp_path):
    """And written again it is the same file, which PEFT reads with the same logits."""
    bare, _ = af.load(base)
    depth, width = bare.architecture.decoder.depth, bare.architecture.width
    config = peft.PromptTuningConfig(
        task_type="CAUSAL_LM", num_virtual_tokens=5, token_dim=width, num_layers=depth, num_attention_heads=4
    )
    torch.manual_seed(1)
    model = peft.get_peft_model(theirs(base), config).eval()
    model.save_pretrained(tmp_path / "adapter")
    ours, _ = af.load(base, adapter=tmp_path / "adapter")
    expected = model(TOKENS).logits[:, 5:]
    torch.testing.assert_close(ours(TOKENS), expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(bare(TOKENS), expected, atol=1e-3)
    _, family, _ = huggingface.architecture_of(base)
    prompt, own = read_adapter(tmp_path / "adapter", bare.architecture, family)
    write_adapter(tmp_path / "again", prompt, own, bare.architecture, family, str(base))
    assert torch.equal(load_file(tmp_path / "again" / "adapter_model.safetensors")["prompt_embeddings"], own["virtual_tokens"])
    auto = peft.AutoPeftModelForCausalLM.from_pretrained(tmp_path / "again", attn_implementation="eager").eval()
    assert torch.equal(auto(TOKENS).logits, model(TOKENS).logits)
    padding = torch.zeros(2, 11, dtype=torch.bool)
    padding[0, :4] = True
    both = TOKENS.expand(2, -1)
    padded = model(both, attention_mask=(~padding).long(), position_ids=None).logits[1, 5:]
    torch.testing.assert_close(ours(both, padding=padding)[1], padded, atol=1e-5, rtol=1e-5)


def test_what_is_no_prompt_of_this_model_is_named(tmp_path):
    small, scaled = af.architecture("llama-12m", tiny=True), af.architecture("gemma-2b", tiny=True)
    family = huggingface.family("llama")
    own = {"virtual_tokens": torch.ones(2, small.width)}
    write_adapter(tmp_path / "prompt", Prompt(tokens=2), own, small, family)
    with pytest.raises(HuggingFaceError, match=f"virtual tokens of {small.width} features, and the embeddings have"):
        read_adapter(tmp_path / "prompt", af.architecture("llama-12m"), family)
    with pytest.raises(HuggingFaceError, match="embeddings that are scaled, masked or have kinds of segments"):
        write_adapter(tmp_path / "scaled", Prompt(tokens=2), own, scaled, huggingface.family("gemma"))
    save_file(
        {"prompt_embeddings": own["virtual_tokens"], "more": torch.ones(1)}, tmp_path / "prompt" / "adapter_model.safetensors"
    )
    with pytest.raises(HuggingFaceError, match="prompt tuning has prompt_embeddings alone"):
        read_adapter(tmp_path / "prompt", small, family)


def test_transformers_generates_behind_a_prompt(tmp_path):
    """In the project's own layout, with its cache, which counts the text alone."""
    model = build(af.architecture("llama-12m", tiny=True), seed=0).eval()
    adapt(model, Prompt(tokens=3), 0)
    huggingface.export(plain(model), tmp_path / "out")
    loaded = AnyformerForCausalLM.from_pretrained(tmp_path / "out").eval()
    asked = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None}
    rows = TOKENS.expand(2, -1) % 50
    padding = torch.tensor([[1] * 11, [0] * 3 + [1] * 8])
    cached = loaded.generate(rows, attention_mask=padding, use_cache=True, **asked)
    assert torch.equal(cached, loaded.generate(rows, attention_mask=padding, use_cache=False, **asked))
    whole = model(cached[:1, :-1]).argmax(-1)[0, 10:]
    assert torch.equal(cached[0, 11:], whole)


def test_from_the_shell(tiny_run, tmp_path):
    """`export --adapter` writes a base and an adapter that PEFT loads; `import --adapter` merges them again."""
    said = CliRunner().invoke(app, ["export", str(tiny_run), str(tmp_path / "out"), "--adapter"])
    assert said.exit_code == 0, said.output
    auto = peft.AutoPeftModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    model, _ = af.load(tiny_run)
    torch.testing.assert_close(auto(TOKENS).logits, model(TOKENS), atol=1e-5, rtol=1e-5)
    again = ["import", str(tmp_path / "out" / "base"), str(tmp_path / "merged"), "--adapter", str(tmp_path / "out")]
    assert CliRunner().invoke(app, again).exit_code == 0
    torch.testing.assert_close(af.load(tmp_path / "merged")[0](TOKENS), model(TOKENS), atol=1e-5, rtol=1e-5)
    beside = CliRunner().invoke(app, ["export", str(tiny_run), str(tmp_path / "small"), "--adapter", "--base", str(tmp_path)])
    assert beside.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "small").iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    wrong = CliRunner().invoke(app, ["export", str(tiny_run), str(tmp_path / "x"), "--base", str(tmp_path)])
    assert "give --adapter too" in str(wrong.exception)


@pytest.fixture
def tiny_run(tmp_path):
    """A checkpoint with an adapter, as training leaves it."""
    model = build(af.architecture("llama-12m", tiny=True), seed=0)
    adapt(model, Lora(rank=2), 0)
    with torch.no_grad():
        for name in model.added:
            model.get_parameter(name).add_(0.1)
    checkpoint.save(model, tmp_path / "checkpoint")
    loaded, _ = af.load(tmp_path / "checkpoint")
    torch.testing.assert_close(loaded(TOKENS), plain(model)(TOKENS))
    return tmp_path / "checkpoint"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3', and only LORA"),
        ({"bias": "all"}, "bias = 'all' means biases that learn, which is read where"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save means whole modules that learn beside it, which is read where"),
        ("elsewhere", r"the adapter of model.layers.7.self_attn.q_proj has no place in this architecture \(llama\)"),
        ("half", "the adapter of model.layers.0.self_attn.q_proj lacks lora_A or lora_B"),
        ("pickle", "adapter_model.bin is a pickle"),
        ("flipped", "cannot be read as safetensors"),
    ],
)
def test_what_is_not_read_is_named(tiny_run, tmp_path, change, message):
    bare, _, adapter, own = adapter_of(tiny_run)
    family = huggingface.family("llama")
    directory = tmp_path / "adapter"
    write_adapter(directory, adapter, own, bare.architecture, family)
    weights, config = directory / "adapter_model.safetensors", directory / "adapter_config.json"
    tensors = load_file(weights)
    name = "base_model.model.model.layers.{}.self_attn.q_proj.lora_{}.weight"
    match change:
        case dict():
            config.write_text(json.dumps(json.loads(config.read_text()) | change))
        case "elsewhere":
            save_file(tensors | {name.format(7, "A"): torch.ones(2, 2), name.format(7, "B"): torch.ones(2, 2)}, weights)
        case "half":
            del tensors[name.format(0, "B")]
            save_file(tensors, weights)
        case "pickle":
            weights.unlink()
            (directory / "adapter_model.bin").write_bytes(pickle.dumps({}))
        case "flipped":
            weights.write_bytes(b"\xff" * 100)
    with pytest.raises(HuggingFaceError, match=message):
        read_adapter(directory, bare.architecture, family)


def test_an_adapter_alone_is_no_model(tiny_run, tmp_path):
    bare, _, adapter, own = adapter_of(tiny_run)
    write_adapter(tmp_path / "adapter", adapter, own, bare.architecture, huggingface.family("llama"))
    with pytest.raises(checkpoint.CheckpointError, match="an adapter without the model that it stands beside"):
        af.load(tmp_path / "adapter")
    checkpoint.save(bare, tmp_path / "plain")
    with pytest.raises(checkpoint.CheckpointError, match="was trained without an adapter"):
        adapter_of(tmp_path / "plain")
