"""The catalogue: its index is what the modules say, its counts are the published ones, and every entry builds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from anyformer.catalogue import INDEX, architecture, listing
from anyformer.catalogue.index import LINEAGES, index
from anyformer.costs import cost
from anyformer.costs.examples import examples
from anyformer.costs.flop_counter import flops_by_module
from anyformer.describe import DescriptionError, from_toml, get, to_toml
from anyformer.model import Architecture
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts.call.reports import Auxiliary
from covering import kinds, others_slow

NAMES = [entry.name for entry in listing()]
DISTINCT = {architecture(name): name for name in reversed(NAMES)}
"""Each architecture once, with the first entry that is it."""
PUBLISHED = json.loads(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))
"""Name -> exact parameters, counted elsewhere as `source` says, and for some FLOPs of a forward pass over `length` tokens."""
PRICED = [name for name, facts in PUBLISHED.items() if "length" in facts]
REFERENCE = Path(__file__).parents[2].parent / "shared" / "reference" / "architectures.json"
RENAMED = {
    "gpt2 (small)": "gpt2",
    "llama2-70b": "llama-2-70b",
    "llama3-8b": "llama-3-8b",
    "llama3-70b": "llama-3-70b",
    "deepseek-67b": "deepseek-llm-67b",
    "reka-flash-3 (21B)": "reka-flash-3",
    "gemma2-27b": "gemma-2-27b",
    "gemma3-27b (text)": "gemma-3-27b",
    "nemotron4-340b": "nemotron-4-340b",
    "phi3-mini (3.8B)": "phi-3-mini",
    "olmo2-13b": "olmo-2-13b",
    "bert-base-uncased (encoder+pooler)": "bert-base-uncased-pooled",
    "bert-base-uncased (MLM head)": "bert-base-uncased",
}

NAMED = (
    "transformer-", "bert-", "roberta-", "deberta-", "electra-", "sentence-bert-", "bart-", "t5-", "mt5-", "gpt-1",
    "gpt2", "gpt3-", "gpt-j-", "gpt-jt-", "gpt-neo-", "gpt-neox-", "pythia-", "opt-", "bloom-", "starcoder", "falcon-",
    "palm-", "lamda-", "gopher-", "chinchilla-", "llama-", "llama-2-", "llama-3-", "llama-3.1-", "llama-4-",
    "code-llama-", "mistral-", "mixtral-", "qwen2.5-", "qwen3-", "qwen3-235b-", "qwen3-next-", "gemma-2b", "gemma-2-",
    "gemma-3-", "gemma-3n-", "gemma-4-", "gpt-oss-", "deepseek-v2", "deepseek-v3", "deepseek-v3.2", "deepseek-v4-", "kimi-k2",
    "kimi-linear-", "glm-4.5", "glm-4.6", "olmo-3-", "smollm3-", "granite-", "phi-3-", "phi-4", "minimax-", "command-a",
    "nemotron-", "lfm2-", "perceiver-", "set-transformer-", "switch-", "gshard-", "vit-", "gemini-style-", "gpt-4",
    "anthropic-lm-", "gemini-", "reka-flash",
)  # fmt: skip
"""How the names begin of the systems that the lecture notes name, and of today's."""


def counted(made: Architecture) -> int:
    """Parameters without the routers' corrections and tables and the factors of layers, which others hold as buffers and do not
    count."""
    weights, apart = made.cost(Shape(source=1)).weights, ("router.correction", "router.table", "step_1_gain", "step_2_gain")
    return sum(weight.count for name, weight in weights.items() if not name.endswith(apart))


def test_the_index_is_up_to_date():
    assert INDEX.read_text(encoding="utf-8") == index(), "run: python -m anyformer.catalogue.index"


def test_names_stand_once_and_every_lineage_names_its_organisation():
    assert len(set(NAMES)) == len(NAMES)
    assert {entry.lineage for entry in listing()} == set(LINEAGES)
    assert all(entry.organisation for entry in listing())


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_the_published_ones(name):
    assert counted(architecture(name)) == PUBLISHED[name]["parameters"]


@pytest.mark.parametrize("name", PRICED)
def test_flops_are_those_counted_elsewhere(name):
    facts = PUBLISHED[name]
    forward = cost(architecture(name), length=facts["length"], mode="prefill").flops.forward
    assert (forward.dense, forward.exact) == (facts["dense"], facts["exact"])


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference stands beside the repository, where it is given")
def test_every_well_known_architecture_of_the_reference_is_here():
    rows = json.loads(REFERENCE.read_text(encoding="utf-8"))["architectures"]
    sure = {row["name"]: row for row in rows if row["confidence"] == "high"}
    for name, row in sure.items():
        facts, flops = PUBLISHED[RENAMED.get(name, name)], row["forward_flops"]
        assert facts["parameters"] == row["params"]["total_formula"], name
        assert (facts["dense"], facts["exact"]) == (flops["dense"]["total"], flops["causal_exact"]["total"]), name
        assert facts["length"] == flops["seq_len"], name
        assert flops["batch"] == 1, name


