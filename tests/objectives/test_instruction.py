"""Instruction tuning: which tokens are learnt, and that chats of a row do not see each other."""

from __future__ import annotations

import io
import json
import re
from functools import cache

import numpy as np
import pytest
import torch
from rich.console import Console
from transformers import AutoTokenizer
from typer.testing import CliRunner

from anyformer.catalogue import architecture
from anyformer.catalogue.llama import llama
from anyformer.cli import app
from anyformer.data import IGNORED, Bytes, Chats, PackedRows, RecordBatch, RecordTable, prepare
from anyformer.data.columns import FLAGS, TOKENS
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import change_all
from anyformer.generation import Sampling, generate
from anyformer.generation.text import generate_tokens
from anyformer.model.transformer import build
from anyformer.objectives import InstructionObjective, Setting, loss_of
from anyformer.parts import Causal, Experts, Prefix, RowCapacity
from anyformer.parts.call.reports import Auxiliary
from anyformer.plan import Plan
from anyformer.text import Specials, Tokenizer
from anyformer.text.chat import chat_tokens, prompt_tokens
from anyformer.text.specials import SPEAKING
from anyformer.training import AdamW, Evaluation, Run, train

LLAMA = llama(width=32, depth=2, heads=4, kv_heads=2, ffn=48, vocab=261, tied=True)
PREFIX = change_all(LLAMA, {"decoder.layer.attention.mask": Causal() | Prefix()})


@cache
def bytes_tokenizer() -> Tokenizer:
    return make_tokenizer(Bytes(), list, list, Specials(roles=SPEAKING))


def table_of(*chats: tuple[list[int], list[int]]) -> RecordTable:
    rows = [{"tokens": tokens, "answers": answers} for tokens, answers in chats]
    return RecordTable.of({"tokens": TOKENS, "answers": FLAGS}, rows)


def setting(length: int) -> Setting:
    return Setting(bytes_tokenizer(), length)


FIRST = ([1, 2, 3, 4, 5], [0, 0, 1, 1, 1])
SECOND = ([6, 7, 8], [0, 1, 1])


def test_examples_by_hand():
    batch = RecordBatch(((table_of(FIRST)[0], table_of(SECOND)[0]), (table_of(SECOND)[0],)), np.array([4, 9]))
    examples = InstructionObjective().examples(batch, setting(8))
    none = IGNORED
    assert examples.tokens.tolist() == [[1, 2, 3, 4, 6, 7, 0, 0], [6, 7, 0, 0, 0, 0, 0, 0]]
    # The token before an answer predicts its first one; nothing predicts across two chats.
    assert examples.targets.tolist() == [[none, 3, 4, 5, 7, 8, none, none], [7, 8, *[none] * 6]]
    assert examples.documents.tolist() == [[0, 0, 0, 0, 1, 1, 2, 2], [0, 0, *[1] * 6]]
    assert examples.padding.tolist() == [[False] * 6 + [True] * 2, [False] * 2 + [True] * 6]
    assert examples.rows.tolist() == [4, 9]
    assert examples.count == 7


def test_rows_hold_as_many_chats_as_fit_and_long_ones_are_left_out_or_cut():
    table = table_of(FIRST, SECOND, SECOND, (list(range(20)), [0] * 10 + [1] * 10))
    rows = InstructionObjective().rows(table, setting(6))
    assert sorted(rows.order.tolist()) == [0, 1, 2]
    assert len(rows) == 2
    alone = InstructionObjective(pack=False).rows(table, setting(6))
    assert [alone[n] for n in range(len(alone))] == [[0], [1], [2]]
    cut = InstructionObjective(too_long="cut")
    assert sorted(cut.rows(table, setting(16)).order.tolist()) == [0, 1, 2, 3]
    examples = cut.examples(RecordBatch(((table[3],),), np.array([0])), setting(12))
    assert examples.tokens.tolist() == [list(range(12))]
    assert examples.targets.tolist() == [[IGNORED] * 9 + [10, 11, 12]]


