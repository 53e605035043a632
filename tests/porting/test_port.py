"""Model types that are hidden, and one of nobody's: proposed, written, loaded, and equal to their references."""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from anyformer import huggingface
from anyformer.cli.porting_page import lines
from anyformer.describe import Notice, UserError, get, load_plugin
from anyformer.describe.plugins import VARIABLE
from anyformer.huggingface import plugin_families
from anyformer.porting import logits_by, ported_files, proposal, write_port
from anyformer.porting.neighbours import neighbours
from anyformer.porting.proposal import check_new
from anyformer.porting.reference import reference
from anyformer.porting.tensors import modules_of, shapes_in
from anyformer.testing import families
from anyformer.testing.plugin import promises
from porting.hidden import changed, tiny, without
from porting.reference_class import CODE, CONFIG, Riverbed

NEAR = ("llama", "granite", "qwen2", "stablelm", "mixtral", "gpt2", "openai-gpt", "cwm")
"""Neighbours in these tests: all types would take seconds each."""


@pytest.fixture
def plugged(monkeypatch):
    """Loads files of families, and forgets them afterwards."""
    monkeypatch.setenv(VARIABLE, "")  # put back as it was, without what is loaded here
    known = dict(plugin_families._REGISTERED)
    loaded: list[str] = []

    def load(path: Path):
        loaded.append(path.stem)
        return load_plugin(path)

    yield load
    plugin_families._REGISTERED.clear()
    plugin_families._REGISTERED.update(known)
    for name in loaded:
        sys.modules.pop(name, None)


EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 12, "decoder_sparse_step": 2, "head_dim": 6}
STACKED = {"moe_num_experts": 5, "moe_topk": 2, "moe_num_shared_experts": 1}
FACTORS = {"embedding_multiplier": 3.0, "logits_scaling": 7.0, "residual_multiplier": 0.3, "attention_multiplier": 0.7}


@pytest.mark.parametrize(
    ("model_type", "more", "guesses"),
    [
        ("helium", {"head_dim": 6}, ["rotary positions of 1 of every head, pairs adjacent"]),
        ("olmo2", {}, []),
        ("starcoder2", {}, None),
        ("granite", FACTORS, None),
        # Experts in every second layer and in all of them; no neighbour here has any that fit.
        ("qwen3_moe", EXPERTS, []),
        ("aria_text", STACKED, None),
    ],
)
def test_a_hidden_type_loads_untouched_with_equal_logits(model_type, more, guesses, tmp_path, plugged):
    directory = tiny(model_type, tmp_path / "model", **more)
    with without(model_type):
        found = proposal(directory, "transformers", among=[each for each in NEAR if each != model_type])
        assert found.proof.equal, found.proof.first
        assert guesses is None or list(found.proof.taken) == guesses
        assert {probe.layer for probe in found.proof.probes} >= {"decoder layer 0", "decoder layer 1"}
        write_port(found, tmp_path / "ports", f"{model_type}_ported")
        plugged(tmp_path / "ports" / f"{model_type}_ported.py")
        assert huggingface.verify(directory).agrees


def test_a_type_of_nobodys_is_ported_against_its_class_and_its_code_never_run(tmp_path, plugged, monkeypatch):
    torch.manual_seed(0)
    save_file(Riverbed(CONFIG).state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "modeling_riverbed.py").write_text(CODE)
    found = proposal(tmp_path, "porting.reference_class:Riverbed", among=NEAR)
    assert found.proof.equal, (found.proof.first, found.proof.failed)
    assert found.derivation.keys["hidden_size"] == "n_embd"
    assert [(each.key, each.value) for each in found.unknown] == [("riverbed_depth", 3)]
    assert found.unknown[0].uses == ("modeling_riverbed.py:4: self.depth = config.riverbed_depth",)
    write_port(found, tmp_path / "ports")
    assert {path.name for path in (tmp_path / "ports").iterdir()} == {
        "riverbed.py", "test_riverbed.py", "riverbed_entry.py", "riverbed.toml",
    }  # fmt: skip
    module = plugged(tmp_path / "ports" / "riverbed.py")
    model, _ = huggingface.load(tmp_path)
    theirs = Riverbed(CONFIG)
    theirs.load_state_dict(load_file(tmp_path / "model.safetensors"))
    tokens = torch.randint(0, 53, (2, 9))
    torch.testing.assert_close(model(tokens), theirs(tokens), rtol=1e-4, atol=1e-5)
    family = huggingface.family("riverbed")
    assert [each.model_type for each in plugin_families.families_of_module(module.__name__)] == ["riverbed"]
    for contract in families.CONTRACTS:
        contract(CONFIG)
    (compared,) = (each for each in promises(module) if each.what == "logits_are_those_of_its_reference")
    written_test(tmp_path / "ports" / "test_riverbed.py")(compared)
    written = family.write(model.architecture)
    assert (written["n_embd"], written["riverbed_depth"], written["norm_epsilon"]) == (24, 3, 1e-4)
    assert family.read(huggingface.Config({**written, "model_type": "riverbed"})) == model.architecture
    with pytest.raises(UserError, match="riverbed_depth = 4 is not supported"):
        huggingface.read_architecture(huggingface.Config({**CONFIG, "riverbed_depth": 4}))


