"""The models that lm-eval gets from us agree with its own `hf` and with plain hooks."""

import copy
import itertools
import random
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from peft import LoraConfig, PrefixTuningConfig, PromptTuningConfig, get_peft_model
from small_models import ARCHITECTURES, UNUSUAL, WITHOUT_TREES, small_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import nn
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

from pragworld_interp import EXAMPLES, likelihoods, read_layers
from pragworld_interp.engine import tree_attention
from pragworld_interp.engine.decoder import find_blocks, without_labels
from pragworld_interp.engine.interventions import ablated_module
from pragworld_interp.engine.packing import build_tree
from pragworld_interp.likelihoods import (
    Continuation,
    share_prefixes,
    tree_batches,
    tree_likelihoods,
)
from pragworld_interp.lm_eval_models import AblatedLM, TreeLM
from pragworld_tasks.layers.settings import Intervention, Module
from pragworld_tasks.tiny import tiny_folder

CONTEXT = [1, 40, 8, 23, 61, 9, 77, 34, 18, 52, 90]
Tokenized = tuple[Any, list[int], list[int]]
REQUESTS: list[Tokenized] = [
    (("", str(number)), context, continuation)
    for number, (context, continuation) in enumerate(
        itertools.product(
            [CONTEXT, [*CONTEXT, 14], [*CONTEXT[:5], 33, *CONTEXT[6:]], [1], [7, 5, 7]],
            [[5], [6], [5, 9, 30], [6, 9], [9, 5, 9]],
        )
    )
] + [(("", "long"), [1, *range(3, 90)], [5, 8]), (("", "twin"), CONTEXT, [5])]

