"""Prompts, entities, conversations, and what the command `author` does with options and folders.

`test_authoring_end_to_end` runs it against a server that fails in every way.
"""

import argparse
import json
import os
import pty
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from string import ascii_lowercase
from typing import Any, ClassVar

import plain_talk
import pytest
from authoring_server import Server
from command_runs import Program, refused
from hypothesis import given
from hypothesis import strategies as st
from servers import JsonHandler, LocalServer

import pragworld_tasks
from pragworld_tasks.authoring import results
from pragworld_tasks.authoring.conversations import (
    MOST_SHARED,
    ConversationPlan,
    ConversationReply,
    find_problem,
    plan_conversation,
    read_conversation,
    shared_part,
    word_grams,
)
from pragworld_tasks.authoring.decisions import (
    REJECTED,
    Verdict,
    document_digests,
    read_reviews,
)
from pragworld_tasks.authoring.entities import (
    MOST,
    NO_ENTITIES,
    accept_entities,
    draw_triplets,
    extract_entities,
    read_seeds,
    speakers_of,
)
from pragworld_tasks.authoring.folder import LOCK, read_stages
from pragworld_tasks.authoring.prompts import Prompts
from pragworld_tasks.authoring.records import (
    RULES,
    Dropped,
    EntityLists,
    Label,
    Seed,
    SeedEntities,
    Triplet,
    Turn,
)
from pragworld_tasks.chat import Connection
from pragworld_tasks.cli import main
from pragworld_tasks.data.own_documents import read_documents
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import write_files
from pragworld_tasks.text_alterations.entities import Conversation, Entities

SEED = Seed(conversation="Ann: Where are the plums?\nBen: Noah took them to the attic.")
HOUSE = SeedEntities(
    seed=0,
    entities=EntityLists(
        agents=("Noah", "Mia", "Owen"),
        objects=("plums", "pears"),
        locations=("attic", "hall", "kitchen"),
    ),
    new=EntityLists(agents=("Zoe",), objects=(), locations=()),
    origins=(RULES,),
)
PLAN = ConversationPlan(
    number=0,
    line=0,
    seed=SEED,
    speakers=("Ann", "Ben"),
    triplets=(
        Triplet(agent="Noah", object="plums", location="attic"),
        Triplet(agent="Mia", object="pears", location="hall"),
    ),
    others=EntityLists(agents=("Owen",), objects=(), locations=("kitchen",)),
    turns=6,
)
TEXTS = (
    "Where are the plums?",
    "Noah left them in the attic.",
    "And the pears, are they in the attic too?",
    "No, Mia's pears are in the hall. I saw them on Monday.",
    "Is Mia still there?",
    "I'm not sure.",
)


def reply(texts: tuple[str, ...] = TEXTS, **lists: list[str]) -> ConversationReply:
    """Return a reply with turns of Ann and Ben, and lists of entities."""
    turns = [
        Turn(speaker=PLAN.speakers[number % 2], text=text) for number, text in enumerate(texts)
    ]
    named = {"agents": ["Noah", "Mia"], "objects": ["plums"], "locations": ["attic", "hall"]}
    return ConversationReply(turns=turns, **{**named, **lists})


def problem_of(written: ConversationReply, plan: ConversationPlan = PLAN) -> str:
    """Return the rule that a reply breaks, or ""."""
    conversation, _ = read_conversation(written, plan, RULES)
    problem = find_problem(conversation, plan)
    return problem[0] if problem else ""


# Prompts ------------------------------------------------------------------------------------------


def own_prompts(folder: Path, text: str) -> Path:
    """Write a file of prompts."""
    path = folder / "prompts.toml"
    path.write_text(text)
    return path


def test_a_prompt_of_the_users_replaces_ours_and_changes_its_id_alone(tmp_path: Path) -> None:
    ours = Prompts.read()
    system = 'Say {"answer"} in JSON, {1} time.'  # these braces are no slots
    theirs = Prompts.read(own_prompts(tmp_path, f"[label]\nsystem = '''{system}'''\n"))
    before, after = (
        prompts.fill("label", conversation="A: {question}", question="{conversation}?")
        for prompts in (ours, theirs)
    )
    assert after.system == system
    assert after.user == before.user
    assert "A: {question}" in after.user
    assert "{conversation}?" in after.user
    assert re.fullmatch(r"label@[0-9a-f]{8}", after.id)
    assert after.id != before.id
    changed = {name for name, digest in theirs.digests.items() if digest != ours.digests[name]}
    assert changed == {"label"}


def test_the_prompts_are_printed_as_a_file_of_prompts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["author", "--print-prompts"])
    assert not ended.value.code
    printed = capsys.readouterr().out
    assert Prompts.read(own_prompts(tmp_path, printed)) == Prompts.read()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[lable]\nuser = 'x'", "unknown prompt 'lable'; must be one of entities.general,"),
        ("[conversation.cat]\nuser = 'x'", "unknown prompt 'conversation.cat'"),
        ("[label]\nuser = '{conversation}'", r"prompt 'label' lacks the slot {question}"),
        (
            "[label]\nuser = '{conversation} {question} {colour}'",
            "unknown slot {colour}; its slots are {conversation}, {question}",
        ),
        ("[label]\nsystem = 'Say {answer}.'", "write { answer }, with spaces, for braces that are"),
        ("[label]\nsystem = ' '", "prompt 'label' has an empty 'system'; write it, or leave it"),
        ("[label]\nuser = 3", "is not a table of texts"),
        ("[label]\ntext = 'x'", "unknown field 'text'"),
        ("label = 'x'", "is not a table of texts"),
        ("[label", "not TOML"),
        ("", "holds no prompt"),
    ],
)
def test_a_file_of_prompts_that_cannot_be_used_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    path = own_prompts(tmp_path, text)
    with pytest.raises(InputError, match=re.escape(message)) as refusal:
        Prompts.read(path)
    assert str(refusal.value).startswith(str(path))
    assert "\n" not in str(refusal.value)


