"""Systems that users look for and no entry describes are told with the reason; the loss's techniques are found by name."""

from __future__ import annotations

import pytest

from anyformer.catalogue import architecture, listing
from anyformer.catalogue.unlisted import UNLISTED, unlisted
from anyformer.cli.listing import filtered
from anyformer.describe import DescriptionError, UserError


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("gpt-3.5", "gpt3-175b"),
        ("GPT 5", "gpt-oss-120b"),
        ("gemini-3-pro", "gemini-style-4t"),
        ("efficientnet-b0", "convolutions"),
        ("deepspeed-moe", "a system"),
        ("megatron_moe", "a system"),
        ("PaTH attention", "760 M"),
        ("deltaformer-340m", "14 B"),
    ],
)
def test_a_system_that_is_no_entry_has_its_reason(asked, told):
    with pytest.raises(DescriptionError, match=told) as shown:
        architecture(asked)
    with pytest.raises(UserError, match=told):
        filtered([("text", asked)])
    assert repr(asked) in str(shown.value)


def test_reasons_hide_no_entry_and_name_some():
    names = {entry.name for entry in listing()}
    assert not [name for name in names if unlisted(name)]
    named = {word.strip(",.") for reason in UNLISTED.values() for word in reason.split() if "-" in word and word[:3].islower()}
    assert {"gpt3-175b", "gpt-oss-120b", "gemini-style-4t", "anthropic-lm-52b", "mixtral-8x7b"} <= named & names


def test_techniques_of_training_are_listed():
    assert {entry.name for entry in filtered([("text", "z-loss")])} >= {"palm-540b", "olmo-2-13b", "falcon2-11b"}
