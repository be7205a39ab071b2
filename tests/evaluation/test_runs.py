"""Several runs at once: released answers, lm-eval's folders, one table, and the item analysis."""

import csv
import json
import math
import os
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from command_runs import refused, run_command
from lm_eval.utils import hash_string
from places import ROOT, SAMPLES

from pragworld_tasks.cli import main
from pragworld_tasks.data.documents import Answer, Document, ReleasedSplit, documents_digest
from pragworld_tasks.data.sources import FILES
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.comparison import compare_scores
from pragworld_tasks.evaluation.items import analyze_items
from pragworld_tasks.evaluation.lm_eval_results import part_of_run
from pragworld_tasks.evaluation.published import (
    published_answers,
    published_models,
    reading_answers,
)
from pragworld_tasks.evaluation.responses import Predictions, read_predictions, sampled_documents
from pragworld_tasks.evaluation.run_record import ModelRecord, to_record
from pragworld_tasks.evaluation.runs import find_runs
from pragworld_tasks.evaluation.scoring import ScoreReport, score
from pragworld_tasks.evaluation.task_metrics import to_records

# The paper's figures by table, model and metric, in percent.
FIGURES: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
with (SAMPLES / "published_figures.csv").open() as stream:
    for line in csv.DictReader(stream):
        FIGURES[line["split"], line["model"]][line["metric"]] = line["percent"]
# By the first line of their answers, two models give other figures than Table 3: it counts what
# follows the last `Label:`, and only a bare yes or no.
OTHER_READING = ("Phi-3.5-mini-instruct", "DeepSeek-Coder-V2-Lite-Instruct")


@pytest.fixture(scope="module")
def splits(released: Path) -> dict[ReleasedSplit, list[Document]]:
    return {
        split: FILES[split].read(released / FILES[split].path)
        for split in ("manual", "entity_tracking")
    }


@pytest.fixture(scope="module")
def reports(splits: dict[ReleasedSplit, list[Document]]) -> dict[str, ScoreReport]:
    return {
        model: score(splits["manual"], published_answers(model)) for model in published_models()
    }


# Released answers ---------------------------------------------------------------------------------


def test_every_row_of_tables_1_and_15_reproduces(reports: dict[str, ScoreReport]) -> None:
    assert {model for split, model in FIGURES if split == "manual"} == set(reports)
    for model, report in reports.items():
        figures = FIGURES["manual", model]
        assert len(figures) == 7
        published = {name: f"{report.published[name].percent:.2f}" for name in figures}
        assert published == figures, model


def test_table_3_reproduces_with_its_digits_cut(
    splits: dict[ReleasedSplit, list[Document]],
) -> None:
    models = published_models("entity_tracking")
    assert {model for split, model in FIGURES if split == "entity_tracking"} == set(models)
    for model in models:
        report = score(splits["entity_tracking"], published_answers(model, "entity_tracking"))
        cut = {
            name: f"{math.floor(100 * report.published[name].percent + 1e-9) / 100:.2f}"
            for name in FIGURES["entity_tracking", model]
        }
        assert (cut == FIGURES["entity_tracking", model]) == (model not in OTHER_READING), model


def test_shipped_answers_are_those_of_the_released_responses(
    released: Path, splits: dict[ReleasedSplit, list[Document]]
) -> None:
    paths = sorted((released / "responses").glob("*.jsonl"))
    assert len(paths) == sum(len(published_models(split)) for split in get_args(ReleasedSplit))
    for path in paths:
        split: ReleasedSplit = "manual" if path.name.startswith("manual") else "entity_tracking"
        shipped = published_answers(path.stem.removeprefix(f"{split}_"), split)
        read = read_predictions([path], splits[split])
        assert (shipped.ours, shipped.released) == (read.ours, read.released), path
        assert shipped.documents_digest == documents_digest(splits[split])


def test_answers_to_other_documents_are_refused(
    splits: dict[ReleasedSplit, list[Document]], tmp_path: Path
) -> None:
    documents = splits["manual"]
    path = tmp_path / "a.jsonl"
    path.write_text('{"response": "yes"}\n' * len(documents))
    relabelled = [replace(document, answer="yes") for document in documents]
    for answers in (
        published_answers("gpt-3.5-turbo"),
        reading_answers("majority"),
        read_predictions(path, documents),
    ):
        with pytest.raises(InputError, match="the responses are to other contexts and questions"):
            score(documents[::-1], answers)
        assert score(relabelled, answers).run.gold.all()
    documents = splits["entity_tracking"]
    with pytest.raises(InputError, match="the responses are to other contexts and questions"):
        score(documents[::-1], published_answers("gpt-3.5-turbo", "entity_tracking"))


