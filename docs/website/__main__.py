"""Builds the documents as one site: `python -m docs.website [DIRECTORY] [--atlas ATLAS]`, by default in `build/site`.

The site stands in `DIRECTORY/VERSION`, beside those of earlier versions that were built there. Nothing is fetched. `ATLAS` is what
`anyformer atlas --out ATLAS` wrote, and becomes a part of the site. A page without a place, a link to nothing, a missing anchor and
anything that a reader's browser would fetch from elsewhere is an error.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # beside the scripts that write pages

from website.gather import HERE, ROOT, gather
from website.links import faults
from website.navigation import filled, titles_in

from anyformer import __version__

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
FIRST = (
    '<!doctype html><meta charset="utf-8"><title>anyformer</title><link rel="icon" href="{newest}/style/mark.svg">'
    '<meta http-equiv="refresh" content="0; url={newest}/index.html">\n'
)


def build(out: Path, atlas: Path | None = None) -> Path:
    """Build the site of this version below a directory, and give its own directory."""
    work, site = out / ".work", out / __version__
    shutil.rmtree(work, ignore_errors=True)
    gather(work / "pages", atlas)
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    settings = settings.replace("[SOURCE]", f"[{ROOT / 'src'}]").replace("[FIELDS]", f"[{HERE / 'fields.py'}]")
    (work / "mkdocs.yml").write_text(filled(settings, dict(titles_in(work / "pages"))), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SystemExit(COLOURS.sub("", done.stdout))
    shutil.rmtree(site, ignore_errors=True)
    shutil.move(work / "html", site)
    shutil.rmtree(work)
    _versions(out)
    return site


def _versions(out: Path) -> None:
    """List the versions that stand in a directory, newest first, and lead its front page to the newest."""
    found = sorted((each.parent.name for each in out.glob("*/search.json")), key=_number, reverse=True)
    rows = [{"version": each, "title": each, "aliases": ["latest"] * (each == found[0])} for each in found]
    (out / "versions.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    (out / "index.html").write_text(FIRST.format(newest=found[0]), encoding="utf-8")


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def main() -> None:
    """Build, check, and say where the site is."""
    words = argparse.ArgumentParser(description="The documents as one site.")
    words.add_argument("out", nargs="?", type=Path, default=ROOT / "build" / "site")
    words.add_argument("--atlas", type=Path)
    given = words.parse_args()
    out = given.out.resolve()
    site = build(out, given.atlas)
    if found := list(faults(site)):
        raise SystemExit("\n".join(found))
    print(f"{len(list(site.rglob('*.html')))} pages: open {site / 'index.html'}")
    print(f"python -m http.server -d {out} serves it, with its search")


if __name__ == "__main__":
    main()
