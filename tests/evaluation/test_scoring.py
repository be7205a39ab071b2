"""Scores of responses that exist already: formats, reports, comparison, items and the command."""

import copy
import csv
import json
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from json_lines import write_lines
from places import SAMPLES

from pragworld_tasks.cli import main
from pragworld_tasks.data.sources import FILES, read_split
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.evaluation.comparison import compare_scores
from pragworld_tasks.evaluation.metrics import unreadable_warning
from pragworld_tasks.evaluation.published import published_answers
from pragworld_tasks.evaluation.responses import read_predictions
from pragworld_tasks.evaluation.run_record import read_run_records
from pragworld_tasks.evaluation.runs import find_runs
from pragworld_tasks.evaluation.scoring import score
from pragworld_tasks.evaluation.task_metrics import data_set_rows, robust_share, score_response
from pragworld_tasks.grouped.item_analysis import analyze_items

MANUAL = read_split("manual", SAMPLES / FILES["manual"].path)
DOCUMENTS = generate_documents(groups=4, seed=3)


def write_responses(path: Path, responses: Sequence[str | dict[str, Any]]) -> Path:
    """A file of responses; a text stands for `{"response": text}`."""
    records = ({"response": one} if isinstance(one, str) else one for one in responses)
    return write_lines(path, records)


def table(text: str) -> dict[str, dict[str, str]]:
    """The rows of a Markdown table by their first cell, in order."""
    rows = rows_of(text)
    return {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[2:]}


