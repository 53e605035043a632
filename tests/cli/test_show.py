"""`anyformer show`: one screen, each thing once."""

from __future__ import annotations

import pytest

from anyformer.catalogue import architecture, listing
from anyformer.cli.pages import lines as lines_of
from anyformer.cli.summary import described, layers
from anyformer.describe import to_toml


def words(text):
    return " ".join(text.split())


def page(name):
    return "\n".join(line.text for line in lines_of(described(architecture(name)), 80))


def test_gemma_3_is_a_screen(call):
    shown = call("show", "gemma-3-27b").stdout
    assert len(shown.splitlines()) <= 40
    assert max(map(len, shown.splitlines())) <= 80
    for said in (
        "gemma-3-27b (Google, 2025): five local layers to one global",
        "Source: arXiv 2503.19786",
        "62 layers: (5 local, 1 global) x 10, then 2 local",
        "heads 32, kv heads 16, head width 128",
        "mask window (size 1,024)",
        "global: as local, but",
        "27,009,346,304",
    ):
        assert said in words(shown)
    assert shown.count("heads 32") == 1, "what all layers share is said once"
    assert shown.count("eps 1e-06") == 1


@pytest.mark.parametrize("name", [*[entry.name for entry in listing()][::12], "minimax-text-01", "perceiver-imagenet"])
def test_every_architecture_fits_on_a_screen(name):
    lines = page(name).split("\n")
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 60


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("layer*12", "12 layer"),
        ("dense*3 moe*58", "3 dense, then 58 moe"),
        ("(local*5 global)*10 local*2", "(5 local, 1 global) x 10, then 2 local"),
        ("a b a b a", "(1 a, 1 b) x 2, then 1 a"),
    ],
)
def test_an_order_in_words(order, said):
    assert layers(order) == said


def test_branches_that_are_added_together_and_variants_that_lack_one():
    lines = words(page("gpt-j-6b"))
    assert "+ feedforward" in lines
    assert "around them: norm before" in lines
    routed = words(page("deepseek-v3"))
    assert "routed: as dense, but experts norm before; width 2,048, experts 256, chosen 8" in routed
    assert "without feedforward" in routed


def test_what_was_changed_is_said_and_can_be_typed_again(call):
    change = "decoder.global.attention.kv_heads=4"
    shown = words(call("show", "gemma-3-27b", "--set", change).stdout)
    assert f"gemma-3-27b --set {change} (Google, 2025)" in shown
    assert f"anyformer cost gemma-3-27b --set {change}" in shown
    assert "global: as local, but attention kv heads 4" in shown


def test_the_end_of_the_position_table_is_said(call):
    shown = words(call("show", "gpt2", "--length", "8k").stdout)
    assert "longest input 1,024 positions" in shown
    assert "The decoder's position table ends at 1,024, so it cannot be run at 8,192." in shown


def test_a_file_has_its_path_for_a_name(call, tmp_path):
    (tmp_path / "mine.toml").write_text(to_toml(architecture("gpt2")))
    assert call("show", "mine.toml", cwd=tmp_path).stdout.startswith("mine.toml\n")


def test_no_option_is_dropped_in_silence(call, tmp_path):
    both = call("show", "gpt2", "--toml", "--json")
    assert both.returncode == 2
    assert "--toml and --json are different forms" in both.stderr
    drawn = call("show", "gpt2", "--tiny", "--masks", "a.png", "--toml", cwd=tmp_path)
    assert drawn.returncode == 0
    assert (tmp_path / "a.png").exists()
    assert "[decoder" in drawn.stdout


def test_the_values_that_can_be_watched(call):
    lines = call("show", "gemma-3-27b", "--watchable").stdout.splitlines()
    assert "decoder.global[*].attention.weights" in {line.split()[0] for line in lines}
    assert len(lines) == len({line.split()[0] for line in lines}) < 100, "layers of a variant stand once"
    refused = call("show", "gpt2", "--watchable", "--toml")
    assert refused.returncode == 2
    assert "--toml and --watchable are different forms" in words(refused.stderr)


def test_a_part_called_like_its_field_is_said_once():
    text = " ".join(page("dit-xl-2").split())
    assert "mask bidirectional; modulation feedforward" in text
    assert "; modulation modulation" not in text
