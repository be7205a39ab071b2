"""What is refused of files of documents and of the names of splits, and the line that says why."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from command_runs import refused
from json_lines import to_lines
from own_documents import MILK, SOME, TEA, to_document
from places import SAMPLES

from pragworld_tasks.cli import main
from pragworld_tasks.data.document_files import read_documents, write_documents
from pragworld_tasks.data.documents import Split, check_yes_no
from pragworld_tasks.data.prompts import split_prompt
from pragworld_tasks.data.sources import FILES, is_released, read_split
from pragworld_tasks.data.splits import named_documents, split_documents
from pragworld_tasks.errors import InputError


def sample(split: Split, old: str, new: str) -> bytes:
    """Our file in the format of a released one, with a first text replaced by a second one."""
    content = (SAMPLES / FILES[split].path).read_bytes()
    assert old.encode() in content
    return content.replace(old.encode(), new.encode(), 1)


def lines(*records: object) -> bytes:
    return to_lines(records).encode()


def written(suffix: str, *records: dict[str, Any]) -> bytes:
    """What a file of documents holds when we have written it."""
    with TemporaryDirectory() as folder:
        write_documents(map(to_document, records), Path(folder, f"x{suffix}"))
        return Path(folder, f"x{suffix}").read_bytes()


MANUAL = sample("manual", "", "")
TABLE = written(".csv", TEA, SOME)


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        # Released files
        ("manual.csv", sample("manual", "Answer,", "Anwser,"), ", line 1: no column 'answer' in ['Local Context', 'Question', 'Anwser', 'Pert"),
        ("manual.csv", sample("manual", "Yes,FALSE,None", "Yes,TRUE,None"), ", row 0 (line 2): alteration '-' contradicts flag 'TR"),
        ("manual.csv", sample("manual", "Yes,FALSE,None,-,-", "Yes,TRUE,None,Negation,Flip"), ", row 0 (line 2): an altered variant without an answered original; put that before it"),
        ("manual.csv", sample("manual", "Negation", "Negotiation"), ", row 1 (line 6): unknown alteration 'Negotiation'; must be "),
        ("manual.csv", sample("manual", "?,No,TRUE", "?,Perhaps,TRUE"), ", row 1 (line 6): unknown answer 'Perhaps'; must be one of yes, no"),
        ("manual.csv", sample("manual", "No,TRUE", "No,TRUTH"), ", row 1 (line 6): unknown flag 'TRUTH'; must be one of true, false"),
        ("manual.csv", sample("manual", "Negation,Flip", "Negation,Flop"), ", row 1 (line 6): unknown effect 'Flop'; must be one of"),
        ("manual.csv", sample("manual", "Context,Negation,Flip", "Context"), ", row 1 (line 6): 5 fields by ',' instead of 7; is the line cut off?"),
        ("manual.csv", MANUAL.partition(b"Person 2: he was")[0], ", row 8 (line 39): unexpected end of data; is the file cut off here?"),
        ("manual.csv", MANUAL.partition(b"\r\n")[0] + b"\r\n,,,77,,,", ": no documents"),
        ("manual.csv", MANUAL.decode().encode("cp1252"), ": not UTF-8; save the file in that encoding"),
        ("manual.csv", None, ": No such file or directory"),
        ("synthetic.csv", sample("synthetic", "attic?,yes,FALSE", "attic?,,FALSE"), ", row 1 (line 6): an altered variant without"),
        ("entity_tracking.jsonl", sample("entity_tracking", '{"prompt": "', '{"prompt": '), ", row 0 (line 1): not JSON"),
        ("entity_tracking.jsonl", sample("entity_tracking", "answer the question below", "reply"), ", row 0 (line 1): the prompt is neither Prompt 1 nor"),
        # A user's own
        ("own.jsonl", lines(TEA, {"question": "?", "answer": "no"}), ", row 1 (line 2): context: Field required"),
        ("own.jsonl", lines({**TEA, "context": " \n"}), ", row 0 (line 1): context: String should match pattern"),
        ("own.jsonl", lines({**TEA, "answer": True}), ", row 0 (line 1): answer: Input should be a valid string"),
        ("own.jsonl", lines({**TEA, "answer": "maybe"}), ", row 0 (line 1): answer 'maybe' is none of the labels yes, no; add it in 'labels'"),
        ("own.jsonl", lines({"labels": ["yes"]}, TEA), ", row 0 (line 2): labels: Tuple should have at least 2 items"),
        ("own.jsonl", lines({"labels": ["yes", "no", "No!"]}, TEA), ", row 0 (line 2): labels yes, no, No!: must differ in their letters"),
        ("own.jsonl", lines({"labels": ["no", "yes"]}, TEA, {**MILK, "labels": ["yes", "no"]}), ", row 1 (line 3): other labels than before; give those"),
        ("own.jsonl", lines({"prompt": "{{ text }}"}, TEA), ", row 0 (line 2): prompt: 'text' is undefined; write a Jinja template"),
        ("own.jsonl", lines({**TEA, "group": "forty"}), ", row 0 (line 1): group: Input should be a valid int"),
        ("own.jsonl", lines(TEA, {"grup" if name == "group" else name: value for name, value in MILK.items()}), ", row 1 (line 2): 'grup' is not read; did you mean 'group'? Rename the field"),
        ("own.jsonl", lines({**TEA, "Answer": "No"}), ", row 0 (line 1): 'Answer' is a second 'answer'; rename one of them"),
        ("own.jsonl", lines({**TEA, "basis": "excluded"}), ", row 0 (line 1): basis 'excluded' contradicts answer 'yes'; only what is entailed is answered yes"),
        ("own.jsonl", lines({**MILK, "basis": "entailed"}), ", row 0 (line 1): basis 'entailed' contradicts answer 'no'; only what is entailed is answered yes"),
        ("own.jsonl", lines(TEA, {**SOME, "group": None}), ", row 1 (line 2): an altered variant needs an original with the same 'group'; add the original"),
        ("own.jsonl", lines(MILK, SOME), ", row 1 (line 2): an altered variant needs an original with the same 'group'"),
        ("own.jsonl", lines(TEA, MILK, {**MILK, "question": "?"}), ", row 2 (line 3): group 7 has another original; a group is one original and its altered"),
        ("own.jsonl", lines(TEA, MILK, {**TEA, "group": 3}), ", row 2 (line 3): the same context and question as in row 0; remove one of them"),
        ("own.jsonl", lines("tea"), ", row 0 (line 1): not a JSON object"),
        ("own.jsonl", lines(TEA, MILK)[:-9], ", row 1 (line 2): not JSON (Unterminated string starting at: line 1 column 127 (char 126)); is the line cut off?"),
        ("own.jsonl", b"", ": empty; each line must be a JSON object"),
        ("own.csv", b"", ", line 1: no column 'context' in []; add or rename it"),
        ("own.csv", b",context;answer\n", ", line 1: no column 'context' in ['', 'context;answer'] ('' is the index of pandas; write without it);"),
        ("own.csv", b"context;question;answer\ra;\n;;b\r", ", row 0 (line 2): 2 fields by ';' instead of 3; its lines end in CR: save with LF"),
        ("own.csv", TABLE.replace(b",Quantifier Change,", b",-,"), ", row 1 (line 4): alteration '-' contradicts flag 'TR"),
        ("own.csv", written(".csv", TEA, {**TEA, "group": 8}), ", row 1 (line 4): the same context and question as in row 0"),
        ("own.csv", b"context,question,answer\n", ": no documents; write at least one"),
        ("own.csv", None, ": No such file or directory"),
        ("own.parquet", b"PAR1", ": Parquet file size is 4 bytes, smaller than the minimum file footer (8 bytes); pass a Parquet file"),
        ("own.parquet", None, ": [Errno 2] Failed to open local file"),
    ],
)  # fmt: skip
def test_files(tmp_path: Path, name: str, content: bytes | None, line: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    split = path.stem
    with pytest.raises(InputError) as refusal:
        _ = read_split(split, path) if is_released(split) else read_documents(path)
    assert str(refusal.value).startswith(f"{path}{line}")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: named_documents("manual", {"groups": 3}), "manual: only the split generated has settings; leave them out"),
        (lambda: split_documents("own", {}), "pragworld_own: no 'documents'; name a file of documents, as in --metadata "),
        (lambda: split_documents("own", {"documents": ["a"]}), "pragworld_own: no 'documents'; "),
        (lambda: read_documents("."), ".: Is a directory"),
        (lambda: check_yes_no([replace(to_document(TEA), labels=("A", "B"))], "a board"), "a board takes documents with the labels yes and no, not A, B"),
        (lambda: split_prompt("Is it raining?"), "the prompt is neither Prompt 1 nor Prompt 2 of the PragWorld paper"),
    ],
)  # fmt: skip
def test_calls(call: Callable[[], object], line: str) -> None:
    with pytest.raises(InputError) as refusal:
        call()
    assert str(refusal.value).startswith(line)


def test_the_command() -> None:
    with refused(
        "^split 'automatic' does not exist; choose from manual, synthetic, entity_tracking$"
    ):
        main(["data", "fetch", "automatic"])
