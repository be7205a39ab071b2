"""The command `pragworld-interp`."""

import argparse
import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pragworld_interp.run import round_repeatably
from pragworld_interp.run.inputs import Dtype, chosen_intervention, parse_layers, select_pair
from pragworld_tasks.command_line import Commands, add_command, at_least, clean_exit, run_command
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.splits import SPLIT_NAMES, named_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import check_output, json_object, write_json
from pragworld_tasks.layers.ablation_report import (
    accuracy_figure,
    read_layers,
)
from pragworld_tasks.layers.comparison import compare_reports
from pragworld_tasks.layers.layer_statistics import By
from pragworld_tasks.layers.patching_report import PatchingReport, patching_figure, read_patching
from pragworld_tasks.layers.report import PATCHING, TOKENS, by_title, schema_of
from pragworld_tasks.layers.settings import (
    PARTS_OF_PAIRS,
    Into,
    Module,
    PatchedModule,
    Replacement,
    check_positions,
)
from pragworld_tasks.layers.token_report import TokenReport, read_patched_tokens

if TYPE_CHECKING:
    from pragworld_interp.run.loading import Model
    from pragworld_interp.run.sweeps import Sweep

# torch and whatever needs it are imported by the sweeps only: the help, `plot` and `compare` run
# without.


def main(arguments: list[str] | None = None) -> None:
    """Run the command with the given arguments, or with those of the command line."""
    words = sys.argv[1:] if arguments is None else arguments
    round_repeatably()
    if words[:1] == ["lm_eval"]:
        with clean_exit():
            _lm_eval(words[1:])
    else:
        # argparse takes a span such as -5: for an option, unless a space stands before it.
        run_command(_parser(), [re.sub(r"^(?=-\d+:)", " ", word) for word in words])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pragworld-interp",
        description="Find the useful and harmful layers of a Hugging Face decoder by ablating or "
        "patching each layer.",
        epilog="`pragworld-interp COMMAND --help` describes a command and shows an example.",
    )
    parser.add_argument("--version", action="version", version=version("pragworld"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_ablate(commands)
    _add_patch(commands)
    _add_plot(commands)
    _add_compare(commands)
    _add_lm_eval(commands)
    return parser


# Sweeps -------------------------------------------------------------------------------------------

_RESUME = (
    "Rerun the same command to resume an interrupted run. `accelerate launch` or `torchrun` "
    "divides it among processes, each with a model of its own."
)


def _add_ablate(commands: Commands) -> None:
    command = add_command(
        commands,
        "ablate",
        _ablate,
        "ablate the MLP or the attention of each layer, or its heads, and report the change in "
        "accuracy",
        description=_RESUME,
        example="pragworld-interp ablate --model Qwen/Qwen2.5-0.5B-Instruct --split manual "
        "--out layers.json\n"
        "pragworld-interp ablate --model Qwen/Qwen2.5-0.5B-Instruct --split manual --module heads "
        "--layers 10-13 --replacement counterfactual --out heads.json\n"
        "pragworld-interp ablate --model Qwen/Qwen2.5-0.5B-Instruct --split manual "
        "--revert Qwen/Qwen2.5-0.5B --out reverted.json",
    )
    add = command.add_argument
    add(
        "--module",
        default="mlp",
        choices=get_args(Module),
        help="part to ablate; heads for those of the attention, one at a time; default: mlp",
    )
    _add_layers(command, "with --replacement counterfactual also")
    add(
        "--replacement",
        default="zero",
        choices=get_args(Replacement),
        help="what replaces its output: zeros; its mean over positions of the same kind (dialogue, "
        "altered words, question, last, rest) in all prompts; its output at a random position of a "
        "random prompt; or, at aligned positions, that in the original (for the original, in a "
        "variant with another answer); or all of these in turn, where a layer's role has to hold "
        "under each; default: zero",
    )
    add("--seed", type=int, default=0, help="seed of --replacement resample; default: 0")
    add(
        "--revert",
        metavar="BASE",
        help="run the layers of the model that this one was fine-tuned from instead: each alone, "
        "then from the first one on",
    )
    _add_shared(command)


def _ablate(options: argparse.Namespace) -> None:
    what = (options.module, options.replacement, options.seed, options.positions)
    intervention = chosen_intervention(*what, options.revert)
    layers = options.layers and parse_layers(options.layers)
    sweep = _prepare(options)

    from pragworld_interp.run.sweeps import ablate_layers

    base = None
    if options.revert is not None:
        from pragworld_interp.run.loading import load_network

        settings = {"name": options.revert, "revision": None, "adapter": None}
        base, _ = load_network(replace(_model(options), **settings, dtype=sweep.model.dtype))
    report = ablate_layers(sweep, intervention, layers, options.out, base)
    if report is not None:
        print(report.to_text())


def _add_patch(commands: Commands) -> None:
    command = add_command(
        commands,
        "patch",
        _patch,
        "measure the direct effect of the residuals, or of a part, at each layer",
        description="Runs each original prompt with the residuals of one layer replaced by those "
        f"of its altered variant, at aligned positions, for each layer in turn. {_RESUME}",
        example="pragworld-interp patch --model Qwen/Qwen2.5-0.5B-Instruct --split manual "
        "--out patching.json\n"
        "pragworld-interp patch --model Qwen/Qwen2.5-0.5B-Instruct --split manual --module heads "
        "--layers 10-13 --into altered --out heads.json\n"
        "pragworld-interp patch --model Qwen/Qwen2.5-0.5B-Instruct --split manual --row 125 "
        "--out trace.json",
    )
    add = command.add_argument
    add(
        "--module",
        default="residual",
        choices=get_args(PatchedModule),
        help="what to patch: the residual stream at the input of a layer, the output of its MLP or "
        "of its attention, or its heads, one at a time; default: residual",
    )
    add(
        "--into",
        default="original",
        choices=get_args(Into),
        help="the prompt that is patched from the other one; default: original",
    )
    _add_layers(command, "also")
    add(
        "--row",
        type=int,
        metavar="N",
        help="patch only the altered variant of this row into its original, token by token and "
        "part by part; `plot` draws the report as a map of tokens and layers",
    )
    _add_shared(command)


def _patch(options: argparse.Namespace) -> None:
    check_positions(options.positions, PARTS_OF_PAIRS)
    chosen = (options.module, options.into, options.layers, options.positions, options.limit)
    if options.row is not None and chosen != ("residual", "original", None, "all", None):
        raise InputError(
            "--row patches the residuals of every token of one variant; leave out --positions, "
            "--limit, --module, --into and --layers"
        )
    layers = options.layers and parse_layers(options.layers)
    sweep = _prepare(options, options.row)

    from pragworld_interp.run.sweeps import patch_layers
    from pragworld_interp.run.tracing import trace_layers

    report: PatchingReport | TokenReport | None
    if options.row is None:
        what = (options.positions, options.module, options.into, layers)
        report = patch_layers(sweep, *what, options.out)
    else:
        report = trace_layers(sweep)
        report.write(options.out, options.overwrite)
    if report is not None:
        print(report.to_text())


def _add_layers(command: argparse.ArgumentParser, of_pairs: str) -> None:
    """Add the options of layers and positions; some positions exist in pairs of prompts only."""
    add = command.add_argument
    add(
        "--layers",
        metavar="LAYERS",
        help="layers: numbers and ranges such as 0-9,12, or 5+7 for layers together; default: "
        "every layer",
    )
    add(
        "--positions",
        type=str.strip,
        default="all",
        help="all (of a pair, those with aligned tokens), dialogue, question, last, or a span "
        f"start:stop, which counts tokens as Python does; {of_pairs} altered for the altered "
        "tokens, or utterance for the rest of their utterances; default: all",
    )


def _add_shared(command: argparse.ArgumentParser) -> None:
    """Add the options of both sweeps: the model, the data and the run."""
    _add_model(command)
    data = command.add_argument_group("data")
    add = data.add_mutually_exclusive_group(required=True).add_argument
    add("--split", choices=SPLIT_NAMES, help="split to evaluate the model on")
    add("--documents", type=Path, metavar="PATH", help="a file with documents of your own")
    add = data.add_argument
    add(
        "--metadata",
        default="{}",
        metavar="JSON",
        help="settings of --split generated, as for lm-eval, such as '{\"groups\": 500}'",
    )
    add("--limit", type=int, metavar="N", help="use the first N groups; default: all groups")
    add = command.add_argument_group("run").add_argument
    add("--out", required=True, type=Path, metavar="FILE", help="file of the report")
    add("--overwrite", action="store_true", help="replace what exists")
    add(
        "--engine",
        default="sweep",
        choices=("sweep", "pyvene"),
        help="sweep: all layers in one pass; pyvene: one prompt and one layer at a time, to check; "
        "default: sweep",
    )
    add(
        "--batch-tokens",
        type=int,
        metavar="N",
        help="tokens that go through a layer at a time, halved when memory is short; default: 1280 "
        "on a CPU, 32768 on an accelerator",
    )


def _add_model(command: argparse.ArgumentParser) -> None:
    """Add the fields of `loading.Model`."""
    add = command.add_argument_group("model").add_argument
    model = "name on the Hugging Face hub, or a folder"
    add("--model", dest="name", required=True, metavar="MODEL", help=model)
    add("--revision", help="branch, tag or commit on the hub; default: main")
    add("--adapter", help="name or folder of a PEFT adapter on top; default: none")
    dtypes = get_args(Dtype)
    add("--dtype", default="auto", choices=dtypes, help="default: auto, the type of the weights")
    add(
        "--device-map",
        help="'auto' to spread the model over all devices, or a device such as cuda:0; default: "
        "the accelerator if there is one, else the CPU",
    )
    add("--quantization", choices=("4bit", "8bit"), help="needs bitsandbytes; default: none")
    add(
        "--attn-implementation",
        metavar="NAME",
        help="attention of transformers, such as eager, sdpa or flash_attention_2; prompts share "
        "their common beginning with eager and sdpa only; default: chosen by transformers",
    )
    add("--chat-template", action="store_true", help="apply the model's chat template to prompts")
    add("--trust-remote-code", action="store_true", help="run code that comes with the model")


def _prepare(options: argparse.Namespace, row: int | None = None) -> "Sweep":
    """Check the options, then load the documents, or the pair of a row, and the model."""
    at_least(options, limit=1, batch_tokens=1)
    check_output(options.out, options.overwrite, [options.documents] if options.documents else [])
    documents, generator = _documents(options)
    if row is not None:
        documents = select_pair(documents, row)
    groups = [*dict.fromkeys(document.group for document in documents)][: options.limit]
    documents = [document for document in documents if document.group in groups]
    with _needs_packages("`ablate` and `patch` need"):
        from pragworld_interp.prompts.examples import document_examples
        from pragworld_interp.run.loading import load_decoder
        from pragworld_interp.run.sweeps import make_sweep

    examples = document_examples(documents)
    decoder, identity = load_decoder(_model(options), documents[0].labels)
    return make_sweep(decoder, identity, examples, generator, options.engine, options.batch_tokens)


def _model(options: argparse.Namespace) -> "Model":
    from pragworld_interp.run.loading import Model

    return Model(**{field.name: getattr(options, field.name) for field in fields(Model)})


def _documents(options: argparse.Namespace) -> tuple[list[Document], dict[str, Any] | None]:
    """Return the documents that the options name, and the settings of generated ones."""
    if options.documents is None:
        return named_documents(options.split, json_object(options.metadata, "--metadata"))
    if options.metadata != "{}":
        raise InputError("--metadata is for --split generated, not for --documents; leave it out")
    from pragworld_tasks.data.document_files import read_documents

    return read_documents(options.documents), None


@contextmanager
def _needs_packages(subject: str) -> Iterator[None]:
    """Name the package that is missing, and how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise InputError(f"{subject} {package}: pip install 'pragworld[interp]'") from error


# Figures and comparisons --------------------------------------------------------------------------


def _add_plot(commands: Commands) -> None:
    command = add_command(
        commands,
        "plot",
        _plot,
        "draw a figure from files that `ablate` or `patch` wrote",
        description="Shows accuracy by ablated layer, or patched probability by layer. Several "
        "files of one kind share a figure, but one of `patch --row` is shown alone. An existing "
        "figure is replaced.",
        example="pragworld-interp plot layers.json --out layers.png\n"
        "pragworld-interp plot base/layers.json tuned/layers.json --out both.pdf",
    )
    add = command.add_argument
    add(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="files of `ablate` or of `patch`, or one of `patch --row`",
    )
    add("--out", required=True, type=Path, metavar="FILE", help="figure: .png, .svg or .pdf")
    _add_by(command)


def _plot(options: argparse.Namespace) -> None:
    check_output(options.out, overwrite=True)
    files, out = options.files, options.out
    schema = schema_of(files[0])
    if options.by and schema == PATCHING:
        raise InputError("--by applies to files that `ablate` wrote; leave it out")
    if schema == TOKENS:
        if len(files) > 1 or options.by:
            raise InputError("a figure shows one file of `patch --row`, without other options")
        read_patched_tokens(files[0]).plot(out)
    elif schema == PATCHING:
        patching_figure(by_title(map(read_patching, files)), out)
    else:
        accuracy_figure(by_title(map(read_layers, files)), out, options.by or "evidence")
    print(out)


def _add_compare(commands: Commands) -> None:
    command = add_command(
        commands,
        "compare",
        _compare,
        "test whether useful and harmful layers agree between models",
        description="Prints, for every pair of models, the rank correlation of the layers' effects "
        "and the overlap of useful and harmful layers at equal relative depth.",
        example="pragworld-interp compare base/layers.json tuned/layers.json",
    )
    add = command.add_argument
    add("files", nargs="+", type=Path, metavar="FILE", help="files of `ablate`, at least two")
    _add_by(command)
    add("--json", type=Path, metavar="FILE", help="also write everything as JSON")
    add("--overwrite", action="store_true", help="replace what exists")


def _add_by(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--by",
        choices=get_args(By),
        help="layers are useful or harmful by the sign of the change, or if there is evidence for "
        "it; default: evidence",
    )


def _compare(options: argparse.Namespace) -> None:
    if options.json:
        check_output(options.json, options.overwrite, options.files)
    reports = by_title(map(read_layers, options.files))
    comparison = compare_reports(reports, options.by or "evidence")
    print(comparison.to_text())
    if options.json:
        write_json(options.json, comparison.to_json())


# lm-eval ------------------------------------------------------------------------------------------


def _add_lm_eval(commands: Commands) -> None:
    """Add the command to the help; `main` runs it, because its options are those of lm_eval."""
    add_command(
        commands,
        "lm_eval",
        lambda _: None,
        "run lm_eval with the model hf-ablated: hf without some layers",
        example="pragworld-interp lm_eval --model hf-ablated "
        "--model_args pretrained=…,layers=layers.json --tasks pragworld_manual",
    )


def _lm_eval(words: Sequence[str]) -> None:
    from lm_eval.__main__ import cli_evaluate
    from lm_eval.api.registry import model_registry

    name, module = "hf-ablated", "pragworld_interp.lm_eval_models"
    importlib.import_module("lm_eval.models")  # which registers lm-eval's own
    if name in (word.removeprefix("--model=") for word in words):
        with _needs_packages(f"--model {name} needs"):
            importlib.import_module(module)
    if name not in model_registry:  # lm-eval after 0.4.13 reads our entry point
        model_registry.register(name, target=f"{module}:AblatedLM")
    sys.argv = ["lm_eval", *words]
    cli_evaluate()