UNSURE = {
    "transformer-base (Vaswani 2017, en-de)": "transformer-base",
    "transformer-big (Vaswani 2017, en-de)": "transformer-big",
    "phi3-small (7.4B)": "phi-3-small",
    "command-a (111B)": "command-a",
}
SPARSE = {"gpt3-175b", "phi-3-small"}
"""The reference counts every earlier pair of layers that see fewer, as the papers say."""


def of_distances(width: int, layers: int, length: int) -> tuple[int, int]:
    """What the reference leaves out of Transformer-XL's positions: two vectors per layer; FLOPs of both and of projecting R."""
    distances = 2 * length - 1
    work = 2 * distances * width * width + 2 * length * width * distances + 2 * width * length
    return layers * 2 * width, layers * work


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference stands beside the repository, where it is given")
def test_the_less_certain_rows_of_the_reference_differ_only_as_explained():
    rows = json.loads(REFERENCE.read_text(encoding="utf-8"))["architectures"]
    unsure = {UNSURE.get(row["name"], row["name"]): row for row in rows if row["confidence"] != "high"}
    assert len(unsure) == 10
    for name, row in unsure.items():
        made, counts = architecture(name), row["forward_flops"]
        more, work = (0, 0)
        if name in ("chinchilla-70b", "gopher-280b"):
            more, work = of_distances(made.width, made.decoder.depth, counts["seq_len"])
        flops = cost(made, length=counts["seq_len"], mode="prefill").flops.forward
        assert counted(made) == row["params"]["total_formula"] + more, name
        assert flops.dense == counts["dense"]["total"] + work, name
        fewer = name in SPARSE
        assert (flops.exact < counts["causal_exact"]["total"] + work) == fewer, name
        assert fewer or flops.exact == counts["causal_exact"]["total"] + work, name


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTINCT.values())
def test_flops_of_every_entry_at_its_full_size_are_the_counted_ones(name):
    """Forward and backward, on the meta device, which needs no memory."""
    made = architecture(name)
    rows, length = 1, min([128, *(stack.max_length or 128 for stack in made.stacks.values())])
    shape = Shape(batch=rows, length=length, source=length if made.two_inputs else 0)
    model = build(made, device="meta").eval()
    with flops_by_module() as counter:
        auxiliary = Auxiliary()
        output = model(*(x.to("meta") for x in examples(made, shape)), auxiliary=auxiliary)
        forward = counter.get_total_flops()
        index = [] if auxiliary.index is None else [auxiliary.index]  # what an indexer learns by
        torch.autograd.backward([output.float().sum(), *index])
    declared = made.cost(shape).total_flops
    assert (declared.dense, declared.backward) == (forward, counter.get_total_flops() - forward)


@pytest.mark.parametrize("system", NAMED)
def test_every_system_that_is_named_is_here(system):
    assert any(name.startswith(system) for name in NAMES)


def test_every_entry_names_its_source():
    assert all(entry.source and entry.summary for entry in listing())


@pytest.mark.parametrize("name", DISTINCT.values())
def test_every_entry_survives_text(name):
    made = architecture(name)
    assert from_toml(Architecture, to_toml(made)) == made


def layers(name: str) -> int:
    return sum(stack.depth for stack in architecture(name).stacks.values())


BY_DEPTH = {name: architecture(name) for name in sorted(DISTINCT.values(), key=layers)}
"""Those with the fewest layers first, which a cover takes of several with the same kinds of parts."""


@pytest.mark.parametrize("name", others_slow(BY_DEPTH, kinds))
def test_every_entry_builds_on_the_meta_device(name):
    made = architecture(name)
    model = build(made, device="meta")
    assert sum(weight.numel() for weight in model.parameters()) == made.trained_cost(Shape(source=1)).parameters


def test_a_misspelt_name_is_refused_with_the_right_one():
    with pytest.raises(DescriptionError, match="llama-3-8b"):
        architecture("lama-3-8b")


def test_numbers_that_no_count_shows_are_those_of_the_releases():
    """Scales of scores, epsilons and the places of layers, as the released configurations have them."""
    gemma, deepseek = architecture("gemma-2-27b"), architecture("deepseek-v3")
    assert get(gemma, "decoder.global.attention.scale") == get(gemma, "decoder.local.attention.scale") == 1 / 12
    assert get(deepseek, "decoder.routed.latent_attention.scale") == pytest.approx(0.1352337788608801)
    assert get(architecture("llama-7b"), "decoder.final_norm.eps") == 1e-6
    assert get(architecture("llama-2-7b"), "decoder.final_norm.eps") == 1e-5
    layers = architecture("gemma-3-1b").decoder.layers
    assert [i for i, name in enumerate(layers) if name == "global"] == [5, 11, 17, 23]
