"""Data of a task: train and test are apart by construction, rows depend on their number alone, bad lengths are refused."""

from __future__ import annotations

import numpy as np
import pytest

from anyformer.data import prepare
from anyformer.describe import DescriptionError, UserError, from_toml, to_toml
from anyformer.tasks import MQAR, NOTHING, Copying, Draws, ModularAddition, Parity, Sorting, Task, TaskData
from anyformer.tasks.data import is_held_out
from anyformer.text import DataError

FEW = {"modular_addition": {"modulus": 11}, "parity": {}, "copying": {"letters": 2}, "memorisation": {"keys": 3, "values": 3}}


def rows_of(data: TaskData, rows: int, seed: int, length: int, *, test: bool) -> set[tuple[int, ...]]:
    made = data.drawn(np.arange(rows), seed, length, test=test)
    return {tuple(row[row != NOTHING].tolist()) for row in made.tokens}


@pytest.mark.parametrize("kind", FEW)
def test_no_sequence_is_in_both_splits(kind):
    """Of so few different sequences all are drawn, by several seeds and in rows of several lengths."""
    data = TaskData(task=Task.kinds[kind].parse(FEW[kind]), shortest=3, longest=3 if kind == "modular_addition" else 7)
    test = rows_of(data, 500, 0, 7, test=True) | rows_of(data, 200, 0, 9, test=True)
    train = set[tuple[int, ...]]()
    for seed in range(4):
        train |= rows_of(data, 1000, seed, 7, test=False)
    train |= rows_of(data.but(shortest=3, longest=3), 500, 9, 16, test=False)
    assert test
    assert train
    assert not test & train


def test_the_table_of_sums_is_cut_in_two_and_nothing_is_lost():
    data = TaskData(task=ModularAddition(modulus=11), held_out=0.5)
    train, test = (rows_of(data, 3000, 0, 3, test=test) for test in (False, True))
    assert len(train) + len(test) == 121
    assert 40 < len(test) < 81


def test_the_held_out_share_is_that_of_all_sequences():
    made = Copying().draw(Draws.of(np.arange(20000), 0), 20)
    for share in (0.01, 0.125, 0.5, 0.9):
        assert is_held_out(made.tokens, share).mean() == pytest.approx(share, abs=0.015)


def test_padding_changes_no_split():
    tokens = Copying().draw(Draws.of(np.arange(100), 0), 12).tokens
    wider = np.pad(tokens, ((0, 0), (0, 5)), constant_values=NOTHING)
    assert (is_held_out(tokens, 0.3) == is_held_out(wider, 0.3)).all()


def test_a_row_depends_on_its_number_and_seed_alone_and_held_out_ones_on_no_seed():
    data = TaskData(task=Parity(), shortest=3)
    numbers = np.array([4, 900, 4, 17])
    rows = data.drawn(numbers, 3, 16, test=False).tokens
    assert (rows[:1] == data.drawn(numbers[:1], 3, 16, test=False).tokens).all()
    assert (rows[0] == rows[2]).all()
    assert (rows != data.drawn(numbers, 4, 16, test=False).tokens).any()
    assert (data.drawn(numbers, 3, 16, test=True).tokens == data.drawn(numbers, 4, 16, test=True).tokens).all()


def test_lengths_are_drawn_evenly_from_shortest_to_longest():
    data = TaskData(task=Parity(), shortest=9, longest=12)
    sizes = (data.drawn(np.arange(4000), 0, 16, test=False).tokens != NOTHING).sum(1)
    counts = np.bincount(sizes, minlength=17)
    assert counts[9:13].sum() == 4000
    assert counts[9:13].min() > 900


