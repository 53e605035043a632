"""Pages agree with the code and with each other: counts, formats, what is left out, and every sentence that says "refused"."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from anyformer.catalogue import listing
from anyformer.cli.fine_tuning import BASIS
from anyformer.huggingface.missing import MISSING
from anyformer.tuning import Tuning
from anyformer.tuning.value import Base

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "reference").glob("*.md"))]
SOURCE = re.sub(r'"\n\s*f?"', "", "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py")))
"""The code, with strings over several lines as one."""
COUNTED = re.compile(r"(?:one of|what|each of the) (\d[\d,]*)\s+(?:published|learns)")
REFUSED = {
    "in other engines they are refused, and windows in TensorRT-LLM": "pages this model's state is not known here",
    "with more the data is refused": "to the number or share of such records to leave out",
    "what that costs can be asked, training refuses": "are priced, not computed: leave it out",
    "does not take is refused at its place": "class RefusedChangeError",
    "A name that is refused": "class UnknownNameError",
    "can never fit is refused with both numbers": "of text take {needed:,} bytes of decode state, and the server has",
    "not honoured is refused by name": " is not honoured here: ",
    "own names alone, refuses those that another page sends": "the question comes from another page: open this address itself",
    "has by default, are refused": "blocks chosen at random are not known here",
    "refused where no kernel multiplies by tables of their sizes": "numbers, and no kernel multiplies by so",
    "not in the table is refused by name": "which is not read here{hint}; {REMEDY}",
    "positions is refused before it begins": "and the position table ends at",
    "other tokens for a table that is taken are refused": "was trained with other tokens (",
    "as the embedding reads, which is refused otherwise": "numbers per frame, and the embedding reads ",
    "lasts longer than a model hears is refused": " s at most: ",
    "other models are refused by `find_circuit`": "an edge can be cut where every sublayer reads the sum",
    "is refused, with the difference shown": "was begun with other values than those given now",
    "such as `output_attentions`, it refuses": "attention weights are never written out by the kernels",
    "and refuses a disk without room": "are free, and the teacher's answers need",
    "refused before any weight is read": "every weight reads or writes the stream, and norms over more features compute",
    "refuses a mesh that is not the processes": "{enough}, or change plan.mesh in",
    "another number is refused with the command": "torchrun --nproc-per-node",
    "names no weight is refused, with the nearest": "names no weight; {_hint(",
    "go with single texts, and are refused": "a search gives scores of whole texts: leave logprobs or the beams out",
    "a file that has changed is refused by name": "is not as it was exported",
    "what cannot be trained so": "def check(",
    "fewer rows is refused with the number": "tokens and the {name} {vocab} rows; ",
    "too many or too few are refused": " take {needed} tokens {self.token}",
    "and another one is refused": "is computed here by its formula, and the stored one differs",
    "is false is refused": "transformers would draw one at random",
    "needs; without one it is refused by name": "this policy loss reads ",
    "where these cannot be had, training is refused": "code cannot be confined on this machine",
    "is refused by name. A head": "the head of this class is not read here",
    "cannot be trained with is refused before any work": "reads text, and the embedding of this architecture reads",
    "A run that cannot fit into memory is refused": "a training step on {size} needs",
    "What cannot fit is refused before work": "a training step on {size} needs",
    "a run that the disk cannot hold is refused": "B are free, and the checkpoints need",
    "A store that cannot be written is refused": "a run will be kept here",
    "or W&B without a login, is refused": "is not logged in (",
    "or is refused by name: `guidance_scale`": "it needs a second pass of the model without the prompt",
    "layers replaced by one matrix are refused": "is not described here (layers of attention or of a network",
    "its experts are refused": "config.expect_all(num_experts=0, pe_type",
    "stands behind the sum are refused": "leave initialisation.mup.base_depth",
    "size that cannot be is refused at once": "has no field {name}",
    "known to change nothing, or refused by name": "is not known here",
    "each key of it read or refused": "is not read here, only {allowed}",
    "its graph does not compute is refused by name": "no other is in llama.cpp's graph",
    "`RandomFourier` refuses": "which vanishes for the signed features of",
    "are refused with what is missing": "is not read: it needs",
    "Its GPTQ refuses processors": "",
    "a weight that several layers of a chunk read is refused": "whose gradients torch cannot compute apart",
    'eager and says so, `"on"` is refused': "cuts backward passes in two, which torch does not compile yet",
    "with a password or a token": "has a password or a token, and URLs are printed",
    "another `index.json` is refused": "is the index of other data; name another place",
    "that llguidance does not know is refused": "validate_grammar_with_warnings",
    "`--prefix-memory` it is refused by name": "it does not do {",
    "| refused before any work |": "exit_code = 2",
    "| refused, with the key or the value in the error |": "is not read here",
    "| refused by the class of transformers": "",
}
"""Words of a sentence that says so: words of the code by which it is, none where another library does."""


def sentences() -> list[tuple[str, str]]:
    """(page, line with its neighbours) of every refusal on a page, but in tables that a generator fills from docstrings."""
    found = []
    for path in PAGES:
        lines = path.read_text(encoding="utf-8").splitlines()
        for i, line in enumerate(lines):
            if re.search(r"\brefuse[sd]?\b", line) and not re.match(r"<!--|\| `", line):
                found.append((path.name, " ".join(lines[max(0, i - 1) : i + 2])))
    return found


@pytest.mark.parametrize(("page", "text"), sentences(), ids=lambda text: text[:40])
def test_every_refusal_of_a_page_is_one_of_the_code(page, text):
    assert [words for words in REFUSED if words in text], f"{page}: {text}: say in REFUSED by which words of the code"


def test_every_refusal_of_the_list_is_on_a_page_and_in_the_code():
    pages = " ".join(path.read_text(encoding="utf-8").replace("\n", " ") for path in PAGES)
    assert [words for words in REFUSED if words not in pages] == []
    assert [code for code in REFUSED.values() if code not in SOURCE] == []


def test_every_count_of_the_catalogue_is_that_of_the_catalogue():
    counts = {(path.name, int(number)) for path in PAGES for number in COUNTED.findall(path.read_text(encoding="utf-8"))}
    assert {name for name, _ in counts} == {"README.md", "architectures.md"}
    assert {number for _, number in counts} == {len(listing())}


def test_formats_of_frozen_weights():
    """What trains is said by the description alone; no page and no line of `plan` says less."""
    formats = get_args(Base)
    assert all(Tuning(base=name).base == name for name in formats)
    table = re.search(r"^\| `base` \| (.*?) \| `\"fp32\"`", (ROOT / "docs" / "reference" / "run.md").read_text(), re.M)[1]
    assert tuple(re.findall(r'"([^"]+)"', table)) == formats
    for text in (BASIS, *(path.read_text(encoding="utf-8") for path in PAGES)):
        assert not re.search(r"(?:frozen|all)\s+weights\s+(?:are\s+)?in\s+fp32\s+so\s+far|other formats it refuses", text, re.I)
        assert not re.search(r"keeps\s+all\s+weights\s+in\s+fp32", text)
    assert "`tuning.base`" in BASIS


def test_what_the_catalogue_leaves_out_is_not_in_it():
    page = (ROOT / "docs" / "catalogue.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?`) \| ", page, re.M)
    assert rows
    names = {entry.name for entry in listing()}
    for row in rows:
        assert not names & set(re.findall("`([^`]+)`", row))


def test_no_mechanism_is_missing_that_is_a_part():
    """Each phrase of what is missing, against the phrases by which docs/reference/parts.md names parts."""
    rows = re.findall(
        r"^\| [^|]* \| ([^|]*) \| \[`", (ROOT / "docs" / "reference" / "parts.md").read_text(encoding="utf-8"), re.M
    )
    parts = [set(re.findall(r"[\w-]+", row.lower())) for row in rows]
    assert len(parts) > 50
    for needed in set(MISSING.values()):
        for phrase in re.split(r", (?:and )?| and ", needed):
            words = set(re.findall(r"[\w-]+", phrase.lower()))
            assert len(words) < 3 or not any(words <= part for part in parts), f"{phrase}: docs/reference/parts.md has it"