def test_corrected_and_undisputed_figures(reports: dict[str, ScoreReport]) -> None:
    shown = {
        model: (report.robust_acc, report.robust_acc_undisputed)
        for model, report in reports.items()
    }
    assert shown["Llama-3.3-70B-Instruct"] == pytest.approx((61.36, 65.52), abs=0.005)
    assert shown["Qwen2.5-32B-Instruct"] == pytest.approx((52.27, 55.17), abs=0.005)
    assert shown["DeepSeek-Coder-V2-Lite-Instruct"] == pytest.approx((44.32, 47.13), abs=0.005)


# The command --------------------------------------------------------------------------------------


def table(text: str) -> dict[str, dict[str, str]]:
    """The rows of a Markdown table by their first cell, in order."""
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    return {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[2:]}


def test_all_released_runs_in_one_table(
    released: Path, reports: dict[str, ScoreReport], tmp_path: Path
) -> None:
    process = run_command(
        "score",
        "published:all",
        "readings:majority",
        "--split",
        "manual",
        "--json",
        tmp_path / "runs.json",
        "--items",
        tmp_path / "items.csv",
        PRAGWORLD_DATA=str(released),
    )
    assert process.returncode == 0, process.stderr
    rows = table(process.stdout)
    assert [*rows][:2] == ["readings:majority", "published:Llama-3.3-70B-Instruct"]
    assert len(rows) == 15
    shown = [float(row["robust_acc"]) for row in rows.values()]
    assert shown == sorted(shown, reverse=True)
    first, second = "Llama-3.3-70B-Instruct", "Qwen2.5-72B-Instruct"
    row = rows[f"published:{first}"]
    assert row["robust_acc, released scoring"] == "61.22"
    groups = compare_scores(reports[first], reports[second]).on_groups
    assert groups is not None
    assert row["p, next row"] == f"{groups.p:.3g}"
    runs = json.loads((tmp_path / "runs.json").read_text())["runs"]
    assert {run["data"]["digest"] for run in runs.values()} == {FILES["manual"].digest}
    expected = to_record(reports[first], ModelRecord(name=first), "published").to_json()
    assert runs[f"published:{first}"] == expected
    with (tmp_path / "items.csv").open() as lines:
        assert len(list(csv.DictReader(lines))) == 500


