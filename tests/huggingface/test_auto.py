"""Models of our own layout as transformers uses them: caches, beams, tables, saving, every shape of model."""

from __future__ import annotations

import copy

import pytest
import torch
import transformers
from safetensors.torch import load_file
from zoo import DECODERS, ENCODERS, PAIRS

import anyformer as af
from anyformer.describe import change
from anyformer.generation import memory
from anyformer.huggingface import auto
from anyformer.model import Architecture
from anyformer.model.transformer import build
from anyformer.parts import LongRoPE

VARIED = ["llama", "window", "streams", "delta_gated", "latent_window_gate", "gpt2"]
"""Memories of every kind: full, ring, latent, recurrent; and a table of positions."""


def wrapped(architecture: Architecture, kind=auto.AnyformerForCausalLM):
    """The class of transformers with the weights that `build` gives."""
    model = kind(auto.AnyformerConfig(architecture=architecture.plain())).eval()
    model.model.load_state_dict(build(architecture).state_dict())
    return model


def prompts() -> dict[str, torch.Tensor]:
    x = torch.randint(1, 37, (2, 7), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(x)
    mask[0, :3] = 0
    return {"input_ids": x, "attention_mask": mask}


def generated(model, **more) -> torch.Tensor:
    return model.generate(**prompts(), max_new_tokens=8, do_sample=False, pad_token_id=0, eos_token_id=None, **more)


@pytest.mark.parametrize("name", VARIED)
@pytest.mark.parametrize("beams", [1, 3])
def test_a_cache_changes_no_token(name, beams, monkeypatch):
    monkeypatch.setattr(memory, "BLOCK", 4)  # so that the memory grows on the way
    model = wrapped(DECODERS[name])
    calls: list[int] = []
    handle = model.model.embedding.register_forward_hook(lambda module, given, made: calls.append(made.shape[1]))
    cached = generated(model, num_beams=beams)
    assert calls[1:] == [1] * 7, "each step reads one token"
    handle.remove()
    assert torch.equal(cached, generated(model, num_beams=beams, use_cache=False))


def test_a_static_cache_has_room_for_the_text_from_the_start(monkeypatch):
    monkeypatch.setattr(memory, "BLOCK", 4)
    model, made = wrapped(DECODERS["window"]), []
    true = type(model.model).state
    monkeypatch.setattr(type(model.model), "state", lambda *given, **more: made.append(given[2]) or true(*given, **more))
    plain = generated(model)
    assert len(made) > 1, "a dynamic one grows"
    made.clear()
    assert torch.equal(generated(model, cache_implementation="static"), plain)
    assert made == [14], "7 of the prompt and 8 new ones, of which the last is not read"


@pytest.mark.parametrize("beams", [1, 3])
def test_a_text_that_comes_to_be_long_is_read_again(beams):
    scaling = {"kind": "longrope", "short": [1.0, 1.5, 2.0], "long": [2.0, 5.0, 9.0], "trained": 10}
    model = wrapped(change(DECODERS["llama"], "decoder.layer.attention.rotary.scaling", LongRoPE.parse(scaling)))
    assert torch.equal(generated(model, num_beams=beams), generated(model, num_beams=beams, use_cache=False))


def test_other_ways_to_generate_give_the_same_tokens():
    model = wrapped(DECODERS["llama"])
    x = prompts()["input_ids"][1:]
    more = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    whole = model.generate(x, **more)
    embedded = model.get_input_embeddings()(x)
    assert torch.equal(model.generate(inputs_embeds=embedded, **more), whole[:, 7:])
    assert torch.equal(model.generate(x, prompt_lookup_num_tokens=2, **more), whole)
    assert torch.equal(model.generate(x, prefill_chunk_size=3, **more), whole)
    begun = model.generate(x, return_dict_in_generate=True, **{**more, "max_new_tokens": 2})
    rest = {**more, "max_new_tokens": 4, "attention_mask": torch.ones_like(begun.sequences)}
    assert torch.equal(model.generate(begun.sequences, past_key_values=begun.past_key_values, **rest), whole)


@torch.no_grad()
def test_a_loop_by_hand_goes_on_from_the_cache():
    model = wrapped(DECODERS["llama"])
    x, mask = prompts().values()
    whole = model(x, attention_mask=mask)
    assert whole.past_key_values is None, "a cache is kept only where asked for"
    first = model(x[:, :4], attention_mask=mask[:, :4], use_cache=True, output_hidden_states=True)
    fork = copy.deepcopy(first.past_key_values)
    rest = model(x[:, 4:], attention_mask=mask, past_key_values=first.past_key_values, position_ids=(mask.cumsum(1) - 1)[:, 4:])
    torch.testing.assert_close(rest.logits, whole.logits[:, 4:], rtol=1e-4, atol=1e-5)
    states = model(x[:, :4], attention_mask=mask[:, :4], output_hidden_states=True).hidden_states
    for one, two in zip(first.hidden_states, states, strict=True):
        torch.testing.assert_close(one[mask[:, :4] == 1], two[mask[:, :4] == 1], rtol=1e-4, atol=1e-5)
    cache = rest.past_key_values
    assert cache.get_seq_length() == 7
    cache.crop(-3)
    again = model(x[:, 4:], attention_mask=mask, past_key_values=cache)
    torch.testing.assert_close(again.logits, rest.logits)
    fork.reorder_cache(torch.tensor([1, 1]))
    with pytest.raises(ValueError, match="attention_mask differs on the positions in the cache"):
        model(x[:, 4:], attention_mask=mask, past_key_values=fork)
    with pytest.raises(ValueError, match="position_ids should continue from"):
        model(x[:, 4:], past_key_values=cache, position_ids=torch.arange(3)[None])
    with pytest.raises(ValueError, match="the cache holds 2 rows, and this call has 1"):
        model(x[:1, 4:], past_key_values=cache)


def test_what_tokenizers_say_of_no_table_is_taken_and_positions_beyond_one_are_refused():
    model = wrapped(DECODERS["gpt2"])
    x = prompts()["input_ids"]
    assert torch.equal(model(x, token_type_ids=torch.zeros_like(x)).logits, model(x).logits)
    with pytest.raises(ValueError, match="position_ids reach 10006, and the position table has 0 to 31"):
        model(x, position_ids=torch.arange(7)[None] + 10_000)


def test_what_a_memory_cannot_do_is_refused():
    model = wrapped(DECODERS["delta_gated"])
    cache = model(prompts()["input_ids"], use_cache=True).past_key_values
    assert not cache.is_croppable
    with pytest.raises(ValueError, match="cannot be taken back"):
        cache.crop(-1)
    with pytest.raises(ValueError, match=r"cache_implementation='quantized'.*each layer's kind of cache"):
        generated(model, cache_implementation="quantized")


@pytest.mark.parametrize("tied", [False, True])
def test_tables_are_resized_with_the_head(tied, tmp_path):
    model = wrapped(change(DECODERS["llama"], "head.tied", tied))
    x = prompts()["input_ids"]
    before, table = model(x).logits, model.get_input_embeddings().weight.detach().clone()
    assert (model.get_output_embeddings().weight is model.get_input_embeddings().weight) == tied
    model.resize_token_embeddings(41, pad_to_multiple_of=4)
    assert model.get_input_embeddings().weight.shape[0] == model.config.vocab_size == 44
    torch.testing.assert_close(model(x).logits[..., :37], before)
    torch.testing.assert_close(model.get_input_embeddings().weight[-1], table.mean(0))
    model.save_pretrained(tmp_path)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(again(x).logits, model(x).logits)
    assert af.load(tmp_path)[0].architecture.embedding.symbols == 44
    model.resize_token_embeddings(37)
    assert torch.equal(model(x).logits, before)
    with pytest.raises(ValueError, match="use resize_token_embeddings"):
        model.set_input_embeddings(torch.nn.Embedding(5, 24))
    other = torch.nn.Embedding(37, 24)
    model.set_input_embeddings(other)
    assert model.model.embedding.weight is other.weight


def test_saving_goes_there_and_back_byte_for_byte(tmp_path):
    af.export(build(DECODERS["streams"]), tmp_path / "one")
    transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "one").save_pretrained(tmp_path / "two")
    there, back = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert there.keys() == back.keys()
    assert all(torch.equal(there[name], back[name]) for name in there)
    x = prompts()["input_ids"]
    assert torch.equal(af.load(tmp_path / "two")[0](x), af.load(tmp_path / "one")[0](x))


