"""The command `pragworld-tasks paraphrase`."""

import argparse
import sys
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command, at_least
from pragworld_tasks.errors import InputError


def add_paraphrase(commands: Commands) -> None:
    """Add the command to those of `pragworld-tasks`."""
    command = add_command(
        commands,
        "paraphrase",
        _paraphrase,
        "paraphrase a prompt of your own with a model behind an API, or check paraphrases",
        description="As in arXiv 2506.16584, the model translates the prompt through two languages "
        "and back, a judge rejects what makes another request, and the most different of the rest "
        "are chosen. The key is read from OPENAI_API_KEY. Replies are kept in FILE.journal: rerun "
        "the same command to resume.",
        example="pragworld-tasks paraphrase --base-url http://localhost:8000/v1 --model … \\\n"
        "  --prompt 'I live in {city}. How long is a flight to Rome?' --out rome.jsonl\n"
        "pragworld-tasks paraphrase --check rome.jsonl \\\n"
        "  --prompt 'I live in {city}. How long is a flight to Rome?'",
    )
    add = command.add_argument
    add(
        "--prompt",
        required=True,
        metavar="TEXT",
        help="with a slot: 'I live in {city}. How …'; or one of the fifteen: travel_miami, …",
    )
    add(
        "--check",
        type=Path,
        metavar="FILE",
        help="write nothing, but list paraphrases in FILE without the slot, with other numbers "
        "than the prompt's or much like another one, and exit with status 1 if there are any",
    )
    add("--base-url", metavar="URL", help="an OpenAI-compatible server: …/v1")
    add("--model", metavar="NAME", help="the model's name there")
    add("--judge", metavar="NAME", help="the judge's name there; default: that of --model")
    add("--out", type=Path, metavar="FILE", help="the file to write, JSON lines")
    add("--overwrite", action="store_true", help="replace what exists")
    for name, default, what in (
        ("number", 50, "paraphrases"),
        ("concurrency", 8, "requests at a time"),
        ("max-tokens", 4096, "tokens of a reply, with its reasoning"),
    ):
        text = f"{what}; default: {default}"
        add(f"--{name}", type=int, default=default, metavar="N", help=text)
    add(
        "--embeddings",
        default="sentence-transformers/all-MiniLM-L6-v2",
        metavar="MODEL",
        help="name or folder of a sentence-transformers model; default: all-MiniLM-L6-v2",
    )


def _paraphrase(options: argparse.Namespace) -> None:
    from pragworld_tasks.chat import Endpoint
    from pragworld_tasks.files import check_output
    from pragworld_tasks.sensitivity.open_questions import questions
    from pragworld_tasks.sensitivity.paraphrases import find_fault, list_faults, read_paraphrases
    from pragworld_tasks.sensitivity.paraphrasing import paraphrase

    question = questions().get(options.prompt)
    prompt = question.prompt if question else options.prompt
    if fault := find_fault(prompt, prompt):
        raise InputError(f"prompt {prompt!r:.80}: {fault}; correct that")
    if options.check:
        texts = read_paraphrases(options.check)
        faults = list_faults(prompt, texts)
        print(*faults, f"{len(texts)} paraphrases, {len(faults)} faults", sep="\n")
        sys.exit(1 if faults else 0)
    for name in ("base_url", "model", "out"):
        if getattr(options, name) is None:
            raise InputError(f"paraphrase: needs --{name.replace('_', '-')}, or --check FILE")
    at_least(options, number=1, concurrency=1, max_tokens=1)
    check_output(options.out, options.overwrite)
    limits = {"concurrency": options.concurrency, "max_tokens": options.max_tokens}
    endpoint = Endpoint(options.base_url, options.model, **limits)
    judge = options.judge or options.model
    paraphrase(prompt, endpoint, judge, options.out, options.number, options.embeddings)
