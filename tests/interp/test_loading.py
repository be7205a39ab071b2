"""Loading models and adapters from folders, refusals, and the prompts that models receive."""

import dataclasses
import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from tokenizers import AddedToken
from tokenizers.processors import TemplateProcessing
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from pragworld_interp.engine.ablation import ablated_logits
from pragworld_interp.engine.decoder import Decoder
from pragworld_interp.engine.interventions import Ablation
from pragworld_interp.engine.packing import pad_prompts
from pragworld_interp.engine.rope import longest_prompt
from pragworld_interp.prompts.examples import document_examples
from pragworld_interp.prompts.parts import PromptParts
from pragworld_interp.prompts.tokenization import TokenizedPrompt, tokenize_prompts
from pragworld_interp.run.loading import Model, check_revision, load_decoder
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.prompts import label_prompt
from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import every_layer
from pragworld_tasks.tiny import tiny_folder

TINY = str(tiny_folder())
DOCUMENTS = list(documents(generate(GeneratorSettings(groups=1, seed=389))))
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "[{{ message['role'] }}] {{ message['content'] }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)


def tokenized(
    decoder: Decoder, documents: Sequence[Document], chat_template: bool = False
) -> list[TokenizedPrompt]:
    """Return the prompts of documents as a decoder's tokenizer makes them."""
    most = longest_prompt(decoder.model)
    examples = document_examples(documents)
    return tokenize_prompts(decoder.tokenizer, examples, chat_template, most)


def logits_by_layer(decoder: Decoder, prompts: Sequence[TokenizedPrompt] | None = None) -> Tensor:
    """Return [1 + layers, prompts, 2] logits, with every MLP ablated in turn."""
    prompts = prompts or tokenized(decoder, DOCUMENTS, chat_template=False)
    batch = pad_prompts([prompt.ids for prompt in prompts])
    ablation = Ablation("mlp", every_layer(len(decoder.blocks)))
    return ablated_logits(decoder, batch, ablation, chunk=1000).cpu()


@pytest.fixture(scope="module")
def plain() -> Tensor:
    """Return the logits of the shipped model as it is."""
    return logits_by_layer(load_decoder(Model(TINY))[0])


def copied(to: Path, **config: Any) -> Path:
    """Copy the shipped model, with other settings in its config.json."""
    target = to / "model"
    shutil.copytree(tiny_folder(), target)
    content = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**content, **config}))
    return target


def refused(model: Model) -> str:
    """Return the one-line message with which a model is refused."""
    with pytest.raises(InputError) as caught:
        load_decoder(model)
    message = str(caught.value)
    assert "\n" not in message
    return message


# Adapters -----------------------------------------------------------------------------------------


def shipped(**config: Any) -> Any:
    """Return the shipped model, or a random one like it with another config."""
    if not config:
        return AutoModelForCausalLM.from_pretrained(TINY)
    if layers := config.get("num_hidden_layers"):
        config["layer_types"] = ["full_attention"] * layers
    changed = AutoConfig.from_pretrained(TINY)
    changed.update(config)
    return AutoModelForCausalLM.from_config(changed)


def adapted(model: Any, target: Path, *modules: str) -> Any:
    """Return the model with a LoRA adapter that has an effect, and save the adapter."""
    torch.manual_seed(0)
    model = get_peft_model(model, LoraConfig(target_modules=list(modules), task_type="CAUSAL_LM"))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:  # zeros, as LoRA begins
            torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(target)
    return model.eval()


@pytest.mark.filterwarnings("ignore")  # peft's own
@pytest.mark.parametrize("modules", [("q_proj", "v_proj", "down_proj"), ("q_proj", "lm_head")])
def test_with_an_adapter_logits_are_those_of_peft(
    modules: tuple[str, ...], plain: Tensor, tmp_path: Path
) -> None:
    model = adapted(shipped(), tmp_path, *modules)
    decoder, identity = load_decoder(Model(TINY, adapter=str(tmp_path)))
    assert re.fullmatch(rf"{tmp_path}@[0-9a-f]{{8}}", identity.adapter or "")
    assert (identity.name, identity.layers, len(decoder.blocks)) == (TINY, 5, 5)
    assert [block.module for block in decoder.blocks] == list(decoder.model.model.layers)
    prompts = tokenized(decoder, DOCUMENTS, chat_template=False)
    with torch.inference_mode():
        logits = [model(torch.tensor([prompt.ids])).logits[0, -1] for prompt in prompts]
    found = logits_by_layer(decoder)
    expected = torch.stack(logits)[:, list(decoder.labels)]
    torch.testing.assert_close(found[0], expected, atol=1e-4, rtol=1e-4)
    assert (found[0] - plain[0]).abs().max() > 0.01  # the adapter does something


