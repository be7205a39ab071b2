"""`pragworld-tasks author` with a server that plays the models, of which truth is known.

`PRAGWORLD_LONG=1` runs 200 groups as well.
"""

import json
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, get_args

import pytest
from authoring_server import INVENTED, Server, truth, write_seed
from command_runs import Program, refused
from lm_eval_runs import LmEval
from servers import Body, ChatServer

import pragworld_tasks
from pragworld_tasks.authoring import results
from pragworld_tasks.authoring.stages import Kind
from pragworld_tasks.cli import main
from pragworld_tasks.tiny import tiny_folder

CONCURRENCY = 8
FAULTS = {"wrong": 0.1, "malformed": 0.05, "invented": 0.1}
BREAKDOWNS = {"busy": 0.02, "drop": 0.01}
SPEAKERS = (("Ann", "Ben"), ("Alice", "Bob"), ("Ruth", "Adam"))


def played(folder: Path, **shares: float) -> Server:
    """Return a server that plays the models, with shares of faults."""
    folder.mkdir(exist_ok=True)
    return Server(folder / "requests.jsonl", **shares)


def write_seeds(path: Path, number: int) -> Path:
    """Write as many seed conversations of all kinds."""
    kinds, speakers = cycle(get_args(Kind)), cycle(SPEAKERS)
    seeds = [
        {"conversation": write_seed(next(speakers), random.Random(seed)), "kind": next(kinds)}
        for seed in range(number)
    ]
    path.write_text("\n".join(map(json.dumps, seeds)))
    return path


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    """A file of two seeds."""
    return write_seeds(tmp_path / "seeds.jsonl", 2)


def authoring(seeds: Path, url: str, *more: str, out: str = "mine") -> list[str]:
    """Return the arguments of a small run that writes to a folder beside the seeds."""
    places = ("--seeds", str(seeds), "--base-url", url, "--out", str(seeds.parent / out))
    settings = ("--model", "writer", "--groups", "2", "--variants", "2")
    return ["author", *places, *settings, "--panel", "first", "second", "third", *more]


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the contents of a folder's files."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def groups_in(out: Path) -> set[int]:
    """Return the groups of documents in a folder."""
    documents = pragworld_tasks.read_documents(out / "documents.jsonl")
    return {document.group for document in documents}


def decide(out: Path, places: Sequence[tuple[int, int]], verdict: str) -> None:
    """Have a reviewer decide about documents of a folder."""
    made = results.read_votes(out)
    decisions = [
        {
            "conversation": voted.conversation,
            "variant": voted.variant,
            "digest": voted.digest,
            "decision": verdict,
            "note": "",
        }
        for voted in made.documents
        if (voted.conversation, voted.variant) in places
    ]
    path = out.parent / "decisions.json"
    path.write_text(json.dumps({"version": 1, "reviewer": "Ann", "decisions": decisions}))
    main(["review", str(out), "--apply", str(path)])


# Whole runs ---------------------------------------------------------------------------------------


def run_with_kills(arguments: Sequence[str], out: Path, kills: Sequence[int]) -> None:
    """Run the command; kill it whenever the journal has so many replies, and start it again."""
    journal, log = out / "replies.jsonl", out.parent / "log"
    for replies in kills:
        program = Program("pragworld-tasks", *arguments, log=log)
        while program.runs() and not (
            journal.exists() and journal.read_bytes().count(b"\n") >= replies
        ):
            time.sleep(0.005)
        assert program.stop(signal.SIGKILL) == 137, log.read_text()
        assert not (out / "documents.jsonl").exists()
    main([*arguments])


