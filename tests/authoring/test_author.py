"""`pragworld-tasks author` with a server that plays the models, of which truth is known."""

import random
import re
import signal
import time
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any, get_args

import pytest
from authoring_server import INVENTED, Server, read_prompt, truth, write_seed
from command_runs import Program, refused
from json_lines import read_lines, write_lines
from servers import Body

import pragworld_tasks
from pragworld_tasks.authoring import results
from pragworld_tasks.authoring.labels import Decision
from pragworld_tasks.authoring.records import Kind, write_records
from pragworld_tasks.cli import main

SPEAKERS = (("Ann", "Ben"), ("Alice", "Bob"), ("Ruth", "Adam"))


def write_seeds(path: Path, number: int) -> Path:
    kinds, speakers = cycle(get_args(Kind)), cycle(SPEAKERS)
    seeds = [
        {"conversation": write_seed(next(speakers), random.Random(seed)), "kind": next(kinds)}
        for seed in range(number)
    ]
    return write_lines(path, seeds)


def authoring(seeds: Path, url: str, *more: str, out: str = "mine") -> list[str]:
    """Return the arguments of a small run that writes to a folder beside the seeds."""
    places = ("--seeds", str(seeds), "--base-url", url, "--out", str(seeds.parent / out))
    settings = ("--model", "writer", "--groups", "2", "--variants", "2")
    return ["author", *places, *settings, "--panel", "first", "second", "third", *more]


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def groups_in(out: Path) -> set[int]:
    documents = pragworld_tasks.read_documents(out / "documents.jsonl")
    return {document.group for document in documents}


def test_a_killed_run_with_faults_gives_right_labels(tmp_path: Path) -> None:
    seeds, out = write_seeds(tmp_path / "s", 4), tmp_path / "mine"
    journal, log = out / "replies.jsonl", tmp_path / "log"
    with Server({30: "429", 50: "drop", 90: "429"}, wrong=0.1, invented=0.05).running() as server:
        five = ("--panel", *["writer"] * 5)
        arguments = authoring(seeds, server.url, "--groups", "6", "--variants", "3", *five)
        program = Program("pragworld-tasks", *arguments, log=log)
        while program.runs() and not (journal.exists() and journal.read_bytes().count(b"\n") >= 40):
            time.sleep(0.005)
        assert program.stop(signal.SIGKILL) == 137, log.read_text()
        assert not (out / "documents.jsonl").exists()
        main(arguments)
        # Nothing was asked twice, but what was on its way when the run was killed.
        keys = [line["key"] for line in read_lines(journal) if "key" in line]
        assert len({*keys}) == len(keys)
        assert 0 <= server.answered.total() - len(keys) <= 8  # at once
        before, asked = files_of(out), len(server.bodies)
        main(arguments)
    assert files_of(out) == before
    assert len(server.bodies) == asked

    documents = pragworld_tasks.read_documents(out / "documents.jsonl")
    sizes = Counter(document.group for document in documents)
    assert len(sizes) >= 6
    assert min(sizes.values()) > 1
    right = [
        (truth(document.context, document.question) == "yes") == (document.answer == "yes")
        for document in documents
    ]
    assert sum(right) / len(right) >= 0.99
    invented = re.compile("|".join(name for slot in INVENTED for name in slot))
    votes = [vote for line in read_lines(out / "votes.jsonl") for vote in line["votes"]]
    unfounded = [vote for vote in votes if invented.search(vote["quote"])]
    assert unfounded
    assert {vote["answer"] for vote in unfounded} == {None}
    assert not invented.search((out / "documents.jsonl").read_text())


def test_files_do_not_depend_on_the_order_in_which_replies_come(tmp_path: Path) -> None:
    seeds = write_seeds(tmp_path / "seeds.jsonl", 2)
    for name, concurrency in (("one", "1"), ("many", "16")):
        with Server(malformed=0.1, invented=0.1).running() as server:
            main(authoring(seeds, server.url, "--concurrency", concurrency, out=f"{name}/mine"))
    one, many = (files_of(tmp_path / name / "mine") for name in ("one", "many"))
    assert one.keys() == many.keys()
    assert {name for name in one if one[name] != many[name]} <= {"replies.jsonl"}


