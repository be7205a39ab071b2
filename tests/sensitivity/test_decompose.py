"""`pragworld-tasks decompose`: samples files in; tables, JSON and figures out."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from json_lines import read_lines, write_lines
from played_models import play
from servers import ChatServer

from pragworld_tasks.chat import Endpoint, UnansweredError
from pragworld_tasks.cli import main
from pragworld_tasks.sensitivity.components import cells, nest, plug_in, unbiased
from pragworld_tasks.sensitivity.extraction import extract, read_extracted
from pragworld_tasks.sensitivity.open_questions import questions, slot_of
from pragworld_tasks.sensitivity.report import (
    SensitivityReport,
    decompose_samples,
    read_decompositions,
)
from pragworld_tasks.sensitivity.samples import read_samples
from pragworld_tasks.sensitivity.world_model_tasks import prompt_records

PARAPHRASES = 6


def write_samples(
    folder: Path,
    question: str,
    seed: int = 0,
    repeats: int = 8,
    readable: float = 0.9,
    effect: float = 1.0,
) -> Path:
    """Write a samples file like lm-eval's, with numbers in sentences.

    Without an effect, neither purpose nor wording matters.
    """
    asked = questions()[question]
    generator = np.random.default_rng(seed)
    wordings = [f"Wording {number}: {slot_of(asked.prompt)}?" for number in range(PARAPHRASES)]
    lines = []
    for row, document in enumerate(prompt_records(asked, wordings)):
        values = 40 + effect * (12 * document["intent"] + 2 * document["paraphrase"])
        drawn = generator.normal(values, 4, repeats).round(1)
        responses = [
            f"It will be about {value} minutes." if generator.random() < readable else "Who knows?"
            for value in drawn
        ]
        lines.append({"doc_id": row, "doc": document, "resps": [responses]})
    name = f"samples_world_model_{question}_2026-11-21T01-02-03.4.jsonl"
    return write_lines(folder / name, lines)


def test_a_model_is_named_as_in_the_results_or_else_as_its_folder(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "org__m__free", "travel_commute")
    assert read_samples([path])[0].model == "org/m/free"
    results = {"config": {}, "model_name": "org/m:free"}
    (path.parent / "results_2026-11-21T01-02-03.4.json").write_text(json.dumps(results))
    assert read_samples([path])[0].model == "org/m:free"


def change(path: Path, apply: Callable[[dict[str, Any]], None]) -> Path:
    lines = read_lines(path)
    for line in lines:
        apply(line)
    return write_lines(path, lines)


def decomposed(*paths: Path, draws: int = 20) -> SensitivityReport:
    return decompose_samples(read_samples(paths), draws=draws)


def test_numbers_are_those_of_the_responses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write_samples(tmp_path / "meta__llama", "travel_commute"), tmp_path / "found.json"
    main(["decompose", str(path), "--json", str(out), "--draws", "50"])
    printed = capsys.readouterr().out
    (task,) = json.loads(out.read_text())["tasks"]
    answers = [
        (float(response.split()[4]), line["doc"]["paraphrase"], line["doc"]["intent"])
        for line in read_lines(path)
        for response in line["resps"][0]
        if "about" in response
    ]
    whole = cells(nest(*zip(*answers, strict=True)))
    for estimator, expected in (("published", plug_in(whole)), ("unbiased", unbiased(whole))):
        for name in ("ps", "as_", "mu", "variance", "mvs"):
            number = task[estimator][name.rstrip("_")]
            assert number["value"] == pytest.approx(float(getattr(expected, name)))
            assert number["low"] <= number["value"] <= number["high"]
    assert task["model"] == "meta/llama"
    assert task["responses"] == 3 * PARAPHRASES * 8
    assert task["unreadable"] == task["responses"] - len(answers) > 0
    assert f"{task['published']['ps']['value']:.3f} [" in printed
    assert "| mean of travel " in printed


def test_each_mean_is_over_the_questions_in_which_it_is_defined(tmp_path: Path) -> None:
    """Unbiased PS and AS of 0 or less leave unbiased MVS undefined, and nothing else."""
    report = decomposed(
        write_samples(tmp_path / "model", "travel_commute", readable=1.0),
        write_samples(tmp_path / "model", "travel_miami", seed=1, readable=1.0),
        write_samples(tmp_path / "model", "travel_sydney", seed=2, readable=1.0, effect=0.0),
        write_samples(tmp_path / "other", "travel_miami", seed=3),
    )
    *defined, without = report.tasks[:3]
    assert math.isnan(without.unbiased["mvs"].value)
    domain, other = report.domains
    for estimator in ("published", "unbiased"):
        for name in ("ps", "as", "mu", "mvs"):
            tasks = defined if (estimator, name) == ("unbiased", "mvs") else [*defined, without]
            estimates = [task.by(estimator)[name] for task in tasks]
            mean = domain.by(estimator)[name]
            assert mean.value == pytest.approx(np.mean([one.value for one in estimates]))
            error = math.hypot(*(one.standard_error for one in estimates)) / len(estimates)
            assert mean.standard_error == pytest.approx(error)
    assert domain.notes == ["mvs (unbiased) without travel_sydney"]
    assert domain.floor == pytest.approx(np.mean([task.floor for task in report.tasks[:3]]))
    assert "model, mean of travel: mvs (unbiased) without travel_sydney" in report.to_text()
    (task,) = report.tasks_of("other", "travel")
    assert (other.questions, other.published["ps"].value) == (1, task.published["ps"].value)


def test_undefined_shares_are_left_out_and_explained(tmp_path: Path) -> None:
    report = decomposed(
        write_samples(tmp_path / "model", "travel_commute", readable=1.0),
        write_samples(tmp_path / "model", "travel_miami", readable=1.0, repeats=1),
        write_samples(tmp_path / "model", "travel_sydney", readable=0.0),
        change(
            write_samples(tmp_path / "same", "travel_commute"),
            lambda line: line.update(resps=[[f"About {5 + line['doc']['intent']} minutes."] * 8]),
        ),
    )
    text, (domain, _) = report.to_text(), report.domains
    assert domain.notes == [
        f"ps, as, mu, mvs ({estimator}) without travel_miami, travel_sydney"
        for estimator in ("published", "unbiased")
    ]
    assert sum(domain.published[name].value for name in ("ps", "as", "mu")) == pytest.approx(1)
    notes = (
        "model on travel_sydney: 18 of 18 prompts have no readable response",
        "same on travel_commute: all responses to a prompt are identical, so MU is not measured: ",
        "model on travel_sydney: variance, ps, as, mu, mvs undefined: no response has a value",
        "model on travel_miami: as, mu, mvs undefined: no prompt has two readable responses",
    )
    for note in notes:
        assert f"\n{note}" in text
    assert "nan" not in text
    (miami,) = (task for task in report.to_json()["tasks"] if task["question"] == "travel_miami")
    assert miami["published"]["ps"]["low"] is miami["published"]["as"]["value"] is None


def test_reports_are_read_as_they_were_written_and_joined(tmp_path: Path) -> None:
    paths = [
        write_samples(tmp_path / "one", "travel_commute"),
        write_samples(tmp_path / "two", "travel_sydney", readable=0.0),
    ]
    files = [tmp_path / f"{number}.json" for number in range(2)]
    for path, file in zip(paths, files, strict=True):
        file.write_text(json.dumps(decomposed(path).to_json()))
    (joined,) = read_decompositions(files)
    assert joined.to_json() == decomposed(*paths).to_json()


REPLIES = {
    **{"12": 12, " 12.5\n": 12.5, ".5": 0.5, "12.": 12, '"12"': 12, "**12**": 12, "-3": -3},
    **{"$1,234.50": 1234.5, "1,234,567": 1234567, "-$3": -3, "$-3": -3, "10-15": 12.5},
    **{"$1,000-$2,000": 1500, "10 \u2013 15": 12.5, "-4--2": -3, "None": None, '"none".': None},
}
NEITHER = (
    *("", "-", "nan", "about 5", "5 hours", "5k", "12,34", "1.234,5", "5-6-7", "5\n6", "\u0665"),
    "9" * 200,
)


def test_replies_of_an_extractor() -> None:
    assert {reply: read_extracted(reply) for reply in REPLIES} == REPLIES
    for reply in NEITHER:
        with pytest.raises(UnansweredError, match=r"is neither a number nor None$"):
            read_extracted(reply)


# A played model replies with what follows the arrow.
ARROWS = ["Long. => 10-15", "{city}? => None", "Long. => 10-15", "=> many", "=> -$1,200"]


def test_values_read_by_an_llm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, out = write_samples(tmp_path / "model", "travel_miami"), tmp_path / "found.json"
    change(path, lambda line: line.update(resps=[ARROWS]))
    (samples,) = read_samples([path])
    with ChatServer(play).running() as server:
        found = extract(samples, Endpoint(server.url, "org/small"))
    # The paper drops signs.
    assert {prompt.values for prompt in found.prompts} == {(12.5, None, 12.5, None, 1200)}
    assert "travel_miami: 18 of 90 values are missing: org/small sent no usable" in caplog.text
    assert len(server.bodies) == 4  # the same is asked once
    assert {body["messages"][1]["content"] for body in server.bodies} == {
        "Extract the total travel time from the text. Return only the number of hours as a "
        'numeric value. If no value can be inferred from the text, return "None".\n\n'
        f"Answer text:\n{response}"
        for response in ARROWS
    }
    # All replies are kept: the second time, no server is needed.
    nowhere = ("--base-url", "http://127.0.0.1:9/v1", "--model", "org/small")
    main(["decompose", str(path), *nowhere, "--json", str(out)])
    (task,) = json.loads(out.read_text())["tasks"]
    assert (task["responses"], task["unreadable"]) == (90, 36)
