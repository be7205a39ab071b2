"""Tests of the judgements of altered conversations, which `benchmarks/alterations.py` counts."""

import json
from collections import Counter

import pytest
from json_lines import read_lines
from places import ROOT

from pragworld_tasks.data.documents import ALTERATIONS

FOLDER = ROOT / "tests" / "alterations"
ENTITIES = json.loads((FOLDER / "entities.json").read_text(encoding="utf-8"))


def readings(name: str) -> list[dict[str, str]]:
    return read_lines(FOLDER / name)


@pytest.mark.parametrize("name", ["readings.jsonl", "first_reading.jsonl"])
def test_every_reading_is_of_one_output_and_has_a_reason(name: str) -> None:
    keys = [(reading["conversation"], reading["alteration"]) for reading in readings(name)]
    assert len(keys) == len(set(keys))
    for reading in readings(name):
        assert reading["conversation"] in ENTITIES
        assert reading["alteration"] in ALTERATIONS
        refused = reading["judgement"] == "refused"
        assert reading["judgement"] in ("good", "odd", "broken", "refused")
        assert bool(reading["output"]) is bool(reading["reason"]) is not refused


def test_a_third_was_kept_aside_and_read_whole() -> None:
    aside = {digest for digest in ENTITIES if int(digest, 16) % 3 == 0}
    assert 0.25 < len(aside) / len(ENTITIES) < 0.4
    attempts = Counter(reading["conversation"] for reading in readings("first_reading.jsonl"))
    assert attempts == dict.fromkeys(aside, len(ALTERATIONS))
