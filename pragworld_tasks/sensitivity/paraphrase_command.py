"""The commands `pragworld-tasks paraphrase` and `pragworld-tasks check-paraphrases`."""

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pragworld_tasks.command_line import Commands, add_command, at_least
from pragworld_tasks.errors import InputError

if TYPE_CHECKING:
    from pragworld_tasks.sensitivity.open_questions import OpenQuestion
    from pragworld_tasks.sensitivity.paraphrase_prompts import Survey, Translation

DEFAULT_EMBEDDINGS = "sentence-transformers/all-MiniLM-L6-v2"


def add_paraphrase(commands: Commands) -> None:
    """Add both commands to those of `pragworld-tasks`."""
    _add_paraphrase(commands)
    _add_check(commands)


def _add_paraphrase(commands: Commands) -> None:
    command = add_command(
        commands,
        "paraphrase",
        _paraphrase,
        "paraphrase a prompt of your own with a model behind an API",
        description="As in arXiv 2506.16584, it has a model translate the prompt through two "
        "languages and back (or write it as participants of a survey), rejects what changes the "
        "slot or a number, has a judge reject what makes another request, and chooses the most "
        "different of the rest. The key is read from OPENAI_API_KEY. All replies are kept in "
        "FILE.journal: rerun the same command to resume, and no request is sent twice.",
        example="pragworld-tasks paraphrase --base-url http://localhost:8000/v1 --model … \\\n"
        "  --prompt 'I live in {city}. How long is a flight to Rome?' --out rome.jsonl",
    )
    command.add_argument(
        "--base-url", required=True, metavar="URL", help="an OpenAI-compatible server: …/v1"
    )
    command.add_argument("--model", required=True, metavar="NAME", help="the model's name there")
    _add_prompt(command)
    command.add_argument(
        "--out", required=True, type=Path, metavar="FILE", help="the file to write, JSON lines"
    )
    command.add_argument(
        "--overwrite", action="store_true", help="replace the file of --out if it exists"
    )
    command.add_argument(
        "--method",
        choices=("translation", "survey"),
        default="translation",
        help="default: translation",
    )
    command.add_argument(
        "--scenario", metavar="TEXT", help="for a survey: what its participants want to know"
    )
    command.add_argument(
        "--number", type=int, default=50, metavar="N", help="paraphrases to write; default: 50"
    )
    command.add_argument(
        "--candidates",
        type=int,
        default=500,
        metavar="N",
        help="accepted paraphrases to choose from; at most three times as many are tried; default: "
        "500",
    )
    command.add_argument(
        "--embeddings",
        default=DEFAULT_EMBEDDINGS,
        metavar="MODEL",
        help=f"a sentence-transformers model: a name or a folder; default: {DEFAULT_EMBEDDINGS}",
    )
    command.add_argument("--judge-model", metavar="NAME", help="default: that of --model")
    command.add_argument(
        "--concurrency", type=int, default=8, metavar="N", help="requests at a time; default: 8"
    )
    command.add_argument(
        "--temperature",
        type=float,
        default=1.0,
        metavar="T",
        help="temperature of --model; default: 1, and 0 for the judge",
    )
    command.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="silence of the server after which a request is retried; default: 60",
    )
    command.add_argument("--seed", type=int, default=0, help="seed of the languages; default: 0")


def _add_check(commands: Commands) -> None:
    command = add_command(
        commands,
        "check-paraphrases",
        _check,
        "check a file of paraphrases",
        description="It lists paraphrases without the slot, with other numbers than the prompt's, "
        "with a preface, a note or formatting, that ask for yes or no where the prompt asks for a "
        "value, or much like another one, and exits with status 1 if there are any.",
        example="pragworld-tasks check-paraphrases rome.jsonl \\\n"
        "  --prompt 'I live in {city}. How long is a flight to Rome?'",
    )
    command.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="default: the paraphrases of --question that are part of this package",
    )
    _add_prompt(command)
    command.add_argument(
        "--embeddings",
        metavar="MODEL",
        help="a sentence-transformers model: list pairs with nearly the same embeddings as well, "
        "and print how much the paraphrases differ",
    )


def _add_prompt(command: argparse.ArgumentParser) -> None:
    group = command.add_mutually_exclusive_group(required=True)
    group.add_argument("--prompt", metavar="TEXT", help="with a slot: 'I live in {city}. How …'")
    group.add_argument("--question", metavar="NAME", help="one of the fifteen: travel_miami, …")


