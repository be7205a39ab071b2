"""The command `pragworld-interp`."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pragworld_interp.layer_report import By, Module, Replacement
from pragworld_interp.patching_report import Positions
from pragworld_tasks.command_line import run_command
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.splits import NAMES
from pragworld_tasks.errors import InputError

if TYPE_CHECKING:
    from pragworld_interp.decoder import Decoder
    from pragworld_interp.layer_report import DataIdentity, LayerReport, ModelIdentity
    from pragworld_interp.runs import Group

# torch and all that needs it are imported where they are used: help and `plot` do without.


def main(arguments: list[str] | None = None) -> None:
    """Runs the command with the given arguments, or those of the command line."""
    run_command(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pragworld-interp",
        description="Which layers of a model help, and which hurt: ablation and patching of every "
        "layer, on any Hugging Face decoder.",
    )
    parser.add_argument("--version", action="version", version=version("pragworld"))
    commands = parser.add_subparsers(required=True, metavar="command")

    command = commands.add_parser(
        "ablate",
        help="accuracy with the MLP or the attention of each layer put out of action",
        description="Puts the MLP (or the attention) of each layer in turn out of action, and says "
        "which layers are useful and which harmful. A killed run goes on where it was.",
    )
    _add_shared(command, "layers.json")
    command.add_argument("--module", default="mlp", choices=get_args(Module), help="default: mlp")
    command.add_argument(
        "--replacement",
        default="zero",
        choices=get_args(Replacement),
        help="what takes the place of its output: zeros (the default, as in the paper), its mean "
        "over the data, or what it was at a random position of a random prompt",
    )
    command.add_argument("--seed", type=int, default=0, help="of what --replacement resample draws")
    command.set_defaults(run=_ablate)

    command = commands.add_parser(
        "patch",
        help="direct effects of the residuals at every layer",
        description="Runs every original with the residuals of one layer replaced by those of its "
        "altered variant, at aligned positions, for each layer in turn. A killed run goes on "
        "where it was.",
    )
    _add_shared(command, "patching.jsonl")
    command.add_argument(
        "--positions",
        default="all",
        choices=get_args(Positions),
        help="which aligned positions: all (the default), or those of the dialogue only",
    )
    command.set_defaults(run=_patch)

    command = commands.add_parser(
        "plot",
        help="figures of what ablate and patch wrote",
        description="Accuracy by ablated layer, or by alteration category; or patched probability "
        "by layer. Several files of one kind go into one figure.",
    )
    command.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="layers.json files, or patching.jsonl files",
    )
    command.add_argument(
        "--out", required=True, type=Path, metavar="FILE", help=".png, .svg or .pdf"
    )
    command.add_argument(
        "--by-alteration", action="store_true", help="one panel for each category of alterations"
    )
    command.add_argument(
        "--metric",
        choices=("accuracy", "robust_accuracy"),
        help="of layers.json files; default: accuracy",
    )
    command.add_argument(
        "--by",
        choices=get_args(By),
        help="what marks a layer as useful or harmful: the sign, or evidence (the default)",
    )
    command.add_argument(
        "--depth",
        action="store_true",
        help="layers by their relative depth, for models of different lengths",
    )
    command.set_defaults(run=_plot)

    command = commands.add_parser(
        "compare",
        help="whether useful and harmful layers agree across models",
        description="Rank correlation of the layers' effects and overlap of useful and harmful "
        "layers at equal relative depth, for every pair of models, with tests.",
    )
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="layers.json files")
    command.add_argument(
        "--by",
        default="sign",
        choices=get_args(By),
        help="what makes a layer useful or harmful: the sign (the default), or evidence",
    )
    command.add_argument(
        "--null",
        default="shift",
        choices=("shift", "permutation"),
        help="what chance means: layers shifted in a circle (the default: neighbours are alike), "
        "or in any order",
    )
    command.add_argument("--seed", type=int, default=0, help="of the tests' draws")
    command.add_argument("--json", type=Path, metavar="FILE", help="write everything there too")
    command.set_defaults(run=_compare)
    return parser


def _add_shared(command: argparse.ArgumentParser, out: str) -> None:
    """Options of both sweeps: the model, the data, the run."""
    model = command.add_argument_group("model")
    model.add_argument("--model", required=True, help="a name on the Hugging Face hub, or a folder")
    model.add_argument("--revision", help="a branch, tag or commit on the hub")
    model.add_argument("--adapter", help="a PEFT adapter on top: a name or a folder")
    model.add_argument(
        "--dtype",
        default="auto",
        choices=("auto", "float32", "bfloat16", "float16"),
        help="default: that of the weights",
    )
    model.add_argument(
        "--device-map", help="'auto' spreads the model over what there is; or a device, as cuda:0"
    )
    model.add_argument("--quantization", choices=("4bit", "8bit"), help="by bitsandbytes")
    model.add_argument(
        "--chat-template", action="store_true", help="put prompts through the model's own"
    )
    model.add_argument(
        "--trust-remote-code", action="store_true", help="let code run that comes with the model"
    )
    data = command.add_argument_group("data")
    data.add_argument(
        "--split",
        required=True,
        choices=NAMES,
        help="what is asked",
    )
    data.add_argument(
        "--metadata",
        default="{}",
        metavar="JSON",
        help='settings of --split generated, as for lm_eval: \'{"groups": 500, "seed": 7}\'',
    )
    data.add_argument("--limit", type=int, metavar="N", help="the first N groups only")
    run = command.add_argument_group("run")
    run.add_argument("--out", required=True, type=Path, metavar="FILE", help=f"as in runs/{out}")
    run.add_argument(
        "--engine",
        default="climb",
        choices=("climb", "pyvene"),
        help="climb: all layers in one pass; pyvene: one prompt and one layer at a time, to check",
    )
    run.add_argument(
        "--batch-tokens",
        type=int,
        metavar="N",
        help="tokens that go through a layer in one go; found by itself and halved when memory "
        "is short",
    )


# Sweeps -------------------------------------------------------------------------------------------


def _documents(options: argparse.Namespace) -> tuple[list[Document], dict[str, Any] | None]:
    """The documents, and the settings that generated ones were made with."""
    from pragworld_tasks.data.splits import named_documents

    found, settings = named_documents(options.split, options.metadata, "--metadata")
    if options.limit is not None:
        if options.limit < 1:
            raise InputError(f"--limit {options.limit}: at least one group is needed")
        first = sorted({document.group for document in found})[: options.limit]
        found = [document for document in found if document.group in first]
    return found, settings


@dataclass(frozen=True)
class _Sweep:
    """What both sweeps begin with."""

    decoder: "Decoder"
    model: "ModelIdentity"
    documents: list[Document]
    data: "DataIdentity"
    groups: list["Group"]
    trees: bool
    budget: int
    weights: dict[str, tuple[int, int]]


def _check_place(out: Path) -> None:
    """Refuses a place that nothing can be written to, before there is work that would be lost."""
    try:
        if out.is_dir():
            raise InputError(f"{out}: a folder; name a file in it")
        nearest = next(each for each in out.absolute().parents if each.exists())
        if not nearest.is_dir():
            raise InputError(f"{out}: {nearest} is no folder; name another place")
    except OSError as error:
        raise InputError(f"{out}: {error.strerror}; name another place") from error


def _prepare(options: argparse.Namespace) -> _Sweep:
    if options.batch_tokens is not None and options.batch_tokens < 1:
        raise InputError(f"--batch-tokens {options.batch_tokens}: at least one is needed")
    _check_place(options.out)
    documents, settings = _documents(options)

    from pragworld_interp import layer_report as layers
    from pragworld_interp import loading, packing, runs
    from pragworld_tasks.evaluation.prompts import label_prompt

    names = [field.name for field in fields(loading.Model) if field.name != "name"]
    model = loading.Model(options.model, **{name: getattr(options, name) for name in names})
    decoder, identity = loading.load(model)
    prompts = loading.fed(decoder, documents, model.chat_template)
    longest = max(len(prompt.ids) for prompt in prompts)
    why = None
    if decoder.window is not None and longest > decoder.window:
        why = f"its layers see {decoder.window} tokens, and the longest prompt has {longest}"
    elif not packing.takes_trees(decoder):
        why = "its attention takes no mask of four dimensions"
    if why and options.engine == "climb":
        print(
            f"{options.model}: prompts are padded to one length, not packed as trees: {why}",
            file=sys.stderr,
        )
    on_cpu = decoder.device.type == "cpu"
    texts = [label_prompt({"context": d.context, "question": d.question}) for d in documents]
    return _Sweep(
        decoder,
        identity,
        documents,
        layers.data_identity(documents, texts, settings),
        runs.groups_of(documents, prompts),
        trees=not why,
        budget=options.batch_tokens or (runs.CPU_TOKENS if on_cpu else runs.ACCELERATOR_TOKENS),
        weights=loading.weight_files(model),
    )


def _identity(sweep: _Sweep, options: argparse.Namespace, **own: Any) -> dict[str, Any]:
    """What a run is, for its journal."""
    import torch

    # On a CPU sums are rounded as they are shared out between threads.
    on_cpu = sweep.decoder.device.type == "cpu"
    return {
        "threads": torch.get_num_threads() if on_cpu else None,
        "weights": sweep.weights,
        "model": asdict(sweep.model),
        "data": asdict(sweep.data),
        "engine": options.engine,
        "trees": sweep.trees,
        "batch_tokens": sweep.budget,
        **own,
    }


def _ablate(options: argparse.Namespace) -> None:
    sweep = _prepare(options)

    from pragworld_interp import ablation, layer_tables, runs
    from pragworld_interp import layer_report as layers
    from pragworld_interp.journal import Journal

    if options.engine == "pyvene":
        from pragworld_interp import reference
    seed = options.seed if options.replacement == "resample" else None
    intervention = layers.Intervention(options.module, options.replacement, seed)
    made = ablation.measured(
        sweep.decoder, sweep.groups, options.module, options.replacement, options.seed
    )

    def work(groups: Sequence["Group"], budget: int) -> list[Any]:
        if options.engine == "pyvene":
            prompts = [prompt for group in groups for prompt in group.prompts]
            logits = reference.ablated_logits(sweep.decoder, prompts, made)
        else:
            batch = ablation.batch_of(groups, sweep.trees, sweep.decoder.dtype)
            logits = ablation.ablated_logits(sweep.decoder, batch, made, budget)
        return ablation.yes_by_group(logits, groups)

    identity = _identity(sweep, options, intervention=asdict(intervention))
    found = runs.run(
        ablation.units(sweep.groups, sweep.trees, sweep.budget),
        work,
        options.out,
        identity,
        sweep.budget,
        intervention.name,
    )
    if found is None:
        return
    ordered = [document for group in sweep.groups for document in group.documents]
    yes = [probabilities for group in found for probabilities in group]
    report = layers.layer_report(ordered, yes, sweep.model, sweep.data, intervention)
    layers.write_layers(report, options.out)
    Journal.remove_all(options.out)
    print(layer_tables.to_text(report))


def _patch(options: argparse.Namespace) -> None:
    sweep = _prepare(options)

    from pragworld_interp import patching, runs
    from pragworld_interp import patching_report as effects
    from pragworld_interp.journal import Journal
    from pragworld_interp.serialization import decoded, encoded

    if options.engine == "pyvene":
        from pragworld_interp import reference
    if not any(patching.pairs_of(group, "all") for group in sweep.groups):
        raise InputError(f"split {options.split}: no altered variants in it, nothing to patch with")
    if options.positions == "dialogue" and not all(map(all, (g.dialogues for g in sweep.groups))):
        raise InputError(
            f"--positions dialogue: the tokenizer or the chat template of {options.model} does not "
            "tell where the dialogue is; take --positions all"
        )

    def work(groups: Sequence["Group"], budget: int) -> list[Any]:
        results = []
        for group in groups:
            pairs = patching.pairs_of(group, options.positions)
            if options.engine == "pyvene":
                logits = reference.patched_logits(sweep.decoder, group.prompts, pairs)
            else:
                logits = patching.patched_logits(
                    sweep.decoder, group.prompts, pairs, sweep.trees, budget
                )
            results.append([encoded(one) for one in patching.effects_of(group, pairs, logits)])
        return results

    found = runs.run(
        [[group] for group in sweep.groups],
        work,
        options.out,
        _identity(sweep, options, positions=options.positions),
        sweep.budget,
        "patching",
    )
    if found is None:
        return
    pairs = tuple(decoded(effects.PairEffect, one, "") for group in found for one in group)
    report = effects.PatchingReport(sweep.model, sweep.data, options.positions, pairs)
    effects.write_effects(report, options.out)
    Journal.remove_all(options.out)
    print(effects.to_text(report))


# What is made of them -----------------------------------------------------------------------------


def _plot(options: argparse.Namespace) -> None:
    from pragworld_interp import figures as plots
    from pragworld_interp import layer_report as layers
    from pragworld_interp import patching_report as effects

    _check_place(options.out)
    are_effects = [effects.are_effects(path) for path in options.files]
    if (options.metric or options.by) and (any(are_effects) or options.by_alteration):
        raise InputError(
            "--metric and --by are for one panel of what `ablate` wrote; leave them out"
        )
    horizontal: plots.Horizontal = "depth" if options.depth else "layer"
    if all(are_effects):
        patched = [effects.read_effects(path) for path in options.files]
        titles = layers.titles([report.model for report in patched])
        panels: dict[str, dict[str, effects.PatchedProbability]] = {}
        for path, title, report in zip(options.files, titles, patched, strict=True):
            if (report.data, report.positions) != (patched[0].data, patched[0].positions):
                raise InputError(
                    f"{path}: of other documents or positions than {options.files[0]}; "
                    "patch both alike"
                )
            found = effects.kept_by_alteration(report)
            if not found:
                raise InputError(f"{path}: no pair is kept in it, nothing to be shown")
            for name, pairs in (found if options.by_alteration else {"": found["all"]}).items():
                panels.setdefault(name, {})[title] = effects.averages(pairs)
        first = patched[0]
        what = f"residuals patched at {first.positions} aligned positions: {first.data.split}"
        plots.patching_figure(panels, options.out, what, horizontal)
    else:
        named = _layer_reports(options.files)
        if options.by_alteration:
            plots.alterations_figure(named, options.out, horizontal=horizontal)
        else:
            metric: plots.Metric = options.metric or "accuracy"
            by: By = options.by or "evidence"
            plots.accuracy_figure(named, options.out, metric, by, horizontal)
    print(options.out)


def _layer_reports(files: Sequence[Path]) -> "dict[str, LayerReport]":
    """What `ablate` wrote, by the names that figures and tables call the models."""
    from pragworld_interp import layer_report as layers
    from pragworld_interp import patching_report as effects

    for path in files:
        if effects.are_effects(path):
            raise InputError(f"{path}: by `pragworld-interp patch`, and not by `ablate`")
    read = [layers.read_layers(path) for path in files]
    return dict(zip(layers.titles([report.model for report in read]), read, strict=True))


def _compare(options: argparse.Namespace) -> None:
    from pragworld_interp import compare
    from pragworld_tasks.files import write_json

    if options.json:
        _check_place(options.json)
    named = _layer_reports(options.files)
    found = compare.compare(named, options.by, options.null, seed=options.seed)
    print(compare.to_text(found))
    if options.json:
        write_json(options.json, compare.to_json(found))
