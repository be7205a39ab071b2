"""Runs in the schema of Every Eval Ever, version 0.3.0 (https://github.com/evaleval/every_eval_ever).

Each run becomes a file with its metrics and, where the model's responses are known, a file with a
line for each document. Metrics are proportions there, not percentages. A line points to the metric
`acc` only, because a line belongs to one metric; its metadata holds what the others follow from:
group, alteration and effect.
"""

import hashlib
import json
import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.sources import COMMIT, FILES, REPOSITORY
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import LEVEL
from pragworld_tasks.evaluation.run_record import AnswerRecord, is_folder
from pragworld_tasks.leaderboard.submission import (
    PAPER_NAME,
    PAPER_URL,
    Submission,
    SubmittedMetric,
)

EEE_VERSION = "0.3.0"
_COLLECTION = "pragworld"
_PAPER_AUTHORS = "Vashistha et al., authors of PragWorld"
# lm-eval's kinds of models that load the weights themselves.
_ENGINES = {
    "hf": "transformers",
    "hf-tree": "transformers",
    "vllm": "vllm",
    "sglang": "sglang",
    "gguf": "llama.cpp",
}
_SETTINGS = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k"}


@dataclass(frozen=True)
class Evaluator:
    """Who evaluated the model.

    Attributes:
        organization: its name.
        relationship: what it is to the developer of the model, in the words of the schema.
        source_url: where the runs can be read.
    """

    organization: str
    relationship: str
    source_url: str | None = None


def every_eval_ever_files(
    submission: Submission,
    evaluator: Evaluator | None,
    dataset_id: str | None = None,
    weights: Literal["open", "closed"] | None = None,
) -> dict[Path, bytes]:
    """Return the files of a run by their paths in the datastore.

    The same run gives the same files: their names follow from its record.

    Args:
        submission: the run.
        evaluator: who evaluated it; not needed for a released run of the paper.
        dataset_id: the Hub repository of the benchmark's dataset.
        weights: whether the model's weights are open, where that is known.

    Raises:
        InputError: The run does not say when it was made, or nobody who made it is named.
    """
    name = submission.run.name
    if submission.date is None:
        raise InputError(f"{name}: the run does not say when the model answered; pass --date")
    if not submission.is_published and evaluator is None:
        raise InputError(
            f"{name}: Every Eval Ever asks who evaluated the model; pass --organization and "
            "--relationship"
        )
    summary = _summary(submission, evaluator, dataset_id, weights)
    folder = Path("data", _COLLECTION, *submission.model.split("/"))
    content = json.dumps([summary, submission.record.model_dump(mode="json")], sort_keys=True)
    # The datastore takes random UUIDs (version 4) only; this one is as good as random.
    name = str(uuid.UUID(bytes=hashlib.sha256(content.encode()).digest()[:16], version=4))
    files: dict[Path, bytes] = {}
    if rows := _samples(submission, summary["evaluation_id"]):
        path = folder / f"{name}_samples.jsonl"
        files[path] = b"".join(_line(row) for row in rows)
        summary["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": path.as_posix(),
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(files[path]).hexdigest(),
            "total_rows": len(rows),
        }
    written = json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False)
    files[folder / f"{name}.json"] = f"{written}\n".encode()
    return files


def _summary(
    submission: Submission,
    evaluator: Evaluator | None,
    dataset_id: str | None,
    weights: Literal["open", "closed"] | None,
) -> dict[str, Any]:
    """Return the content of the file of metrics, without its reference to the samples."""
    assert submission.date is not None
    environment = submission.record.environment
    timestamp = str(int(submission.date.timestamp()))
    source_data = _source_data(submission, dataset_id)
    generation = _generation(submission)
    harness = environment.packages.get("lm_eval")
    return {
        "schema_version": EEE_VERSION,
        "evaluation_id": f"{submission.task}/{submission.model}/{timestamp}",
        # When the paper's models answered is not known: --date says when the answers came out.
        **({} if submission.is_published else {"evaluation_timestamp": timestamp}),
        "retrieved_timestamp": timestamp,
        "source_metadata": _source_metadata(submission, evaluator),
        "eval_library": {
            "name": "lm_eval" if harness else "unknown",
            "version": harness or "unknown",
            "additional_details": {"scored_by": f"pragworld {version('pragworld')}"},
        },
        "model_info": _model_info(submission, weights),
        "evaluation_results": [
            {
                "evaluation_result_id": _result_id(submission, metric.name),
                "evaluation_name": submission.task,
                "source_data": source_data,
                "metric_config": _metric_config(metric),
                "score_details": _score_details(submission, metric),
                **({"generation_config": generation} if generation else {}),
            }
            for metric in submission.metrics()
        ],
    }


