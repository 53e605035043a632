"""Moved keys: equal to transformers, or refused by name; and no key that changes results is among those ignored."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from functools import lru_cache
from itertools import repeat

import pytest
import transformers
from benchmarks.drift.asked import ABSENT, EVERYWHERE, HIDDEN, NEVER, SAME
from benchmarks.drift.effects import WORDS
from benchmarks.drift.elsewhere import elsewhere, open_keys
from benchmarks.drift.files import with_move
from benchmarks.drift.keys import askers, bases, keys_of
from benchmarks.drift.known import KNOWN, kept, known
from benchmarks.drift.outcome import BAD, Outcome, TimeIsUpError, within
from benchmarks.drift.sweep import Job, Tried, bad
from benchmarks.drift.table import BOUND, OPEN, PAGE, RESULT, still, written
from benchmarks.drift.table import REFUSED as REFUSED_OTHERS
from benchmarks.drift.trial import Base

from anyformer.describe import UserError
from anyformer.huggingface import Config, HuggingFaceError, read_architecture
from anyformer.huggingface.config import INERT, ONLY
from anyformer.huggingface.vocabulary import KINDS
from anyformer.huggingface.words.activations import ACTIVATIONS
from anyformer.text.conventions import GENERATION_KEYS
from effort import share
from huggingface.cases import CASES
from huggingface.parity import class_of

SMALL = {"vocab_size": 53, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4}
LONG = {"rope_type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [2.0, 2.3, 2.6, 2.9]}
SHORT = {"rope_type": "longrope", "short_factor": [1.0, 1.1], "long_factor": [2.0, 2.3]}
EQUAL = [
    ("llama CausalLM", "rope_parameters", {**LONG, "rope_theta": 300.0, "original_max_position_embeddings": 8}),
    ("llama CausalLM", "rope_parameters", {**LONG, "rope_theta": 300.0, "original_max_position_embeddings": 8, "factor": 3.0}),
    ("llama CausalLM", "rope_scaling", {"rope_type": "linear", "factor": 2.0}),
    ("rwkv CausalLM", "rescale_every", 1),
    ("modernbert-decoder CausalLM", "sliding_window", 2),
    ("nemotron_h CausalLM", "layer_types", ["full_attention", "full_attention"]),
    ("apertus CausalLM", "dtype", "float16"),
    ("t5 Seq2SeqLM", "scale_decoder_outputs", None),
    ("bailing_hybrid CausalLM", "rope_parameters", {**SHORT, "rope_theta": 300.0, "original_max_position_embeddings": 8}),
    ("dots3_note_text CausalLM", "moe_shared_expert_intermediate_size", 4),
    ("wav2vec2 CTC", "hidden_act", "relu"),
]
"""Base, key and a value that once was ignored or refused here."""
REFUSED = [
    ("xglm CausalLM", "pad_token_id", 4),
    ("xlstm CausalLM", "eps", 0.1),
    ("xlstm CausalLM", "inference_state_dtype", "bfloat16"),
    ("minimax_m3_vl_text CausalLM", "index_local_blocks", 4),
    ("t5 Seq2SeqLM", "is_encoder_decoder", False),
    ("switch_transformers Seq2SeqLM", "is_encoder_decoder", False),
    ("gpt2 CausalLM", "add_cross_attention", True),
    ("clip_text_model TextEncoding", "num_key_value_heads", 2),
    ("clip_text_model TextEncoding", "head_dim", 4),
    ("glm4_moe_lite CausalLM", "head_dim", 8),
    ("llama CausalLM", "head_dim", 3),
    ("deepseek_v3 CausalLM", "head_dim", 2),
    ("mistral4 CausalMistral4", "head_dim", 6),
    ("axk1 CausalLM", "num_attention_heads", 5),
    ("umt5 Seq2SeqLM", "scale_decoder_outputs", False),
    ("bert-generation CausalLM", "is_decoder", False),
    ("ernie CausalLM", "is_decoder", False),
    ("unlimited_ocr text", "text_config.head_dim", 16),
    ("fsmt Seq2SeqLM", "tgt_vocab_size", 106),
    ("openai-gpt CausalLM", "max_position_embeddings", 40),
    ("gpt2 CausalLM", "max_position_embeddings", 40),
    ("exaone_moe CausalLM", "topk_group", 1),
    ("unlimited_ocr text", "text_config.topk_method", "group_limited_greedy"),
    ("step3p7 text", "text_config.rope_parameters", {"sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}),
    ("step3p7 text", "text_config.rope_parameters", {"full_attention": {"rope_type": "default", "rope_theta": 100.0}}),
    ("glm46v text", "text_config.head_dim", 9),
    ("glm46v text", "text_config.hidden_size", 48),
    ("glm46v text", "text_config.num_attention_heads", 6),
    ("pix2struct text", "text_config.num_heads", 1),
]
"""Base, key and a value that changes results in transformers and is refused here."""


@lru_cache(maxsize=4)
def base(name: str) -> Base:
    return Base(bases()[name])


@pytest.mark.parametrize(("name", "key", "value"), EQUAL, ids=lambda each: str(each)[:40])
def test_a_key_that_was_ignored_is_read(name, key, value):
    outcome = base(name).tried((key,), {key: value})
    assert (outcome.ended, outcome.moves) == ("equal", True), outcome.why


refused = pytest.mark.parametrize(("name", "key", "value"), REFUSED, ids=lambda each: str(each)[:40])


@refused
def test_a_value_that_is_not_computed_is_refused_by_its_key(name, key, value):
    *_, last = path = tuple(key.split("."))
    case = bases()[name]
    moved = with_move(case.config, path, {last: value})
    with pytest.raises(UserError, match=last):
        read_architecture(Config({**moved, "model_type": case.model_type, "architectures": [class_of(case)]}))


@pytest.mark.slow
@refused
def test_the_sweep_says_so(name, key, value):
    *_, last = path = tuple(key.split("."))
    outcome = base(name).tried(path, {last: value})
    assert outcome.ended == "refused by name"
    assert last in outcome.why


@pytest.mark.filterwarnings("ignore:.*attn_config.rope_theta")
def test_a_difference_on_purpose_is_noted():
    outcome = base("dbrx CausalLM").tried(("rope_parameters",), {"rope_parameters": None})
    assert outcome.ended == "noted by name"
    assert "attn_config.rope_theta = 500 is what is computed" in outcome.why


@pytest.mark.filterwarnings("ignore:.*dtype = bfloat16 is what transformers rounds")
@pytest.mark.parametrize(
    "name", ["pegasus Seq2SeqLM", "minimax CausalLM", "fsmt Seq2SeqLM", "roformer MaskedLM", "whisper SpeechSeq2Seq"]
)
def test_what_transformers_rounds_to_16_bits_is_noted(name):
    assert base(name).tried(("dtype",), {"dtype": "bfloat16"}).ended == "noted by name"


def test_tokens_are_those_of_the_table_that_is_read():
    """Of MusicGen that of its decoder: a number of tokens beside it is no table's."""
    assert base("musicgen text").tried(("vocab_size",), {"vocab_size": 4}).ended == "equal"


