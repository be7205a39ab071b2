"""The commands `pragworld-tasks author` and `pragworld-tasks review`."""

import argparse
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command, at_least
from pragworld_tasks.errors import InputError

_RELEASED = ("manual", "synthetic")
_SAMPLES = 5  # of --model, unless a panel is named


def add_author(commands: Commands) -> None:
    """Add the command `author`."""
    command = add_command(
        commands,
        "author",
        _author,
        "write, alter and label documents with models behind an API",
        description="Writes new conversations in the manner of your seeds, alters each, asks a "
        "question, has a panel of models label every document, and audits the result. What the "
        "panel does not agree on goes to `review`. The server's key is read from OPENAI_API_KEY. "
        "Rerun the same command to resume an interrupted run, or with more --groups to add to a "
        "finished one: replies are kept in the folder.",
        example="pragworld-tasks author --seeds seeds.jsonl --base-url http://localhost:8000/v1 "
        "\\\n  --model … --groups 200 --out mine/",
    )
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--seeds",
        type=Path,
        metavar="FILE",
        help='JSON lines such as {"conversation": "Ann: …\\nBen: …", "kind": "location"}; kinds: '
        "general (the default), location, seller_buyer, doctor_patient",
    )
    source.add_argument(
        "--documents",
        metavar="FILE",
        help="label these documents, which have answers to compare, instead of writing new ones: "
        f"a file such as `generate` writes, or {' or '.join(_RELEASED)}, for a released split",
    )
    add = command.add_argument
    add("--out", type=Path, required=True, metavar="FOLDER", help="the folder to write")
    for name, default, what in (
        ("groups", 20, "groups with labels to write; at most four times as many are tried"),
        ("turns", 16, "turns of a conversation"),
        ("variants", 5, "alterations of a conversation, at most"),
        ("seed", 0, "seed of the draws"),
    ):
        text = f"{what}; default: {default}"
        add(f"--{name}", type=int, default=default, metavar="N", help=text)
    add(
        "--prompts",
        type=Path,
        metavar="FILE",
        help="TOML with prompts of your own in place of some or all of ours",
    )
    add = command.add_argument_group("models").add_argument
    add("--base-url", required=True, metavar="URL", help="an OpenAI-compatible server: …/v1")
    add("--model", required=True, metavar="NAME", help="the model that writes, by its name there")
    add(
        "--panel",
        nargs="+",
        metavar="MODEL",
        help="the models that label; one that is named twice is sampled twice; default: five "
        "samples of --model",
    )
    for name, value, metavar, what in (
        ("temperature", 1.0, "T", "sampling temperature of all models"),
        ("concurrency", 8, "N", "requests at a time"),
        ("timeout", 600.0, "SECONDS", "time without a reply after which a request is sent again"),
        ("max-tokens", 4096, "N", "tokens of a reply, with its reasoning"),
    ):
        text = f"{what}; default: {value:g}"
        add(f"--{name}", type=type(value), default=value, metavar=metavar, help=text)


def _author(options: argparse.Namespace) -> None:
    from pragworld_tasks.authoring import results
    from pragworld_tasks.authoring.labels import read_decisions
    from pragworld_tasks.authoring.pipeline import author_documents, count_groups, poll_documents
    from pragworld_tasks.authoring.records import AuthoringSettings, find_failures, read_prompts
    from pragworld_tasks.authoring.writing import read_seeds
    from pragworld_tasks.chat import Endpoint, run_async
    from pragworld_tasks.data.document_files import read_documents
    from pragworld_tasks.data.documents import check_yes_no
    from pragworld_tasks.data.sources import load_split

    at_least(options, groups=1, turns=4, variants=1, concurrency=1, temperature=0, max_tokens=1)
    limits = options.concurrency, options.timeout, options.max_tokens
    settings = AuthoringSettings(
        Endpoint(options.base_url, options.model, *limits),
        tuple(options.panel or [options.model] * _SAMPLES),
        read_prompts(options.prompts),
        options.temperature,
        options.groups,
        options.turns,
        options.variants,
        options.seed,
    )
    out = options.out
    results.check_is_authored(out)
    if options.seeds:
        seeds = read_seeds(options.seeds)
        work = author_documents(settings, seeds, out / results.JOURNAL)
    else:
        split = options.documents
        documents = load_split(split) if split in _RELEASED else read_documents(split)
        check_yes_no(documents, "author")
        work = poll_documents(settings, documents, out / results.JOURNAL)
    made = run_async(work)
    results.write_votes(out, made)
    print(made.usage)
    groups, waiting = results.write_results(out, made, read_decisions(out))
    # What reviewers reject is no failure of the run.
    is_short = options.seeds and max(groups, count_groups(made.documents)) < options.groups
    failures, has_no_reply = find_failures(made.documents, made.dropped)
    if has_no_reply and (is_short or waiting):
        raise InputError(f"{out}: not finished: {failures}")
    if failures:
        print(f"{out}: {failures}")
    if is_short:
        more = "decide documents in review, or use more --groups, or" if made.documents else "use"
        raise InputError(
            f"{out}: only {groups} of {options.groups} groups have labels; see "
            f"{out / 'report.md'}, and {more} other seeds or another model in another folder"
        )


def add_review(commands: Commands) -> None:
    """Add the command `review`."""
    command = add_command(
        commands,
        "review",
        _review,
        "apply what reviewers decided about the documents of `author`",
        description="`author` writes FOLDER/review.html. It needs no server: open it in a browser, "
        "decide by key or button, and save your decisions as a file. --apply adds the file to the "
        "folder's decisions, of which the last one about a document counts, and writes documents, "
        "audit and page anew.",
        example="pragworld-tasks review mine/ --apply decisions-Ann.json",
    )
    command.add_argument("folder", type=Path, metavar="FOLDER", help="the --out of `author`")
    command.add_argument(
        "--apply",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="files of decisions, as the page saves them; the later ones count",
    )


def _review(options: argparse.Namespace) -> None:
    from pragworld_tasks.authoring import results
    from pragworld_tasks.authoring.labels import add_decisions

    made = results.read_votes(options.folder)
    decisions = add_decisions(options.folder, options.apply)
    results.write_results(options.folder, made, decisions)
