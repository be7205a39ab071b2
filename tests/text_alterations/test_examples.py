"""The alterations of `examples.jsonl`: what each rule makes of a text, nothing where it may not."""

import json
from pathlib import Path
from typing import Any

import pytest
from altered_texts import ALGORITHMS, outcomes

LINES = Path(__file__).with_name("examples.jsonl").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("example", [*map(json.loads, LINES)], ids=lambda example: example["rule"])
def test_an_example_is_altered_as_its_rule_says(example: dict[str, Any]) -> None:
    about = ("rule", "alteration", "text", "altered")
    lists = {name: entities for name, entities in example.items() if name not in about}
    algorithm = ALGORITHMS[example["alteration"]]
    assert outcomes(algorithm, example["text"], **lists) == {*example["altered"]}
