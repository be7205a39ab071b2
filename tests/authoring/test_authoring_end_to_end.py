"""`pragworld-tasks author` with a server that plays the models, of which truth is known.

The small runs are part of the suite. `PRAGWORLD_LONG=1` runs those of 200 groups as well.
"""

import json
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import plain_talk
import pytest
from authoring_server import INVENTED
from command_runs import Program, run_program
from lm_eval_runs import LmEval
from servers import serve

import pragworld_tasks
from pragworld_tasks.dialogues.vocabulary import Domain
from pragworld_tasks.tiny import tiny_folder

CONCURRENCY = 8
FAULTS = {"wrong": 0.1, "malformed": 0.05, "invented": 0.02, "careless": 0.02}
BREAKDOWNS = {"busy": 0.02, "drop": 0.01}
SPEAKERS = (("Ann", "Ben"), ("Alice", "Bob"), ("Ruth", "Adam"))
KINDS: tuple[tuple[Domain, str], ...] = (
    ("household", "location"),
    ("household", "general"),
    ("shop", "seller_buyer"),
    ("clinic", "doctor_patient"),
)
WRITTEN = ("entities", "conversations", "variants", "questions")  # what may name things


@dataclass(frozen=True)
class Played:
    """A server that runs, and its log."""

    url: str
    log: Path

    def lines(self, field: str) -> list[dict[str, Any]]:
        """Return the lines of the log that have a field."""
        records = map(json.loads, self.log.read_text().splitlines())
        return [record for record in records if field in record]


@contextmanager
def played(folder: Path, **shares: float) -> Iterator[Played]:
    """Run a server with shares of faults."""
    log = folder / "requests.jsonl"
    options = [f"--{name}={share}" for name, share in shares.items()]
    with serve("authoring_server.py", f"--log={log}", *options) as url:
        yield Played(url, log)


def write_seeds(path: Path, number: int) -> Path:
    """Write as many seed conversations of all kinds."""
    sorts = zip(cycle(KINDS), cycle(SPEAKERS), strict=False)
    with path.open("w") as stream:
        for seed, ((domain, kind), speakers) in enumerate(islice(sorts, number)):
            conversation = plain_talk.write_seed(domain, speakers, random.Random(seed))
            stream.write(json.dumps({"conversation": conversation, "kind": kind}) + "\n")
    return path


def authoring(folder: Path, url: str, groups: int, *more: str, seeds: int = 10) -> list[str]:
    """Return the arguments of a run that writes groups to `folder/mine`."""
    path = write_seeds(folder / "seeds.jsonl", seeds)
    places = ("--seeds", str(path), "--base-url", url, "--out", str(folder / "mine"))
    settings = ("--model", "writer", "--groups", str(groups), "--concurrency", str(CONCURRENCY))
    return ["author", *places, *settings, *more]


def run_with_kills(arguments: Sequence[str], out: Path, log: Path, kills: Sequence[int]) -> None:
    """Run the command; kill it whenever the journal has so many replies, and start it again."""
    journal = out / "replies.jsonl"
    for replies in kills:
        program = Program("pragworld-tasks", *arguments, log=log)
        while program.runs() and not (journal.exists() and count_lines(journal) >= replies):
            time.sleep(0.005)
        assert program.stop(signal.SIGKILL) == 137, log.read_text()
        assert not (out / "documents.jsonl").exists()
    process = run_program("pragworld-tasks", *arguments)
    assert process.returncode == 0, process.stderr
    assert "Traceback" not in process.stderr


