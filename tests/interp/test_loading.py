"""Models and adapters from folders, their blocks, and the prompts and labels that they receive."""

import dataclasses
import json
import re
import shutil
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from peft import LoraConfig, get_peft_model
from places import ROOT
from plain_hooks import group_of, label_logits, small_decoder
from small_models import ARCHITECTURES, UNUSUAL, WITHOUT_TREES, LabelsOnly, small_model
from tokenizers import AddedToken
from tokenizers.processors import TemplateProcessing
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

import pragworld_tasks as pt
from pragworld_interp.engine.decoder import OLDEST_TRANSFORMERS, Decoder, from_model
from pragworld_interp.engine.interventions import ModuleChange
from pragworld_interp.engine.one_pass import OnePassEngine
from pragworld_interp.engine.rope import longest_prompt
from pragworld_interp.prompts.examples import document_examples
from pragworld_interp.prompts.labels import label_tokens
from pragworld_interp.prompts.tokenization import TokenizedPrompt, tokenize_prompts
from pragworld_interp.run.loading import Model, load_decoder
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.prompts import label_prompt
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import every_layer
from pragworld_tasks.tiny import tiny_folder

TINY = str(tiny_folder())
DOCUMENTS = pt.generate(groups=1, seed=389)
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "[{{ message['role'] }}] {{ message['content'] }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)


def tokenized(
    decoder: Decoder, documents: Sequence[Document], chat_template: bool = False
) -> list[TokenizedPrompt]:
    most = longest_prompt(decoder.model)
    examples = document_examples(documents)
    return tokenize_prompts(decoder.tokenizer, examples, chat_template, most)


def logits_by_layer(decoder: Decoder) -> Tensor:
    """Return [1 + layers, prompts, 2] logits, with every MLP ablated in turn."""
    group = group_of([prompt.ids for prompt in tokenized(decoder, DOCUMENTS)])
    change = ModuleChange("mlp", every_layer(len(decoder.blocks)))
    logits = OnePassEngine(decoder, False).logits([group], change, 1000)
    return torch.cat([logits.plain[None], logits.changed])


@pytest.fixture(scope="module")
def plain() -> Tensor:
    return logits_by_layer(load_decoder(Model(TINY))[0])


def copied(to: Path, **config: Any) -> Path:
    """Copy the shipped model, with other settings in its config.json."""
    target = to / "model"
    shutil.copytree(tiny_folder(), target)
    content = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**content, **config}))
    return target


