"""Files of a hub: only those that are needed, once, whole, at one commit; and what is said where that cannot be."""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest
from huggingface_hub import constants

from anyformer import hub as hubs
from anyformer.describe import Notice
from anyformer.hub import HubError, fetched, library
from hub_server import READER, WRITER

SOURCE = Path(hubs.__file__).parents[1]
PARTS = {"a.weight": "model-00001-of-00002.safetensors", "b.weight": "model-00002-of-00002.safetensors"}
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer.json": b"{}",
    "README.md": b"# A model\n",
    "LICENSE": b"free",
    "additional_chat_templates/tool.jinja": b"{{ x }}",
    "model.safetensors.index.json": json.dumps({"weight_map": PARTS}).encode(),
    **{name: bytes(range(256)) * 40 + name.encode() for name in PARTS.values()},
    "consolidated.safetensors": b"x" * 64,
    "pytorch_model-00001-of-00001.bin": b"pickled",
    "pytorch_model.bin.index.json": b"{}",
    "trainer_state.json": b"{}",
    "modeling_x.py": b"import os",
    "logo.png": b"picture",
    "onnx/model.onnx": b"y" * 64,
}
NEEDED = {
    "config.json", "tokenizer.json", "README.md", "LICENSE", "additional_chat_templates/tool.jinja",
    "model.safetensors.index.json", *PARTS.values(),
}  # fmt: skip
NAME = "hub:lab/model"


def below(directory: Path) -> dict[str, bytes]:
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_of_a_model_the_files_that_it_is_loaded_from_are_fetched_once(hub):
    commit = hub.add("lab/model", FILES).references["main"]
    directory = fetched(NAME, hubs.model)
    assert set(hub.fetched) == NEEDED
    assert len(hub.fetched) == len(NEEDED)
    assert below(directory) == {name: FILES[name] for name in NEEDED}
    assert hubs.has_weights(directory)
    assert directory.name == commit
    hub.asked.clear()
    assert fetched(NAME, hubs.model) == directory
    assert hub.fetched == []
    hub.asked.clear()
    assert fetched(f"{NAME}@{commit}", hubs.model) == directory
    assert hub.asked == [], "a commit that is here whole needs no connection"


def test_of_an_architecture_the_configuration_alone_is_fetched(hub):
    hub.add("lab/model", FILES)
    directory = fetched(NAME, hubs.configuration)
    assert hub.fetched == ["config.json"]
    assert not hubs.has_weights(directory)


def test_of_a_text_no_weights_are_fetched(hub):
    hub.add("lab/model", FILES)
    fetched(NAME, hubs.about)
    assert set(hub.fetched) == {name for name in NEEDED if "safetensors" not in name}


def test_one_file_is_fetched_where_there_is_one_and_of_gguf_all_its_pieces(hub):
    pieces = {f"q/a-0000{n}-of-00002.gguf": b"GGUF%d" % n for n in (1, 2)}
    hub.add("lab/model", {**FILES, "model.safetensors": b"whole", "b.gguf": b"GGUF", **pieces})
    assert set(hub.fetched) == set()
    assert not {*PARTS.values(), "model.safetensors.index.json"} & set(below(fetched(NAME, hubs.model)))
    assert "model.safetensors" in hub.fetched
    hub.asked.clear()
    assert fetched(f"{NAME}/b.gguf", hubs.model).read_bytes() == b"GGUF"
    assert hub.fetched == ["b.gguf"]
    hub.asked.clear()
    assert fetched(f"{NAME}/q/a-00001-of-00002.gguf", hubs.model).name == "a-00001-of-00002.gguf"
    assert set(hub.fetched) == set(pieces)


def test_a_revision_is_a_commit_for_ever(hub):
    made = hub.add("lab/model", FILES)
    first = made.references["main"]
    made.references["v1"] = first
    made.commit({**FILES, "config.json": b"{}"})
    assert (fetched(NAME, hubs.configuration) / "config.json").read_bytes() == b"{}"
    for revision in ("v1", first):
        assert (fetched(f"{NAME}@{revision}", hubs.configuration) / "config.json").read_bytes() == FILES["config.json"]


def test_a_connection_that_breaks_goes_on_where_it_broke(hub, monkeypatch):
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    hub.add("lab/model", FILES)
    (part, *_) = PARTS.values()
    hub.cut[part] = 5000
    directory = fetched(NAME, hubs.model)
    assert (directory / part).read_bytes() == FILES[part]
    assert any(each.endswith(f"{part} from 5000-") for each in hub.asked)


def test_what_was_damaged_on_the_way_is_not_kept(hub):
    hub.add("lab/model", FILES)
    part = PARTS["b.weight"]
    hub.spoilt.add(part)
    with pytest.raises(HubError, match=rf"{part}: was damaged on the way"):
        fetched(NAME, hubs.model)
    hub.spoilt.clear()
    assert (fetched(NAME, hubs.model) / part).read_bytes() == FILES[part]


def test_progress_counts_every_byte(hub):
    hub.add("lab/model", FILES)
    counts = []

    @contextmanager
    def watch(label, total):
        counts.append([label, total, 0])

        def advance(count):
            counts[-1][2] += count

        yield advance

    fetched(NAME, hubs.model, watch)
    assert [label for label, _, _ in counts] == ["fetching lab/model"] * 2
    assert all(total == done for _, total, done in counts)
    assert sum(total for _, total, _ in counts) == sum(len(FILES[name]) for name in NEEDED)