def written_test(path: Path):
    """The test in a written file, as pytest collects it."""
    spec = importlib.util.spec_from_file_location(f"written_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.test_it_keeps_what_it_promises


def test_a_written_test_compares_with_the_class_it_was_proved_against_and_else_says_that_it_did_not(tmp_path, plugged):
    directory = tiny("qwen3", tmp_path / "model", head_dim=6, tie_word_embeddings=True)
    for name, against, what in (
        ("qwenlike", "transformers:Qwen3ForCausalLM", "logits_are_those_of_its_reference"),
        ("unlike", None, "logits_are_those_of_transformers"),
    ):
        changed(directory, model_type=name)
        write_port(proposal(directory, against, among=("qwen3",)), tmp_path / "ports")
        module = plugged(tmp_path / "ports" / f"{name}.py")
        (promise,) = (each for each in promises(module) if each.what.startswith("logits_are_those"))
        assert promise.what == what
        test = written_test(tmp_path / "ports" / f"test_{name}.py")
        if against is None:
            with pytest.raises(pytest.skip.Exception, match="not compared: transformers has no such model type"):
                test(promise)
        else:
            test(promise)
            (table,) = module.CHECKS.configurations
            with pytest.raises(UserError, match=r"they lack .*q_proj.bias.* no place for .*q_norm.weight"):
                families.logits_are_those_of_its_reference(table, logits_by("transformers:Qwen2ForCausalLM"))


def test_a_reference_holds_the_stored_weights_all_of_them_and_no_others():
    torch.manual_seed(0)
    model, given = Riverbed(CONFIG), torch.arange(5)[None]
    reference, stored = logits_by("porting.reference_class:Riverbed"), model.state_dict()
    assert torch.equal(reference(CONFIG, stored, given), model(given))
    with pytest.raises(UserError, match=r"they lack ln_f.weight, and it has no place for lnf.weight"):
        reference(CONFIG, {name.replace("ln_f", "lnf"): value for name, value in stored.items()}, given)


def test_without_a_reference_nothing_is_proved_and_a_wrong_one_says_where(tmp_path):
    directory = tiny("helium", tmp_path / "model", head_dim=6)
    with without("helium"):
        bare = proposal(directory, among=("llama",))
        assert bare.proof is None
        assert "Nothing was proved" in ported_files(bare, tmp_path, "bare").new["bare.py"]
        # Norms of gain 1 + w in a class whose activation nothing here can guess.
        torch.nn.functional.silu, kept = lambda x, inplace=False: x.sin(), torch.nn.functional.silu
        try:
            wrong = proposal(directory, "transformers", among=("llama",))
        finally:
            torch.nn.functional.silu = kept
    assert not wrong.proof.equal
    assert wrong.proof.first.where == "decoder.layers.0.feedforward.sublayer.down"
    text = ported_files(wrong, tmp_path, "wrong").new["wrong.py"]
    assert "NOT PROVED" in text
    assert wrong.proof.first.where in text


def test_the_nearest_family_is_the_one_that_explains_most(tmp_path):
    directory = tiny("olmo2", tmp_path / "model")
    table, modules = json.loads((directory / "config.json").read_text()), modules_of(shapes_in(directory))
    found = neighbours(table, modules, ("gpt2", "llama", "mixtral", "olmo2", "qwen3"))
    assert found[0].model_type == "olmo2"
    assert found[0].weights == found[0].names == 1.0
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert "k_norm" in next(each for each in found if each.model_type == "llama").reasons


def test_what_cannot_be_ported_is_refused_with_the_remedy(tmp_path):
    directory = tiny("llama", tmp_path / "model")
    with pytest.raises(UserError, match="read here already"):
        check_new("llama")
    changed(directory, text_config={"model_type": "llama"})
    with pytest.raises(UserError, match="is a composite"):
        proposal(directory)
    (directory / "config.json").write_text('{"model_type": "x", "hidden_size": 3')
    with pytest.raises(UserError, match="config"):
        proposal(directory)
    (directory / "config.json").write_text("{}")
    with pytest.raises(UserError, match="model_type should be a name"):
        proposal(directory)
    (directory / "config.json").write_text('{"model_type": "x", "vocab_size": "many"}')
    with pytest.raises(UserError, match="no family that is known here can read"):
        proposal(directory, among=NEAR)
    (directory / "model.safetensors").unlink()
    with pytest.raises(UserError, match="has no names of weights"):
        proposal(directory)
    (directory / "config.json").unlink()
    with pytest.raises(UserError, match="has no config"):
        proposal(directory)


@pytest.mark.parametrize(
    ("against", "says"),
    [
        ("nowhere:Class", "cannot be imported"),
        ("json:Nothing", "nothing called"),
        ("torch", "module:Class"),
        ("json:JSONDecoder", "cannot be built|no torch.nn.Module"),
    ],
)
def test_a_reference_that_is_none_is_refused(against, says, tmp_path):
    with pytest.raises(UserError, match=says):
        proposal(tiny("llama", tmp_path / "model"), against, among=("llama",))


def test_a_class_of_a_lazy_module_is_found_with_the_configuration_that_it_inherits(tmp_path):
    table = {**json.loads((tiny("llama", tmp_path / "model") / "config.json").read_text()), "model_type": "llamalike"}
    made = reference(tmp_path, table, "transformers:LlamaForCausalLM", tmp_path / "reference")
    assert type(made.model).__name__ == "LlamaForCausalLM"
    assert (made.model.config.model_type, made.model.config.hidden_size) == ("llama", 24)


@pytest.mark.parametrize("value", ["flurb", "relu6"])
def test_one_unknown_value_of_a_key_keeps_the_family_that_fits(value, tmp_path, plugged):
    directory = tiny("qwen3", tmp_path / "model", head_dim=6)
    changed(directory, model_type="flurber", hidden_act=value)
    found = proposal(directory, among=("gemma2", "qwen3", "smollm3"))
    assert found.nearest[0].model_type == found.derivation.base == "qwen3"
    assert found.fit.whole
    assert found.nearest[0].keys < 1
    (unknown,) = (each for each in found.unknown if each.key == "hidden_act")
    assert (unknown.value, unknown.instead) == (value, "qwen3 knows no such value; 'silu' was taken instead")
    assert f"hidden_act = '{value}': {unknown.instead}" in "\n".join(lines(found, []))
    write_port(found, tmp_path / "ports", f"flurber_{value}")
    assert f"# hidden_act: {unknown.instead}" in (tmp_path / "ports" / f"flurber_{value}.py").read_text()
    plugged(tmp_path / "ports" / f"flurber_{value}.py")
    assert huggingface.load(directory)[0].architecture == found.architecture
    changed(directory, hidden_act="gelu")
    with pytest.raises(UserError, match='hidden_act = "gelu" is not supported'):
        huggingface.load(directory)


def test_of_a_table_with_an_unknown_word_the_numbers_are_read(tmp_path, plugged):
    directory = tiny("qwen3", tmp_path / "model", head_dim=6)
    table = {"rope_theta": 20_000.0, "rope_type": "wobbly"}
    changed(directory, model_type="wobbler", rope_parameters=table)
    found = proposal(directory, among=("internlm", "qwen3"))
    assert found.derivation.base == "qwen3"
    assert found.derivation.pinned == {"rope_parameters": table}
    assert found.unknown[0].instead == "qwen3 knows no such value; {'rope_theta': 20000.0} was taken instead"
    write_port(found, tmp_path / "ports")
    plugged(tmp_path / "ports" / "wobbler.py")
    architecture = huggingface.load(directory)[0].architecture
    assert architecture == found.architecture
    assert get(architecture, "decoder.layer.attention.rotary.theta") == 20_000
    assert huggingface.family("wobbler").write(architecture)["rope_parameters"] == table


def test_families_that_are_only_tried_are_silent_and_the_proposed_one_speaks_once(tmp_path):
    directory = tiny("qwen3", tmp_path / "model", head_dim=6)
    changed(directory, model_type="flurber")
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        assert proposal(directory, among=("qwen", "qwen3")).derivation.base == "qwen3"
    with pytest.warns(Notice, match="use_dynamic_ntk") as told:
        proposal(directory, among=("qwen",))
    assert len(told) == 1
