"""`anyformer help`: every topic that it lists, told from the guides and docstrings as they are, and the nearest names else."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from anyformer.atlas import mechanism_item, mechanisms_called, topic
from anyformer.atlas.glossary import GLOSSARY, glossary, letters
from anyformer.atlas.topic import mechanisms
from anyformer.cli import app
from anyformer.cli.aligned import WIDEST
from anyformer.cli.glossary import explained, passages_with
from anyformer.cli.help_topic import FILE, PASSAGES
from anyformer.cli.pages import lines
from anyformer.cli.topics import VALUES, TopicError, _every, guides, topics
from anyformer.describe import UserError

ROOT = Path(__file__).parents[2]
KEPT = json.loads(FILE.read_text(encoding="utf-8"))


def said(*words: str) -> str:
    """What the command prints; it must succeed."""
    done = CliRunner().invoke(app, ["help", *words])
    assert done.exit_code == 0, done.output
    return done.output


def text_of(name: str) -> str:
    """The pages of the topics of a name."""
    return "\n".join(line.text for topic in topics(name) for line in lines(topic.items, WIDEST))


def test_the_files_of_the_package_are_what_the_guides_say():
    made = runpy.run_path(str(ROOT / "docs" / "make_help.py"))["made"]()
    assert set(made) == {FILE, PASSAGES, GLOSSARY}
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, "run: python docs/make_help.py"


def test_the_list_has_every_guide_and_says_how_to_ask():
    page = said()
    for name, title in guides().items():
        assert name in page
        assert title in page
    assert "anyformer help RMSNorm" in page
    assert set(json.loads(said("--json"))) == {"guides", "values"}


def test_a_guide_is_told_by_its_beginning_a_command_and_its_sections():
    for name, guide in KEPT["guides"].items():
        page = text_of(name)
        assert guide["title"] == page.splitlines()[0]
        assert any(kind == "text" for kind, _ in guide["short"]), f"docs/{name}.md: begin with a sentence"
        assert len(page.splitlines()) <= 60, (
            f"docs/{name}.md: its beginning, until the first heading, is too long for a terminal"
        )
        assert f"docs/{name}.md" in page
        assert "](" not in page.replace("`](", "")


def test_every_value_is_told_with_its_fields():
    for package, kind in _every():
        page = text_of(kind.__name__)
        assert kind.__name__ in page
        assert f"from {package} import" in page
        for field in kind.model_fields:
            assert field == "kind" or f"  {field}" in page, f"{kind.__name__}.{field}"


def test_every_mechanism_leads_to_its_part():
    for name, (where, how) in KEPT["mechanisms"].items():
        *_, found = topics(name)
        page = " ".join(line.text.strip() for line in lines(found.items, 10**6))
        assert where.partition(":")[2] in found.title, name
        assert how in page


def test_one_word_may_name_several():
    assert [each.name for each in topics("causal")] == ["Causal", "CausalObjective"]
    assert said("causal").count("More: from anyformer") == 2


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("rms_norm", "RMSNorm"),
        ("rms-norm", "RMSNorm"),
        ("GQA", "grouped-query attention"),
        ("Sliding  Window", "sliding window"),
    ],
)
def test_spellings_and_initials(words, name):
    assert topics(words)[0].name == name


def test_every_heading_of_the_atlas_is_known():
    for each in mechanisms():
        assert topics(each.name), each.name
        assert mechanisms_called(each.name), each.name


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("pre-norm", "pre-norm"),
        ("sink", "sinks"),
        ("nope", "layers without positions (NoPE)"),
        ("tied embedding", "tied embeddings"),
        ("mixtures of experts", "mixtures of experts"),
        ("rotary positions (RoPE)", "rotary positions (RoPE)"),
        ("MTP", "multi-token prediction (MTP)"),
        ("V-norm", "norms of values"),
    ],
)
def test_the_words_of_the_atlas_are_told_from_it(words, name):
    (found,) = topics(words)
    (own,) = mechanisms_called(name)
    assert (found.name, found.more) == (name, f"More: anyformer atlas {own.topic}")
    sentences = " ".join(text_of(words).split())
    assert all(" ".join(each.text.split()) in sentences for each in mechanism_item(own).sentences)


@pytest.mark.parametrize(("word", "name"), [("gqa", "grouped-query attention (GQA)"), ("moe", "mixtures of experts")])
def test_the_atlas_tells_of_one_mechanism(word, name):
    done = CliRunner().invoke(app, ["atlas", word])
    assert done.output.splitlines()[0] == name
    (own,) = mechanisms_called(name)
    assert done.output.splitlines()[-1] == f"More: anyformer atlas {own.topic}"
    data = json.loads(CliRunner().invoke(app, ["atlas", word, "--json"]).output)
    assert data["name"] == own.topic
    with pytest.raises(UserError, match="did you mean 'ALiBi'"):
        topic("alibbi")


@pytest.mark.parametrize(
    ("words", "name"), [("positions", "positions"), ("Extrapolation", "positions"), ("recurrent mixers", "recurrence")]
)
def test_a_topic_of_the_atlas_goes_first(words, name):
    found = topics(words)[0]
    assert (found.name, found.title) == (name, topic(name).title)
    page = " ".join(text_of(words).split())
    assert topic(name).question in page
    assert f"anyformer atlas {name}" in found.more
    assert CliRunner().invoke(app, ["atlas", words]).output.splitlines()[0] == found.title


def test_a_section_of_the_notes_is_told_by_all_its_rows():
    rows = KEPT["sections"]["Sparse attention"]
    (found,) = topics("sparse attention")
    assert len(rows) > 5
    assert found.title == "Sparse attention, in the notes"
    assert all(f"{name}: {thing}" in text_of("sparse attention") for name, thing, _ in rows)


def test_a_class_and_a_word_go_before_a_section():
    assert [each.name for each in topics("linear attention")] == ["LinearAttention"]
    assert [each.name for each in topics("KV cache")] == ["decode state"]


@pytest.mark.parametrize("word", ["sliding", "local", "windows"])
def test_a_word_of_a_name_leads_to_the_mechanism(word, call):
    assert topics(word)[0].name == "sliding windows"
    assert call("atlas", word).stdout.startswith("sliding windows\n")


def test_a_command_is_told_as_after_it():
    assert said("cost") == CliRunner().invoke(app, ["cost", "--help"]).output


def test_an_unknown_topic_is_refused_with_the_nearest(call):
    with pytest.raises(TopicError, match="did you mean 'RMSNorm'"):
        topics("rmsnrm")
    with pytest.raises(TopicError, match=r"topics with a word of it: .*depth"):
        topics("unheard of depth")
    refused = call("help", "no such thing")
    assert refused.returncode == 2
    assert "no topic is called 'no such thing'" in refused.stderr


USUAL = """
KV cache; logit lens; decode state; FLOPs; MFU; LoRA; HFU; roofline; latency; throughput; TTFT; prefill; batch size; d_model;
context length; hidden size; active parameters; MLP; self-attention; flash attention; SDPA; attention sinks; local attention;
positional encoding; activation function; routing; load balancing; capacity factor; expert choice; SSM; DeltaNet; hybrid;
decoder-only; MLM; next-token prediction; tokenizer; BPE; weight tying; logits; soft cap; perplexity; bits per byte; nats;
temperature; top-p; beam search; greedy; speculative decoding; FSDP; ZeRO; tensor parallelism; gradient checkpointing; bf16;
quantization; GPTQ; optimizer; learning rate; weight decay; warmup; gradient clipping; muP; scaling laws; Chinchilla; SFT;
RLHF; distillation; MTBF; GPU hours; seed; activation patching; path patching; steering vector; induction head; circuits;
steer; EAP; edge attribution patching;
SAE; superposition; probe; attention pattern; hooks; TransformerLens; PagedAttention; vLLM; chat template; ViT; multimodal;
needle in a haystack; p-value; ring buffer; EOS; packing; micro-batch; spike; DSA; looped transformer; drop path; BERT; EMA;
energy; hash; upcycling; prefix tuning; label smoothing; DeepNorm; token budget; GGUF; llama.cpp; few-shot; interpretability
"""
"""What students, architects and those who look inside ask for."""


def test_a_usual_word_is_explained_with_a_page_to_read_on():
    for word in " ".join(USUAL.split()).split("; "):
        found = topics(word)
        assert any("docs/" in each.more or "anyformer " in each.more for each in found), word
        assert all("](" not in line.text for each in found for line in lines(each.items, WIDEST)), word


def test_every_entry_of_the_glossary_is_told_by_each_of_its_names_once():
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert len(glossary()) == text.count("\n- "), "an entry is: - **name**, **name**: text [page](page.md#heading)"
    names = [name for entry in glossary() for name in entry.names]
    assert len({letters(name) for name in names}) == len(names), "a name of the glossary stands in one spelling and entry"
    assert not set(names) & set(typer.main.get_command(app).commands), "a command's name is the command's help"
    for entry in glossary():
        for name in entry.names:
            (told,) = explained(name)
            assert [each.text for each in told.page] == [f"{', '.join(entry.names)}: {entry.text}", ""]
            assert entry.place in told.more, name


def test_the_parts_that_the_glossary_names_are_there():
    for entry in glossary():
        for name in re.findall(r"`([A-Z]\w+)\b", entry.text):
            assert name in ("B", "T", "D", "H", "K", "E", "F", "L", "Plan") or topics(name), entry


def test_a_word_of_the_guides_is_told_by_the_paragraphs_most_about_it():
    found = passages_with("roofline")
    assert all("roofline" in each.text.lower() for each in found)
    assert passages_with("Roof-Lines") == found
    assert passages_with("regions")[0].guide == "scale", "below a heading that has it"
    assert passages_with("roof") == passages_with("!") == []
    (told,) = topics("energy")
    assert "docs/scale.md: What is counted" in text_of("energy")
    assert told.more.startswith(("More in docs/", "Also in docs/"))


def test_the_plural_and_entries_of_the_catalogue_are_found():
    assert topics("KV caches")[0].name == topics("kv_cache")[0].name == "decode state"
    assert topics("BERT")[0].more == "More: anyformer show bert-base-uncased; anyformer list bert"


def test_a_word_of_docstrings_alone_is_told_by_their_values():
    (found,) = topics("DeepNorm")
    assert found.more == "More: anyformer help Step"


def test_a_part_of_a_slot_says_how_it_is_asked_for():
    page = " ".join(text_of("ALiBi").split())
    assert "`Attention(heads=H, score=Score(terms=ALiBi(...)))`" in page
    assert """`--set 'decoder.layer.attention.score_bias={kind="alibi"}'`""" in page
    assert "Asked for by" not in text_of("RMSNorm")


def test_packages_of_values_are_there():
    assert {package for package, _ in _every()} == set(VALUES)
