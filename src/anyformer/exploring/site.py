"""The explorer and the atlas as a static site: files for any host, whose page prices changes of numbers by itself.

    index.html, *.js, *.css  the page, the same as the server's; it reads the files below instead of asking
    start.json, kinds.json   what `/api/start` and `/api/kinds` answer
    search.json              what `/api/search` answers, and the entries of the catalogue that are not in the site
    classes.json             what classes of parts say, once for all sheets
    sheets/NAME.json         what `/api/sheet` answers, with the traced memory, the program and its inputs
    programs/DIGEST.json     the declared costs as expressions; entries of one structure share one
    atlas.json, topics/      what `/api/atlas` and `/api/topics/NAME` answer

The same version writes the same bytes.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyformer.atlas import atlas_data, topic_data, topics
from anyformer.atlas.evaluator import Programs
from anyformer.atlas.evaluator_places import places
from anyformer.costs.traceable import NEEDS_TORCH, traceable
from anyformer.describe import UserError
from anyformer.exploring.classes import kinds
from anyformer.exploring.desk import SECTIONS, Desk
from anyformer.exploring.memory import traced
from anyformer.exploring.question import PricedCall, SheetQuestion
from anyformer.exploring.searching import search_data
from anyformer.exploring.site_entries import SiteEntries
from anyformer.exploring.site_times import accelerator_numbers, site_pieces
from anyformer.exploring.start import start_data
from anyformer.files import writing_directory
from anyformer.model import Architecture

PAGE = Path(__file__).with_name("page")
OPENING = """This folder is a site without a server: put it on any host of files, at any place.
Browsers open its page from an address alone, not from a file. To see it here, without a network:

    python -m http.server --bind 127.0.0.1 8642

in this folder, and then http://127.0.0.1:8642 in a browser.
"""


@dataclass(frozen=True)
class SiteContents:
    """What is in a site: its entries, the programs they share, its files, and its bytes, plain and as hosts compress them."""

    entries: int
    programs: int
    files: int
    bytes: int
    compressed: int


def write_site(out: Path, entries: SiteEntries, advance: Callable[[int], None] = lambda done: None) -> SiteContents:
    """Write the site of some entries to a new directory, whole or not at all. `advance` is told how many sheets are there."""
    call, desk, classes = PricedCall(), Desk(own=entries.own), dict[str, Any]()
    programs = _ProgramFiles(call)
    with writing_directory(out) as folder:
        shutil.copytree(PAGE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("ADDING.md", "__pycache__"))
        _mark_static(folder / "index.html")
        for done, name in enumerate(entries.names, 1):
            sheet = desk.sections(SheetQuestion(name, (), call), *SECTIONS)
            classes |= sheet.pop("classes")
            made = desk.architecture(name)
            sheet |= {"memory": _memory(made, call), **programs.of(made, sheet["call"], folder)}
            _write(folder / "sheets" / f"{name}.json", sheet)
            advance(done)
        _write(folder / "start.json", _start(desk, entries))
        _write(folder / "kinds.json", kinds())
        _write(folder / "search.json", search_data(entries.of_catalogue))
        _write(folder / "classes.json", dict(sorted(classes.items())))
        _write(folder / "atlas.json", atlas_data())
        for topic in topics():
            _write(folder / "topics" / f"{topic}.json", topic_data(topic))
        (folder / "README.txt").write_text(OPENING, encoding="utf-8")
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        sizes = [(path.stat().st_size, len(gzip.compress(path.read_bytes(), mtime=0))) for path in files]
    own, small = (sum(each) for each in zip(*sizes, strict=True))
    return SiteContents(len(entries.names), len(programs.written), len(files), own, small)


class _ProgramFiles:
    """The programs of a site, each written once."""

    def __init__(self, call: PricedCall) -> None:
        self.made, self.accelerator = Programs(site_pieces(call)), accelerator_numbers(call, call.on[0])
        self.written = set[str]()

    def of(self, architecture: Architecture, call: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """What a sheet says of its program, which is written; that entry's page answers at its usual call."""
        numbers = (call["batch"], call["length"], call["source"] or call["length"], *self.accelerator)
        program, inputs = self.made.of(architecture, numbers)
        name = f"programs/{program.digest}.json"
        if name not in self.written:
            _write(folder / name, program.data())
            self.written.add(name)
        return {"program": name, "inputs": places(architecture, program, inputs, len(numbers))}


def _start(desk: Desk, entries: SiteEntries) -> dict[str, Any]:
    """What a page has to know first: the catalogue is that of the site."""
    start, kept = start_data(desk, static=True), set(entries.names)
    first = start["defaults"]["of"]
    call = PricedCall()
    accelerators = [{**each, "numbers": accelerator_numbers(call, each["name"])} for each in start["accelerators"]]
    catalogue = [line for line in start["catalogue"] if line["name"] in entries.of_catalogue]
    return {
        **start,
        "catalogue": catalogue,
        "accelerators": accelerators,
        "defaults": {**start["defaults"], "of": first if first in kept else entries.names[0]},
    }


def _mark_static(page: Path) -> None:
    """Tell the page that there is no server to ask."""
    text = page.read_text(encoding="utf-8")
    assert text.count("<html ") == 1, "the page is one document"
    page.write_text(text.replace("<html ", '<html data-static="" '), encoding="utf-8")


def _memory(architecture: Architecture, call: PricedCall) -> dict[str, Any]:
    """The traced memory of training at the usual call, or why there is none. The seconds of tracing differ from run to run."""
    if not traceable():
        return {"pending": False, "memory": None, "why": NEEDS_TORCH}
    try:
        found = traced(architecture.plain(), call)
    except UserError as error:
        return {"pending": False, "memory": None, "why": str(error)}
    return {"pending": False, "memory": found["memory"], "devices": found["devices"]}


def _write(path: Path, data: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