def _result_id(submission: Submission, metric: str) -> str:
    return f"{submission.task}/{metric}"


def _source_metadata(submission: Submission, evaluator: Evaluator | None) -> dict[str, Any]:
    if submission.is_published or evaluator is None:
        return {
            "source_name": PAPER_NAME,
            "source_type": "documentation",
            "source_organization_name": _PAPER_AUTHORS,
            "source_organization_url": PAPER_URL,
            "evaluator_relationship": "third_party",
            "additional_details": {
                "answers": f"https://github.com/{REPOSITORY} at {COMMIT}",
                "remark": "metrics computed by pragworld from the released answers",
            },
        }
    url = {"source_url": evaluator.source_url} if evaluator.source_url else {}
    return {
        "source_name": "pragworld",
        "source_type": "evaluation_run",
        "source_organization_name": evaluator.organization,
        "evaluator_relationship": evaluator.relationship,
        **({"additional_details": url} if url else {}),
    }


def _source_data(submission: Submission, dataset_id: str | None) -> dict[str, Any]:
    data = submission.record.data
    details = {
        "split": data.split,
        "documents": str(data.documents),
        "groups": str(data.groups),
        "documents_digest": data.digest,
    }
    common = {"dataset_name": "PragWorld", "additional_details": details}
    if data.split not in FILES:
        details["generator"] = json.dumps(data.generator)
        return {**common, "source_type": "other"}
    if dataset_id:
        return {
            **common,
            "source_type": "hf_dataset",
            "hf_repo": dataset_id,
            "hf_split": "test",
            "samples_number": data.documents,
        }
    url = f"https://github.com/{REPOSITORY}/blob/{COMMIT}/{FILES[data.split].path}"
    return {**common, "source_type": "url", "url": [url]}


def _model_info(
    submission: Submission, weights: Literal["open", "closed"] | None
) -> dict[str, Any]:
    record = submission.record
    engine = _ENGINES.get(record.environment.backend or "")
    model = record.model
    details = {
        "deployment_type": "self_deployed" if engine else "unknown",
        "model_availability": f"{weights}_weights" if weights else "unknown",
        "backend": record.environment.backend,
        "revision": model.revision,
        "dtype": model.dtype,
        "quantization": model.quantization,
        "parameters": model.parameters,
        "base_model": model.name if model.adapter and not is_folder(model.name) else None,
    }
    info: dict[str, Any] = {
        "name": submission.model.rpartition("/")[2],
        "id": submission.model,
        "developer": submission.model.partition("/")[0],
        "additional_details": _strings(details),
    }
    if engine:
        engine_version = record.environment.packages.get(engine)
        info["inference_engine"] = _strings({"name": engine, "version": engine_version})
    return info


def _generation(submission: Submission) -> dict[str, Any]:
    """Return how the model was prompted and how it generated."""
    environment, model = submission.record.environment, submission.record.model
    settings = environment.generation
    arguments: dict[str, Any] = {
        name: settings[key]
        for name, key in _SETTINGS.items()
        if isinstance(settings.get(key), int | float)
    }
    if isinstance(settings.get("max_gen_toks"), int) and settings["max_gen_toks"] > 0:
        arguments["max_tokens"] = settings["max_gen_toks"]
    details = {
        "chat_template": model.chat_template,
        "system_instruction": environment.system_instruction,
        "generation": {
            key: value
            for key, value in settings.items()
            if key not in (*_SETTINGS.values(), "max_gen_toks")
        }
        or None,
        "model_args": {
            key: value
            for key, value in environment.model_args.items()
            if key not in ("pretrained", "peft")
        }
        or None,
    }
    parts = {"generation_args": arguments, "additional_details": _strings(details)}
    return {name: part for name, part in parts.items() if part}