def test_a_run_against_a_published_one(released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAGWORLD_DATA", str(released))
        main(
            [
                "score",
                "published:gpt-3.5-turbo",
                "--against",
                "published:Llama-3.3-70B-Instruct",
            ]
        )
    shown = capsys.readouterr().out
    assert "| robust_acc" in shown
    assert "only the first right 3, only the second 20, p = 0.000488" in shown


@pytest.fixture
def documents() -> list[Document]:
    return generate_documents(groups=4, seed=3)


def write_samples(
    path: Path, documents: list[Document], answers: list[Answer], **changes: Any
) -> Path:
    """Samples as lm-eval writes them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        {
            "doc": (doc := {**record, **changes}),
            "filtered_resps": [answer],
            "doc_hash": hash_string(json.dumps(doc, indent=2, ensure_ascii=False)),
            "unreadable": 0.0,
        }
        for record, answer in zip(to_records(documents), answers, strict=True)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_folders_of_results_name_their_split_and_hold_their_documents(
    documents: list[Document], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = [document.answer for document in documents]
    name = "samples_pragworld_generated_2026-01-02T03-04-05.678.jsonl"
    write_samples(tmp_path / "good" / name, documents, gold)
    write_samples(tmp_path / "no" / name, documents, ["no"] * len(documents))
    main(["score", str(tmp_path)])
    rows = table(capsys.readouterr().out)
    assert [*rows] == ["good/pragworld_generated", "no/pragworld_generated"]
    assert rows["good/pragworld_generated"]["robust_acc"] == "100.00"
    settings = json.dumps({"groups": 4, "seed": 3})
    main(["score", "--split", "generated", "--metadata", settings, str(tmp_path)])
    assert table(capsys.readouterr().out) == rows


def test_parts_of_a_run_count_as_one(
    documents: list[Document], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    gold = [json.dumps({"response": document.answer}) + "\n" for document in documents]
    parts[0].write_text("".join(gold[:5]))
    parts[1].write_text("".join(gold[5:]))
    settings = json.dumps({"groups": 4, "seed": 3})
    arguments = ["score", "--split", "generated", "--metadata", settings]
    main([*arguments, *map(str, parts)])
    shown = capsys.readouterr().out
    assert re.search(rf"^\| acc +\| +{len(gold)}/{len(gold)} \|", shown, re.MULTILINE), shown


# Refusals -----------------------------------------------------------------------------------------


def test_runs_of_other_gold_answers_are_not_compared(
    documents: list[Document], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two gold labels swapped: context, question and counts stay the same."""
    swapped = list(documents)
    for document in {document.answer: document for document in documents}.values():
        fields = {name: getattr(document, name) for name in Document.__dataclass_fields__}
        fields["answer"] = "no" if document.answer == "yes" else "yes"
        swapped[document.row] = Document(**fields)
    answers = [document.answer for document in documents]
    here = write_samples(tmp_path / "here.jsonl", documents, answers)
    elsewhere = write_samples(tmp_path / "elsewhere.jsonl", swapped, answers)
    with refused("on different documents .* texts or gold answers differ"):
        main(["score", str(here), "--against", str(elsewhere)])
    with refused("on different documents .* texts or gold answers differ"):
        main(["score", str(here), str(elsewhere)])
    report = score(documents, read_predictions([elsewhere], documents))
    assert report.responses_digest == documents_digest(swapped)
    assert report.documents_digest == documents_digest(documents)


def test_a_run_on_other_gold_answers_is_named(
    documents: list[Document], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    turned = [
        Document(
            **{
                **{name: getattr(document, name) for name in Document.__dataclass_fields__},
                "answer": "no",
            }
        )
        for document in documents
    ]
    path = write_samples(tmp_path / "turned.jsonl", turned, ["no"] * len(turned))
    settings = json.dumps({"groups": 4, "seed": 3})
    main(["score", "--split", "generated", "--metadata", settings, str(path)])
    assert "turned.jsonl: given to other documents than these" in caplog.text


def test_the_split_may_stand_before_a_run(tmp_path: Path) -> None:
    plain = tmp_path / "plain.jsonl"
    plain.write_text('{"response": "yes"}\n')
    runs = find_runs([f"manual:{plain}", "entity_tracking:published:gpt-3.5-turbo"], None)
    assert [(run.name, run.split) for run in runs] == [
        ("plain.jsonl", "manual"),
        ("published:gpt-3.5-turbo", "entity_tracking"),
    ]
    with pytest.raises(InputError, match="responses to the split manual, not to generated"):
        find_runs([f"manual:{plain}"], "generated")


@pytest.mark.parametrize(("evaluated", "part"), [(50, ""), (49, "run with --limit 60")])
def test_a_limit_that_leaves_nothing_out_makes_no_part(
    tmp_path: Path, evaluated: int, part: str
) -> None:
    counts = {"x": {"original": 50, "effective": evaluated}}
    results = {"config": {"limit": 60.0}, "n-samples": counts}
    (tmp_path / "results_2026-01-01T00-00-00.1.json").write_text(json.dumps(results))
    assert part_of_run(tmp_path / "samples_x_2026-01-01T00-00-00.1.jsonl") == part


def test_runs_with_a_limit_are_left_out_of_a_folder(
    documents: list[Document], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [document.answer for document in documents]
    for date, limit in (("2026-01-01T00-00-00.1", None), ("2026-01-02T00-00-00.1", 5)):
        write_samples(tmp_path / f"samples_x_{date}.jsonl", documents, answers)
        results = tmp_path / f"results_{date}.json"
        results.write_text(json.dumps({"config": {"limit": limit}}))
    (run,) = find_runs([str(tmp_path)], None)
    assert run.files == [tmp_path / "samples_x_2026-01-01T00-00-00.1.jsonl"]
    assert (
        "samples_x_2026-01-02T00-00-00.1.jsonl: run with --limit 5; it is left out" in caplog.text
    )


def test_what_cannot_be_scored_is_refused_in_one_line(
    documents: list[Document], tmp_path: Path
) -> None:
    plain = tmp_path / "plain.jsonl"
    plain.write_text('{"response": "yes"}\n')
    (tmp_path / "empty").mkdir()
    for arguments, expected in (
        ([plain], "name no split; pass --split, or put it before"),
        ([tmp_path / "empty"], "no samples_.* of a pragworld task"),
        (["published:gpt-5", "--split", "manual"], "no published answers of that model"),
        (["readings:4", "--split", "manual"], "choose from majority, 1, 2, 3"),
        (
            ["published:gpt-3.5-turbo", "--split", "generated"],
            "no published answers to the split generated",
        ),
    ):
        with refused(expected):
            main(["score", *map(str, arguments)])


def test_files_are_not_overwritten_and_are_tried_first(
    documents: list[Document], tmp_path: Path
) -> None:
    out = tmp_path / "report.json"
    out.write_text("mine")
    with refused("report.json exists; pass --overwrite"):
        main(["score", "nothing.jsonl", "--json", str(out)])
    with refused("No such file or directory; choose a file that can be written"):
        main(["score", "nothing.jsonl", "--items", str(tmp_path / "no" / "x.csv")])
    assert out.read_text() == "mine"


def test_samples_of_some_whole_groups_are_scored(documents: list[Document], tmp_path: Path) -> None:
    """As `lm_eval --limit` leaves them: their digest is that of the whole split."""
    some = [document for document in documents if document.group < 2]
    path = write_samples(tmp_path / "a.jsonl", documents, [one.answer for one in documents])
    path.write_text("".join(path.read_text().splitlines(keepends=True)[: len(some)]))
    assert score(some, read_predictions([path], some)).acc == 100


def test_unedited_samples_of_a_released_split_are_read(
    splits: dict[ReleasedSplit, list[Document]], tmp_path: Path
) -> None:
    """Four of its variants have an effect that contradicts the gold answers."""
    documents = splits["manual"]
    path = write_samples(tmp_path / "a.jsonl", documents, [one.answer for one in documents])
    assert sampled_documents(path) == documents


def edited_lines(path: Path, **changes: Any) -> Path:
    """Change the second line of a file of JSON lines."""
    lines = path.read_text().splitlines(keepends=True)
    lines[1] = json.dumps({**json.loads(lines[1]), **changes}) + "\n"
    path.write_text("".join(lines))
    return path


def test_a_report_may_go_to_a_pipe(released: Path) -> None:
    command = [sys.executable, "-m", "pragworld_tasks", "score", "--json", "/dev/stdout"]
    process = subprocess.run(
        [*command, "published:gpt-3.5-turbo"],
        capture_output=True,
        text=True,
        env={**os.environ, "PRAGWORLD_DATA": str(released)},
    )
    assert process.returncode == 0, process.stderr
    assert json.JSONDecoder().raw_decode(process.stdout)[0]["data"]["documents"] == 500


# Items --------------------------------------------------------------------------------------------


def test_items_against_a_count_by_hand(documents: list[Document]) -> None:
    gold: list[Answer | None] = [document.answer for document in documents]
    second = documents[1]
    assert second.group == documents[0].group
    one_wrong = [None if row == second.row else answer for row, answer in enumerate(gold)]
    group_wrong = [
        None if document.group == second.group else answer
        for document, answer in zip(documents, gold, strict=True)
    ]
    items = analyze_items(
        {
            name: score(documents, Predictions(answers, answers))
            for name, answers in (("all", gold), ("one", one_wrong), ("group", group_wrong))
        }
    )
    by_row = {item.document.row: item for item in items}
    assert (by_row[1].right, by_row[1].only_wrong, by_row[1].breaks_group) == (1, 1, True)
    assert (by_row[0].right, by_row[0].only_wrong, by_row[0].breaks_group) == (2, 0, False)
    others = [item for item in items if item.document.group != second.group]
    assert {(item.right, item.breaks_group) for item in others} == {(3, False)}
    assert by_row[1].answers == {"all": gold[1], "one": None, "group": None}
    bases = [document.basis == "undetermined" for document in documents]
    assert [item.is_undetermined for item in items] == bases
    assert any(bases)


def test_what_no_model_answers_as_labelled(reports: dict[str, ScoreReport]) -> None:
    items = analyze_items(reports)
    nobody = [item.document.row for item in items if item.right == 0]
    assert nobody == [*range(126, 133), 134, 231, 366]
    disputed = [item.document.row for item in items if item.is_disputed]
    assert set(nobody) - set(disputed) == {231}
    best = sorted(reports, key=lambda model: -reports[model].robust_acc)[:10]
    among_best = analyze_items({model: reports[model] for model in best})
    assert sum(item.right == 0 for item in among_best) == 43


def test_the_script_writes_what_is_shipped(released: Path, tmp_path: Path) -> None:
    import importlib.util

    path = ROOT / "examples" / "ship_published_answers.py"
    spec = importlib.util.spec_from_file_location("ship_published_answers", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAGWORLD_DATA", str(released))
        written = script.ship(released / "responses", tmp_path)
    for file in written:
        shipped = script.SHIPPED / file.relative_to(tmp_path)
        assert file.read_bytes() == shipped.read_bytes()
