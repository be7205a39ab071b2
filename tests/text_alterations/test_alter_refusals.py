"""What `alter` refuses, and the line that says why."""

import json
import re
from pathlib import Path

import pytest

from pragworld_tasks.cli import main
from pragworld_tasks.errors import InputError
from pragworld_tasks.text_alterations.alter import alter
from pragworld_tasks.text_alterations.entities import Entities

LISTS = {"agents": ["Noah"], "objects": ["apples"], "locations": ["hall"]}
TEXT = "A: Noah put apples in the hall."


@pytest.mark.parametrize(
    ("lists", "text", "message"),
    [
        ("{", TEXT, "my.json: not JSON"),
        ([], TEXT, "my.json: not a JSON object"),
        ({**LISTS, "places": []}, TEXT, "my.json: unknown list 'places'"),
        ({"agents": [], "objects": []}, TEXT, "the list 'locations' is missing"),
        ({**LISTS, "agents": "Noah"}, TEXT, "'agents' is not a list of strings"),
        ({**LISTS, "agents": [1]}, TEXT, "'agents' is not a list of strings"),
        ({**LISTS, "agents": [" Noah"]}, TEXT, "' Noah' in 'agents' does not begin and end"),
        ({**LISTS, "agents": ["Noah", "noah"]}, TEXT, "'noah' in 'agents' is the same as one in 'agents'"),
        ({**LISTS, "objects": ["apple", "apples"]}, TEXT, "'apples' in 'objects' is the same"),
        ({**LISTS, "locations": ["apple"]}, TEXT, "'apple' in 'locations' is the same as one in 'objects'"),
        ({**LISTS, "focus_agents": ["Owen"]}, TEXT, "'Owen' in 'focus_agents' is not in 'agents'"),
        ({**LISTS, "focus_agents": ["Noah", "Noah"]}, TEXT, "'Noah' is twice in 'focus_agents'"),
        ({**LISTS, "female": ["Mia"]}, TEXT, "'Mia' in 'female' or 'male' is not in 'agents'"),
        ({**LISTS, "female": ["Noah"], "male": ["Noah"]}, TEXT, "'Noah' is in 'female' and in 'male'"),
        ({**LISTS, "exchangeable": [["apples", "cup"]]}, TEXT, "are not in one list"),
        ({**LISTS, "exchangeable": "apples"}, TEXT, "'exchangeable' is not a list"),
        ({**LISTS, "exchangeable": ["apples"]}, TEXT, "a group in 'exchangeable' is not a list of strings"),
        ({**LISTS, "agents": ["Owen"]}, TEXT, "my.json: 'Owen' in 'agents' does not occur in the conversation; list whole words in the conversation's letter case; alterations are of English text"),
        ({**LISTS, "agents": ["A"]}, TEXT, "'A' in 'agents' occurs in the conversation only as a speaker's label"),
        ({**LISTS, "agents": ["Rene\u0301e"]}, TEXT, "'agents' is not in Unicode's form NFC"),
        (LISTS, "A: Hi!\nB: Rene\u0301e left.", "my.txt: line 2 is not in Unicode's form NFC"),
        (LISTS, "A: Anna left, An\xadna came.", "line 1 has an invisible character, U+00AD"),
        (LISTS, " \n\n", "my.txt: the file is empty"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_run_says_why_in_one_line(
    lists: object,
    text: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.json").write_text(lists if isinstance(lists, str) else json.dumps(lists))
    Path("my.txt").write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match="2"):
        main(["alter", "--conversation", "my.txt", "--entities", "my.json"])
    printed = capsys.readouterr()
    assert message in printed.err
    assert (printed.out, printed.err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    ("alteration", "message"),
    [
        ("swap", "no alteration 'swap'; choose one of Negation"),
        ("quantity change", "Quantity Change is not possible: there is no number"),
    ],
)
def test_an_alteration_that_is_unknown_or_not_possible(alteration: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        alter(TEXT, Entities.from_lists(LISTS), alteration)
