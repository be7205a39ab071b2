"""Scores of responses that exist already: published figures, formats, comparison, bad input."""

import copy
import json
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_runs import run_command
from layer_reports import make_report
from places import SAMPLES

from pragworld_tasks.data.prompts import evaluation_prompt
from pragworld_tasks.data.readers import read_manual
from pragworld_tasks.data.sources import FILES
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.comparison import runs_table
from pragworld_tasks.evaluation.responses import Predictions, read_predictions
from pragworld_tasks.evaluation.scoring import score

MANUAL = read_manual(SAMPLES / FILES["manual"].path)


def run_score(*arguments: str | Path, data: Path = SAMPLES) -> subprocess.CompletedProcess[str]:
    """`pragworld-tasks score` on a folder of data."""
    return run_command("score", *arguments, PRAGWORLD_DATA=str(data))


def write_responses(path: Path, responses: Sequence[str | dict[str, Any]]) -> Path:
    """A file of responses; a text stands for `{"response": text}`."""
    records = [{"response": one} if isinstance(one, str) else one for one in responses]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def gold(path: Path) -> Path:
    """Responses that are all right, for the sample manual split."""
    return write_responses(path, [f"({document.answer})" for document in MANUAL])


# Published figures --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gpt35(released: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report on GPT-3.5's released responses to the manual split."""
    out = tmp_path_factory.mktemp("score") / "out.json"
    responses = released / "manual_gpt35_responses.jsonl"
    process = run_score("--split", "manual", responses, "--json", out, data=released)
    assert process.returncode == 0, process.stderr
    report: dict[str, Any] = json.loads(out.read_text())
    return report


def cells(shares: dict[str, Any]) -> dict[str, tuple[int, int, float]]:
    return {
        name: (share["right"], share["total"], round(share["percent"], 2))
        for name, share in shares.items()
    }


def test_published_figures_of_gpt35(gpt35: dict[str, Any]) -> None:
    """Table 1, manual split: the released grouping and reading."""
    published = cells(gpt35["published"])
    del published["acc"]  # not in the table
    assert published == {
        "robust_acc": (42, 98, 42.86),
        "yes_acc": (146, 277, 52.71),
        "no_acc": (209, 223, 93.72),
        "original_acc": (70, 98, 71.43),
        "altered_acc": (285, 402, 70.90),
        "flip_acc": (100, 139, 71.94),
        "invariant_acc": (189, 273, 69.23),
        "unreadable": (0, 500, 0.0),
    }


def test_corrected_figures_of_gpt35(gpt35: dict[str, Any]) -> None:
    assert cells(gpt35["metrics"]) == {
        "robust_acc": (37, 88, 42.05),
        "acc": (355, 500, 71.00),
        "yes_acc": (146, 277, 52.71),
        "no_acc": (209, 223, 93.72),
        "original_acc": (66, 88, 75.00),
        "altered_acc": (289, 412, 70.15),
        "flip_acc": (100, 139, 71.94),
        "invariant_acc": (189, 273, 69.23),
        "unreadable": (0, 500, 0.0),
        "robust_acc_undisputed": (40, 87, 45.98),
        "acc_undisputed": (355, 483, 73.50),
        "determined_acc": (334, 479, 69.73),
        "undetermined_acc": (21, 21, 100.0),
    }
    assert gpt35["data"]["groups"] == 88


def by_gold(classes: dict[str, Any]) -> dict[str, tuple[tuple[int, int, float], ...]]:
    return {name: tuple(cells(shares).values()) for name, shares in classes.items()}