def _paraphrase(options: argparse.Namespace) -> None:
    from pragworld_tasks.chat import Endpoint
    from pragworld_tasks.sensitivity.paraphrasing import paraphrase

    question = _question(options)
    _check_options(options)
    endpoint = Endpoint(
        options.base_url,
        options.model,
        options.concurrency,
        options.timeout,
    )
    paraphrase(
        question.prompt,
        _method(options, question),
        endpoint,
        options.judge_model or options.model,
        options.out,
        options.number,
        options.candidates,
        options.embeddings,
    )


def _check(options: argparse.Namespace) -> None:
    from pragworld_tasks.sensitivity import paraphrases, selection

    question = _question(options)
    if options.file:
        wordings = paraphrases.read_paraphrases(options.file)
    elif options.question:
        wordings = paraphrases.shipped_paraphrases(question.name)
    else:
        raise InputError("check-paraphrases --prompt: needs a FILE of its paraphrases; add it")
    texts = [wording.text for wording in wordings]
    faults, spread = paraphrases.list_faults(question.prompt, texts), None
    if options.embeddings:
        embedder = selection.load_embedder(options.embeddings)
        vectors = selection.embed(embedder, [question.prompt, *texts])
        faults += [
            f"{i} and {j}: cosine similarity {cosine:.3f}: {texts[j - 1]}"
            for i, j, cosine in selection.close_pairs(vectors)
        ]
        spread = selection.spread(vectors[0], vectors[1:])
    print(*faults, f"{len(texts)} paraphrases, {len(faults)} faults", sep="\n")
    if spread:
        print(spread)
    if faults:
        sys.exit(1)


def _question(options: argparse.Namespace) -> "OpenQuestion":
    """Return the question of `--question`, or one with the prompt of `--prompt`.

    Raises:
        InputError: There is no such question, or the prompt cannot be paraphrased.
    """
    from pragworld_tasks.sensitivity.open_questions import OpenQuestion, questions
    from pragworld_tasks.sensitivity.paraphrases import find_fault

    if options.question:
        if options.question not in questions():
            raise InputError(
                f"--question {options.question}: must be one of {', '.join(questions())}"
            )
        return questions()[options.question]
    if fault := find_fault(options.prompt, options.prompt):
        raise InputError(f"prompt {options.prompt!r:.80}: {fault}; correct that")
    return OpenQuestion("own", options.prompt, (), "")


def _check_options(options: argparse.Namespace) -> None:
    """Refuse options that make no sense, with an `InputError`."""
    from pragworld_tasks.files import check_output, refusing

    at_least(options, number=1)
    if options.candidates < options.number:
        raise InputError(
            f"--candidates {options.candidates}: must be at least --number {options.number}, since "
            "the paraphrases are chosen from them"
        )
    if not 0 <= options.temperature < math.inf:
        raise InputError(f"--temperature {options.temperature:g}: must be at least 0")
    if options.scenario is not None and options.method != "survey":
        raise InputError("--scenario: needs --method survey; add it, or leave out the scenario")
    with refusing(options.out):
        if options.out.exists():
            check_output(options.out, options.overwrite)
    for text in (options.prompt, options.scenario, options.model, options.judge_model):
        try:
            (text or "").encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{text!r:.80}: not UTF-8; set the terminal to that") from error


def _method(options: argparse.Namespace, question: "OpenQuestion") -> "Translation | Survey":
    """Return the method of proposing candidates.

    Raises:
        InputError: A survey has no scenario.
    """
    from pragworld_tasks.sensitivity import paraphrase_prompts as prompts

    if options.method == "translation":
        return prompts.Translation(
            question.prompt, options.model, options.temperature, options.seed
        )
    scenario = options.scenario or question.survey
    if not scenario.strip():
        raise InputError(
            "--method survey: needs a scenario; add --scenario with what its participants want to "
            "know"
        )
    # The paper's topic belongs to the paper's scenarios only.
    system = prompts.participant_prompt("" if options.scenario else prompts.TOPIC)
    task = prompts.survey_task(scenario, question.slot)
    return prompts.Survey(system, task, question.prompt, options.model, options.temperature)
