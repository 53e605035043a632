"""`anyformer serve`: a server of its own process that answers, is asked by `conform`, and ends at a signal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from urllib.request import Request, urlopen

import pytest

import anyformer as af
from anyformer.catalogue import architecture
from anyformer.cli.server import KEY, _keys
from anyformer.conforming import conform, golden_vectors, open_server
from anyformer.conforming.cases import BY_NAME
from anyformer.describe import UserError, change
from text.chat.folders import ours


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "tiny"
    tokenizer = ours()
    tiny = change(architecture("gemma-2-2b", tiny=True), "embedding.vocab", tokenizer.vocab_size)
    af.export(af.build(tiny, seed=1), path, tokenizer=tokenizer)
    return path


def test_it_serves_conforms_and_ends_at_a_signal(folder):
    command = [sys.executable, "-m", "anyformer", "serve", str(folder), "--port", "0", "--places", "3", "--length", "96"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {KEY: ""}) as process:
        try:
            line = process.stderr.readline()
            url = re.match(r"(http://127\.0\.0\.1:\d+)/v1 serves tiny \(decode states: [\d,]+ bytes held", line)[1]
            cases = tuple(BY_NAME[name] for name in ("plain", "decode", "batch", "prompt", "text", "ends"))
            golden = golden_vectors(folder, cases, longest=96, chunk=16)
            report = conform(open_server(url), golden, cases)
            assert report.conforms, report
            assert report.engine == "anyformer serve, model tiny"
            assert [case.state for case in report.cases] == ["right"] * len(cases)
            body = json.dumps(
                {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 60, "stream": True, "ignore_eos": True}
            )
            stream = urlopen(Request(f"{url}/v1/chat/completions", body.encode()))
            assert stream.readline().startswith(b"data: ")
            process.send_signal(signal.SIGTERM)
            assert stream.read().endswith(b"data: [DONE]\n\n")
            assert process.wait(60) == 0, "it ends as a signal asks, and was not killed"
            said = process.stderr.read()  # a fast machine has written the text before the signal comes
            assert re.search(r"stops: [01] texts are under way or wait, and have 30 s", said), said
        finally:
            process.kill()


def test_keys_are_those_of_the_file_and_the_environment(tmp_path, monkeypatch):
    file = tmp_path / "keys"
    file.write_text("one\n\n two \n")
    monkeypatch.setenv(KEY, "three")
    assert _keys(file) == ("three", "one", "two")
    monkeypatch.delenv(KEY)
    assert _keys(None) == ()
    file.write_text("\n")
    with pytest.raises(UserError, match="holds no key: write one a line"):
        _keys(file)
    with pytest.raises(UserError, match="cannot be read"):
        _keys(tmp_path / "none")
