"""The layers that a user chooses, and what is refused."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from layer_reports import make_documents

from pragworld_interp.prompts.examples import document_examples, fingerprint
from pragworld_interp.run.inputs import choose_targets, parse_layers
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import Target


@pytest.mark.parametrize(
    "layers", [np.array([1, 0]), [np.int64(1), [np.int32(0)]], iter([1, 0]), [(1,), 0]]
)
def test_numbers_of_any_kind_are_layers(layers: Any) -> None:
    targets = choose_targets(layers, 3)
    assert targets == (Target((1,)), Target((0,)))
    assert {type(layer) for target in targets for layer in target.layers} == {int}


@pytest.mark.parametrize("layers", [1, "0-2", [0.5], ["1"], [None], [[0, "1"]], [True, 1.0]])
def test_what_is_no_layer_is_named(layers: Any) -> None:
    with pytest.raises(InputError, match=r"not.* layer.*; give .*\[3, \(5, 7\)\]$"):
        choose_targets(layers, 3)


@pytest.mark.parametrize("text", ["", " ", ",", "2+4-3", "4-3,1", "0-99999999999", "99999999999"])
def test_texts_that_do_not_name_layers(text: str) -> None:
    with pytest.raises(InputError, match="must be numbers"):
        parse_layers(text)


def test_a_fingerprint_is_of_everything_in_the_prompts() -> None:
    examples = document_examples(make_documents([2, 2]))
    last = examples[-1]
    changes: list[dict[str, Any]] = [
        {"text": f"{last.text} "},
        {"row": 9},
        {"group": 9},
        {"alteration": "other"},
        {"effect": "other"},
        {"answer": "other"},
        {"split": "synthetic"},
        {"labels": ("a", "b")},
    ]
    others = [[*examples[:3], dataclasses.replace(last, **change)] for change in changes]
    found = {fingerprint(own) for own in (examples, examples[:3], *others)}
    assert len(found) == 2 + len(changes)
    assert fingerprint(examples) == fingerprint(document_examples(make_documents([2, 2])))
    assert all(len(one) == 64 for one in found)