def test_table_5_cell_by_cell(gpt35: dict[str, Any]) -> None:
    assert by_gold(gpt35["breakdowns"]["alteration"]) == {
        "Variable Swap": ((15, 40, 37.50), (36, 39, 92.31)),
        "Variable Substitution": ((29, 57, 50.88), (48, 49, 97.96)),
        "Quantity Change": ((16, 33, 48.48), (21, 24, 87.50)),
        "Quantifier Change": ((21, 39, 53.85), (23, 26, 88.46)),
        "Logical Connective Change": ((6, 8, 75.00), (5, 5, 100.00)),
        "Not Altered": ((29, 48, 60.42), (37, 40, 92.50)),
        "Negation": ((22, 42, 52.38), (29, 29, 100.00)),
        "Injecting Inconsistent Data": ((8, 10, 80.00), (10, 11, 90.91)),
    }


def test_table_6_cell_by_cell(gpt35: dict[str, Any]) -> None:
    """The paper cuts the digits of some: 55.55, 92.85, 93.61."""
    assert by_gold(gpt35["breakdowns"]["length"]) == {
        "short": ((25, 45, 55.56), (44, 47, 93.62)),
        "medium": ((52, 56, 92.86), (53, 56, 94.64)),
        "long": ((69, 176, 39.20), (112, 120, 93.33)),
    }


def test_table_8_where_its_rule_is_known(gpt35: dict[str, Any]) -> None:
    types = by_gold(gpt35["breakdowns"]["question type"])
    assert [cell[:2] for cell in types["sure"]] == [(0, 57), (33, 33)]
    assert [cell[:2] for cell in types["know"]] == [(24, 49), (29, 34)]
    assert [cell[:2] for cell in types["quantity"]] == [(3, 6), (8, 8)]
    assert [cell[:2] for cell in types["existential"]] == [(15, 17), (5, 5)]
    assert sum(cell[1] for both in types.values() for cell in both) == 500


def test_intervals_hold_their_metric(gpt35: dict[str, Any]) -> None:
    for share in gpt35["metrics"].values():
        assert share["low"] <= share["percent"] <= share["high"]


def test_entity_tracking_of_gpt35(released: Path, tmp_path: Path) -> None:
    """Table 3: 79.12, 92.85, 85.98, digits cut."""
    out = tmp_path / "out.json"
    responses = released / FILES["entity_tracking"].path
    process = run_score(
        "--split",
        "entity_tracking",
        responses,
        "--json",
        out,
        data=released,
    )
    assert process.returncode == 0, process.stderr
    report = json.loads(out.read_text())
    for shares in (report["metrics"], report["published"]):
        assert cells(shares) == {
            "acc": (313, 364, 85.99),
            "yes_acc": (144, 182, 79.12),
            "no_acc": (169, 182, 92.86),
            "unreadable": (0, 364, 0.0),
        }


# Formats of responses -----------------------------------------------------------------------------


def test_rows_may_come_in_any_order(tmp_path: Path) -> None:
    in_order = write_responses(tmp_path / "a.jsonl", ["yes"] * 9 + ["no"])
    numbered = [{"row": row, "response": "no" if row == 9 else "yes"} for row in range(10)]
    shuffled = write_responses(tmp_path / "b.jsonl", numbered[::-1])
    assert read_predictions([in_order], MANUAL) == read_predictions([shuffled], MANUAL)


def test_responses_in_two_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    whole = write_responses(tmp_path / "whole.jsonl", ["yes"] * 6 + ["no"] * 4)
    first = write_responses(tmp_path / "first.jsonl", ["yes"] * 6)
    second = write_responses(tmp_path / "second.jsonl", ["no"] * 4)
    assert read_predictions([first, second], MANUAL) == read_predictions([whole], MANUAL)


def test_likelihoods_answer_with_the_likelier_label(tmp_path: Path) -> None:
    samples: list[str | dict[str, Any]] = [
        {
            "doc": asdict(one),
            "filtered_resps": [["-1.5", "True"], [no, "False"]],
        }
        for one, no in zip(MANUAL, [*map(str, range(-3, 5)), "-1.5", "nan"], strict=True)
    ]
    predictions = read_predictions([write_responses(tmp_path / "a.jsonl", samples)], MANUAL)
    assert predictions.ours == ["yes"] * 2 + ["no"] * 6 + [None] * 2
    assert predictions.released == predictions.ours
    assert predictions.yes
    assert predictions.yes[0] == pytest.approx(1 / (1 + math.exp(-1.5)))
    assert predictions.yes[-2:] == [0.5, None]


