"""README and guides tell the truth: their snippets and commands run from top to bottom, and what they point to is there."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [
    README,
    *(ROOT / "docs" / f"{name}.md" for name in ("architectures", "train", "watching", "checkpoints", "python", "inspect")),
    *(ROOT / "docs" / f"{name}.md" for name in ("huggingface", "generation", "evaluation")),
]
GUIDES = sorted((ROOT / "docs").glob("*.md"))
EVERY_PAGE = [README, ROOT / "CONTRIBUTING.md", *GUIDES, *sorted((ROOT / "docs" / "reference").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
RUN, EXPORTED, OWN = "runs/2026-01-01-120000", "exported", "own"
SMALL = [
    "steps=3", "batch=2", "length=32", "architecture.width=24", "decoder.order=layer", "decoder.layer.attention.heads=2",
    "decoder.layer.attention.kv_heads=2", "decoder.layer.feedforward.width=32", "embedding.vocab=400",
    "data.tokenizer.vocab=400",
    "plan.compile=off", "evaluation.every=2", "evaluation.baseline=false", 'data.paths=["my_texts"]',
]  # fmt: skip
"""What cuts any training of the pages to a few tiny steps."""


@pytest.fixture(scope="module")
def model(tmp_path_factory, call):
    """What pages speak of without making it: texts, a run, the run exported."""
    place = tmp_path_factory.mktemp("pages")
    (place / "my_texts").mkdir()
    (place / "my_texts" / "a.py").write_text("\n".join(f"def f{i}(x):\n    return x + {i}\n" for i in range(500)))
    (place / "recipes").symlink_to(ROOT / "recipes")
    sets = [f"--set={text}" for text in SMALL]
    for words in (
        ["train", "recipes/stdlib.toml", "--out", RUN, *sets],
        ["export", RUN, EXPORTED],
        ["export", RUN, OWN, "--family", "anyformer"],
    ):
        made = call(*words, cwd=place)
        assert made.returncode == 0, made.stderr
    return place


@pytest.fixture
def place(model, tmp_path):
    """A copy for one page."""
    shutil.copytree(model, tmp_path / "page", symlinks=True)
    return tmp_path / "page"


def small(line: str) -> list[str]:
    """The words of a command, with every training cut to a few tiny steps."""
    words = shlex.split(line.split(" | ")[0])[1:]
    if "--resume" in words:
        return [re.sub(r"^steps=\d+$", "steps=5", word) for word in words]
    if words[0] == "train":
        # A model that a run starts from brings its tokenizer and its sizes.
        kept = ("data.tokenizer", "embedding") if "--start-from" in words else ()
        return [*words, *(f"--set={text}" for text in SMALL if not text.startswith(kept))]
    return [*words, "--batch", "1", "--length", "16"] if "--measure" in words else words


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    titles = re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def lines(text: str) -> list[str]:
    """The commands of a block: its lines that begin with `anyformer`, or with a prompt before it."""
    return [line.removeprefix("$ ") for line in text.splitlines() if line.removeprefix("$ ").startswith("anyformer ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_everything_on_a_page_runs_in_its_order(page, place, call, monkeypatch):
    monkeypatch.chdir(place)
    names: dict[str, object] = {"__name__": "page"}
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        named = re.match(r"# (\S+\.toml)\n", text)
        if language == "python":
            try:
                exec(compile(text, f"{page.name}: {text[:60]!r}", "exec"), names)
            except Exception as error:
                raise AssertionError(f"{page.name}: {error!r} in\n{text}") from error
        elif named:
            Path(named[1]).write_text(text)
        for line in lines(text) if not language else ():
            words = small(line)
            if words[0] == "export":
                shutil.rmtree(words[2], ignore_errors=True)
            result = call(*words, cwd=place)
            assert result.returncode == 0, f"{page.name}: {line}\n{result.stderr}"
            assert result.stdout.strip(), line


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_points_to_exists(page):
    """Every file, and every heading of a page."""
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        pointed = page.parent / target if target else page
        assert pointed.exists(), f"{page.name}: {target}"
        assert not anchor or pointed.suffix != ".md" or anchor in headings(pointed), f"{page.name}: {target}#{anchor}"


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_guide_is_read_in_a_quarter_of_an_hour(page):
    """Code, commands and tables counted; what is looked up stands in docs/reference."""
    assert len(page.read_text(encoding="utf-8").split()) <= 2500


def test_every_key_of_a_run_stands_in_its_reference_with_its_meaning():
    maker = runpy.run_path(str(ROOT / "docs" / "make_train.py"))
    for path, text in maker["pages"]().items():
        assert path.read_text(encoding="utf-8") == text, "run: python docs/make_train.py"
        assert not re.findall(r"^\| `\w+` .*\|  \|$", text, re.M), "keys without a docstring"


def test_the_readme_is_one_screen():
    text = BLOCK.sub("", README.read_text(encoding="utf-8"))
    assert len(text.split()) <= 700


def test_the_tree_names_every_room():
    house = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^  (\w+)(?:/|\.py) ", house, re.M))
    rooms = {
        path.name.removesuffix(".py") for path in (ROOT / "src" / "anyformer").iterdir() if not path.name.startswith(("_", "."))
    }
    assert rooms - {"py.typed", "answers.zip"} == named, "the archive is there where `make answers` was asked for"


def test_measured_figures_are_those_of_the_committed_results():
    from benchmarks.report import pages

    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, "run: python -m benchmarks.report"