@pytest.mark.parametrize(
    ("token", "more", "place", "words"),
    [
        (None, {}, "hub:lab/other", ["no such model, or it is private", "hf auth login", "HF_TOKEN"]),
        (None, {"private": True}, NAME, ["no such model, or it is private"]),
        (READER, {}, "hub:lab/other", ["your token may not see it"]),
        (None, {"gated": True}, NAME, ["no token was given", "accept the conditions", "/lab/model", "hf auth login"]),
        (READER, {"gated": True}, NAME, ["your account has not been let in", "/lab/model in a browser"]),
        (None, {}, f"{NAME}@v9", ["no branch, tag or commit 'v9'"]),
        (None, {}, f"{NAME}/a.gguf", ["has no file a.gguf", "it has no GGUF file"]),
    ],
)
def test_what_cannot_be_fetched_is_said(hub, monkeypatch, token, more, place, words):
    hub.add("lab/model", FILES, **more)
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(HubError) as refused:
        fetched(place, hubs.model)
    assert [word for word in words if word not in str(refused.value)] == []
    assert str(refused.value).startswith(place)
    assert hub.fetched == []


def test_who_is_let_in_reads(hub, monkeypatch):
    hub.add("lab/model", FILES, gated=True, private=True)
    monkeypatch.setenv("HF_TOKEN", WRITER)
    assert below(fetched(NAME, hubs.configuration)) == {"config.json": FILES["config.json"]}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {"config.json": b"{}", "pytorch_model.bin": b"x"},
            ["unpickling can run anybody's code", "hub:lab/model@refs/pr/NUMBER"],
        ),
        ({"a.gguf": b"x", "b.gguf": b"x"}, ["did you mean hub:lab/model/a.gguf or another of 2?"]),
        ({"config.json": b"{}"}, ["neither model.safetensors nor model.safetensors.index.json"]),
    ],
)
def test_weights_that_are_not_read_are_refused_before_anything_is_fetched(hub, files, words):
    hub.add("lab/model", files)
    with pytest.raises(HubError) as refused:
        hubs.check_weights(hubs.parsed(NAME), files)
    assert [word for word in words if word not in str(refused.value)] == []


@pytest.mark.parametrize("index", [b"{", b"[]", b'{"weight_map": 1}', b'{"weight_map": {"a": "gone.safetensors"}}'])
def test_a_wrong_index_is_refused(hub, index):
    hub.add("lab/model", {**FILES, "model.safetensors.index.json": index})
    with pytest.raises(HubError, match=r"weight_map|'gone.safetensors', which the model has not"):
        fetched(NAME, hubs.model)


def test_a_model_without_room_is_refused_before_it_is_fetched(hub, monkeypatch):
    hub.add("lab/model", FILES)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: type("Usage", (), {"free": 100}))
    with pytest.raises(HubError, match=r"GB are free at .*hub-cache: free some space, or name another place with HF_HUB_CACHE"):
        fetched(NAME, hubs.model)
    assert hub.fetched == []


def test_a_disk_that_gets_full_is_said(hub):
    with pytest.raises(HubError, match="no space is left"), library.told(hubs.parsed(NAME), "a"):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("offline", [True, False])
def test_without_the_hub_the_cache_serves(hub, monkeypatch, offline):
    commit = hub.add("lab/model", FILES).references["main"]
    before = fetched(NAME, hubs.model)
    hub.down = not offline
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert fetched(NAME, hubs.model) == fetched(f"{NAME}@{commit}", hubs.model) == before
    assert [each.category for each in said] == ([] if offline else [Notice])
    with pytest.raises(HubError, match="the model is not in the cache") as refused:
        fetched("hub:lab/other", hubs.model)
    assert ("HF_HUB_OFFLINE is set" if offline else "gives no answer") in str(refused.value)
    assert "`hf download lab/other`" in str(refused.value)


def test_offline_the_file_that_is_missing_is_named(hub, monkeypatch):
    hub.add("lab/model", FILES)
    fetched(NAME, hubs.configuration)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match=r"LICENSE is not in the cache .*HF_HUB_OFFLINE is set.*`hf download lab/model LICENSE`"):
        fetched(NAME, hubs.model)


def test_a_cache_of_other_tools_is_read_without_the_hub(hub, monkeypatch, tmp_path):
    hub.add("lab/model", FILES)
    directory = fetched(NAME, hubs.model)
    shutil.rmtree(tmp_path / "cache")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert fetched(NAME, hubs.model) == directory


def test_an_old_or_absent_library_is_said(monkeypatch):
    monkeypatch.setattr("huggingface_hub.__version__", "0.30.2")
    with pytest.raises(HubError, match=r"huggingface_hub 1.31 or newer, and 0.30.2 is here: pip install --upgrade"):
        library.library()
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(HubError, match=r"pip install 'anyformer\[hub\]'"):
        library.library()


def test_one_file_knows_the_library():
    knowing = re.compile(r"""(?m)^\s*(?:import|from) huggingface_hub|import_module\(["']huggingface_hub""")
    files = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if knowing.search(path.read_text())}
    assert files == {"hub/library.py"}


def test_no_path_leads_out_of_the_cache(hub):
    hub.add("lab/model", {**FILES, "model.safetensors.index.json": b'{"weight_map": {"a": "../../../x.safetensors"}}'})
    with pytest.raises(HubError, match="which the model has not"):
        fetched(NAME, hubs.model)
    assert not (Path(os.fspath(constants.HF_HUB_CACHE)).parent / "x.safetensors").exists()