# Seeds and entities -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ('{"conversation": "Ann: a\\nBen: b"}\n{}', "line 2): 'conversation': field required"),
        ('{"conversation": "Ann: a\\nAnn: b"}', "fewer than two speakers"),
        ('{"conversation": "hello\\nthere"}', "fewer than two speakers"),
        ('{"conversation": "Ann: a\\nBen: b", "kind": "poem"}', "line 1): 'kind': input should be"),
        ('{"conversation": "Ann: a\\nBen: b", "topic": "x"}', "line 1): 'topic': extra"),
        ("Ann: Where?", 'JSON object; a seed is a line such as {"conversation": "Ann: '),
        ("conversation,kind\nAnn: a,general", "a seed is a line such as"),
        (
            '{"conversation": "Ann: a\\nBen: b\\nEve: c"}',
            "has 3 speakers (Ann, Ben and Eve); a seed has two",
        ),
    ],
)
def test_seeds_that_cannot_be_used_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "seeds.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match=re.escape(message)) as refusal:
        read_seeds(path)
    assert str(path) in str(refusal.value)


def test_speakers_have_labels_with_and_without_numbers() -> None:
    assert speakers_of("1: Ann: Hi\n2: Dr. Lee: Hello: you\nAnn: Bye") == ("Ann", "Dr. Lee")


def test_entities_that_are_accepted_can_be_altered() -> None:
    text = "Ann: Is the TV room near the Kitchen?\nBen: Noah put a plum, TVs and pears there."
    proposed = EntityLists(
        agents=("noah", "Ann", "Zebulon", "Noah"),
        objects=("the plums", "TV", "zithers", "pear", "pears", "?"),
        locations=("TV room", "kitchen", "  "),
    )
    accepted, objections = accept_entities(text, NO_ENTITIES, proposed, ("Ann", "Ben"))
    assert accepted == EntityLists(
        agents=("Noah",), objects=("plums", "TV", "pears"), locations=("TV room", "Kitchen")
    )
    Conversation(text, Entities(**accepted.model_dump())).check_entities()
    refused = {entity: reason for reason, entity in objections}
    assert refused["Ann"] == "the entity is a speaker"
    assert (
        refused["Zebulon"] == refused["zithers"] == "the entity does not occur in the conversation"
    )
    assert refused.keys() == {"Ann", "Zebulon", "Noah", "zithers", "pear", "?", "  "}


def test_a_reply_of_hundreds_of_entities_is_cut_short() -> None:
    names = tuple(f"{first}ap{second}ot" for first, second in product(ascii_lowercase, repeat=2))
    proposed = EntityLists(agents=(), objects=names, locations=())
    accepted, objections = accept_entities("Ann: An aapcot.\nBen: Oh?", NO_ENTITIES, proposed, ())
    assert accepted.objects == ("aapcot",)
    rules = Counter(rule for rule, _ in objections)
    assert rules == {
        "the entity does not occur in the conversation": MOST - 1,
        "the reply lists too many entities": len(names) - MOST,
    }


@given(st.integers(0, 1000))
def test_triplets_share_nothing_and_come_from_the_lists(seed: int) -> None:
    first, second = draw_triplets(HOUSE, StableRandom(str(seed)))
    for kind in ("agent", "object", "location"):
        names = (getattr(first, kind), getattr(second, kind))
        lists = [getattr(entities, f"{kind}s") for entities in (HOUSE.entities, HOUSE.new)]
        assert len({*names}) == 2
        assert {*names} <= {name for names in lists for name in names}


def test_attempts_have_other_triplets_and_all_other_entities_at_hand() -> None:
    plans = [plan_conversation(number, SEED, HOUSE, 16, 0) for number in range(20)]
    assert len({plan.triplets for plan in plans}) > 10
    for plan in plans:
        focus = {triplet.agent for triplet in plan.triplets}
        assert focus | {*plan.others.agents} == {"Noah", "Mia", "Owen", "Zoe"}
        assert not focus & {*plan.others.agents}


# Conversations ------------------------------------------------------------------------------------


def test_a_conversation_lists_the_entities_that_occur_those_of_its_triplets_first() -> None:
    written = reply(agents=["Mia", "Zebulon", "Noah"], locations=["the hall", "garden", "attic"])
    conversation, objections = read_conversation(written, PLAN, RULES)
    assert conversation.entities == EntityLists(
        agents=("Noah", "Mia"), objects=("plums", "pears"), locations=("attic", "hall")
    )
    assert {entity for _, entity in objections} == {"Zebulon", "garden"}
    assert conversation.context.splitlines()[1] == "Ben: Noah left them in the attic."


