"""Graphs for other engines: the same logits as the model's, row by row, with names that readers of graphs look for."""

from __future__ import annotations

import re

import pytest
import torch
from zoo import DECODERS, ENCODERS, LIMITED, PAIRS, ZOO

from anyformer.catalogue.gpt import gpt2
from anyformer.exporting import ExportError, export_onnx, graphs_of
from anyformer.exporting.cached import CausalGraph
from anyformer.exporting.onnx_files import traced
from anyformer.generation.decode import pad_left
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.testing.comparisons import equal
from covering import others_slow, remembering

PROMPTS = [[3, 1, 4, 1, 5, 9, 2], [8, 9, 7], [9, 3, 2, 3, 8]]
LATER = [[1, 2], [3, 4], [5, 6]]
REASONS = "is more than keys and values|a prefix see itself both ways|is not read by an encoder|is no input of a graph"
TRACED = ("grouped", "experts", "latent")


def plain(architecture):
    """The model that is exported: in evaluation, by the kernel that every engine has operators for."""
    return build(architecture, Plan(precision="fp32", attention="plain")).eval()


def graphs(architecture):
    """A model and its graphs; none where it is refused by a part."""
    model = plain(architecture)
    try:
        return model, graphs_of(model)
    except ExportError as refusal:
        if not re.search(REASONS, str(refusal)):
            raise
        return model, {}


def reads_text(graph):
    return graph.inputs[0].name == "input_ids"


def empty(graph, rows):
    """The cache before the first call."""
    sizes = {"batch_size": rows, "past_sequence_length": 0, "past_encoder_sequence_length": 0}
    return [port.example(sizes) for pair in graph.past for port in pair]


def padded_right(prompts):
    """Rows with padding behind them, and the mask that says so."""
    tokens, padding = pad_left([row[::-1] for row in prompts], "cpu")
    return tokens.flip(1), (~padding).long().flip(1)


@pytest.mark.parametrize("name", others_slow(DECODERS | LIMITED, remembering))
def test_a_cache_that_enters_and_leaves_goes_on_as_the_whole(name):
    model, found = graphs((DECODERS | LIMITED)[name])
    graph = found.get("model")
    if not isinstance(graph, CausalGraph):
        return
    tokens, padding = pad_left(PROMPTS, "cpu")
    mask = (~padding).long()
    with torch.no_grad():
        # Two calls with several positions, of which the first has no past, and the padding stands in both.
        logits, *past = graph(tokens[:, :3], mask[:, :3], *empty(graph, len(tokens)))
        read = [logits]
        logits, *past = graph(tokens[:, 3:], mask, *past)
        read.append(logits)
        for step in torch.tensor(LATER).T:
            mask = torch.cat([mask, torch.ones(len(mask), 1, dtype=torch.long)], 1)
            logits, *past = graph(step[:, None], mask, *past)
            read.append(logits)
        for row, (prompt, later, made) in enumerate(zip(PROMPTS, LATER, torch.cat(read, 1), strict=True)):
            whole = model(torch.tensor([[*prompt, *later]]))[0]
            equal(made[-len(whole) :], whole, f"row {row}")


@pytest.mark.parametrize("name", ENCODERS)
def test_rows_with_padding_behind_them_are_each_as_alone(name):
    model, found = graphs(ENCODERS[name])
    graph = found.get("model")
    if (
        graph is None
        or ENCODERS[name].folded_cost(Shape()).breaks("padded")
        or "input_ids" not in [port.name for port in graph.inputs]
    ):
        return
    tokens, mask = padded_right(PROMPTS)
    kinds = [torch.zeros_like(tokens)] * (len(graph.inputs) - 2)
    with torch.no_grad():
        (made,) = graph(tokens, mask, *kinds)
        for row, (prompt, of_row) in enumerate(zip(PROMPTS, made, strict=True)):
            alone = model(torch.tensor([prompt]))[0]
            equal(of_row[: len(alone)] if alone.dim() > 1 else of_row, alone, f"row {row}")


