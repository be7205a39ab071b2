"""PragWorld under rewording: the ten wordings, the metrics, and the task through lm_eval."""

import functools
import itertools
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lm_eval_runs import LmEval
from places import ROOT

from pragworld_tasks.data.prompts import label_prompt
from pragworld_tasks.data.sources import load_split
from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.evaluation.metrics import Floats
from pragworld_tasks.evaluation.task_metrics import NotAvailable, to_records
from pragworld_tasks.sensitivity.articulations import (
    WORDINGS,
    Worded,
    articulation_share,
    worded_prompt,
    worded_question,
)
from pragworld_tasks.tiny import tiny_folder


def aggregated(name: str, items: Sequence[Worded]) -> float | NotAvailable:
    return articulation_share([(name, item) for item in items])


METRICS: dict[str, Callable[[Sequence[Worded]], float | NotAvailable]] = {
    name: functools.partial(aggregated, name)
    for name in ("ps", "as", "mu", "mvs", "acc", "acc_worst_wording", "robust_acc")
}


def items(yes: Sequence[Floats], gold: Sequence[Sequence[bool]]) -> list[Worded]:
    """Items of groups: probabilities [documents, wordings] and gold answers of each."""
    return [
        Worded(group, len(of_group), row, wording, float(p), (p > 0.5) == gold[group][row])
        for group, of_group in enumerate(yes)
        for row, of_document in enumerate(of_group)
        for wording, p in enumerate(of_document)
    ]


def entropy(p: float) -> float:
    return -sum(q * math.log(q) for q in (p, 1 - p) if q > 0)


def by_definition(found: Sequence[Worded]) -> dict[str, float]:
    """The metrics, loop by loop, from their definitions: groups as they are."""
    groups: dict[int, dict[int, list[Worded]]] = {}
    for item in found:
        groups.setdefault(item.group, {}).setdefault(item.row, []).append(item)
    purpose = articulation = chance = total = 0.0
    for group in groups.values():
        of_document = [fmean(item.yes for item in one) for one in group.values()]
        given_document = fmean(map(entropy, of_document))
        given_prompt = fmean(entropy(item.yes) for one in group.values() for item in one)
        whole = entropy(fmean(of_document))
        purpose += whole - given_document
        articulation += given_document - given_prompt
        chance += given_prompt
        total += whole
    right = [
        fmean(item.right for item in found if item.wording == wording)
        for wording in range(WORDINGS)
    ]
    robust = [
        all(item.right for one in group.values() for item in one) for group in groups.values()
    ]
    return {
        "ps": purpose / total,
        "as": articulation / total,
        "mu": chance / total,
        "acc": fmean(right),
        "acc_worst_wording": min(right),
        "robust_acc": fmean(robust),
    }


def test_ten_wordings_that_keep_context_and_question() -> None:
    document = {"context": "A: {this} costs $context.\nB: $5!", "question": "Is it ${question}?"}
    prompts = [worded_prompt({**document, "wording": number}) for number in range(WORDINGS)]
    assert len(set(prompts)) == WORDINGS == 10
    assert prompts[0] == label_prompt(document)
    for prompt in prompts:
        assert prompt.count(document["context"]) == prompt.count("Is it ${question}") == 1
        assert prompt == prompt.strip()  # a label with its space goes behind it
        assert re.search(r"\byes\b", prompt.lower())
        assert re.search(r"\bno\b", prompt.lower())


@pytest.mark.parametrize(
    "question",
    ["Is Bob there?", "did Lucas go", "does B know who ate \nthe figs? ", 'Is "it" here?'],
)
def test_the_question_is_worded_differently_and_stays_the_question(question: str) -> None:
    worded = [worded_question(question, number) for number in range(WORDINGS)]
    assert worded[0] == question
    assert len(set(worded)) >= 7
    kept = question.strip().removesuffix("?")
    for number, text in enumerate(worded):
        assert text.strip() in worded_prompt(
            {"context": "", "question": question, "wording": number}
        )
        before, after = text.split(kept)
        # What is added names yes as the answer to confirm, or neither answer, or both alike.
        added = set(re.findall(r"\b(?:yes|no|not|wrong|false)\b", (before + after).lower()))
        assert added in (set(), {"yes"}, {"yes", "no"})
        if added == {"yes"}:
            assert f'"{question.strip()}"' in text  # quoted: yes is the answer to all of it


def test_the_page_shows_how_each_wording_puts_the_question() -> None:
    page = (ROOT / "docs" / "sensitivity.md").read_text()
    shown = {
        int(wording): text
        for text, wordings in re.findall(r"^\| (.*Is Bob there.*) \| (\d[\d, ]*) \|$", page, re.M)
        for wording in wordings.split(", ")
    }
    assert shown == {number: worded_question("Is Bob there?", number) for number in range(WORDINGS)}