def test_a_label_or_a_line_break_in_a_turn_does_not_add_to_it() -> None:
    texts = ("Ann: Where are\nthe plums?", *TEXTS[1:])
    conversation, _ = read_conversation(reply(texts), PLAN, RULES)
    assert conversation.context.splitlines()[0] == "Ann: Where are the plums?"


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        (reply(), ""),
        (reply(TEXTS[:5]), ""),
        (reply(TEXTS[:3]), "its length is not within a third of --turns"),
        (reply((*TEXTS, *TEXTS[:4])), "its length is not within a third of --turns"),
        (reply((*TEXTS[:5], " ")), "a turn is empty"),
        (reply((*TEXTS[:5], "I am not sure. " * 40)), "a turn is far too long"),
        (reply((*TEXTS[:5], "I'm \x1b[31mnot sure.")), "a turn holds control characters"),
        (reply((*TEXTS[:5], "I'm \u202eerus ton\u202c.")), "a turn holds control characters"),
        (
            reply(tuple(text.replace("Mia", "Noah") for text in TEXTS)),
            "an entity of its triplets does not occur",
        ),
        (reply((*TEXTS[:5], "The answer is yes.")), "it speaks of answers or of the task"),
        (reply((*TEXTS[:5], "Ask Owen in the kitchen.")), ""),
        (
            reply((*TEXTS[:5], "But Zebulon may know."), agents=["Noah", "Mia", "Zebulon"]),
            "it names somebody or something that it was not given",
        ),
        (
            reply((*TEXTS[:5], "Olivia may know.")),
            "it names somebody or something that it was not given",
        ),
        (reply((*TEXTS[:5], 'He said "Yes, on TV, in English", didn\'t he?')), ""),
        (reply((*TEXTS[:5], "Well\u2026 Perhaps. One thing: Ask him \u2014 Now.")), ""),
        (reply((*TEXTS[:5], "Will it rain? Don't ask, I'm busy, and Noah'll know.")), ""),
    ],
)
def test_what_a_conversation_may_not_do(written: ConversationReply, rule: str) -> None:
    assert problem_of(written) == rule


@pytest.mark.parametrize("speakers", [("Ben", "Ann"), ("Ann", "Eve")])
def test_speakers_are_those_of_the_plan_in_turn(speakers: tuple[str, str]) -> None:
    turns = [Turn(speaker=speakers[number % 2], text=text) for number, text in enumerate(TEXTS)]
    written = reply().model_copy(update={"turns": turns})
    assert problem_of(written) == "the two speakers do not alternate"


def test_likeness_is_the_share_of_word_sequences() -> None:
    rng = random.Random(0)
    words = [f"w{number}" for number in range(80)]
    first = "Ann: " + " ".join(words[:40])
    second = "Ben: " + " ".join(words[20:60])  # 17 of its 37 sequences are in the first
    assert shared_part(word_grams(second), word_grams(first)) == pytest.approx(17 / 37)
    assert shared_part(word_grams(first), word_grams(first.replace("Ann", "Eve"))) == 1
    rng.shuffle(words)
    assert shared_part(word_grams(" ".join(words)), word_grams(first)) < MOST_SHARED


# The command --------------------------------------------------------------------------------------

PANEL = ("--panel", "first", "--panel", "second", "--panel", "third")
NOWHERE = "http://127.0.0.1:9/v1"


@contextmanager
def listening(server: LocalServer) -> Iterator[str]:
    """Serve in a thread, and yield the base URL."""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def played(folder: Path, **shares: float) -> Server:
    """Return a server that plays the models, with shares of faults."""
    none = dict.fromkeys(("wrong", "malformed", "invented", "careless", "busy", "drop"), 0.0)
    return Server(argparse.Namespace(log=folder / "requests.jsonl", **{**none, **shares}))


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    """A file of two seeds."""
    path = tmp_path / "seeds.jsonl"
    conversations = (
        plain_talk.write_seed("household", ("Ann", "Ben"), random.Random(seed)) for seed in (1, 2)
    )
    lines = [json.dumps({"conversation": text, "kind": "location"}) for text in conversations]
    path.write_text("\n".join(lines))
    return path


def authoring(seeds: Path, url: str, out: str = "mine", *more: str) -> list[str]:
    """Return the arguments of a small run that writes to a folder beside the seeds."""
    settings = ("--groups", "2", "--variants", "2", *PANEL)
    places = ("--seeds", str(seeds), "--base-url", url, "--out", str(seeds.parent / out))
    return ["author", *places, "--model", "writer", *settings, *more]


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the contents of a folder's files."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def groups_in(out: Path) -> int:
    """Return the number of groups of documents in a folder."""
    return len(
        {document.group for document in pragworld_tasks.read_documents(out / "documents.jsonl")}
    )


def test_files_do_not_depend_on_the_order_in_which_replies_come(
    seeds: Path, tmp_path: Path
) -> None:
    for name in ("one", "many"):
        (tmp_path / name).mkdir()
        concurrency = {"one": "1", "many": "16"}[name]
        with listening(played(tmp_path / name, malformed=0.1, invented=0.1)) as url:
            main(authoring(seeds, url, f"{name}/mine", "--concurrency", concurrency))
    one, many = (files_of(tmp_path / name / "mine") for name in ("one", "many"))
    assert one.keys() == many.keys()
    assert {name for name in one if one[name] != many[name]} <= {"replies.jsonl"}


