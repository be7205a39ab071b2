"""The model that lm-eval gets from us agrees with plain hooks in its own `hf`."""

from contextlib import ExitStack
from typing import Any

import pytest
import torch
from lm_eval.models.huggingface import HFLM
from small_models import ARCHITECTURES, UNUSUAL, small_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import nn
from transformers import PreTrainedTokenizerFast

from pragworld_interp import EXAMPLES, read_layers
from pragworld_interp.engine.decoder import find_blocks
from pragworld_interp.engine.interventions import ablated_module
from pragworld_interp.lm_eval_models import AblatedLM
from pragworld_tasks.layers.settings import Module
from pragworld_tasks.tiny import tiny_folder

CONTEXT = [1, 40, 8, 23, 61, 9, 77, 34, 18, 52, 90]
Tokenized = tuple[Any, list[int], list[int]]
REQUESTS: list[Tokenized] = [
    (("", "one token"), CONTEXT, [5]),
    (("", "another"), [*CONTEXT, 14], [6]),
    (("", "three tokens"), [*CONTEXT[:5], 33, *CONTEXT[6:]], [5, 9, 30]),
    (("", "BOS alone"), [1], [6, 9]),
    (("", "no BOS"), [7, 5, 7], [9, 5, 9]),
]


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(WordLevel({str(number): number for number in range(96)}, unk_token="0"))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="0", eos_token="2")


def settings(architecture: str) -> dict[str, Any]:
    return {"pretrained": small_model(architecture), "tokenizer": tokenizer()}


def likelihoods_of(lm: HFLM) -> list[tuple[float, bool]]:
    found: list[tuple[float, bool]] = lm._loglikelihood_tokens(REQUESTS, disable_tqdm=True)
    return found


@pytest.mark.parametrize("module", ["mlp", "attention"])
@pytest.mark.parametrize("architecture", [a for a in (*ARCHITECTURES, *UNUSUAL) if a != "xlstm"])
def test_ablated_layers_return_zeros(architecture: str, module: Module) -> None:
    expected_model = HFLM(**settings(architecture), batch_size=1)
    with ExitStack() as stack:
        for number in (0, 2):
            part = ablated_module(find_blocks(expected_model.model)[number], module)
            stack.enter_context(part.register_forward_hook(returning_zeros))
        expected = likelihoods_of(expected_model)
    whole = likelihoods_of(expected_model)
    ablated = AblatedLM(**settings(architecture), ablate=f"{module}:0,2", batch_size=1)
    found = likelihoods_of(ablated)
    (values, greedy), (right, right_greedy) = (
        zip(*each, strict=True) for each in (found, expected)
    )
    assert values == pytest.approx(right, rel=0, abs=1e-5)
    assert greedy == right_greedy
    assert max(abs(one - other) for (one, _), (other, _) in zip(found, whole, strict=True)) > 0.01


def returning_zeros(_: nn.Module, __: Any, output: Any) -> Any:
    if isinstance(output, tuple | list):
        return type(output)([torch.zeros_like(output[0]), *output[1:]])
    return torch.zeros_like(output)


def test_a_model_in_memory_is_ablated_in_lm_eval_alone() -> None:
    model = small_model("llama")
    ids = torch.tensor([CONTEXT])
    plain, expected = model(ids).logits, model.generate(ids, max_new_tokens=4, do_sample=False)
    with ablated_module(find_blocks(model)[1], "mlp").register_forward_hook(returning_zeros):
        without = model.generate(ids, max_new_tokens=4, do_sample=False)
    lm = AblatedLM(**settings("llama"), ablate="mlp:1")
    likelihoods_of(lm)
    assert torch.equal(model(ids).logits, plain)
    found = lm._model_generate(ids, len(CONTEXT) + 4, stop=[], do_sample=False)
    assert torch.equal(found, without)
    assert not torch.equal(without, expected)


def test_a_report_tells_which_layers_to_ablate() -> None:
    report = read_layers(EXAMPLES / "layers.json")
    lm = AblatedLM(
        pretrained=str(tiny_folder()),
        device="cpu",
        layers=str(EXAMPLES / "layers.json"),
        role="useful",
        by="sign",
    )
    numbers = ", ".join(map(str, report.selected("useful", by="sign")))
    assert lm.get_model_info()["ablated"] == f"mlp of layers {numbers}"
