"""What was asked before is told again as it was, and never what is no longer so."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import tomllib
import warnings
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anyformer.cache import Cache, code, contents, ship
from anyformer.cache.shipped import shipped as code_shipped
from anyformer.cli import answering, app, shipping
from anyformer.cli.answering import Answer, key_of
from anyformer.cli.pages import Figures, PageLine, PageTable, Paragraph, Verbatim, lines, parsed, plain
from anyformer.costs.figures import count
from anyformer.costs.rows import FigureRow, Section
from anyformer.describe import Notice, UserError, plugins

QUESTIONS = (
    "show gpt2",
    "cost gpt2 llama-3-8b --length 1k",
    "diff gpt2 llama-3-8b",
    "plan llama-3-8b --gpus 1",
    "match gpt2 --params 60M",
)
DAMAGES = {
    "empty": lambda text: "",
    "cut off": lambda text: text[:-1],
    "another figure": lambda text: text.replace("124,", "125,"),
    "no seal": lambda text: text.partition("\n")[2],
}


@pytest.fixture
def keeping(monkeypatch, tmp_path):
    """Answers are kept, in a place of its own; nothing is shipped, and nothing in this process has to do with plug-ins."""
    monkeypatch.setattr(answering, "key_of", key_of)
    monkeypatch.setattr(answering, "contents", lambda: "these files")
    monkeypatch.setattr(answering, "shipped", lambda key: None)
    monkeypatch.setattr(plugins, "_tried", set())
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "answers"


@pytest.fixture
def once(monkeypatch):
    """Call it, and nothing is worked out any more."""

    def refused(ask, options):
        raise AssertionError(f"worked out again: {options}")

    return lambda: monkeypatch.setattr(answering, "_shown", refused)


def said(question, columns=80):
    result = CliRunner().invoke(app, question.split(), env={"COLUMNS": str(columns)})
    assert not isinstance(result.exception, Exception) or isinstance(result.exception, UserError), result.exception
    return result.exit_code, result.output


def asked_anew(question):
    return isinstance(CliRunner().invoke(app, question.split()).exception, AssertionError)


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_is_told_again_at_any_width(question, keeping, once, monkeypatch):
    with monkeypatch.context() as anew:
        anew.setattr(answering, "key_of", lambda *_: None)
        narrow = said(question, 60)
    wide = said(question, 400)
    once()
    assert said(question, 60) == narrow
    assert said(question, 400) == wide
    assert narrow[0] == (question == "plan llama-3-8b --gpus 1"), "what does not fit exits with 1 again"
    assert len([*keeping.iterdir()]) == 1


def test_an_answer_that_is_told_again_imports_no_torch(keeping, monkeypatch):
    monkeypatch.setattr(answering, "contents", contents)
    for question in QUESTIONS:
        said(question)
    again = (
        "import sys; from anyformer.cli import app\n"
        f"for question in {QUESTIONS}: app(question.split(), standalone_mode=False)\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} & {'torch', 'numpy', 'transformers', 'matplotlib'}))"
    )
    told = subprocess.run([sys.executable, "-c", again], capture_output=True, text=True, check=True).stdout
    assert "124,439,808" in told
    assert told.splitlines()[-1] == ""


def test_json_is_told_again(keeping, once):
    _, first = said("cost gpt2 --mode prefill --json")
    once()
    assert said("cost gpt2 --mode prefill --json") == (0, first)
    assert json.loads(first)[0]["name"] == "gpt2"


def test_another_question_is_worked_out(keeping, once):
    said("show gpt2")
    once()
    assert not asked_anew("show gpt2 --batch 1"), "a default that is given is the same question"
    for other in ("show gpt2 --batch 2", "show gpt2-medium", "show gpt2 --tiny", "show gpt2 --json"):
        assert asked_anew(other)
    assert asked_anew("show gpt2 --set decoder.layer.attention.kv_heads=4")


def test_other_code_or_libraries_are_another_question(keeping, monkeypatch):
    def key(*libraries):
        return key_of("show", {"what": "gpt2"}, libraries)

    first = key(), key("torch"), key("torch", "numpy")
    assert len({*first}) == 3
    assert (key(), key("torch"), key("torch", "numpy")) == first
    with monkeypatch.context() as other:
        other.setattr(answering, "_version", lambda name: f"another {name}")
        assert key() == first[0]
        assert key("torch") != first[1]
    monkeypatch.setattr(answering, "contents", lambda: "other files")
    assert not {key(), key("torch"), key("torch", "numpy")} & {*first}


def test_figures_whose_library_is_not_asked_for_trace_nothing(monkeypatch, keeping):
    """`show`, `diff` and `match` are kept whatever torch is: it enters by what is traced."""

    def refused(question):
        raise AssertionError("traced")

    monkeypatch.setattr("anyformer.costs.saved.tracing.trace", refused)
    monkeypatch.setattr("anyformer.costs.saved.trace_cache._known", {})
    for question in ("show gpt2", "diff gpt2 llama-3-8b", "match gpt2 --params 60M"):
        assert said(question)[0] == 0
    assert isinstance(CliRunner().invoke(app, ["cost", "gpt2", "--mode", "train"]).exception, AssertionError)


def test_files_and_plug_ins_are_asked_anew(keeping, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert key_of("show", {"what": "gpt2", "masks": None}, ()) is not None
    assert key_of("show", {"what": "gpt2", "masks": tmp_path / "new.png"}, ()) is None
    (tmp_path / "gpt2").mkdir()
    assert key_of("show", {"what": "gpt2"}, ()) is None, "a directory comes before the catalogue"
    assert key_of("cost", {"names": ["llama-3-8b", "gpt2"]}, ()) is None
    monkeypatch.setenv(plugins.VARIABLE, "mine.py")
    assert key_of("show", {"what": "llama-3-8b"}, ()) is None


@pytest.mark.parametrize("what", ["lasting", "told", "plug-in", "code", "act"])
def test_what_does_not_last_is_not_kept(what, keeping, monkeypatch):
    @answering.answering()
    def run(name):
        if what == "told":
            warnings.warn("something", Notice, stacklevel=1)
        if what == "plug-in":
            plugins._tried.add(("theirs", "anyformer.parts"))
        if what == "code":
            monkeypatch.setattr(answering, "contents", lambda: "written meanwhile")
        return None if what == "act" else Answer([PageLine(name)], lasting=what != "lasting")

    with pytest.warns(Notice) if what == "told" else contextlib.nullcontext():
        run(name="gpt2")
    assert not keeping.exists()


@pytest.mark.parametrize("question", ["cost gpt2 --mode prefill", "plan gpt2 --gpus 1", "plan gpt2 --serve --json"])
def test_this_machines_own_speed_is_not_kept(question, keeping, monkeypatch):
    from anyformer.costs.hardware import HARDWARE

    monkeypatch.setattr("anyformer.costs.calibration.calibrated", lambda: HARDWARE["h100"])
    assert said(f"{question} --hardware here")[0] == 0
    assert not keeping.exists()


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_answer_is_none(damage, keeping):
    first = said("show gpt2")
    (path,) = keeping.iterdir()
    whole = path.read_text()
    path.write_text(damage(whole))
    assert path.read_text() != whole
    assert said("show gpt2") == first
    assert path.read_text() == whole


def test_a_cache_that_cannot_be_written_is_none(keeping, monkeypatch, tmp_path):
    first = said("show gpt2")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "file"))
    assert said("show gpt2") == first


def test_the_oldest_go_where_there_are_too_many_or_too_large(keeping):
    few = Cache("answers", files=2)
    for key in "abc":
        few.write(key, key)
    assert [few.read(key) for key in "abc"] == [None, "b", "c"]
    small = Cache("answers", nbytes=150)
    small.write("d", "d" * 60)
    assert [small.read(key) for key in "bcd"] == [None, None, "d" * 60]
    small.write("e", "e" * 300)
    assert small.read("e") is None, "too large for all"


def test_writers_at_once_leave_one_whole_answer(keeping):
    cache, wrong = Cache("answers", files=3), []

    def write(name):
        for number in range(30):
            cache.write("same", [name] * 1000)
            cache.write(f"{name}{number}", number)
            if cache.read("same") not in (None, ["one"] * 1000, ["two"] * 1000):
                wrong.append(number)

    writers = [threading.Thread(target=write, args=(name,)) for name in ("one", "two")]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert not wrong
    assert len([*keeping.iterdir()]) <= 4


def test_every_byte_of_the_package_counts_and_nothing_beside_them(tmp_path, keeping):
    package = tmp_path / "package"
    (package / "room").mkdir(parents=True)
    (package / "room" / "one.py").write_text("1")
    (package / "data.toml").write_text("2")
    first = contents(package)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "one.pyc").write_text("")
    (package / code.SHIPPED.name).write_text("")
    (package / "room" / "one.py").touch()
    assert contents(package) == first
    (package / "room" / "one.py").write_text("3")
    changed = contents(package)
    (package / "room" / "two.py").write_text("")
    assert len({first, changed, contents(package)}) == 3


def test_every_file_that_counts_is_installed():
    """Otherwise what is shipped would stand under digests that no installation has."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    patterns = ["*.py", *project["tool"]["setuptools"]["package-data"]["anyformer"]]
    assert [name for name, *_ in code.files() if not any(fnmatch(name, pattern) for pattern in patterns)] == []


