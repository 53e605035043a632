"""`anyformer export --push`: what is sent is shown first, and a public place is confirmed."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyformer.cli.terminal import confirmed

if TYPE_CHECKING:
    from anyformer.hub import Destination

push_option = partial(typer.Option, rich_help_panel="Push to a hub")
_ANYBODYS = ("/", "/root", "/home/user", "/home/runner", "/home/jovyan")
"""Home directories that say nothing of who works there."""


@dataclass(frozen=True)
class PushOptions:
    """Whether the directory is pushed to a hub, where, and how it is asked."""

    push: Annotated[
        str | None,
        push_option(
            help="Push the directory to this model of a hub, made if it is not there, or to a branch of it, as in "
            "ORG/NAME@BRANCH. Without OUT the directory is not kept.",
            metavar="ORG/NAME",
        ),
    ] = None
    private: Annotated[bool, push_option("--private", help="A new model can be seen by its owners alone.")] = False
    message: Annotated[str | None, push_option(help="The message of the commit.", metavar="TEXT")] = None
    dry_run: Annotated[bool, push_option("--dry-run", help="Show what would be pushed, file by file, and push nothing.")] = (
        False
    )
    yes: Annotated[bool, push_option("--yes", help="Do not ask before everybody can see the model.")] = False

    def check(self, out: Path | None) -> None:
        """Refuse options that do not go together."""
        from anyformer.describe import UserError

        given = {"--private": self.private, "--message": self.message, "--dry-run": self.dry_run, "--yes": self.yes}
        if self.push is None and (idle := [option for option, value in given.items() if value]):
            raise UserError(f"{' and '.join(idle)}: {'is' if len(idle) == 1 else 'are'} about a push: give --push ORG/NAME too")
        if self.push is None and out is None:
            raise UserError("name OUT, the new directory to write, or --push ORG/NAME, a model of a hub, or both")

    def destination(self) -> Destination | None:
        """What is at the place of the push. Raises `UserError` where nobody could push, or nobody is there to confirm it."""
        from anyformer import hub
        from anyformer.describe import UserError

        if self.push is None:
            return None
        found = hub.destination(self.push, private=self.private)
        if found.public and not (self.yes or self.dry_run or somebody()):
            raise UserError(
                f"--push {self.push}: everybody could see this model, and nobody is at a terminal to confirm it: give --yes, "
                "or --private for a model that its owners alone see"
            )
        return found


def somebody() -> bool:
    """Whether somebody is there to answer a question."""
    return sys.stdin.isatty()


@contextmanager
def written_to(out: Path | None) -> Iterator[Path]:
    """The directory to write: `out`, or one that is gone after the block."""
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "exported"


def send(directory: Path, destination: Destination, asked: PushOptions, source: Path, *, json: bool) -> dict[str, Any]:
    """Push a directory that was exported of `source`, once it is shown and confirmed; plain data of what was pushed."""
    from anyformer import __version__, hub
    from anyformer.data.progress import meter
    from anyformer.describe import UserError

    hub.check_clean(directory, _own_places(directory, source))
    files = hub.files_of(directory)
    gone = hub.outdated(destination, files)
    if not json:
        print("\n".join(_shown(destination, files, gone)))
    made: dict[str, Any] = {"model": destination.name.repo, "branch": destination.branch, "public": destination.public}
    made |= {"files": files, "removed": gone}
    if asked.dry_run:
        return made | {"commit": None}
    if destination.public and not asked.yes and not confirmed("Everybody will see this model. Push it?"):
        raise UserError("nothing was pushed")
    message = asked.message or f"Exported by anyformer {__version__}"
    pushed = hub.push(directory, destination, message, partial(meter, show=True))
    if not json:
        print(f"{pushed.name}: {pushed.page}")
    return made | {"commit": pushed.name, "page": pushed.page}


def _shown(destination: Destination, files: dict[str, int], gone: list[str]) -> Iterator[str]:
    """The files that are sent, with their sizes, and those that go."""
    from anyformer.costs import scaled

    state = "exists" if destination.exists else "is made"
    yield f"{destination.page} ({state}, {'public' if destination.public else 'private'}, branch {destination.branch}):"
    for name, size in files.items():
        yield f"  {scaled(size) + 'B':>10}  {name}"
    yield f"  {scaled(sum(files.values())) + 'B':>10}  together, in one commit"
    for name in gone:
        yield f"  removed     {name}, weights of the model before"


def _own_places(directory: Path, source: Path) -> dict[str, str]:
    """Paths of this machine, which are nobody's business -> what they are."""
    home = str(Path.home())
    places = {str(directory.absolute()): "the path of this directory", str(source.absolute()): "the path of the model here"}
    return places | ({} if home in _ANYBODYS else {home: "the path of a home directory"})
