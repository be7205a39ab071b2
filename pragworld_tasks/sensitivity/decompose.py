"""The command `pragworld-tasks decompose`: from samples files to tables, JSON and figures."""

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pragworld_tasks.command_line import at_least
from pragworld_tasks.errors import InputError

if TYPE_CHECKING:
    from pragworld_tasks.endpoint import Endpoint
    from pragworld_tasks.sensitivity.samples import Sampled


def add_decompose(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to those of `pragworld-tasks`."""
    command = commands.add_parser(
        "decompose",
        help="what responses vary with: purpose, articulation, uncertainty",
        description="Decomposes the variance of responses to the world_model tasks into what was "
        "asked (PS), how it was worded (AS) and chance (MU), by the published estimator and by an "
        "unbiased one, with intervals; arXiv 2506.16584.",
    )
    command.add_argument(
        "samples",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="samples_world_model_*.jsonl of lm-eval's or of `pragworld-tasks collect`; of several "
        "models too, each in a folder of its name",
    )
    command.add_argument("--json", type=Path, metavar="FILE", help="write everything there too")
    command.add_argument("--plot", type=Path, metavar="FOLDER", help="draw the paper's figures")
    command.add_argument(
        "--format", default=".png", help="of the figures: .png (the default), .svg or .pdf"
    )
    command.add_argument(
        "--scale",
        default="raw",
        help="of the values; single absurd ones dominate a variance. raw: as they are (the "
        "default); log: sign(v) log(1 + |v|); rank: among all values of the question; winsorised: "
        "the hundredth at either end moved in to the next",
    )
    command.add_argument(
        "--draws", type=int, default=500, metavar="N", help="default: 500, as in the paper"
    )
    command.add_argument("--seed", type=int, default=0, help="of the draws")
    llm = command.add_argument_group(
        "values read by an LLM",
        "behind an OpenAI-compatible API, with the paper's prompts, not by our rules, and how "
        "far the two agree; the key is read from OPENAI_API_KEY. Answers are kept beside the "
        "samples, so that nothing is asked twice.",
    )
    llm.add_argument("--extractor", default="rules", choices=("rules", "llm"))
    llm.add_argument("--base-url", metavar="URL", help="of the server: …/v1")
    llm.add_argument("--model", metavar="NAME", help="which reads")
    llm.add_argument(
        "--concurrency", type=int, default=8, metavar="N", help="requests at a time; default: 8"
    )
    command.set_defaults(run=_decompose)


def _decompose(options: argparse.Namespace) -> None:
    from pragworld_tasks.figures import FORMATS
    from pragworld_tasks.files import write_json
    from pragworld_tasks.sensitivity.decomposition import SCALES
    from pragworld_tasks.sensitivity.figures import figures
    from pragworld_tasks.sensitivity.report import agreement, report, to_json, to_text
    from pragworld_tasks.sensitivity.samples import read_samples

    if options.scale not in SCALES:
        raise InputError(f"--scale {options.scale}: there are {', '.join(SCALES)}")
    if options.format not in FORMATS:
        raise InputError(f"--format {options.format}: there are {', '.join(FORMATS)}")
    at_least(options, draws=1, seed=0, concurrency=1)
    if options.extractor == "rules" and (options.base_url or options.model):
        raise InputError("--base-url and --model go with --extractor llm")
    samples = read_samples(options.samples)
    agreements = {}
    if options.extractor == "llm":
        endpoint = _endpoint(options)
        by_rules = {one.path: one.values for one in samples}
        samples = [_read_by(endpoint, one) for one in samples]
        agreements = {
            one.path: agreement(endpoint.model, one.values, by_rules[one.path]) for one in samples
        }
    found = report(samples, options.scale, options.draws, options.seed, agreements)
    if options.json:
        write_json(options.json, to_json(found))
    print(to_text(found))
    if options.plot:
        for path in figures(found, options.plot, options.format):
            print(path)


def _endpoint(options: argparse.Namespace) -> "Endpoint":
    from pragworld_tasks.endpoint import Endpoint

    if not (options.base_url and options.model):
        raise InputError("--extractor llm: which? Give --base-url and --model")
    return Endpoint(options.base_url, options.model, options.concurrency)


def _read_by(endpoint: "Endpoint", sampled: "Sampled") -> "Sampled":
    """The same responses, with the values that an LLM reads in them."""
    from pragworld_tasks.sensitivity.extraction import extract
    from pragworld_tasks.sensitivity.questions import questions

    if sampled.question not in questions():
        raise InputError(f"{sampled.path}: the paper has no prompt to extract {sampled.question}")
    name = re.sub(r"[^\w.-]", "_", endpoint.model)
    journal = sampled.path.with_name(f"{sampled.path.stem}.{name}.journal")
    question = questions()[sampled.question]
    return sampled.with_values(extract(endpoint, question, sampled.responses, journal))