# Whose window is shorter than the longest request, or which do not support trees.
AS_HF_DOES = {
    *("mistral", "gemma2", "gemma3_text", "gpt_oss", "gpt_neo", "phi3, longrope"),
    *("bloom", "mpt", "xglm", "openai-gpt", "qwen3_next"),
}


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of numbers."""
    words = Tokenizer(WordLevel({str(number): number for number in range(96)}, unk_token="0"))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="0", eos_token="2")


def settings(architecture: str) -> dict[str, Any]:
    return {"pretrained": small_model(architecture), "tokenizer": tokenizer()}


def likelihoods_of(lm: HFLM, requests: Sequence[Tokenized] = REQUESTS) -> list[tuple[float, bool]]:
    found: list[tuple[float, bool]] = lm._loglikelihood_tokens(requests, disable_tqdm=True)
    return found


def assert_same(
    found: Sequence[tuple[float, bool]], expected: Sequence[tuple[float, bool]]
) -> None:
    values, expected_values = ([value for value, _ in each] for each in (found, expected))
    assert values == pytest.approx(expected_values, rel=0, abs=1e-5)
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, *WITHOUT_TREES, *UNUSUAL])
def test_shared_prefixes_change_no_likelihood(
    architecture: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in (("SHORTEST", 2), ("LONGEST", 4), ("WORTHWHILE", 1.0)):
        monkeypatch.setattr(tree_attention, name, value)
    monkeypatch.setattr(likelihoods, "_LOGITS", 400)  # several parts
    lm = TreeLM(**settings(architecture))
    caplog.clear()
    found = likelihoods_of(lm)
    assert any("as hf does" in message for message in caplog.messages) == (
        architecture in AS_HF_DOES
    )
    # One at a time: in a batch, other prompts change what some of these models say.
    plain = HFLM(**settings(architecture), batch_size=1)
    assert_same(found, likelihoods_of(plain))


def test_continuations_that_fill_a_tree_are_scored_beside_others() -> None:
    """Of two trees in a batch, every position of the larger one is scored, not of the other."""
    generator = random.Random(0)
    context = [generator.randrange(7, 90) for _ in range(30)]
    contexts = [[1]] * 20 + [[2, *context]] * 15
    words = [[generator.randrange(7, 90) for _ in range(8)] for _ in contexts]
    asked = [
        Continuation([*before, *after[:-1]], after)
        for before, after in zip(contexts, words, strict=True)
    ]
    decoder = without_labels(small_model("qwen2"), tokenizer())
    assert [len(batch) for batch in tree_batches([one.inputs for one in asked], 2000)] == [2]
    found = tree_likelihoods(decoder, asked, 2000)
    alone = [one for each in asked for one in tree_likelihoods(decoder, [each], 2000)]
    values, expected = ([one.log_probability for one in each] for each in (found, alone))
    assert values == pytest.approx(expected, rel=0, abs=1e-4)


def test_adapters_count_and_logits_are_those_of_the_answers_only() -> None:
    adapter = LoraConfig(r=4, target_modules=["q_proj", "up_proj"], init_lora_weights=False)
    model = get_peft_model(copy.deepcopy(small_model("llama")), adapter)
    adapted = {**settings("llama"), "pretrained": model}
    expected = likelihoods_of(HFLM(**adapted, batch_size=1))
    lengths = []
    lm = TreeLM(**adapted)
    with model.get_output_embeddings().register_forward_pre_hook(
        lambda _, arguments: lengths.append(arguments[0].shape[1])
    ):
        assert_same(likelihoods_of(lm), expected)
    assert set(lengths) == {1}


@pytest.mark.parametrize("kind", [PromptTuningConfig, PrefixTuningConfig])
def test_adapters_that_add_tokens_run_as_in_hf(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    adapter = kind(task_type="CAUSAL_LM", num_virtual_tokens=4)
    model = get_peft_model(copy.deepcopy(small_model("llama")), adapter)
    adapted = {**settings("llama"), "pretrained": model}
    found = likelihoods_of(TreeLM(**adapted))
    assert any("as hf does: adapter default: it adds tokens" in text for text in caplog.messages)
    assert_same(found, likelihoods_of(HFLM(**adapted)))


def test_attention_with_masks_of_blocks_is_not_tried(caplog: pytest.LogCaptureFixture) -> None:
    model = copy.deepcopy(small_model("llama"))
    model.set_attn_implementation("flex_attention")  # with the mask of a tree, it would crash
    TreeLM(**{**settings("llama"), "pretrained": model})
    assert any("as hf does: llama: flex_attention has masks" in text for text in caplog.messages)


@pytest.mark.parametrize(
    ("context", "continuation", "error"),
    [
        (CONTEXT, [], "'some text': the continuation has no tokens"),
        (CONTEXT, [5] * 257, "'some text': the continuation has 257 tokens, but the model suppor"),
        ([], [5], "'some text': the context has no tokens"),
        ([], [5, 6], "'some text': the context has no tokens"),
    ],
)
def test_requests_without_a_likelihood_are_refused(
    context: list[int], continuation: list[int], error: str
) -> None:
    lm = TreeLM(**settings("llama"))
    request = (("some text", ""), context, continuation)
    with pytest.raises(SystemExit, match=error):
        likelihoods_of(lm, [*REQUESTS, request])


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=1, max_size=9),
    st.integers(1, 20),
)
def test_sequences_that_begin_alike_share_a_tree(sequences: list[list[int]], most: int) -> None:
    forest = share_prefixes(sequences, most)
    assert sorted(number for numbers, _ in forest for number in numbers) == [*range(len(sequences))]
    for numbers, size in forest:
        assert size == len(build_tree([sequences[number] for number in numbers]).ids)
        assert size <= most or len(numbers) == 1


def test_a_lack_of_memory_changes_no_likelihood(monkeypatch: pytest.MonkeyPatch) -> None:
    lm = TreeLM(**settings("llama"))
    expected = likelihoods_of(lm)
    sizes = []

    def allocate(_: Any, arguments: tuple[torch.Tensor, ...]) -> None:
        sizes.append(arguments[0].numel() // arguments[0].shape[-1])
        if sizes[-1] > 90:
            raise torch.OutOfMemoryError("full")

    monkeypatch.setattr("pragworld_interp.engine.agreement.supports_trees", lambda *_: True)
    with find_blocks(lm.model)[1].mlp.register_forward_pre_hook(allocate):
        assert_same(likelihoods_of(lm), expected)
    assert max(sizes) > 90


def test_texts_are_as_likely_as_hf_finds_them_piece_by_piece() -> None:
    text = " ".join(map(str, itertools.islice(itertools.cycle(range(3, 90)), 600)))
    found, expected = (
        kind(**settings("llama")).loglikelihood_rolling(
            [Instance("loglikelihood_rolling", {}, (text,), 0)], disable_tqdm=True
        )
        for kind in (TreeLM, HFLM)
    )
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("architecture", ["llama", "bloom"])  # as trees, and as hf does
def test_long_and_empty_contexts_have_the_likelihoods_of_hf(architecture: str) -> None:
    text = " ".join(map(str, itertools.islice(itertools.cycle(range(3, 90)), 300)))
    assert len(text.split()) > HFLM(**settings(architecture)).max_length == 256
    texts = [(text, " 5"), (text, " 6 7"), (f"8 {text}", " 5"), (text[:-3], " 5")]
    texts += [("", "5"), ("", "5 6"), ("4", " 5"), ("4 ", "5"), (text, text[:90])]
    requests = [
        Instance("loglikelihood", {}, pair, number)
        for number, pair in enumerate([*texts, texts[4]])
    ]
    found, *expected = (
        kind(**settings(architecture), batch_size=size, max_batch_size=4).loglikelihood(
            requests, disable_tqdm=True
        )
        for kind, size in ((TreeLM, "auto"), (HFLM, "auto"), (HFLM, 1))
    )
    for plain in expected:
        assert_same(found, plain)


# Ablation -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["mlp", "attention"])
@pytest.mark.parametrize("architecture", [*ARCHITECTURES, *UNUSUAL])
def test_ablated_layers_return_zeros(architecture: str, module: Module) -> None:
    few = REQUESTS[::6]
    expected_model = HFLM(**settings(architecture), batch_size=1)
    with ExitStack() as stack:
        for number in (0, 2):
            part = ablated_module(find_blocks(expected_model.model)[number], module)
            stack.enter_context(part.register_forward_hook(returning_zeros))
        expected = likelihoods_of(expected_model, few)
    whole = likelihoods_of(expected_model, few)
    ablated = AblatedLM(**settings(architecture), ablate=f"{module}:0,2", batch_size=1)
    found = likelihoods_of(ablated, few)
    assert_same(found, expected)
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
    likelihoods_of(lm, REQUESTS[:1])
    assert torch.equal(model(ids).logits, plain)
    found = lm._model_generate(ids, len(CONTEXT) + 4, stop=[], do_sample=False)
    assert torch.equal(found, without)
    assert not torch.equal(without, expected)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "hf-ablated needs one of ablate=mlp:5,7 and layers=layers.json"),
        ({"ablate": "mlp:1", "layers": "layers.json"}, "needs one of"),
        (
            {"ablate": "mlp:1", "role": "useful"},
            "ablate=mlp:1: role= and by= choose layers of a rep",
        ),
        (
            {"ablate": "mlp:1", "by": "sign"},
            "ablate=mlp:1: role= and by= choose layers of a report",
        ),
        ({"ablate": "norm:1"}, "ablate=norm:1: must name a module and layers, such as mlp:5,7"),
        ({"ablate": "mlp:"}, "ablate=mlp:: must name"),
        ({"ablate": "mlp:2-1"}, "ablate=mlp:2-1: must name"),
        ({"ablate": "mlp:0", "1": ""}, "lm_eval divided it at a comma; write ablate=mlp:[0,1]"),
        ({"ablate": "mlp:3"}, "layer 3 does not exist; the model has layers 0 to 2"),
        ({"layers": str(EXAMPLES / "layers.json"), "role": "bad"}, "role='bad': must be one of"),
        (
            {"layers": str(EXAMPLES / "layers.json"), "by": "evidence", "role": "useful"},
            "layers.json: no layer is useful by evidence; choose another role=, or by=",
        ),
        ({"layers": "nowhere.json"}, "nowhere.json"),
    ],
)
def test_a_wrong_ablation_is_refused(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises(SystemExit, match=re.escape(error)):
        AblatedLM(**settings("llama"), **arguments)


def test_a_model_with_an_encoder_is_refused() -> None:
    config = T5Config(vocab_size=96, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    model = T5ForConditionalGeneration(config)
    with pytest.raises(SystemExit, match=r"t5: the model has an encoder, .* decoders only"):
        AblatedLM(pretrained=model, tokenizer=tokenizer(), ablate="mlp:0")


def test_a_report_tells_which_layers_to_ablate(tmp_path: Path) -> None:
    report = read_layers(EXAMPLES / "layers.json")
    lm = AblatedLM(
        pretrained=str(tiny_folder()),
        device="cpu",
        layers=str(EXAMPLES / "layers.json"),
        role="useful",
    )
    numbers = ", ".join(map(str, report.selected("useful")))
    assert lm.get_model_info()["ablated"] == f"mlp of layers {numbers}"
    assert not report.selected("harmful")
    with pytest.raises(SystemExit, match="no layer is harmful by sign; choose another role="):
        AblatedLM(pretrained=str(tiny_folder()), layers=str(EXAMPLES / "layers.json"))
    with pytest.raises(SystemExit, match=r"a report of .*tiny with 5 layers; this model has 3$"):
        AblatedLM(**settings("llama"), layers=str(EXAMPLES / "layers.json"), role="useful")
    mean = replace(report, intervention=Intervention("mlp", "mean"))
    mean.write(tmp_path / "mean.json")
    with pytest.raises(SystemExit, match="the sweep replaced outputs by mean, but hf-ablated"):
        AblatedLM(pretrained=str(tiny_folder()), layers=str(tmp_path / "mean.json"))
