"""Runs in the schema of Every Eval Ever, version 0.3.0 (https://github.com/evaleval/every_eval_ever).

A run becomes a file with its metrics, as proportions, and, where its responses are known, one with
a line for each document. The package every-eval-ever would do the same, but needs Python 3.12.
"""

import hashlib
import json
import math
import uuid
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.sources import COMMIT, FILES, REPOSITORY
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import LOWER_IS_BETTER
from pragworld_tasks.evaluation.responses import AnswerRecord
from pragworld_tasks.evaluation.statistics import LEVEL
from pragworld_tasks.leaderboard.submission import Submission, SubmittedMetric

EEE_VERSION = "0.3.0"
RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
_UNKNOWN = {"deployment_type": "unknown", "model_availability": "unknown"}
_SETTINGS = {"temperature": "temperature", "top_p": "top_p", "max_gen_toks": "max_tokens"}


def every_eval_ever_files(submission: Submission, evaluator: str | None) -> dict[Path, bytes]:
    """Return the files of a run by their paths in the datastore; the same run gives the same."""
    summary = _summary(submission, evaluator)
    content = json.dumps([summary, submission.run.record.to_json()], sort_keys=True)
    # The datastore takes random UUIDs (version 4) only; this one is as good as random.
    name = uuid.UUID(bytes=hashlib.sha256(content.encode()).digest()[:16], version=4)
    path = Path("data", "pragworld", *submission.model.split("/"), f"{name}_samples.jsonl")
    files, answers = {}, submission.run.record.answers
    if any(answer.response is not None or answer.yes is not None for answer in answers):
        sample = partial(_sample, submission, summary["evaluation_id"])
        samples = [*map(sample, submission.run.report.documents, answers)]
        files[path] = "".join(json.dumps(sample) + "\n" for sample in samples).encode()
        summary["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": path.as_posix(),
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(files[path]).hexdigest(),
            "total_rows": len(samples),
        }
    return {**files, path.with_name(f"{name}.json"): json.dumps(summary, indent=2).encode()}


def _summary(submission: Submission, evaluator: str | None) -> dict[str, Any]:
    """Return the content of the file of metrics, without its reference to the samples."""
    relationship, _, organization = (evaluator or "").partition(":")
    if submission.source_name:
        relationship, organization = "third_party", submission.source_name
    if relationship not in RELATIONSHIPS or not organization or submission.date is None:
        raise InputError(
            f"{submission.run.name}: who evaluated the model, and when? Pass --date, and "
            f"--evaluator RELATIONSHIP:NAME, where RELATIONSHIP is {', '.join(RELATIONSHIPS)}"
        )
    timestamp = str(int(submission.date.timestamp()))
    return {
        "schema_version": EEE_VERSION,
        "evaluation_id": f"{submission.task}/{submission.model}/{timestamp}",
        "retrieved_timestamp": timestamp,
        "source_metadata": {
            "source_type": "documentation" if submission.source_name else "evaluation_run",
            "source_organization_name": organization,
            "evaluator_relationship": relationship,
            "additional_details": _strings({"source_url": submission.source_url}),
        },
        "eval_library": {"name": "pragworld", "version": version("pragworld")},
        "model_info": {
            "name": submission.model.rpartition("/")[2],
            "id": submission.model,
            "additional_details": {
                **_UNKNOWN,
                **_strings(submission.run.record.model.model_dump()),
            },
        },
        "evaluation_results": [_result(submission, metric) for metric in submission.metrics()],
    }


def _result(submission: Submission, metric: SubmittedMetric) -> dict[str, Any]:
    """Return a metric with its uncertainty, what it is measured on, and how the model generated."""
    record, share = submission.run.record, metric.share
    data, generation = record.data, record.environment.generation
    source: dict[str, Any] = {"source_type": "other"}
    if data.split in FILES:
        url = f"https://github.com/{REPOSITORY}/blob/{COMMIT}/{FILES[data.split].path}"
        source = {"source_type": "url", "url": [url]}
    uncertainty: dict[str, Any] = {"num_samples": share.total}
    if not math.isnan(share.stderr):
        ends = {"lower": share.low / 100, "upper": share.high / 100, "confidence_level": LEVEL}
        uncertainty["standard_error"] = {"value": share.stderr / 100, "method": "by group"}
        uncertainty["confidence_interval"] = {**ends, "method": record.intervals}
    details = _strings(data.model_dump())
    return {
        "evaluation_result_id": f"{submission.task}/{metric.name}",
        "evaluation_name": submission.task,
        "source_data": {"dataset_name": "PragWorld", "additional_details": details, **source},
        "metric_config": {
            "metric_name": metric.name,
            "evaluation_description": f"Share of {metric.description}",
            "lower_is_better": metric.name.removesuffix("_published") in LOWER_IS_BETTER,
            **{"score_type": "continuous", "min_score": 0.0, "max_score": 1.0},
        },
        "score_details": {"score": share.right / share.total, "uncertainty": uncertainty},
        "generation_config": {
            "generation_args": {
                name: generation[key] for key, name in _SETTINGS.items() if key in generation
            },
            "additional_details": _strings(record.environment.model_dump()),
        },
    }


def _sample(
    submission: Submission, evaluation_id: str, document: Document, answer: AnswerRecord
) -> dict[str, Any]:
    """Return the line of a document, which belongs to `acc`: others follow from its metadata."""
    output, method = answer.response, "pragworld.read_answer"
    if answer.yes is not None:
        output, method = answer.answer, "likelier label"
    attribution = {"turn_idx": 0, "source": "output.raw", "is_terminal": True}
    extracted = {"extracted_value": answer.answer or "", "extraction_method": method}
    right = answer.answer == document.answer
    return {
        "schema_version": EEE_VERSION,
        "evaluation_id": evaluation_id,
        "model_id": submission.model,
        "evaluation_name": submission.task,
        "evaluation_result_id": f"{submission.task}/acc",
        "sample_id": f"{document.split}/{document.row}",
        "interaction_type": "single_turn",
        "input": {
            "raw": f"{document.context}\n\n{document.question}",
            "reference": [document.answer],
        },
        "output": {"raw": [] if output is None else [output]},
        "answer_attribution": [{**attribution, **extracted}],
        "evaluation": {"score": float(right), "is_correct": right},
        "metadata": _strings(document.to_dict() | {"probability_of_yes": answer.yes}),
    }


def _strings(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the values that are known, as the strings that the schema asks for."""
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in values.items()
        if value is not None
    }
