"""Options of `anyformer eval`: on what, which questions beside, tasks of a harness, and where it is computed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anyformer.cli.elsewhere import place

if TYPE_CHECKING:
    from anyformer.evaluation import Asking, ChoiceQuestion

data_option = partial(typer.Option, rich_help_panel="Data")
other_option = partial(typer.Option, rich_help_panel="Questions")
computing_option = partial(typer.Option, rich_help_panel="Computation")


@dataclass(frozen=True)
class DataOptions:
    """On which text, how it is read, and beside which model."""

    data: Annotated[
        list[str] | None,
        data_option(
            help="Evaluate on all of this: a file, a directory, or a word for data that comes with Python; may be repeated. "
            "By default on what the run held out.",
            metavar="PATH",
        ),
    ] = None
    changes: Annotated[
        list[str] | None,
        data_option(
            "--set",
            help="Change the value of the run at this path, as in --set length=512, --set data.isolate=true or --set "
            "objective.kind=masked. Repeat it for more changes.",
            metavar="PATH=VALUE",
        ),
    ] = None
    by_document: Annotated[
        bool | None,
        data_option(
            "--by-document/--side-by-side",
            help="Read every document on its own, as lm-evaluation-harness does, or windows side by side over all text. By "
            "default documents of a model from elsewhere whose tokenizer puts something before a text, as <s>, else windows.",
            show_default=False,
        ),
    ] = None
    stride: Annotated[
        int | None,
        data_option(
            help="Read documents in windows that begin this many tokens apart: every token then has what the window "
            "before it held as context: transformers' perplexity of texts longer than a window.",
            min=1,
            metavar="TOKENS",
        ),
    ] = None
    against: Annotated[
        Path | None,
        data_option(
            help="Compare with this model on the same rows, documents or questions, with an interval of the difference.",
            metavar="RUN|CHECKPOINT|DIRECTORY|URL",
            parser=place,
        ),
    ] = None


@dataclass(frozen=True)
class Questions:
    """What else is asked beside the loss."""

    choices: Annotated[
        Path | None,
        other_option(
            help="Ask these questions, and take the likeliest choice: records with context (or question), choices, and "
            "answer, a number from 0 or a choice.",
            metavar="FILE.jsonl",
        ),
    ] = None
    fill: Annotated[
        list[str] | None,
        other_option(help="Fill in every [MASK] of this text with a masked model; may be repeated.", metavar="TEXT"),
    ] = None
    retrieval: Annotated[
        Path | None,
        other_option(
            help="Find the positive of every text among those of all, by the similarity of embeddings: records with text and "
            "positive.",
            metavar="FILE.jsonl",
        ),
    ] = None
    pool: Annotated[
        Literal["first", "mean", "last"] | None,
        other_option(
            help="Make a text's embedding of its positions so, where the head does not. By default as the run says, else mean.",
            metavar="first|mean|last",
        ),
    ] = None

    @property
    def any(self) -> bool:
        return bool(self.choices or self.fill or self.retrieval)

    def read(self) -> tuple[list[ChoiceQuestion] | None, list[tuple[str, str]] | None]:
        """The questions with choices, and the pairs of texts; None where they are not asked."""
        from anyformer.evaluation import read_pairs, read_questions

        return (
            None if self.choices is None else read_questions(self.choices),
            None if self.retrieval is None else read_pairs(self.retrieval),
        )


@dataclass(frozen=True)
class TaskOptions:
    """Tasks of lm-evaluation-harness, and how they are put."""

    tasks: Annotated[
        list[str] | None,
        other_option(
            help="Run this task of lm-evaluation-harness, by its name or as a file. Repeat it for more. Needs the extra eval.",
            metavar="NAME|FILE.yaml",
        ),
    ] = None
    num_fewshot: Annotated[
        int | None,
        other_option(help="Put this many answered questions before a question of a task.", min=0, metavar="COUNT"),
    ] = None
    apply_chat_template: Annotated[
        bool, other_option("--apply-chat-template", help="Write a task's questions by the model's chat template.")
    ] = False
    fewshot_as_multiturn: Annotated[
        bool, other_option("--fewshot-as-multiturn", help="Give answered questions as turns of the chat.")
    ] = False
    system_instruction: Annotated[
        str | None, other_option(help="Say this first, before a task's questions.", metavar="TEXT")
    ] = None
    limit: Annotated[int | None, other_option(help="Ask only this many questions per task.", min=1, metavar="COUNT")] = None

    def asking(self) -> Asking:
        """How questions are put; refused where no task puts any."""
        from anyformer.describe import UserError
        from anyformer.evaluation import Asking

        asking = Asking(self.num_fewshot, self.apply_chat_template, self.fewshot_as_multiturn, self.system_instruction)
        if asking != Asking() and not self.tasks:
            raise UserError("answered questions, chat templates and system instructions apply to tasks: give --tasks too")
        if self.fewshot_as_multiturn and not self.apply_chat_template:
            raise UserError(
                "--fewshot-as-multiturn gives answered questions as turns of a chat: give --apply-chat-template too"
            )
        return asking


@dataclass(frozen=True)
class ComputingOptions:
    """Where is computed, and in which numbers."""

    precision: Annotated[
        Literal["stored", "fp32", "bf16"],
        computing_option(
            help="Compute with weights in this number format: as stored, fp32 or bf16.", metavar="stored|fp32|bf16"
        ),
    ] = "stored"
    device: Annotated[
        str | None, computing_option(help="Compute on this device. By default a GPU if there is one.", metavar="cpu|cuda")
    ] = None

    engine: Annotated[
        Literal["auto", "own", "llama.cpp", "vllm"],
        computing_option(
            help="Let this engine score choices and do tasks: by default the fastest that is installed and was proved to "
            "compute the same. The loss on data, hidden words and embeddings are the own one's.",
            metavar="auto|own|llama.cpp|vllm",
        ),
    ] = "auto"

    def settings(self) -> dict[str, Any]:
        """The device and the type of weights that `open_subject` takes."""
        import torch

        from anyformer.describe import UserError
        from anyformer.training.precision import default_device

        dtype = {"stored": None, "fp32": torch.float32, "bf16": torch.bfloat16}[self.precision]
        if self.device is None:
            return {"device": default_device(), "dtype": dtype}
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError):  # whose messages list what torch was built to know
            here = ["cpu", *([str(torch.accelerator.current_accelerator())] if torch.accelerator.is_available() else [])]
            named = "; a GPU is called cuda" if self.device.lower() != "cuda" else "; torch sees no CUDA device"
            raise UserError(f"--device {self.device}: this machine has {' and '.join(here)}{named}") from None
        return {"device": torch.device(self.device), "dtype": dtype}


def check(
    model: Path,
    data: DataOptions,
    questions: Questions,
    harness: TaskOptions,
    *,
    draws: bool,
    measures: bool,
) -> None:
    """Refuse options that have nothing to act on, before any work."""
    from anyformer.describe import UserError

    if harness.limit is not None and not harness.tasks:
        raise UserError("--limit cuts the questions of tasks: give --tasks too")
    reads = data.by_document is not None or data.stride is not None
    for name, given in (("--draw", draws), ("--set", bool(data.changes)), ("--by-document and --stride", reads)):
        if given and not measures:
            raise UserError(f"{name} is of an evaluation on data: give --data too")
    if data.against is not None and not (measures or questions.choices is not None):
        raise UserError("--against compares losses on data, or choices: give --data or --choices too")
    if data.against is not None and data.against.resolve() == model.resolve():
        raise UserError(f"--against {data.against}: is the same model; give another one")
