"""Paraphrasing a prompt as in arXiv 2506.16584, section 4: propose, judge, choose.

A model proposes candidates (`paraphrase_prompts`). Those with a visible fault are rejected, a judge
rejects those that make another request (`paraphrase_candidates`), and of the rest the most
different are chosen (`selection`).
"""

import contextlib
import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from pragworld_tasks.chat import Endpoint, UnansweredError, Usage, connect, run_async
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import write_whole
from pragworld_tasks.sensitivity.paraphrase_candidates import TRIES, Candidates, gather_candidates
from pragworld_tasks.sensitivity.paraphrase_prompts import Judge, Survey, Translation
from pragworld_tasks.sensitivity.selection import embed, farthest_first, load_embedder, spread

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def paraphrase(
    prompt: str,
    method: Translation | Survey,
    endpoint: Endpoint,
    judge_model: str,
    out: Path,
    number: int,
    candidates: int,
    embeddings: str,
) -> None:
    """Write the most different of many paraphrases to a file, and print what it took.

    All replies are kept in a journal beside the file, so an interrupted run resumes.

    Args:
        prompt: The base prompt, with one slot.
        method: How candidates are proposed.
        endpoint: The server.
        judge_model: The name of the judge there.
        out: The file to write, JSON lines.
        number: The number of paraphrases.
        candidates: The number of accepted candidates from which to choose them.
        embeddings: A sentence-transformers model: a name or a folder.

    Raises:
        InputError: A package is missing, the endpoint, the journal or the file cannot be used, or
            too few candidates were accepted.
    """
    kind = "translation" if isinstance(method, Translation) else "survey"
    settings = {
        "paraphrase": kind,
        **dataclasses.asdict(method),
        "prompt": prompt,
        "judge_model": judge_model,
    }
    journal = out.with_name(f"{out.name}.journal")
    judge = Judge(prompt, judge_model)
    try:
        embedder, tried, usage = run_async(
            _gather(prompt, method, judge, endpoint, journal, settings, candidates, embeddings)
        )
    except KeyboardInterrupt:
        print(f"{journal}: all replies so far; rerun the command to resume", file=sys.stderr)
        raise
    print(_account(tried, candidates))
    print(usage)
    accepted = tried.accepted
    if not accepted:
        ((reason, count),) = tried.rejected.most_common(1)
        raise InputError(
            f"none of the first {tried.tried} candidates was accepted, {count} because: {reason}; "
            f"correct the prompt, or use another model ({journal} keeps all replies)"
        )
    if len(accepted) < number:
        raise InputError(
            f"{len(accepted)} paraphrases were accepted, but --number is {number}; raise "
            f"--candidates ({journal} keeps all replies), lower --number, or use another model"
        )
    vectors = embed(embedder, [prompt, *(candidate.text for candidate in accepted)])
    chosen = farthest_first(vectors[0], vectors[1:], number)
    lines = [
        json.dumps(
            {
                "text": accepted[index].text,
                "source": f"{accepted[index].source}; judged by {judge_model}",
            },
            ensure_ascii=False,
        )
        for index in chosen
    ]
    write_whole(out, ("\n".join(lines) + "\n").encode())
    print(f"{out}: {number} of {len(accepted)}; {spread(vectors[0], vectors[1:][chosen])}")
    print(f"{journal}: all replies; remove it once you need no other choice of them")


async def _gather(
    prompt: str,
    method: Translation | Survey,
    judge: Judge,
    endpoint: Endpoint,
    journal: Path,
    settings: Mapping[str, Any],
    wanted: int,
    embeddings: str,
) -> tuple["SentenceTransformer", Candidates, Usage]:
    """Load the embeddings and gather the candidates, with a progress bar on a terminal.

    Loading takes seconds, so the first candidate shows before that whether the endpoint can be
    used. If loading fails, no more requests are paid for.
    """
    async with connect(endpoint, journal, settings) as connection:
        with contextlib.suppress(UnansweredError):
            await method(connection, 0)
        embedder = load_embedder(embeddings)
        with tqdm(total=wanted, desc="accepted") as progress:

            def show(candidates: Candidates) -> None:
                rejected = candidates.rejected.total()
                progress.set_postfix_str(f"{rejected} rejected", refresh=False)
                progress.update(len(candidates.accepted) - progress.n)

            candidates = await gather_candidates(connection, prompt, method, judge, wanted, show)
            return embedder, candidates, connection.usage


def _account(candidates: Candidates, wanted: int) -> str:
    """Return how many candidates were tried, accepted and rejected, and why."""
    accepted = len(candidates.accepted)
    lines = [f"{candidates.tried} tried, {accepted} accepted"]
    lines += [f"  {count} rejected: {why}" for why, count in candidates.rejected.most_common()]
    if 0 < accepted < wanted:
        lines.append(
            f"Only {accepted} of --candidates {wanted} were accepted, after {TRIES} times as many "
            "were tried."
        )
    return "\n".join(lines)
