"""Every refusal of sweeps, of the models they run, and of `hf-ablated`, once."""

import copy
import json
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import transformers
from command_runs import refused
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from small_models import TABLES, LabelsOnly, small_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import pragworld_tasks as pt
from pragworld_interp import EXAMPLES, ablate, patch, read_layers, trace
from pragworld_interp.cli import main
from pragworld_interp.engine.decoder import from_model
from pragworld_interp.engine.one_pass import OnePassEngine
from pragworld_interp.lm_eval_models import AblatedLM
from pragworld_interp.run.inputs import parse_layers, select_pair
from pragworld_interp.run.loading import Model, load_decoder
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import Intervention
from pragworld_tasks.tiny import tiny_folder

TINY = str(tiny_folder())
LAYERS = str(EXAMPLES / "layers.json")

# Commands -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("ablate --limit 0", "--limit 0: must be at least 1$"),
        ("ablate --layers 2-1", "layers 2-1: must be numbers, ranges, or layers to ablate together, such as "),
        ("ablate --metadata '{\"grups\": 3}'", "setting 'grups' does not exist; choose from groups, seed, "),
        ("ablate --positions utterance", "positions utterance: must be all, dialogue, question, last, or a span of "),
        ("patch --positions -1", "positions -1: must be all, dialogue, question, last, altered, utterance, or a "),
        ("patch --positions -1:-3", r"split generated, row 0: the prompt has \d+ tokens, none of them in -1:-3; choose"),
        ("patch --row 0", "split generated, row 0: not an altered variant among the documents; choose 1, 2"),
        ("patch --row 1 --positions last", "--row patches the residuals of every token of one variant; leave out "),
        ("ablate --revert x --module heads", "revert runs whole layers of another model; leave out module, replace"),
        ("ablate --model no/such-model --out file/results", "file/results: Not a directory; choose a file that can"),
        ("patch --model no/such-model --out file", "file exists; pass --overwrite, or another name$"),
        ("plot layers.json patching.json --out f.png", "patching.json: version 3 of pragworld-patching, not "),
        ("plot patching.json --by sign --out f.png", "--by applies to files that `ablate` wrote; leave it out"),
        ("plot trace.json trace.json --out f.png", "a figure shows one file of `patch --row`, without other"),
        ("compare layers.json layers.json --json file", "file exists; pass --overwrite, or another name$"),
    ],
)  # fmt: skip
def test_a_command_is_refused_in_one_line(
    words: str, line: str, loaded: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written, and what cannot be written is found out before a model is loaded."""
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    for name in ("layers.json", "patching.json"):
        shutil.copy(EXAMPLES / name, name)
    if "trace" in words:
        trace(*loaded, DOCUMENTS, 1).write(Path("trace.json"))
    command, *options = shlex.split(words)
    if command in ("ablate", "patch"):
        settings = '{"groups": 1, "seed": 389}'
        options = ["--model", TINY, "--split", "generated", "--metadata", settings, *options]
        options += [] if "--out" in options else ["--out", "new/results"]
    before = {path: path.read_bytes() for path in Path().iterdir()}
    with refused(f"^{line}"):
        main([command, *options])
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.parametrize(("command", "engine"), [("ablate", "pyvene"), ("patch", "sweep")])
def test_a_model_that_overflows_is_refused_with_its_layer(
    command: str, engine: str, tmp_path: Path
) -> None:
    """With layer 3 ablated, its answers would be those of any other model."""
    model = AutoModelForCausalLM.from_pretrained(TINY)
    with torch.no_grad():
        model.model.layers[3].mlp.down_proj.weight *= 1e38
    model.save_pretrained(tmp_path / "model")
    AutoTokenizer.from_pretrained(TINY).save_pretrained(tmp_path / "model")
    data = ["--split", "generated", "--metadata", '{"groups": 1}', "--engine", engine]
    out = tmp_path / "new" / "results"
    with refused(
        "^split generated, row 0: the residuals after layer 3 are not finite in torch.float32; "
        "check its weights$"
    ):
        main([command, "--model", str(tmp_path / "model"), *data, "--out", str(out)])
    assert [*out.parent.iterdir()] == []  # nor a journal


# Calls --------------------------------------------------------------------------------------------

DOCUMENTS = pt.generate(groups=1, seed=389)
MANUAL = [replace(document, split="manual") for document in DOCUMENTS]
ALONE = [replace(DOCUMENTS[0], split="entity_tracking")]
NAMES = ("Alice", "Bob", "Mia")
TWO: dict[str, Any] = {
    "prompts": ["Who?", "Who is it?"],
    "labels": NAMES,
    "answers": ["Bob", "Mia"],
}


@cache
def tiny() -> tuple[Any, Any]:
    return AutoModelForCausalLM.from_pretrained(TINY), AutoTokenizer.from_pretrained(TINY)


def swept(*documents: Any, sweep: Any = ablate, **settings: Any) -> None:
    """Sweep the shipped model on the documents of one group, or on others, with some settings."""
    model, tokenizer = tiny()
    given = {"model": model, "tokenizer": tokenizer, **settings}
    if "prompts" not in given:
        given["documents"] = documents[0] if documents else DOCUMENTS
    sweep(**given)


def not_finite() -> Any:
    model = copy.deepcopy(tiny()[0])
    model.lm_head.weight = torch.nn.Parameter(torch.full_like(model.lm_head.weight, torch.nan))
    return model


def overflow_with_layer_2_ablated() -> None:
    logits_of = OnePassEngine.logits

    def overflow(*arguments: Any) -> Any:
        logits = logits_of(*arguments)
        changed = logits.changed.clone()
        changed[2, 1] = torch.inf
        return logits._replace(changed=changed)

    with mock.patch.object(OnePassEngine, "logits", overflow):
        swept()


def with_virtual_tokens() -> Any:
    config = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    return get_peft_model(copy.deepcopy(tiny()[0]), config)


def encoder_decoder() -> Any:
    config = transformers.T5Config(vocab_size=96, d_model=8, d_kv=4, d_ff=8, num_layers=1)
    return transformers.T5ForConditionalGeneration(config)


def one_word() -> Any:
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"?": 0}, unk_token="?")))


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: swept(module="MLP"), "module='MLP': must be one of mlp, attention, heads"),
        (lambda: swept(replacement="zeros"), "replacement='zeros': must be one of zero, mean, resample, counterfactual"),
        (lambda: swept(engine="fast"), "engine='fast': must be one of sweep, pyvene"),
        (lambda: swept(positions="9" * 5000 + ":"), "positions 9+:: must be all, dialogue, question, last, or a span"),
        (lambda: swept(layers=[5]), "layer 5 does not exist; the model has layers 0 to 4$"),
        (lambda: swept(layers=[1, 1]), "layers 1: given twice; give each of them once$"),
        (lambda: swept(layers=[(2, 2)]), r"layers 2\+2: given twice; give each of them once$"),
        (lambda: swept(layers=[]), "layers: there are none; name at least one, or leave out layers for all$"),
        (lambda: swept(layers=[(1, 2)], module="heads"), r"layers 1\+2: heads are ablated one at a time"),
        (lambda: swept(layers=["1"]), r"layers=\['1'\]: not a list of layers; give .*\[3, \(5, 7\)\]$"),
        (lambda: parse_layers("0-99999999999"), "layers 0-99999999999: must be numbers, "),
        (lambda: swept(chat_template=True), "the tokenizer has no chat template; leave out chat_template=True$"),
        (lambda: swept([]), "a sweep needs either documents or prompts; give one of them$"),
        (lambda: swept(**TWO, documents=DOCUMENTS), "a sweep needs either documents or prompts; give one of them$"),
        (lambda: swept(DOCUMENTS + MANUAL), "the documents are of the splits generated, manual; pass those of one split$"),
        (lambda: swept(revert=tiny()[0]), "the base model shares its layers with the model; load it once more$"),
        (lambda: swept(revert=small_model("llama")), "the base model has other layers; name the one that was fine-tun"),
        (lambda: swept(sweep=patch, module="block"), "module='block': must be one of residual, mlp, attention, heads"),
        (lambda: swept(DOCUMENTS[1:], replacement="counterfactual"), "split generated, row 1: there is no original or "),
        (lambda: swept(DOCUMENTS[1:], sweep=patch), "split generated: there are no altered variants with their origina"),
        (lambda: swept(sweep=trace), "split generated, row None: not an altered variant among the documents; choose 1, 2"),
        (lambda: swept(sweep=trace, row=1, **TWO), "prompts must be two, an original and its variant, without a row; "),
        (lambda: select_pair(ALONE, 0), "split entity_tracking, row 0: not an altered variant .* choose another split"),
        (lambda: select_pair(DOCUMENTS[1:3], 1), "split generated, row 1: its original is not among the documents; add"),
        (lambda: swept(**TWO | {"answers": ["Bob"]}), "there are 2 prompts, but 1 answers; give as many$"),
        (lambda: swept(**TWO, groups=[1, 2, 3]), "there are 2 prompts, but 3 groups; give as many$"),
        (lambda: swept(**TWO | {"labels": [NAMES]}), "there are 2 prompts, but 1 labels; give as many$"),
        (lambda: swept(labels=NAMES, answers="A"), "there are 0 prompts, but 1 answers; give as many$"),
        (lambda: swept(**TWO | {"answers": ["Bob", "Max"]}), "prompt 1: the answer is 'Max', the labels are"),
        (lambda: swept(**TWO | {"labels": ["Bob"]}), "prompt 0: .* there must be at least two different labels, each"),
        (lambda: swept(**TWO | {"labels": [*NAMES, "Bob"]}), "prompt 0: .* there must be at least two different label"),
        (lambda: swept(**TWO | {"labels": ["Bob", "Alice Bob"]}), "prompt 0: ' Bob', ' Alice Bob' must be different single"),
        (lambda: swept(**TWO | {"prompts": ["", "Who?"], "labels": NAMES[:2], "answers": ["Bob", "Bob"]}), "prompt 0: the prompt is empty; give"),
        (lambda: swept(**TWO, positions="question"), "prompt 0: the text, the tokenizer or the chat template does"),
        (lambda: swept(tokenizer=one_word()), r"tokenizer .*: ' yes', ' no' must be different single tokens behind the prompt;"),
        (lambda: swept(model=TINY), "str: not a causal language model in memory; load it with AutoModelForCausalLM"),
        (lambda: swept(model=tiny()[0].model), "Qwen3Model: not a causal language model in memory; load it with Auto"),
        (lambda: swept(model=encoder_decoder()), "t5: the model has an encoder, but layers are swept in decoders only$"),
        (lambda: swept(model=with_virtual_tokens()), "adapter default: it adds tokens before the prompt; only adapte"),
        (overflow_with_layer_2_ablated, "split generated, row 1: the logits of the labels are not finite with layer 2"),
        (lambda: swept(model=not_finite()), ".* not finite in torch.float32; check its weights$"),
    ],
)  # fmt: skip
def test_a_call_is_refused_in_one_line(call: Callable[[], object], line: str) -> None:
    with pytest.raises(InputError, match=f"^{line}") as caught:
        call()
    assert "\n" not in str(caught.value)


# Models in folders --------------------------------------------------------------------------------


def config(**settings: Any) -> Callable[[Path], None]:
    """Return a function that changes settings in the config.json of a model."""

    def make(model: Path) -> None:
        path = model / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))

    return make


def pickled(model: Path) -> None:
    torch.save(tiny()[0].state_dict(), model / "pytorch_model.bin")
    (model / "model.safetensors").unlink()


def cut_off(model: Path) -> None:
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


SIX = config(num_hidden_layers=6, layer_types=["full_attention"] * 6)


@pytest.mark.parametrize(
    ("make", "settings", "line"),
    [
        (shutil.rmtree, {}, "model MODEL: there is no such folder$"),
        (lambda model: (model / "config.json").unlink(), {}, r"model MODEL: .*config\.json$"),
        (config(model_type="whatsit"), {}, "model MODEL: .*model type `whatsit`"),
        (cut_off, {}, "model MODEL: .*(incomplete metadata|not fully covered)"),
        (pickled, {}, r"model MODEL: .*no file named model\.safetensors"),
        # Layers without weights would be random, which transformers only warns of.
        (SIX, {}, r"model MODEL: 11 weights are missing from the checkpoint \(for example model\.layers\.5\.input_l"),
        (None, {"revision": "v1"}, "model MODEL: a folder has no revisions, but revision v1 is given; leave it out, "),
        (None, {"device_map": "nowhere"}, "model MODEL: "),
        (None, {"chat_template": True}, "model MODEL: the tokenizer has no chat template; leave out --chat-template$"),
        (None, {"attn_implementation": "nonsense"}, "model MODEL: Specified .* is not supported"),
        (None, {"attn_implementation": "failing"}, "model MODEL: RuntimeError: only bfloat16 is supported$"),
        (config(attn_implementation="flex_attention"), {}, "qwen3: flex_attention has .*; use sdpa as the implementa"),
    ],
)  # fmt: skip
def test_a_model_is_refused_in_one_line(
    make: Callable[[Path], object] | None,
    settings: dict[str, Any],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("only bfloat16 is supported")

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, "failing", fail)
    model = tmp_path / "model"
    shutil.copytree(TINY, model)
    if make:
        make(model)
    with pytest.raises(InputError, match=f"^{line.replace('MODEL', str(model))}") as caught:
        load_decoder(Model(str(model), **settings))
    assert "\n" not in str(caught.value)


def of(**settings: Any) -> Callable[[Path], None]:
    """Return a function that saves an adapter of a model like the shipped one with other settings."""

    def make(adapter: Path) -> None:
        changed = AutoConfig.from_pretrained(TINY)
        layers = settings.get("num_hidden_layers", 5)
        changed.update({**settings, "layer_types": ["full_attention"] * layers})
        model = AutoModelForCausalLM.from_config(changed)
        lora = LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM")
        get_peft_model(model, lora).save_pretrained(adapter)

    return make


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda _: None, r"Can't find 'adapter_config\.json' at"),
        (of(hidden_size=64), r".*size mismatch for .*q_proj.*\[8, 64\].*\[8, 128\]"),
        (of(num_hidden_layers=7), r"it was trained for another model; this one has no .*layers\.5\."),
        (of(num_hidden_layers=3), r".*missing adapter keys .*layers\.3\."),
        (lambda adapter: with_virtual_tokens().save_pretrained(adapter), "it adds tokens before the prompt; only"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")  # peft's own
def test_an_adapter_is_refused_in_one_line(
    make: Callable[[Path], None], line: str, tmp_path: Path
) -> None:
    """Weights that it lacks, or that the model lacks, would be ignored by peft."""
    adapter = tmp_path / "adapter"
    make(adapter)
    with pytest.raises(InputError, match=f"^adapter {adapter}: {line}") as caught:
        load_decoder(Model(TINY, adapter=str(adapter)))
    assert "\n" not in str(caught.value)


# Architectures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("opt", {"ffn_dim": 16, "word_embed_proj_dim": 16}),
        ("rwkv", {"attention_hidden_size": 16}),
        ("hrm_text", TABLES["common"] | TABLES["sizes"]),  # whose blocks run again and again
    ],
)
def test_an_architecture_that_cannot_be_swept_is_refused(
    kind: str, settings: dict[str, Any]
) -> None:
    sizes = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    made = AutoConfig.for_model(kind, **{**sizes, **settings})
    with pytest.raises(InputError, match=rf"^{kind}, block 0: .*cannot be swept$"):
        from_model(AutoModelForCausalLM.from_config(made), LabelsOnly())


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "modernbert"])
def test_a_model_whose_tokens_see_later_ones_is_refused(kind: str) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    made = AutoConfig.for_model(kind, **sizes, initializer_range=0.3)
    model = transformers.AutoModelForMaskedLM.from_config(made)
    for dtype in (torch.float32, torch.bfloat16):
        with pytest.raises(InputError, match=f"^{kind}: its attention is not causal: "):
            from_model(model.to(dtype), LabelsOnly())


# hf-ablated ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({}, r"hf-ablated needs one of ablate=mlp:5\+7 and layers=layers\.json"),
        ({"ablate": "mlp:1", "layers": LAYERS}, r"hf-ablated needs one of ablate=mlp:5\+7 and layers=layers\.json"),
        ({"ablate": "mlp:1", "role": "useful"}, "ablate=mlp:1: role= and by= choose layers of a report"),
        ({"ablate": "heads:1"}, r"ablate=heads:1: must name a module and layers, such as mlp:5\+7"),
        ({"ablate": "mlp:"}, "layers : must be numbers, ranges"),
        ({"ablate": "mlp:0", "1": ""}, r"ablate=mlp:0,…: join layers by \+, as in ablate=mlp:5\+7"),
        ({"ablate": "mlp:5"}, "layer 5 does not exist; the model has layers 0 to 4"),
        ({"ablate": "mlp:0", "pretrained": encoder_decoder()}, "t5: the model has an encoder, .* decoders only"),
        ({"layers": LAYERS, "role": "bad"}, "role='bad': must be one of"),
        ({"layers": LAYERS}, r".*layers\.json: no layer is harmful by evidence; choose another role=, or by="),
        ({"layers": "mean.json"}, r"mean\.json: the sweep replaced outputs by mean, but hf-ablated replaces them by"),
        ({"layers": LAYERS, "role": "useful", "by": "sign", "pretrained": small_model("llama")},
         r".*a report of .*tiny with 5 layers; this model has 3$"),
    ],
)  # fmt: skip
def test_what_hf_ablated_cannot_ablate_is_refused_in_one_line(
    arguments: dict[str, Any], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mean = replace(read_layers(EXAMPLES / "layers.json"), intervention=Intervention("mlp", "mean"))
    mean.write(Path("mean.json"))
    model, tokenizer = tiny()
    with pytest.raises(SystemExit, match=f"^{line}"):
        AblatedLM(**{"pretrained": model, "tokenizer": tokenizer, **arguments})
