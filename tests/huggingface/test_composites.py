"""Every composite's text model against transformers; its files as published, saved, and written again with their towers."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import anyformer as af
from anyformer import checkpoint, huggingface
from anyformer.cli import app
from anyformer.huggingface.canonical import canonical
from anyformer.huggingface.composites import COMPOSITES
from anyformer.model.transformer import build
from anyformer.parts import Initialisation
from anyformer.text.beside import Beside
from covering import but_slow, cover
from huggingface.cases import CASES
from huggingface.composite_cases import HELD, case_of
from huggingface.nearness import CACHED, GRADIENTS, LOGITS, PADDED
from huggingface.parity import decodes, gap, inputs, pads, pair, their_logits

ONE_OF_A_KIND = (
    "blip-2", "colmodernvbert", "cosmos3_omni", "florence2", "gemma3", "idefics3", "llava", "modernvbert",
    "nemo_speechlm", "qwen2_5_omni", "qwen2_vl", "qwen3_5", "qwen3_vl_moe",
)  # fmt: skip
"""Composites that differ in names, layout of the configuration or kind of text model; `make test-slow` tries them all."""
PLAIN_TEXTS = {case.model_type for case in CASES}


def what_is_its_own(composite: str) -> frozenset[Any]:
    """Whatever its row says, and a text model that stands in composites alone: others are held against transformers by
    themselves in test_parity."""
    row = asdict(COMPOSITES[composite])
    alone = row.pop("text") not in PLAIN_TEXTS and COMPOSITES[composite].text
    return frozenset({("text", alone)} | {(name, str(row[name])) for name in row.keys() - {"model_type", "default_class"}})


FORWARD = cover({name: name for name in HELD}, what_is_its_own) | {*ONE_OF_A_KIND, "colpali"}
"""Of these the logits are asked in each run, of the others the configuration."""
# By `scope` all that is asked of one composite comes together, while its pair is held: of those at one place of several lists.
ORDER = (*ONE_OF_A_KIND, "colpali", *(name for name in HELD if name not in {*ONE_OF_A_KIND, "colpali"}))
every = pytest.mark.parametrize("composite", ORDER, scope="module")
forward = pytest.mark.parametrize("composite", but_slow(ORDER, FORWARD), scope="module")
kinds = pytest.mark.parametrize("composite", but_slow(ORDER, ONE_OF_A_KIND), scope="module")


@cache
def text_of_config(composite: str) -> str:
    """The configuration as transformers saves it, without a model being made."""
    case = case_of(composite)
    config = transformers.AutoConfig.for_model(case.model_type, **deepcopy(case.config))  # it takes keys out of tables
    config.architectures = [case.task]
    return config.to_json_string()


def config_of(composite: str) -> dict:
    return json.loads(text_of_config(composite))


def architecture_of(config: dict) -> af.Architecture:
    return huggingface.read_architecture(huggingface.Config(config))[0].but(mtp=None, initialisation=Initialisation())


@forward
def test_logits(composite):
    LOGITS.check(pair(case_of(composite)))


@kinds
def test_a_padded_batch_and_token_by_token(composite):
    """The text models by themselves, and so all parts of them, are asked it in test_parity."""
    both = pair(case_of(composite))
    if pads(both):
        PADDED.check(both)
    if decodes(both):
        CACHED.check(both)


# ColPali's text model has no head, so that its own names have no base.
@pytest.mark.parametrize("composite", but_slow(ORDER, (*ONE_OF_A_KIND, "colpali")), scope="module")
def test_gradients(composite):
    both = pair(case_of(composite))
    GRADIENTS.check(both)


@every
def test_keys_that_are_absent_mean_what_transformers_takes_them_for(composite):
    """transformers saves every key; the case leaves most of its text model's out."""
    saved = config_of(composite)
    short = {**case_of(composite).config, "model_type": saved["model_type"], "architectures": saved["architectures"]}
    assert canonical(architecture_of(short)) == canonical(architecture_of(saved))


TEXT_CLASSES = ("seamless_m4t", "seamless_m4t_v2")
"""Composites whose class that maps text to text has no towers."""
UNLIKE = {
    "cohere_compass": "its default gives no rotary positions, and transformers refuses to build it",
    "deepseek_ocr2": "its default does not say which layers have experts",
    "fun_asr_nano": "transformers refuses its own defaults",
    "glm4v_moe": "its heads do not divide the width by default",
    "hunyuan_vl": "the width of its heads is null by default",
    "idefics": "it has no tokens of images by default",
    "kyutai_speech_to_text": "its window is shorter than its longest text by default",
    "qwen4_exp": "its indexer has no sizes by default",
    "qwen3_omni_moe": "its heads do not divide the width by default",
    "qwen3_omni_moe_thinker": "the same",
    "hyperclovax_vision_v2": "transformers writes out a scale that is the usual one",
}


