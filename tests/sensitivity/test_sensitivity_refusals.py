"""What the sensitivity commands and functions refuse, and the line that they print."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from command_runs import refused
from test_decompose import change, decomposed, write_samples

from pragworld_tasks.cli import main
from pragworld_tasks.errors import InputError
from pragworld_tasks.sensitivity.components import nest
from pragworld_tasks.sensitivity.decomposition import decompose
from pragworld_tasks.sensitivity.report import read_decompositions
from pragworld_tasks.sensitivity.samples import read_samples
from pragworld_tasks.sensitivity.world_model_tasks import own_question_records

NAN, INFINITE = float("nan"), float("inf")
MINE: dict[str, Any] = {"paraphrases": "none.jsonl", "values": [1], "unit": "h"}


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: nest([1.0, 2.0], [0, 1], [0]), "values, intents and paraphrases: must be sequ"),
        (lambda: nest([[1.0]], [[0]], [[0]]), "values, intents and paraphrases: must be sequences"),
        (lambda: nest([1.0], [0], cast(Any, [None])), "intent: a label is None or not a number"),
        (lambda: nest([1.0], [0], [NAN]), "intent: a label is None or not a number; name each"),
        (lambda: decompose([1.0, INFINITE], [0, 1], [0, 0]), "values[1]: inf is too large; values"),
        (lambda: decompose([1.0, -1e200], [0, 1], [0, 0]), "values[1]: -1e+200 is too large"),
        (
            lambda: own_question_records({}),
            "world_model_own: paraphrases: Field required; pass --m",
        ),
        (
            lambda: own_question_records(MINE | {"values": "1"}),
            "world_model_own: values: Input should be a valid list",
        ),
        (
            lambda: own_question_records(MINE | {"values": ["1", 1]}),
            "world_model_own: values: ['1', '1'] must differ from each other",
        ),
        (lambda: own_question_records(MINE | {"unit": "3"}), "unit '3': write the name of a unit"),
        (lambda: own_question_records(MINE), "none.jsonl: No such file"),
    ],
)
def test_wrong_values_and_settings(call: Callable[[], object], line: str) -> None:
    with pytest.raises(InputError, match=re.escape(line)):
        call()


LLM = ("--base-url", "http://127.0.0.1:9/v1", "--model", "reader")  # nothing listens there


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--draws", "19"), "--draws 19: must be at least 20"),
        (("--model", "reader"), "--base-url and --model: need each other; give both, or leave"),
        ((*LLM, "--signed"), "--signed: an LLM reads values without signs; leave out --model"),
        (LLM, "no extraction prompt for travel_commute in the unit 'hour'; leave out --model"),
    ],
)
def test_options_of_decompose(options: tuple[str, ...], line: str, tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute")
    change(path, lambda one: one["doc"].update(unit="hour"))  # the prompt asks for minutes
    with refused(line):
        main(["decompose", str(path), *options])


COLLECT = ("collect", "--model", "dummy", "--tasks", "world_model_travel_commute")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--chunk", "0"), "--chunk 0: must be at least 1"),
        (("--seed", "-1"), "--seed -1: must be at least 0"),
        (("--model", "none"), r"lm_eval failed with ValueError \(Attempted to load model 'none'"),
        (("--metadata", '{"paraphrases": "none.jsonl"}'), "none.jsonl: No such file"),
    ],
)
@pytest.mark.usefixtures("our_tasks_only")
def test_options_of_collect(options: tuple[str, ...], line: str, tmp_path: Path) -> None:
    with refused(line):
        main([*COLLECT, "--output_path", str(tmp_path), *options])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (
            lambda lines: lines[1]["doc"].pop("question"),
            "row 1 (line 2): not a sample of a world_model task; give lm-eval's",
        ),
        (
            lambda lines: lines[1].update(resps="text"),
            "row 1 (line 2): not a sample of a world_model task",
        ),
        (
            lambda lines: lines.append(lines[1]),
            "row 18 (line 19): an earlier row is of another question, or of the same prompt",
        ),
        (
            lambda lines: lines[1]["doc"].update(question="travel_miami"),
            "row 1 (line 2): an earlier row is of another question, or of the same",
        ),
    ],
)
def test_other_samples(spoil: Callable[[list[Any]], None], line: str, tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute")
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    spoil(lines)
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    with pytest.raises(InputError, match=re.escape(f"{path}, {line}")):
        read_samples([path])


def test_two_runs_and_a_part_of_a_run(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute")
    again = path.with_name("again.jsonl")
    again.write_text(path.read_text())
    with pytest.raises(InputError, match="model on travel_commute is also in"):
        read_samples([path, again])
    task, _, date = path.stem.removeprefix("samples_").rpartition("_")
    results = {"config": {"limit": 3.0}, "n-samples": {task: {"original": 18, "effective": 3}}}
    path.with_name(f"results_{date}.json").write_text(json.dumps(results))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    with pytest.raises(InputError, match="run with --limit 3; pass a whole run"):
        read_samples([path])


def test_other_decompositions(tmp_path: Path) -> None:
    path = tmp_path / "decomposition.json"
    content = decomposed(write_samples(tmp_path / "model", "travel_commute")).to_json()
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="model on travel_commute is also in"):
        read_decompositions([path, path])
    path.write_text(json.dumps(content | {"version": 2}))
    with pytest.raises(InputError, match="not a decomposition of version 1: version"):
        read_decompositions([path])
