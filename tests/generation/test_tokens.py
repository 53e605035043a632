"""Token numbers in, token numbers out; refusals that come before anything is printed or computed."""

from __future__ import annotations

import pytest
import torch
from zoo import DECODERS, ENCODERS

import anyformer as af
from anyformer import checkpoint
from anyformer.describe import InputError
from anyformer.generation import Sampling, continuations, generate, memory, steps, stream
from anyformer.model.transformer import build

GREEDY = Sampling(temperature=0)


def test_token_numbers_are_continued_without_a_tokenizer():
    model = build(DECODERS["llama"]).eval()
    prompts = [[3, 1, 4], [1]]
    expected = torch.stack(list(continuations(model, prompts, sampling=GREEDY, max_tokens=5)), 1).tolist()
    assert generate(model, None, prompts, max_tokens=5, sampling=GREEDY) == expected
    assert generate(model, None, prompts[0], max_tokens=5, sampling=GREEDY) == expected[0]
    with pytest.raises(InputError, match=r"stop strings are text.*leave stop out"):
        generate(model, None, prompts, stop=["x"])
    with pytest.raises(InputError, match=r"a chat is text.*leave chat out"):
        generate(model, None, prompts, chat=True)
    with pytest.raises(InputError, match="token -1 is below 0"):
        generate(model, None, [-1])


def test_refusals_come_with_the_call():
    with pytest.raises(InputError, match="give token numbers, as --tokens 1,2,3"):
        stream(build(DECODERS["llama"]), None, ["a"])
    with pytest.raises(InputError, match="encoder-only reads a whole text at once and does not generate"):
        stream(build(ENCODERS["encoder"]), None, ["a"])


def test_a_text_that_would_not_fit_is_refused_with_its_bytes(monkeypatch):
    model = build(DECODERS["llama"]).eval()
    # 2 layers x 2 x 4 heads x 6 numbers of 4 bytes, and 8 for the position, are 392 bytes a position.
    assert memory.state_bytes(model, 1, 1000) == 392_000 == model.state(1, 1000).nbytes
    monkeypatch.setattr(memory, "free_memory", lambda device: 10**9)
    with pytest.raises(ValueError, match=r"100,000,003 positions would take 39\.2 GB.*ask for fewer"):
        generate(model, None, [1, 2, 3, 4], max_tokens=10**8 - 1)


@pytest.mark.parametrize("name", ["llama", "window", "streams", "delta_gated", "latent_window_gate"])
def test_a_memory_that_grows_gives_the_same_tokens(name, monkeypatch):
    model = build(DECODERS[name]).eval()
    whole = generate(model, None, [[3, 1, 4], [1]], max_tokens=20, sampling=GREEDY)
    sizes = []
    true = model.state
    monkeypatch.setattr(memory, "BLOCK", 4)
    monkeypatch.setattr(steps, "MULTIPLE", 1)
    monkeypatch.setattr(
        model, "state", lambda batch, capacity, **more: (sizes.append(capacity), true(batch, capacity, **more))[1]
    )
    assert generate(model, None, [[3, 1, 4], [1]], max_tokens=20, sampling=GREEDY) == whole
    assert sizes == [4, 8, 16, 23], "it doubles, and stops at what the text needs"


def test_the_command_continues_token_numbers_and_prints_nothing_before_it_refuses(tmp_path, call):
    model = build(DECODERS["llama"]).eval()
    checkpoint.save(model, tmp_path / "checkpoint")
    expected = generate(model, None, [3, 1, 4], max_tokens=5, sampling=GREEDY)
    done = call("generate", str(tmp_path / "checkpoint"), "--tokens", "3,1,4", "-n", "5", "--temperature", "0")
    assert done.stdout.strip() == ",".join(map(str, [3, 1, 4, *expected])), done.stderr
    for arguments, words in (
        (["hello"], "no tokenizer"), ([], "either prompts of text, or token numbers"), (["--tokens", "1,x"], "'1,x' should be"),
        (["--tokens", "1", "-n", "1000000000000"], "GB of decode state"),
    ):  # fmt: skip
        done = call("generate", str(tmp_path / "checkpoint"), *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
    af.export(build(ENCODERS["encoder"]), tmp_path / "encoder", model_type="anyformer")
    done = call("generate", str(tmp_path / "encoder"), "hello")
    assert "does not generate text" in done.stderr
    assert done.stdout == ""
