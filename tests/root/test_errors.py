"""Misspelt settings in lm-eval's `--metadata`."""

import ast
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import lm_eval.models
import pytest

from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.errors import warn_of_misspelt
from pragworld_tasks.harness import (
    articulation_dataset,
    originals_dataset,
    own_question_dataset,
    question_dataset,
    split_dataset,
)

GENERATED = {"pragworld_split": "generated"}
TRACKING = {"pragworld_split": "generated_entity_tracking"}
SETTINGS = [*(field.name for field in fields(GeneratorSettings)), "paraphrases", "values", "unit"]


@pytest.mark.parametrize(
    ("data_set", "metadata", "key", "setting"),
    [
        (split_dataset, {**GENERATED, "group": 5, "groups": 1}, "group", "groups"),
        (originals_dataset, {**GENERATED, "Seed": 5, "groups": 1}, "Seed", "seed"),
        (articulation_dataset, {**GENERATED, "domain": "shop", "groups": 1}, "domain", "domains"),
        (split_dataset, {**TRACKING, "num_groups": 5, "groups": 1}, "num_groups", "groups"),
        (
            question_dataset,
            {"world_model_question": "finance_car", "paraphrase": "mine.jsonl"},
            "paraphrase",
            "paraphrases",
        ),
    ],
)
def test_a_misspelt_setting_is_named(
    data_set: Callable[..., object],
    metadata: dict[str, object],
    key: str,
    setting: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    data_set(**metadata, pretrained="some/model", max_length=2048)
    assert [record.getMessage() for record in caplog.records] == [
        f"--metadata: {key!r} is not a setting and has no effect; did you mean {setting!r}?"
    ]


def test_a_misspelt_setting_of_an_own_question_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SystemExit, match="unit: Field required"):
        own_question_dataset(paraphrases="mine.jsonl", values=["A", "B"], units="hour")
    assert "'units' is not a setting and has no effect; did you mean 'unit'?" in caplog.text


def test_no_argument_of_a_model_looks_like_a_misspelt_setting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """lm-eval passes them along, and a warning about them would be wrong."""
    arguments = {
        argument.arg
        for path in Path(lm_eval.models.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        for argument in (*node.args.args, *node.args.kwonlyargs)
    }
    assert len(arguments) > 100
    warn_of_misspelt(dict.fromkeys(arguments), SETTINGS)
    assert caplog.text == ""
