"""From a model and examples to the report of a sweep: what `ablate` and `patch` run.

What is observed is kept in memory, or recorded beside the file of the report, which is made of it.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import torch
from accelerate.utils import gather_object
from pydantic import TypeAdapter

from pragworld_interp.engine import agreement, packing
from pragworld_interp.engine.decoder import Decoder, from_model
from pragworld_interp.engine.interventions import Engine, Logits, ModuleChange
from pragworld_interp.engine.one_pass import OnePassEngine
from pragworld_interp.engine.rope import longest_prompt
from pragworld_interp.prompts.alignment import PatchingPair, patching_pairs
from pragworld_interp.prompts.examples import Example
from pragworld_interp.prompts.tokenization import (
    PromptGroup,
    gold_probabilities,
    group_prompts,
    tokenize_prompts,
)
from pragworld_interp.run.inputs import Layers, choose_targets, data_identity, document_results
from pragworld_interp.run.loading import local_files
from pragworld_interp.run.observations import (
    SweepPlan,
    Work,
    default_budget,
    observe,
    recorded,
    remove_journals,
)
from pragworld_interp.run.processes import process_state
from pragworld_interp.run.replacements import build_changes
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.ablation_report import LayerReport
from pragworld_tasks.layers.patching_report import PairEffect, PatchingReport
from pragworld_tasks.layers.report import DIGITS
from pragworld_tasks.layers.settings import (
    PARTS_OF_PAIRS,
    DataIdentity,
    Intervention,
    Into,
    ModelIdentity,
    PatchedModule,
    Target,
    check_choice,
    check_positions,
    every_layer,
)

_PAIRS = TypeAdapter(tuple[PairEffect, ...])

# All layers in one pass, or one prompt and one layer at a time.
EngineName = Literal["sweep", "pyvene"]


@dataclass(frozen=True)
class Sweep:
    """A model, the examples to sweep it on, and the tokens that go through a layer at a time."""

    decoder: Decoder
    model: ModelIdentity
    data: DataIdentity
    groups: list[PromptGroup]
    engine: EngineName
    budget: int

    def start_engine(self, changes: Sequence[ModuleChange]) -> Engine:
        """Return the engine for changes.

        If the model does not support token trees, a line on stderr says so.
        """
        for change in changes:
            for layer in change.layers:
                change.place(self.decoder.blocks[layer])  # refuses attention without heads
        if self.engine == "pyvene":
            from pragworld_interp.engine.pyvene_engine import PyveneEngine

            return PyveneEngine(self.decoder)
        return OnePassEngine(self.decoder, self._takes_trees(changes))

    def _takes_trees(self, changes: Sequence[ModuleChange]) -> bool:
        prompts = [group.prompts for group in self.groups]
        marked = product(self.groups, changes)
        trees = (packing.group_tree(group, change.marks) for group, change in marked)
        longest = max(len(tree.ids) for tree in trees)
        # Processes that share a run must pack alike, so what one of them finds holds for all.
        obstacles = gather_object([agreement.tree_obstacle(self.decoder, prompts, longest)])
        reason = next((obstacle for obstacle in obstacles if obstacle), None)
        if reason is None:
            return True
        if not all(gather_object([agreement.rows_agree(self.decoder, prompts)])):
            raise InputError(
                f"{self.model.name}: its residuals in a batch are not those of each prompt, so it "
                "cannot be swept in one pass; use the engine pyvene"
            )
        if process_state().is_main_process:
            print(
                f"{self.model.name}: prompts are padded to one length, not packed as trees: "
                f"{reason}",
                file=sys.stderr,
            )
        return False

    def observations(
        self,
        engine: Engine,
        change: ModuleChange,
        work: Work[PromptGroup],
        description: str,
        settings: dict[str, Any],
        out: Path | None,
    ) -> list[tuple[PromptGroup, Any]] | None:
        """Return each group with what is observed of it, in the order of the groups.

        Returns:
            None in all processes but the first.
        """
        units = engine.units(self.groups, change, self.budget)
        plan = SweepPlan(
            units, work, self.budget, lambda group: f"group {group.number}", description
        )
        found: list[Any] | None
        if out is None:
            found = [result for _, results in observe(plan) for result in results]
        else:
            try:
                found = recorded(plan, out, {**self._identity(engine, change.targets), **settings})
            except _NotFiniteError:  # no rerun can use the journals
                remove_journals(out)
                raise
        if found is None:
            return None
        groups = [group for unit in units for group in unit]  # in the order of their lengths
        return sorted(zip(groups, found, strict=True), key=lambda pair: pair[0].number)

    def _identity(self, engine: Engine, targets: Sequence[Target]) -> dict[str, Any]:
        on_cpu = self.decoder.device.type == "cpu"
        # An adapter's folder may be given as the model, without the base model that is elsewhere.
        adapter, _, _ = (self.model.adapter or "").rpartition("@")
        names = (self.model.name, self.decoder.model.name_or_path, adapter)
        return {
            # On a CPU, the number of threads changes how sums are rounded.
            "threads": torch.get_num_threads() if on_cpu else None,
            "model": asdict(self.model),
            "data": asdict(self.data),
            "targets": [asdict(target) for target in targets],
            "engine": self.engine,
            "attention": self.decoder.attention,
            "layout": engine.layout,
            "batch_tokens": self.budget,
            "files": local_files(name for name in names if name),
        }


def make_sweep(
    decoder: Decoder,
    model: ModelIdentity,
    examples: Sequence[Example],
    generator: dict[str, Any] | None = None,
    engine: EngineName = "sweep",
    budget: int | None = None,
) -> Sweep:
    """Tokenize the prompts of examples for a model that is loaded."""
    most = longest_prompt(decoder.model)
    prompts = tokenize_prompts(decoder.tokenizer, examples, model.chat_template, most)
    return Sweep(
        decoder,
        model,
        data_identity(examples, generator),
        group_prompts(examples, prompts),
        engine,
        budget or default_budget(decoder.device),
    )


def _finish(report: LayerReport | PatchingReport, out: Path | None) -> None:
    """Write a report, and remove the journals that it was made of."""
    if out is not None:
        report.write(out, overwrite=True)
        remove_journals(out)


# Ablation -----------------------------------------------------------------------------------------


def ablate_layers(
    sweep: Sweep,
    intervention: Intervention,
    layers: Layers | None = None,
    out: Path | None = None,
    base: Any = None,
) -> LayerReport | None:
    """Ablate each layer in turn, or revert it to a base model, and return the report.

    If several processes share the run, only the first returns the report.
    """
    decoder = sweep.decoder
    if base is not None:
        base = from_model(base, decoder.tokenizer, sweep.model.chat_template, decoder.labels).blocks
        if layers is None:  # each layer alone, then from the first one on
            every = range(len(base))
            layers = [*every, *(tuple(every[:count]) for count in every[2:]), tuple(every)]
    targets = _targets(sweep, intervention.module, layers)
    changes = build_changes(decoder, sweep.groups, intervention, targets, base)
    engine = sweep.start_engine(changes)

    def work(groups: Sequence[PromptGroup], budget: int) -> list[list[list[list[float]]]]:
        return gold_by_group(decoder, engine, groups, changes, budget)

    base_files = local_files([intervention.base or ""])
    settings = {"intervention": asdict(intervention), "base": base_files}
    by_group = sweep.observations(engine, changes[0], work, intervention.name, settings, out)
    if by_group is None:
        return None
    examples = [example for group, _ in by_group for example in group.examples]
    observed = zip(*(row for _, rows in by_group for row in rows), strict=True)
    results = document_results(examples, *map(list, observed))
    report = LayerReport(sweep.model, sweep.data, intervention, targets, results)
    _finish(report, out)
    return report


def _targets(sweep: Sweep, module: str, layers: Layers | None) -> tuple[Target, ...]:
    """Return the layers that a user chose, or their heads."""
    blocks = sweep.decoder.blocks
    heads = [block.heads.count if block.heads else 1 for block in blocks]
    return choose_targets(layers, len(blocks), heads if module == "heads" else None)


def gold_by_group(
    decoder: Decoder,
    engine: Engine,
    groups: Sequence[PromptGroup],
    changes: Sequence[ModuleChange],
    budget: int,
) -> list[list[list[list[float]]]]:
    """Return, for each example of each group, the probabilities of `DocumentResult`."""
    examples = [example for group in groups for example in group.examples]
    found = [engine.logits(groups, change, budget) for change in changes]
    done = [f"{target.name} ablated" for target in changes[0].targets]
    for logits in found:
        _check_finite(decoder, logits, examples, examples, done)
    gold = torch.cat([found[0].plain[None], *(logits.changed for logits in found)])
    direct = torch.cat([logits.direct for logits in found])
    parts = [gold_probabilities(logits, examples) for logits in (gold, direct, found[0].lens)]
    by_example = zip(*parts, strict=True)
    return [[list(next(by_example)) for _ in group.examples] for group in groups]


# Patching -----------------------------------------------------------------------------------------


def patch_layers(
    sweep: Sweep,
    positions: str = "all",
    module: PatchedModule = "residual",
    into: Into = "original",
    layers: Layers | None = None,
    out: Path | None = None,
) -> PatchingReport | None:
    """Patch the residuals or a part of each layer in turn, and return the report.

    If several processes share the run, only the first returns the report.
    """
    check_positions(positions, PARTS_OF_PAIRS)
    check_choice("module", module, PatchedModule)
    check_choice("into", into, Into)
    pairs = {group.number: patching_pairs(group, positions, into) for group in sweep.groups}
    if not any(pairs.values()):
        raise InputError(
            f"split {sweep.data.split}: there are no altered variants with their originals, into "
            "which they are patched; add them, or choose another split"
        )
    targets = _targets(sweep, module, layers)
    change = ModuleChange(module, targets, pairs=pairs)
    engine = sweep.start_engine([change])

    def work(groups: Sequence[PromptGroup], budget: int) -> list[list[dict[str, Any]]]:
        found = pair_effects(sweep.decoder, engine, groups, change, budget)
        return [[asdict(effect) for effect in effects] for effects in found]

    chosen = () if targets == every_layer(len(sweep.decoder.blocks)) else targets
    settings = {"positions": positions, "module": module, "into": into}
    by_group = sweep.observations(engine, change, work, "patching", settings, out)
    if by_group is None:
        return None
    effects = _PAIRS.validate_python([effect for _, own in by_group for effect in own])
    report = PatchingReport(sweep.model, sweep.data, positions, effects, module, into, chosen)
    _finish(report, out)
    return report


def pair_effects(
    decoder: Decoder,
    engine: Engine,
    groups: Sequence[PromptGroup],
    change: ModuleChange,
    budget: int,
) -> list[list[PairEffect]]:
    """Return the effects of the pairs of each group."""
    assert change.pairs is not None
    found = engine.logits(groups, change, budget)
    examples = [example for group in groups for example in group.examples]
    patched = [
        group.examples[pair.target] for group in groups for pair in change.pairs[group.number]
    ]
    done = [f"{target.name} patched" for target in change.targets]
    _check_finite(decoder, found, examples, patched, done)
    plain, changed = iter(found.plain), iter(found.changed.unbind(1))
    effects = []
    for group in groups:
        own = torch.stack([next(plain) for _ in group.prompts])
        pairs = change.pairs[group.number]
        effects.append([_pair_effect(group, pair, own, next(changed)) for pair in pairs])
    return effects


def _pair_effect(
    group: PromptGroup, pair: PatchingPair, plain: torch.Tensor, patched: torch.Tensor
) -> PairEffect:
    numbers = [pair.target, pair.source]
    if not group.examples[pair.target].is_original:
        numbers.reverse()
    original, altered = (group.examples[number] for number in numbers)
    source = group.examples[pair.source]
    runs = torch.cat([plain[numbers], patched])
    (probabilities,) = gold_probabilities(runs[:, None], [source])
    original_run, altered_run, *by_layer = (round(p, DIGITS) for p in probabilities)
    return PairEffect(
        group=altered.group,
        original=original.row,
        altered=altered.row,
        alteration=altered.alteration,
        answer=source.answer,
        original_run=original_run,
        altered_run=altered_run,
        patched=tuple(by_layer),
    )


class _NotFiniteError(InputError):
    """Logits from which no answer follows."""


def _check_finite(
    decoder: Decoder,
    found: Logits,
    examples: Sequence[Example],
    changed: Sequence[Example],
    done: Sequence[str],
) -> None:
    """Refuse logits that are not finite: no answer follows from them.

    `done` says what was done to the `changed` examples in each of their runs.
    """
    labels = "the logits of the labels are not finite"
    layers = [f"the residuals after layer {n} are not finite" for n in range(len(found.lens))]
    runs = [f"{labels} with layer {each}" for each in done]
    parts = (
        (found.lens, examples, [labels, *layers[1:]]),  # the unembedding may be to blame
        (found.changed, changed, runs),
        (found.direct, changed, runs),
    )
    for logits, of, problems in parts:
        bad = (~logits.isfinite().all(2)).nonzero()
        if len(bad):
            run, row = bad[0].tolist()
            is_widest = decoder.dtype == torch.float32
            remedy = "check its weights" if is_widest else "use another dtype, such as float32"
            problem = f"{problems[run]} in {decoder.dtype!s:.20}; {remedy}"
            raise _NotFiniteError(f"{of[row].place}: {problem}")