@pytest.mark.parametrize("name", PAIRS)
def test_a_source_is_read_once_and_the_target_goes_on(name):
    model, found = graphs(PAIRS[name])
    if not found:
        return
    encoder, decoder = found["encoder_model"], found["decoder_model_merged"]
    if not reads_text(encoder):
        return
    tokens, mask = padded_right(PROMPTS)
    kinds = [torch.zeros_like(tokens)] * (len(encoder.inputs) - 2)
    target = torch.tensor(LATER)
    with torch.no_grad():
        (hidden,) = encoder(tokens, mask, *kinds)
        first, *past = decoder(target[:, :1], mask, hidden, *empty(decoder, len(tokens)))
        second, *past = decoder(target[:, 1:], mask, hidden, *past)
        for row, prompt in enumerate(PROMPTS):
            whole = model(torch.tensor([prompt]), target[row : row + 1])[0]
            equal(torch.cat([first, second], 1)[row], whole, f"row {row}")


def test_names_are_those_that_readers_of_graphs_look_for():
    decoder = graphs_of(plain(gpt2(width=16, depth=2, heads=2, vocab=32, length=24)))["model"]
    cache = [f"{number}.{leaf}" for number in range(2) for leaf in ("key", "value")]
    assert [port.name for port in decoder.inputs] == [
        "input_ids", "attention_mask", *(f"past_key_values.{name}" for name in cache),
    ]  # fmt: skip
    assert decoder.outputs == ("logits", *(f"present.{name}" for name in cache))
    assert decoder.inputs[2].shape == ("batch_size", 2, "past_sequence_length", 8)

    pair = graphs_of(plain(next(iter(PAIRS.values()))))
    assert list(pair) == ["encoder_model", "decoder_model_merged"]
    assert pair["encoder_model"].outputs == ("last_hidden_state",)
    assert [port.name for port in pair["decoder_model_merged"].inputs][:4] == [
        "input_ids", "encoder_attention_mask", "encoder_hidden_states", "past_key_values.0.decoder.key",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACED)
def test_a_graph_holds_for_sizes_with_which_it_was_not_made(name):
    model, found = graphs(DECODERS[name])
    graph = found["model"]
    # What it assumes of sizes to skip work, such as that there is a past, its operations do not need.
    program = traced(graph).module(check_guards=False)
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9]])
    with torch.no_grad():
        logits, *past = program(tokens, torch.ones_like(tokens), *empty(graph, 1))
        equal(logits, model(tokens), "a prompt without a past")
        step = program(torch.tensor([[2]]), torch.ones(1, 7, dtype=torch.long), *past)[0]
        equal(step[:, -1], model(torch.tensor([[3, 1, 4, 1, 5, 9, 2]]))[:, -1], "a step")


REFUSED = {
    "delta": r"decoder\.layer\.delta_attention: its memory \(RecurrentState\) is more than keys and values",
    "prompt": "virtual_tokens: ",
    "prefix": "a prefix see itself both ways",
}


@pytest.mark.parametrize(("name", "part"), [(name, part) for name, part in REFUSED.items() if name in ZOO])
def test_what_has_no_graph_is_refused_by_its_part(name, part):
    with pytest.raises(ExportError, match=part):
        graphs_of(plain(ZOO[name]))


def test_types_of_numbers_that_onnx_runtime_lacks_are_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("anyformer.exporting.onnx_directory.check_installed", lambda: None)
    model = plain(gpt2(width=16, depth=1, heads=2, vocab=32, length=24)).bfloat16()
    with pytest.raises(ExportError, match=r"torch\.bfloat16, and ONNX Runtime computes in fp32 or fp16"):
        export_onnx(model, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_the_extra_is_named_where_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ExportError, match=r"onnx is missing: pip install 'anyformer\[onnx\]'"):
        export_onnx(plain(gpt2(width=16, depth=1, heads=2, vocab=32, length=24)), tmp_path / "out")
