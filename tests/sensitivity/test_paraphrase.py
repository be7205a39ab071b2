"""Paraphrases by a model behind an API: real runs against a server that fails in every way."""

import asyncio
import contextlib
import itertools
import json
import math
import os
import re
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import servers
from chat_server import CLOSINGS, OPENINGS, is_inseparable, translate
from command_runs import refused, run_command, run_program
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pragworld_tasks.chat import Connection, Endpoint, connect
from pragworld_tasks.cli import main
from pragworld_tasks.errors import InputError
from pragworld_tasks.sensitivity import paraphrases, paraphrasing
from pragworld_tasks.sensitivity.extraction import extract, extraction_prompt, read_extracted
from pragworld_tasks.sensitivity.languages import DISTANT, LANGUAGES, language_chain
from pragworld_tasks.sensitivity.open_questions import OpenQuestion, questions
from pragworld_tasks.sensitivity.paraphrase_candidates import Candidates, gather_candidates
from pragworld_tasks.sensitivity.paraphrase_prompts import Judge, Survey, Translation, survey_task
from pragworld_tasks.sensitivity.paraphrases import Paraphrase
from pragworld_tasks.sensitivity.selection import (
    CLOSE,
    close_pairs,
    distances,
    farthest_first,
    spread,
)

KEY = "sk-not-to-be-seen-anywhere"
MIAMI = questions()["travel_miami"]
NUMBER, CANDIDATES = 5, 12


@dataclass
class Server:
    """A server process: its base URL and its log file."""

    url: str
    path: Path

    def log(self) -> list[dict[str, Any]]:
        """Return the log: a record for each request, and one for each answer."""
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The requests so far."""
        return [record for record in self.log() if "number" in record]

    @property
    def answered(self) -> int:
        """The number of requests that it answered."""
        return sum("answered" in record for record in self.log())


def participants(number: int) -> list[tuple[str, str]]:
    """Return how the first participants of a survey begin and end."""
    return list(itertools.islice(itertools.product(OPENINGS.values(), CLOSINGS.values()), number))


@contextlib.contextmanager
def serve(folder: Path, *options: str) -> Iterator[Server]:
    """Run a server with these options."""
    log = folder / "server.log"
    with servers.serve("chat_server.py", "--log", str(log), *options) as address:
        yield Server(address, log)


@pytest.fixture(scope="module")
def plain_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without failures or quirks."""
    with serve(tmp_path_factory.mktemp("plain")) as server:
        yield server


@pytest.fixture(scope="module")
def embeddings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model of sentence embeddings: means of random vectors of words."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    text = " ".join([MIAMI.prompt, *OPENINGS.values(), *CLOSINGS.values()])
    words = ["[UNK]", *sorted(set(re.findall(r"\w+|[^\w\s]+", text)))]
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("embeddings") / "words"
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=16)])
    model.save(str(folder))
    return folder


def arguments(url: str, out: Path, embeddings: Path | str, *more: str) -> list[str]:
    """Return the arguments of the command `paraphrase`."""
    return [
        *("paraphrase", "--base-url", url, "--model", "small", "--judge-model", "large"),
        *("--out", str(out), "--embeddings", str(embeddings), "--timeout", "1"),
        *("--number", str(NUMBER), "--candidates", str(CANDIDATES), *more),
    ]


def records(path: Path) -> list[dict[str, Any]]:
    """Read a JSON-lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def journal_of(out: Path) -> Path:
    return out.with_name(out.name + ".journal")


@dataclass
class Run:
    """A run without failures: its output file, what it printed, and the number of requests."""

    out: Path
    printed: str
    requests: int


@pytest.fixture(scope="module")
def undisturbed(embeddings: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the command against a server with quirks and without failures."""
    folder = tmp_path_factory.mktemp("undisturbed")
    out, printed = folder / "out" / "mine.jsonl", folder / "printed"
    with serve(folder, "--quirks") as server, printed.open("w") as stream:
        with contextlib.redirect_stdout(stream):
            main(arguments(server.url, out, embeddings, "--question", MIAMI.name))
        return Run(out, printed.read_text(), server.answered)


