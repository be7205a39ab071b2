"""`hf-ablated` agrees with plain hooks, by the real lm_eval command."""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval_runs import Evaluation, LmEval, documents_of
from places import SAMPLES
from small_models import ARCHITECTURES, UNUSUAL, WITHOUT_TREES, small_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from pragworld_interp.engine.decoder import find_blocks
from pragworld_interp.engine.interventions import ablated_module
from pragworld_tasks.data.prompts import label_prompt

TASKS = ("pragworld_manual_mc", "pragworld_entity_tracking_mc")
ALWAYS = ("gpt2",)
ABLATED = (0, 2)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of the words that are most frequent in the samples."""
    prompts = [
        label_prompt({"context": document.context, "question": document.question})
        for task in TASKS
        for document in documents_of(task, SAMPLES)
    ]
    split = Whitespace()
    words = Counter(word for prompt in prompts for word, _ in split.pre_tokenize_str(prompt))
    known = ["?", "!", "yes", "no", *(word for word, _ in words.most_common(90))]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(known))}
    tokenizer = Tokenizer(WordLevel(numbers, unk_token="?"))
    tokenizer.pre_tokenizer = split
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="?", eos_token="!")


def evaluate(lm_eval: LmEval, kind: str, folder: Path, extra: str = "") -> Evaluation:
    # Beside the model, because transformers has tokenizers of its own for some architectures.
    arguments = f"pretrained={folder / 'model'},tokenizer={folder / 'words'},dtype=float32{extra}"
    evaluation = lm_eval(
        *("--model", kind, "--model_args", arguments),
        *("--tasks", ",".join(TASKS), "--limit", "4", "--batch_size", "1", "--log_samples"),
        *("--device", "cpu"),
        with_our_models=True,
    )
    assert evaluation.returncode == 0, evaluation.log
    return evaluation


def likelihoods(evaluation: Evaluation) -> dict[tuple[str, str], float]:
    """Return the log-likelihood of each continuation of a prompt in the sample files."""
    return {
        (request["arg_0"], request["arg_1"]): float(response[0][0])
        for task in TASKS
        for sample in evaluation.samples(task)
        for request, response in zip(sample["arguments"].values(), sample["resps"], strict=True)
    }


@torch.inference_mode()
def likelihood_by_hooks(model: Any, ids: list[int]) -> float:
    """Return the log-likelihood of the last token, with the MLPs of some layers returning zeros."""
    most = getattr(model.config, "max_position_embeddings", len(ids))
    blocks = find_blocks(model)
    with ExitStack() as stack:
        for number in ABLATED:
            mlp = ablated_module(blocks[number], "mlp")
            stack.enter_context(mlp.register_forward_hook(_zeros))
        logits = model(torch.tensor([ids[:-1][-most:]])).logits[0, -1]
    return float(logits.log_softmax(-1)[ids[-1]])


def _zeros(_: nn.Module, __: Any, output: Any) -> Any:
    if isinstance(output, tuple | list):
        return type(output)([torch.zeros_like(output[0]), *output[1:]])
    return torch.zeros_like(output)


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, *WITHOUT_TREES, *UNUSUAL])
def test_our_model_of_lm_eval_agrees_with_hooks(
    architecture: str,
    tokenizer: PreTrainedTokenizerFast,
    lm_eval: LmEval,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if architecture not in ALWAYS:
        request.getfixturevalue("long_runs")
    small_model(architecture).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "words")
    expected = likelihoods(evaluate(lm_eval, "hf", tmp_path))
    layers = "+".join(map(str, ABLATED))
    ablated = likelihoods(evaluate(lm_eval, "hf-ablated", tmp_path, f",ablate=mlp:{layers}"))
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    by_hooks = {
        texts: likelihood_by_hooks(model, tokenizer("".join(texts))["input_ids"])
        for texts in expected
    }
    assert ablated == pytest.approx(by_hooks, rel=0, abs=1e-5)
    assert max(abs(ablated[texts] - expected[texts]) for texts in expected) > 0.01