@pytest.mark.parametrize("composite", [name for name in HELD if name not in UNLIKE])
def test_a_text_model_of_which_nothing_is_said_but_its_type(composite):
    """Published files leave out what is the default of their class: LLaVA's have no width."""
    table = {"model_type": _inner(composite)} if _nested(composite) else {}
    for key in reversed(COMPOSITES[composite].path if _nested(composite) else ()):
        table = {key: table}
    whole = transformers.CONFIG_MAPPING[composite](**table).to_dict()
    named = {"model_type": composite, "architectures": [COMPOSITES[composite].default_class]}
    assert canonical(architecture_of({**table, **named})) == canonical(architecture_of({**whole, **named}))


def _nested(composite: str) -> bool:
    """Whether the keys of the text model have a table of their own."""
    return COMPOSITES[composite].path[0] in case_of(composite).config


def _inner(composite: str) -> str:
    """The type of a composite's text model."""
    table = case_of(composite).config
    for key in COMPOSITES[composite].path:
        table = table[key]
    return table["model_type"]


@pytest.mark.parametrize("composite", ["paligemma", "colpali"])
def test_a_prompt_is_read_both_ways_where_the_call_says_how_long_it_is(composite):
    """transformers marks it by types of tokens: 0 in the prompt, 1 after it."""
    both, prompt = pair(case_of(composite)), torch.tensor([5, 9])
    tokens = inputs(both)[0]
    types = (torch.arange(tokens.shape[1]) >= prompt[:, None]).long()
    theirs = both.theirs.vlm if composite == "colpali" else both.theirs
    with torch.no_grad():
        out = theirs(input_ids=tokens, token_type_ids=types)
        their = out.last_hidden_state if composite == "colpali" else out.logits
        assert gap(both.ours(tokens, prefix=prompt), their) <= both.case.logits
        assert gap(both.ours(tokens), their) > 1e-2


def test_windows_begin_where_the_prompt_ends():
    """transformers takes the first piece of a cached call for the prompt; here a call names its length, as generation does."""
    case = case_of("unlimited_ocr")
    text = {**case.config["text_config"], "sliding_window": 2}
    both = pair(replace(case, config={**case.config, "text_config": text}))
    tokens, prompt = inputs(both)[0], 5
    with torch.no_grad():
        out = both.theirs(input_ids=tokens[:, :prompt], use_cache=True)
        their = [out.logits]
        for at in range(prompt, tokens.shape[1]):
            out = both.theirs(input_ids=tokens[:, at : at + 1], past_key_values=out.past_key_values, use_cache=True)
            their.append(out.logits)
        ours = both.ours(tokens, prefix=torch.full((len(tokens),), prompt))
        assert gap(ours, torch.cat(their, 1)) <= both.case.logits
        assert gap(both.ours(tokens), torch.cat(their, 1)) > 1e-2


def test_a_composite_without_its_text_model_is_refused():
    config = config_of("gemma3")
    del config["text_config"]
    with pytest.raises(huggingface.HuggingFaceError, match="text_config is missing"):
        architecture_of(config)


@every
def test_a_key_that_is_not_known_is_refused_in_either_table(composite):
    config = config_of(composite)
    with pytest.raises(huggingface.HuggingFaceError, match="frobnication_factor"):
        architecture_of(config | {"frobnication_factor": 3})
    inner = config
    for key in COMPOSITES[composite].path if _nested(composite) else ():
        inner = inner[key]
    inner["frobnication_factor"] = 3
    with pytest.raises(huggingface.HuggingFaceError, match="frobnication_factor"):
        architecture_of(config)