def test_a_folder_is_resumed_or_gone_on_with_but_never_another_runs(
    seeds: Path, tmp_path: Path
) -> None:
    server, out = played(tmp_path), tmp_path / "mine"
    with listening(server) as url:
        main(authoring(seeds, url))
        before, asked = files_of(out), server.asked.total()
        main(authoring(seeds, url))
        assert files_of(out) == before
        (out / "labels.jsonl").unlink()
        main(authoring(seeds, url, "mine", "--overwrite"))
        assert files_of(out) == before
        assert server.asked.total() == asked

        with refused(
            "mine/run.json: written with --turns 16, not 12; use the same again, or choose"
        ):
            main(authoring(seeds, url, "mine", "--turns", "12", "--overwrite"))
        more = ("--groups", "4")
        with refused("mine is finished, with --groups 2, not 4; pass --overwrite to go on"):
            main(authoring(seeds, url, "mine", *more))
        main(authoring(seeds, url, "mine", *more, "--overwrite"))
    assert groups_in(out) == 4
    journal = (out / "replies.jsonl").read_bytes()
    assert journal.startswith(before["replies.jsonl"])
    assert set(server.answered.values()) == {1}


def test_a_folder_whose_files_are_half_written_is_not_finished(
    seeds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "mine"

    def die(*_: object, **__: object) -> None:
        raise SystemExit(137)

    with listening(played(tmp_path)) as url:
        main(authoring(seeds, url))
        before = files_of(out)
        with monkeypatch.context() as killing:
            killing.setattr(results, "write_files", die)
            with pytest.raises(SystemExit, match="137"):
                main(authoring(seeds, url, "mine", "--groups", "4", "--overwrite"))
        assert groups_in(out) == 4
        with refused(
            "mine/run.json: missing, as a run was interrupted; rerun the `pragworld-tasks"
        ):
            main(["author-review", str(out), "--apply", str(seeds)])
        main(authoring(seeds, url))
    after = files_of(out)
    assert {name for name in before if after[name] != before[name]} <= {"replies.jsonl"}
    assert before.keys() == after.keys()


def test_a_run_with_too_few_groups_leaves_its_files_and_says_why(
    seeds: Path, tmp_path: Path
) -> None:
    with listening(played(tmp_path, malformed=1.0)) as url:
        for _ in range(2):  # when it ends, and when it is called again
            with refused(
                r"mine: only 0 of 2 groups have labels, as the reply is malformed "
                r"\(2 times\); see .*mine/report.md, and use other seeds"
            ):
                main(authoring(seeds, url))
    report = (tmp_path / "mine" / "report.md").read_text()
    assert "the reply is malformed, and so is its repair" in report
    assert (tmp_path / "mine" / "documents.jsonl").read_text() == ""


def test_no_more_seeds_are_read_than_groups_need(
    seeds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [
        plain_talk.write_seed("household", ("Ann", "Ben"), random.Random(seed)) for seed in range(9)
    ]
    seeds.write_text("\n".join(json.dumps({"conversation": text}) for text in texts))
    server, out = played(tmp_path), tmp_path / "mine"

    async def extract_even(
        connection: Connection, prompts: Prompts, number: int, seed: Seed, temperature: float
    ) -> tuple[SeedEntities | None, list[Dropped]]:
        record, dropped = await extract_entities(connection, prompts, number, seed, temperature)
        return None if number % 2 else record, dropped

    monkeypatch.setattr("pragworld_tasks.authoring.pipeline.extract_entities", extract_even)
    with listening(server) as url:
        for groups, usable in ((2, [0, 2]), (4, [0, 2, 4, 6])):
            main(authoring(seeds, url, "mine", "--groups", str(groups), "--overwrite"))
            records = read_stages(out)
            assert [record.seed for record in records.entities] == usable
            assert [record.seed for record in records.conversations] == usable
            log = (tmp_path / "requests.jsonl").read_text().splitlines()
            prompts = Counter(json.loads(line).get("prompt") for line in log)
            assert prompts["entities.general"] == usable[-1] + 1


def test_a_folder_is_written_by_one_process_at_a_time(
    seeds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / LOCK).touch()  # as a killed process leaves it
    with listening(played(tmp_path)) as url:
        again = authoring(seeds, url, "mine", "--overwrite")
        main(again)
        decisions = saved_decisions(out, {(0, 0): "reject"})
        tries = 0

        def write_and_try(*arguments: Any, **options: Any) -> None:
            nonlocal tries
            tries += 1
            for command in (again, ["author-review", str(out), "--apply", decisions]):
                with refused("mine: another process is writing to it; wait until that has ended"):
                    main(command)
            write_files(*arguments, **options)

        monkeypatch.setattr(results, "write_files", write_and_try)
        main(again)
        apply_decisions(out, decisions)
    assert tries == 2
    assert read_stages(out).labels[0].reason == REJECTED
    assert not (out / LOCK).exists()


def test_what_reviewers_rejected_is_not_in_review(seeds: Path, tmp_path: Path) -> None:
    labels = tmp_path / "mine" / "labels.jsonl"
    with listening(played(tmp_path)) as url:
        main(authoring(seeds, url))
        records = [Label.model_validate_json(line) for line in labels.read_text().splitlines()]
        rejected = {"answer": None, "basis": None, "reason": REJECTED}
        labels.write_text(
            "".join(
                record.model_copy(update=rejected).model_dump_json() + "\n" for record in records
            )
        )
        with refused("mine: only 0 of 2 groups have labels(?!.* in review)"):
            main(authoring(seeds, url))


def saved_decisions(out: Path, verdicts: dict[tuple[int, int], Verdict]) -> str:
    """Return the path of a reviewer's decisions about documents of a folder."""
    digests = document_digests(read_stages(out))
    content = {
        "version": 1,
        "reviewer": "Ann",
        "decisions": [
            {
                "conversation": place[0],
                "variant": place[1],
                "digest": digests[place],
                "decision": verdict,
            }
            for place, verdict in verdicts.items()
        ],
    }
    path = out.parent / "decisions.json"
    path.write_text(json.dumps(content))
    return str(path)


def apply_decisions(out: Path, *paths: str) -> None:
    """Apply files of decisions to a folder."""
    main(["author-review", str(out), "--apply", *paths])


def decide(out: Path, verdicts: dict[tuple[int, int], Verdict]) -> None:
    """Have a reviewer decide about documents of a folder."""
    apply_decisions(out, saved_decisions(out, verdicts))


@pytest.mark.parametrize("agree", [(), ("--agree", "3")])
def test_groups_that_reviewers_reject_are_made_up_for(
    seeds: Path, tmp_path: Path, agree: tuple[str, ...]
) -> None:
    server, out = played(tmp_path), tmp_path / "mine"
    with listening(server) as url:
        main(authoring(seeds, url))
        decide(out, {(0, 0): "reject"})
        assert groups_in(out) == 1
        with refused(
            "only 1 of 2 groups have labels; reviewers rejected 1; see .* with --overwrite to"
        ):
            main(authoring(seeds, url))
        main(authoring(seeds, url, "mine", "--overwrite", *agree))
        assert groups_in(out) == 2
        main(authoring(seeds, url, "mine", "--overwrite", "--groups", "3", *agree))
        assert groups_in(out) == 3
    labels = {label.place: label for label in read_stages(out).labels}
    assert labels[0, 0].reason == REJECTED
    assert set(server.answered.values()) == {1}


def test_groups_that_reviewers_complete_count_and_no_review_is_lost(
    seeds: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    with listening(played(tmp_path)) as url:
        main(authoring(seeds, url, "mine", "--groups", "4"))
        last = read_stages(out).labels[-1].conversation
        decide(out, {(0, 0): "reject", (last, 0): "undetermined"})
        reviews = read_reviews(out)
        main(authoring(seeds, url, "mine", "--groups", "1", "--overwrite"))
        assert read_reviews(out) == reviews
        decide(out, {(0, 0): "yes"})
        main(authoring(seeds, url, "mine", "--groups", "4", "--overwrite"))
    assert groups_in(out) == 4
    assert read_stages(out).labels[-1].conversation == last


def test_decisions_hold_in_a_folder_that_grows_and_in_no_other(seeds: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    with listening(played(tmp_path)) as url:
        main(authoring(seeds, url))
        path = saved_decisions(out, {(0, 0): "reject", (1, 1): "no"})
        main(authoring(seeds, url, "mine", "--groups", "3", "--overwrite"))
        apply_decisions(out, path)
        labels = {label.place: label for label in read_stages(out).labels}
        assert [place for place, label in labels.items() if label.reviewers] == [(0, 0), (1, 1)]
        assert labels[0, 0].reason == REJECTED
        main(authoring(seeds, url, "other", "--seed", "1"))
        before = files_of(tmp_path / "other")
        named = r"decisions\[0\] \(conversation 0, variant 0\), decisions\[1\] \(conversation 1"
        with refused(rf"decisions\.json: {named}.*apply the file to the folder that its page"):
            apply_decisions(tmp_path / "other", path)
    assert files_of(tmp_path / "other") == before


def test_ctrl_c_says_how_to_resume_in_one_line(seeds: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with listening(played(tmp_path)) as url:
        program = Program("pragworld-tasks", *authoring(seeds, url), log=log)
        journal = tmp_path / "mine" / "replies.jsonl"
        while program.runs() and not (journal.exists() and journal.read_text().count("\n") > 5):
            time.sleep(0.005)
        assert program.stop(signal.SIGINT) == 130
    *_, last = log.read_text().splitlines()
    assert last == f"{tmp_path / 'mine'}: interrupted; rerun the command to resume"


class _Silent(JsonHandler):
    """A server that takes requests and answers none."""

    def post(self, body: Any) -> None:
        time.sleep(60)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_progress_is_seen_before_the_first_reply(
    seeds: Path, tmp_path: Path, is_terminal: bool
) -> None:
    screen, terminal = pty.openpty()  # of no size, as those of containers often are
    log = Path(os.ttyname(terminal)) if is_terminal else tmp_path / "log"
    with listening(LocalServer(_Silent)) as url:
        program = Program("pragworld-tasks", *authoring(seeds, url, "mine"), log=log)
        shown = b""
        while b"0 tokens" not in shown and program.runs():
            shown += os.read(screen, 1000) if is_terminal else log.read_bytes()
        assert program.stop(signal.SIGINT) == 130
    os.close(screen)
    os.close(terminal)
    assert re.search(rb"0(/| of )2 groups.*, \w+, 0 requests, 0 tokens", shown)


def test_a_dry_run_tells_the_cost_and_sends_nothing(
    seeds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dry = ("--dry-run", "--prices", "1", "10")
    estimates = {}
    for groups in (10, 1000):
        main(authoring(seeds, NOWHERE, "mine", *dry, "--groups", str(groups)))
        line = capsys.readouterr().out
        found = re.fullmatch(
            r"about ([\d,]+) requests, ([\d,]+) tokens of prompts and ([\d,]+) of replies, "
            r"\$([\d.]+); more if .*\n",
            line,
        )
        assert found, line
        estimates[groups] = [float(number.replace(",", "")) for number in found.groups()]
        requests, prompts, replies, dollars = estimates[groups]
        assert 10 <= requests / groups <= 15  # 1 conversation, 3 members for 3 documents, and some
        assert dollars == pytest.approx((prompts + 10 * replies) / 1e6, rel=0.1)
    assert estimates[1000] == pytest.approx([100 * value for value in estimates[10]], rel=0.2)
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--base-url", "localhost:8000"], "base URL localhost:8000: must look like"),
        (["--groups", "0"], "--groups 0: must be at least 1"),
        (["--turns", "3"], "--turns 3: must be at least 4"),
        (["--variants", "0"], "--variants 0: must be at least 1"),
        (["--temperature", "-1"], "--temperature -1: must be at least 0"),
        (["--temperature", "nan"], "--temperature nan: must be at least 0"),
        (["--agree", "1"], "--agree 1: must be more than half of the panel's 3 members"),
        (["--agree", "4"], "--agree 4: must be more than half of the panel's 3 members"),
        (["--concurrency", "0"], "concurrency 0: must be at least 1"),
        (["--prices", "-1", "0"], "prices .*: must be dollars"),
        (["--panel", "a", "b", "c", "d"], "more than MODEL URL KEY_VARIABLE; repeat --panel"),
        (["--panel", "a", "http://u:secret@b/v1", "c", "d"], "--panel a: more than MODEL URL"),
        (["--panel", "judge", NOWHERE, "sk-secret"], "variable named after its URL is not set"),
        (["--panel", "judge", "localhost"], "base URL localhost: not the URL"),
        (["--panel", "judge", NOWHERE, "NO_SUCH_KEY"], "NO_SUCH_KEY is not set; set it"),
        (["--prompts", "none.toml"], "none.toml: No such file"),
        (["--model", ""], "author --seeds: needs --model; add it"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_is_written(
    seeds: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    with refused(message) as stderr:
        main(authoring(seeds, NOWHERE, "mine", *options))
    assert "secret" not in stderr.getvalue()
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "one of the arguments .*--seeds --documents.* is required"),
        (("--seeds", "seeds.jsonl"), "author: needs --out; add the folder to write"),
        *(
            (("--documents", "manual", "--out", "mine", f"--{name}", "6"), f"--{name}: only with")
            for name in ("groups", "turns", "variants", "seed")
        ),
    ],
)
def test_what_a_user_has_to_say_and_what_has_no_effect(
    arguments: tuple[str, ...], message: str
) -> None:
    with refused(message):
        main(["author", *arguments])


def test_an_endpoint_that_cannot_be_used_leaves_nothing_behind(seeds: Path, tmp_path: Path) -> None:
    with refused("http://127.0.0.1:9/v1: there is no connection"):
        main(authoring(seeds, NOWHERE))
    assert not (tmp_path / "mine").exists()
    (tmp_path / "theirs").mkdir()
    for name in ("theirs", "theirs/new/mine"):
        with refused("http://127.0.0.1:9/v1: there is no connection"):
            main(authoring(seeds, NOWHERE, name))
        assert [*(tmp_path / "theirs").iterdir()] == []


def test_an_unfinished_run_is_not_resumed_with_other_settings(seeds: Path, tmp_path: Path) -> None:
    with listening(played(tmp_path)) as url:
        main(authoring(seeds, url))
        for path in (tmp_path / "mine").iterdir():
            if path.is_file() and path.name != "replies.jsonl":
                path.unlink()
        with refused("mine/replies.jsonl: written with --turns 16, not 12; use the same again"):
            main(authoring(seeds, url, "mine", "--turns", "12"))


@pytest.mark.parametrize("more", [(), ("--overwrite",), ("--dry-run",)])
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("notes.txt", "", "mine: not the folder of an `author` run, for notes.txt is in it"),
        ("documents.jsonl", "{}\n", "mine: not the folder of an `author` run, for documents.j"),
        ("documents/a.txt", "", "mine/documents exists and is not a dataset's folder"),
        ("run.json", "{}\n", "run.json: not written by `pragworld-tasks author`; choose another"),
        ("replies.jsonl", "{}\n", "replies.jsonl: corrupt, or not written by `author`; choose"),
    ],
)
def test_a_folder_of_something_else_is_left_alone(
    seeds: Path, tmp_path: Path, name: str, content: str, message: str, more: tuple[str, ...]
) -> None:
    path = tmp_path / "mine" / name
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with refused(message):
        main(authoring(seeds, NOWHERE, "mine", *more))
    assert files_of(tmp_path / "mine") == {name: content.encode()}


def test_what_cannot_be_written_is_found_before_the_first_request(
    seeds: Path, tmp_path: Path
) -> None:
    server, out = played(tmp_path), tmp_path / "mine"
    with listening(server) as url:
        main(authoring(seeds, url))
        asked = server.asked.total()
        (tmp_path / "file").write_text("")
        for more in ((), ("--dry-run",)):
            more = (*more, "--overwrite", "--groups", "4")
            with refused("file/mine: .*file is a file; choose a folder"):
                main(authoring(seeds, url, "file/mine", *more))
        (out / "report.md").unlink()
        (out / "report.md").mkdir()
        with refused("mine/report.md is a folder; remove it"):
            main(authoring(seeds, url, "mine", "--overwrite"))
    assert server.asked.total() == asked


def test_a_folder_says_what_its_settings_were_in_the_words_of_its_user(
    seeds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = tmp_path / "others.jsonl"
    others.write_text(json.dumps({"conversation": "Ann: Hi.\nBen: Hello."}))
    prompts = own_prompts(tmp_path, "[label]\nsystem = 'Answer.'")
    with listening(played(tmp_path)) as url:
        main(authoring(seeds, url))
    capsys.readouterr()
    main(authoring(seeds, NOWHERE, "mine", "--dry-run"))
    assert capsys.readouterr().out == f"0 requests, as {tmp_path / 'mine'} is finished\n"
    for more, message in (
        (("--seeds", str(others)), "written with other seeds; use the same again"),
        (("--prompts", str(prompts)), r"written with other prompts \(label\); use"),
        (("--model", "best"), "written with --model writer, not best; use"),
        (
            ("--panel", "first"),
            "the panel first, second and third, not 2 samples of first, second and third; use",
        ),
        (("--groups", "1"), "finished, with --groups 2, not 1; .* the files of 1 group alone"),
        (("--agree", "3"), "finished, with no --agree, not --agree 3; pass --overwrite"),
    ):
        for command in ((), ("--dry-run",)):
            with refused(message):
                main(authoring(seeds, NOWHERE, "mine", *more, *command))


# Existing documents -------------------------------------------------------------------------------


class _Judges(JsonHandler):
    """Judges that find the pears in the hall; `keys` are those that they were sent, by model."""

    keys: ClassVar[dict[str, set[str]]] = {}

    def post(self, body: Any) -> None:
        self.keys.setdefault(body["model"], set()).add(self.headers["Authorization"])
        context = body["messages"][-1]["content"].partition("Question:")[0]
        quote = re.search(r"They are in the \w+\.", context)
        assert quote
        answer = "yes" if "hall" in quote[0] else "no"
        self.complete(json.dumps({"answer": answer, "quote": quote[0]}), 7)


def test_documents_that_exist_are_labelled_by_servers_with_keys_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-base")
    monkeypatch.setenv("OTHER_KEY", "sk-other")
    context = "Ann: Where are the pears?\nBen: They are in the hall."
    question = "Are the pears in the hall?"
    altered = context.replace("hall", "attic")
    lines: list[dict[str, Any]] = [
        {"context": context, "question": question, "answer": "yes", "group": 7},
        # The label is wrong, and the question another one than the original's.
        {
            "context": altered,
            "question": f"Well, {question.lower()}",
            "answer": "yes",
            "group": 7,
            "alteration": "Variable Substitution",
        },
    ]
    path, out = tmp_path / "documents.jsonl", tmp_path / "checked"
    path.write_text("\n".join(map(json.dumps, lines)))
    with (
        listening(LocalServer(_Judges)) as base,
        listening(LocalServer(_Judges)) as other,
        listening(LocalServer(_Judges)) as third,
    ):
        members = (["home"], ["home"], ["away", other, "OTHER_KEY"], ["open", third])
        panel = [word for words in members for word in ("--panel", *words)]
        places = ("--documents", str(path), "--base-url", base, "--out", str(out))
        main(["author", *places, *panel])
    assert {model: [*keys] for model, keys in _Judges.keys.items()} == {
        "home": ["Bearer sk-base"],
        "away": ["Bearer sk-other"],
        "open": ["Bearer none"],
    }
    assert [len(journal.read_text().splitlines()) for journal in sorted(out.glob("replies*"))] == [
        1 + 2,
        1 + 2,
        1 + 4,
    ]
    assert not any(b"sk-" in content for content in files_of(out).values())
    assert (
        "0 documents with labels in 0 groups, 1 more left out (no labelled variant goes with it: 1)"
        ", 1 document in review" in capsys.readouterr().out
    )
    labels = [json.loads(line) for line in (out / "labels.jsonl").read_text().splitlines()]
    assert [(label["given"], label["answer"]) for label in labels] == [
        ("yes", "yes"),
        ("yes", None),
    ]
    assert labels[1]["reason"] == "the panel says no, the given label is yes"
    questions = [json.loads(line) for line in (out / "questions.jsonl").read_text().splitlines()]
    assert [asked["text"] for asked in questions] == [line["question"] for line in lines]


def test_documents_that_exist_are_found_again_in_what_comes_out(tmp_path: Path) -> None:
    path, out = tmp_path / "documents.jsonl", tmp_path / "checked"
    contexts = [
        f"Ann: Where are the {things}?\nBen: They are in the hall."
        for things in ("pears", "figs", "plums")
    ]
    # The label of the first one is wrong, and a variant comes before its original.
    lines: list[dict[str, Any]] = [
        {"context": contexts[0], "answer": "no", "group": 25},
        {
            "context": contexts[1] + "\nAnn: Oh.",
            "answer": "yes",
            "group": 17,
            "alteration": "Negation",
        },
        {"context": contexts[1], "answer": "yes", "group": 17},
        {"context": contexts[2], "answer": "yes"},
    ]
    question = {"question": "Are they in the hall?"}
    path.write_text("\n".join(json.dumps({**line, **question}) for line in lines))
    with listening(LocalServer(_Judges)) as url:
        panel = ("--panel", "home", "--panel", "away")
        main(["author", "--documents", str(path), "--base-url", url, "--out", str(out), *panel])
    written = [json.loads(line) for line in (out / "documents.jsonl").read_text().splitlines()]
    rows = [document["provenance"]["row"] for document in written]
    assert rows == [2, 1, 3]
    assert [document["context"] for document in written] == [lines[row]["context"] for row in rows]
    labels = {label.place: label for label in read_stages(out).labels}
    for document in written:
        label = labels[document["group"], document["provenance"]["variant"]]
        assert label.answer == document["answer"]
    assert labels[25, 0].answer is None
    assert (
        "conversation 25, variant 0 (row 0): the panel says yes" in (out / "report.md").read_text()
    )
    assert "Conversation 17, variant 1: Negation (row 1)</h2>" in (out / "review.html").read_text()


@pytest.mark.parametrize("is_whole", [True, False])
def test_the_manual_split_is_not_said_to_share_nothing_with_itself(
    is_whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = tmp_path / "documents.jsonl", tmp_path / "checked"
    lines = [
        {
            "context": f"Ann: Where are the {things}?\nBen: They are in the hall.",
            "question": "Are they in the hall?",
            "answer": "yes",
        }
        for things in ("pears", "plums")
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    manual = read_documents(path)[: None if is_whole else 1]
    monkeypatch.setattr(results, "local_manual_split", lambda: manual)
    with listening(LocalServer(_Judges)) as url:
        main(
            [
                "author",
                "--documents",
                str(path),
                "--base-url",
                url,
                "--out",
                str(out),
                "--panel",
                "home",
            ]
        )
    report = (out / "report.md").read_text()
    assert "none: no conversation" not in report
    assert "not on this machine" not in report
    assert ("conversation 0: 100.0 % of the sequences" in report) is not is_whole


def test_models_of_one_name_are_told_apart_by_their_servers(tmp_path: Path) -> None:
    path, out, moved = (tmp_path / name for name in ("documents.jsonl", "checked", "moved"))
    context = "Ann: Where are the pears?\nBen: They are in the hall."
    path.write_text(json.dumps({"context": context, "question": "Here?", "answer": "yes"}))

    def label(folder: Path, *members: tuple[str, str]) -> None:
        panel = [word for member in members for word in ("--panel", *member)]
        main(["author", "--documents", str(path), "--out", str(folder), "--overwrite", *panel])

    with listening(LocalServer(_Judges)) as first, listening(LocalServer(_Judges)) as second:
        label(out, ("same", first), ("same", second))
        label(moved, ("one", first), ("other", second))
        label(moved, ("one", second), ("other", first))  # nothing but the servers' addresses
        (votes,) = (label.votes for label in read_stages(out).labels)
        assert len({vote.origin.request for vote in votes}) == 2
        with refused("run.json: written with the panel's models on other servers; use the same"):
            label(out, ("same", second), ("same", first))


class _BusyJudges(_Judges):
    """Judges of which one is out of order at first."""

    is_repaired: ClassVar[bool] = False

    def post(self, body: Any) -> None:
        if body["model"] == "away" and not self.is_repaired:
            self.reply(400, {"error": {"message": "out of order"}})
        else:
            super().post(body)


def test_votes_without_a_reply_are_counted_and_asked_for_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = tmp_path / "documents.jsonl", tmp_path / "checked"
    lines = [
        {
            "context": f"Ann: Where are the {things}?\nBen: They are in the hall.",
            "question": f"Are the {things} in the hall?",
            "answer": "yes",
        }
        for things in ("pears", "plums")
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    with listening(LocalServer(_BusyJudges)) as url:
        panel = [word for model in ("home", "away") for word in ("--panel", model)]
        run = ["author", "--documents", str(path), "--base-url", url, "--out", str(out), *panel]
        main(run)
        lost = (
            "2 votes failed, because the server answered 400 (out of order); rerun the command "
            "with --overwrite to send these requests again"
        )
        assert capsys.readouterr().out.splitlines()[-1] == f"{out}: {lost}"
        assert f"- {lost}." in (out / "report.md").read_text()
        monkeypatch.setattr(_BusyJudges, "is_repaired", True)
        main([*run, "--overwrite"])
    assert "failed" not in capsys.readouterr().out
    labels = [json.loads(line) for line in (out / "labels.jsonl").read_text().splitlines()]
    assert [vote["answer"] for label in labels for vote in label["votes"]] == ["yes"] * 4
    assert len((out / "replies.jsonl").read_text().splitlines()) == 1 + 4
