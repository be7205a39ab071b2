"""From a model and documents to the report of a sweep: what `ablate`, `patch` and `trace` run."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import TypeAdapter
from tqdm import tqdm

from pragworld_interp.engine import ablation, agreement, packing, patching
from pragworld_interp.engine.decoder import Decoder
from pragworld_interp.prompts.tokenization import (
    PromptGroup,
    group_positions,
    group_prompts,
    label_texts,
    place_of,
    tokenize_prompts,
)
from pragworld_interp.run import loading, tracing
from pragworld_interp.run import units as runs
from pragworld_interp.run.inputs import (
    Layers,
    OwnPrompt,
    build_report,
    choose_targets,
    data_identity,
)
from pragworld_tasks.data.documents import Document
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.ablation_report import LayerReport
from pragworld_tasks.layers.patching_report import PairEffect, PatchingReport
from pragworld_tasks.layers.settings import DataIdentity, Intervention, ModelIdentity, every_layer
from pragworld_tasks.layers.token_report import TokenReport

_PAIRS = TypeAdapter(list[PairEffect])

# All layers in one pass, or one prompt and one layer at a time.
Engine = Literal["sweep", "pyvene"]


@dataclass(frozen=True)
class SweepInputs:
    """A model and the documents to sweep it on."""

    decoder: Decoder
    model: ModelIdentity
    data: DataIdentity
    groups: list[PromptGroup]
    engine: Engine
    trees: bool  # whether the prompts of a group are packed as a tree
    budget: int  # the tokens that go through a layer at a time
    run_identity: dict[str, Any]  # what results depend on besides the intervention


def prepare_sweep(
    model: loading.Model,
    documents: Sequence[Document],
    generator: dict[str, Any] | None = None,
    engine: Engine = "sweep",
    budget: int | None = None,
) -> SweepInputs:
    """Load a model and tokenize the prompts of documents.

    If the model does not support token trees, a line on stderr says so.

    Args:
        model: The model.
        documents: Some or all documents of one split.
        generator: The settings of generated documents.
        engine: The engine to run.
        budget: The tokens that go through a layer at a time; None for the default of the device.

    Raises:
        InputError: The model is missing, incomplete or cannot be swept, or a prompt is too long.
    """
    decoder, identity = loading.load_decoder(model)
    sweep = inputs_of(decoder, identity, documents, generator, engine, budget)
    # An adapter's folder may be given as the model, without the base model that is in another one.
    names = (model.name, decoder.model.name_or_path, model.adapter)
    sweep.run_identity.update(loading.local_files(name for name in names if name))
    return sweep


def inputs_of(
    decoder: Decoder,
    model: ModelIdentity,
    documents: Sequence[Document | OwnPrompt],
    generator: dict[str, Any] | None = None,
    engine: Engine = "sweep",
    budget: int | None = None,
) -> SweepInputs:
    """Tokenize the prompts of documents for a model that is loaded; see `prepare_sweep`."""
    prompts = tokenize_prompts(decoder, documents, model.chat_template)
    groups = group_prompts(documents, prompts)
    trees = engine == "sweep" and _takes_trees(decoder, model, groups, "all")
    data = data_identity(documents, label_texts(documents), generator)
    on_cpu = decoder.device.type == "cpu"
    budget = budget or runs.default_budget(decoder.device)
    run_identity = {
        # On a CPU, the number of threads changes how sums are rounded.
        "threads": torch.get_num_threads() if on_cpu else None,
        "model": asdict(model),
        "data": asdict(data),
        "engine": engine,
        "attention": decoder.attention,
        "trees": trees,
        "batch_tokens": budget,
    }
    return SweepInputs(decoder, model, data, groups, engine, trees, budget, run_identity)


def _takes_trees(
    decoder: Decoder, model: ModelIdentity, groups: Sequence[PromptGroup], positions: str
) -> bool:
    """Return whether the prompts of groups can be packed as trees; else, a line on stderr says why.

    Raises:
        InputError: They cannot be padded to one length either.
    """
    prompts = [group.prompts for group in groups]
    longest = packing.longest_tree(groups, positions)
    # Processes that share a run must pack alike, so what one of them finds holds for all.
    obstacles = runs.from_all(agreement.tree_obstacle(decoder, prompts, longest))
    reason = next((obstacle for obstacle in obstacles if obstacle), None)
    if reason is None:
        return True
    if not all(runs.from_all(agreement.rows_agree(decoder, prompts))):
        raise InputError(
            f"{model.name}: its residuals in a batch are not those of each prompt, so it cannot be "
            "swept in one pass; use `pragworld-interp` with --engine pyvene"
        )
    if runs.process_state().is_main_process:
        print(
            f"{model.name}: prompts are padded to one length, not packed as trees: {reason}",
            file=sys.stderr,
        )
    return False


def ablate_layers(
    sweep: SweepInputs,
    intervention: Intervention,
    out: Path,
    layers: Layers | None = None,
) -> LayerReport | None:
    """Ablate each layer in turn, write the report to `out`, and return it.

    An interrupted run resumes from the journals beside `out`. If several processes share the run,
    only the first returns the report.

    Args:
        sweep: The model and the documents.
        intervention: What to do.
        out: The file of the report.
        layers: The layers to ablate, each alone or some together; None for every layer.

    Raises:
        InputError: A layer does not exist, a prompt has no such positions, attention has no heads
            to ablate, the engine is not installed or cannot do this, the journal is of another
            run, logits are not finite, or the memory does not suffice.
    """
    blocks = sweep.decoder.blocks
    heads = None
    if intervention.module == "heads":
        heads = [block.heads.count if block.heads else 1 for block in blocks]
    targets = choose_targets(layers, len(blocks), heads)
    for group in sweep.groups:
        group_positions(group, intervention.positions)
    if sweep.engine == "pyvene":
        from pragworld_interp.engine import pyvene_engine as reference

        is_single = all(target in every_layer(len(blocks)) for target in targets)
        if intervention.positions != "all" or not is_single:
            raise InputError(
                "--engine pyvene ablates single layers at all positions; use --engine sweep"
            )
    trees = sweep.trees
    if trees and intervention.positions != "all":  # where prompts share fewer tokens
        trees = _takes_trees(sweep.decoder, sweep.model, sweep.groups, intervention.positions)
    units = packing.work_units(sweep.groups, trees, sweep.budget, intervention.positions)
    replacement = ablation.build_ablation(sweep.decoder, sweep.groups, intervention, targets)

    def work(groups: Sequence[PromptGroup], budget: int) -> list[Any]:
        if sweep.engine == "pyvene":
            prompts = [prompt for group in groups for prompt in group.prompts]
            logits = reference.reference_ablated_logits(sweep.decoder, prompts, replacement)
        else:
            batch = packing.group_batch(groups, trees, sweep.decoder.dtype, intervention.positions)
            logits = ablation.ablated_logits(sweep.decoder, batch, replacement, budget)
        rows = [(document, prompt) for group in groups for document, prompt in group.pairs]
        _check_finite(sweep.decoder, logits[:1], rows)
        names = [target.name for target in targets]
        _check_finite(sweep.decoder, logits[1:], rows, "ablated", names)
        return ablation.gold_by_group(logits, groups)

    run_identity = {
        **sweep.run_identity,
        "trees": trees,
        "intervention": asdict(intervention),
        "targets": [asdict(target) for target in targets],
    }

    def decode_group(group: PromptGroup, result: Any) -> Any:
        shape = (len(group.documents), 1 + len(targets))
        if np.shape(result) != shape or not all(
            isinstance(value, float | int) and 0 <= value <= 1 for row in result for value in row
        ):
            raise ValueError("not the probabilities of the group")
        return result

    by_group = _results(sweep, units, work, decode_group, out, run_identity, intervention.name)
    if by_group is None:
        return None
    documents = [document for group, _ in by_group for document in group.documents]
    gold = [row for _, rows in by_group for row in rows]
    report = build_report(documents, gold, sweep.model, sweep.data, intervention, targets)
    report.write(out, overwrite=True)
    runs.remove_journals(out)
    return report


def patch_layers(
    sweep: SweepInputs,
    positions: str,
    out: Path,
) -> PatchingReport | None:
    """Patch the residuals at each layer in turn, write the report to `out`, and return it.

    An interrupted run resumes from the journals beside `out`. If several processes share the run,
    only the first returns the report.

    Args:
        sweep: The model and the documents.
        positions: A name in `settings.PARTS_OF_PAIRS`, or a span.
        out: The file of the report.

    Raises:
        InputError: There are no altered variants with their originals, a prompt has no such
            positions, the engine is not installed, the journal is of another run, logits are
            not finite, or the memory does not suffice.
    """
    if not any(map(patching.count_pairs, sweep.groups)):
        split = f"split {sweep.data.split}"
        if all(document.is_original for group in sweep.groups for document in group.documents):
            raise InputError(f"{split} has no altered variants to patch from; choose another split")
        raise InputError(
            f"{split}: the altered variants are without their originals, into which they are "
            "patched; add the originals of their groups"
        )
    for group in sweep.groups:
        group_positions(group, patching.needed_positions(positions))
    work = _patching_work(sweep, positions)
    units = packing.work_units(sweep.groups, sweep.trees, sweep.budget)
    run_identity = {**sweep.run_identity, "positions": positions}

    def decode_group(_: PromptGroup, result: Any) -> Any:
        return _PAIRS.validate_python(result)

    by_group = _results(sweep, units, work, decode_group, out, run_identity, "patching")
    pairs = tuple(effect for _, effects in by_group or () for effect in effects)
    if by_group is None:
        return None
    report = PatchingReport(sweep.model, sweep.data, positions, pairs)
    report.write(out, overwrite=True)
    runs.remove_journals(out)
    return report


def _patching_work(sweep: SweepInputs, positions: str) -> runs.Work:
    """Return the function that computes the effects of the pairs of groups."""
    if sweep.engine == "pyvene":
        from pragworld_interp.engine import pyvene_engine as reference
    decoder = sweep.decoder
    layers = [target.name for target in every_layer(len(decoder.blocks))]

    def logits_of(
        groups: Sequence[PromptGroup], pairs: list[list[patching.PatchingPair]], budget: int
    ) -> list[patching.PatchedLogits]:
        if sweep.engine == "pyvene":
            return [
                reference.reference_patched_logits(decoder, group.prompts, own)
                for group, own in zip(groups, pairs, strict=True)
            ]
        prompts = [group.prompts for group in groups]
        return patching.patched_logits(decoder, prompts, pairs, sweep.trees, budget)

    def work(groups: Sequence[PromptGroup], budget: int) -> list[Any]:
        pairs = [patching.patching_pairs(group, positions) for group in groups]
        results = []
        for group, own_pairs, own_logits in zip(
            groups, pairs, logits_of(groups, pairs, budget), strict=True
        ):
            _check_finite(decoder, own_logits.plain[None], group.pairs)
            originals = [group.pairs[pair.original] for pair in own_pairs]
            _check_finite(decoder, own_logits.patched, originals, "patched", layers)
            effects = patching.pair_effects(group, own_pairs, own_logits)
            results.append([asdict(effect) for effect in effects])
        return results

    return work


def _results(
    sweep: SweepInputs,
    units: Sequence[Sequence[PromptGroup]],
    work: runs.Work,
    decode_group: Callable[[PromptGroup, Any], Any],
    out: Path,
    run_identity: Mapping[str, Any],
    description: str,
) -> list[tuple[PromptGroup, Any]] | None:
    """Do the work on all units, and return groups and results in the order of the groups.

    All processes but the first get None instead.
    """
    try:
        results = runs.run_units(
            units,
            work,
            decode_group,
            out,
            run_identity,
            sweep.budget,
            description,
        )
    except _NotFiniteError:  # no rerun can use the journals
        runs.remove_journals(out)
        raise
    if results is None:
        return None
    groups = [group for unit in units for group in unit]  # units have the order of their lengths
    return sorted(zip(groups, results, strict=True), key=lambda pair: pair[0].documents[0].group)


class _NotFiniteError(InputError):
    """Logits from which no answer follows."""


def _check_finite(
    decoder: Decoder,
    logits: torch.Tensor,
    rows: Sequence[tuple[Document | OwnPrompt, Sequence[int]]],
    intervention: str = "",
    names: Sequence[str] = (),
) -> None:
    """Refuse logits that are not finite: no answer follows from them.

    Args:
        decoder: The model.
        logits: [targets, rows, labels] of each intervention, or [1, rows, labels] of the plain
            run.
        rows: The document and the prompt of each row.
        intervention: What was done to each layer; empty for the plain run.
        names: What it was done to, in turn.
    """
    bad = (~logits.isfinite().all(2)).nonzero()
    if not len(bad):
        return
    number, row = bad[0].tolist()
    document, prompt = rows[row]
    layer = None if intervention else decoder.first_overflow(prompt)
    what = "the logits of the labels" if layer is None else f"the residuals after layer {layer}"
    done = f" with layer {names[number]} {intervention}" if intervention else ""
    raise _NotFiniteError(
        f"{place_of(document)}: {what} are not finite{done} in "
        f"{decoder.dtype!s:.20}; use another dtype, such as float32"
    )


def trace_layers(sweep: SweepInputs) -> TokenReport:
    """Patch each token and each part of a pair at each layer, and return the report.

    Args:
        sweep: The model, and an original with one altered variant.

    Raises:
        InputError: Several processes run this, the engine is not installed, logits are not finite,
            or the memory does not suffice.
    """
    if sweep.engine == "pyvene":
        from pragworld_interp.engine import pyvene_engine as reference
    if runs.process_state().num_processes > 1:
        raise InputError("a trace is run by one process; start it without a launcher")
    (group,) = sweep.groups
    layers = [target.name for target in every_layer(len(sweep.decoder.blocks))]
    plan = tracing.plan_trace(group)

    def work(
        pairs: Sequence[patching.PatchingPair], budget: int
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        if sweep.engine == "pyvene":
            logits = reference.reference_patched_logits(sweep.decoder, group.prompts, pairs)
        else:
            (logits,) = patching.patched_logits(
                sweep.decoder, [group.prompts], [pairs], sweep.trees, budget
            )
        _check_finite(sweep.decoder, logits.plain[None], group.pairs)
        originals = [group.pairs[pair.original] for pair in pairs]
        _check_finite(sweep.decoder, logits.patched, originals, "patched", layers)
        return [(logits.plain, patched) for patched in logits.patched.unbind(1)]

    place = place_of(group.documents[plan.altered])
    memory = runs.MemoryLimit(work, sweep.budget, lambda _: place)
    results: list[tuple[torch.Tensor, torch.Tensor]] = []
    with tqdm(
        total=len(plan.pairs),
        desc="tracing",
        unit="position",
        disable=runs.hides_progress(),
    ) as progress:
        for portion in tracing.portions(plan, sweep.trees, sweep.budget):
            results += memory.work(portion)
            progress.update(len(portion))
    plain, _ = results[0]
    patched = [own for _, own in results]
    tokenizer = sweep.decoder.tokenizer
    return tracing.build_trace(plan, sweep.model, sweep.data, tokenizer, plain, patched)
