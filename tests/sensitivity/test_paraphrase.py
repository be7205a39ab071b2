"""Paraphrases by a model behind an API: runs against a server, the choice, and checks of a file."""

import asyncio
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
from json_lines import read_lines, write_lines
from played_models import ADDED, play
from servers import ChatServer

from pragworld_tasks.chat import UnansweredError
from pragworld_tasks.cli import main
from pragworld_tasks.sensitivity import paraphrasing
from pragworld_tasks.sensitivity.open_questions import questions
from pragworld_tasks.sensitivity.paraphrases import find_fault
from pragworld_tasks.sensitivity.paraphrasing import (
    DISTANT,
    TRIES,
    Paraphrase,
    farthest_first,
    gather_candidates,
    language_chain,
)

MIAMI = questions()["travel_miami"]
TRANSLATOR = (
    r"You are a professional translator\. Translate the user text to \w+\. Return \*only\* the "
    "translation\u2014no commentary\\.\n\nReply with one JSON object"
)


@pytest.fixture(scope="module")
def embeddings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model of sentence embeddings: means of random vectors of words."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = dict.fromkeys(re.findall(r"\w+", f"{MIAMI.prompt} {ADDED}"))
    numbers = {word: number for number, word in enumerate(["?", *words])}
    tokenizer = Tokenizer(WordLevel(numbers, unk_token="?"))
    tokenizer.pre_tokenizer = Whitespace()
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("embeddings") / "words"
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=16)]).save(str(folder))
    return folder


def test_a_run_and_its_resumption(
    embeddings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(server: ChatServer, out: Path, *more: str) -> None:
        main(
            [
                *("paraphrase", "--base-url", server.url, "--model", "small", "--judge", "large"),
                *("--prompt", MIAMI.name, "--out", str(out), "--embeddings", str(embeddings)),
                *("--number", "2", *more),
            ]
        )

    out = tmp_path / "mine.jsonl"
    with ChatServer(play).running() as server:
        run(server, out)
        sent = len(server.bodies)
    for body in server.bodies:
        system, user = (message["content"] for message in body["messages"])
        if body["model"] == "small":
            assert re.match(TRANSLATOR, system)
            assert body["temperature"] == 1
        else:
            assert user.startswith(f"First prompt:\n{MIAMI.prompt}\n\nSecond prompt:\n")
            assert body["temperature"] == 0
    chosen = read_lines(out)
    assert len(chosen) == 2
    for wording in chosen:
        assert find_fault(MIAMI.prompt, wording["text"]) is None
        source = re.fullmatch(r"translation: (\w+), (\w+); model small", wording["source"])
        assert source
        first, second = source.groups()
        assert wording["text"] == f"{ADDED[first][0]} {MIAMI.prompt} {ADDED[second][1]}"
        # The languages with quirks, and those that the judge rejects.
        assert not {first, second} & {"Swahili", "Finnish", "Vietnamese", "Hebrew", "Hindi"}
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
            run(server, again, "--concurrency", "1")
        assert not again.exists()
        run(server, again)
        assert len(server.bodies) == sent + 1
        assert again.read_bytes() == out.read_bytes()
        with refused(r"again\.jsonl\.journal: written with judge 'large', not 'huge'; "):
            run(server, again, "--overwrite", "--judge", "huge")


def test_a_chain_goes_through_two_languages_one_of_them_distant() -> None:
    found = Counter(map(language_chain, range(7800)))
    assert len(found) == 15 * 14 - 12 * 11
    assert min(found.values()) > 50  # of 100 expected
    assert all({*chain} & {*DISTANT} for chain in found)
    assert [language_chain(number)[1] for number in range(3)] == ["German", "Hindi", "Swahili"]


REJECTED = {
    "lost": "not exactly one {slot}",
    "{slot} unlike": "judged to make another request",
    "{slot} babble": "the reply is malformed",
}
OUTCOMES = [*(f"{{slot}} {letter}" for letter in "abcdefg"), *REJECTED]


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
        return Paraphrase(outcomes[number], "source")

    async def judge(connection: Any, judge: str, prompt: str, text: str) -> bool:
        if "babble" in text:
            raise UnansweredError("the reply is malformed (no JSON)", "Well")
        return "unlike" not in text

    tried: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paraphrasing, "_translate", propose)
        patch.setattr(paraphrasing, "_is_same_request", judge)
        work: Any = gather_candidates(None, OUTCOMES[0], "large", wanted)  # type: ignore[arg-type]
        found, reasons = asyncio.run(work)
    accepted: list[str] = []
    rejected: Counter[str] = Counter()
    for text in outcomes[: TRIES * wanted]:
        if text in (*accepted, OUTCOMES[0]):
            rejected["duplicate"] += 1
        elif text in REJECTED:
            rejected[REJECTED[text]] += 1
        else:
            accepted.append(text)
        if len(accepted) == wanted:
            break
    assert [candidate.text for candidate in found] == accepted
    assert reasons == rejected
    assert sorted(tried) == list(range(len(found) + reasons.total()))  # none that was not needed


def brute_force(
    base: Sequence[float], vectors: Sequence[Sequence[float]], number: int
) -> list[int]:
    """Choose farthest first by its definition, from distances rounded to six decimals."""

    def distance(first: Sequence[float], second: Sequence[float]) -> float:
        return round(1 - sum(a * b for a, b in zip(first, second, strict=True)), 6)

    chosen: list[int] = []
    for _ in range(number):
        so_far = [base, *(vectors[i] for i in chosen)]
        left = [i for i in range(len(vectors)) if i not in chosen]
        nearest = {i: min(distance(vectors[i], one) for one in so_far) for i in left}
        chosen.append(max(left, key=lambda i: (nearest[i], -i)))
    return chosen


# Few different numbers, so that many distances tie.
COARSE = arrays(np.float64, (7, 3), elements=st.sampled_from([-1.0, 0.0, 1.0, 2.0]))


@given(COARSE, st.integers(1, 6))
def test_farthest_first_against_brute_force(vectors: Any, number: int) -> None:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    base, *others = vectors / np.where(lengths, lengths, 1)
    chosen = farthest_first(base, np.array(others), number)
    assert chosen == brute_force(base.tolist(), [one.tolist() for one in others], number)


def test_a_file_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.jsonl"
    prompt = "How far is {town} from here, friend?"
    texts = ["How far is it?", "How far is {town} from here?", "Is {town} 5 miles off?"]
    write_lines(path, ({"text": text} for text in texts))
    with pytest.raises(SystemExit) as ended:
        main(["paraphrase", "--check", str(path), "--prompt", prompt])
    assert ended.value.code == 1
    assert capsys.readouterr().out.splitlines() == [
        "1: not exactly one {town}: How far is it?",
        "3: adds the number 5: Is {town} 5 miles off?",
        "0 and 2: 92% of the words are the same: How far is {town} from here?",
        "3 paraphrases, 3 faults",
    ]