def check_run(out: Path, log: Path, groups: int, kills: int) -> None:
    """Check that a run with faults has as many groups, right labels and nothing invented."""
    documents = pragworld_tasks.read_documents(out / "documents.jsonl")
    sizes = Counter(document.group for document in documents)
    assert len(sizes) >= groups
    assert min(sizes.values()) > 1
    right = [
        (truth(document.context, document.question) == "yes") == (document.answer == "yes")
        for document in documents
    ]
    assert sum(right) / len(right) >= 0.99

    invented = re.compile("|".join(name for slot in INVENTED for name in slot))
    votes = [vote for line in read_lines(out / "votes.jsonl") for vote in line.pop("votes")]
    unfounded = [vote for vote in votes if invented.search(vote["quote"])]
    assert unfounded
    assert {vote["answer"] for vote in unfounded} == {None}
    assert not invented.search((out / "documents.jsonl").read_text())

    # Nothing is asked twice, but what was on its way when the run was killed.
    journal = [line for line in read_lines(out / "replies.jsonl") if "key" in line]
    assert len({line["key"] for line in journal}) == len(journal)
    answered = [line for line in read_lines(log) if "answered" in line]
    assert 0 <= len(answered) - len(journal) <= kills * CONCURRENCY

    report = (out / "report.md").read_text()
    rows = {tuple(cell.strip() for cell in line.split("|")) for line in report.splitlines()}
    rules = Counter((line["reason"], line["stage"]) for line in read_lines(out / "dropped.jsonl"))
    assert rules
    assert {("", *rule, str(times), "") for rule, times in rules.items()} <= rows


def test_a_killed_run_with_faults_gives_right_labels(tmp_path: Path) -> None:
    seeds, out = write_seeds(tmp_path / "s", 4), tmp_path / "mine"
    server = played(tmp_path, **FAULTS, **BREAKDOWNS)
    with server.running():
        five = ("--panel", *["writer"] * 5)
        arguments = authoring(seeds, server.url, "--groups", "6", "--variants", "3", *five)
        run_with_kills(arguments, out, [40])
        check_run(out, tmp_path / "requests.jsonl", 6, kills=1)
        before, asked = files_of(out), server.asked.total()
        main(arguments)
    assert files_of(out) == before
    assert server.asked.total() == asked


@pytest.mark.usefixtures("long_runs")
def test_two_hundred_groups_with_faults_and_three_kills(tmp_path: Path, lm_eval: LmEval) -> None:
    seeds, out = write_seeds(tmp_path / "s", 10), tmp_path / "mine"
    with played(tmp_path, **FAULTS, **BREAKDOWNS).running() as server:
        five = ("--panel", *["writer"] * 5)
        arguments = authoring(seeds, server.url, "--groups", "200", "--variants", "5", *five)
        run_with_kills(arguments, out, [100, 1500, 4000])
    check_run(out, tmp_path / "requests.jsonl", 200, kills=3)

    documents = pragworld_tasks.read_documents(out / "documents.jsonl")
    evaluation = lm_eval(
        *("--model", "hf", "--model_args", f"pretrained={tiny_folder()}", "--batch_size", "32"),
        *("--log_samples", "--tasks", "pragworld_own"),
        *("--metadata", json.dumps({"documents": str(out / "documents.jsonl")})),
    )
    assert evaluation.returncode == 0, evaluation.log
    assert len(evaluation.samples("pragworld_own")) == len(documents)
    assert {"robust_acc", "flip_acc", "invariant_acc"} <= evaluation.metrics("pragworld_own").keys()


# Folders ------------------------------------------------------------------------------------------


def test_files_do_not_depend_on_the_order_in_which_replies_come(
    seeds: Path, tmp_path: Path
) -> None:
    for name, concurrency in (("one", "1"), ("many", "16")):
        with played(tmp_path / name, malformed=0.1, invented=0.1).running() as server:
            main(authoring(seeds, server.url, "--concurrency", concurrency, out=f"{name}/mine"))
    one, many = (files_of(tmp_path / name / "mine") for name in ("one", "many"))
    assert one.keys() == many.keys()
    assert {name for name in one if one[name] != many[name]} <= {"replies.jsonl"}


def test_a_folder_grows_and_never_takes_another_runs_replies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds, server, out = write_seeds(tmp_path / "s", 9), played(tmp_path), tmp_path / "mine"
    with server.running():
        with monkeypatch.context() as killing:
            killing.setattr(results, "review_page", None)  # as if killed while files are written
            with pytest.raises(TypeError):
                main(authoring(seeds, server.url))
        main(authoring(seeds, server.url))
        journal = (out / "replies.jsonl").read_bytes()
        with refused("mine/replies.jsonl: written with turns 16, not 12; use that again, remove"):
            main(authoring(seeds, server.url, "--turns", "12"))
        main(authoring(seeds, server.url, "--groups", "4"))
    assert len(groups_in(out)) == 4
    prompts = [line.get("prompt", "") for line in read_lines(tmp_path / "requests.jsonl")]
    assert sum(name.startswith("entities") for name in prompts) < 9  # no more than groups need
    assert (out / "replies.jsonl").read_bytes().startswith(journal)
    assert set(server.answered.values()) == {1}


