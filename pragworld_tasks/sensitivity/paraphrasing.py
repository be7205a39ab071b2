"""Paraphrasing a prompt as in arXiv 2506.16584, section 4: translate, judge, choose.

A model translates the prompt through two languages and back. Candidates with a visible fault are
rejected, a judge rejects those that make another request, and of the rest the most different are
chosen. The paper does not publish the judge's prompt, and says of the choice only "greedy selection
… those with the highest mutual semantic distance"; `farthest_first` defines it.
"""

import asyncio
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from pragworld_tasks.chat import Connection, Endpoint, Request, UnansweredError, connect, run_async
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_package_toml, write_whole
from pragworld_tasks.sensitivity.paraphrases import find_fault

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CANDIDATES = 10  # for each paraphrase that is chosen, as in the paper: 500 for 50
TRIES = 3  # the most candidates that are tried for each that is wanted
FIRST = 50  # candidates of which one must be accepted, or no more are tried
_DECIMALS = 6  # of a distance; embeddings are no more precise than this

PROMPTS = read_package_toml(__package__, "prompts.toml")
LANGUAGES: list[str] = PROMPTS["languages"]
DISTANT = LANGUAGES[:3]


class Paraphrase(NamedTuple):
    """A wording of a prompt, and its source: the method, the languages and the model."""

    text: str
    source: str


class _Translation(BaseModel, extra="forbid"):
    translation: str


class _Verdict(BaseModel, extra="forbid"):
    same_request: bool


def language_chain(number: int) -> tuple[str, str]:
    """Return the two languages of candidate `number`, the same on every machine.

    Any two different languages, in any order, are equally likely if one is among `DISTANT`.
    """
    generator = random.Random(f"0 {number}")
    while True:
        first, second = generator.sample(LANGUAGES, 2)
        if first in DISTANT or second in DISTANT:
            return first, second


async def gather_candidates(
    connection: Connection, prompt: str, judge: str, wanted: int
) -> tuple[list[Paraphrase], Counter[str]]:
    """Try candidates until enough are accepted; return those, and why others were rejected.

    At most `TRIES` times as many are tried, and only the `FIRST` if none of them is accepted. A
    round never tries more than are still missing, so every run tries the same candidates.
    """
    from tqdm import tqdm

    accepted: list[Paraphrase] = []
    rejected = Counter[str]()
    seen = {prompt.casefold()}
    with tqdm(desc="candidates", unit="") as progress:

        async def attempt(number: int) -> Paraphrase | str:
            """Return a candidate, or why it is rejected."""
            try:
                candidate = await _translate(connection, prompt, number)
                if fault := find_fault(prompt, candidate.text):
                    return re.sub(r"\bthe number .*", "a number", fault)
                is_same = await _is_same_request(connection, judge, prompt, candidate.text)
                return candidate if is_same else "judged to make another request"
            except UnansweredError as error:
                return str(error).partition(" (")[0]
            finally:
                progress.update()

        while True:
            tried = len(accepted) + rejected.total()
            most = TRIES * wanted if accepted else min(FIRST, TRIES * wanted)
            numbers = range(tried, min(most, tried + wanted - len(accepted)))
            if not numbers:
                return accepted, rejected
            for result in await asyncio.gather(*map(attempt, numbers)):
                if isinstance(result, str):
                    rejected[result] += 1
                elif result.text.casefold() in seen:
                    rejected["duplicate"] += 1
                else:
                    seen.add(result.text.casefold())
                    accepted.append(result)


async def _translate(connection: Connection, prompt: str, number: int) -> Paraphrase:
    """Return the prompt, translated through the languages of candidate `number` and back."""
    model, languages, text = connection.endpoint.model, language_chain(number), prompt
    for language in (*languages, "English"):
        system = PROMPTS["translation"]["system"].format(language=language)
        label = f"translation {number} to {language}"
        request = Request(label, model, system, text, temperature=1.0, draw=number)
        reply = await connection.ask_structured(request, _Translation)
        text = reply.translation.strip()
    return Paraphrase(text, f"translation: {', '.join(languages)}; model {model}")


async def _is_same_request(connection: Connection, judge: str, prompt: str, text: str) -> bool:
    user = PROMPTS["judge"]["user"].format(prompt=prompt, text=text)
    request = Request("judge", judge, PROMPTS["judge"]["system"], user, temperature=0.0)
    return (await connection.ask_structured(request, _Verdict)).same_request


def load_embedder(model: str) -> "SentenceTransformer":
    """Load a model of sentence embeddings from a folder or the Hugging Face hub."""
    try:
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(model)
    except Exception as error:  # a missing package or model, a broken folder, no network …
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"embeddings {model!r}: cannot be loaded ({reason}); pip install "
            "'pragworld[paraphrase]', and pass --embeddings FOLDER if there is no network"
        ) from error


def farthest_first(
    base: NDArray[np.float64], candidates: NDArray[np.float64], number: int
) -> list[int]:
    """Return the indices of candidates, chosen one by one, as far as possible from those before.

    Each has the greatest minimum cosine distance from the base prompt and those chosen before; of
    several that are equal to six decimals, the one with the lowest index is chosen. `candidates`
    are [candidates, features], at least as many as `number`.
    """
    least = np.round(1 - candidates @ base, _DECIMALS)
    chosen: list[int] = []
    for _ in range(number):
        farthest = int(np.argmax(least))  # the first of several
        chosen.append(farthest)
        least = np.minimum(least, np.round(1 - candidates @ candidates[farthest], _DECIMALS))
        least[chosen] = -1
    return chosen


def paraphrase(
    prompt: str, endpoint: Endpoint, judge: str, out: Path, number: int, embeddings: str
) -> None:
    """Write the most different of ten times as many paraphrases to a file, and print what it took.

    The endpoint's model translates, `judge` names the judge there, and `embeddings` is a
    sentence-transformers model. A journal beside the file keeps replies, for an interrupted run.
    """
    embedder = load_embedder(embeddings)
    journal = out.with_name(f"{out.name}.journal")

    async def gather() -> tuple[list[Paraphrase], Counter[str]]:
        settings = {"prompt": prompt, "model": endpoint.model, "judge": judge}
        async with connect(endpoint, journal, settings) as connection:
            found = await gather_candidates(connection, prompt, judge, CANDIDATES * number)
            print(connection.usage)
            return found

    accepted, rejected = run_async(gather())
    print(f"{len(accepted) + rejected.total()} tried, {len(accepted)} accepted")
    for reason, count in rejected.most_common():
        print(f"  {count} rejected: {reason}")
    if len(accepted) < number:
        raise InputError(
            f"{len(accepted)} paraphrases were accepted, but --number is {number}; correct the "
            "prompt, or use another model"
        )
    texts = [prompt, *(candidate.text for candidate in accepted)]
    vectors = embedder.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    base, *others = np.asarray(vectors, np.float64)
    chosen = [accepted[index] for index in farthest_first(base, np.array(others), number)]
    lines = [json.dumps(one._asdict(), ensure_ascii=False) + "\n" for one in chosen]
    write_whole(out, "".join(lines).encode())
    print(f"{out}: {number} of {len(accepted)}; {journal} keeps all replies")
