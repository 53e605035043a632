"""The beginnings of GGUF files, which say what their architectures are, without the weights behind them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from anyformer.files import default_cache, disk_errors, writing
from anyformer.hub import library, wanted
from anyformer.hub.fetching import Listing, Watch, here, listing_of, unwatched
from anyformer.hub.library import told
from anyformer.hub.names import HubName, parsed

BYTES = 32 * 2**20
"""What is fetched of a file: vocabularies of 256,000 pieces take 12 MB of it."""


def head(place: str | Path, watch: Watch = unwatched) -> Path:
    """The path of a GGUF file of the same name and length whose first `BYTES` are there, and zeros behind them; the whole file
    where the cache has it. All pieces of one that is cut lie side by side."""
    name = parsed(place)
    listing = listing_of(name)
    name = replace(name, repo=listing.repo)
    assert name.file is not None, "a GGUF file is named"
    files = wanted.pieces(name.file, listing.sizes)
    if all(here(name.repo, file, listing.commit) for file in files):
        found = here(name.repo, name.file, listing.commit)
        assert found is not None, "all are here"
        return found
    folder = default_cache() / "hub" / f"heads-{listing.commit}"
    absent = [file for file in files if not (folder / file).is_file()]
    with watch(f"fetching the head of {name.file}", sum(_read(listing, file) for file in absent)) as advance:
        for file in absent:
            _fetch(name, listing, file, folder / file)
            advance(_read(listing, file))
    return folder / name.file


def _read(listing: Listing, file: str) -> int:
    return min(BYTES, listing.sizes[file])


def _fetch(name: HubName, listing: Listing, file: str, path: Path) -> None:
    """Fetch the beginning of a file."""
    with told(name, file):
        content = library.beginning(f"{name.repo}@{listing.commit}/{file}", _read(listing, file))
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with writing(path) as partial:
            partial.write_bytes(content)
            with partial.open("r+b") as written:
                written.truncate(listing.sizes[file])