# Runs ---------------------------------------------------------------------------------------------


def test_a_run_without_failures(undisturbed: Run, plain_server: Server) -> None:
    chosen = paraphrases.read_paraphrases(undisturbed.out)
    assert len(chosen) == NUMBER
    for one in chosen:
        assert paraphrases.find_fault(MIAMI.prompt, one.text) is None
        source = re.fullmatch(
            r"translation: (\w+), (\w+); model small; judged by large", one.source
        )
        assert source
        first, second = source.groups()
        assert {first, second} & set(DISTANT)
        # The languages with quirks, and those that the judge rejects.
        assert not {first, second} & {"Swahili", "Finnish", "Vietnamese", "Hebrew", "Hindi"}
        if first != "Russian":
            assert one.text.startswith(OPENINGS[first])  # not with a quotation mark
    first_line, *account = undisturbed.printed.splitlines()
    tried = int(first_line.split()[0])
    assert first_line == f"{tried} tried, {CANDIDATES} accepted"
    rejected = re.findall(r"^  (\d+) rejected: (.*)$", undisturbed.printed, re.MULTILINE)
    assert sum(int(count) for count, _ in rejected) == tried - CANDIDATES
    assert {reason for _, reason in rejected} >= {
        "not exactly one {city}",
        "adds a number",
        "line breaks or stray spaces",
        "judged to make another request",
        "unreadable verdict",
    }
    assert any(line.startswith(f"{undisturbed.requests} requests answered") for line in account)
    assert re.search(
        r"of two: mean 0\.\d+, least 0\.\d+; from the base prompt: mean 0\.", account[-2]
    )


def test_a_run_with_all_failures_writes_the_same_file(
    undisturbed: Run, embeddings: Path, tmp_path: Path
) -> None:
    transient = ["429", "500", "hang", "drop"]
    schedule = ",".join(f"{3 * i}:{failure}" for i, failure in enumerate(transient))
    out = tmp_path / "mine.jsonl"
    options = ("--quirks", "--schedule", schedule, "--hang", "4", "--key", KEY)
    with serve(tmp_path, *options) as server:
        process = run_program(
            "pragworld-tasks",
            *arguments(server.url, out, embeddings, "--question", MIAMI.name),
            OPENAI_API_KEY=KEY,
        )
        requests, answered = server.requests, server.answered
    assert process.returncode == 0, process.stderr
    assert out.read_bytes() == undisturbed.out.read_bytes()
    assert answered == undisturbed.requests  # each once
    failures = Counter(record["failure"] for record in requests)
    assert all(failures[failure] == 1 for failure in transient)
    assert len(requests) == answered + len(transient)
    # The key is nowhere.
    for text in (process.stdout, process.stderr, *(p.read_text() for p in tmp_path.iterdir())):
        assert KEY not in text