def test_what_both_readings_make_of_a_response(tmp_path: Path) -> None:
    path = write_responses(tmp_path / "a.jsonl", ["**Yes**", "Yes or no", "no)"] + ["(yes)"] * 7)
    predictions = read_predictions([path], MANUAL)
    assert predictions.ours[:3] == ["yes", None, "no"]
    assert predictions.released[:3] == [None, "yes", "no"]


def test_an_api_that_sent_nothing_gave_no_answer(tmp_path: Path) -> None:
    path = write_responses(tmp_path / "a.jsonl", [{"response": None}] + ["yes"] * 9)
    assert read_predictions([path], MANUAL).ours[0] is None


# What is shown and written ------------------------------------------------------------------------


def test_the_tables_that_are_shown(tmp_path: Path) -> None:
    responses = write_responses(tmp_path / "a.jsonl", ["yes"] * 4 + ["no", "hm"] + ["no"] * 4)
    process = run_score("--split", "manual", responses)
    assert process.returncode == 0, process.stderr
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in process.stdout.splitlines()
    ]
    shown = {row[0]: row[1:] for row in rows if row}
    assert shown["robust_acc"][:2] == ["0/3", "0.00"]
    assert shown["robust_acc"][3:] == ["1/4", "25.00"]
    assert shown["acc"][:2] == ["7/10", "70.00"]
    assert shown["unreadable"][:2] == ["1/10", "10.00"]
    assert shown["Quantity Change"] == ["0/0", "-", "0/1", "0.00"]
    assert shown["short"] == ["3/4", "75.00", "4/6", "66.67"]


def test_comparison_of_two_runs(tmp_path: Path) -> None:
    right = gold(tmp_path / "right.jsonl")
    yes = write_responses(tmp_path / "yes.jsonl", ["yes"] * 10)
    out = tmp_path / "out.json"
    process = run_score("--split", "manual", right, "--against", yes, "--json", out)
    assert process.returncode == 0, process.stderr
    assert (
        "exact McNemar test on documents: only the first right 6, only the second 0, p = 0.0312"
        in (process.stdout)
    )
    comparison = json.loads(out.read_text())["comparisons"]["right.jsonl"]
    assert comparison["differences"]["acc"]["points"] == pytest.approx(60)
    assert comparison["differences"]["no_acc"] == {"points": 100, "low": 100, "high": 100}
    assert comparison["mcnemar_documents"] == {"only_first": 6, "only_second": 0, "p": 0.03125}
    assert comparison["mcnemar_groups"] == {"only_first": 3, "only_second": 0, "p": 0.25}