@pytest.mark.filterwarnings("ignore")
def test_an_adapter_does_not_change_the_type_of_the_residuals(tmp_path: Path) -> None:
    adapted(shipped(), tmp_path, "v_proj")
    decoder, identity = load_decoder(Model(TINY, adapter=str(tmp_path), dtype="bfloat16"))
    assert (decoder.dtype, identity.dtype) == (torch.bfloat16, "bfloat16")


def _nothing(target: Path) -> None:
    target.mkdir()


def _of_another_width(target: Path) -> None:
    adapted(shipped(hidden_size=64), target, "q_proj")


def _of_more_layers(target: Path) -> None:
    adapted(shipped(num_hidden_layers=7), target, "q_proj")


def _of_fewer_layers(target: Path) -> None:
    adapted(shipped(num_hidden_layers=3), target, "q_proj")


def _of_another_architecture(target: Path) -> None:
    adapted(shipped(), target, "q_proj")
    path = target / "adapter_config.json"
    path.write_text(path.read_text().replace("q_proj", "c_attn"))


def _of_virtual_tokens(target: Path) -> None:
    config = PromptTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM")
    get_peft_model(shipped(), config).save_pretrained(target)


def _without_weights(target: Path) -> None:
    adapted(shipped(), target, "q_proj")
    (target / "adapter_model.safetensors").unlink()


def _with_weights_cut_off(target: Path) -> None:
    adapted(shipped(), target, "q_proj")
    path = target / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:5000])