def test_the_sweep_notices_a_key_that_is_ignored(monkeypatch):
    """A key that no family reads any more, as the length of YaRN would be if it were declared inert."""
    from anyformer.huggingface import words

    monkeypatch.setattr(words.rope, "_with_attention_factor", lambda given: {k: given[k] for k in given if k[0] != "m"})
    table = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 300.0, "mscale": 0.7, "mscale_all_dim": 1.3}
    outcome = base("llama CausalLM").tried(("rope_parameters",), {"rope_parameters": table})
    assert outcome.ended == "drift"


def test_fp32_within_a_class_is_rounding_and_another_activation_is_none(monkeypatch):
    """Muse Spark turns by angles in fp32 whatever its type; with gelu that shows beyond the bound, and only there."""
    of = base("muse_spark text")
    path, move = ("text_config", "hidden_act"), {"hidden_act": "gelu"}
    assert of.tried(path, move).ended == "equal"
    monkeypatch.setitem(ACTIVATIONS, "gelu", "gelu_tanh")
    assert of.tried(path, move).ended == "drift"


def test_a_value_beside_the_keys_of_another_case_is_refused_by_its_key():
    case = next(case for case in CASES if case.model_type == "deberta" and case.config.get("relative_attention"))
    outcome = Base(case).tried(("pos_att_type",), {"pos_att_type": []})
    assert outcome.ended == "refused by name"
    assert "pos_att_type is empty beside relative_attention = true" in outcome.why


