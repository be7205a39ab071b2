"""What the sensitivity commands and functions refuse, and the line that they print."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from command_runs import refused
from json_lines import read_lines, write_lines
from servers import ChatServer
from test_decompose import change, decomposed, write_samples

from pragworld_tasks.cli import main
from pragworld_tasks.errors import InputError
from pragworld_tasks.sensitivity import paraphrasing
from pragworld_tasks.sensitivity.components import nest
from pragworld_tasks.sensitivity.decomposition import decompose
from pragworld_tasks.sensitivity.report import read_decompositions
from pragworld_tasks.sensitivity.samples import read_samples
from pragworld_tasks.sensitivity.world_model_tasks import own_question_records, score_quantities

NAN, INFINITE = float("nan"), float("inf")


def own(**changes: Any) -> object:
    return own_question_records(**{"paraphrases": "no.jsonl", "values": [1], "unit": "h"} | changes)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: nest([1.0, 2.0], [0, 1], [0]), "values, intents and paraphrases: must be sequ"),
        (lambda: nest([[1.0]], [[0]], [[0]]), "values, intents and paraphrases: must be sequences"),
        (lambda: nest([1.0], [0], cast(Any, [None])), "intent: a label is None or not a number"),
        (lambda: nest([1.0], [0], [NAN]), "intent: a label is None or not a number; name each"),
        (lambda: decompose([1.0, INFINITE], [0, 1], [0, 0]), "values[1]: inf is too large; values"),
        (lambda: decompose([1.0, -1e200], [0, 1], [0, 0]), "values[1]: -1e+200 is too large"),
        (lambda: own(unit=None), "world_model_own: unit: Input should be a valid string; pass --"),
        (
            lambda: score_quantities({"question": "x"}, ["9 hours"]),
            "world_model: one response of x, not a list of all to a prompt; keep the filter",
        ),
        (lambda: own(values=["1", 1]), "world_model_own: values: ['1', '1'] must differ from each"),
        (lambda: own(unit="3"), "unit '3': write the name of a unit"),
        (own, "no.jsonl: No such file"),
    ],
)
def test_wrong_values_and_settings(call: Callable[[], object], line: str) -> None:
    with pytest.raises(InputError, match=re.escape(line)):
        call()


LLM = "--base-url http://127.0.0.1:9/v1 --model reader"  # nothing listens there
METADATA = """--metadata '{"paraphrases": "%s.jsonl"}'"""
COLLECT = "collect --model dummy --tasks world_model_travel_commute --output_path runs"
PARAPHRASE = f"paraphrase {LLM} --prompt travel_miami --out runs"


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("decompose SAMPLES --draws 19", "--draws 19: must be at least 20"),
        ("decompose SAMPLES --model reader", "--base-url and --model: need each other; give both"),
        (f"decompose SAMPLES {LLM}", "no extraction prompt for travel_commute in the unit 'hour';"),
        (f"{COLLECT} --chunk 0", "--chunk 0: must be at least 1"),
        (f"{COLLECT} --seed -1", "--seed -1: must be at least 0"),
        (f"{COLLECT} --model none", r"lm_eval failed with ValueError \(Attempted to load model 'n"),
        (f"{COLLECT} {METADATA % 'none'}", "none.jsonl: No such file"),
        (f"{COLLECT} {METADATA % 'slots'}", "slots.jsonl, row 0: must hold {distance_km} exactly"),
        ("paraphrase --prompt {a} --check keys.jsonl", r"row 0 \(line 1\): text: Field required$"),
        ("paraphrase --prompt travel_miami", "^paraphrase: needs --base-url, or --check FILE$"),
        (f"{PARAPHRASE} --prompt 'How are you?'", r"^prompt 'How are you\?': has 0 slots; write o"),
        (f"{PARAPHRASE} --prompt 'From {{a}}  on?'", "line breaks or stray spaces; correct that$"),
        (f"{PARAPHRASE} --number 0", "^--number 0: must be at least 1$"),
        (f"{PARAPHRASE} --concurrency 0", "^--concurrency 0: must be at least 1$"),
        (f"{PARAPHRASE} --embeddings no/such", r"^embeddings 'no/such': cannot be loaded \(.*\); "),
    ],
)
@pytest.mark.usefixtures("our_tasks_only")
def test_commands(command: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_samples(Path("model"), "travel_commute")
    change(path, lambda one: one["doc"].update(unit="hour"))  # the prompt asks for minutes
    Path("keys.jsonl").write_text('{"txt": "From {a}?"}')
    Path("slots.jsonl").write_text('{"text": "From {{distance_km}}?"}')
    with refused(line):
        main(shlex.split(command.replace("SAMPLES", str(path))))
    assert not Path("runs").exists()


def test_replies_that_nothing_can_be_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paraphrasing, "load_embedder", lambda _: None)
    path, out = write_samples(tmp_path / "model", "travel_commute"), tmp_path / "mine.jsonl"
    with ChatServer(lambda _: "What?").running() as server:
        endpoint = ("--base-url", server.url, "--model", "small")
        with refused("^0 paraphrases were accepted, but --number is 50; correct the prompt"):
            main(["paraphrase", *endpoint, "--prompt", "travel_miami", "--out", str(out)])
        assert len(server.bodies) == paraphrasing.FIRST
        with refused("/v1: no reply can be used, the last one because 'What.' is neither a number"):
            main(["decompose", *endpoint, str(path)])


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (lambda rows: rows[1]["doc"].pop("question"), "row 1 (line 2): not a sample of a world_mo"),
        (lambda rows: rows.append(rows[1]), "row 18 (line 19): an earlier row is of another quest"),
        (
            lambda rows: rows[1]["doc"].update(question="travel_miami"),
            "row 1 (line 2): an earlier row is of another question, or of the same",
        ),
    ],
)
def test_other_samples(spoil: Callable[[list[Any]], None], line: str, tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute")
    lines = read_lines(path)
    spoil(lines)
    write_lines(path, lines)
    with pytest.raises(InputError, match=re.escape(f"{path}, {line}")):
        read_samples([path])


def test_a_question_twice_and_another_version(tmp_path: Path) -> None:
    path, samples = tmp_path / "found.json", write_samples(tmp_path / "model", "travel_commute")
    content = decomposed(samples).to_json()
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="model on travel_commute is also in"):
        read_decompositions([path, path])
    with pytest.raises(InputError, match="model on travel_commute is also in"):
        read_samples([samples, samples])
    path.write_text(json.dumps(content | {"version": 2}))
    with pytest.raises(InputError, match="not a decomposition of version 1: version"):
        read_decompositions([path])
