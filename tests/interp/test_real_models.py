"""The engine against plain hooks on real models, one prompt of a dialogue at a time.

PRAGWORLD_REAL_MODELS names their folders, with colons between them. A model takes some minutes.
"""

import copy
import os
from functools import cache
from itertools import product
from typing import Any, get_args

import pytest
import torch
from plain_hooks import by_hooks
from torch import Tensor

import pragworld_tasks as pt
from pragworld_interp.engine.agreement import supports_trees
from pragworld_interp.engine.decoder import Decoder, find_blocks
from pragworld_interp.engine.interventions import Logits, ModuleChange
from pragworld_interp.engine.one_pass import OnePassEngine
from pragworld_interp.prompts.alignment import patching_pairs
from pragworld_interp.prompts.examples import document_examples
from pragworld_interp.prompts.tokenization import PromptGroup, group_prompts, tokenize_prompts
from pragworld_interp.run.loading import Model, load_decoder
from pragworld_interp.run.replacements import build_changes
from pragworld_tasks.layers.settings import NULLS, Intervention, Into, Module, PatchedModule, Target

FOLDERS = [*filter(None, os.environ.get("PRAGWORLD_REAL_MODELS", "").split(":"))]
if not FOLDERS:
    pytest.skip("PRAGWORLD_REAL_MODELS names no model", allow_module_level=True)
OPTIONS = [*product(get_args(Module), NULLS), *product(get_args(PatchedModule), get_args(Into))]
OPTIONS += [("block", "revert")]


@cache
def loaded(folder: str, dtype: str) -> tuple[Decoder, list[PromptGroup], OnePassEngine]:
    """Return a model, an original with a variant of another answer, and the engine."""
    decoder, _ = load_decoder(Model(folder, dtype=dtype))
    examples = document_examples(pt.generate(groups=1, seed=7)[:2])
    prompts = tokenize_prompts(decoder.tokenizer, examples, chat_template=False)
    groups = group_prompts(examples, prompts)
    return decoder, groups, OnePassEngine(decoder, supports_trees(decoder, groups[0].prompts))


def change_of(
    decoder: Decoder, groups: list[PromptGroup], module: Any, option: Any
) -> ModuleChange:
    """Change the first layer, one in the middle, and this with the last; or a head of each."""
    last = len(decoder.blocks) - 1
    targets = tuple(map(Target, [(0,), (last // 2,), (last // 2, last)]))
    if module == "heads":
        targets = tuple(Target(target.layers[-1:], head) for head, target in enumerate(targets))
    if option in get_args(Into):
        pairs = {group.number: patching_pairs(group, "all", option) for group in groups}
        return ModuleChange(module, targets, pairs=pairs)
    if option == "revert":
        base = copy.deepcopy(decoder.model)
        for parameter in base.parameters():
            parameter.data *= 0.9
        return ModuleChange(module, targets, base=find_blocks(base))
    (change,) = build_changes(decoder, groups, Intervention(module, option, 0), targets)
    return change


def yes(logits: Logits) -> Tensor:
    """Return p(yes) of all runs."""
    return torch.cat([part.softmax(-1)[..., 0].flatten() for part in logits])


@pytest.mark.parametrize(("module", "option"), OPTIONS)
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_real_model_is_changed_as_by_hooks(folder: str, module: str, option: str) -> None:
    """In bfloat16, no answer flips that is clearer than hooks in bfloat16 are exact."""
    found: dict[str, tuple[Tensor, Tensor]] = {}
    for dtype in ("float32", "bfloat16"):
        decoder, groups, engine = loaded(folder, dtype)
        change = change_of(decoder, groups, module, option)
        both = engine.logits(groups, change, 1280), by_hooks(decoder, groups, change)
        found[dtype] = yes(both[0]), yes(both[1])
    (ours, right), rounded = found["float32"], found["bfloat16"]
    off = [float((values - right).abs().max()) for values in (ours, *rounded)]
    flips = [int(((values > 0.5) != (right > 0.5)).sum()) for values in (ours, *rounded)]
    print(f"engine; engine and hooks in bfloat16: off by {off}, {flips} flips of {len(right)}")
    assert off[0] <= 1e-5
    flipped = (rounded[0] > 0.5) != (right > 0.5)
    assert ((right[flipped] - 0.5).abs() <= off[2]).all()