def test_groups_that_reviewers_reject_are_made_up_for(seeds: Path, tmp_path: Path) -> None:
    server, out = played(tmp_path), tmp_path / "mine"
    with server.running():
        main(authoring(seeds, server.url))
        first, second = sorted(groups_in(out))
        decide(out, [(first, 0)], "reject")
        assert groups_in(out) == {second}
        main(authoring(seeds, server.url))
        assert len(groups_in(out)) == 2
        assert first not in groups_in(out)
        decide(out, [(first, 0)], "yes")
        assert len(groups_in(out)) == 3
        # What reviewers completed comes out in addition, and no reviewed document is lost.
        main(authoring(seeds, server.url))
    assert first in groups_in(out)
    assert set(server.answered.values()) == {1}


def test_a_run_with_too_few_groups_leaves_its_files(seeds: Path, tmp_path: Path) -> None:
    with played(tmp_path, malformed=1.0).running() as server:
        for _ in range(2):  # when it ends, and when it is called again
            with refused(r"mine: only 0 of 2 groups have labels; see .*mine/report.md, and decide"):
                main(authoring(seeds, server.url))
    assert "the reply is unusable" in (tmp_path / "mine" / "report.md").read_text()
    assert (tmp_path / "mine" / "documents.jsonl").read_text() == ""


# Existing documents -------------------------------------------------------------------------------


def judge(body: Body) -> str:
    """Find out whether things are in the hall."""
    context = body["messages"][-1]["content"].partition("Question:")[0]
    quote = re.search(r"They are in the \w+\.", context)
    assert quote
    return json.dumps({"answer": "yes" if "hall" in quote[0] else "no", "quote": quote[0]})


def refuse_for_one(body: Body) -> Body | None:
    """Refuse what is asked of the model called away."""
    return {"error": {"message": "out of order"}} if body["model"] == "away" else None


def test_documents_that_exist_are_labelled_and_found_again_in_what_comes_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = tmp_path / "documents.jsonl", tmp_path / "checked"
    contexts = [
        f"Ann: Where are the {things}?\nBen: They are in the hall."
        for things in ("pears", "figs", "plums")
    ]
    # The label of the first one is wrong, and a variant comes before its original.
    lines: list[dict[str, Any]] = [
        {"context": contexts[0], "answer": "no", "group": 25},
        {
            "context": contexts[1].replace("hall", "attic"),
            "answer": "no",
            "group": 17,
            "alteration": "Variable Substitution",
        },
        {"context": contexts[1], "answer": "yes", "group": 17},
        {"context": contexts[2], "answer": "yes"},
    ]
    question = {"question": "Are they in the hall?"}
    path.write_text("\n".join(json.dumps({**line, **question}) for line in lines))
    with ChatServer(judge, refuses=refuse_for_one).running() as judges:
        places = ("--documents", str(path), "--base-url", judges.url, "--out", str(out))
        run = ["author", *places, "--model", "home", "--panel", "home", "home", "home", "away"]
        main(run)
        failed = "4 votes failed, as there is no reply (BadRequestError: Error code: 400"
        assert f"{out}: {failed}" in capsys.readouterr().out
        assert f"- {failed}" in (out / "report.md").read_text()
        judges.refuses = lambda _: None
        main(run)
    assert "failed" not in capsys.readouterr().out
    voted = read_lines(out / "votes.jsonl")
    assert [line["row"] for line in voted] == [0, 2, 1, 3]
    assert {vote["answer"] for line in voted for vote in line["votes"]} == {"yes", "no"}
    assert len((out / "replies.jsonl").read_text().splitlines()) == 1 + 4 * 4
    written = pragworld_tasks.read_documents(out / "documents.jsonl")
    assert [(document.context, document.answer) for document in written] == [
        (lines[row]["context"], lines[row]["answer"]) for row in (2, 1, 3)
    ]
    assert written[1].effect == "flip"
    report, page = ((out / name).read_text() for name in ("report.md", "review.html"))
    assert "conversation 25, variant 0 (row 0): the panel says yes, the given label is no" in report
    assert "Conversation 17, variant 1: Variable Substitution (row 1)</h2>" in page