def test_files_that_have_settled_are_read_once(tmp_path, keeping, monkeypatch):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "one.py").write_text("1")
    first = contents(tmp_path / "package")
    assert not (keeping.parent / "code").exists(), "one more change may not change the time"
    monkeypatch.setattr(code, "SETTLED", -(10**18))
    assert contents(tmp_path / "package") == first
    monkeypatch.setattr(code, "sha256", None)
    monkeypatch.setattr(code, "digest", lambda facts: next((keeping.parent / "code").iterdir()).name)
    assert contents(tmp_path / "package") == first


def test_shipped_answers_are_told_until_the_code_changes(keeping, monkeypatch, tmp_path, once):
    archive = tmp_path / "answers.zip"
    ship(shipping.answers(["show gpt2", "cost gpt2 --mode prefill", "show nowhere/at/all"]), archive)
    assert len(zipfile.ZipFile(archive).namelist()) == 2
    assert not keeping.exists(), "they were kept elsewhere"
    expected = said("show gpt2")
    next(keeping.iterdir()).unlink()
    monkeypatch.setattr(answering, "shipped", lambda key: code_shipped(key, archive))
    once()
    assert said("show gpt2") == expected
    monkeypatch.setattr(answering, "contents", lambda: "other files")
    assert asked_anew("show gpt2")