def _metric_config(metric: SubmittedMetric) -> dict[str, Any]:
    return {
        "evaluation_description": f"Share of {metric.description}",
        "metric_id": "accuracy" if metric.name == "acc" else f"pragworld.{metric.name}",
        "metric_name": metric.name,
        "metric_kind": "rate" if metric.lower_is_better else "accuracy",
        "metric_unit": "proportion",
        "lower_is_better": metric.lower_is_better,
        "score_type": "continuous",
        "min_score": 0.0,
        "max_score": 1.0,
    }


def _score_details(submission: Submission, metric: SubmittedMetric) -> dict[str, Any]:
    share = metric.share
    uncertainty: dict[str, Any] = {"num_samples": share.total}
    if not math.isnan(share.stderr):
        uncertainty["standard_error"] = {
            "value": share.stderr / 100,
            "method": "analytic (linearized), documents clustered by group",
        }
    if not math.isnan(share.low):
        uncertainty["confidence_interval"] = {
            "lower": share.low / 100,
            "upper": share.high / 100,
            "confidence_level": LEVEL,
            "method": submission.record.intervals,
        }
    return {
        "score": share.right / share.total,
        "details": {"right": str(share.right), "total": str(share.total)},
        "uncertainty": uncertainty,
    }


def _samples(submission: Submission, evaluation_id: str) -> list[dict[str, Any]]:
    """Return a record for each document; none where only answers are known, not responses."""
    answers = submission.record.answers
    if all(answer.response is None and answer.yes is None for answer in answers):
        return []
    likelier = any(answer.yes is not None for answer in answers)
    return [
        {
            "schema_version": EEE_VERSION,
            "evaluation_id": evaluation_id,
            "model_id": submission.model,
            "evaluation_name": submission.task,
            "evaluation_result_id": _result_id(submission, "acc"),
            **_sample(document, answer, likelier),
        }
        for document, answer in zip(submission.run.documents, answers, strict=True)
    ]


def _sample(document: Document, answer: AnswerRecord, likelier: bool) -> dict[str, Any]:
    """Return what a record says about a document and its answer."""
    question = {
        "raw": f"{document.context}\n\n{document.question}",
        "reference": [document.answer],
    }
    hashed = json.dumps(question, sort_keys=True, separators=(",", ":"))
    correct = answer.answer == document.answer
    output = (answer.answer or "") if likelier else answer.response
    metadata = {
        "row": document.row,
        "group": document.group,
        "is_original": document.is_original,
        "alteration": document.alteration,
        "effect": document.effect,
        "turns_ago": document.turns_ago,
        "basis": document.basis,
        "probability_of_yes": answer.yes,
    }
    return {
        "sample_id": f"{document.split}/{document.row}",
        "sample_hash": hashlib.sha256(hashed.encode()).hexdigest(),
        "interaction_type": "single_turn",
        "input": {**question, **({"choices": ["yes", "no"]} if likelier else {})},
        "output": {"raw": [] if output is None else [output]},
        "answer_attribution": [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": answer.answer or "",
                "extraction_method": "likelier label" if likelier else "pragworld.read_answer",
                "is_terminal": True,
            }
        ],
        "evaluation": {"score": float(correct), "is_correct": correct},
        **({"error": "the API gave no response"} if output is None else {}),
        "metadata": _strings(metadata),
    }


def _line(row: Mapping[str, Any]) -> bytes:
    return (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _strings(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the values that are known, as the strings that the schema asks for."""
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in values.items()
        if value is not None
    }
