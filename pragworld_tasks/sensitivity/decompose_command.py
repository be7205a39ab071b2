"""The command `pragworld-tasks decompose`."""

import argparse
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command, at_least
from pragworld_tasks.errors import InputError
from pragworld_tasks.figures import FORMATS


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
    add = command.add_argument
    add("samples", nargs="+", type=Path, help="lm-eval's samples_world_model_*.jsonl")
    add("--json", type=Path, metavar="FILE", help="also write everything as JSON")
    add("--overwrite", action="store_true", help="replace what exists")
    add("--plot", type=Path, metavar="FOLDER", help="draw the paper's figures")
    add("--format", default=".png", choices=FORMATS, help="of the figures; default: .png")
    add(
        "--scale",
        default="raw",
        choices=("raw", "log", "rank", "winsorised"),
        help="scale of the values; single absurd ones dominate a raw variance; default: raw",
    )
    add("--draws", type=int, default=500, help="resampled data sets for intervals; default: 500")
    add("--seed", type=int, default=0, help="default: 0")
    llm = command.add_argument_group(
        "values read by an LLM",
        "An LLM behind an OpenAI-compatible API (key: OPENAI_API_KEY) reads the values with the "
        "paper's prompts instead of our rules. Replies are kept beside the samples.",
    )
    llm.add_argument("--base-url", metavar="URL", help="the server: …/v1")
    llm.add_argument("--model", metavar="NAME", help="the LLM")


def _decompose(options: argparse.Namespace) -> None:
    from pragworld_tasks.chat import Endpoint
    from pragworld_tasks.files import check_output, write_json
    from pragworld_tasks.sensitivity.extraction import extract
    from pragworld_tasks.sensitivity.figures import draw_figures
    from pragworld_tasks.sensitivity.report import decompose_samples
    from pragworld_tasks.sensitivity.samples import read_samples

    if options.json:
        check_output(options.json, options.overwrite, options.samples)
    at_least(options, draws=20, seed=0)  # a 95 % interval leaves out a twentieth
    if bool(options.base_url) != bool(options.model):
        raise InputError("--base-url and --model: need each other; give both, or leave both out")
    samples = read_samples(options.samples)
    if options.model:
        endpoint = Endpoint(options.base_url, options.model)
        samples = [extract(of_model, endpoint) for of_model in samples]
    report = decompose_samples(samples, options.scale, options.draws, options.seed)
    if options.json:
        write_json(options.json, report.to_json())
    print(report.to_text())
    if options.plot:
        for path in draw_figures(report, samples, options.plot, options.format):
            print(path)
