"""Objects of stores, in fsspec's memory and in files: the same bytes as of files, and errors that name the object."""

from __future__ import annotations

import io
import sys

import pytest

from anyformer import stores
from anyformer.stores import StoreError


@pytest.fixture(params=["memory", "file"])
def place(request, tmp_path):
    url = f"memory://{tmp_path.name}/deep" if request.param == "memory" else f"file://{tmp_path}/deep"
    yield url
    stores.removed(url)


def written(url, content):
    with stores.opened(url, "wb") as file:
        file.write(content)


def broken_off(url):
    with stores.opened(url, "wb") as file:
        file.write(b"half of it")
        raise ZeroDivisionError


def test_bytes_come_back_whole_and_by_ranges(place):
    content = bytes(range(256)) * 20_000  # more than a block
    url = stores.joined(place, "a", "one.bin")
    assert not stores.exists(place)
    written(url, content)
    written(stores.joined(place, "two.bin"), b"")
    with stores.opened(url) as file:
        assert file.read(3) == content[:3]
        file.seek(1_000_000)
        assert file.read() == content[1_000_000:]
    empty = stores.object_of(stores.joined(place, "two.bin"))
    assert stores.ranges(url, [(5, 9), (0, 0), (300, 1000)]) == [content[5:9], b"", content[300:1000]]
    assert stores.listed(place) == [url, stores.joined(place, "two.bin")]
    assert stores.listed(url) == [url]
    assert stores.beneath(place) == stores.beneath(f"{place}/") == {"a/one.bin": stores.object_of(url), "two.bin": empty}
    assert stores.beneath(url) == {"": stores.object_of(url)}
    assert (stores.size_of(url), stores.exists(place), stores.exists(url)) == (len(content), True, True)


def test_a_new_object_is_there_whole_or_not_at_all(place):
    url = stores.joined(place, "one.bin")
    with pytest.raises(ZeroDivisionError):
        broken_off(url)
    assert not stores.exists(url)
    written(url, b"old")
    first = stores.object_of(url)
    assert stores.objects(place) == [first], "a listing and a question say the same of an object"
    with pytest.raises(ZeroDivisionError):
        broken_off(url)
    with stores.opened(url) as file:
        assert file.read() == b"old"
    written(url, b"newer")
    assert stores.object_of(url).mark != first.mark
    stores.removed(url)
    assert not stores.exists(url)
    stores.removed(url)


def test_errors_name_the_object_and_what_to_do(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    url = stores.joined(place, "absent.bin")
    for ask in (
        stores.size_of,
        stores.object_of,
        lambda url: stores.ranges(url, [(0, 1)]),
        lambda url: stores.opened(url).__enter__(),
    ):
        with pytest.raises(StoreError, match=r"absent\.bin: there is no such object"):
            ask(url)
    with pytest.raises(StoreError, match=r"nosuch://a: fsspec knows no nosuch://"):
        stores.size_of("nosuch://a")
    with pytest.raises(StoreError, match=r"s3://a/b: s3:// needs a package that is not here \(Install s3fs"):
        stores.exists("s3://a/b")


def test_errors_within_a_read_name_the_object_too():
    class Closed(io.BytesIO):
        def read(self, *_):
            raise PermissionError("Forbidden")

    with pytest.raises(StoreError, match=r"memory://x: no rights to it \(Forbidden\)"):
        stores._Stream("memory://x", Closed()).readinto(bytearray(4))


@pytest.mark.parametrize("place", ["data/text.txt", "/data", "C:\\data", "python-stdlib", "./s3:/x"])
def test_paths_are_no_urls(place):
    assert not stores.is_url(place)
    assert stores.is_url("s3://bucket/x")


@pytest.mark.parametrize(
    "url",
    [
        "sftp://user:hidden@host/data",
        "sftp://user:1234hidden@host:22/data",
        "sftp://user:1234@host/data",
        "s3://name:hid/den@bucket/data",
        "https://host/data?sv=1&sig=hidden",
        "https://host/data?X-Amz-Signature=hidden",
        "zip://one.txt::ftp://user:hidden@host/all.zip",
    ],
)
def test_a_secret_in_a_url_is_refused_and_not_shown(url):
    with pytest.raises(StoreError, match=r"\.\.\.: has a password or a token.*environment variables") as raised:
        stores.check_no_secrets(url)
    assert not any(secret in str(raised.value) for secret in ("hidden", "1234", "hid/den"))


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/a:b@c",
        "hdfs://host:9000/data",
        "sftp://user@host:22/data",
        "abfs://container@account.dfs.core.windows.net/data",
        "file:///tmp/a:b",
        "sftp://[fe80:ab::1]/data",
        "zip://one.txt::s3://bucket/all.zip",
        "https://host/data?versionId=3&tokenizer=a",
    ],
)
def test_urls_without_a_secret_pass(url):
    stores.check_no_secrets(url)