def test_a_model_from_a_configuration_starts_by_the_rules_of_its_architecture():
    config = auto.AnyformerConfig(architecture=DECODERS["llama"].plain())
    made = []
    for seed in (1, 1, 2):
        transformers.set_seed(seed)
        made.append(transformers.AutoModelForCausalLM.from_config(config).state_dict())
    table = "model.embedding.weight"
    assert torch.equal(made[0][table], made[1][table])
    assert not torch.equal(made[0][table], made[2][table])
    assert 0.5 < made[0][table].std() < 0.9, "the zoo's rule is 0.7"


def test_encoders_and_classifiers_and_bare_models(tmp_path):
    x, mask = prompts().values()
    own = build(ENCODERS["encoder"]).eval()
    af.export(own, tmp_path / "encoder", model_type="anyformer")
    masked = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "encoder").eval()
    labels = x.masked_fill(mask == 0, -100)
    out = masked(x, attention_mask=mask, labels=labels)
    assert torch.equal(out.logits, own(x, padding=mask == 0))
    torch.testing.assert_close(out.loss, torch.nn.functional.cross_entropy(out.logits.flatten(0, 1), labels.flatten()))
    torch.testing.assert_close(masked(x, attention_mask=mask, labels=labels, num_items_in_batch=22).loss, out.loss / 2)
    with pytest.raises(ValueError, match="AnyformerForMaskedLM takes no argument 'label'; did you mean 'labels'"):
        masked(x, label=labels)

    bare = build(Architecture(**{**dict(ENCODERS["encoder"]), "head": None})).eval()
    af.export(bare, tmp_path / "bare", model_type="anyformer")
    model = transformers.AutoModel.from_pretrained(tmp_path / "bare").eval()
    assert model.config.architectures == ["AnyformerModel"]
    assert torch.equal(model(x, attention_mask=mask).last_hidden_state, bare(x, padding=mask == 0))
    with pytest.raises(ValueError, match="a masked language model is an encoder whose head"):
        transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "bare")

    pooled = build(change(ENCODERS["encoder"], "head", {"pool": "mean", "outputs": 3})).eval()
    af.export(pooled, tmp_path / "pooled", model_type="anyformer")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "pooled").eval()
    assert model.config.num_labels == 3
    out = model(x, attention_mask=mask, labels=torch.tensor([0, 2]))
    assert torch.equal(out.logits, pooled(x, padding=mask == 0))
    torch.testing.assert_close(out.loss, torch.nn.functional.cross_entropy(out.logits, torch.tensor([0, 2])))


