"""What stands around a text, against transformers with the same files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from transformers import AutoTokenizer

from anyformer.text import Tokenizer

WORDS = ["[UNK]", "[CLS]", "[SEP]", "<s>", "</s>", "[MASK]", "one", "two", "three", "four"]
NUMBER = {word: number for number, word in enumerate(WORDS)}
S, E = ("<s>", NUMBER["<s>"]), ("</s>", NUMBER["</s>"])
CLS, SEP = ("[CLS]", NUMBER["[CLS]"]), ("[SEP]", NUMBER["[SEP]"])
FRAMING = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B", special_tokens=[S, E])
PROCESSORS = {
    "none": None,
    "bytes": processors.ByteLevel(trim_offsets=False),
    "bert": processors.BertProcessing(SEP, CLS),
    "roberta": processors.RobertaProcessing(E, S),
    "begin": processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[S]),
    "end": processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[E]),
    "xlnet": processors.TemplateProcessing(
        single="$A:0 [SEP]:0 [CLS]:2", pair="$A:0 [SEP]:0 $B:1 [SEP]:1 [CLS]:2", special_tokens=[SEP, CLS]
    ),
    "reversed": processors.TemplateProcessing(single="$A", pair="$B:1 [SEP] $A:0", special_tokens=[SEP]),
    "chain": processors.Sequence([processors.ByteLevel(), FRAMING]),
}


def made(processor: processors.PostProcessor | None) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.WordLevel(NUMBER, unk_token="[UNK]"))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.WhitespaceSplit(), decoders.WordPiece()
    inner.add_special_tokens(WORDS[:5])
    inner.add_special_tokens([AddedToken("[MASK]", lstrip=True)])
    if processor is not None:
        inner.post_processor = processor
    return inner


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("flags", [{}, {"add_bos_token": True, "add_eos_token": True, "bos_token": "<s>", "eos_token": "</s>"}])
def test_texts_and_pairs_are_framed_as_in_transformers(tmp_path: Path, name: str, flags: dict[str, object]) -> None:
    """Flags that add tokens mean nothing beside a `tokenizer.json`, in transformers 5 too."""
    (tmp_path / "tokenizer.json").write_text(made(PROCESSORS[name]).to_str())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **flags}))
    ours, theirs = Tokenizer.load(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    for first, second in (("one two", None), ("", None), ("one", "two three"), ("one two three", "four")):
        own = ours.framed(ours.encode(first), None if second is None else ours.encode(second))
        wanted = theirs(first, second, return_token_type_ids=True)
        assert own.tokens == wanted["input_ids"]
        assert own.types == wanted["token_type_ids"]


def test_the_frame_says_what_stands_before_and_behind_a_text() -> None:
    frame = Tokenizer.parse(made(PROCESSORS["roberta"]).to_str()).frame
    assert (frame.single.before, frame.single.behind, frame.single.count) == ((S[1],), (E[1],), 2)
    assert (frame.pair.before, frame.pair.behind, frame.pair.count) == ((S[1],), (E[1],), 4)
