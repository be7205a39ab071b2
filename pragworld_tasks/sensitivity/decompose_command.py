"""The command `pragworld-tasks decompose`."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pragworld_tasks.command_line import Commands, add_command, at_least
from pragworld_tasks.errors import InputError

if TYPE_CHECKING:
    from pragworld_tasks.chat import Endpoint
    from pragworld_tasks.sensitivity.samples import ModelSamples

_LEAST_DRAWS = 20  # of fewer, no share is a twentieth, which a 95 % interval leaves out


def add_decompose(commands: Commands) -> None:
    """Add the command to those of `pragworld-tasks`."""
    command = add_command(
        commands,
        "decompose",
        _decompose,
        "decompose the variance of responses into purpose, articulation and uncertainty",
        description="For responses to the world_model tasks, it prints the shares of the variance "
        "due to what was asked (PS), to how it was worded (AS) and to chance (MU), by the "
        "published estimator and by an unbiased one, with intervals (arXiv 2506.16584).",
        example="pragworld-tasks decompose runs/*/samples_world_model_*.jsonl --plot figures",
    )
    command.add_argument(
        "samples",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="samples_world_model_*.jsonl of lm-eval or `pragworld-tasks collect`, for several "
        "models each in a folder of the model's name",
    )
    command.add_argument("--json", type=Path, metavar="FILE", help="also write everything as JSON")
    command.add_argument(
        "--overwrite", action="store_true", help="replace the file of --json if it exists"
    )
    command.add_argument("--plot", type=Path, metavar="FOLDER", help="draw the paper's figures")
    command.add_argument(
        "--format",
        default=".png",
        help="format of the figures: .png (the default), .svg or .pdf",
    )
    command.add_argument(
        "--scale",
        default="raw",
        help="scale of the values, for single absurd ones dominate a variance. raw: unchanged (the "
        "default); log: sign(v) log(1 + |v|); rank: ranks among all values of the question; "
        "winsorised: the hundredth at either end moved in to the next value",
    )
    command.add_argument(
        "--draws",
        type=int,
        default=500,
        metavar="N",
        help=f"resampled data sets for the intervals, at least {_LEAST_DRAWS}; default: 500, as in "
        "the paper",
    )
    command.add_argument("--seed", type=int, default=0, help="default: 0")
    command.add_argument(
        "--signed",
        action="store_true",
        help="read a loss of weight and a tax refund as negative; the default, as in the paper, is "
        "to drop signs",
    )
    llm = command.add_argument_group(
        "values read by an LLM",
        "An LLM behind an OpenAI-compatible API reads the values with the paper's prompts instead "
        "of our rules, and its agreement with the rules is reported. The key is read from "
        "OPENAI_API_KEY. Replies are kept beside the samples; a rerun asks only for those that are "
        "missing, or that were empty, cut off or refused.",
    )
    llm.add_argument("--extractor", default="rules", choices=("rules", "llm"))
    llm.add_argument("--base-url", metavar="URL", help="the server: …/v1")
    llm.add_argument("--model", metavar="NAME", help="the LLM")
    llm.add_argument(
        "--concurrency", type=int, default=8, metavar="N", help="requests at a time; default: 8"
    )


def _decompose(options: argparse.Namespace) -> None:
    from pragworld_tasks.figures import FORMATS
    from pragworld_tasks.files import check_output, write_json
    from pragworld_tasks.sensitivity.components import SCALES
    from pragworld_tasks.sensitivity.figures import draw_figures
    from pragworld_tasks.sensitivity.report import ReaderAgreement, decompose_samples
    from pragworld_tasks.sensitivity.samples import read_samples

    if options.scale not in SCALES:
        raise InputError(f"--scale {options.scale}: must be one of {', '.join(SCALES)}")
    if options.format not in FORMATS:
        raise InputError(f"--format {options.format}: must be one of {', '.join(FORMATS)}")
    if options.json:
        check_output(options.json, options.overwrite)
    at_least(options, draws=_LEAST_DRAWS, seed=0, concurrency=1)
    if options.extractor == "rules" and (options.base_url or options.model):
        raise InputError("--base-url and --model: need --extractor llm; add it, or leave them out")
    if options.extractor == "llm" and options.signed:
        raise InputError("--signed: an LLM reads values without signs; leave out --extractor llm")
    samples = read_samples(options.samples, signed=options.signed)
    agreements = {}
    if options.extractor == "llm":
        endpoint = _endpoint(options)
        _check_extractable(samples)
        by_rules, samples = samples, [_read_by(endpoint, of_model) for of_model in samples]
        agreements = {
            by_llm.path: ReaderAgreement.of(endpoint.model, by_llm.values, by_rule.values)
            for by_llm, by_rule in zip(samples, by_rules, strict=True)
        }
    report = decompose_samples(samples, options.scale, options.draws, options.seed, agreements)
    if options.json:
        write_json(options.json, report.to_json())
    print(report.to_text())
    if options.plot:
        for path in draw_figures(report, options.plot, options.format):
            print(path)


def _endpoint(options: argparse.Namespace) -> "Endpoint":
    from pragworld_tasks.chat import Endpoint

    if not (options.base_url and options.model):
        raise InputError("--extractor llm: needs a model; add --base-url and --model")
    return Endpoint(options.base_url, options.model, options.concurrency)


def _check_extractable(samples: Sequence["ModelSamples"]) -> None:
    """Refuse questions whose values no LLM can be asked for, before any request is sent."""
    from pragworld_tasks.sensitivity.open_questions import questions

    for of_model in samples:
        if of_model.question not in questions():
            raise InputError(
                f"{of_model.path}: the paper has no extraction prompt for {of_model.question}; use "
                "--extractor rules"
            )
        if (unit := questions()[of_model.question].unit) != of_model.unit:
            raise InputError(
                f"{of_model.path}: the unit of {of_model.question} is {of_model.unit!r}, but the "
                f"paper's extraction prompt asks for {unit!r}; use --extractor rules"
            )


def _read_by(endpoint: "Endpoint", samples: "ModelSamples") -> "ModelSamples":
    """Return the same responses with the values that an LLM reads in them."""
    from pragworld_tasks.sensitivity.extraction import extract
    from pragworld_tasks.sensitivity.open_questions import questions

    name = re.sub(r"[^\w.-]", "_", endpoint.model)
    journal = samples.path.with_name(f"{samples.path.stem}.{name}.journal")
    question = questions()[samples.question]
    return samples.with_values(extract(endpoint, question, samples.responses, journal))
