"""A run's data, prepared, and refused where too little of it is held out."""

from __future__ import annotations

from math import ceil

from anyformer.data import Corpus, Data, Files, WorkShare, prepare, prepare_share
from anyformer.describe import DescriptionError
from anyformer.objectives.classes import check_classes
from anyformer.text import DataError
from anyformer.training.parallel import Ranks
from anyformer.training.run import Run


def corpus_together(run: Run, ranks: Ranks, workers: int | None = None) -> Corpus:
    """`corpus_of` a run in several processes: each tokenises a part, and the first joins the parts on their shared disk."""
    if ranks.size > 1:
        share_of(run, WorkShare(ranks.rank, ranks.size), workers, progress=ranks.first)
        ranks.every(None)  # no part is missed
    return ranks.in_turn(lambda: corpus_of(run, workers))


def share_of(run: Run, share: WorkShare, workers: int | None = None, progress: bool = True) -> int:
    """Tokenise a part of a run's data, and give the number of stretches that are left to others."""
    return prepare_share(run.data, share, workers=workers, progress=progress, special=run.objective.special(run.length))


def corpus_of(run: Run, workers: int | None = None) -> Corpus:
    """The run's data, prepared. Raises an error without held-out examples, or if the tokenizer exceeds the embedding's rows."""
    corpus = prepare(run.data, workers=workers, special=run.objective.special(run.length), verify=True)
    least = run.objective.sizes.least_held_out
    for name, part in corpus.components.items():
        if len(part.validation) < least:
            raise DataError(f"{name}: " * bool(name) + _not_held_out(run, run.data.components[name], part))
        if run.objective.traits.classes is not None:
            check_classes(run.architecture, part, run.objective.traits.classes)
    for name, vocab in run.architecture.vocabularies.items():
        if corpus.tokenizer.vocab_size > vocab:
            raise DescriptionError(
                f"the tokenizer has {corpus.tokenizer.vocab_size} tokens and the {name} {vocab} rows; "
                f"set {name}.vocab={corpus.tokenizer.vocab_size}"
            )
    return corpus


def _not_held_out(run: Run, data: Data, corpus: Corpus) -> str:
    """The error for too little held-out data, with the amount needed."""
    assert isinstance(data, Files), "of what is made there is always more"
    share, held, sizes = data.validation, len(corpus.validation), run.objective.sizes
    unit = "tokens" if sizes.least_held_out > 1 else "records"
    if data.validation_paths:
        return f"validation_paths: {held:,} {unit} are held out, and at least {sizes.least_held_out} are needed; give more"
    if share == 0:
        return "nothing is held out, so nothing can be evaluated; set data.validation above 0, or validation_paths"
    if unit == "records":
        return f"no record is held out of {len(corpus.train):,}; give more records, or set a greater data.validation"
    needed = ceil(max(2 / share, (run.length + 1) / (1 - share)))
    return (
        f"the text is too short: it has {len(corpus.train) + held:,} tokens, and about {needed:,} are needed, for one window "
        f"of length {run.length:,} to train on and for a share of {share:g} (data.validation) to hold out; give more text"
    )