def test_a_source_and_a_target(tmp_path):
    name = next(iter(PAIRS))
    own = build(PAIRS[name]).eval()
    af.export(own, tmp_path / "pair", model_type="anyformer")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "pair").eval()
    x, mask = prompts().values()
    target = x[:, :5]
    out = model(x, attention_mask=mask, decoder_input_ids=target, output_hidden_states=True)
    assert torch.equal(out.logits, own(x, target, padding=mask == 0))
    assert len(out.decoder_hidden_states) == own.architecture.decoder.depth + 1
    with pytest.raises(ValueError, match="decoder_start_token_id: missing"):
        model(x, labels=target)
    model.config.decoder_start_token_id = 1
    read = torch.cat([torch.ones(2, 1, dtype=torch.int64), target[:, :-1]], 1)
    out = model(x, labels=target)
    torch.testing.assert_close(out.loss, torch.nn.functional.cross_entropy(own(x, read).flatten(0, 1), target.flatten()))


def test_adapters_train():
    import peft

    model = wrapped(DECODERS["llama"])
    model.gradient_checkpointing_enable()
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules="all-linear", r=2)).train()
    x = prompts()["input_ids"]
    adapted(input_ids=x, labels=x).loss.backward()
    learnt = [name for name, parameter in adapted.named_parameters() if parameter.grad is not None]
    assert learnt
    assert all("lora" in name for name in learnt)