def test_a_folder_grows_and_never_takes_another_runs_replies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds, out = write_seeds(tmp_path / "s", 9), tmp_path / "mine"
    with Server().running() as server:
        with monkeypatch.context() as killing:
            killing.setattr(results, "review_page", None)  # as if killed while files are written
            with pytest.raises(TypeError):
                main(authoring(seeds, server.url))
        main(authoring(seeds, server.url))
        journal = (out / "replies.jsonl").read_bytes()
        with refused("mine/replies.jsonl: written with turns 16, not 12; use that again, remove"):
            main(authoring(seeds, server.url, "--turns", "12"))
        rejected = min(groups_in(out))
        for document in results.read_votes(out).documents:
            if (document.conversation, document.variant) == (rejected, 0):
                place: Any = {"conversation": rejected, "variant": 0, "digest": document.digest}
                decision = Decision(**place, decision="reject", reviewer="Ann")
                write_records(out / "decisions.jsonl", [decision])
        main(authoring(seeds, server.url, "--groups", "4"))
    assert len(groups_in(out) - {rejected}) == len(groups_in(out)) == 3
    prompts = [read_prompt(body["messages"][-1]["content"])[0] for body in server.bodies]
    assert sum(name.startswith("entities") for name in prompts) < 9  # no more than needed
    assert (out / "replies.jsonl").read_bytes().startswith(journal)
    assert set(server.answered.values()) == {1}


OOPS = {"error": {"message": "the prompt is too long", "code": 400}}
FAILED = (
    r"mine: not finished: \d requests failed, most often because .*the prompt is too long.*; check"
)


@pytest.mark.parametrize(
    ("fault", "source", "line", "cause"),
    [
        ({"refuses": lambda body: OOPS}, "--seeds", FAILED, "requests failed, .* too long"),
        ({"refuses": lambda body: OOPS}, "--documents", FAILED, "requests failed, .* too long"),
        ({"model": lambda body: OOPS}, "--seeds", FAILED, "requests failed, .* too long"),
        ({"model": lambda body: "Yes."}, "--seeds", "mine: only 0 of 2 groups have labels; see "
         ".*mine/report.md, and use other", "the reply is unusable"),
    ],
)  # fmt: skip
def test_a_run_that_is_not_finished_says_why_and_asks_again(
    fault: dict[str, Any], source: str, line: str, cause: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    document = {"context": "Ann: Where is it?\nBen: Here.", "question": "Is it?", "answer": "no"}
    paths = {"--seeds": write_seeds(tmp_path / "seeds", 2), "--documents": tmp_path / "d.jsonl"}
    write_lines(paths["--documents"], [document])
    out = tmp_path / "mine"
    report, documents = out / "report.md", out / "documents.jsonl"
    with Server().running() as server:
        command = authoring(paths["--seeds"], server.url)
        command[1:3] = [source, str(paths[source])]
        with monkeypatch.context() as failing, refused(line):
            for name, value in fault.items():
                failing.setattr(server, name, value)
            main(command)
        assert re.search(cause, report.read_text())
        assert documents.read_text() == ""
        texts = (out / "votes.jsonl").read_text() + (out / "dropped.jsonl").read_text()
        assert re.search(r"the prompt is too long|\): 'Yes\.'", texts)
        main(command)
    assert not re.search(cause, report.read_text())
    assert documents.read_text() or source == "--documents"


def test_a_seed_whose_entities_were_lost_gets_another_try(tmp_path: Path) -> None:
    def play(body: Body) -> str:
        reply = server.play(body)
        server.shares["malformed"] = 0.0  # from the second reply on
        return reply

    seeds, server = write_seeds(tmp_path / "seeds.jsonl", 1), Server(malformed=1.0)
    server.model = play
    with server.running():
        main(authoring(seeds, server.url))
    assert groups_in(tmp_path / "mine") == {1, 2}


def test_existing_documents_are_labelled_and_found_again(tmp_path: Path) -> None:
    path, out = tmp_path / "documents.jsonl", tmp_path / "checked"
    # The label of the first one is wrong, and a variant comes before its original.
    lines: list[dict[str, Any]] = [
        {"context": "Ann: Where are the figs?\nBen: In the hall.", "group": 25},
        {"context": "Ben: In the attic.", "group": 17, "alteration": "Variable Substitution"},
        {"context": "Ben: In the hall.", "group": 17},
        {"context": "Ann: Where are the plums?\nBen: In the hall."},
    ]
    for row, line in enumerate(lines):
        line["question"] = "Are they in the hall?"
        is_yes = (truth(line["context"], line["question"]) == "yes") == (row > 0)
        line["answer"] = "yes" if is_yes else "no"
    write_lines(path, lines)
    with Server().running() as server:
        places = ("--documents", str(path), "--base-url", server.url, "--out", str(out))
        main(["author", *places, "--model", "home", "--panel", "home", "home", "away"])
        assert len(server.bodies) == 3 * len(lines)
    assert [line["row"] for line in read_lines(out / "votes.jsonl")] == [0, 2, 1, 3]
    written = pragworld_tasks.read_documents(out / "documents.jsonl")
    assert [(document.context, document.answer) for document in written] == [
        (lines[row]["context"], lines[row]["answer"]) for row in (2, 1, 3)
    ]
    is_flip = lines[1]["answer"] != lines[2]["answer"]
    assert written[1].effect == ("flip" if is_flip else "invariant")
    assert "conversation 25, variant 0 (row 0): the panel says" in (out / "report.md").read_text()