def _of_an_unknown_kind(target: Path) -> None:
    adapted(shipped(), target, "q_proj")
    (target / "adapter_config.json").write_text('{"peft_type": "TELEPATHY"}')


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_nothing, r"the folder has no adapter_config\.json$"),
        (lambda _: None, "there is no such folder$"),
        (_of_another_width, r"size mismatch for .*q_proj.*\[8, 64\].*\[8, 128\]"),
        (_of_more_layers, r"trained for another model; this one has no .*layers\.5\."),
        (_of_fewer_layers, r"missing adapter keys .*layers\.3\."),
        (_of_another_architecture, "Target modules .*c_attn.* not found"),
        (
            _of_virtual_tokens,
            "it adds tokens before the prompt; only adapters within the model's modules",
        ),
        (_without_weights, r"the folder has no adapter_model\.safetensors$"),
        (_with_weights_cut_off, "incomplete metadata|not fully covered|invalid"),
        (_of_an_unknown_kind, "TELEPATHY"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_an_adapter_that_does_not_fit_is_refused_in_one_line(
    make: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    target = tmp_path / "adapter"
    make(target)
    refusal = refused(Model(TINY, adapter=str(target)))
    assert re.search(rf"^adapter {target}: .*{message}", refusal), refusal


# Models -------------------------------------------------------------------------------------------


def test_weights_run_in_the_requested_type(plain: Tensor) -> None:
    decoder, identity = load_decoder(Model(TINY, dtype="bfloat16"))
    assert (decoder.dtype, identity.dtype) == (torch.bfloat16, "bfloat16")
    assert {p.dtype for p in decoder.model.parameters()} == {torch.bfloat16}
    found = logits_by_layer(decoder)
    assert found.dtype == torch.float32
    assert 1e-6 < (found - plain).abs().max() < 0.5
    assert load_decoder(Model(TINY))[1].dtype == "float32"  # that of the weights


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("device_map", ["cpu", "auto"])
def test_a_device_map_does_not_change_the_logits(
    device_map: str, hooked: bool, plain: Tensor
) -> None:
    decoder, _ = load_decoder(Model(TINY, device_map=device_map))
    if hooked:  # as accelerate does to every module where there are several devices
        for module in decoder.model.modules():
            add_hook_to_module(
                module, AlignDevicesHook(execution_device=decoder.device, io_same_device=True)
            )
    torch.testing.assert_close(logits_by_layer(decoder), plain, atol=1e-4, rtol=1e-4)


@pytest.mark.skipif(find_spec("bitsandbytes") is not None, reason="bitsandbytes is installed")
@pytest.mark.parametrize("quantization", ["4bit", "8bit"])
def test_quantization_without_bitsandbytes_says_what_to_install(quantization: Any) -> None:
    refusal = refused(Model(TINY, quantization=quantization))
    assert re.search(rf"^model {TINY}: .*pip install .*bitsandbytes", refusal), refusal


@pytest.mark.parametrize(
    ("attention", "reason"),
    [
        ("nonsense", "Specified .* is not supported"),
        pytest.param(
            "flash_attention_2",
            "FlashAttention2 .* doesn't seem to be installed|.* no GPU available",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
        ("failing", "RuntimeError: only bfloat16 is supported"),
    ],
)
def test_attention_that_cannot_be_used_is_refused_in_one_line(
    attention: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("only bfloat16 is supported")

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, "failing", fail)
    refusal = refused(Model(TINY, attn_implementation=attention))
    assert re.search(rf"^model {TINY}: ({reason})", refusal), refusal


def test_attention_whose_masks_cannot_be_divided_is_refused(tmp_path: Path) -> None:
    by_config = copied(tmp_path, attn_implementation="flex_attention")
    for model in (Model(TINY, attn_implementation="flex_attention"), Model(str(by_config))):
        assert refused(model).endswith("; use sdpa as the implementation of attention")
    load_decoder(Model(str(by_config), attn_implementation="sdpa"))


def _only(*names: str) -> Callable[[Path], None]:
    """Return a function that removes all but these files from a model's folder."""

    def make(target: Path) -> None:
        for path in target.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in names:
                path.unlink()

    return make


def _pickled(target: Path) -> None:
    (target / "model.safetensors").unlink()
    torch.save(shipped().state_dict(), target / "pytorch_model.bin")


def _cut_off(target: Path) -> None:
    path = target / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def _config(**settings: Any) -> Callable[[Path], None]:
    def make(target: Path) -> None:
        path = target / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))

    return make


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (shutil.rmtree, "there is no such folder$"),
        (_only(), r"the folder has no config\.json$"),
        (_only("config.json"), r"no file named model\.safetensors"),
        (
            _pickled,
            r"no file named model\.safetensors .*; only weights in safetensors format are supported$",
        ),
        (_cut_off, "incomplete metadata|not fully covered"),
        (lambda target: (target / "config.json").write_text("{"), "not a valid JSON file"),
        (_config(model_type="whatsit"), "model type `whatsit`"),
        (_config(hidden_size=64), "mismatched"),
        # Layers without weights would be random, which transformers only warns of.
        (
            _config(num_hidden_layers=6, layer_types=["full_attention"] * 6),
            r"11 weights are missing from the checkpoint \(for example model\.layers\.5\.input_layernorm\.weight\)",
        ),
    ],
)
def test_a_folder_that_is_not_a_whole_model_is_refused_in_one_line(
    make: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    target = copied(tmp_path)
    make(target)
    refusal = refused(Model(str(target)))
    assert re.search(rf"^model {target}: .*{message}", refusal), refusal


def test_a_masked_language_model_is_refused(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=len(tokenizer), initializer_range=0.3, **sizes)
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert refused(Model(str(tmp_path))).startswith("bert: its attention is not causal: ")


@pytest.mark.parametrize(
    "name", ["no-such/model-at-all", "a/b/c", str(tiny_folder() / "config.json")]
)
def test_a_name_that_is_not_there_is_refused_in_one_line(name: str) -> None:
    assert refused(Model(name)).startswith(f"model {name}: ")
    assert refused(Model(TINY, adapter=name)).startswith(f"adapter {name}: ")


def test_a_folder_has_no_revisions() -> None:
    refusal = f"model {TINY}: a folder has no revisions, but revision v1 is given; leave it out, or"
    assert refused(Model(TINY, revision="v1")).startswith(refusal)
    check_revision(TINY, "main")  # the default on the hub


def test_a_device_that_is_not_there_is_refused_in_one_line() -> None:
    assert refused(Model(TINY, device_map="nowhere")).startswith(f"model {TINY}: ")
    if not torch.cuda.is_available():
        assert re.search("CUDA|NVIDIA", refused(Model(TINY, device_map="cuda:0")))


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
    refusal = refused(Model(str(target)))
    assert refusal == (
        f"model {target}: it needs code that comes with it; read the code, then use "
        "--trust-remote-code"
    )
    assert not ran.exists()
    decoder, _ = load_decoder(Model(str(target), trust_remote_code=True))
    assert ran.exists()
    assert decoder.model.config.model_type == "strange"
    torch.testing.assert_close(logits_by_layer(decoder), plain, atol=1e-4, rtol=1e-4)


# Prompts ------------------------------------------------------------------------------------------


def templated(to: Path, template: str = TEMPLATE, *tokens: str) -> Model:
    """Return the shipped model with a chat template and more tokens."""
    target = copied(to)
    tokenizer = AutoTokenizer.from_pretrained(target)
    tokenizer.chat_template = template
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in tokens])
    tokenizer.save_pretrained(target)
    return Model(str(target), chat_template=True)