def test_a_damaged_archive_is_none(tmp_path):
    (tmp_path / "answers.zip").write_text("no archive")
    assert code_shipped("key", tmp_path / "answers.zip") is None
    ship([("key", "no seal")], tmp_path / "answers.zip")
    assert code_shipped("key", tmp_path / "answers.zip") is None
    assert code_shipped("other", tmp_path / "answers.zip") is None


def test_the_usual_questions_are_those_of_every_name_and_of_the_help():
    asked = shipping.questions()
    assert {"show gpt2", "cost gpt2", "cost deepseek-v3", "diff llama-3-8b qwen3-8b"} <= {*asked}
    assert len(asked) == len({*asked})


def test_items_of_a_page_come_back_as_they_were():
    section = Section(
        "Sums", ("each", "all"), (FigureRow("first", (count(1), count(2)), strong=True), FigureRow("none", ())), detail=True
    )
    items = (
        PageLine("a", strong=True),
        Paragraph("b " * 30, "  ", "    "),
        Figures((section, section)),
        PageTable(("head", "number"), (("a", "1"), ("b", "20")), ("number",)),
        Verbatim("{\n  wide\n}\n"),
    )
    assert tuple(parsed(*json.loads(json.dumps(plain(item)))) for item in items) == items
    shown = [line.text for line in lines(items, 40)]
    assert shown[0] == "a"
    assert max(map(len, shown)) <= 40
    assert shown[-6:] == ["head  number", "a          1", "b         20", "{", "  wide", "}"]
    assert [line.text for line in lines(items[3:4], 8)] == ["head", "a", "b"]
    with pytest.raises(AssertionError, match="no item"):
        parsed("Other", 1)
