"""What a user names as a run, and the record that is written of it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_runs import refused
from json_lines import write_lines

from pragworld_tasks.cli import main
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.evaluation.responses import read_predictions
from pragworld_tasks.evaluation.run_record import RunRecord, read_run_records
from pragworld_tasks.evaluation.runs import find_runs, part_of_run, results_beside
from pragworld_tasks.evaluation.scoring import score
from pragworld_tasks.evaluation.task_metrics import data_set_rows

SETTINGS = json.dumps({"groups": 4, "seed": 3})
DOCUMENTS = generate_documents(groups=4, seed=3)
GOLD: list[str] = [document.answer for document in DOCUMENTS]
DATE = "2026-01-02T03-04-05.678"
NAME = f"samples_pragworld_generated_{DATE}.jsonl"
RESULTS: dict[str, Any] = {
    "config": {
        "model": "hf",
        "model_args": {
            "pretrained": "/data/me/base",
            "peft": "someone/adapter",
            "load_in_4bit": True,
            "token": "hf_secret",
            "base_url": "http://me:secret@gpu7/v1",
        },
        "limit": None,
        "model_num_parameters": 1000,
        "model_dtype": "torch.bfloat16",
        "model_sha": "abc123",
    },
    "configs": {
        "pragworld_generated": {
            "metadata": {"groups": 4, "seed": 3, "pretrained": "/data/me/base"},
            "output_type": "generate_until",
            "generation_kwargs": {"do_sample": False, "temperature": 0.5},
        }
    },
    "chat_template": "{{ messages }}",
    "lm_eval_version": "0.4.13",
    "date": 1767323045.5,
    "total_evaluation_time_seconds": "12.5",
}


def write_samples(
    path: Path, documents: list[Document], answers: Sequence[str | list[str]]
) -> Path:
    records = zip(data_set_rows(documents), answers, strict=True)
    return write_lines(path, ({"doc": doc, "filtered_resps": [answer]} for doc, answer in records))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What lm-eval writes of a run, one of whose responses cannot be read."""
    write_samples(tmp_path / "model" / NAME, DOCUMENTS, [*GOLD[:2], "hm", *GOLD[3:]])
    (tmp_path / "model" / f"results_{DATE}.json").write_text(json.dumps(RESULTS))
    return tmp_path


def test_a_run_on_other_gold_answers_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    turned = [replace(document, answer="no") for document in DOCUMENTS]
    path = write_samples(tmp_path / "turned.jsonl", turned, ["no"] * len(turned))
    main(["score", "--split", "generated", "--metadata", SETTINGS, str(path)])
    assert "turned.jsonl: given to other documents than these" in caplog.text


def test_the_split_may_stand_before_a_run(tmp_path: Path) -> None:
    plain = tmp_path / "plain.jsonl"
    plain.write_text('{"response": "yes"}\n')
    runs = find_runs([f"manual:{plain}", "entity_tracking:published:gpt-3.5-turbo"])
    assert [(run.name, run.split) for run in runs] == [
        ("plain.jsonl", "manual"),
        ("published:gpt-3.5-turbo", "entity_tracking"),
    ]


@pytest.mark.parametrize(("evaluated", "part"), [(50, ""), (49, "run with --limit 60")])
def test_a_limit_that_leaves_nothing_out_makes_no_part(
    tmp_path: Path, evaluated: int, part: str
) -> None:
    """The results stand beside the samples, under another name after `--output_path x.json`."""
    counts = {"x": {"original": 50, "effective": evaluated}}
    results = {"config": {"limit": 60.0}, "n-samples": counts}
    (tmp_path / f"x_{DATE}.json").write_text(json.dumps(results))
    assert part_of_run(results_beside(tmp_path / f"samples_x_{DATE}.jsonl"), "x") == part


