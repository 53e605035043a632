"""A directory to a hub: what would be sent is told first, and all of it arrives in one commit or none does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anyformer.hub import library
from anyformer.hub.fetching import Watch, unwatched
from anyformer.hub.library import told
from anyformer.hub.names import PREFIX, HubError, HubName, is_hub, parsed, suggested

MAIN = "main"
_KEPT_BACK = ("digests.json",)
"""Files of an export that are not sent: a hub has digests of its own, and a card may be changed there."""
_WEIGHTS = re.compile(r"(?:model(?:-\d+-of-\d+)?|adapter_model)\.safetensors|model\.safetensors\.index\.json")
"""Weights at the top of a repository: those of the model before, if they are not sent anew."""
_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{30,}\b")
_TEXTS = (".json", ".md", ".jinja", ".txt", ".toml")
_LITTLE = 2**20
"""Bytes of a file, up to which it is not worth a step of the bar."""
_LONGEST = 2**20
"""Bytes of a file about a model, from which on it is a vocabulary, and no place for a path."""


@dataclass(frozen=True)
class Destination:
    """Where a model is to be.

    `exists`: whether there is such a repository; `public`: whether everybody will see it; `held`: the files of the branch.
    """

    name: HubName
    exists: bool
    public: bool
    held: tuple[str, ...] = ()

    @property
    def branch(self) -> str:
        return self.name.revision or MAIN

    @property
    def page(self) -> str:
        """The address of the model for a browser."""
        return f"{library.endpoint()}/{self.name.repo}"


@dataclass(frozen=True)
class Pushed:
    """A commit that was made: its name with the model's, and its page."""

    name: str
    page: str


def destination(place: str, *, private: bool = False) -> Destination:
    """What is at the place of a push, `ORG/NAME` or `ORG/NAME@BRANCH`, before any work.

    Raises `HubError` without a token, with one that may only read, and for a name of somebody else.
    """
    name = parsed(place if is_hub(place) or suggested(place) else f"{PREFIX}{place}")
    if name.file is not None or name.commit is not None:
        raise HubError(f"{place}: a model is pushed to ORG/NAME or to a branch, ORG/NAME@BRANCH")
    if not library.has_token():
        raise HubError(f"{name}: nobody is logged in here, and a push needs a token that may write: {library.LOGIN}")
    api = library.library().HfApi()
    with told(name):
        who = api.whoami()
    if _role(who) == "read":
        raise HubError(f"{name}: the token may only read; make one that may write at {library.endpoint()}/settings/tokens")
    owners = [str(who["name"]), *(str(each["name"]) for each in who.get("orgs", ()))]
    if "/" not in name.repo:
        name = replace(name, repo=f"{owners[0]}/{name.repo}")
    try:
        info = api.model_info(name.repo)
    except library.errors().RepositoryNotFoundError:
        if name.repo.partition("/")[0] not in owners:
            said = f"{name}: there is no such model, and {owners[0]} may make one as {', '.join(owners)} alone"
            raise HubError(f"{said}: push to {owners[0]}/{name.repo.partition('/')[2]}") from None
        return Destination(name, False, not private)
    except Exception:
        with told(name):
            raise
    if private and not info.private:
        raise HubError(f"{name}: exists and is public; make it private at {library.endpoint()}/{info.id}/settings first")
    return Destination(replace(name, repo=info.id), True, not info.private, _held(api, name))


def files_of(directory: Path) -> dict[str, int]:
    """The files of a directory that are sent, and their bytes."""
    found = {path.relative_to(directory).as_posix(): path for path in sorted(directory.rglob("*")) if path.is_file()}
    return {name: path.stat().st_size for name, path in found.items() if name not in _KEPT_BACK}


def outdated(destination: Destination, files: Iterable[str]) -> list[str]:
    """Weights that the branch holds of the model before, which would be read beside those that are sent."""
    return sorted(name for name in destination.held if _WEIGHTS.fullmatch(name) and name not in set(files))


def check_clean(directory: Path, secrets: Mapping[str, str]) -> None:
    """Raise `HubError` for a file that names what is nobody's business: a token, or one of `secrets`, text -> what it is."""
    for name, size in files_of(directory).items():
        if not name.endswith(_TEXTS) or size > _LONGEST:
            continue
        text = (directory / name).read_text(encoding="utf-8", errors="replace")
        found = next((what for secret, what in secrets.items() if len(secret) > 3 and secret in text), None)
        if found is None and _TOKEN.search(text):
            found = "a token of a hub"
        if found is not None:
            raise HubError(f"{directory / name}: has {found} in it, so nothing was pushed; take it out, and push again")


def push(directory: Path, destination: Destination, message: str, watch: Watch = unwatched) -> Pushed:
    """Send a directory in one commit, beside which weights of the model before are gone; the repository is made if needed."""
    api, files, name = library.library().HfApi(), files_of(directory), destination.name
    hub = library.library()
    with told(name), library.silent_bars():
        if not destination.exists:
            api.create_repo(name.repo, private=not destination.public, exist_ok=True)
        if destination.branch != MAIN:
            api.create_branch(name.repo, branch=destination.branch, exist_ok=True)
        steps: list[Any] = [hub.CommitOperationDelete(path_in_repo=each) for each in outdated(destination, files)]
        with watch(f"sending {name.repo}", sum(files.values())) as advance:
            for file, size in files.items():
                added = hub.CommitOperationAdd(path_in_repo=file, path_or_fileobj=str(directory / file))
                if size > _LITTLE:  # the others go with the commit
                    api.preupload_lfs_files(name.repo, additions=[added], revision=destination.branch)
                steps.append(added)
                advance(size)
        made = api.create_commit(name.repo, steps, commit_message=message, revision=destination.branch)
    return Pushed(str(replace(name, revision=made.oid)), made.commit_url)


def _held(api: Any, name: HubName) -> tuple[str, ...]:
    """The files of a branch; those of the main one where it is made from that."""
    known = library.errors()
    for revision in (name.revision, None):
        try:
            return tuple(each.rfilename for each in api.model_info(name.repo, revision=revision).siblings or ())
        except known.RevisionNotFoundError:
            continue
    return ()


def _role(who: Mapping[str, Any]) -> str:
    """What a token may do, as far as its hub says."""
    return str(who.get("auth", {}).get("accessToken", {}).get("role", ""))
