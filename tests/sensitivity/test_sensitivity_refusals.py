"""What the sensitivity commands and functions refuse, and the line that they print."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from command_runs import refused
from test_decompose import PARAPHRASES, change, decomposed, write_samples

from pragworld_tasks.cli import main
from pragworld_tasks.errors import InputError
from pragworld_tasks.sensitivity.components import nest, rescale
from pragworld_tasks.sensitivity.decomposition import decompose
from pragworld_tasks.sensitivity.report import decompose_samples, read_decompositions
from pragworld_tasks.sensitivity.samples import read_samples
from pragworld_tasks.sensitivity.world_model_tasks import own_question_records, question_records

NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: nest([1.0, 2.0], [0, 1], [0]), r"shapes \(2,\), \(1,\) and \(2,\); they must"),
        (lambda: nest([[1.0]], [[0]], [[0]]), "values, intents and paraphrases: have the shapes"),
        (lambda: nest([1.0, INFINITE], [0, 1], [0, 0]), r"values\[1\]: is infinite; values must"),
        (lambda: nest([1.0], [0], cast(Any, [None])), "intent: a label is None or not a number"),
        (lambda: nest([1.0], [0], [NAN]), "intent: a label is None or not a number; name each"),
        (lambda: decompose([1.0, -1e200], [0, 1], [0, 0]), r"values\[1\]: -1e\+200 is too large"),
        (lambda: decompose([1.0, 10**400], [0, 1], [0, 0]), "values: int too large.* must be"),
        (lambda: decompose(cast(Any, ["5 km"]), [0], [0]), "'5 km'; they must be numbers"),
        (lambda: rescale(nest([], [], []), cast(Any, "ln")), "scale 'ln': must be one of raw, log"),
        (lambda: decompose_samples([]), "there are no samples to decompose; give at least one"),
    ],
)
def test_wrong_numbers_and_settings(call: Callable[[], object], line: str) -> None:
    with pytest.raises(InputError, match=line):
        call()


MINE = {"paraphrases": "none.jsonl", "values": [1], "unit": "h"}


@pytest.mark.parametrize(
    ("metadata", "line"),
    [
        ({}, "world_model_own: paraphrases: Field required; pass --metadata '{"),
        (MINE | {"values": "1"}, "world_model_own: values: Input should be a valid list"),
        (
            MINE | {"values": ["Oslo", " "]},
            "world_model_own: values.1: String should have at least",
        ),
        (
            MINE | {"values": ["1", 1]},
            "world_model_own: values: ['1', '1'] must differ from each other",
        ),
        (MINE | {"unit": ["h"]}, "world_model_own: unit: Input should be a valid string"),
        (MINE | {"unit": "3"}, "unit '3': write the name of a unit, such as 'hour', or a noun"),
        (MINE, "none.jsonl: No such file"),
    ],
)
def test_the_metadata_of_an_own_question(metadata: dict[str, object], line: str) -> None:
    with pytest.raises(InputError, match=re.escape(line)):
        own_question_records(metadata)


def test_paraphrases_of_another_question(tmp_path: Path) -> None:
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"text": "How far is {town}?"}\n')
    with pytest.raises(InputError, match=f"^{mine}, row 0: must hold {{distance_km}} exactly once"):
        question_records("travel_commute", {"paraphrases": str(mine)})


LLM = ("--base-url", "http://127.0.0.1:9/v1", "--model", "reader")  # nothing listens there


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--draws", "19"), "--draws 19: must be at least 20"),
        (("--model", "reader"), "--base-url and --model: need each other; give both, or leave"),
        ((*LLM, "--signed"), "--signed: an LLM reads values without signs; leave out --model"),
        ((*LLM, "hour"), "no extraction prompt for travel_commute in the unit 'hour'; leave out"),
        ((*LLM, "rome"), "no extraction prompt for rome in the unit 'minute'; leave out --model"),
    ],
)
def test_options_of_decompose(options: tuple[str, ...], line: str, tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute")
    if options[-1] == "hour":  # the prompt asks for minutes
        change(path, lambda one: one["doc"].update(unit="hour"))
    if options[-1] == "rome":
        change(path, lambda one: one["doc"].update(question="rome"))
    with refused(line):
        main(["decompose", str(path), *(one for one in options if one not in ("hour", "rome"))])


def drop_field(lines: list[Any]) -> None:
    del lines[1]["doc"]["question"]


def take_responses(lines: list[Any]) -> None:
    lines[1]["resps"] = "text"


def repeat(lines: list[Any]) -> None:
    lines.append(lines[1])


def ask_another(lines: list[Any]) -> None:
    lines[1]["doc"]["question"] = "travel_miami"


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (drop_field, "row 1 (line 2): not a sample of a world_model task; give lm-eval's"),
        (take_responses, "row 1 (line 2): not a sample of a world_model task"),
        (repeat, "row 18 (line 19): an earlier row is of another question, or of the same prompt"),
        (ask_another, "row 1 (line 2): an earlier row is of another question, or of the same"),
    ],
)
def test_other_samples(spoil: Callable[[list[Any]], None], line: str, tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute")
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    spoil(lines)
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    with pytest.raises(InputError, match=re.escape(f"{path}, {line}")):
        read_samples([path])


def test_two_runs_of_one_model(tmp_path: Path) -> None:
    first = write_samples(tmp_path / "model", "travel_commute")
    again = first.with_name("again.jsonl")
    again.write_text(first.read_text())
    with pytest.raises(InputError, match="model on travel_commute is also in"):
        read_samples([first, again])


@pytest.mark.parametrize(
    ("limit", "effective", "line"),
    [
        (None, 18, "has 17 of the 18 documents of the run; pass a whole run"),
        (3.0, 3, "run with --limit 3; pass a whole run"),
        (None, 3, "run with --samples, on 3 of 18 documents; pass a whole run"),
    ],
)
def test_a_part_of_a_run(limit: float | None, effective: int, line: str, tmp_path: Path) -> None:
    path = write_samples(tmp_path, "travel_commute")
    task, _, date = path.stem.removeprefix("samples_").rpartition("_")
    counts = {task: {"original": 3 * PARAPHRASES, "effective": effective}}
    results = {"config": {"limit": limit}, "n-samples": counts}
    path.with_name(f"results_{date}.json").write_text(json.dumps(results))
    assert len(read_samples([path])[0].prompts) == 18 if effective == 18 else True
    path.write_text("".join(path.read_text().splitlines(keepends=True)[: min(17, effective)]))
    with pytest.raises(InputError, match=line):
        read_samples([path])


@pytest.mark.parametrize(
    ("place", "value", "line"),
    [
        (("version",), 2, "not a decomposition of version 1: version"),
        (("schema",), "other", "not a decomposition of version 1: schema"),
        (("tasks", 0, "floor"), "much", "not a decomposition of version 1: tasks.0.floor"),
    ],
)
def test_other_decompositions(
    place: tuple[Any, ...], value: Any, line: str, tmp_path: Path
) -> None:
    path = tmp_path / "decomposition.json"
    content = decomposed(write_samples(tmp_path / "model", "travel_commute")).to_json()
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="model on travel_commute is also in"):
        read_decompositions([path, path])
    inner: Any = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=re.escape(line)):
        read_decompositions([path])