def count_lines(path: Path) -> int:
    """Return the number of lines of a file."""
    return path.read_bytes().count(b"\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def share_of_right_labels(out: Path) -> float:
    """Return the share of documents whose label is the truth."""
    documents = pragworld_tasks.read_documents(out / "documents.jsonl")
    right = [
        (plain_talk.truth(document.context, document.question) == "yes")
        == (document.answer == "yes")
        for document in documents
    ]
    return sum(right) / len(right)


def check_groups(out: Path, groups: int) -> None:
    """Check that as many groups come out, each with variants."""
    documents = pragworld_tasks.read_documents(out / "documents.jsonl")
    sizes = Counter(document.group for document in documents)
    originals = [document for document in documents if document.is_original]
    assert len(sizes) == len(originals) == groups
    assert min(sizes.values()) > 1
    for document in documents:
        assert plain_talk.read_question(document.question), document.question


def check_nothing_invented(out: Path) -> None:
    """Check that no invented name is left in what was written, and no vote rests on one."""
    invented = re.compile("|".join(name for slot in INVENTED for name in slot))
    for name in WRITTEN:
        assert not invented.search((out / f"{name}.jsonl").read_text()), name
    for name in ("documents.jsonl", "documents.csv"):
        assert not invented.search((out / name).read_text()), name
    votes = [vote for label in read_lines(out / "labels.jsonl") for vote in label["votes"]]
    unfounded = [vote for vote in votes if invented.search(vote["quote"])]
    assert unfounded
    assert {vote["answer"] for vote in unfounded} == {None}


def check_answered_once(out: Path, server: Played, kills: int) -> None:
    """Check that the journal has all answers, but those on their way when the run was killed."""
    journal = [line for line in read_lines(out / "replies.jsonl") if "key" in line]
    keys = [line["key"] for line in journal]
    assert len(set(keys)) == len(keys)
    answered = Counter(line["text"].strip() for line in server.lines("answered"))
    lost = answered - Counter(line["answer"] for line in journal)
    assert answered.total() - len(journal) == lost.total() <= kills * CONCURRENCY


def check_report(out: Path) -> None:
    """Check that the report says what was dropped, how often and why."""
    report = (out / "report.md").read_text()
    rules = Counter((line["stage"], line["reason"]) for line in read_lines(out / "dropped.jsonl"))
    rows = {tuple(cell.strip() for cell in line.split("|")) for line in report.splitlines()}
    assert rules
    for (stage, reason), times in rules.items():
        assert ("", reason, stage, str(times), "") in rows


def set_aside(out: Path) -> set[str]:
    """Return the models of the panel's members that the report says are set aside."""
    report = (out / "report.md").read_text()
    return set(re.findall(r"The votes of member \d+ \((.+?)\) do not count", report))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder for seeds, outputs and logs."""
    return tmp_path


def test_a_killed_run_with_faults_gives_right_labels(files: Path) -> None:
    groups, out = 6, files / "mine"
    with played(files, **FAULTS, **BREAKDOWNS) as server:
        arguments = authoring(files, server.url, groups, "--variants", "3", seeds=4)
        run_with_kills(arguments, out, files / "log", [40])
        check_groups(out, groups)
        assert share_of_right_labels(out) >= 0.99
        check_nothing_invented(out)
        check_answered_once(out, server, kills=1)
        check_report(out)

        files_before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        requests = len(server.lines("request"))
        again = run_program("pragworld-tasks", *arguments)
        assert again.returncode == 0, again.stderr
        assert len(server.lines("request")) == requests
        assert {path: path.read_bytes() for path in files_before} == files_before


@pytest.mark.usefixtures("long_runs")
def test_two_hundred_groups_with_faults_and_three_kills(files: Path, lm_eval: LmEval) -> None:
    groups, out = 200, files / "mine"
    with played(files, **FAULTS, **BREAKDOWNS) as server:
        arguments = authoring(files, server.url, groups)
        run_with_kills(arguments, out, files / "log", [100, 1500, 4000])
        check_answered_once(out, server, kills=3)
    check_groups(out, groups)
    assert share_of_right_labels(out) >= 0.99
    check_nothing_invented(out)
    check_report(out)

    documents = pragworld_tasks.read_documents(out / "documents.jsonl")
    evaluation = lm_eval(
        *("--model", "hf", "--model_args", f"pretrained={tiny_folder()}", "--batch_size", "32"),
        "--log_samples",
        *("--tasks", "pragworld_own"),
        *("--metadata", json.dumps({"documents": str(out / "documents.jsonl")})),
    )
    assert evaluation.returncode == 0, evaluation.log
    assert len(evaluation.samples("pragworld_own")) == len(documents)
    assert {"robust_acc", "flip_acc", "invariant_acc"} <= evaluation.metrics("pragworld_own").keys()


@pytest.mark.usefixtures("long_runs")
def test_members_that_do_not_read_are_set_aside(files: Path) -> None:
    groups, out = 200, files / "mine"
    panel = ("writer", "writer", "writer", "always-yes", "parrot")
    with played(files, **FAULTS, **BREAKDOWNS) as server:
        members = [word for member in panel for word in ("--panel", member)]
        arguments = authoring(files, server.url, groups, *members)
        run_with_kills(arguments, out, files / "log", [])
    check_groups(out, groups)
    assert set_aside(out) == {"always-yes", "parrot"}
    assert share_of_right_labels(out) >= 0.99