@pytest.mark.parametrize(
    ("fields", "length", "message"),
    [
        ({"task": {"kind": "mqar", "pairs": 8}}, 23, "takes 24 positions at least, and sequences would have 23"),
        ({"task": "parity", "longest": 9}, 8, "data.longest = 9 is longer than a row, length = 8"),
        (
            {"task": {"kind": "induction", "letters": 10}, "longest": 16},
            32,
            "fills 15 positions at most, and data.longest = 16",
        ),
        ({"task": "parity", "shortest": 9}, 8, "data.shortest = 9 is more than the longest sequence of a row, 8"),
    ],
)
def test_lengths_that_the_task_does_not_have_are_refused(fields, length, message):
    with pytest.raises(DataError, match=message):
        TaskData.parse(fields).lengths(length)


def test_a_split_without_a_sequence_is_refused():
    data = TaskData(task=Parity(), longest=1, held_out=0.01)
    with pytest.raises(DataError, match="has too few sequences of 1 to 1 positions: none of them is held out"):
        data.drawn(np.arange(2), 0, 8, test=True)


def test_data_of_a_task_is_a_value():
    data = TaskData.parse({"task": {"kind": "mqar", "pairs": 4}, "test": 10})
    assert from_toml(TaskData, to_toml(data)) == data
    assert TaskData.parse({"task": "parity"}).plain()["task"] == "parity"
    with pytest.raises(DescriptionError, match="shortest = 5 is more than longest = 4"):
        TaskData.parse({"task": "parity", "shortest": 5, "longest": 4})
    with pytest.raises(DescriptionError, match="kind = 'bytes' is for text"):
        TaskData.parse({"task": "parity", "tokenizer": {"kind": "bytes"}})


def test_a_corpus_is_its_symbols_and_a_digest_of_what_is_made():
    corpus, same, other = (prepare(TaskData(task=Copying(letters=letters))) for letters in (3, 3, 4))
    assert [corpus.tokenizer.token(number) for number in range(corpus.tokenizer.vocab_size)] == [
        "<|endoftext|>", "x0", "x1", "x2", "=", "[UNK]",
    ]  # fmt: skip
    assert corpus.tokenizer.encode("x1 = x0 what") == [2, 4, 1, 5]
    assert corpus.digest == same.digest != other.digest
    assert "without end" in corpus.summary()


def test_the_tokenizer_of_a_file_gives_the_numbers_and_must_have_all_symbols(tmp_path):
    prepare(TaskData(task=Copying(letters=5))).tokenizer.save(tmp_path)
    file = {"tokenizer": {"kind": "file", "path": str(tmp_path)}}
    fewer = prepare(TaskData.parse({"task": {"kind": "copying", "letters": 3}, **file}))
    assert fewer.tokenizer.vocab_size == 8
    with pytest.raises(DataError, match="the tokenizer lacks 'x5', the first of 7 symbols"):
        prepare(TaskData.parse({"task": {"kind": "copying", "letters": 6}, **file}))


def test_a_path_is_no_task():
    with pytest.raises(UserError, match="a task is made, not read from my_texts"):
        TaskData.usual(None, ("my_texts",))  # type: ignore[arg-type]
    assert TaskData.usual(None, ("parity",)).task == Parity()  # type: ignore[arg-type]
    assert TaskData.usual(None, ('{kind="mqar",pairs=2}',)).task == MQAR(pairs=2)  # type: ignore[arg-type]


def test_a_task_is_named_on_the_command_line(tmp_path, monkeypatch):
    from anyformer.cli.train import resolve_run

    run = resolve_run("llama-12m", ("parity",), {}, tiny=True)
    assert (run.data.task, run.objective.kind) == (Parity(), "task")
    table = resolve_run("t5-small", ('{kind="copying",letters=9}',), {}, tiny=True)
    assert (table.data.task, table.objective.kind) == (Copying(letters=9), "task_seq2seq")
    (tmp_path / "run.toml").write_text(to_toml(run))
    assert resolve_run(str(tmp_path / "run.toml"), ("sorting",), {"steps": 3}).data.task == Sorting()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parity").write_text("a text of this name\n" * 2000)
    assert resolve_run("llama-12m", ("parity",), {}, tiny=True).objective.kind == "causal"
    with pytest.raises(UserError, match="pear"):
        resolve_run("llama-12m", ('{kind="mqar",pear=2}',), {}, tiny=True)
