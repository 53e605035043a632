"""What a trained model reaches: losses and metrics of data, choices, hidden words, retrieval, tasks; two models compared."""

from anyformer.evaluation.choices import ChoiceQuestion, ChoiceResults, answer, better, read_questions
from anyformer.evaluation.decoder_likelihood import target_scores
from anyformer.evaluation.drawing import Painter, enlarged, painter, painter_of, sheet_of, write_png
from anyformer.evaluation.fill import Filled, fill
from anyformer.evaluation.gaps import CandidateScores, Gap, by_left_side, by_mask, by_sentinel, by_whole_text
from anyformer.evaluation.harness_tasks import Asking, Result, check_harness, run_tasks
from anyformer.evaluation.intervals import Interval, PairedDifference, paired, share
from anyformer.evaluation.likelihood import Request, TextLikelihood, scores
from anyformer.evaluation.masked_likelihood import filled_scores
from anyformer.evaluation.measure import EvaluationResult, EvaluationTask, against, measure, task_of
from anyformer.evaluation.retrieval import Retrieval, embeddings, read_pairs, retrieve
from anyformer.evaluation.subject import Subject, open_subject
from anyformer.evaluation.text_figures import ContextBucket, Sums, TextFigures, text_figures
from anyformer.evaluation.transcription import Listener, listener

__all__ = [
    "Asking",
    "CandidateScores",
    "ChoiceQuestion",
    "ChoiceResults",
    "ContextBucket",
    "EvaluationResult",
    "EvaluationTask",
    "Filled",
    "Gap",
    "Interval",
    "Listener",
    "Painter",
    "PairedDifference",
    "Request",
    "Result",
    "Retrieval",
    "Subject",
    "Sums",
    "TextFigures",
    "TextLikelihood",
    "against",
    "answer",
    "better",
    "by_left_side",
    "by_mask",
    "by_sentinel",
    "by_whole_text",
    "check_harness",
    "embeddings",
    "enlarged",
    "fill",
    "filled_scores",
    "listener",
    "measure",
    "open_subject",
    "painter",
    "painter_of",
    "paired",
    "read_pairs",
    "read_questions",
    "retrieve",
    "run_tasks",
    "scores",
    "share",
    "sheet_of",
    "target_scores",
    "task_of",
    "text_figures",
    "write_png",
]
