"""Traces: patching one token of a prompt at a time, or one part of it.

Meng et al. (2022, "Locating and Editing Factual Associations in GPT", arXiv:2202.05262) draw such
maps for corrupted embeddings. Here the other run is the altered variant's, as in `patch_layers`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pragworld_interp.engine.interventions import ModuleChange
from pragworld_interp.prompts.alignment import (
    PatchingPair,
    align_altered,
    align_tokens,
    align_utterances,
)
from pragworld_interp.prompts.tokenization import PromptGroup
from pragworld_interp.run.observations import SweepPlan, observe
from pragworld_interp.run.processes import process_state
from pragworld_interp.run.sweeps import Sweep, pair_effects
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import every_layer
from pragworld_tasks.layers.token_report import PART_TITLES, Part, PatchedToken, TokenReport


def trace_layers(sweep: Sweep) -> TokenReport:
    """Patch each token and each part of a pair at each layer, and return the report."""
    if process_state().num_processes > 1:
        raise InputError("a trace is run by one process; start it without a launcher")
    (group,) = sweep.groups
    change = ModuleChange("residual", every_layer(len(sweep.decoder.blocks)), pairs={})
    engine = sweep.start_engine([change])
    original = next(n for n, example in enumerate(group.examples) if example.is_original)
    altered = 1 - original
    parts, sources = _parts_and_sources(group, original, altered)
    by_part = {part: [at for at in sources if parts[at] == part] for part in PART_TITLES}
    by_part = {part: positions for part, positions in by_part.items() if positions}
    pairs = [
        PatchingPair(original, altered, [(position, sources[position]) for position in positions])
        for positions in [*([position] for position in sources), *by_part.values()]
    ]

    def work(pairs: Sequence[PatchingPair], budget: int) -> list[Any]:
        own = replace(change, pairs={group.number: pairs})
        (effects,) = pair_effects(sweep.decoder, engine, [group], own, budget)
        return effects

    size = max(1, sweep.budget // max(map(len, group.prompts)))  # that run together
    plan = SweepPlan(
        [pairs[start : start + size] for start in range(0, len(pairs), size)],
        work,
        sweep.budget,
        name=lambda _: group.examples[altered].place,
        description="tracing",
    )
    effects = [effect for _, own in observe(plan) for effect in own]
    patched = [effect.patched for effect in effects]
    alone = dict(zip(sources, patched, strict=False))
    decode = sweep.decoder.tokenizer.decode
    tokens = []
    for position, (token, part) in enumerate(zip(group.prompts[original], parts, strict=True)):
        source = sources.get(position)
        source_text = None if source is None else decode([group.prompts[altered][source]])
        tokens.append(PatchedToken(decode([token]), part, source, source_text, alone.get(position)))
    return TokenReport(
        model=sweep.model,
        data=sweep.data,
        original=effects[0].original,
        altered=effects[0].altered,
        alteration=effects[0].alteration,
        answer=effects[0].answer,
        original_run=effects[0].original_run,
        altered_run=effects[0].altered_run,
        parts=dict(zip(by_part, patched[len(alone) :], strict=True)),
        tokens=tuple(tokens),
    )


def _parts_and_sources(
    group: PromptGroup, original: int, altered: int
) -> tuple[list[Part], dict[int, int]]:
    """Return the part of each token of the original, and the positions they are patched from.

    Tokens are patched from their aligned counterparts, and altered ones from those that replace
    them. The last token is patched from the last one, whatever it is. Others have no source.
    """
    prompts = group.prompts[original], group.prompts[altered]
    parts = group.parts[original], group.parts[altered]
    differing, aligned = dict(align_altered(*prompts)), dict(align_tokens(*prompts))
    beside = dict(align_utterances(*prompts, *parts))
    last = len(prompts[0]) - 1
    sources = {**differing, **aligned, last: len(prompts[1]) - 1}

    def part_of(position: int) -> Part:
        if position == last:
            return "last"
        if position not in aligned:
            return "altered"
        if position in beside:
            return "utterance"
        asked = position in parts[0].question and aligned[position] in parts[1].question
        return "question" if asked else "rest"

    return [*map(part_of, range(last + 1))], dict(sorted(sources.items()))