def test_a_killed_run_resumes_and_sends_no_request_twice(
    undisturbed: Run, embeddings: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine.jsonl"
    journal = journal_of(out)
    with serve(tmp_path, "--quirks", "--delay", "0.05") as server:
        command = arguments(server.url, out, embeddings, "--question", MIAMI.name)
        # It will not live to embed anything, so it need not spend seconds on loading torch.
        (tmp_path / "sentence_transformers.py").write_text("SentenceTransformer = str\n")
        process = subprocess.Popen(
            [sys.executable, "-m", "pragworld_tasks", *command],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
        )
        while not (journal.exists() and journal.read_text().count("\n") > 20):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.wait()
        assert not out.exists()
        finished = journal.read_bytes().count(b"\n") - 1
        assert 20 <= finished < undisturbed.requests
        with journal.open("ab") as stream:
            stream.write(b'{"key": "caf\xc3')  # as a kill in the middle of writing leaves it
        while server.answered < len(server.requests):  # what was under way
            time.sleep(0.01)

        before = server.answered
        main(command)
        assert server.answered - before == undisturbed.requests - finished
        assert out.read_bytes() == undisturbed.out.read_bytes()

        # Once more, and with more paraphrases: no request is sent, no reply is lost.
        before = len(server.requests)
        out.write_text(edited := out.read_text().replace("journey", "trip"))
        with refused(r"mine\.jsonl exists; pass --overwrite, or another name$"):
            main([*command, "--number", "7"])
        assert out.read_text() == edited
        command.append("--overwrite")
        main([*command, "--number", "7"])
        assert len(server.requests) == before
        chosen = records(out)
        assert len(chosen) == 7
        assert chosen[:NUMBER] == records(undisturbed.out)

        for changed, was in (
            (("--temperature", "0.5"), "temperature 1.0, not 0.5"),
            (("--seed", "1"), "seed 0, not 1"),
            (("--judge-model", "huge"), "judge_model 'large', not 'huge'"),
            (("--method", "survey"), "paraphrase 'translation', not 'survey'"),
        ):
            with refused(rf"mine\.jsonl\.journal: written with {was}[;,] "):
                main([*command, *changed])
        assert len(server.requests) == before
        assert len(records(out)) == 7


def test_the_survey(plain_server: Server, embeddings: Path, tmp_path: Path) -> None:
    out = tmp_path / "survey.jsonl"
    begun = len(plain_server.requests)
    main(
        arguments(plain_server.url, out, embeddings, "--question", MIAMI.name, "--method", "survey")
    )
    chosen = paraphrases.read_paraphrases(out)
    assert len(chosen) == NUMBER
    assert {one.source for one in chosen} == {"survey; model small; judged by large"}
    asked = [one for one in plain_server.requests[begun:] if one["model"] == "small"]
    assert len(asked) == CANDIDATES
    (system,) = {one["system"] for one in asked}
    (user,) = {one["user"] for one in asked}
    assert system == (
        "You are simulating a survey participant who needs to write a question to an AI assistant "
        "about transportation and travel."
    )
    assert user == (
        "Scenario:\nYou are planning a trip to Miami, and you're wondering how long the travel time "
        "would be by flight.\n\nYour Task:\nImagine you are using an AI chatbot.\nIn your own words, "
        "craft a single question you would ask the AI to help you.\nDo not copy the scenario "
        "verbatim\u2014rephrase it naturally.\nWhen referring to the city you are currently in, use "
        "the placeholder {city} instead of a specific name.\nNow, please write your prompt. Submit "
        "only one prompt."
    )


def test_a_survey_of_ones_own(
    plain_server: Server, embeddings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = len(plain_server.requests)
    own = ("--prompt", "How far from {town} with 3 bags?", "--method", "survey")
    with refused("--method survey: needs a scenario; add --scenario"):
        main(arguments(plain_server.url, tmp_path / "own.jsonl", embeddings, *own))
    # The participants that the server plays do not mention three bags.
    with refused(
        "none of the first 36 candidates was accepted, 36 because: lacks a number; correct the "
        "prompt, or use another model"
    ):
        main(
            arguments(
                *(plain_server.url, tmp_path / "own.jsonl", embeddings, *own),
                *("--scenario", "You have 3 bags\nand want to go to sea."),
            )
        )
    said = capsys.readouterr().out
    assert "36 tried, 0 accepted\n  36 rejected: lacks a number\n" in said
    asked = plain_server.requests[begun:]
    assert len(asked) == 3 * CANDIDATES
    assert asked[0]["system"].endswith("to an AI assistant.")
    assert "You have 3 bags\nand want to go to sea.\n\nYour Task" in asked[0]["user"]
    assert "use the placeholder {town} instead of" in asked[0]["user"]


@pytest.mark.parametrize("question", questions().values(), ids=questions())
def test_every_question_has_a_survey_with_its_slot(question: OpenQuestion) -> None:
    task = survey_task(question.survey, question.slot)
    assert task.count("use the placeholder") == 1
    assert question.slot in task.splitlines()[-2]


@pytest.mark.parametrize("slot", ["{text}", "{prompt}", "{scenario}", "{placeholder}"])
def test_a_slot_may_have_any_name(plain_server: Server, slot: str) -> None:
    prompt, other = f"What is {slot}?", f"Tell me what {slot} is."

    async def work() -> None:
        async with connect(Endpoint(plain_server.url, "small"), None, {}) as connection:
            assert await Judge(prompt, "large")(connection, other)

    asyncio.run(work())
    assert f"\n{prompt}\n\nSecond prompt:\n{other}\n" in plain_server.requests[-1]["user"]
    task = survey_task(f"You want to know what {slot} is.\nUse {slot} for it.", slot)
    assert f"\nYou want to know what {slot} is.\n" in task
    assert f"\nUse {slot} for it.\n" in task


# Wrapped replies ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wrapping_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose model puts something around most of its texts."""
    with serve(tmp_path_factory.mktemp("wrapping"), "--wrapped") as server:
        yield server


def gather(server: Server, method: Translation | Survey, wanted: int) -> Candidates:
    """Gather candidates at a server."""

    async def work() -> Candidates:
        async with connect(Endpoint(server.url, "small"), None, {}) as connection:
            judge = Judge(MIAMI.prompt, "large")
            return await gather_candidates(connection, MIAMI.prompt, method, judge, wanted)

    return asyncio.run(work())


def test_wrapped_translations_are_unwrapped_or_rejected(wrapping_server: Server) -> None:
    found = gather(wrapping_server, Translation(MIAMI.prompt, "small", 1.0, 0), wanted=60)
    expected, inseparable = [], 0
    for number in range(found.tried):
        first, second = language_chain(0, number)
        text = translate(f"[{first} {second}] {MIAMI.prompt}", "English", quirks=False)
        if is_inseparable(text):
            inseparable += 1
        elif (plain := text.strip('"')) not in expected:
            expected.append(plain)
    assert [candidate.text for candidate in found.accepted] == expected
    assert found.tried - found.rejected["duplicate"] - len(expected) == inseparable > 5


def test_wrapped_replies_of_a_survey_are_unwrapped_or_rejected(wrapping_server: Server) -> None:
    task = survey_task(MIAMI.survey, MIAMI.slot)
    found = gather(
        wrapping_server, Survey("survey participant", task, MIAMI.prompt, "small", 1.0), wanted=40
    )
    plain = re.compile(r"(.*) how long from \{city\} to there\? (.*)")
    for candidate in found.accepted:
        parts = plain.fullmatch(candidate.text)
        assert parts, candidate.text
        assert parts[1] in OPENINGS.values()
        assert parts[2] in CLOSINGS.values()
    texts = [f"{a} how long from {{city}} to there? {b}" for a, b in participants(found.tried)]
    assert len(found.accepted) == found.tried - sum(map(is_inseparable, texts))


# Failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["openai", "sentence_transformers"])
def test_a_package_that_is_not_installed(
    plain_server: Server, package: str, tmp_path: Path
) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError('No module {package}')")
    process = run_command(
        *arguments(plain_server.url, tmp_path / "mine.jsonl", "words", "--question", MIAMI.name),
        PYTHONPATH=str(tmp_path),
    )
    assert process.returncode == 2
    assert process.stderr.count("\n") == 1
    assert f" the {package.replace('_', '-')} package (No module {package}): " in process.stderr
    assert " pip install " in process.stderr
    # The replies to the first candidate are kept.
    assert (tmp_path / "mine.jsonl.journal").exists() == (package == "sentence_transformers")


def test_embeddings_that_cannot_be_loaded(plain_server: Server, tmp_path: Path) -> None:
    begun = len(plain_server.requests)
    with refused(
        r"^embeddings 'no/such': cannot be loaded \(.*[^/]\); pass --embeddings FOLDER, .*"
        r"`hf download NAME --local-dir FOLDER` makes where the Hugging Face hub can be reached$"
    ):
        main(
            arguments(
                plain_server.url, tmp_path / "mine.jsonl", "no/such", "--question", MIAMI.name
            )
        )
    assert len(plain_server.requests) - begun == 3  # those of one candidate


@pytest.fixture
def no_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that comes to load embeddings."""
    monkeypatch.setattr(paraphrasing, "load_embedder", lambda _: pytest.fail("loads embeddings"))


def test_one_line_and_no_traceback_where_the_prompt_has_no_slot(tmp_path: Path) -> None:
    process = run_command(
        *arguments("http://x/v1", tmp_path / "mine.jsonl", "words", "--prompt", "How are you?")
    )
    assert process.returncode == 2
    assert process.stderr.startswith("prompt 'How are you?': has 0 slots; ")
    assert process.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--prompt", "From {here} to {there}?"), "has 2 slots"),
        (("--prompt", "From {here}\nto sea?"), "line breaks or stray spaces"),
        (("--prompt", "From {here} to \udcff?"), "not UTF-8"),
        (("--question", "travel_mars"), "--question travel_mars: must be one of health_weight, "),
        (("--number", "0"), "--number 0: must be at least 1"),
        (("--number", "13"), "--candidates 12: must be at least --number 13"),
        (("--temperature", "-1"), "--temperature -1: must be at least 0"),
        (("--temperature", "nan"), "--temperature nan: must be at least 0"),
        (("--timeout", "0"), "timeout 0.0: must be more than 0"),
        (("--concurrency", "0"), "concurrency 0: must be more than 0"),
        (("--base-url", "localhost:8000"), "base URL localhost:8000: must look like"),
        (("--scenario", "You want to go."), "--scenario: needs --method survey"),
        (("--out", "x" * 300), "File name too long"),
        (("--out", "."), "Is a directory; choose a file that can be written"),
    ],
)
def test_unsupported_options(
    plain_server: Server,
    embeddings: Path,
    tmp_path: Path,
    options: tuple[str, ...],
    message: str,
) -> None:
    begun = len(plain_server.requests)
    asked = () if options[0] in ("--prompt", "--question") else ("--question", MIAMI.name)
    with refused(re.escape(message)) as stderr:
        main(arguments(plain_server.url, tmp_path / "mine.jsonl", embeddings, *asked, *options))
    assert stderr.getvalue().count("\n") == 1
    assert len(plain_server.requests) == begun
    assert not any(tmp_path.iterdir())


def test_a_place_that_cannot_be_written(
    plain_server: Server, embeddings: Path, tmp_path: Path
) -> None:
    begun = len(plain_server.requests)
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file" / "mine.jsonl", Path("/proc/mine.jsonl")):
        with refused("choose another place"):
            main(arguments(plain_server.url, out, embeddings, "--question", MIAMI.name))
    assert len(plain_server.requests) == begun


# The journal --------------------------------------------------------------------------------------


def test_a_full_disk(plain_server: Server, tmp_path: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (220, limit[1]))
    try:
        with pytest.raises(InputError, match=r"journal: File too large; make room"):
            extract(Endpoint(plain_server.url, "m"), MIAMI, ["=> 5"], tmp_path / "journal")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert extract(Endpoint(plain_server.url, "m"), MIAMI, ["=> 5"], tmp_path / "journal") == [5]


def test_a_journal_with_a_corrupt_line(plain_server: Server, tmp_path: Path) -> None:
    journal, endpoint = tmp_path / "journal", Endpoint(plain_server.url, "m")
    extract(endpoint, MIAMI, ["=> 5", "=> 6"], journal)
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text(lines[0] + '{"key": 1}\n' + lines[2])
    with pytest.raises(InputError, match="journal, line 2: corrupt, or not written by this"):
        extract(endpoint, MIAMI, ["=> 5", "=> 6"], journal)


# Chains, candidates, selection --------------------------------------------------------------------


@given(st.integers(), st.integers(min_value=0))
def test_a_chain_goes_through_two_languages_one_of_them_distant(seed: int, number: int) -> None:
    first, second = language_chain(seed, number)
    assert first != second
    assert {first, second} <= set(LANGUAGES)
    assert {first, second} & set(DISTANT)
    assert language_chain(seed, number) == (first, second)


def test_all_chains_occur_and_are_the_same_everywhere() -> None:
    assert len(set(LANGUAGES)) == 15
    found = Counter(language_chain(0, number) for number in range(7800))
    assert len(found) == 15 * 14 - 12 * 11
    assert min(found.values()) > 50  # of 100 expected
    assert [language_chain(0, number) for number in range(3)] == [
        ("Arabic", "German"),
        ("Arabic", "Hindi"),
        ("Arabic", "Swahili"),
    ]
    assert language_chain(1, 0) != language_chain(0, 0)


OUTCOMES = ["a", "b", "c", "d", "e", "f", "g", "No {slot}", "unlike", "babble"]


@given(
    st.lists(st.sampled_from(OUTCOMES), min_size=24, max_size=24),
    st.lists(st.integers(0, 6), min_size=24, max_size=24),
    st.integers(1, 8),
    st.integers(1, 5),
)
def test_candidates_are_those_of_a_sequential_run(
    outcomes: list[str], delays: list[int], wanted: int, concurrency: int
) -> None:
    prompt = "{slot} a"

    async def propose(connection: Connection, number: int) -> Paraphrase:
        tried.append(number)
        for _wait in range(delays[number]):
            await asyncio.sleep(0)
        outcome = outcomes[number]
        return Paraphrase("lost" if outcome.startswith("No") else f"{{slot}} {outcome}", "source")

    async def judge(connection: Connection, text: str) -> bool | None:
        await asyncio.sleep(0)
        return None if "babble" in text else "unlike" not in text

    tried: list[int] = []
    watched: list[int] = []
    connection = cast(Connection, SimpleNamespace(endpoint=Endpoint("http://h", "m", concurrency)))
    found = asyncio.run(
        gather_candidates(
            connection, prompt, propose, judge, wanted, lambda found: watched.append(found.tried)
        )
    )
    accepted: list[str] = []
    rejected: Counter[str] = Counter()
    for outcome in outcomes[: 3 * wanted]:
        reason = {"N": "not exactly one {slot}", "u": "judged to make another request"}
        if outcome in accepted or outcome == "a":
            rejected["duplicate"] += 1
        elif outcome == "babble":
            rejected["unreadable verdict"] += 1
        elif outcome[0] in reason:
            rejected[reason[outcome[0]]] += 1
        else:
            accepted.append(outcome)
        if len(accepted) == wanted:
            break
    assert [one.text for one in found.accepted] == [f"{{slot}} {one}" for one in accepted]
    assert found.rejected == rejected
    assert sorted(tried) == list(range(found.tried))  # none that was not needed
    assert watched == list(range(1, found.tried + 1))


@pytest.mark.parametrize(("accepted", "tried"), [(None, 50), (49, 1500), (50, 50)])
def test_a_run_without_an_accepted_candidate_stops(accepted: int | None, tried: int) -> None:
    async def propose(connection: Connection, number: int) -> Paraphrase:
        await asyncio.sleep(0)
        return Paraphrase("{slot} b" if number == accepted else "lost", "source")

    async def judge(connection: Connection, text: str) -> bool:
        return True

    connection = cast(Connection, SimpleNamespace(endpoint=Endpoint("http://h", "m", 8)))
    found = asyncio.run(gather_candidates(connection, "{slot} a", propose, judge, 500))
    assert found.tried == tried
    assert len(found.accepted) == (tried > 50)


def brute_force(
    base: Sequence[float], vectors: Sequence[Sequence[float]], number: int
) -> list[int]:
    """Choose farthest first by its definition, from distances rounded to six decimals."""

    def distance(first: Sequence[float], second: Sequence[float]) -> float:
        return round(1 - sum(a * b for a, b in zip(first, second, strict=True)), 6)

    chosen: list[int] = []
    while len(chosen) < number:
        left = [i for i in range(len(vectors)) if i not in chosen]
        so_far = [base, *(vectors[i] for i in chosen)]
        chosen.append(
            max(left, key=lambda i: (min(distance(vectors[i], one) for one in so_far), -i))
        )
    return chosen


# Few different numbers, so that many distances tie.
COARSE = arrays(np.float64, (7, 3), elements=st.sampled_from([-1.0, 0.0, 1.0, 2.0]))


@given(COARSE, st.integers(1, 6))
def test_farthest_first_against_brute_force(vectors: Any, number: int) -> None:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    base, *others = vectors / np.where(lengths, lengths, 1)
    chosen = farthest_first(base, np.array(others), number)
    assert chosen == brute_force(base.tolist(), [one.tolist() for one in others], number)
    assert len(set(chosen)) == number
    assert chosen[:-1] == farthest_first(base, np.array(others), number - 1)


@given(arrays(np.float64, (6, 4), elements=st.floats(-1, 1)))
def test_spread_and_distances(vectors: Any) -> None:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths, lengths, 1)
    between = distances(unit, unit)
    assert (between >= 0).all()
    assert (between <= 2).all()
    assert np.allclose(between, between.T)
    found = spread(unit[0], unit[1:])
    pairs = [between[i, j] for i in range(1, 6) for j in range(i + 1, 6)]
    assert found.mean == pytest.approx(sum(pairs) / len(pairs))
    assert found.least == min(pairs)
    assert found.from_base == pytest.approx(between[0, 1:].mean())
    assert math.isnan(spread(unit[0], unit[1:2]).mean)


# Extraction ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "value", "kind"),
    [
        ("12", 12, "number"),
        (" 12.5\n", 12.5, "number"),
        (".5", 0.5, "number"),
        ("12.", 12, "number"),
        ('"12"', 12, "number"),
        ("**12**", 12, "number"),
        ("$1,234.50", 1234.5, "number"),
        ("1,234,567", 1234567, "number"),
        ("-3", -3, "number"),
        ("-$3", -3, "number"),
        ("$-3", -3, "number"),
        ("10-15", 12.5, "range"),
        ("$1,000-$2,000", 1500, "range"),
        ("10 \u2013 15", 12.5, "range"),
        ("-4--2", -3, "range"),
        ("-2-4", 1, "range"),
        ("None", None, "none"),
        ('"none".', None, "none"),
        ("", None, "unreadable"),
        ("about 5", None, "unreadable"),
        ("5 hours", None, "unreadable"),
        ("5k", None, "unreadable"),
        ("12,34", None, "unreadable"),
        ("1.234,5", None, "unreadable"),
        ("5-6-7", None, "unreadable"),
        ("5\n6", None, "unreadable"),
        ("\u0665", None, "unreadable"),
        ("-", None, "unreadable"),
        ("nan", None, "unreadable"),
        ("9" * 200, None, "unreadable"),
    ],
)
def test_replies_of_an_extractor(answer: str, value: float | None, kind: str) -> None:
    assert read_extracted(answer) == (value, kind)


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_extracted_numbers_and_ranges(low: float, high: float) -> None:
    low, high = round(low, 2), round(high, 2)
    assert read_extracted(f"{low:,.2f}") == (low, "number")
    assert read_extracted(f"${low:.2f}-${high:,.2f}") == ((low + high) / 2, "range")


@given(st.text())
def test_extraction_never_raises(answer: str) -> None:
    value, kind = read_extracted(answer)
    assert (value is None) == (kind in ("none", "unreadable"))


RESPONSES = ["Long. => 10-15", "{city}? => None", "Long. => 10-15", "=> many", "=> $1,200"]
VALUES = [12.5, None, 12.5, None, 1200]


def test_extraction(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    counts: Counter[str] = Counter()
    journal = tmp_path / "journal"
    with serve(tmp_path, "--own-temperature", "--schedule", "2:malformed") as server:
        endpoint = Endpoint(server.url, "small")
        assert extract(endpoint, MIAMI, RESPONSES, journal, counts) == VALUES
        assert counts == {"range": 2, "none": 1, "unreadable": 1, "number": 1}
        assert "travel_miami: 1 of 5 values are missing: small replied neither" in caplog.text
        assert (
            "travel_miami: small replied with a dollar sign for 1 of 5 values (for example "
            "'$1,200'), which count as hour; check the replies"
        ) in caplog.text
        assert server.answered == 4  # the same is asked once
        asked = [record for record in server.requests if record["temperature"] is None]
        assert {record["user"] for record in asked} == {
            "Extract the total travel time from the text. Return only the number of hours as a "
            'numeric value. If no value can be inferred from the text, return "None".\n\n'
            f"Answer text:\n{response}"
            for response in RESPONSES
        }
        assert asked[0]["system"].startswith("You are an assistant designed to extract the final")
        # A second call sends what is new.
        more = [*RESPONSES, "=> 7", "=> -4"]  # the paper drops signs
        assert extract(endpoint, MIAMI, more, journal) == [*VALUES, 7, 4]
        assert server.answered == 6
        with pytest.raises(InputError, match="written with model 'small', not 'large'"):
            extract(Endpoint(server.url, "large"), MIAMI, RESPONSES, journal)
    # If all replies are known, no server is needed.
    assert extract(endpoint, MIAMI, RESPONSES, journal) == VALUES
    assert extract(endpoint, MIAMI, []) == []


def test_extraction_in_a_notebook(plain_server: Server) -> None:
    async def notebook() -> Sequence[float | None]:
        return extract(Endpoint(plain_server.url, "m"), MIAMI, RESPONSES)

    assert asyncio.run(notebook()) == VALUES


def test_a_question_without_an_extraction_prompt() -> None:
    with pytest.raises(InputError, match="question 'own': has no extraction prompt"):
        extraction_prompt(OpenQuestion("own", "How far is {town}?", ("A",), "hour"), "Far.")


# Checking -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", questions())
def test_the_shipped_paraphrases_have_no_faults(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["check-paraphrases", "--question", name])
    assert capsys.readouterr().out == "50 paraphrases, 0 faults\n"


def test_a_file_with_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.jsonl"
    texts = [
        "How far is it?",
        "How far is {town} from here?",
        "Is {town} 5 miles off?",
        "Is {town} far?",
    ]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    own = ["check-paraphrases", str(path), "--prompt", "How far is {town} from here, friend?"]
    with pytest.raises(SystemExit) as ended:
        main(own)
    assert ended.value.code == 1
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == [
        "1: not exactly one {town}: How far is it?",
        "3: adds the number 5: Is {town} 5 miles off?",
        "4: asks for yes or no, or for nothing: Is {town} far?",
    ]
    assert said[3].startswith("0 and 2: ")
    assert said[4:] == ["4 paraphrases, 4 faults"]
    with refused("--prompt: needs a FILE"):
        main(["check-paraphrases", "--prompt", "How far is {town}?"])


def test_paraphrases_with_like_embeddings_are_near_duplicates(
    embeddings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = MIAMI.prompt.split(". ")
    texts = [f"{second} {first}.", "Miami? How long do I fly from {city}?"]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    check = ["check-paraphrases", str(path), "--prompt", MIAMI.prompt]
    main(check)  # few words are in the same order
    assert capsys.readouterr().out == "2 paraphrases, 0 faults\n"
    with pytest.raises(SystemExit):
        main([*check, "--embeddings", str(embeddings)])  # which ignore the order
    *listed, spread_line = capsys.readouterr().out.splitlines()
    assert listed == [
        f"0 and 1: cosine similarity 1.000: {texts[0]}",
        "2 paraphrases, 1 faults",
    ]
    assert spread_line.startswith("cosine distance of two: mean ")


@given(arrays(np.float64, (4, 3), elements=st.floats(-1, 1)))
def test_close_pairs_against_their_definition(vectors: Any) -> None:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / np.where(lengths, lengths, 1)
    expected = [
        (i, j)
        for i, j in itertools.combinations(range(4), 2)
        if round(float(np.dot(vectors[i], vectors[j])), 6) > CLOSE
    ]
    assert [(i, j) for i, j, _ in close_pairs(vectors)] == expected


def test_importing_imports_neither_torch_nor_the_client() -> None:
    code = (
        "import sys, pragworld_tasks.cli\n"
        "from pragworld_tasks.sensitivity import extraction, paraphrasing, selection\n"
        "print({'torch', 'sentence_transformers', 'openai'} & set(sys.modules))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.stdout == "set()\n", process.stderr
