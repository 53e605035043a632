"""Tasks of lm-evaluation-harness: the same numbers as through transformers."""

from __future__ import annotations

import importlib.util
import json
import math

import pytest

from anyformer.describe import UserError
from anyformer.evaluation import Asking, check_harness, open_subject, run_tasks
from anyformer.evaluation.harness_tasks import Result, figures
from evaluation.authors import authors_model

harness = pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="the extra eval is not installed")
QUESTIONS = [
    {"question": f"def f{number}(x):\n    return x", "choices": ["+ 1", "- the rest", "z", "* 2\n"], "answer": number % 4}
    for number in range(12)
]
CHOICE = """
task: local_choice
dataset_path: json
dataset_kwargs: {{data_files: {{validation: {path}}}}}
validation_split: validation
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
"""
ROLLING = """
task: local_rolling
dataset_path: json
dataset_kwargs: {{data_files: {{validation: {path}}}}}
validation_split: validation
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{text}}}}"
metric_list: [{{metric: word_perplexity}}, {{metric: byte_perplexity}}, {{metric: bits_per_byte}}]
"""
UNTIL = """
task: local_until
dataset_path: json
dataset_kwargs: {{data_files: {{validation: {path}}}}}
validation_split: validation
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["5"], max_gen_toks: 12, do_sample: false}}
metric_list: [{{metric: exact_match}}]
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The YAML of three tasks, with their data beside them."""
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in QUESTIONS))
    texts = [{"text": "def f(x):\n    return x\n" * number} for number in range(1, 5)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(each) + "\n" for each in texts))
    for name, text, data in (
        ("choice", CHOICE, "questions"), ("rolling", ROLLING, "texts"), ("until", UNTIL, "questions"),
    ):  # fmt: skip
        (tmp_path / f"{name}.yaml").write_text(text.format(path=tmp_path / f"{data}.jsonl"))
    return [str(tmp_path / f"{name}.yaml") for name in ("choice", "rolling", "until")]


@harness
def test_a_local_task_gives_the_numbers_of_transformers(first, files, tmp_path):
    """Sums over contexts longer than the model reads, texts of several windows, and greedy continuations."""
    import lm_eval
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from anyformer import huggingface
    from anyformer.evaluation.harness import AnyformerLM

    subject = open_subject(first)
    huggingface.export(subject.model, tmp_path / "exported", tokenizer=subject.tokenizer, length=subject.length)
    theirs = HFLM(
        pretrained=AutoModelForCausalLM.from_pretrained(tmp_path / "exported"),
        tokenizer=AutoTokenizer.from_pretrained(tmp_path / "exported"), batch_size=3, device="cpu",
    )  # fmt: skip
    ours = AnyformerLM(subject, most=128)
    assert theirs.max_length == ours.max_length == subject.length

    def asked(kind, *arguments):
        return [Instance(kind, {}, given, number) for number, given in enumerate(arguments)]

    pairs = [("def f(x):", " return"), ("a " * 40, "b"), ("a " * 40, "c"), ("", "def"), ("x = 1 ", "+ 2"), ("y", "z" * 31)]
    for (one, greedy), (other, also) in zip(
        ours.loglikelihood(asked("loglikelihood", *pairs), disable_tqdm=True),
        theirs.loglikelihood(asked("loglikelihood", *pairs), disable_tqdm=True), strict=True,
    ):  # fmt: skip
        assert one == pytest.approx(other, rel=1e-6)
        assert greedy == also
    rolling = [(text,) for text in ("short", "def f(x):\n" * 9, "é" * 33)]
    assert ours.loglikelihood_rolling(asked("loglikelihood_rolling", *rolling), disable_tqdm=True) == pytest.approx(
        theirs.loglikelihood_rolling(asked("loglikelihood_rolling", *rolling), disable_tqdm=True), rel=1e-6
    )
    settings = {"until": ["5", "ab"], "max_gen_toks": 12, "do_sample": False}
    until = [(text, settings) for text in ("def f(x)", "a", "long " * 20, "return x + ")]
    assert ours.generate_until(asked("generate_until", *until), disable_tqdm=True) == theirs.generate_until(
        asked("generate_until", *until), disable_tqdm=True
    )
    mine = {(each.task, each.metric): each.value for each in run_tasks(subject, files)}
    found = lm_eval.simple_evaluate(
        theirs, tasks=files, task_manager=TaskManager(include_defaults=False), bootstrap_iters=10, batch_size=3
    )
    expected = {(each.task, each.metric): each.value for each in figures(found["results"])}
    assert mine == pytest.approx(expected, rel=1e-6)
    assert {task for task, _ in mine} == {"local_choice", "local_rolling", "local_until"}
    assert all(math.isfinite(value) for value in mine.values())


