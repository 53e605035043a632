"""Texts that pass the length from which rotary frequencies are others: tokens are those of transformers' `generate`."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
import transformers

from anyformer import huggingface
from anyformer.describe import InputError
from anyformer.generation import Draft, Lookup, Sampling, continuations, decode, generate_tokens, generating
from anyformer.generation.beams import Beams, searched
from anyformer.generation.compiled import compiled
from anyformer.generation.continuous_batching import served
from anyformer.generation.recorded import RecordedDecode
from anyformer.generation.state_rows import state_rows
from anyformer.model.transformer import Transformer
from anyformer.parts.call.stack_state import StackState

TRAINED, NEW = 32, 30
SIZES = {
    "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None, "initializer_range": 0.4,
}  # fmt: skip
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.1, 1.3, 1.6],
    "long_factor": [1.0, 2.5, 4.0, 8.0],
    "rope_theta": 100.0,
}
CONFIGURATIONS = {
    "phi3": transformers.Phi3Config(
        **SIZES, max_position_embeddings=128, original_max_position_embeddings=TRAINED, rope_parameters=LONGROPE
    ),
    "phi3 in windows": transformers.Phi3Config(
        **SIZES, max_position_embeddings=128, original_max_position_embeddings=TRAINED, rope_parameters=LONGROPE,
        sliding_window=11,
    ),
    "llama": transformers.LlamaConfig(
        **SIZES, max_position_embeddings=TRAINED, rope_parameters={"rope_type": "dynamic", "factor": 4.0, "rope_theta": 100.0}
    ),
}  # fmt: skip
LONGROPES = ("phi3", "phi3 in windows")
GREEDY = Sampling(temperature=0)


@cache
def pair(name: str) -> tuple[transformers.PreTrainedModel, Transformer]:
    """Their model and ours, of the same weights; generating changes no plain one."""
    torch.manual_seed(3)
    theirs = transformers.AutoModelForCausalLM.from_config(CONFIGURATIONS[name], attn_implementation="eager").eval()
    with TemporaryDirectory() as directory:
        theirs.save_pretrained(directory)
        return theirs, huggingface.load(directory)[0].eval()


def prompts(*lengths: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(2, 61, (length,), generator=generator).tolist() for length in lengths]


def theirs(name: str, given: list[list[int]], count: int = NEW, **how: Any) -> list[list[int]]:
    """What transformers' `generate` gives to prompts that are padded on the left.

    Each time by a fresh model: it keeps the frequencies of the longest text so far.
    """
    return [[*row] for row in _theirs(name, tuple(map(tuple, given)), count, tuple(how.items()))]


@cache
def _theirs(name: str, given: tuple[tuple[int, ...], ...], count: int, how: tuple[tuple[str, Any], ...]) -> list[list[int]]:
    """Once for all tests that ask for the same texts."""
    width = max(map(len, given))
    tokens = torch.tensor([[0] * (width - len(each)) + [*each] for each in given])
    mask = torch.tensor([[0] * (width - len(each)) + [1] * len(each) for each in given])
    rows = deepcopy(pair(name)[0]).generate(tokens, attention_mask=mask, max_new_tokens=count, do_sample=False, **dict(how))
    return rows[:, width:].tolist()


def ours(name: str, given: list[list[int]], count: int = NEW, **how: object) -> list[list[int]]:
    return torch.stack(list(continuations(pair(name)[1], given, sampling=GREEDY, max_tokens=count, **how)), 1).tolist()


@pytest.mark.parametrize("lengths", [(24,), (TRAINED - 1,), (TRAINED,), (40,), (24, 9, 31), (3, 24)], ids=str)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_tokens_are_those_of_transformers(name, lengths):
    given = prompts(*lengths)
    assert ours(name, given) == theirs(name, given)


@pytest.mark.parametrize("name", LONGROPES)
def test_the_text_is_that_of_a_model_that_computes_all_again(name):
    model, text = pair(name)[1], prompts(24)[0]
    given = ours(name, [text])[0]
    with torch.inference_mode():
        for token in given:
            assert token == int(model(torch.tensor([text]))[0, -1].argmax())
            text.append(token)


@pytest.mark.parametrize("finish", [None, pytest.param(compiled, marks=pytest.mark.slow)], ids=["recorded", "compiled"])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_recorded_steps_give_the_same(name, finish):
    given, held = prompts(24, 20), generating(deepcopy(pair(name)[1]))
    steps = continuations(held, given, sampling=GREEDY, max_tokens=NEW, step=RecordedDecode(finish), multiple=16)
    assert torch.stack(list(steps), 1).tolist() == theirs(name, given)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_each_of_many_prompts_gets_what_it_gets_alone(name, batch):
    given = prompts(24, 9, 31)
    alone = [theirs(name, [each])[0] for each in given]
    assert generate_tokens(pair(name)[1], given, max_tokens=NEW, sampling=GREEDY, batch=batch) == alone


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_beams_go_on_with_what_each_read(name):
    given = prompts(24, 20)
    found = searched(pair(name)[1], given, Beams(count=3), sampling=GREEDY, max_tokens=NEW)
    assert [list(each[0].tokens) for each in found] == theirs(name, given, num_beams=3)


def test_short_texts_share_a_batch():
    """Where no row comes to be longer than the trained length, none waits for another."""
    given, rows, sizes = prompts(5, 4, 6), {0: [], 1: [], 2: []}, set()

    def step(model: Transformer, tokens: torch.Tensor, state: StackState) -> torch.Tensor:
        sizes.add(len(tokens))
        return decode(model, tokens, state)

    over = lambda row: len(rows[row]) == 8  # noqa: E731
    places = state_rows(pair("phi3")[1], given, 2, 8, step=step)
    for some in served(places, given, sampling=GREEDY, max_tokens=8, ended=over):
        for each in some:
            rows[each.row].append(each.number)
    assert list(rows.values()) == [theirs("phi3", [each], 8)[0] for each in given]
    assert sizes == {2}


@pytest.mark.parametrize("tokens", [1, 3, 8])
@pytest.mark.parametrize("name", LONGROPES)
def test_proposed_tokens_change_nothing(name, tokens):
    """Some are taken and some forgotten, on both sides of the switch and across it."""
    model, given = pair(name)[1], prompts(24, 30)
    for draft in (Lookup(tokens=tokens, shortest=1), Draft(model, tokens=tokens), Draft(_other(name), tokens=tokens)):
        found = generate_tokens(model, given, max_tokens=NEW, sampling=GREEDY, draft=draft)
        assert found == [theirs(name, [each])[0] for each in given]


def _other(name: str) -> Transformer:
    """A draft model that is often wrong, and agrees at times."""
    other = deepcopy(pair(name)[1])
    with torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        for weight in other.parameters():
            weight.add_(0.15 * weight.std() * torch.randn(weight.shape, generator=generator) if weight.dim() > 1 else 0)
    return other


def test_what_cannot_be_read_again_is_proposed_for_within_the_trained_length():
    model, given = pair("llama")[1], prompts(9)
    draft = Draft(model, tokens=3)
    assert generate_tokens(model, given, max_tokens=12, sampling=GREEDY, draft=draft) == theirs("llama", given, 12)
    with pytest.raises(InputError, match="once it passes 32"):
        generate_tokens(model, given, max_tokens=NEW, sampling=GREEDY, draft=draft)