@pytest.mark.filterwarnings("ignore")  # peft's own
@pytest.mark.parametrize("modules", [("q_proj", "v_proj", "down_proj"), ("q_proj", "lm_head")])
def test_with_an_adapter_logits_are_those_of_peft(
    modules: tuple[str, ...], plain: Tensor, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    config = LoraConfig(target_modules=[*modules], init_lora_weights=False, task_type="CAUSAL_LM")
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(TINY), config).eval()
    model.save_pretrained(tmp_path)
    decoder, identity = load_decoder(Model(TINY, adapter=str(tmp_path)))
    assert re.fullmatch(rf"{tmp_path}@[0-9a-f]{{8}}", identity.adapter or "")
    assert (identity.name, identity.layers, len(decoder.blocks)) == (TINY, 5, 5)
    assert [block.module for block in decoder.blocks] == list(decoder.model.model.layers)
    with torch.inference_mode():
        prompts = tokenized(decoder, DOCUMENTS)
        logits = [model(torch.tensor([prompt.ids])).logits[0, -1] for prompt in prompts]
    found = logits_by_layer(decoder)
    expected = torch.stack(logits)[:, list(decoder.labels)]
    torch.testing.assert_close(found[0], expected, atol=1e-4, rtol=1e-4)
    assert (found[0] - plain[0]).abs().max() > 0.01  # the adapter does something


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, *WITHOUT_TREES, *UNUSUAL])
def test_a_model_in_a_folder_is_the_one_that_was_saved(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some architectures have tokenizers of their own, which would not know the labels."""
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *_, **__: LabelsOnly())
    small_model(architecture).save_pretrained(tmp_path)
    decoder, identity = load_decoder(Model(str(tmp_path)))
    assert (decoder.labels, identity.layers) == ((5, 6), 3)
    prompt = [1, 40, 8, 23, 61, 9, 77]
    expected = label_logits(small_decoder(architecture), prompt)
    assert torch.equal(label_logits(decoder, prompt), expected)


def test_weights_run_in_the_requested_type(plain: Tensor) -> None:
    decoder, identity = load_decoder(Model(TINY, dtype="bfloat16"))
    assert (decoder.dtype, identity.dtype) == (torch.bfloat16, "bfloat16")
    assert {p.dtype for p in decoder.model.parameters()} == {torch.bfloat16}
    found = logits_by_layer(decoder)
    assert found.dtype == torch.float32
    assert 1e-6 < (found - plain).abs().max() < 0.5
    assert load_decoder(Model(TINY))[1].dtype == "float32"  # that of the weights


def test_code_that_comes_with_a_model_runs_only_where_that_is_allowed(
    plain: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Strange"}
    target = copied(tmp_path, model_type="strange", auto_map=classes)
    ran = tmp_path / "ran"
    (target / "code.py").write_text(
        "from pathlib import Path\n"
        "from transformers import Qwen3Config, Qwen3ForCausalLM\n"
        f"Path({str(ran)!r}).touch()\n"
        "class Config(Qwen3Config):\n"
        "    model_type = 'strange'\n"
        "class Strange(Qwen3ForCausalLM):\n"
        "    config_class = Config\n"
    )
    # transformers copies the code there and imports it.
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "m"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(
        InputError,
        match=f"^model {target}: it needs code that comes with it; read the code, then use --trust",
    ):
        load_decoder(Model(str(target)))
    assert not ran.exists()
    decoder, _ = load_decoder(Model(str(target), trust_remote_code=True))
    assert ran.exists()
    assert decoder.model.config.model_type == "strange"
    torch.testing.assert_close(logits_by_layer(decoder), plain, atol=1e-4, rtol=1e-4)


def templated(to: Path, *tokens: str, **config: Any) -> Model:
    """Return the shipped model with a chat template, more tokens, and other settings."""
    target = copied(to, **config)
    tokenizer = AutoTokenizer.from_pretrained(target)
    tokenizer.chat_template = TEMPLATE
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in tokens])
    tokenizer.save_pretrained(target)
    return Model(str(target), chat_template=True)


def text_at(decoder: Decoder, prompt: TokenizedPrompt, where: frozenset[int]) -> str:
    """Return the text at some positions, which must be adjacent."""
    positions = sorted(where)
    assert positions == list(range(positions[0], positions[-1] + 1))
    text: str = decoder.tokenizer.decode([prompt.ids[position] for position in positions])
    return text


@pytest.mark.parametrize("chat_template", [False, True])
def test_prompts_are_tokenized_with_special_tokens_once(
    chat_template: bool, tmp_path: Path
) -> None:
    model = templated(tmp_path, max_position_embeddings=300)
    decoder, identity = load_decoder(dataclasses.replace(model, chat_template=chat_template))
    assert identity.chat_template == chat_template
    subset = list(DOCUMENTS)
    for document, prompt in zip(subset, tokenized(decoder, subset, chat_template), strict=True):
        text = label_prompt({"context": document.context, "question": document.question})
        whole = f"<s>[user] {text}</s>[assistant]" if chat_template else f"<s>{text}"
        assert decoder.tokenizer.decode(prompt.ids) == whole
        assert prompt.ids.count(decoder.tokenizer.bos_token_id) == 1
        assert prompt.ids.count(decoder.tokenizer.eos_token_id) == chat_template
        assert text_at(decoder, prompt, prompt.parts.question).strip() == document.question
        utterances = [text_at(decoder, prompt, where) for where in prompt.parts.utterances]
        assert "".join(utterances) == document.context
        assert [text.rstrip("\n") for text in utterances] == document.context.split("\n")
    subset[3] = dataclasses.replace(subset[3], context="\n".join([subset[3].context] * 9))
    with pytest.raises(
        InputError,
        match=r"^split generated, row 3: the prompt has \d+ tokens, but the model supports 300; ",
    ):
        tokenized(decoder, subset, chat_template)


def test_a_tokenizer_that_appends_eos_is_read_where_the_prompt_ends(tmp_path: Path) -> None:
    target = copied(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(target)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A </s>",
        special_tokens=[
            (token, tokenizer.convert_tokens_to_ids(token)) for token in ("<s>", "</s>")
        ],
    )
    tokenizer.save_pretrained(target)
    ending, _ = load_decoder(Model(str(target)))
    assert ending.tokenizer("a")["input_ids"][-1] == tokenizer.eos_token_id
    plain, _ = load_decoder(Model(TINY))
    assert tokenized(ending, DOCUMENTS, False) == tokenized(plain, DOCUMENTS, False)
    assert ending.labels == plain.labels


def test_a_token_that_reaches_beyond_the_dialogue_is_not_taken_for_it(tmp_path: Path) -> None:
    instruction = "Read this conversation between the two speakers:\n"
    decoder, _ = load_decoder(templated(tmp_path, f"{instruction}* Al", "!\n\nNow"))
    document = dataclasses.replace(DOCUMENTS[0], context="* Alice: The pears\nBob: are gone!")
    for chat_template in (False, True):
        (prompt,) = tokenized(decoder, [document], chat_template)
        assert text_at(decoder, prompt, prompt.parts.dialogue) == "ice: The pears\nBob: are gone"


@pytest.mark.parametrize(
    ("config", "most"),
    [
        (transformers.GPT2Config(n_embd=8, n_layer=1, n_head=2, n_positions=200), 200),
        (transformers.MptConfig(d_model=8, n_layers=1, n_heads=2, max_seq_len=200), 200),
        (transformers.BloomConfig(hidden_size=8, n_layer=1, n_head=2), None),
    ],
)
def test_the_longest_prompt_is_known_whatever_the_config_calls_it(
    config: Any, most: int | None
) -> None:
    assert longest_prompt(AutoModelForCausalLM.from_config(config)) == most


def test_transformers_that_gives_wrong_numbers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert any(
        needed.startswith(f"transformers>={OLDEST_TRANSFORMERS}")
        for needed in project["optional-dependencies"]["interp"]
    )
    monkeypatch.setattr("pragworld_interp.engine.decoder.transformers.__version__", "4.57.6")
    message = "transformers 4.57.6 is too old for layers; needed is 5.13.0 or newer: pip install -U"
    with pytest.raises(InputError, match=message):
        from_model(small_model("qwen2"), LabelsOnly())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_blocks_and_their_parts_are_found_by_structure(architecture: str) -> None:
    model = small_model(architecture)
    names = {module: name for name, module in model.named_modules()}
    decoder = from_model(model, LabelsOnly())
    assert len(decoder.blocks) == 3
    for number, block in enumerate(decoder.blocks):
        name = names[block.module]
        assert name.endswith(f".{number}")
        assert names[block.mlp] in (f"{name}.mlp", f"{name}.feed_forward")
        own = {"gpt2": "attn", "gptj": "attn", "gpt_neox": "attention"}
        assert names[block.attention] == f"{name}.{own.get(architecture, 'self_attn')}"


def test_labels_are_what_lm_eval_puts_behind_a_prompt() -> None:
    """A space stands before them, unless a chat template is used."""
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    tokenizer.chat_template = "{{ messages[0]['content'] }}<s>"
    for chat_template, texts in ((False, [" yes", " no"]), (True, ["yes", "no"])):
        (yes,), (no,) = tokenizer(texts, add_special_tokens=False)["input_ids"]
        assert label_tokens(tokenizer, chat_template) == (yes, no)