def test_runs_with_a_limit_are_left_out_of_a_folder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for date, limit in (("2026-01-01T00-00-00.1", None), ("2026-01-02T00-00-00.1", 5)):
        write_samples(tmp_path / f"samples_x_{date}.jsonl", DOCUMENTS, GOLD)
        results = {"config": {"limit": limit}}
        (tmp_path / f"results_{date}.json").write_text(json.dumps(results))
    (run,) = find_runs([str(tmp_path)])
    assert run.files == [tmp_path / "samples_x_2026-01-01T00-00-00.1.jsonl"]
    assert (
        "samples_x_2026-01-02T00-00-00.1.jsonl: run with --limit 5; pass a whole run" in caplog.text
    )


def test_samples_of_some_whole_groups_are_scored(tmp_path: Path) -> None:
    """As `lm_eval --limit` leaves them: their digest is that of the whole split."""
    some = [document for document in DOCUMENTS if document.group < 2]
    path = write_samples(tmp_path / "a.jsonl", DOCUMENTS, GOLD)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[: len(some)]))
    assert score(some, read_predictions(path)).acc == 100


def record_of(folder: Path) -> RunRecord:
    main(["score", str(folder), "--json", str(folder / "record.json")])
    (record,) = read_run_records(folder / "record.json").values()
    return record


def test_a_record_says_what_ran_and_how_and_nothing_private(folder: Path) -> None:
    record = record_of(folder)
    model, environment = record.model, record.environment
    assert (record.source, environment.task) == ("lm-eval", "pragworld_generated")
    assert (model.name, model.adapter, model.revision) == ("./base", "someone/adapter", "abc123")
    assert (model.dtype, model.quantization, model.chat_template) == ("bfloat16", "4bit", True)
    known = {"pretrained": "./base", "peft": "someone/adapter", "load_in_4bit": True}
    assert environment.model_args == known
    assert environment.generation == {"do_sample": False, "temperature": 0.5}
    assert environment.packages == {"lm_eval": "0.4.13"}
    assert (environment.date, environment.seconds) == ("2026-01-02T03:04:05+00:00", 12.5)
    assert record.data.generator
    assert (record.data.generator["groups"], record.data.groups) == (4, 4)
    answer = record.answers[2]
    assert (answer.row, answer.answer, answer.response) == (2, None, "hm")
    assert "secret" not in (folder / "record.json").read_text()


def test_a_record_is_scored_like_its_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = record_of(folder)
    shown = capsys.readouterr().out
    (run,) = find_runs([str(folder / "model")])
    report = run.score(DOCUMENTS)
    assert record.metrics == report.metrics
    assert record.metrics["acc"].stderr > 0
    main(["score", str(folder / "record.json")])  # generates the documents from the settings
    assert capsys.readouterr().out == shown
    with refused(r"base: \d+ responses for \d+ documents"):
        settings = '{"groups": 4, "seed": 6}'
        main(["score", str(folder / "record.json"), "--split", "generated", "--metadata", settings])


def test_runs_in_a_folder_hold_their_documents_and_are_recorded_by_their_names(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_group = NAME.replace("_", "_all::", 1)  # as lm-eval 0.5 writes them
    write_samples(folder / "no" / of_group, DOCUMENTS, [["no"]] * len(DOCUMENTS))
    out = folder / "out.json"
    main(["score", str(folder), "--json", str(out)])
    shown = capsys.readouterr().out
    main(["score", "--split", "generated", "--metadata", SETTINGS, str(folder)])
    assert capsys.readouterr().out == shown
    names = ["model/pragworld_generated", "no/pragworld_generated"]
    assert all(f"| {name} " in shown for name in names)
    assert [*read_run_records(out)] == names
    content = json.loads(out.read_text())
    undefined = dict.fromkeys(("low", "high", "stderr", "percent"))
    negation = content["runs"][names[0]]["breakdowns"]["alteration"]["Not Altered"]
    assert {"right", "total", *undefined} == set(negation["yes"])
    assert [run.name for run in find_runs([str(out)])] == names
