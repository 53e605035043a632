"""Tokens with their numbers, as transformers' classes take them: boxes, cells, paths, codes, shapes and sounds."""

from __future__ import annotations

import pytest
import torch

from anyformer.describe import InputError
from anyformer.generation.checks import check_model
from anyformer.parts import Marks, TreePlacedEmbedding
from huggingface.cases.marked import CASES
from huggingface.cases.markuplm import CASES as PATHS
from huggingface.composite_cases import case_of
from huggingface.inner_models import text_model
from huggingface.parity import gap, inputs, pair

FIRST = {case.model_type: case for case in reversed(CASES) if case.name == "plain" and case.task == "MaskedLM"}


def numbers(shape: torch.Size, limits: list[int]) -> torch.Tensor:
    """Numbers of each token (B, T, n), below `limits`."""
    generator = torch.Generator().manual_seed(3)
    return torch.stack([torch.randint(0, limit, shape, generator=generator) for limit in limits], -1)


def boxes(shape: torch.Size) -> torch.Tensor:
    """Kinds of segments, and left, upper, right, lower edges (B, T, 5)."""
    made = numbers(shape, [2, 8, 9, 10, 9])
    return torch.cat([made[..., :3], made[..., 1:3] + made[..., 3:]], -1)


def test_boxes_on_a_page():
    both = pair(FIRST["layoutlm"])
    tokens = inputs(both)[0]
    types = boxes(tokens.shape)
    with torch.no_grad():
        theirs = both.theirs(input_ids=tokens, bbox=types[..., 1:], token_type_ids=types[..., 0]).logits
        assert gap(both.ours(tokens, types=types), theirs) <= both.case.logits
        assert gap(both.ours(tokens), theirs) > 1e-2


def test_cells_of_a_table():
    both = pair(FIRST["tapas"])
    tokens = inputs(both)[0]
    types = numbers(tokens.shape, both.case.config["type_vocab_sizes"])
    with torch.no_grad():
        theirs = both.theirs(input_ids=tokens, token_type_ids=types).logits
        assert gap(both.ours(tokens, types=types), theirs) <= both.case.logits
        assert gap(both.ours(tokens, types=types[..., 0]), theirs) > 1e-2


def test_shapes_and_sounds_of_characters():
    both = pair(FIRST["roc_bert"])
    tokens = inputs(both)[0]
    types = numbers(tokens.shape, [2, 13, 11])
    named = {"token_type_ids": types[..., 0], "input_shape_ids": types[..., 1], "input_pronunciation_ids": types[..., 2]}
    with torch.no_grad():
        theirs = both.theirs(input_ids=tokens, **named).logits
        assert gap(both.ours(tokens, types=types), theirs) <= both.case.logits
        assert gap(both.ours(tokens), theirs) > 1e-2


def test_paths_in_a_tree():
    both = pair(next(case for case in PATHS if case.task == "SequenceClassification"))
    tokens, depth = inputs(both)[0], both.case.config["max_depth"]
    types = numbers(tokens.shape, [2, *[9] * depth, *[11] * depth])
    named = {"xpath_tags_seq": types[..., 1 : depth + 1], "xpath_subs_seq": types[..., depth + 1 :]}
    with torch.no_grad():
        theirs = both.theirs(input_ids=tokens, token_type_ids=types[..., 0], **named).logits
        assert gap(both.ours(tokens, types=types), theirs) <= both.case.logits
        assert gap(both.ours(tokens, types=types[..., 0]), theirs) > 1e-2


def test_a_path_of_no_step_needs_rows_for_it():
    with pytest.raises(ValueError, match="no_tag = 5 is no row of a table of 5"):
        TreePlacedEmbedding(vocab=9, depth=2, tags=5, subscripts=4, inner=8, no_tag=5, no_subscript=0)


def test_codes_of_sound_beside_each_token_of_text():
    both = pair(case_of("kyutai_speech_to_text"))
    tokens = inputs(both)[0]
    codes = numbers(tokens.shape, [11] * 3)
    types = torch.cat([torch.zeros_like(tokens)[..., None], codes], -1)
    with torch.no_grad():
        theirs = both.theirs(input_ids=torch.cat([tokens[..., None], codes], -1)).logits
        assert gap(both.ours(tokens, types=types), theirs) <= both.case.logits
        assert gap(both.ours(tokens), theirs) > 1e-2


@pytest.mark.parametrize("composite", ["musicgen", "dia"])
def test_codes_of_every_book(composite):
    both = pair(case_of(composite))
    tokens, more = inputs(both)[0], both.ours.architecture.embedding.more_numbers
    codes = numbers(tokens.shape, [11] * more)
    with torch.no_grad():
        theirs = text_model(both.theirs)(input_ids=tokens, types=codes).logits
        assert gap(both.ours(tokens, types=torch.cat([torch.zeros_like(tokens)[..., None], codes], -1)), theirs) <= 2e-5
        assert gap(both.ours(tokens), theirs) > 1e-2
    with pytest.raises(InputError, match="several books of codes"):
        check_model(both.ours)


def test_a_call_names_all_numbers_of_a_token():
    ours = pair(FIRST["layoutlm"]).ours
    tokens = torch.full((2, 3), 7)
    with pytest.raises(InputError, match="5 numbers of every token"):
        ours(tokens, types=torch.zeros(2, 3, 4, dtype=torch.int64))
    with pytest.raises(InputError, match="shape of its tokens"):
        ours(tokens, types=torch.zeros(2, 4, 5, dtype=torch.int64))
    upside_down = torch.zeros(2, 3, 5, dtype=torch.int64)
    upside_down[..., 2] = 4
    with pytest.raises(InputError, match="numbers of tokens"):
        ours(tokens, types=upside_down)


def test_a_table_that_reads_nothing_is_refused():
    with pytest.raises(ValueError, match="reads no number"):
        Marks(rows=3)