@kinds
def test_it_is_written_again_whole(composite, tmp_path):
    """With other weights of the text model: these are in the files, and all else is as it was, bit for bit."""
    both = pair(case_of(composite))
    if composite == "qwen2_5_omni":  # without its voices transformers does not load it
        torch.save({}, both.directory / "spk_dict.pt")
    changed = build(both.ours.architecture, seed=3)
    family = huggingface.export(changed, tmp_path / "again", towers=both.directory)
    assert family.model_type == composite
    before, after = (load_file(path / "model.safetensors") for path in (both.directory, tmp_path / "again"))
    assert before.keys() == after.keys()
    towers = [name for name in before if family.text_name(name) is None]
    assert bool(towers) is (composite not in TEXT_CLASSES)
    assert all(torch.equal(before[name], after[name]) for name in towers)
    beside = Beside.read(both.directory)
    assert Beside.read(tmp_path / "again").files == beside.files, "no byte of any other file"
    assert any(not torch.equal(before[name], after[name]) for name in before.keys() - set(towers))
    theirs = getattr(transformers, both.case.task).from_pretrained(tmp_path / "again", attn_implementation="eager").eval()
    x = inputs(both)
    with torch.no_grad():
        mine = changed.eval()(*x)
        other = their_logits(type(both)(both.case, theirs, both.ours, tmp_path), x[0], target=x[1] if len(x) > 1 else None)
    assert (mine - other).abs().max() <= both.case.logits * other.abs().max()