NOTHING = [
    ("llama CausalLM", "chunk_size_feed_forward", 1, NEVER),
    ("llama CausalLM", "label2id", {"no": 0}, SAME),
    ("llama CausalLM", "gradient_checkpointing", 2, EVERYWHERE),
    ("llama CausalLM", "attention_dropout", 0.3, WORDS["training"]),
    ("llama CausalLM", "initializer_range", 0.5, WORDS["first values"]),
    ("llama CausalLM", "output_hidden_states", True, WORDS["outputs"]),
    ("mixtral CausalLM", "router_aux_loss_coef", 0.5, WORDS["loss"]),
    ("albert Model", "classifier_dropout_prob", 0.3, ABSENT),
    ("albert SequenceClassification", "problem_type", "regression", HIDDEN),
    ("tipsv2_text_model TextEncoding", "pooling_epsilon", 0.1, WORDS["outputs"]),
]
"""Base, key, a value that moves no logit, and why."""


@pytest.mark.parametrize(("name", "key", "value", "why"), NOTHING, ids=lambda each: str(each)[:40])
def test_it_is_said_why_a_key_moves_nothing(name, key, value, why):
    assert base(name).tried((key,), {key: value}) == Outcome("equal", why, moves=False)


@pytest.mark.parametrize("value", ["gelu", "swigluoai"])
def test_an_activation_that_a_class_sets_to_its_own_is_ignored(value):
    """Step 3.7's text model computes silu, whatever its configuration says."""
    outcome = base("step3p7 text").tried(("text_config", "hidden_act"), {"hidden_act": value})
    assert outcome == Outcome("equal", SAME, moves=False)


def test_classes_that_ask_for_a_key_are_read_from_their_source():
    asks = askers("albert")["classifier_dropout_prob"]
    tasks = {"AlbertForSequenceClassification", "AlbertForTokenClassification", "AlbertForMultipleChoice"}
    assert asks == {"AlbertSOPHead", *tasks}
    assert "" in askers("falcon_h1")["ssm_multipliers"], "a function asks for it"


def test_a_key_that_moves_nothing_is_moved_beside_the_keys_of_another_case():
    """The activation of DeBERTa's pooler, which its classifier of texts alone has."""
    name, key = "deberta MaskedLM", "pooler_hidden_act"
    still = Tried(name, key, "{}", "equal", ABSENT, moves=False)
    others = [replace(still, key="a", why=NEVER), replace(still, key="b", why="it moves the loss"), replace(still, moves=True)]
    assert open_keys([still, *others[:2]]) == (key,)
    assert open_keys([still, *others]) == ()
    found = list(elsewhere(name, bases()[name], open_keys([still]), keys_of(name)))
    assert [(each.key, each.ended, each.moves) for each in found] == [(key, "equal", True)]
    assert " beside deberta-SequenceClassification-" in found[0].value


def test_what_a_class_only_keeps_is_read_from_its_source():
    assert kept("dbrx") == {"emb_pdrop"}
    assert not kept("llama")


@pytest.mark.slow
@pytest.mark.parametrize(("key", "kind"), [(key, kind) for of in KNOWN.values() for key in of for kind in of[key]])
def test_what_is_said_to_move_nothing_moves_nothing(key, kind):
    name = next(name for name in bases() if name.partition(" ")[0] == kind)
    found = [base(name).tried((key,), move) for move in base(name).moves((key,), keys_of(name)[key,])]
    assert {outcome.ended for outcome in found} <= {"equal", "refused by name", "transformers refuses"}
    assert not any(outcome.moves for outcome in found if outcome.ended == "equal")
    assert known(kind, key)


def test_a_value_is_given_up_after_seconds_of_the_processor_and_not_of_the_clock():
    with within(0.05):
        time.sleep(0.1)
    with pytest.raises(TimeIsUpError), within(0.05):
        next(each for each in repeat(0) if each)


def test_a_job_is_done_by_as_many_values_or_more():
    job, known = Job("a B", (("x",),)), {}
    one = replace(job, values=1)
    known["a B", "", one.digest] = ...
    assert one.is_done(known, quick=False)
    assert not job.is_done(known, quick=False)
    assert replace(job, values=1).is_done({("a B", "", job.digest)}, quick=False)