def test_every_released_and_generated_question_can_be_worded_so(
    released: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands around a question fits whatever begins with a verb and asks once."""
    monkeypatch.setenv("PRAGWORLD_DATA", str(released))
    made = documents(generate(GeneratorSettings(groups=50, seed=1)))
    questions = {document.question for document in (*load_split("manual"), *made)}
    assert len(questions) > 188
    for question in questions:
        assert re.match(r"(is|are|was|does|did|has|will|can)\b", question.lower()), question
        assert "?" not in question.strip()[:-1]
        assert '"' not in question


def test_a_model_that_tosses_a_coin_is_all_uncertainty() -> None:
    found = items([np.full((3, WORDINGS), 0.5)] * 2, [[True, False, True]] * 2)
    assert {name: METRICS[name](found) for name in ("ps", "as", "mu")} == {
        "ps": 0,
        "as": 0,
        "mu": 1,
    }
    assert METRICS["mvs"](found) == "N/A"


def test_a_model_that_knows_is_all_purpose() -> None:
    yes = np.repeat([[1.0], [0.0]], WORDINGS, axis=1)
    found = items([yes] * 3, [[True, False]] * 3)
    for name in ("ps", "mvs", "acc", "acc_worst_wording", "robust_acc"):
        assert METRICS[name](found) == 1
    assert METRICS["as"](found) == METRICS["mu"](found) == 0


def test_a_model_that_goes_by_wording_is_all_articulation() -> None:
    yes = np.tile(np.arange(WORDINGS) % 2, (2, 1)).astype(float)
    found = items([yes] * 3, [[True, False]] * 3)
    assert METRICS["as"](found) == 1
    assert METRICS["mvs"](found) == 0
    assert METRICS["acc"](found) == METRICS["acc_worst_wording"](found) == 0.5
    assert METRICS["robust_acc"](found) == 0


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_the_metrics_are_those_of_the_definitions(seed: int, groups: int) -> None:
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 6, size=groups)
    yes = [generator.beta(0.5, 0.5, size=(size, WORDINGS)) for size in sizes]
    gold = [list(generator.random(size) < 0.5) for size in sizes]
    found = items(yes, gold)
    generator.shuffle(found)
    expected = by_definition(found)
    assert {name: METRICS[name](found) for name in expected} == pytest.approx(expected, abs=1e-9)
    assert METRICS["mvs"](found) == pytest.approx(
        expected["ps"] / (expected["ps"] + expected["as"]), abs=1e-9
    )
    assert expected["ps"] + expected["as"] + expected["mu"] == pytest.approx(1)


def test_groups_that_lack_something_do_not_count() -> None:
    yes = np.repeat([[1.0], [0.0]], WORDINGS, axis=1)
    whole = items([yes], [[True, False]])
    others = items([yes, 1 - yes], [[True, False]] * 2)
    lacking = [item for item in others if item.group == 1 and (item.row, item.wording) != (1, 3)]
    assert METRICS["acc"](whole + lacking) == 1
    assert METRICS["acc"](lacking) == "N/A"
    assert METRICS["acc"](others) == 0.5


def test_the_task_with_the_small_model(lm_eval: LmEval) -> None:
    settings = '{"groups": 4, "seed": 5}'
    evaluation = lm_eval(
        *("--model", "hf", "--model_args", f"pretrained={tiny_folder()}", "--batch_size", "32"),
        *("--tasks", "pragworld_generated_articulation,pragworld_generated_mc", "--log_samples"),
        *("--metadata", settings),
    )
    assert evaluation.returncode == 0, evaluation.log
    made = to_records(list(documents(generate(GeneratorSettings(groups=4, seed=5, split="test")))))
    samples = evaluation.samples("pragworld_generated_articulation")
    assert len(samples) == WORDINGS * len(made)
    found = []
    for record, sample in zip(
        itertools.chain.from_iterable([one] * WORDINGS for one in made), samples, strict=True
    ):
        assert sample["doc"]["question"] == record["question"]
        yes, no = (math.exp(float(one[0][0])) for one in sample["resps"])
        right = (yes > no) == (record["answer"] == "yes")
        wording = sample["doc"]["wording"]
        found.append(Worded(record["group"], 0, record["row"], wording, yes / (yes + no), right))
    expected = by_definition(found)
    shown = evaluation.metrics("pragworld_generated_articulation")
    assert {name: shown[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert 0 < shown["as"] < 1  # else this test would show little
    plain = [item.right for item in found if item.wording == 0]
    assert np.mean(plain) == evaluation.metrics("pragworld_generated_mc")["acc"]
    assert all(isinstance(shown[f"{name}_stderr"], float) for name in METRICS)