def test_json_has_null_where_nothing_is_defined(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    right = gold(tmp_path / "right.jsonl")
    assert run_score("--split", "manual", right, "--json", out).returncode == 0
    report = json.loads(out.read_text())
    assert report["schema_version"] == 2
    negation = report["breakdowns"]["alteration"]["Negation"]
    undefined = dict.fromkeys(("percent", "low", "high", "stderr"))
    assert negation["yes"] == {"right": 0, "total": 0, **undefined}
    assert {path.name for path in tmp_path.iterdir()} == {"right.jsonl", "out.json"}


# Bad input ----------------------------------------------------------------------------------------

YES = {"response": "yes"}
DOC = asdict(MANUAL[0])
# What is said of the samples whenever they are read.
SAID = (
    f"{SAMPLES / FILES['manual'].path} is not the released file: "
    "10 documents instead of 500; 3 groups instead of 88; 4 yes answers instead of 277\n"
)


def sampled(**changes: Any) -> list[dict[str, Any]]:
    """Samples of all documents, with changes to the first."""
    samples: list[dict[str, Any]] = [
        {"doc": asdict(document), "filtered_resps": ["no"]} for document in MANUAL
    ]
    samples[0]["doc"] |= changes
    return samples


@pytest.mark.parametrize(
    ("responses", "expected"),
    [
        (["yes"] * 9, ": 9 responses for 10 documents; pass a whole run on this split"),
        (["yes"] * 11, ": 11 responses for 10 documents; pass a whole run on this split"),
        ([{"row": 3, **YES}] * 2, "row 1 (line 2): row 3 has two responses"),
        ([{"row": -1, **YES}], ": row 0 is the first without a response; pass a whole run"),
        ([{"row": "x", **YES}], "row: Input should be a valid integer"),
        ([{"row": 0, **YES}, YES], "only some responses have a 'row'; number all or none"),
        ([{"answer": "yes"}], "row 0 (line 1): response: Field required"),
        ([{"response": 1}], "response: Input should be a valid string"),
        (
            [{"prompt": evaluation_prompt(document), **YES} for document in MANUAL[::-1]],
            "the responses are to other contexts and questions than those of the manual split",
        ),
        (
            sampled(question="Is it?"),
            "are to other contexts and questions than those of the manual",
        ),
        ([{"doc": {"q": "x"}, "filtered_resps": ["no"]}], "not a sample of a pragworld task"),
        ([{"filtered_resps": ["no"]}], "doc: Field required"),
        ([{"doc": DOC, "filtered_resps": "no"}], "filtered_resps: Input should be a valid list"),
        (
            [{"doc": DOC, "filtered_resps": [["a", 0], ["b", 0]]}],
            "'filtered_resps' is not a list of one response, or of two likelihoods",
        ),
    ],
)
def test_bad_responses_are_refused_in_one_line(
    tmp_path: Path, responses: list[str | dict[str, Any]], expected: str
) -> None:
    path = write_responses(tmp_path / "responses.jsonl", responses)
    with pytest.raises(InputError) as refusal:
        read_predictions([path], MANUAL)
    assert str(refusal.value).startswith(str(path))
    assert expected in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_mistake_shows_one_line_and_no_traceback(tmp_path: Path) -> None:
    process = run_score("--split", "manual", tmp_path / "none.jsonl")
    assert process.returncode == 2
    assert process.stderr == f"{tmp_path}/none.jsonl: No such file or directory\n"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("no-folder/out.json", "No such file or directory; choose a file that can be written\n"),
        (".", "Is a directory; choose a file that can be written\n"),
    ],
)
def test_a_report_that_cannot_be_written_says_so(tmp_path: Path, name: str, expected: str) -> None:
    right = gold(tmp_path / "right.jsonl")
    out = f"{tmp_path}/{name}"
    process = run_score("--split", "manual", right, "--json", out)
    assert process.returncode == 2
    assert process.stderr.endswith(expected)
    assert "Traceback" not in process.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["right.jsonl"]


def test_a_link_to_a_report_stays_a_link(tmp_path: Path) -> None:
    right = gold(tmp_path / "right.jsonl")
    (tmp_path / "link.json").symlink_to(tmp_path / "report.json")
    out = tmp_path / "link.json"
    assert run_score("--split", "manual", right, "--json", out).returncode == 0
    assert out.is_symlink()
    assert json.loads((tmp_path / "report.json").read_text())["data"]["documents"] == 10


def test_nothing_is_shown_before_all_input_is_read(tmp_path: Path) -> None:
    right = gold(tmp_path / "right.jsonl")
    none = tmp_path / "none.jsonl"
    process = run_score("--split", "manual", right, "--against", none)
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr == f"{none}: No such file or directory\n"


def test_a_reader_that_goes_away_is_no_mistake(tmp_path: Path) -> None:
    right = gold(tmp_path / "right.jsonl")
    command = f"{sys.executable} -m pragworld_tasks score --split manual {right} | true"
    environment = {**os.environ, "PRAGWORLD_DATA": str(SAMPLES)}
    process = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment)
    assert process.stderr == SAID


