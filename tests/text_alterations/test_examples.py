"""The alterations of `examples.jsonl`: what each rule makes of a text, nothing where it may not."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from test_text_alterations import ALGORITHMS

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.text_alterations.entities import Conversation, Entities

LINES = Path(__file__).with_name("examples.jsonl").read_text(encoding="utf-8").splitlines()
SEEDS = 150  # so that every possible outcome comes out


@pytest.mark.parametrize("example", [*map(json.loads, LINES)], ids=lambda example: example["rule"])
def test_an_example_is_altered_as_its_rule_says(example: dict[str, Any]) -> None:
    kinds = ("agents", "objects", "locations")
    entities = Entities.from_lists({kind: example.get(kind, []) for kind in kinds})
    algorithm = ALGORITHMS[ALTERATIONS.index(example["alteration"])]
    conversation = Conversation(example["text"], entities)
    altered = (algorithm(conversation, random.Random(seed)) for seed in range(SEEDS))
    assert {outcome.text for outcome in altered if outcome} == {*example["altered"]}
