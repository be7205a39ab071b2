"""The engine that makes every change in one pass through the model.

A branch forks off the plain run at the first layer of its target (PragWorld paper, section 6). Its
runs are all rows of the batch; or, if prompts are patched from each other, each patched prompt from
the first token whose residuals change.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, groupby
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from pragworld_interp.engine.decoder import Decoder
from pragworld_interp.engine.interventions import Logits, ModuleChange, Places, columns_of
from pragworld_interp.engine.modules import (
    constant,
    edited,
    first_tensor,
    recorded_tensors,
    with_tensor,
)
from pragworld_interp.engine.packing import (
    Batch,
    group_batch,
    token_batches,
    work_units,
)
from pragworld_interp.engine.sweep import (
    LiveBlock,
    Runs,
    Suffix,
    Suffixes,
    pad_suffixes,
    sweep_layers,
)
from pragworld_interp.prompts.alignment import PatchingPair
from pragworld_interp.prompts.tokenization import PromptGroup

_ALL = slice(None)
Ends: TypeAlias = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class OnePassEngine:
    """All layers in one pass; see `Engine` for the methods, and `sweep.py` for how.

    Attributes:
        decoder: The model.
        trees: Whether the prompts of a group are packed as a tree, which some models don't support
            (`agreement.tree_obstacle`), or padded to one length.
    """

    decoder: Decoder
    trees: bool

    @property
    def layout(self) -> str:
        """How prompts go through the model."""
        return "trees" if self.trees else "rows"

    def units(
        self, groups: Sequence[PromptGroup], change: ModuleChange, budget: int
    ) -> list[list[PromptGroup]]:
        """Return groups of similar lengths together, the longest first."""
        return work_units(groups, self.trees, budget, change.marks)

    @torch.inference_mode()
    def logits(self, groups: Sequence[PromptGroup], change: ModuleChange, budget: int) -> Logits:
        """Return the logits of the plain run and of all changed runs."""
        batch = group_batch(groups, self.trees, self.decoder.dtype, change.marks)
        # A branch forks off at its first layer, so that those in the middle of a run come first.
        order = sorted(range(len(change.targets)), key=lambda n: change.targets[n].layers)
        # As many branches at a time as the model has layers, which bounds the memory.
        most = len(self.decoder.blocks)
        passes = []
        for start in range(0, len(order), most):
            targets = tuple(change.targets[number] for number in order[start : start + most])
            some = replace(change, targets=targets)
            passes.append(_Pass(self.decoder, groups, batch, self.trees, some).logits(budget))
        places = torch.tensor(order).argsort().to(passes[0].lens.device)
        _, changed, direct = (torch.cat(parts)[places] for parts in zip(*passes, strict=True))
        return Logits(passes[0].lens, changed, direct)


class _Pass:
    """One pass through the model, with a branch for each of some targets."""

    def __init__(
        self,
        decoder: Decoder,
        groups: Sequence[PromptGroup],
        batch: Batch,
        trees: bool,
        change: ModuleChange,
    ) -> None:
        self._decoder, self._batch, self._change = decoder, batch, change
        self._keeps_keys = trees and change.pairs is not None
        if change.pairs is None:
            self._branches = [_branches_of_all_rows(batch, change, decoder.device)]
        else:
            pairs = _numbered(groups, change.pairs)
            self._branches = _branches_of_pairs(pairs, batch, trees, change, decoder.device)
        self._layers = {*change.layers}
        self._plain = torch.empty(0)
        self._lens: list[Tensor] = []  # residuals of the plain run at the ends, behind each layer

    def logits(self, chunk: int) -> Logits:
        """Run the model, with roughly `chunk` tokens at a time."""
        keys = self._keeps_keys
        sweep_layers(self._decoder, self._batch, self._at_layer, chunk=chunk, keep_keys=keys)
        lens = torch.stack([residuals.to(self._plain.device) for residuals in self._lens])
        count = len(self._change.targets)
        ends = [lens.new_empty(2 * count, 0, lens.shape[2])]
        ends += [branches.ends(self._plain) for branches in self._branches]
        order = torch.tensor([number for own in self._branches for number in own.order]).long()
        changed = torch.cat(ends, 1)[:, order.argsort().to(lens.device)]
        read, runs = lens.flatten(0, 1), changed.flatten(0, 1)
        logits = self._decoder.label_logits(torch.cat([read, runs]))
        by_run = logits[len(read) :].view(2, count, len(order), logits.shape[1])
        return Logits(logits[: len(read)].view(*lens.shape[:2], logits.shape[1]), *by_run)

    def _at_layer(self, live: LiveBlock, hidden: Tensor) -> Tensor:
        block, found = live.block, dict[nn.Module, list[Any]]()
        with ExitStack() as stack:
            if live.number in self._layers and self._change.module != "residual":
                places = dict([self._change.place(block)])
                if self._change.module != "heads":
                    places[block.attention] = "output"
                for module, side in places.items():
                    found[module] = stack.enter_context(recorded_tensors(module, side))
            self._plain = live.run_once(hidden)
        self._lens.append(_at(self._plain, self._batch.ends))
        for branches in self._branches:
            branches.at_layer(live, hidden, self._plain, found)
        return self._plain


class _Branches:
    """The residuals of runs that go through blocks together, so far, for each target."""

    def __init__(
        self, change: ModuleChange, runs: Runs, places: Places, ends: Ends, order: Sequence[int]
    ) -> None:
        """Set what the branches run on, and where a tensor of them is replaced.

        Answers are read at the ends, [answers, 2] runs and positions, and rows and columns.
        """
        self.order = order  # which of all answers they are
        self._change, self._runs, self._places = change, runs, places
        self._ends, self._plain_ends = ends
        self._residuals = torch.empty(0)  # [targets, runs, length, width]
        self._same: list[int] = []  # targets whose runs are the plain one
        self._added: dict[int, Tensor] = {}  # by the last layer of each target, where answers are

    def at_layer(
        self,
        live: LiveBlock,
        hidden: Tensor,
        plain: Tensor,
        found: Mapping[nn.Module, list[Any]],
    ) -> None:
        """Run the branches through a block, and fork or change those whose target it is.

        The residuals of the plain run are `hidden` before it and `plain` behind it; `found` is what
        its modules received or returned in the plain run.
        """
        change, layer = self._change, live.number
        own = self._part(hidden)
        if not layer:
            self._residuals = hidden.new_empty(len(change.targets), *own.shape)
        self._residuals = self._residuals.to(hidden.device)  # layers may be on several devices
        begun = {n for n, target in enumerate(change.targets) if target.layers[0] < layer}
        here = [n for n, target in enumerate(change.targets) if layer in target.layers]
        before = {number: self._residuals[number] if number in begun else own for number in here}
        running = begun.difference(here, self._same)
        if change.module == "residual":
            for number, residuals in before.items():
                self._residuals[number] = changed = self._replaced(layer, hidden, residuals)
                # Most patches leave the residuals at the first layer as they are, because aligned
                # tokens are the same and their embeddings hold no positions.
                if change.targets[number].layers == (0,) and torch.equal(changed, own):
                    self._same.append(number)
                    self._residuals[number] = self._part(plain)
            running = begun.union(here).difference(self._same)
        for part in _stretches(sorted(running)):
            live.run(self._residuals[part].flatten(0, 1), self._runs)
        for number, residuals in before.items():
            if change.module == "block":
                base = change.base[layer].module
                self._residuals[number] = live.run_once(residuals, self._runs, base)
            elif change.module != "residual":
                with self._changed(live, number, found, is_new=number not in begun):
                    self._residuals[number] = live.run_once(residuals, self._runs)
            if layer == change.targets[number].layers[-1]:
                own_ends = _at(self._residuals[number], self._ends)
                self._added[number] = own_ends - _at(plain, self._plain_ends)

    @contextmanager
    def _changed(
        self, live: LiveBlock, number: int, found: Mapping[nn.Module, list[Any]], is_new: bool
    ) -> Iterator[None]:
        """Replace the output of a part of a block within a `with` statement."""
        change, block = self._change, live.block
        module, side = change.place(block)
        columns = columns_of(block, change.targets[number])
        plain = first_tensor(found[module][0])
        edit = partial(self._replaced, live.number, plain, columns=columns)
        with ExitStack() as stack:
            # A fork has the plain run's inputs, so that what comes before need not run again.
            kept = {block.attention} if is_new and change.module != "heads" else set()
            if kept and self._runs is None:  # the output of experts may have another shape
                kept.add(module)
            for part in kept:
                output = found[part][0]
                own = with_tensor(output, self._part(first_tensor(output)))
                stack.enter_context(constant(part, own))
            stack.enter_context(edited(module, side, edit))
            yield

    def _replaced(self, layer: int, plain: Tensor, own: Tensor, columns: slice = _ALL) -> Tensor:
        source = None if self._change.pairs is None else plain
        return self._change.replaced(layer, own, self._places, columns, source)

    def _part(self, tensor: Tensor) -> Tensor:
        """Return the part of [rows, length, width] for the runs."""
        if isinstance(self._runs, Suffixes):
            suffixes = self._runs.to(tensor.device)
            return tensor[suffixes.rows[:, None], suffixes.columns]
        return tensor if self._runs is None else tensor[self._runs.to(tensor.device)]

    def ends(self, plain: Tensor) -> Tensor:
        """Return the [2 * targets, answers, width] residuals where answers are read.

        They are those of the branches, then of the plain run with what a branch adds.
        """
        own = _at(plain, self._plain_ends)
        numbers = range(len(self._residuals))
        changed = [own if n in self._same else _at(self._residuals[n], self._ends) for n in numbers]
        return torch.stack(changed + [own + self._added[n].to(own.device) for n in numbers])


def _at(residuals: Tensor, ends: Tensor) -> Tensor:
    """Return the [n, width] residuals at rows and columns."""
    rows, columns = ends.to(residuals.device).unbind(1)
    return residuals[rows, columns]


def _stretches(numbers: Sequence[int]) -> Iterator[slice]:
    """Yield slices that hold ascending numbers and no others."""
    for _, members in groupby(enumerate(numbers), key=lambda item: item[1] - item[0]):
        stretch = [number for _, number in members]
        yield slice(stretch[0], stretch[-1] + 1)


# What branches run on -----------------------------------------------------------------------------


def _branches_of_all_rows(batch: Batch, change: ModuleChange, device: torch.device) -> _Branches:
    rows, columns = (batch.marks >= 0).nonzero(as_tuple=True)
    indices = (rows, columns, batch.marks[rows, columns])
    places = Places(tuple(index.to(device) for index in indices), batch.shape, batch.shape)
    return _Branches(change, None, places, (batch.ends, batch.ends), range(len(batch.paths)))


def _numbered(
    groups: Sequence[PromptGroup], pairs: Mapping[int, Sequence[PatchingPair]]
) -> list[PatchingPair]:
    """Return the pairs of groups, whose prompts are numbered on."""
    starts = accumulate((len(group.prompts) for group in groups), initial=0)
    return [
        PatchingPair(start + pair.target, start + pair.source, pair.alignment)
        for start, group in zip(starts, groups, strict=False)
        for pair in pairs[group.number]
    ]


def _branches_of_pairs(
    pairs: Sequence[PatchingPair],
    batch: Batch,
    trees: bool,
    change: ModuleChange,
    device: torch.device,
) -> list[_Branches]:
    """Return branches of the patched prompts; those of similar lengths run together."""
    starts = [_first_change(pair, batch) if trees else 0 for pair in pairs]
    paths = [batch.paths[pair.target][start:] for pair, start in zip(pairs, starts, strict=True)]
    columns = paths if trees else [[*range(batch.shape[1])]] * len(pairs)
    lengths = [*map(len, columns)]
    branches = []
    for unit in token_batches([(1, length) for length in lengths], sum(lengths)):
        suffixes, places, ends, plain_ends = [], [], [], []
        for number, (pair, start) in enumerate((pairs[at], starts[at]) for at in unit):
            row, source_row = batch.rows[pair.target], batch.rows[pair.source]
            target, source = batch.paths[pair.target], batch.paths[pair.source]
            suffixes.append(Suffix(row, target[:start], columns[unit[number]]))
            places += [
                (number, at - start, source_row, source[other])
                for at, other in pair.alignment
                if at >= start
            ]
            ends.append((number, len(target) - 1 - start))
            plain_ends.append((row, target[-1]))
        padded = pad_suffixes(suffixes, device)
        indices = torch.tensor(places, dtype=torch.long, device=device).view(-1, 4).T
        where = Places(tuple(indices), (len(unit), padded.columns.shape[1]), batch.shape)
        runs = padded if trees else padded.rows
        read = (torch.tensor(ends), torch.tensor(plain_ends))
        branches.append(_Branches(change, runs, where, read, unit))
    return branches


def _first_change(pair: PatchingPair, batch: Batch) -> int:
    """Return the first position of a prompt in a tree whose residuals change.

    Positions that share a node have the same residuals in both prompts. The last token must run in
    any case, to answer.
    """
    target, source = batch.paths[pair.target], batch.paths[pair.source]
    changed = [at for at, other in pair.alignment if target[at] != source[other]]
    return min([len(target) - 1, *changed])