def conversation(count: int):
    generator = np.random.default_rng(count)
    chats = []
    for length in generator.integers(4, 12, count):
        answers = np.zeros(length, dtype=int)
        answers[int(generator.integers(1, length)) :] = 1
        chats.append((generator.integers(0, 256, length).tolist(), answers.tolist()))
    return table_of(*chats)


def test_the_loss_is_the_full_loss_restricted_to_the_answers():
    model, table = build(LLAMA, seed=1).double().eval(), conversation(6)
    objective = InstructionObjective()
    expected = 0.0
    for number in range(len(table)):
        chat = table[number]
        tokens = torch.from_numpy(chat["tokens"].astype(np.int64))[None]
        with torch.no_grad():
            losses = torch.nn.functional.cross_entropy(model(tokens)[0, :-1], tokens[0, 1:], reduction="none")
        expected += float(losses[torch.from_numpy(chat["answers"][1:] == 1)].sum())
    rows = tuple((table[number],) for number in range(len(table)))
    loss = loss_of(objective, model, objective.examples(RecordBatch(rows, np.arange(len(table))), setting(16)), None)
    assert float(loss) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["llama-12m", "qwen3-next-80b-a3b", "gemma-2-2b", "gpt2"])
def test_packed_equals_alone(name):
    tiny = architecture(name, tiny=True).but(mtp=None)
    model, table = build(tiny, seed=2).eval(), conversation(9)
    objective, given = InstructionObjective(), setting(24)
    objective.check(tiny)
    alone = PackedRows.single(np.arange(len(table)))
    packed = objective.rows(table, given)
    assert len(packed) < len(alone)
    losses = []
    with torch.no_grad():
        for rows in (packed, alone):
            batch = RecordBatch(tuple(tuple(table[r] for r in rows[n]) for n in range(len(rows))), np.arange(len(rows)))
            losses.append(float(loss_of(objective, model, objective.examples(batch, given), None)))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_targets_are_what_transformers_would_train(tmp_path):
    chat = [
        {"role": "user", "content": "Say a."},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "Again?"},
        {"role": "assistant", "content": "b, then."},
    ]
    tokenizer = bytes_tokenizer()
    tokenizer.save(tmp_path)
    found = chat_tokens(tokenizer, chat)
    record = {"tokens": found.tokens, "answers": found.learnt.astype(np.uint8)}
    out = AutoTokenizer.from_pretrained(tmp_path).apply_chat_template(chat, return_assistant_tokens_mask=True, return_dict=True)
    examples = InstructionObjective().examples(RecordBatch(((record,),), np.array([0])), setting(80))
    theirs = [token if answer else IGNORED for token, answer in zip(out["input_ids"], out["assistant_masks"], strict=True)]
    targets = examples.targets[0].tolist()
    assert targets[: len(theirs) - 1] == theirs[1:]
    assert set(targets[len(theirs) - 1 :]) == {IGNORED}
    # The first token of each answer, and the end of its turn, are learnt.
    assert [token for token in targets if token != IGNORED] == [
        *tokenizer.encode("a"), tokenizer.special("turn_end"), *tokenizer.encode("b, then."), tokenizer.special("turn_end")
    ]  # fmt: skip


ROWS = Experts(experts=3, chosen=1, width=8, capacity=RowCapacity(tokens=3))


@pytest.mark.parametrize(
    ("architecture", "said"),
    [
        (architecture("bert-base-uncased", tiny=True), "lets every token see"),
        (architecture("t5-small", tiny=True), "one sequence of text"),
        (PREFIX, "as a prefix: set pack = false"),
        (change_all(LLAMA, {"decoder.layer.feedforward.sublayer": ROWS}), "cannot keep apart.*set pack = false"),
        (architecture("qwen3-next-80b-a3b", tiny=True), "leave them out with architecture.mtp = none"),
    ],
)
def test_architectures_that_cannot_are_refused(architecture, said):
    with pytest.raises(ValueError, match=said):
        InstructionObjective().check(architecture)


