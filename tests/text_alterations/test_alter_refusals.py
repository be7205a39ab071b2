"""What `alter` refuses, and the line that says why."""

import json
import re
from pathlib import Path

import pytest
from command_runs import refused

from pragworld_tasks.cli import main
from pragworld_tasks.errors import InputError
from pragworld_tasks.text_alterations.alter import alter

LISTS = {"agents": ["Noah"], "objects": ["apples"], "locations": ["hall"]}
TEXT = "A: Noah put apples in the hall."


@pytest.mark.parametrize(
    ("lists", "text", "message"),
    [
        ("{", TEXT, "my.json: not JSON"),
        ({**LISTS, "places": []}, TEXT, "my.json: places: Unexpected keyword argument"),
        ({"agents": [], "objects": []}, TEXT, "my.json: locations: Field required"),
        ({**LISTS, "agents": "Noah"}, TEXT, "my.json: agents: Input should be a valid tuple"),
        ({**LISTS, "agents": [" Noah"]}, TEXT, "agents.0: ' Noah' does not begin and end with a letter"),
        ({**LISTS, "agents": ["Noah", "noah"]}, TEXT, "'noah' in 'agents' is the same as one in 'agents'"),
        ({**LISTS, "objects": ["apple", "apples"]}, TEXT, "'apples' in 'objects' is the same"),
        ({**LISTS, "locations": ["apple"]}, TEXT, "'apple' in 'locations' is the same as one in 'objects'"),
        ({**LISTS, "focus_agents": ["Owen"]}, TEXT, "'Owen' in 'focus_agents' is not in 'agents'"),
        (LISTS, " \n\n", "my.txt: empty; write one utterance per line"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_run_says_why(
    lists: object, text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.json").write_text(lists if isinstance(lists, str) else json.dumps(lists))
    Path("my.txt").write_text(text, encoding="utf-8")
    with refused(re.escape(message)):
        main(["alter", "--conversation", "my.txt", "--entities", "my.json"])


@pytest.mark.parametrize(
    ("alteration", "text", "message"),
    [
        ("swap", TEXT, "no alteration 'swap'; choose one of Negation"),
        ("quantity change", TEXT, "Quantity Change is not possible: there is no number"),
        ("Variable Swap", "A: Is Noah in?\nB: He left. Wei came.", "Variable Swap is not possible: of Noah and Wei, the gender of one is not known; list it as 'female' or 'male'"),
    ],
)  # fmt: skip
def test_an_alteration_that_is_unknown_or_not_possible(
    alteration: str, text: str, message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        alter(text, {"agents": ["Noah", "Wei"], "objects": [], "locations": []}, alteration)
