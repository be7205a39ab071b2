"""The command `pragworld-tasks author`."""

import argparse
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pragworld_tasks.command_line import Commands, add_command, at_least
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import without_empty_folders
from pragworld_tasks.text import format_count

if TYPE_CHECKING:
    from pragworld_tasks.authoring.estimate import RequestEstimate
    from pragworld_tasks.authoring.folder import RunState, StageRecords
    from pragworld_tasks.authoring.pipeline import Progress
    from pragworld_tasks.authoring.settings import PanelSettings
    from pragworld_tasks.chat import Endpoint
    from pragworld_tasks.data.documents import Document

_RELEASED = ("manual", "synthetic")
_WRITING = {"groups": 20, "turns": 16, "variants": 5, "seed": 0}  # options, and their defaults
_SAMPLES = 5  # of --model, unless a panel is named


def add_author(commands: Commands) -> None:
    """Add the command `author`."""
    command = add_command(
        commands,
        "author",
        _author,
        "write, alter and label documents with models behind an API",
        description="As in arXiv 2511.13021, appendix A: lists the entities of your seed "
        "conversations, writes new conversations around them, alters each, asks a question, has a "
        "panel of models label every document, and audits the result. What fails a check is "
        "dropped with the reason; what the panel does not agree on goes to review "
        "(`author-review`). With --documents, labels and audits documents that exist. The key of "
        "--base-url is read from OPENAI_API_KEY. All replies are kept in the folder: rerun the "
        "same command to resume, and no request is sent twice except those in flight.",
        example="pragworld-tasks author --seeds seeds.jsonl --base-url http://localhost:8000/v1 "
        "\\\n  --model … --groups 200 --out mine/\n"
        "pragworld-tasks author --documents manual --base-url http://localhost:8000/v1 \\\n"
        "  --model … --out checked/",
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
    command.add_argument("--out", type=Path, metavar="FOLDER", help="the folder to write; required")
    command.add_argument(
        "--overwrite",
        action="store_true",
        help="compute the files of a finished folder again, from the replies in it; with more "
        "--groups, go on with it",
    )
    command.add_argument(
        "--dry-run",
        action="store_true",
        help="print about how many requests and tokens it takes, and send nothing",
    )
    command.add_argument(
        "--groups",
        type=int,
        metavar="N",
        help="groups with labels to write; at most four times as many are tried; default: 20",
    )
    command.add_argument(
        "--turns", type=int, metavar="N", help="turns of a conversation; default: 16"
    )
    command.add_argument(
        "--variants",
        type=int,
        metavar="N",
        help="alterations of a conversation, at most; default: 5",
    )
    command.add_argument(
        "--prompts",
        type=Path,
        metavar="FILE",
        help="TOML with prompts of your own in place of some or all of ours",
    )
    command.add_argument(
        "--print-prompts",
        nargs=0,
        action=_PrintPrompts,
        default=argparse.SUPPRESS,
        help="print our prompts, as --prompts takes them, and exit",
    )
    command.add_argument("--seed", type=int, help="seed of the draws; default: 0")
    _add_models(command)


class _PrintPrompts(argparse.Action):
    """Prints the prompts and exits, as `--help` does."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from pragworld_tasks.authoring.prompts import default_prompts

        print(default_prompts(), end="")
        parser.exit()


def _add_models(command: argparse.ArgumentParser) -> None:
    models = command.add_argument_group("models")
    models.add_argument("--base-url", metavar="URL", help="an OpenAI-compatible server: …/v1")
    models.add_argument("--model", metavar="NAME", help="the model's name there")
    models.add_argument(
        "--panel",
        nargs="+",
        action="append",
        default=[],
        metavar=("MODEL", "URL"),
        help="a member of the panel: MODEL [URL [KEY_VARIABLE]], the model's name, its server "
        "unless that is --base-url, and the environment variable that holds its key. Repeat it "
        "for each member; the same one again is another sample. Default: five samples of --model",
    )
    models.add_argument(
        "--agree",
        type=int,
        metavar="N",
        help="votes that have to be the same; default: three quarters of those cast",
    )
    models.add_argument(
        "--temperature", type=float, default=1.0, metavar="T", help="of all models; default: 1"
    )
    models.add_argument(
        "--concurrency",
        type=int,
        default=8,
        metavar="N",
        help="requests at a time to each server; default: 8",
    )
    models.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="silence of a server after which a request is retried; default: 60",
    )
    models.add_argument(
        "--prices",
        nargs=2,
        type=float,
        metavar=("IN", "OUT"),
        help="dollars per million tokens of prompts and replies, to show the cost with --dry-run",
    )


def _author(options: argparse.Namespace) -> None:
    if options.out is None:  # argparse would ask for it before it asks for --seeds or --documents
        raise InputError("author: needs --out; add the folder to write")
    for name, default in _WRITING.items():
        if getattr(options, name) is None:
            setattr(options, name, default)
        elif options.documents:
            raise InputError(f"--{name}: only with --seeds; leave it out with --documents")
    at_least(options, groups=1, turns=4, variants=1)
    if options.seeds:
        _write_documents(options)
    else:
        _label_documents(options)


def _write_documents(options: argparse.Namespace) -> None:
    from pragworld_tasks.authoring import estimate, pipeline
    from pragworld_tasks.authoring.decisions import read_reviews
    from pragworld_tasks.authoring.entities import read_seeds
    from pragworld_tasks.authoring.folder import RunState
    from pragworld_tasks.authoring.settings import AuthoringSettings

    for name in ("base_url", "model"):
        if not getattr(options, name):
            raise InputError(f"author --seeds: needs --{name.replace('_', '-')}; add it")
    settings = AuthoringSettings(
        tuple(read_seeds(options.seeds)),
        _panel(options),
        options.groups,
        options.turns,
        options.variants,
        options.seed,
    )
    run = RunState(
        settings=settings.identity, goal={"groups": options.groups, "agree": options.agree}
    )
    if options.dry_run:
        _print_estimate(
            options,
            run,
            settings.panel,
            estimate.estimate_authoring(settings, pipeline.ATTEMPTS),
        )
        return
    progress = pipeline.Progress(options.groups, "group")
    records = _records(
        options,
        run,
        progress,
        lambda: pipeline.author_groups(settings, options.out, read_reviews(options.out), progress),
    )
    _refuse_too_few(options, records)


def _label_documents(options: argparse.Namespace) -> None:
    from pragworld_tasks.authoring import estimate, pipeline
    from pragworld_tasks.authoring.folder import RunState
    from pragworld_tasks.authoring.settings import LabellingSettings

    settings = LabellingSettings(_documents(options.documents), _panel(options))
    run = RunState(settings=settings.identity, goal={"agree": options.agree})
    if options.dry_run:
        _print_estimate(options, run, settings.panel, estimate.estimate_labelling(settings))
        return
    progress = pipeline.Progress(len(settings.documents), "document")
    _records(
        options, run, progress, lambda: pipeline.label_documents(settings, options.out, progress)
    )


def _print_estimate(
    options: argparse.Namespace,
    run: "RunState",
    panel: "PanelSettings",
    estimated: "RequestEstimate",
) -> None:
    """Print what a run takes, after all checks that it begins with."""
    from pragworld_tasks.authoring.decisions import read_reviews
    from pragworld_tasks.authoring.folder import JOURNAL, is_finished

    out = options.out
    is_done = is_finished(out, run, options.overwrite)
    read_reviews(out)
    if is_done:
        print(f"0 requests, as {out} is finished")
        return
    print(estimated.to_text(_prices(options)))
    if (out / JOURNAL).exists():
        print(f"less what {out} has replies to already: these requests are not sent again")


def _records(
    options: argparse.Namespace,
    run: "RunState",
    progress: "Progress",
    work: "Callable[[], Coroutine[Any, Any, StageRecords]]",
) -> "StageRecords":
    """Return the records of a run, finished before or now, and print what came out.

    Args:
        options: the command's options.
        run: the run.
        progress: what `work` keeps up to date.
        work: what makes the records.
    """
    from pragworld_tasks.authoring.decisions import is_in_review, read_reviews
    from pragworld_tasks.authoring.folder import is_finished, locked, read_stages
    from pragworld_tasks.authoring.outputs import select_documents
    from pragworld_tasks.authoring.panel import lost_votes_text
    from pragworld_tasks.authoring.results import write_results
    from pragworld_tasks.chat import run_async

    out = options.out
    if is_finished(out, run, options.overwrite):
        print(f"{out}: finished before; pass --overwrite to compute its files again")
        records = read_stages(out)
    else:
        with without_empty_folders(out):
            out.mkdir(parents=True, exist_ok=True)
            with locked(out):
                reviews = read_reviews(out)
                try:
                    panel_records = run_async(work())
                except KeyboardInterrupt:
                    print(f"{out}: interrupted; rerun the command to resume", file=sys.stderr)
                    sys.exit(128 + signal.SIGINT)
                records = write_results(out, panel_records, reviews, run)
        print(progress.usage)
    waiting = sum(map(is_in_review, records.labels))
    print(
        f"{out}: {select_documents(records).to_text()}, {format_count(waiting, 'document')} in "
        f"review, {len(records.dropped)} dropped; see {out / 'report.md'}"
    )
    if lost := lost_votes_text(records.labels):
        print(f"{out}: {lost}")
    return records


def _refuse_too_few(options: argparse.Namespace, records: "StageRecords") -> None:
    """Exit with an `InputError` where fewer groups came out than were wanted."""
    from pragworld_tasks.authoring.agreement import labelled_groups
    from pragworld_tasks.authoring.decisions import REJECTED, is_in_review

    done = len(labelled_groups(records.labels))
    if done >= options.groups:
        return
    reasons = Counter(dropped.reason for dropped in records.dropped).most_common(3)
    why = "; ".join(f"{reason} ({format_count(times, 'time')})" for reason, times in reasons)
    waiting = sum(map(is_in_review, records.labels))
    rejected = sum(label.reason == REJECTED for label in records.labels)
    remedy = "use other seeds or another model in another folder"
    if rejected and not options.overwrite:  # the run had made up for what it dropped
        why = ""
        remedy = "rerun the command with --overwrite to write others"
    raise InputError(
        f"{options.out}: only {done} of {options.groups} groups have labels"
        + (f", as {why}" if why else "")
        + (f"; {format_count(waiting, 'document')} in review" if waiting else "")
        + (f"; reviewers rejected {rejected}" if rejected else "")
        + f"; see {options.out / 'report.md'}, and {remedy}"
        + (", or decide them with author-review" if waiting else "")
    )


def _documents(name: str) -> "list[Document]":
    from pragworld_tasks.data.own_documents import read_documents
    from pragworld_tasks.data.sources import load_split

    return load_split(name) if name in _RELEASED else read_documents(name)


def _prices(options: argparse.Namespace) -> tuple[float, float] | None:
    return tuple(options.prices) if options.prices else None


def _panel(options: argparse.Namespace) -> "PanelSettings":
    """Return the settings of the panel.

    Raises:
        InputError: A member has no server or no key, or an option is out of range.
    """
    from pragworld_tasks.authoring.prompts import Prompts
    from pragworld_tasks.authoring.settings import PanelSettings, Seat
    from pragworld_tasks.chat import Endpoint

    numbers = (options.concurrency, options.timeout)
    endpoints = (
        [Endpoint(options.base_url, options.model or "", *numbers)] if options.base_url else []
    )
    if not options.panel and not (options.base_url and options.model):
        raise InputError(
            "author: needs a panel; add --base-url and --model, or --panel with a model and a URL"
        )
    seats: list[Seat] = []
    for words in options.panel or [[options.model]] * _SAMPLES:
        model, url, variable = _member(words, options.base_url)
        endpoint = Endpoint(url, model, *numbers, key_variable=variable)
        place = next(
            (
                number
                for number, known in enumerate(endpoints)
                if _server(known) == _server(endpoint)
            ),
            len(endpoints),
        )
        if place == len(endpoints):
            endpoints.append(endpoint)
        sample = sum(seat.model == model for seat in seats)
        seats.append(Seat(model, place, sample))
    prompts = Prompts.read(options.prompts)
    return PanelSettings(
        tuple(endpoints), tuple(seats), prompts, options.temperature, options.agree
    )


def _member(words: list[str], base_url: str | None) -> tuple[str, str, str | None]:
    """Return model, URL and the variable of the key, as `--panel` names them.

    The key of `--base-url` goes to no other server.
    """
    if len(words) > 3:
        raise InputError(
            f"--panel {words[0]}: more than MODEL URL KEY_VARIABLE; repeat --panel for each member"
        )
    model, *more = words
    url = more[0] if more else base_url
    variable = more[1] if more[1:] else None
    if url is None:
        raise InputError(f"--panel {model}: has no server; add its URL, or --base-url")
    if variable and not os.environ.get(variable):
        # What is not named as variables are may be the key itself.
        name = variable if re.fullmatch("[A-Z][A-Z_0-9]*", variable) else "named after its URL"
        raise InputError(f"--panel {model}: the environment variable {name} is not set; set it")
    is_base = base_url is not None and url.rstrip("/") == base_url.rstrip("/")
    return model, url, "OPENAI_API_KEY" if is_base and not variable else variable


def _server(endpoint: "Endpoint") -> tuple[str, str | None]:
    return endpoint.url.rstrip("/"), endpoint.key_variable
