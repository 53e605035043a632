"""Pictures of masks: the cells are the mask, the length shows it, the strip is the layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from zoo import DECODERS

import anyformer as af
from anyformer.describe import UserError
from anyformer.files import PlaceError
from anyformer.parts import Bidirectional, Causal, Chunk, Fixed, GlobalTokens, Prefix, Strided, VerticalStride, Window
from anyformer.pictures import draw_masks, masks_of
from anyformer.pictures.masks import _panel, coverage, edges
from anyformer.pictures.patterns import Pattern, patterns_of, telling_length

SINGLE = st.one_of(
    st.just(Causal()),
    st.just(Prefix()),
    st.builds(Window, size=st.integers(1, 30), after=st.integers(0, 9)),
    st.builds(Chunk, size=st.integers(1, 20)),
    st.builds(Strided, stride=st.integers(2, 9)),
    st.builds(Fixed, size=st.integers(4, 9), summary=st.integers(1, 3)),
    st.builds(GlobalTokens, count=st.integers(1, 4)),
    st.builds(VerticalStride, block=st.integers(1, 3), stride=st.integers(2, 4)),
)
MASKS = st.recursive(
    SINGLE, lambda inner: st.builds(lambda a, b, both: a & b if both else a | b, inner, inner, st.booleans()), max_leaves=4
)


@given(MASKS, st.integers(1, 60), st.integers(1, 60), st.integers(0, 20), st.integers(1, 12))
def test_a_cell_is_the_mean_of_its_pairs(mask, queries, keys, prefix, cells):
    allowed = mask.allowed(torch.arange(queries)[:, None], torch.arange(keys)[None], prefix)
    dense = np.broadcast_to(allowed.numpy(), (queries, keys))
    rows, columns = edges(queries, cells), edges(keys, cells)
    found = coverage(mask, queries, keys, prefix, cells)
    for i, j in np.ndindex(found.shape):
        assert found[i, j] == pytest.approx(dense[rows[i] : rows[i + 1], columns[j] : columns[j + 1]].mean())


def test_queries_looked_at_in_several_bands_are_the_same(monkeypatch):
    whole = coverage(Window(size=9), 100, 100, cells=16)
    monkeypatch.setattr("anyformer.pictures.masks.ROWS", 20)
    assert np.array_equal(coverage(Window(size=9), 100, 100, cells=16), whole)


@pytest.mark.parametrize("name", ["gemma-3-27b", "gpt-oss-20b", "llama-4-scout", "modernbert-base", "phi-3-mini", "gpt3-small"])
def test_the_length_tells_a_window_from_a_triangle(name):
    """At 32 positions a window of 1,024 was drawn as a causal triangle."""
    architecture = af.architecture(name)
    length = telling_length(architecture)
    ranges = {mask: mask.ranges(np.arange(length), length) for mask in masks_of(architecture)}
    counts = [each.pairs for each in ranges.values()]
    assert len(set(counts)) == len(counts)
    for mask, found in ranges.items():
        assert 0 < found.pairs < length**2 or mask.written == "bidirectional"
        if mask.span > 1:
            assert (found.counts() < np.arange(1, length + 1)).any(), "the last queries have forgotten the first keys"


def test_a_length_ends_with_the_position_table():
    assert telling_length(af.architecture("gpt2")) == 32
    assert telling_length(DECODERS["local_global"]) == 32
    wide = af.architecture("gpt3-small", changes={"decoder.banded.attention.mask.size": 1500})
    assert telling_length(wide) == 2048


def test_the_strip_is_what_the_layers_have():
    gemma = af.architecture("gemma-3-27b")
    patterns = patterns_of(gemma, 4096)
    assert [pattern.title for pattern in patterns.places] == ["causal window 1,024", "causal"]
    (strip,) = patterns.strips
    assert strip.layers == tuple((0,) if layer == "local" else (1,) for layer in gemma.decoder.layers)
    assert strip.layers[:6] == ((0,), (0,), (0,), (0,), (0,), (1,))
    assert [patterns.holders(i) for i in (0, 1)] == ["52 of 62 decoder layers", "10 of 62 decoder layers"]
    assert strip.title == "decoder, 62 layers: 52 local, 10 global"


def test_an_encoder_a_decoder_and_what_lies_between():
    patterns = patterns_of(af.architecture("t5-small"), 32)
    assert [pattern.title for pattern in patterns.places] == ["bidirectional", "causal", "cross-attention: all of the source"]
    assert [pattern.pairs for pattern in patterns.places] == [1024, 528, 1024]
    assert {layer for strip in patterns.strips for layer in strip.layers} == {(0,), (1, 2)}


def test_a_prefix_is_a_quarter_where_a_mask_has_one():
    prefixed = af.architecture("gpt2", changes={"decoder.layer.attention.mask": Causal() | Prefix()})
    (pattern,) = patterns_of(prefixed, 32).places
    assert pattern.prefix == 8
    assert pattern.pairs == 528 + 28
    (pattern,) = patterns_of(af.architecture("gpt2"), 32).places
    assert pattern.prefix == 0


def test_layers_without_a_mask_say_what_they_do(tmp_path):
    (strip,) = patterns_of(af.architecture("qwen3-next-80b-a3b"), 32).strips
    assert strip.layers[:4] == ((), (), (), (0,))
    assert strip.unmasked[:4] == (("delta",), ("delta",), ("delta",), ())


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_picture_is_written_by_its_ending(ending, tmp_path):
    place = tmp_path / f"masks.{ending}"
    draw_masks(DECODERS["local_global"], place, 9, title="a $name$ like_this")
    assert place.read_bytes()[:4] in (b"\x89PNG", b"<?xm", b"%PDF")


def test_what_cannot_be_drawn_is_refused_before_any_work(tmp_path):
    for name in ("masks.txt", "masks", "masks.jpeg"):
        with pytest.raises(UserError, match=r"a picture ends in \.png, \.svg, \.pdf"):
            draw_masks(DECODERS["local_global"], tmp_path / name)
    with pytest.raises(PlaceError, match="the directory does not exist"):
        draw_masks(DECODERS["local_global"], tmp_path / "none" / "masks.png")
    with pytest.raises(UserError, match="at 1 to 4,194,304 positions, got 1,000,000,000"):
        draw_masks(DECODERS["local_global"], tmp_path / "masks.png", 10**9)
    assert not list(tmp_path.iterdir())


def test_the_command_draws_and_still_prints_what_was_asked_for(call, tmp_path):
    """`--toml` beside `--masks` was dropped without a word."""
    both = call("show", "gpt2", "--masks", "m.svg", "--toml", "--length", "1k", cwd=tmp_path)
    assert both.returncode == 0
    assert both.stdout.startswith("version = 2\nwidth = 768"), both.stdout[:80]
    assert (tmp_path / "m.svg").exists()
    assert call("show", "gpt2", "--masks", "m.png", cwd=tmp_path).stdout == "m.png\n"


@pytest.mark.parametrize("words", [("show", "gpt2", "--masks"), ("cost", "gpt2", "--plot")])
@pytest.mark.parametrize(
    ("place", "says"), [("none/x.png", "the directory does not exist"), ("x.txt", "a picture ends in .png, .svg, .pdf")]
)
def test_a_place_that_cannot_be_written_is_one_line(call, tmp_path, words, place, says):
    told = call(*words, place, cwd=tmp_path)
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith(f"anyformer: {place}: ")
    assert says in told.stderr


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (Window(size=1024), "causal window 1,024"),
        (Causal() & Window(size=8), "causal window 8"),
        (Window(size=9, after=4), "window 9, 4 more after"),
        (Causal() & (Window(size=8) | Strided(stride=4)), "causal & (causal window 8 | strided 4)"),
    ],
)
def test_a_window_of_the_past_says_that_it_is_causal(mask, words):
    """`window(size=1024)` did not."""
    assert mask.words == words


def test_a_panel_has_keys_from_left_to_right_and_queries_from_top_to_bottom():
    axes = Figure().subplots()
    _panel(axes, Pattern(Bidirectional(), queries=16, keys=48, across=True), "#335577")
    (image,) = axes.images
    assert tuple(image.get_extent()) == (0, 48, 16, 0)
    assert image.get_array().shape == (16, 48)