def test_what_no_code_asks_for_moves_nothing_once_models_are_made(monkeypatch):
    """The short way holds on the long one."""
    of, usual = base("t5 Seq2SeqLM"), keys_of("t5 Seq2SeqLM")
    short = {path: move for path in usual for move in of.moves(path, usual[path])[:1]}
    asks_none = [path for path, move in short.items() if of.tried(path, move).why in (NEVER, HIDDEN, SAME)]
    assert len(asks_none) > 50
    monkeypatch.setattr(Base, "_never_asked", lambda *_: "")
    for path in random.Random(0).sample(asks_none, share(8)):
        outcome = of.tried(path, short[path])
        assert (outcome.ended, outcome.moves) == ("equal", False), path


def test_every_key_that_moves_nothing_has_a_reason_in_the_table():
    def of(key, why, moves):
        return Tried("llama CausalLM", key, "{}", "equal", why, moves)

    values = [of("x", NEVER, False), of("y", "", True), of("y", "", False), of("max_length", "", False), of("z", "", False)]
    values += [of("head_dim", "", False), replace(of("head_dim", "not 3", None), value="3", ended="refused by name")]
    assert still(values) == {
        REFUSED_OTHERS: {"head_dim": "1"},
        NEVER: {"x": "1"},
        BOUND: {"max_length": "1"},
        OPEN: {"z": "llama CausalLM"},
    }


def _sample(count: int, seed: int) -> list[tuple[str, str]]:
    pairs = [(name, ".".join(path)) for name in bases() for path in keys_of(name)]
    return sorted(random.Random(seed).sample(pairs, count))


@pytest.mark.slow
def test_keys_drawn_at_random_are_equal_or_refused_by_name():
    found = []
    for name, key in _sample(400, seed=0):
        of, path = base(name), tuple(key.split("."))
        for move in of.moves(path, keys_of(name)[path])[:2]:
            outcome = of.tried(path, move)
            if outcome.ended in BAD:
                found.append((name, key, str(move), outcome))
    assert not found


def test_the_table_has_no_drift_and_the_page_says_so():
    record = json.loads(RESULT.read_text(encoding="utf-8"))
    assert {end: record["values"][end] for end in BAD} == dict.fromkeys(BAD, 0)
    assert all(bases for bases in record["no logit moves"].get(OPEN, {}).values())
    assert not record["not yet tried"].get("untested"), "every key that no other test moves is tried"
    for of, left in record["not yet tried"].items():
        for base, keys in left.items():
            tried = {key for each in record[of].get(base, {}).values() for key in each.split()}
            assert not tried & set(keys.split()), base
    page = PAGE.read_text(encoding="utf-8")
    assert written(page, record) == page, "run: python -m benchmarks.drift"
    assert bad([Tried("a", "b", "{}", "drift")])


def test_every_key_of_transformers_own_class_is_read_or_said_to_be_inert():
    """Those of the class that all others extend; a model of ours with any of them is refused or says what it does."""
    every = transformers.PreTrainedConfig
    declared = {name for name in every.__annotations__ if not name.startswith("_")}
    classes = {name for name in declared if name in vars(every) and isinstance(vars(every)[name], dict | tuple)}
    of_class = {"base_config_key", "model_type", "sub_configs_defaults", *classes}
    keys = {*(declared - of_class), *every().to_dict()} - {"base_model_tp_plan", "base_model_pp_plan", "base_model_ep_plan"}
    assert {key for key in keys if key not in {*INERT, *ONLY, *KINDS} and key != "model_type"} <= NEITHER


NEITHER = {"attribute_map"}
"""What is no key of a file."""


@pytest.mark.parametrize("key", sorted(ONLY))
def test_what_changes_nothing_at_some_values_is_refused_at_others(key):
    values, why = ONLY[key]
    for value in values:
        read_architecture(Config({"model_type": "llama", **SMALL, key: value}))
    with pytest.raises(HuggingFaceError, match=key) as refused:
        read_architecture(Config({"model_type": "llama", **SMALL, key: "something"}))
    assert why in str(refused.value)


def test_no_key_is_in_two_groups_of_inert_ones():
    assert len(INERT) == len(set(INERT))
    assert not set(INERT) & set(ONLY)


def test_every_key_of_generation_is_left_to_generation():
    known = transformers.GenerationConfig().to_dict().keys() - {"transformers_version", "_from_model_config"}
    known -= {"continuous_batching_config"}  # of a server of transformers' own
    assert known <= {*GENERATION_KEYS, *INERT}
