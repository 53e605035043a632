"""Memory of engines beside what they have printed, and by hand."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import anyformer as af
from anyformer.cli import app
from anyformer.costs.named_hardware import hardware_of
from anyformer.describe import UserError
from anyformer.planning.engine_memory import GIB, PUBLISHED_MEMORY, EngineMemory

CASES = [(case, name) for case in PUBLISHED_MEMORY for name in case.printed]


@pytest.mark.parametrize(("case", "name"), CASES, ids=[f"{case.engine} {case.model} {name}" for case, name in CASES])
def test_an_engine_holds_what_it_printed(case, name):
    """Within 3 % of every printed figure; each has its address and its line."""
    assert case.foretold(af.architecture(case.model))[name] == pytest.approx(case.printed[name], rel=0.03)
    assert case.address.startswith("https://")
    assert case.line


def test_a_token_and_its_pages_by_hand():
    """32 layers x 2 x 8 heads x 128 numbers; a latent of 576 numbers in 61 layers is on every rank."""
    llama, deepseek = af.architecture("llama-3.1-8b"), af.architecture("deepseek-v3")
    memory = EngineMemory(llama, "vllm", 80 * GIB)
    assert memory.token == 32 * 2 * 8 * 128 * 2
    assert EngineMemory(llama, "vllm", 80 * GIB, 4).token == memory.token // 4
    assert EngineMemory(llama, "vllm", 80 * GIB, 16).token == memory.token // 8, "heads are copied beyond 8 ranks"
    assert EngineMemory(deepseek, "sglang", 80 * GIB, 8).token == 61 * 576 * 2
    assert EngineMemory(llama, "vllm", 80 * GIB, numbers="fp8").token == memory.token // 2
    assert memory.cache_of(1) == 16 * memory.token
    assert memory.texts(17) == memory.pages // 2
    assert memory.tokens * memory.token <= memory.cache < (memory.tokens + 16) * memory.token
    assert memory.activations == 8192 * 2 * (3 * 4096 + 3 * 14336)
    assert memory.weights == 2 * 8_030_261_248


def test_recurrent_states_have_a_slot_for_every_text_in_llama_cpp():
    """48 layers of 48 heads of 128 x 128 numbers and 3 x 10,240 of a convolution, in fp32; 16 layers of 4 heads of 256."""
    made = af.architecture("qwen3.5-27b")
    memory = EngineMemory(made, "llama.cpp", 80 * GIB)
    assert memory.slot == 48 * (48 * 128 * 128 + 3 * 10_240) * 4
    assert memory.token == 16 * 2 * 4 * 256 * 2
    assert memory.texts(1000) == memory.cache // (1024 * memory.token + memory.slot)
    with pytest.raises(UserError, match="how sglang pages this model's state is not known here"):
        EngineMemory(made, "sglang", 80 * GIB)
    with pytest.raises(UserError, match="it has no state that grows"):
        EngineMemory(af.architecture("mamba2-130m"), "llama.cpp", 80 * GIB)


def test_the_command_says_how_many_texts_fit():
    told = CliRunner().invoke(app, ["plan", "llama-3.1-8b", "--serve", "--engine-memory", "vllm", "--length", "8k"])
    assert told.exit_code == 0, told.output
    memory = EngineMemory(af.architecture("llama-3.1-8b"), "vllm", int(hardware_of("h100").memory))
    assert told.output.startswith(
        f"llama-3.1-8b in vllm on 1 H100 SXM 80 GB: {memory.texts(8192)} texts of 8,192 tokens at once"
    )
    assert f"{memory.pages:,}" in told.output


def test_windows_share_pages_have_a_pool_or_cells_by_hand():
    """40 layers keep 1,024 tokens and 8 all of them, 8 heads of 256 numbers each: 8,192 bytes of a token in every layer."""
    made = af.architecture("gemma-3-12b")
    vllm, sglang, llama = (EngineMemory(made, engine, 80 * GIB) for engine in ("vllm", "sglang", "llama.cpp"))
    assert vllm.token == 6 * 8 * 8192, "five groups of 8 windows and one of all tokens"
    block = 16 * 8 * 8192
    assert vllm.texts(131_072) == vllm.cache // (block * (8192 + 5 * (-(-(1023 + 8192) // 16) + 1)))
    assert vllm.texts(512) == vllm.cache // (block * 6 * 32), "a window is no longer than its text"
    assert sglang.token == round((8 + 0.8 * 40) * 8192)
    assert sglang.windows(1000, 1) == 800 * 40 * 8192
    assert sglang.texts(131_072) == sglang.cache // (sglang.token * 131_072)
    assert sglang.texts(1000) == sglang.cache // (sglang.token * 1250), "the pool of windows is full first"
    assert llama.token == 8 * 8192
    assert llama.windows(8192, 1) == (1024 + 512) * 40 * 8192
    assert llama.windows(8192, 4) == (4 * 1024 + 512) * 40 * 8192
    assert llama.windows(1024, 4) == 1024 * 40 * 8192
    assert llama.texts(8192) == llama.cache // (8192 * 8 * 8192 + 1536 * 40 * 8192)
    assert llama.pages == (llama.cache - 1536 * 40 * 8192) // (256 * 8 * 8192)


def test_pages_of_one_size_hold_more_tokens_of_narrow_layers():
    """gemma-4-31b: 50 windows with 16 heads of 256, ten layers with 4 of 512, so a page of the latter has 32 tokens."""
    vllm = EngineMemory(af.architecture("gemma-4-31b"), "vllm", 141 * GIB)
    assert vllm.token == 6 * 10 * 16_384
    blocks = 65_536 // 32 + 5 * (-(-(1023 + 8192) // 16) + 1)
    assert vllm.texts(65_536) == vllm.cache // (blocks * 16 * 10 * 16_384)


def test_tensorrt_llm_takes_a_share_of_what_is_free():
    llama = af.architecture("llama-3.1-8b")
    memory, whole = EngineMemory(llama, "tensorrt-llm", 80 * GIB), EngineMemory(llama, "vllm", 80 * GIB, share=1.0)
    assert memory.cache == pytest.approx(0.9 * whole.cache, abs=1)
    assert memory.tokens % 32 == 0
    with pytest.raises(UserError, match="how tensorrt-llm pages this model's state is not known here"):
        EngineMemory(af.architecture("gpt-oss-20b"), "tensorrt-llm", 80 * GIB)


def test_what_is_paged_otherwise_is_refused():
    with pytest.raises(UserError, match=r"how vllm pages this model's state is not known here: .* do not grow"):
        EngineMemory(af.architecture("qwen3.5-9b"), "vllm", 80 * GIB)
    with pytest.raises(UserError, match="it has no state that grows"):
        EngineMemory(af.architecture("bert-base-uncased"), "vllm", 80 * GIB)
    with pytest.raises(UserError, match="0 ranks"):
        EngineMemory(af.architecture("llama-3.1-8b"), "vllm", 80 * GIB, 0)
