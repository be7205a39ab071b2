"""Paraphrases by a model behind an API: real runs against a server, and values read by one."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_runs import refused
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from played_models import ADDED, play
from servers import ChatServer

from pragworld_tasks.chat import Endpoint, UnansweredError, connect, run_async
from pragworld_tasks.cli import main
from pragworld_tasks.errors import InputError
from pragworld_tasks.sensitivity import paraphrasing
from pragworld_tasks.sensitivity.extraction import extract, read_extracted
from pragworld_tasks.sensitivity.open_questions import questions
from pragworld_tasks.sensitivity.paraphrases import Paraphrase, find_fault, read_paraphrases
from pragworld_tasks.sensitivity.paraphrasing import (
    DISTANT,
    FIRST,
    TRIES,
    farthest_first,
    gather_candidates,
    language_chain,
)

MIAMI = questions()["travel_miami"]
NUMBER = 2


@pytest.fixture(scope="module")
def embeddings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model of sentence embeddings: means of random vectors of words."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    text = " ".join([MIAMI.prompt, *(words for pair in ADDED.values() for words in pair)])
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
        *("paraphrase", "--base-url", url, "--model", "small", "--judge", "large"),
        *("--prompt", MIAMI.name, "--out", str(out), "--embeddings", str(embeddings)),
        *("--number", str(NUMBER), *more),
    ]


# Runs ---------------------------------------------------------------------------------------------


def test_a_run_and_its_resumption(
    embeddings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.jsonl"
    with ChatServer(play).running() as server:
        main(arguments(server.url, out, embeddings))
        sent = len(server.bodies)
    chosen = read_paraphrases(out)
    assert len(chosen) == NUMBER
    for wording in chosen:
        assert find_fault(MIAMI.prompt, wording.text) is None
        source = re.fullmatch(r"translation: (\w+), (\w+); model small", wording.source)
        assert source
        assert {*source.groups()} & set(DISTANT)
        # The languages with quirks, and those that the judge rejects.
        assert not {*source.groups()} & {"Swahili", "Finnish", "Vietnamese", "Hebrew", "Hindi"}
    printed = capsys.readouterr().out
    assert printed.startswith(f"{sent} requests answered (")
    (tried,) = re.findall(r"^(\d+) tried, 20 accepted$", printed, re.MULTILINE)
    rejected = re.findall(r"^  (\d+) rejected: (.*)$", printed, re.MULTILINE)
    assert sum(int(count) for count, _ in rejected) == int(tried) - 20
    assert {"duplicate", "judged to make another request"} <= {reason for _, reason in rejected}

    # Another run is stopped in the middle. Resumed, it sends the rest, and writes the same file.
    again = tmp_path / "again.jsonl"
    with ChatServer(play, {40: "404"}).running() as server:
        with refused(r"/v1: NotFoundError: Error code: 404"):
            main(arguments(server.url, again, embeddings, "--concurrency", "1"))
        assert not again.exists()
        main(arguments(server.url, again, embeddings))
        assert len(server.bodies) == sent + 1
        assert again.read_bytes() == out.read_bytes()
        with refused(r"again\.jsonl\.journal: written with judge 'large', not 'huge'; "):
            main(arguments(server.url, again, embeddings, "--overwrite", "--judge", "huge"))


def test_what_translator_and_judge_are_asked(tmp_path: Path) -> None:
    with ChatServer(play).running() as server:
        gather(server, tmp_path / "journal", 1)
        first, second, third, judge = server.bodies
    languages = [*language_chain(0), "English"]
    for body, language in zip((first, second, third), languages, strict=True):
        system = body["messages"][0]["content"]
        assert system.startswith(
            f"You are a professional translator. Translate the user text to {language}. "
            "Return *only* the translation\u2014no commentary.\n\nReply with one JSON object"
        )
        assert (body["model"], body["temperature"]) == ("small", 1)
    assert first["messages"][1]["content"] == MIAMI.prompt
    assert (judge["model"], judge["temperature"]) == ("large", 0)
    assert f"First prompt:\n{MIAMI.prompt}\n\nSecond prompt:\n" in judge["messages"][1]["content"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--prompt", "How are you?"], r"^prompt 'How are you\?': has 0 slots; write one"),
        (["--prompt", "From {here}\nto sea?"], "line breaks or stray spaces; correct that$"),
        (["--number", "0"], "^--number 0: must be at least 1$"),
        (["--concurrency", "0"], "^concurrency 0, timeout 60.0: must be above 0$"),
        (["--base-url", "localhost:8000"], "^base URL localhost:8000: must look like http://"),
        (["--embeddings", "no/such"], r"^embeddings 'no/such': cannot be loaded \(.*\); pip "),
    ],
)
def test_what_paraphrase_refuses(
    options: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "--embeddings" not in options:
        monkeypatch.setattr(paraphrasing, "load_embedder", lambda _: None)
    with refused(line) as stderr:
        main(arguments("http://127.0.0.1:9/v1", tmp_path / "mine.jsonl", "words", *options))
    assert stderr.getvalue().count("\n") == 1
    assert not any(tmp_path.iterdir())


def test_too_few_paraphrases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paraphrasing, "load_embedder", lambda _: None)
    with (
        ChatServer(lambda _: "What?").running() as server,
        refused(
            "^0 paraphrases were accepted, but --number is 2; correct the prompt, or use another model$"
        ),
    ):
        main(arguments(server.url, tmp_path / "mine.jsonl", "words"))
    assert len(server.bodies) == FIRST


# Candidates and their choice ----------------------------------------------------------------------


def test_a_chain_goes_through_two_languages_one_of_them_distant() -> None:
    found = Counter(map(language_chain, range(7800)))
    assert len(found) == 15 * 14 - 12 * 11
    assert min(found.values()) > 50  # of 100 expected
    for first, second in found:
        assert first != second
        assert {first, second} & set(DISTANT)
    assert [language_chain(number)[1] for number in range(3)] == ["German", "Hindi", "Swahili"]


def gather(server: ChatServer, journal: Path, wanted: int) -> tuple[list[Paraphrase], Counter[str]]:
    """Gather candidates at a server."""

    async def work() -> tuple[list[Paraphrase], Counter[str]]:
        async with connect(Endpoint(server.url, "small"), journal, {}) as connection:
            return await gather_candidates(connection, MIAMI.prompt, "large", wanted)

    return run_async(work())


OUTCOMES = ["a", "b", "c", "d", "e", "f", "g", "No {slot}", "unlike", "babble"]


@given(
    st.lists(st.sampled_from(OUTCOMES), min_size=24, max_size=24),
    st.lists(st.integers(0, 6), min_size=24, max_size=24),
    st.integers(1, 8),
)
def test_candidates_are_those_of_a_sequential_run(
    outcomes: list[str], delays: list[int], wanted: int
) -> None:
    async def propose(connection: Any, prompt: str, number: int) -> Paraphrase:
        tried.append(number)
        for _wait in range(delays[number]):
            await asyncio.sleep(0)
        outcome = outcomes[number]
        return Paraphrase("lost" if outcome.startswith("No") else f"{{slot}} {outcome}", "source")

    async def judge(connection: Any, judge: str, prompt: str, text: str) -> bool:
        if "babble" in text:
            raise UnansweredError("the reply is malformed (no JSON)", "Well")
        return "unlike" not in text

    tried: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paraphrasing, "_translate", propose)
        patch.setattr(paraphrasing, "_is_same_request", judge)
        work: Any = gather_candidates(None, "{slot} a", "large", wanted)  # type: ignore[arg-type]
        found, reasons = asyncio.run(work)
    accepted: list[str] = []
    rejected: Counter[str] = Counter()
    why = {
        "N": "not exactly one {slot}",
        "u": "judged to make another request",
        "ba": "the reply is malformed",
    }
    for outcome in outcomes[: TRIES * wanted]:
        if outcome in accepted or outcome == "a":
            rejected["duplicate"] += 1
        elif reason := why.get(outcome[0]) or why.get(outcome[:2]):
            rejected[reason] += 1
        else:
            accepted.append(outcome)
        if len(accepted) == wanted:
            break
    assert [candidate.text for candidate in found] == [f"{{slot}} {text}" for text in accepted]
    assert reasons == rejected
    assert sorted(tried) == list(range(len(found) + reasons.total()))  # none that was not needed


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


# Extraction ---------------------------------------------------------------------------------------


REPLIES = {
    **{"12": 12, " 12.5\n": 12.5, ".5": 0.5, "12.": 12, '"12"': 12, "**12**": 12, "-3": -3},
    **{"$1,234.50": 1234.5, "1,234,567": 1234567, "-$3": -3, "$-3": -3, "10-15": 12.5},
    **{"$1,000-$2,000": 1500, "10 \u2013 15": 12.5, "-4--2": -3, "None": None, '"none".': None},
}
NEITHER = (
    "",
    "about 5",
    "5 hours",
    "5k",
    "12,34",
    "1.234,5",
    "5-6-7",
    "5\n6",
    "\u0665",
    "-",
    "nan",
)


def test_replies_of_an_extractor() -> None:
    assert {reply: read_extracted(reply) for reply in REPLIES} == REPLIES
    for reply in (*NEITHER, "9" * 200):
        with pytest.raises(UnansweredError, match=r"is neither a number nor None$"):
            read_extracted(reply)


RESPONSES = ["Long. => 10-15", "{city}? => None", "Long. => 10-15", "=> many", "=> -$1,200"]
VALUES = [12.5, None, 12.5, None, 1200]  # the paper drops signs


def test_extraction(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = tmp_path / "journal"
    with ChatServer(play).running() as server:
        endpoint = Endpoint(server.url, "small")
        assert extract(endpoint, MIAMI, RESPONSES, journal) == VALUES
        assert "travel_miami: 1 of 5 values are missing: small sent no usable" in caplog.text
        assert len(server.bodies) == 4  # the same is asked once
        assert {body["messages"][1]["content"] for body in server.bodies} == {
            "Extract the total travel time from the text. Return only the number of hours as a "
            'numeric value. If no value can be inferred from the text, return "None".\n\n'
            f"Answer text:\n{response}"
            for response in RESPONSES
        }
        # A second call sends what is new.
        assert extract(endpoint, MIAMI, [*RESPONSES, "=> 7"], journal) == [*VALUES, 7]
        assert len(server.bodies) == 5
    # If all replies are known, no server is needed.
    assert extract(endpoint, MIAMI, RESPONSES, journal) == VALUES


def test_an_extraction_without_any_value(tmp_path: Path) -> None:
    with (
        ChatServer(play, dict.fromkeys(range(3), "400")).running() as server,
        pytest.raises(InputError, match=r"/v1: no reply can be used, the last one because .*Oops"),
    ):
        extract(Endpoint(server.url, "m"), MIAMI, ["=> 1", "=> 2", "=> 3"], tmp_path / "journal")


# Checking -----------------------------------------------------------------------------------------


def test_a_file_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.jsonl"
    check = ["paraphrase", "--check", str(path), "--prompt"]
    texts = ["How far is it?", "How far is {town} from here?", "Is {town} 5 miles off?"]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    with pytest.raises(SystemExit) as ended:
        main([*check, "How far is {town} from here, friend?"])
    assert ended.value.code == 1
    assert capsys.readouterr().out.splitlines() == [
        "1: not exactly one {town}: How far is it?",
        "3: adds the number 5: Is {town} 5 miles off?",
        "0 and 2: 92% of the words are the same: How far is {town} from here?",
        "3 paraphrases, 3 faults",
    ]
    path.write_text(json.dumps({"text": "To Miami from {city}: how many hours by air?"}))
    with pytest.raises(SystemExit) as ended:
        main([*check, MIAMI.name])
    assert not ended.value.code
    assert capsys.readouterr().out == "1 paraphrases, 0 faults\n"