@harness
@pytest.mark.parametrize("frame", ["begin", "both", "none"])
def test_frames_chats_and_answered_questions_are_those_of_the_harness(frame, files, tmp_path_factory, tmp_path):
    """A model of authors: what its tokenizer adds, an empty context, special tokens in a chat, examples before a question."""
    import lm_eval
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from anyformer.evaluation.harness import AnyformerLM

    made = authors_model(tmp_path_factory.mktemp("authors"), frame)
    theirs = HFLM(
        pretrained=AutoModelForCausalLM.from_pretrained(made), tokenizer=AutoTokenizer.from_pretrained(made), batch_size=2,
        device="cpu",
    )  # fmt: skip
    subject = open_subject(made)
    ours = AnyformerLM(subject)
    said = [("the model", " is"), ("", "the time"), ("<s>say two", " three"), ("say ", "two"), ("", "<s>the")]
    asked = [Instance("loglikelihood", {}, each, number) for number, each in enumerate(said)]
    for (one, greedy), (other, also) in zip(
        ours.loglikelihood(asked, disable_tqdm=True), theirs.loglikelihood(asked, disable_tqdm=True), strict=True
    ):
        assert (one, greedy) == (pytest.approx(other, rel=1e-6), also)
    rolling = [Instance("loglikelihood_rolling", {}, (text,), 0) for text in ("say two", "of the time " * 9, "time")]
    assert ours.loglikelihood_rolling(rolling, disable_tqdm=True) == pytest.approx(
        theirs.loglikelihood_rolling(rolling, disable_tqdm=True), rel=1e-6
    )
    chat = [{"role": "system", "content": "say"}, {"role": "user", "content": "two"}, {"role": "assistant", "content": "of "}]
    for prompt in (True, False):
        assert ours.apply_chat_template(chat, prompt) == theirs.apply_chat_template(chat, prompt)
    settings = {"num_fewshot": 2, "apply_chat_template": True, "fewshot_as_multiturn": True, "system_instruction": "say two"}
    found = lm_eval.simple_evaluate(
        theirs, tasks=files[:1], task_manager=TaskManager(include_defaults=False), bootstrap_iters=10, batch_size=2, **settings
    )
    expected = {(each.task, each.metric): each.value for each in figures(found["results"])}
    for asking, changed in ((Asking(2, True, True, "say two"), False), (Asking(), True)):
        mine = {(each.task, each.metric): each.value for each in run_tasks(subject, files[:1], asking=asking)}
        assert changed or mine == pytest.approx(expected, rel=1e-6)


@harness
def test_tasks_that_are_not_there_are_refused(first, files):
    subject = open_subject(first)
    with pytest.raises(UserError, match=r"nowhere\.yaml: no such file"):
        run_tasks(subject, ["nowhere.yaml"])


@harness
def test_settings_of_generation_that_are_not_known_are_refused():
    from anyformer.evaluation.harness import ContinuationRequest

    asked = ContinuationRequest.of({"until": "x", "max_gen_toks": 5, "do_sample": True, "temperature": 0.7, "top_k": 3})
    assert (asked.until, asked.most, asked.sampling.temperature, asked.sampling.top_k) == (("x",), 5, 0.7, 3)
    assert ContinuationRequest.of({}).sampling.temperature == 0
    with pytest.raises(UserError, match="num_beams = 4 is not known"):
        ContinuationRequest.of({"num_beams": 4})


@harness
def test_an_encoder_has_no_likelihood_of_text(masked, files):
    with pytest.raises(UserError, match="model of the next token"):
        run_tasks(open_subject(masked), files[:1])


def test_the_harness_is_asked_for_in_words(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'anyformer\[eval\]'"):
        check_harness()


def test_the_table_of_the_harness_becomes_figures():
    table = {"arc": {"alias": "arc", "acc,none": 0.5, "acc_stderr,none": 0.1, "f1,strict": 1.0, "f1_stderr,strict": "N/A"}}
    assert figures(table) == [Result("arc", "acc", 0.5, 0.1), Result("arc", "f1 (strict)", 1.0, None)]
