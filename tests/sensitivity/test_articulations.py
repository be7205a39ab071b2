"""PragWorld under rewording: the ten wordings, the metrics, and the task through lm_eval."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lm_eval_runs import LmEval

from pragworld_tasks.data.prompts import label_prompt
from pragworld_tasks.data.sources import load_split
from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.evaluation.statistics import Floats
from pragworld_tasks.evaluation.task_metrics import NotAvailable
from pragworld_tasks.sensitivity.articulations import (
    ARTICULATION_METRICS,
    WORDINGS,
    Worded,
    articulation_share,
    worded_prompt,
    worded_question,
)
from pragworld_tasks.tiny import tiny_folder


def aggregated(items: Sequence[Worded]) -> dict[str, float | NotAvailable]:
    return {
        name: articulation_share([(name, item) for item in items]) for name in ARTICULATION_METRICS
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
    purpose = articulation = chance = 0.0
    for group in groups.values():
        of_document = [fmean(item.yes for item in one) for one in group.values()]
        given_document = fmean(map(entropy, of_document))
        given_prompt = fmean(entropy(item.yes) for one in group.values() for item in one)
        purpose += entropy(fmean(of_document)) - given_document
        articulation += given_document - given_prompt
        chance += given_prompt
    total = purpose + articulation + chance
    wordings = [[item.right for item in found if item.wording == n] for n in range(WORDINGS)]
    wrong = {item.group for item in found if not item.right}
    return {
        "ps": purpose / total,
        "as": articulation / total,
        "mu": chance / total,
        "mvs": purpose / (purpose + articulation),
        "acc": fmean(item.right for item in found),
        "acc_worst_wording": min(map(fmean, wordings)),
        "robust_acc": 1 - len(wrong) / len(groups),
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


def test_the_question_is_worded_differently_and_stays_the_question() -> None:
    question = "does B know who ate \nthe figs? "
    worded = [worded_question(question, number) for number in range(WORDINGS)]
    assert worded[0] == question
    assert len(set(worded)) >= 7
    for number, text in enumerate(worded):
        document = {"context": "", "question": question, "wording": number}
        assert text.strip() in worded_prompt(document)
        before, after = text.split(question.strip().removesuffix("?"))
        # What is added names yes as the answer to confirm, or neither answer, or both alike.
        added = set(re.findall(r"\b(?:yes|no|not|wrong|false)\b", (before + after).lower()))
        assert added in (set(), {"yes"}, {"yes", "no"})
        if added == {"yes"}:
            assert f'"{question.strip()}"' in text  # quoted: yes is the answer to all of it


def test_every_released_and_generated_question_can_be_worded_so(released_data: Path) -> None:
    made = documents(generate(GeneratorSettings(groups=50, seed=1)))
    questions = {document.question for document in (*load_split("manual"), *made)}
    assert len(questions) > 188
    for question in questions:
        assert re.match(r"(is|are|was|does|did|has|will|can|should)\b", question.lower()), question
        assert "?" not in question.strip()[:-1]
        assert '"' not in question


def test_models_that_toss_a_coin_or_know_or_go_by_wording() -> None:
    gold = [[True, False]] * 3
    coin = items([np.full((2, WORDINGS), 0.5)] * 3, gold)
    assert [*aggregated(coin).values()][:4] == [0, 0, 1, "N/A"]
    knowing = items([np.repeat([[1.0], [0.0]], WORDINGS, axis=1)] * 3, gold)
    assert [*aggregated(knowing).values()] == [1, 0, 0, 1, 1, 1, 1]
    by_wording = items([np.tile(np.arange(WORDINGS) % 2, (2, 1)).astype(float)] * 3, gold)
    assert [*aggregated(by_wording).values()] == [0, 1, 0, 0, 0.5, 0.5, 0]


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_the_metrics_are_those_of_the_definitions(seed: int, groups: int) -> None:
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 6, size=groups)
    yes = [generator.beta(0.5, 0.5, size=(size, WORDINGS)) for size in sizes]
    gold = [list(generator.random(size) < 0.5) for size in sizes]
    found = items(yes, gold)
    generator.shuffle(found)
    expected = by_definition(found)
    assert aggregated(found) == pytest.approx(expected, abs=1e-9)


def test_groups_that_lack_something_do_not_count() -> None:
    yes = np.repeat([[1.0], [0.0]], WORDINGS, axis=1)
    whole = items([yes], [[True, False]])
    others = items([yes, 1 - yes], [[True, False]] * 2)
    lacking = [item for item in others if item.group == 1 and (item.row, item.wording) != (1, 3)]
    assert [aggregated(one)["acc"] for one in (whole + lacking, lacking, others)] == [1, "N/A", 0.5]


def test_the_task_with_the_small_model(lm_eval: LmEval) -> None:
    evaluation = lm_eval(
        *("--model", "hf", "--model_args", f"pretrained={tiny_folder()}", "--batch_size", "32"),
        *("--tasks", "pragworld_generated_articulation", "--log_samples"),
        *("--metadata", '{"groups": 2, "seed": 5}'),
    )
    made = list(documents(generate(GeneratorSettings(groups=2, seed=5, split="test"))))
    asked = [document for document in made for _ in range(WORDINGS)]
    samples, found = evaluation.samples("pragworld_generated_articulation"), []
    for document, sample in zip(asked, samples, strict=True):
        assert sample["doc"]["question"] == document.question
        yes, no = (math.exp(float(one[0][0])) for one in sample["resps"])
        right = (yes > no) == (document.answer == "yes")
        wording = sample["doc"]["wording"]
        found.append(Worded(document.group, 0, document.row, wording, yes / (yes + no), right))
    expected = by_definition(found)
    shown = evaluation.metrics("pragworld_generated_articulation")
    assert {name: shown[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert 0 < shown["as"] < 1  # else this test would show little
    assert all(isinstance(shown[f"{name}_stderr"], float) for name in ARTICULATION_METRICS)