def dialogue(decoder: Decoder, prompt: TokenizedPrompt) -> str:
    """Return the text at the dialogue positions."""
    return text_at(decoder, prompt, prompt.parts.dialogue)


def text_at(decoder: Decoder, prompt: TokenizedPrompt, where: frozenset[int]) -> str:
    """Return the text at some positions, which must be adjacent."""
    positions = sorted(where)
    assert positions == list(range(positions[0], positions[-1] + 1))
    text: str = decoder.tokenizer.decode([prompt.ids[position] for position in positions])
    return text


def text_of(document: Any) -> str:
    return label_prompt({"context": document.context, "question": document.question})


def test_without_a_template_prompts_are_tokenized_as_they_are() -> None:
    decoder, identity = load_decoder(Model(TINY))
    assert not identity.chat_template
    bos = decoder.tokenizer.bos_token
    for document, prompt in zip(DOCUMENTS, tokenized(decoder, DOCUMENTS, False), strict=True):
        assert decoder.tokenizer.decode(prompt.ids) == bos + text_of(document)
        assert dialogue(decoder, prompt) == document.context
        assert text_at(decoder, prompt, prompt.parts.question).strip() == document.question
        utterances = [text_at(decoder, prompt, where) for where in prompt.parts.utterances]
        assert "".join(utterances) == document.context
        assert [text.rstrip("\n") for text in utterances] == document.context.split("\n")


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


def test_a_chat_template_stands_around_the_prompt_and_its_special_tokens_once(
    tmp_path: Path,
) -> None:
    model = templated(tmp_path)
    decoder, identity = load_decoder(model)
    assert identity.chat_template
    tokenizer = decoder.tokenizer
    for document, prompt in zip(DOCUMENTS, tokenized(decoder, DOCUMENTS, True), strict=True):
        text = tokenizer.decode(prompt.ids)
        assert text == f"<s>[user] {text_of(document)}</s>[assistant]"
        assert prompt.ids.count(tokenizer.bos_token_id) == 1
        assert prompt.ids.count(tokenizer.eos_token_id) == 1
        assert dialogue(decoder, prompt) == document.context
        assert text_at(decoder, prompt, prompt.parts.question).strip() == document.question
        utterances = [text_at(decoder, prompt, where) for where in prompt.parts.utterances]
        assert "".join(utterances) == document.context
        assert [text.rstrip("\n") for text in utterances] == document.context.split("\n")


def test_a_token_that_reaches_beyond_the_dialogue_is_not_taken_for_it(tmp_path: Path) -> None:
    instruction = "Read this conversation between the two speakers:\n"
    decoder, _ = load_decoder(templated(tmp_path, TEMPLATE, f"{instruction}* Al", "!\n\nNow"))
    document = dataclasses.replace(DOCUMENTS[0], context="* Alice: The pears\nBob: are gone!")
    for chat_template in (False, True):
        (prompt,) = tokenized(decoder, [document], chat_template)
        assert dialogue(decoder, prompt) == "ice: The pears\nBob: are gone"


def test_where_a_template_changes_the_dialogue_no_position_is_taken_for_it(tmp_path: Path) -> None:
    changing = TEMPLATE.replace("message['content']", "message['content'] | upper")
    decoder, _ = load_decoder(templated(tmp_path, changing))
    (prompt,) = tokenized(decoder, DOCUMENTS[:1], True)
    assert prompt.parts == PromptParts()


def test_a_template_that_is_not_there_is_refused() -> None:
    refusal = refused(Model(TINY, chat_template=True))
    assert refusal == f"model {TINY}: the tokenizer has no chat template; leave out --chat-template"


@pytest.mark.parametrize("chat_template", [False, True])
def test_a_prompt_that_is_too_long_is_named(chat_template: bool, tmp_path: Path) -> None:
    model = templated(tmp_path)
    _config(max_position_embeddings=300)(Path(model.name))
    decoder, _ = load_decoder(model)
    subset = list(DOCUMENTS)
    assert len(tokenized(decoder, subset, chat_template)) == len(subset)
    subset[3] = dataclasses.replace(subset[3], context="\n".join([subset[3].context] * 9))
    with pytest.raises(
        InputError,
        match=r"^split generated, row 3: the prompt has \d+ tokens, but the model supports 300; ",
    ):
        tokenized(decoder, subset, chat_template)


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