def rows_of(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_rows_may_come_in_any_order_and_are_read_in_both_ways(tmp_path: Path) -> None:
    responses = ["**Yes**", "Yes or no", "no)", None]
    lines: list[Any] = [{"row": row, "response": each} for row, each in enumerate(responses)]
    predictions = read_predictions(str(write_responses(tmp_path / "a.jsonl", lines[::-1])))
    assert predictions.ours == ["yes", None, "no", None]
    assert predictions.released == [None, "yes", "no", None]


def test_likelihoods_answer_with_the_likelier_label(tmp_path: Path) -> None:
    samples: list[str | dict[str, Any]] = [
        {"doc": asdict(one), "filtered_resps": [["-1.5", "True"], [no, "False"]]}
        for one, no in zip(MANUAL, ["-3", "-2", "-1", *["0"] * 5, "-1.5", "nan"], strict=True)
    ]
    predictions = read_predictions(write_responses(tmp_path / "a.jsonl", samples))
    assert predictions.ours == ["yes"] * 2 + ["no"] * 6 + [None] * 2
    assert predictions.released == predictions.ours
    yes = [answer.yes for answer in predictions.answers]
    assert yes[0] == pytest.approx(1 / (1 + math.exp(-1.5)))
    assert yes[-2:] == [0.5, None]


def test_no_zero_comes_without_a_word(
    sample_data: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Five answers of ten are read, and one by the released scoring."""
    responses = ["yes", *["The answer is no."] * 4, "", "I can't help with that.", "Yes or no."]
    cut = {"response": "Bob said", "finish_reason": "length"}
    path = write_responses(tmp_path / "a.jsonl", [*responses, cut, "<think>Bob"])
    counts = dict.fromkeys(["empty", "refusal", "both", "cut off", "unfinished reasoning"], 1)
    main(["score", str(path), "--split", "manual", "--json", str(tmp_path / "a.json")])
    shown = capsys.readouterr().out
    head = f"5 ({', '.join(f'1 {reason}' for reason in counts)})"
    assert shown.startswith(f"manual: 10 documents, 3 groups; unreadable: {head}\n")
    assert shown.endswith("\ndetectable difference, in points: - in robust_acc, - in acc\n")
    rows = rows_of(shown)
    assert rows[3][4:] == ["not applicable", "-"]
    assert ["short", "1/4", "25.00", "2/6", "33.33"] in rows
    (record,) = read_run_records(tmp_path / "a.json").values()
    assert record.unreadable_reasons == counts
    assert [answer.reason for answer in record.answers] == [*[None] * 5, *counts]
    assert record.released == {}
    assert "a.jsonl: 5 of 10 responses (50.0%) have no readable answer" in caplog.text
    for remedy in ("max_gen_toks=4096", "--apply_chat_template", "compares likelihoods"):
        assert remedy in caplog.text
    main(["score", str(tmp_path / "a.json"), str(path)])
    row = table(capsys.readouterr().out)["a.jsonl"]
    assert (row["robust_acc, released scoring"], row["unreadable"]) == ("not applicable", head)
    assert unreadable_warning(6, 100, []).startswith("6 of 100 responses (6.0%) have no readable")
    assert unreadable_warning(5, 100, []) == ""


def test_a_limit_leaves_out_the_groups_that_it_cuts(caplog: pytest.LogCaptureFixture) -> None:
    rows = data_set_rows(MANUAL)[:6]  # of groups of four
    answers = [row["answer"] if row["group"] == 0 else "hm" for row in rows]
    items = [score_response(row, [answer]) for row, answer in zip(rows, answers, strict=True)]
    assert robust_share([item["robust_acc"] for item in items]) == 1
    assert "robust accuracy: 1 of 2 groups lack documents" in caplog.text


def test_a_report_is_of_what_was_scored_and_can_be_copied() -> None:
    documents = [*DOCUMENTS]
    answers = [document.answer for document in documents]
    report = score(iter(documents), (answer for answer in answers))
    documents.sort(key=lambda document: document.question)
    assert report.acc == 100
    assert [answer.response for answer in report.predictions.answers] == answers
    assert report.released  # which only released splits show
    assert report.to_text().startswith(str(report))
    assert "released scoring" not in report.to_text()
    assert len(str(report)) < 2000 > len(repr(report.predictions))
    assert "<td>robust_acc</td>" in report._repr_html_()
    for twin in (copy.deepcopy(report), pickle.loads(pickle.dumps(report))):
        assert str(twin.metrics) == str(report.metrics)


def test_items_against_a_count_by_hand() -> None:
    gold: list[str | None] = [document.answer for document in DOCUMENTS]
    second = DOCUMENTS[1]
    assert second.group == DOCUMENTS[0].group
    one_wrong = [None if row == second.row else answer for row, answer in enumerate(gold)]
    group_wrong = [
        None if document.group == second.group else answer
        for document, answer in zip(DOCUMENTS, gold, strict=True)
    ]
    runs = {"all": gold, "one": one_wrong, "group": group_wrong}
    items = analyze_items({name: score(DOCUMENTS, answers) for name, answers in runs.items()})
    by_row = {item.document.row: item for item in items}
    assert (by_row[1].right, by_row[1].only_wrong, by_row[1].breaks_group) == (1, 1, True)
    assert (by_row[0].right, by_row[0].only_wrong, by_row[0].breaks_group) == (2, 0, False)
    others = [item for item in items if item.document.group != second.group]
    assert {(item.right, item.breaks_group) for item in others} == {(3, False)}
    assert by_row[1].answers == {"all": gold[1], "one": None, "group": None}
    bases = [document.basis == "undetermined" for document in DOCUMENTS]
    assert [item.is_undetermined for item in items] == bases
    assert any(bases)


def test_comparison_of_two_runs(
    sample_data: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = write_responses(tmp_path / "right.jsonl", [f"({one.answer})" for one in MANUAL])
    yes = write_responses(tmp_path / "yes.jsonl", ["yes"] * 10)
    out = tmp_path / "record.json"
    main(["score", str(right), "--split", "manual", "--against", str(yes), "--json", str(out)])
    shown = capsys.readouterr().out
    line = "exact McNemar test on {}: only the first right {}, only the second 0, p = {}"
    assert line.format("documents", 6, "0.0312") in shown
    assert line.format("groups", 3, "0.25") in shown
    assert "\nright.jsonl minus yes.jsonl\n" in shown
    (run,), (other,) = (find_runs([str(path)], "manual") for path in (right, yes))
    first, second = run.score(MANUAL), other.score(MANUAL)
    comparison = compare_scores(first, second)
    assert shown == f"{first.to_text()}\n{comparison.to_text()}\n"
    record = {**run.to_record(first).to_json(), "against": comparison.to_json()}
    assert json.loads(out.read_text()) == record
    rows = table(str(comparison))
    assert list(rows["acc"].values())[1:4] == ["100.00", "40.00", "+60.00"]
    assert list(rows["acc"])[1:3] == ["right.jsonl", "yes.jsonl"]
    assert rows["no_acc"]["95% interval"] == f"{200 * 0.025 ** (1 / 3) - 100:.2f} to 100.00"
    (run,) = find_runs([str(out)])
    assert run.score(MANUAL).metrics == comparison.first.metrics
    of_acc = record["against"]["figures"]["acc"]
    assert [of_acc[name] for name in ("first", "second", "points")] == [100, 40, 60]


def test_all_released_runs_in_one_table(
    released_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["score", "published:all", "readings:majority", "--items", str(tmp_path / "items.csv")])
    rows = table(capsys.readouterr().out)
    first, second = "Llama-3.3-70B-Instruct", "Qwen2.5-72B-Instruct"
    assert [*rows][:3] == ["readings:majority", f"published:{first}", f"published:{second}"]
    assert len(rows) == 15
    shown = [float(row["robust_acc"]) for row in rows.values()]
    assert shown == sorted(shown, reverse=True)
    row = rows[f"published:{first}"]
    assert row["robust_acc, released scoring"] == "61.22"
    documents = read_split("manual", released_data / FILES["manual"].path)
    reports = [score(documents, published_answers(model)) for model in (first, second)]
    groups = compare_scores(reports[0], reports[1]).on_groups
    assert groups
    assert row["p, next row"] == f"{groups.p:.3g}"
    with (tmp_path / "items.csv").open() as lines:
        assert len(list(csv.DictReader(lines))) == 500


def test_the_reader_of_a_report_may_go_away(released: Path) -> None:
    command = f"{sys.executable} -m pragworld_tasks score published:gpt-3.5-turbo | true"
    environment = {**os.environ, "PRAGWORLD_DATA": str(released)}
    assert subprocess.run(command, shell=True, capture_output=True, env=environment).stderr == b""
