"""The commands `pragworld-tasks paraphrase` and `pragworld-tasks check-paraphrases`."""

import argparse
import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pragworld_tasks.errors import InputError

if TYPE_CHECKING:
    from pragworld_tasks.endpoint import Endpoint, Usage
    from pragworld_tasks.request_journal import Journal
    from pragworld_tasks.sensitivity.candidates import Candidates, Propose
    from pragworld_tasks.sensitivity.questions import Question
    from pragworld_tasks.sensitivity.survey import Survey
    from pragworld_tasks.sensitivity.translation import Translation

DEFAULT_EMBEDDINGS = "sentence-transformers/all-MiniLM-L6-v2"

_PARAPHRASE = """\
Has a model paraphrase a prompt, as in "Measuring (a Sufficient) World Model in LLMs" (arXiv
2506.16584): translates it through two languages and back (or has it written by participants of a
survey), drops what lost or changed the slot or a number, has a judge drop what asks for something
else, and of the rest chooses the most different. The key is read from OPENAI_API_KEY. All answers
are kept beside --out, in *.journal: the same command goes on where it was ended, and asks nothing
twice."""


def add_paraphrase(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds both to the commands of `pragworld-tasks`."""
    _add_make(commands)
    _add_check(commands)


def _add_make(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = commands.add_parser(
        "paraphrase",
        help="paraphrases of a prompt of your own, by a model behind an API",
        description=_PARAPHRASE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "--base-url", required=True, metavar="URL", help="of an OpenAI-compatible server: …/v1"
    )
    command.add_argument("--model", required=True, metavar="NAME", help="which paraphrases")
    asked = command.add_mutually_exclusive_group(required=True)
    asked.add_argument(
        "--prompt", metavar="TEXT", help="with one slot: 'I live in {city} and need to …'"
    )
    asked.add_argument("--question", metavar="NAME", help="one of the fifteen, as travel_miami")
    command.add_argument("--out", required=True, type=Path, metavar="FILE", help="JSON lines")
    command.add_argument("--method", choices=("translation", "survey"), default="translation")
    command.add_argument(
        "--scenario", metavar="TEXT", help="of the survey: what its participants want to know"
    )
    command.add_argument("--number", type=int, default=50, metavar="N", help="default: 50")
    command.add_argument(
        "--candidates",
        type=int,
        default=500,
        metavar="N",
        help="of which to choose; three times as many are tried at most. Default: 500",
    )
    command.add_argument(
        "--embeddings",
        default=DEFAULT_EMBEDDINGS,
        metavar="MODEL",
        help=f"of sentence-transformers: a name or a folder; default: {DEFAULT_EMBEDDINGS}",
    )
    command.add_argument("--judge-model", metavar="NAME", help="default: that of --model")
    command.add_argument(
        "--concurrency", type=int, default=8, metavar="N", help="requests at a time; default: 8"
    )
    command.add_argument(
        "--temperature", type=float, default=1.0, metavar="T", help="default: 1. The judge's is 0"
    )
    command.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="that the server may be silent before it is asked again; default: 60",
    )
    command.add_argument("--seed", type=int, default=0, help="of the languages; default: 0")
    command.add_argument(
        "--prices",
        nargs=2,
        type=float,
        metavar=("IN", "OUT"),
        help="dollars for a million tokens, to show the cost",
    )
    command.set_defaults(run=_paraphrase)


def _add_check(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = commands.add_parser(
        "check-paraphrases",
        help="what is wrong with a file of paraphrases",
        description="Lists paraphrases without the slot, with other numbers than the prompt's, or "
        "much like another one. Exit status 1 if there are any.",
    )
    command.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="default: those that come along"
    )
    asked = command.add_mutually_exclusive_group(required=True)
    asked.add_argument("--prompt", metavar="TEXT", help="which FILE paraphrases, with its slot")
    asked.add_argument("--question", metavar="NAME", help="one of the fifteen, as travel_miami")
    command.add_argument(
        "--embeddings",
        metavar="MODEL",
        help="of sentence-transformers: says how much they differ",
    )
    command.set_defaults(run=_check)


def _paraphrase(options: argparse.Namespace) -> None:
    from pragworld_tasks.endpoint import Endpoint, require_client, run
    from pragworld_tasks.files import write_whole
    from pragworld_tasks.request_journal import Journal
    from pragworld_tasks.sensitivity import selection

    question = _question(options)
    _check_options(options)
    endpoint = Endpoint(
        options.base_url,
        options.model,
        options.concurrency,
        options.timeout,
        tuple(options.prices) if options.prices else None,
    )
    propose = _method(options, question)
    judge_model = options.judge_model or options.model
    settings = {
        "paraphrase": options.method,
        **dataclasses.asdict(propose),
        "prompt": question.prompt,
        "judge_model": judge_model,
    }
    require_client()
    embeddings = selection.load(options.embeddings)
    path = options.out.with_name(options.out.name + ".journal")
    with Journal(path, settings) as journal:
        try:
            found, usage = run(
                _gather(endpoint, journal, question, propose, judge_model, options.candidates)
            )
        except KeyboardInterrupt:
            print(f"{path}: what was answered so far; the same command goes on", file=sys.stderr)
            raise
    print(_account(found, options.candidates))
    print(_bill(usage, endpoint.prices))
    if len(found.accepted) < options.number:
        raise InputError(
            f"{len(found.accepted)} paraphrases were accepted, fewer than --number "
            f"{options.number}; raise --candidates ({path} keeps what was answered), lower "
            "--number, or take another model"
        )
    texts = [one.text for one in found.accepted]
    vectors = selection.embed(embeddings, [question.prompt, *texts])
    base, candidates = vectors[0], vectors[1:]
    chosen = selection.farthest_first(base, candidates, options.number)
    lines = [
        json.dumps(
            {
                "text": found.accepted[number].text,
                "source": f"{found.accepted[number].source}; judged by {judge_model}",
            },
            ensure_ascii=False,
        )
        for number in chosen
    ]
    write_whole(options.out, ("\n".join(lines) + "\n").encode())
    print(
        f"{options.out}: {len(chosen)} chosen of {len(candidates)}; "
        f"{selection.spread(base, candidates[chosen])}"
    )
    print(f"{path}: all answers; remove it once you want no other choice of them")


def _check(options: argparse.Namespace) -> None:
    from pragworld_tasks.sensitivity import paraphrases, selection

    question = _question(options)
    if options.file:
        found = paraphrases.read(options.file)
    elif options.question:
        found = paraphrases.shipped(question.name)
    else:
        raise InputError("check-paraphrases: which file? --prompt goes with FILE")
    texts = [one.text for one in found]
    faults = paraphrases.check(question.prompt, question.slot, texts)
    print(*faults, f"{len(texts)} paraphrases, {len(faults)} faults", sep="\n")
    if options.embeddings:
        model = selection.load(options.embeddings)
        vectors = selection.embed(model, [question.prompt, *texts])
        print(selection.spread(vectors[0], vectors[1:]))
    if faults:
        sys.exit(1)


def _question(options: argparse.Namespace) -> "Question":
    """The one that is named, or one of the prompt that is given.

    Raises:
        InputError: there is none of the name, or the prompt cannot be paraphrased.
    """
    from pragworld_tasks.sensitivity.paraphrases import fault
    from pragworld_tasks.sensitivity.questions import Question, questions, slot_of

    if options.question:
        if options.question not in questions():
            raise InputError(
                f"no question {options.question!r}; there are {', '.join(questions())}"
            )
        return questions()[options.question]
    prompt = options.prompt
    if found := fault(prompt, slot_of(prompt), prompt):
        raise InputError(f"prompt {prompt!r:.80}: {found}; mend that")
    return Question("own", prompt, (), "")


def _check_options(options: argparse.Namespace) -> None:
    """Raises an `InputError` where some make no sense."""
    if options.number < 1:
        raise InputError(f"--number {options.number}: at least 1")
    if options.candidates < options.number:
        raise InputError(
            f"--candidates {options.candidates}: fewer than --number {options.number}, "
            "which are to be chosen of them"
        )
    if not 0 <= options.temperature < math.inf:
        raise InputError(f"--temperature {options.temperature:g}: at least 0")
    if options.scenario is not None and options.method != "survey":
        raise InputError("--scenario is of --method survey; give that too")
    if options.out.is_dir():
        raise InputError(f"{options.out}: a folder; name a file")
    for text in (options.prompt, options.scenario, options.model, options.judge_model):
        try:
            (text or "").encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{text!r:.80}: not UTF-8; set the terminal to that") from error


def _method(options: argparse.Namespace, question: "Question") -> "Translation | Survey":
    """How candidates are to be come by.

    Raises:
        InputError: a survey without a scenario.
    """
    from pragworld_tasks.sensitivity.survey import TOPIC, Survey, system_text, task
    from pragworld_tasks.sensitivity.translation import Translation

    if options.method == "translation":
        return Translation(question.prompt, options.model, options.temperature, options.seed)
    scenario = options.scenario or question.survey
    if not scenario.strip():
        raise InputError("--method survey: no --scenario; say what its participants want to know")
    # The paper's topic goes with the paper's scenarios only.
    system = system_text("" if options.scenario else TOPIC)
    return Survey(system, task(scenario, question.slot), options.model, options.temperature)


async def _gather(
    endpoint: "Endpoint",
    journal: "Journal",
    question: "Question",
    propose: "Propose",
    judge_model: str,
    wanted: int,
) -> tuple["Candidates", "Usage"]:
    """The candidates, with a progress bar where somebody watches."""
    from tqdm import tqdm

    from pragworld_tasks.endpoint import connect
    from pragworld_tasks.sensitivity.candidates import Candidates, gather
    from pragworld_tasks.sensitivity.equivalence import Equivalence

    with tqdm(total=wanted, desc="accepted", disable=None) as progress:
        async with connect(endpoint, journal) as connection:

            def show(found: Candidates) -> None:
                usage = connection.usage
                state = f"{found.rejected.total()} rejected, {usage.tokens:,} tokens"
                if endpoint.prices:
                    state += f", ${usage.cost(endpoint.prices):.4f}"
                progress.set_postfix_str(state, refresh=False)
                progress.update(len(found.accepted) - progress.n)

            judge = Equivalence(question.prompt, judge_model)
            found = await gather(connection, question.prompt, propose, judge, wanted, show)
            return found, connection.usage


def _account(found: "Candidates", wanted: int) -> str:
    """What became of the candidates, in words."""
    from pragworld_tasks.sensitivity.candidates import TRIES

    reasons = "".join(f"\n  {count} rejected: {why}" for why, count in found.rejected.most_common())
    account = f"{found.tried} tried, {len(found.accepted)} accepted{reasons}"
    if len(found.accepted) < wanted:
        account += (
            f"\nOnly {len(found.accepted)} of --candidates {wanted} were accepted, of {TRIES} "
            "times as many tried."
        )
    return account


def _bill(usage: "Usage", prices: tuple[float, float] | None) -> str:
    """What was asked and what it took, in words."""
    bill = (
        f"{usage.asked:,} requests answered, {usage.kept:,} more in earlier runs; tokens: "
        f"{usage.prompt_tokens:,} of prompts, {usage.answer_tokens:,} of answers"
    )
    if prices:
        bill += f"; ${usage.cost(prices):.4f}"
    if usage.uncounted:
        bill += f"; the server did not count those of {usage.uncounted:,} answers"
    return bill