def test_the_synthetic_split_is_not_shown_as_published(tmp_path: Path) -> None:
    responses = write_responses(tmp_path / "a.jsonl", ["yes"] * 7)
    process = run_score("--split", "synthetic", responses)
    assert process.returncode == 0, process.stderr
    assert "released scoring" not in process.stdout


def test_only_a_released_split_is_shown_as_published() -> None:
    documents = generate_documents(groups=2)
    report = score(documents, ["yes"] * len(documents))
    assert report.published
    assert "released scoring" not in report.to_text()


def test_one_group_is_written_in_the_singular() -> None:
    documents = generate_documents(groups=1, seed=3)
    report = score(documents, ["no"] * len(documents))
    size = f"{len(documents)} documents, 1 group"
    assert report.to_text().startswith(f"generated: {size}\n")
    assert runs_table({"a": report, "b": report}).startswith(f"generated: {size}\n")
    yes = np.full((len(documents), 3), 0.5)
    assert f": generated, {size}; without" in make_report(documents, yes).to_text()


def test_a_single_file_of_responses_is_named_by_itself(tmp_path: Path) -> None:
    path = write_responses(tmp_path / "a.jsonl", ["no"] * len(MANUAL))
    for paths in (path, str(path)):
        assert read_predictions(paths, MANUAL).ours == read_predictions([path], MANUAL).ours


# From Python --------------------------------------------------------------------------------------


def test_a_report_is_of_what_was_scored_and_can_be_copied() -> None:
    documents = generate_documents(groups=5, seed=1)
    answers = [document.answer for document in documents]
    report = score(iter(documents), (answer for answer in answers))
    documents.sort(key=lambda document: document.question)
    assert report.acc == 100
    assert report.predictions.responses == answers
    for twin in (copy.deepcopy(report), pickle.loads(pickle.dumps(report))):
        assert twin.metrics == report.metrics


@pytest.mark.parametrize("response", [True, 0, float("nan"), ["yes"]])
def test_a_response_that_is_no_text_is_refused(response: Any) -> None:
    documents = generate_documents(groups=2)
    responses = ["yes", response, *["no"] * (len(documents) - 2)]
    with pytest.raises(InputError, match=r"response 1 is .*not text or None"):
        score(documents, responses)


def test_one_document_counts_once() -> None:
    documents = generate_documents(groups=2)
    with pytest.raises(InputError, match="2 of the documents to score have row 0; pass each once"):
        score(documents * 2, ["yes"] * 2 * len(documents))


def test_answers_are_yes_or_no_and_as_many_as_documents() -> None:
    documents = generate_documents(groups=2)
    answers: list[Any] = [document.answer for document in documents]
    wrong: tuple[tuple[Any, Any], ...] = (("Yes", "yes"), (None, None), ("yes", "Yes"))
    for gold, given in wrong:
        changed: Any = {"answer": gold}
        with pytest.raises(InputError, match=f"row 0: the gold answer is {gold!r}, and the ans"):
            score(
                [replace(documents[0], **changed), *documents[1:]],
                Predictions([given, *answers[1:]], answers),
            )
    for short in (
        Predictions(answers, answers[1:]),
        Predictions(answers, answers, responses=answers[1:]),
    ):
        with pytest.raises(InputError, match=rf"{len(answers) - 1} responses for {len(answers)} "):
            score(documents, short)


def test_groups_of_two_seeds_are_no_common_groups() -> None:
    documents = [*generate_documents(groups=2, seed=1), *generate_documents(groups=2, seed=2)]
    documents = [replace(document, row=row) for row, document in enumerate(documents)]
    with pytest.raises(InputError, match=r"group 0 has two originals, rows 0 and \d+; score sets"):
        score(documents, ["yes"] * len(documents))


def test_no_files_of_responses_are_refused() -> None:
    with pytest.raises(InputError, match="there are no files of responses; pass one or more"):
        read_predictions([], generate_documents(groups=2))
