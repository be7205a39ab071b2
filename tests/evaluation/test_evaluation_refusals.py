"""What cannot be scored is refused with one line that says what is wrong and what to do."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from command_runs import refused
from json_lines import to_lines, write_lines
from places import SAMPLES

from pragworld_tasks.cli import main
from pragworld_tasks.data.prompts import evaluation_prompt
from pragworld_tasks.data.sources import FILES, read_split
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.comparison import compare_scores
from pragworld_tasks.evaluation.responses import read_predictions
from pragworld_tasks.evaluation.runs import find_runs
from pragworld_tasks.evaluation.scoring import score
from pragworld_tasks.evaluation.task_metrics import data_set_rows
from pragworld_tasks.grouped.item_analysis import analyze_items

MANUAL = read_split("manual", SAMPLES / FILES["manual"].path)
RESPONSES = SAMPLES / FILES["entity_tracking"].path  # with the documents that they answer
TRACKING = read_split("entity_tracking", RESPONSES)
DOCUMENTS = generate_documents(groups=2, seed=1)
GOLD: list[Any] = [document.answer for document in DOCUMENTS]
YES = {"response": "yes"}


def samples(**changes: Any) -> list[dict[str, Any]]:
    """Samples of the manual split, with changes to the first document."""
    logged = [{"doc": {**doc}, "filtered_resps": ["no"]} for doc in data_set_rows(MANUAL)]
    logged[0]["doc"] = {**logged[0]["doc"], **changes}  # type: ignore[dict-item]
    return logged


@pytest.mark.parametrize(
    ("records", "line"),
    [
        ([YES] * 9, ": 9 responses for 10 documents; pass a response for each document"),
        ([{"row": 3, **YES}] * 2, "row 1 (line 2): row 3 has two responses"),
        ([{"row": -1, **YES}], ": row 0 is the first without a response; pass a whole run"),
        ([{"row": "x", **YES}], "row: Input should be a valid integer"),
        ([{"answer": "yes"}], "row 0 (line 1): response: Field required"),
        (
            [{"prompt": evaluation_prompt(document), **YES} for document in MANUAL[::-1]],
            "the responses are to other contexts and questions than those of the manual split",
        ),
        (samples(question="Is it?"), "are to other contexts and questions than those of the man"),
        ([{"doc": {"q": "x"}, "filtered_resps": ["no"]}], "not a sample of a pragworld task"),
        (
            [{"doc": asdict(MANUAL[0]), "filtered_resps": [["a", 0], ["b", 0]]}],
            "or a likelihood of each label",
        ),
    ],
)
def test_files_of_responses(tmp_path: Path, records: list[Any], line: str) -> None:
    path = tmp_path / "responses.jsonl"
    write_lines(path, records)
    with pytest.raises(InputError) as refusal:
        score(MANUAL, read_predictions(path), str(path))
    assert str(refusal.value).startswith(str(path))
    assert line in str(refusal.value)
    assert "\n" not in str(refusal.value)


FILES_HERE: dict[str, str] = {
    "plain.jsonl": to_lines([YES]),
    "part/samples_x_2026-01-02T00-00-00.1.jsonl": to_lines(samples()),
    "part/results_2026-01-02T00-00-00.1.json": json.dumps({"config": {"limit": 5}}),
    "cut.jsonl": to_lines(
        [{**one, "doc": {**one["doc"], "split": "own"}} for one in samples()[:4]]
    ),
    "worded.jsonl": to_lines(samples(wording=1)),
    "there_2026-01-02T00-00-00.1.json": "{}",
    "old.json": json.dumps({"schema_version": 1}),
    "here.json": "mine",
}


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("none.jsonl --split manual", "none.jsonl: No such file or directory"),
        ("plain.jsonl", "plain.jsonl: the responses name no split; pass --split, or put it before"),
        ("plain.jsonl --split own", "the responses do not hold their documents; pass lm-eval's"),
        ("manual:plain.jsonl --split generated", "responses to the split manual, not to generated"),
        ("entity_tracking:readings:majority", "to the split manual, not to entity_tracking"),
        ("empty", "empty: no samples_.* of a pragworld task; run lm_eval with --log_samples"),
        ("part", "run with --limit 5; pass a whole run"),
        ("part/results_2026-01-02T00-00-00.1.json", "lm-eval's results, which hold no answers"),
        ("there.json", "there.json: lm-eval's results, which hold no answers; pass their folder"),
        ("cut.jsonl", "not all documents are there, or it holds two runs; pass a whole run"),
        ("worded.jsonl", "a task that does not answer each question once"),
        ("old.json", "not a run record: schema_version: Input should be 2"),
        ("published:gpt-5 --split generated", "no published answers of that model to the split"),
        ("readings:majority --against published:all", "--against names 14 runs .*; name one"),
        ("plain.jsonl --split manual --documents x", "--documents: not for the split manual"),
        (
            'plain.jsonl --split own --metadata {"seed":1}',
            "own: only the split generated has settings",
        ),
        ("plain.jsonl --json here.json", "here.json exists; pass --overwrite"),
        ("plain.jsonl --items old.json/x.csv", "x.csv: Not a directory; choose a file that can be"),
    ],
)
def test_the_command_score(
    sample_data: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "part").mkdir()
    for name, text in FILES_HERE.items():
        (tmp_path / name).write_text(text)
    with refused(line):
        main(["score", *command.split()])
    assert (tmp_path / "here.json").read_text() == "mine"


TWICE = [replace(document, row=row) for row, document in enumerate(DOCUMENTS * 2)]


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: score([], []), "the documents are missing; pass those of one split"),
        (lambda: score([*DOCUMENTS, *MANUAL], []), "are of the splits generated, manual; pass"),
        (lambda: score(DOCUMENTS * 2, GOLD * 2), "2 documents have row 0; pass each once"),
        (lambda: score(TWICE, GOLD * 2), "2 documents are the original of group 0"),
        (lambda: score(DOCUMENTS, GOLD[1:]), rf"{len(GOLD) - 1} responses for {len(GOLD)} docu"),
        (lambda: score(TRACKING[::-1], read_predictions(RESPONSES)), "other contexts"),
        (lambda: analyze_items({}), "there are no runs; pass one or more"),
        (
            lambda: compare_scores(score(DOCUMENTS, GOLD), score(DOCUMENTS[:-1], GOLD[:-1])),
            "two runs are on different documents: .* differ; compare runs on the same file",
        ),
    ],
)
def test_calls_from_python(call: Callable[[], object], line: str) -> None:
    with pytest.raises(InputError, match=line) as refusal:
        call()
    assert "\n" not in str(refusal.value)


def test_runs_of_other_gold_answers_are_not_compared(tmp_path: Path) -> None:
    """Two gold labels swapped: context, question and counts stay the same."""
    turned = {"yes": "no", "no": "yes"}
    swapped: list[Any] = list(DOCUMENTS)
    for document in {document.answer: document for document in DOCUMENTS}.values():
        swapped[document.row] = replace(document, answer=turned[document.answer])
    paths = [tmp_path / "here.jsonl", tmp_path / "elsewhere.jsonl"]
    for path, documents in zip(paths, (DOCUMENTS, swapped), strict=True):
        logged = [{"doc": doc, "filtered_resps": ["no"]} for doc in data_set_rows(documents)]
        write_lines(path, logged)
        assert find_runs([str(path)])[0].documents() == documents
    for arguments in ([str(paths[0]), "--against", str(paths[1])], [*map(str, paths)]):
        with refused("on different documents: texts, groups or gold answers differ"):
            main(["score", *arguments])
    here, elsewhere = (run.score(DOCUMENTS) for run in find_runs([*map(str, paths)]))
    assert here.documents_digest == elsewhere.documents_digest == here.responses_digest
    assert elsewhere.responses_digest != here.responses_digest