LAYOUTS = {
    "published": ("language_model.model.", "language_model.lm_head."),
    "transformers 5": ("model.language_model.", "lm_head."),
    "text beside towers": ("model.", "lm_head."),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layouts_of_names(layout, tmp_path):
    """The same weights under the names of published files, of those that transformers 5 holds, and beside the towers."""
    both = pair(case_of("llava"))
    inside, head = LAYOUTS[layout]
    for file in both.directory.iterdir():
        shutil.copy(file, tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    renamed = {
        name.replace("language_model.model.", inside).replace("language_model.lm_head.", head): value
        for name, value in stored.items()
    }
    save_file(renamed, tmp_path / "model.safetensors", {"format": "pt"})
    model, _ = huggingface.load(tmp_path)
    assert torch.equal(model(*inputs(both)), both.ours(*inputs(both)))
    huggingface.export(model, tmp_path / "again", towers=tmp_path)
    assert load_file(tmp_path / "again" / "model.safetensors").keys() == renamed.keys()


def test_keys_of_the_text_model_beside_the_composites_own():
    """Files of Qwen2-VL from before `text_config`; sections of positions change nothing of text, under either name."""
    config = config_of("qwen2_vl")
    text = config.pop("text_config")
    rope = text.pop("rope_parameters")
    old = {"rope_theta": rope.pop("rope_theta"), "rope_scaling": {"type": "mrope", "mrope_section": rope["mrope_section"]}}
    flat = {**text, **config, **old, "model_type": "qwen2_vl"}
    assert canonical(architecture_of(flat)) == canonical(architecture_of(config_of("qwen2_vl")))
    with pytest.raises(huggingface.HuggingFaceError, match="frobnication_factor"):
        architecture_of(flat | {"frobnication_factor": 3})


def test_published_experts_may_be_the_transpose(tmp_path):
    """Qwen3-VL's published experts are (X, D, 2 F), and transformers 5 saves (X, 2 F, D)."""
    both = pair(case_of("qwen3_vl_moe"))
    for file in both.directory.iterdir():
        shutil.copy(file, tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    turned = {name: value.mT.contiguous() if ".experts." in name else value for name, value in stored.items()}
    assert any(".experts." in name for name in turned)
    save_file(turned, tmp_path / "model.safetensors", {"format": "pt"})
    assert torch.equal(huggingface.load(tmp_path)[0](*inputs(both)), both.ours(*inputs(both)))


def test_a_tensor_of_the_text_model_without_a_place_is_refused(tmp_path):
    both = pair(case_of("gemma3"))
    for file in both.directory.iterdir():
        shutil.copy(file, tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    stored["language_model.model.layers.0.self_attn.sinks"] = torch.zeros(4)
    save_file(stored, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(huggingface.HuggingFaceError, match="sinks"):
        huggingface.load(tmp_path)


def test_the_towers_are_named(tmp_path):
    towers = {tower.name: tower for tower in huggingface.left_aside(pair(case_of("gemma3")).directory)}
    assert set(towers) == {"multi_modal_projector", "vision_tower"}
    theirs = pair(case_of("gemma3")).theirs.model.vision_tower
    assert towers["vision_tower"].parameters == sum(parameter.numel() for parameter in theirs.parameters())
    assert towers["vision_tower"].tensors == len(theirs.state_dict())
    assert str(towers["vision_tower"]) in huggingface.told_of(pair(case_of("gemma3")).directory)
    (tmp_path / "config.json").write_text(json.dumps(config_of("gemma3")))
    assert "gemma3_text" in huggingface.told_of(tmp_path / "config.json")
    assert huggingface.told_of(tmp_path) == huggingface.told_of(tmp_path / "config.json")


GEMMA = {
    "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255_999, "eoi_token_index": 256_000,
    "eos_token_id": [1, 106], "image_token_index": 262_144, "initializer_range": 0.02, "mm_tokens_per_image": 256,
    "text_config": {
        "hidden_size": 2560, "intermediate_size": 10_240, "model_type": "gemma3_text", "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024,
    },
    "vision_config": {
        "hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "model_type": "siglip_vision_model",
        "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": False,
    },
}  # fmt: skip
"""The keys of google/gemma-3-4b-it's config.json."""


def test_a_published_configuration_and_what_the_guide_says_of_it():
    guide = (Path(__file__).parents[2] / "docs" / "images.md").read_text()
    config = transformers.Gemma3Config(**{key: value for key, value in GEMMA.items() if key != "model_type"})
    with torch.device("meta"):
        theirs = transformers.Gemma3ForConditionalGeneration(config).model
    text = sum(parameter.numel() for parameter in theirs.language_model.parameters())
    assert af.cost(af.architecture({**GEMMA, "model_type": "gemma3"})).params.total == text
    assert f"{text:,} parameters" in guide
    for name in ("multi_modal_projector", "vision_tower"):
        weights = [weight.numel() for weight in theirs.get_submodule(name).state_dict().values()]
        assert str(huggingface.CompositeTower(name, len(weights), sum(weights))) in guide


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def test_import_and_export_by_the_command_line(tmp_path):
    source = Path(shutil.copytree(pair(case_of("gemma3")).directory, tmp_path / "gemma3"))
    (source / "preprocessor_config.json").write_text('{"do_resize": true}')
    assert "vision_tower" in run("import", source, tmp_path / "checkpoint")
    assert checkpoint.read_manifest(tmp_path / "checkpoint").facts["towers"] == str(source)
    assert "gemma3" in run("export", tmp_path / "checkpoint", tmp_path / "whole")
    before, after = (load_file(path / "model.safetensors") for path in (source, tmp_path / "whole"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert (tmp_path / "whole" / "preprocessor_config.json").read_text() == '{"do_resize": true}'
    assert json.loads((tmp_path / "whole" / "config.json").read_text())["vision_config"] == config_of("gemma3")["vision_config"]
    run("export", tmp_path / "checkpoint", tmp_path / "text", "--family", "gemma3_text")
    assert transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "text").config.model_type == "gemma3_text"
    shutil.move(source, tmp_path / "elsewhere")
    lost = CliRunner().invoke(app, ["export", str(tmp_path / "checkpoint"), str(tmp_path / "lost")])
    assert lost.exit_code != 0
    assert "--towers" in str(lost.exception or lost.output)
    run("export", tmp_path / "checkpoint", tmp_path / "found", "--towers", tmp_path / "elsewhere")
    assert load_file(tmp_path / "found" / "model.safetensors").keys() == before.keys()


def test_what_cannot_be_written_with_towers_says_why(tmp_path):
    both = pair(case_of("gemma3"))
    wider = build(af.architecture(both.ours.architecture, changes={"width": 2 * both.ours.architecture.width}))
    with pytest.raises(huggingface.HuggingFaceError, match="project to embeddings of width"):
        huggingface.export(wider, tmp_path / "wider", towers=both.directory)
    with pytest.raises(huggingface.HuggingFaceError, match="--towers"):
        huggingface.export(both.ours, tmp_path / "none", model_type="gemma3")
    huggingface.export(both.ours, tmp_path / "text", model_type=None)
    with pytest.raises(huggingface.HuggingFaceError, match="no composite"):
        huggingface.export(both.ours, tmp_path / "again", towers=tmp_path / "text")


def test_a_text_model_that_has_changed_is_written_into_the_configuration(tmp_path):
    both = pair(case_of("llava"))
    changed = af.architecture(both.ours.architecture, changes={"decoder.layer.feedforward.width": 20})
    huggingface.export(build(changed), tmp_path / "again", towers=both.directory)
    assert canonical(huggingface.load(tmp_path / "again")[0].architecture) == canonical(changed)
    theirs = transformers.LlavaForConditionalGeneration.from_pretrained(tmp_path / "again")
    assert theirs.config.text_config.intermediate_size == 20


def test_verify_holds_a_composite_against_transformers():
    verdict = huggingface.verify(pair(case_of("gemma3")).directory, length=9)
    assert verdict.agrees
    assert len(verdict.drifts) > 1
