"""What a trained model reaches: losses and metrics of data, choices, hidden words, retrieval, tasks; two models compared."""

from anyformer.evaluation.choices import Choices, Question, answer, better, read_questions
from anyformer.evaluation.decoder_likelihood import target_scores
from anyformer.evaluation.fill import Filled, fill
from anyformer.evaluation.gaps import Gap, Guess, by_left_side, by_mask, by_sentinel, by_whole_text
from anyformer.evaluation.intervals import Difference, Interval, paired, share
from anyformer.evaluation.likelihood import Request, Score, scores
from anyformer.evaluation.masked_likelihood import filled_scores
from anyformer.evaluation.measure import Measured, Task, against, measure, task_of
from anyformer.evaluation.retrieval import Retrieval, embeddings, read_pairs, retrieve
from anyformer.evaluation.subject import Subject, open_subject
from anyformer.evaluation.tasks import Asking, Result, check_harness, run_tasks
from anyformer.evaluation.text_figures import Bucket, Sums, TextFigures, text_figures

__all__ = [
    "Asking",
    "Bucket",
    "Choices",
    "Difference",
    "Filled",
    "Gap",
    "Guess",
    "Interval",
    "Measured",
    "Question",
    "Request",
    "Result",
    "Retrieval",
    "Score",
    "Subject",
    "Sums",
    "Task",
    "TextFigures",
    "against",
    "answer",
    "better",
    "by_left_side",
    "by_mask",
    "by_sentinel",
    "by_whole_text",
    "check_harness",
    "embeddings",
    "fill",
    "filled_scores",
    "measure",
    "open_subject",
    "paired",
    "read_pairs",
    "read_questions",
    "retrieve",
    "run_tasks",
    "scores",
    "share",
    "target_scores",
    "task_of",
    "text_figures",
]