def test_a_prefix_is_what_stands_before_the_first_answer():
    objective = InstructionObjective(pack=False)
    objective.check(PREFIX)
    two_answers = ([1, 2, 3, 4, 5, 6, 7], [0, 0, 0, 1, 0, 1, 1])
    batch = RecordBatch(((table_of(two_answers)[0],), (table_of(SECOND)[0],)), np.array([0, 1]))
    examples = objective.examples(batch, setting(8))
    assert examples.prefix.tolist() == [3, 1]
    model = build(PREFIX, seed=1).eval()
    with torch.no_grad():
        logits = objective.logits(model, examples, None, Auxiliary())[0, :6]
        assert torch.allclose(logits, model(torch.tensor([[1, 2, 3, 4, 5, 6]]), prefix=torch.tensor([3]))[0], atol=1e-5)
        assert not torch.allclose(logits, model(torch.tensor([[1, 2, 3, 4, 5, 6]]))[0], atol=1e-3)


def test_a_model_that_would_mix_chats_trains_them_alone():
    InstructionObjective(pack=False).check(change_all(LLAMA, {"decoder.layer.feedforward.sublayer": ROWS}))


@pytest.fixture
def next_letters(tmp_path, monkeypatch):
    """Chats that ask for the letter after another one; the question itself cannot be told in advance."""
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "chats.jsonl"
    letters = "abcdefghijklmnopqrstuvwxyz"
    rows = [
        {"messages": [
            {"role": "user", "content": f"{letters[n % 9]}{letters[n * 7 % 26]}"},
            {"role": "assistant", "content": letters[n % 9 + 1]},
        ]}
        for n in range(300)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Run(
        steps=120, batch=8, length=48, data=Chats(paths=(str(path),), tokenizer=Bytes(), validation=0.2),
        objective=InstructionObjective(), optimiser=AdamW(learning_rate=1e-2),
        evaluation=Evaluation(every=200), plan=Plan(precision="fp32", compile="off"), architecture=LLAMA,
    )  # fmt: skip


def test_chats_that_do_not_fit_are_counted(next_letters, tmp_path):
    said = io.StringIO()
    rows = [{"role": "user", "content": "long " * 20}, {"role": "assistant", "content": "a"}]
    with open(next_letters.data.paths[0], "a") as file:
        for n in (1, 2, 3):
            file.write(json.dumps({"messages": [{**turn, "content": turn["content"] * n} for turn in rows]}) + "\n")
    train(next_letters.but(steps=1), tmp_path / "run", console=Console(file=said, width=200))
    counts = re.findall(r"(\d+) of (\d+) (?:training|held-out) records do not fit into length = 48: left out", said.getvalue())
    assert sum(int(left) for left, _ in counts) == 3


def test_a_run_learns_to_answer(next_letters, tmp_path):
    trained = train(next_letters, tmp_path / "run", console=Console(quiet=True))
    model, tokenizer = trained.model, prepare(next_letters.data, progress=False).tokenizer
    asked = prompt_tokens(tokenizer, [{"role": "user", "content": "cq"}])
    end = tokenizer.special("turn_end")
    greedy = Sampling(temperature=0)
    assert tokenizer.decode(generate_tokens(model, [asked], max_tokens=4, sampling=greedy, ends=(end,))[0]) == "d"
    assert generate(model, tokenizer, ["cq", "fa"], max_tokens=4, sampling=greedy, chat=True) == ["d", "g"]
    assert trained.chat
    assert [len(prompt) for prompt in trained.prompts] == [2, 2]
    assert trained.validation.loss < trained.baseline[1] / 2
    out = CliRunner().invoke(app, ["generate", str(tmp_path / "run"), "cq", "--chat", "--temperature", "0"])
    assert out.stdout == "cq\nd\n"
