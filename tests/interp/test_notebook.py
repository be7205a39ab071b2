"""Sweeps from Python give what the commands write, and leave the model as it was."""

import ast
import copy
import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from places import ROOT
from small_models import small_model
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

import pragworld_tasks as pt
from pragworld_interp import LayerReport, ablate, patch, read_layers, read_patching
from pragworld_interp.cli import main
from pragworld_interp.engine.decoder import from_model
from pragworld_interp.run.loading import Model, load_decoder, model_identity
from pragworld_tasks.dialogues.settings import TrackingSettings
from pragworld_tasks.dialogues.tracking import tracking_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.tiny import tiny_folder

SETTINGS: dict[str, Any] = {"seed": 40, "groups": 2}  # whose dialogues are short
DOCUMENTS = pt.generate(**SETTINGS)
KINDS: dict[str, tuple[Any, Any]] = {
    "ablate": (ablate, read_layers),
    "patch": (patch, read_patching),
}


@pytest.fixture(scope="module")
def report(loaded: tuple[Any, Any]) -> LayerReport:
    return ablate(*loaded, DOCUMENTS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sweep_from_python_is_that_of_the_command(
    kind: str, loaded: tuple[Any, Any], tmp_path: Path
) -> None:
    sweep, read = KINDS[kind]
    model = loaded[0].train()
    model.model.layers[1].eval()  # as a user does to switch off its dropout alone
    modes = [module.training for module in model.modules()]
    by_python = sweep(*loaded, DOCUMENTS)
    assert [module.training for module in model.modules()] == modes
    options = ["--model", str(tiny_folder()), "--split", "generated"]
    main([kind, *options, "--metadata", json.dumps(SETTINGS), "--out", str(tmp_path / "command")])
    by_python.write(tmp_path / "python")
    own, expected = (read(tmp_path / name) for name in ("python", "command"))
    assert expected.data.generator is not None
    assert own.model == expected.model
    assert own.data.fingerprint == expected.data.fingerprint
    assert own == by_python
    assert own.to_text() == expected.to_text() == by_python._repr_markdown_()


def test_adapters_around_a_model_count(loaded: tuple[Any, Any]) -> None:
    targets = ["q_proj", "up_proj"]
    config = LoraConfig(r=4, target_modules=targets, init_lora_weights=False)
    adapted = get_peft_model(copy.deepcopy(loaded[0]), config)
    report = ablate(adapted, loaded[1], DOCUMENTS)
    merged = ablate(copy.deepcopy(adapted).merge_and_unload(), loaded[1], DOCUMENTS)
    assert re.fullmatch("default@[0-9a-f]{8}", report.model.adapter or "")
    assert merged.model.adapter is None
    for own, expected in zip(report.layers, merged.layers, strict=True):
        assert own.log_odds == pytest.approx(expected.log_odds, abs=1e-3)


@pytest.mark.filterwarnings("ignore")  # peft's own
def test_adapters_of_one_name_are_told_apart(loaded: tuple[Any, Any], tmp_path: Path) -> None:
    def identity(model: Any) -> str | None:
        return model_identity(from_model(model, loaded[1]), "tiny", None, None, False).adapter

    config = LoraConfig(r=4, target_modules=["q_proj", "up_proj"], init_lora_weights=False)
    first, second = (get_peft_model(copy.deepcopy(loaded[0]), config) for _ in range(2))
    first.save_pretrained(str(tmp_path))
    assert identity(first) == identity(first) != identity(second)
    before = identity(second)
    for module in second.modules():
        if isinstance(module, LoraLayer):
            module.scale_layer(2.0)
    assert identity(second) != before
    with first.disable_adapter():
        assert identity(first) is None
    _, of_command = load_decoder(Model(str(tiny_folder()), adapter=f"{tmp_path}/"))
    assert of_command.adapter == f"{tmp_path}@{str(identity(first)).rpartition('@')[2]}"


def test_chosen_layers_and_positions(report: LayerReport, loaded: tuple[Any, Any]) -> None:
    some = ablate(*loaded, DOCUMENTS, layers=[3, (1, 2)])
    assert [target.place for target in some.targets] == [3, (1, 2)]
    assert some.layers[0].log_odds == pytest.approx(report.layers[3].log_odds, abs=1e-4)
    assert not some.is_whole
    with pytest.raises(InputError, match="mlp zero ablation of 3 and others; ablate single"):
        some.selected_layers("useful")
    everywhere = ablate(*loaded, DOCUMENTS, layers=[1], positions=":")
    assert everywhere.layers[0].log_odds == pytest.approx(report.layers[1].log_odds, abs=1e-4)


def test_a_report_lists_its_layers(report: LayerReport) -> None:
    frame = report.to_frame()
    assert frame.index.tolist() == [target.place for target in report.targets]
    assert frame.index[frame["sign"] == "useful"].tolist() == report.selected("useful", by="sign")
    assert frame.index[frame["evidence"] == "harmful"].tolist() == report.selected(
        "harmful", by="evidence"
    )
    for column in ("percent", "points", "robust_points", "holm", "log_odds"):
        assert torch.tensor(frame[column]).isfinite().all()


@pytest.mark.parametrize(
    ("kind", "roles"), [("constant", "harmful neutral"), ("harm", "harmful harmful")]
)
def test_a_layer_that_only_shifts_answers_is_not_harmful_under_every_replacement(
    kind: str, roles: str, loaded: tuple[Any, Any]
) -> None:
    """A constant is gone with zeros, and stays with means; real harm is gone with both."""
    model = copy.deepcopy(loaded[0])
    yes, no = (
        loaded[1](text, add_special_tokens=False)["input_ids"][0] for text in (" yes", " no")
    )
    toward_yes = model.lm_head.weight[yes] - model.lm_head.weight[no]

    residuals: list[torch.Tensor] = []

    def plant(_: Any, __: Any, output: Any) -> Any:
        if kind == "constant":
            return output + 60 * toward_yes
        says = (model.model.norm(residuals[-1]) @ toward_yes).sign()
        return output - 60 * says[..., None] * toward_yes

    layer = model.model.layers[4]
    layer.post_attention_layernorm.register_forward_pre_hook(lambda _, x: residuals.append(x[0]))
    layer.mlp.down_proj.register_forward_hook(plant)
    documents = pt.generate(seed=40, groups=16, domains="household")
    report = ablate(model, loaded[1], documents, layers=[4], replacement="all")
    zero, *_ = report.by_replacement["zero"]
    assert [zero.evidence, report.layers[0].evidence] == roles.split()
    assert report.lens[-1] == pytest.approx(report.plain.accuracy.percent)
    for layers in report.by_replacement.values():  # nothing is behind the last layer
        assert layers[0].direct == pytest.approx(layers[0].log_odds)


def test_documents_of_entity_tracking_and_variants_alone_are_swept(
    loaded: tuple[Any, Any],
) -> None:
    tracking = list(tracking_documents(TrackingSettings(groups=1)))[:3]
    assert ablate(*loaded, tracking, layers=[0]).plain.accuracy.total == 3
    assert ablate(*loaded, DOCUMENTS[1:2], layers=[0]).plain.accuracy.total == 1


NAMES = ("Alice", "Bob", "Mia", "Oliver")
STORIES = [
    f"{one} is in the hall. {other} is in the attic. Who is in the {place}?"
    for one, other in itertools.permutations(NAMES, 2)
    for place in ("hall", "attic")
]
ANSWERS = [name for pair in itertools.permutations(NAMES, 2) for name in pair]
GROUPS = [f"group {number // 2}" for number in range(len(STORIES))]


@torch.inference_mode()
def gold_against_rival(
    model: Any, tokenizer: Any, prompt: str, answer: str, layer: int | None
) -> float:
    """Return p(answer), against the likeliest other name, in a plain forward pass with a hook."""
    tokens = {name: tokenizer(f" {name}", add_special_tokens=False)["input_ids"] for name in NAMES}
    handles = []
    if layer is not None:
        module = model.model.layers[layer].mlp
        handles = [module.register_forward_hook(lambda _, __, out: torch.zeros_like(out))]
    logits = model(**tokenizer(prompt, return_tensors="pt")).logits[0, -1].double()
    for handle in handles:
        handle.remove()
    scores = {name: float(logits[token]) for name, (token,) in tokens.items()}
    rival = max(score for name, score in scores.items() if name != answer)
    return 1 / (1 + math.exp(rival - scores[answer]))


def test_any_labels_can_be_swept(loaded: tuple[Any, Any]) -> None:
    report = ablate(*loaded, prompts=STORIES, labels=NAMES, answers=ANSWERS, groups=GROUPS)
    assert (report.data.split, report.data.groups) == ("own", len(STORIES) // 2)
    for document, prompt, answer in zip(report.documents, STORIES, ANSWERS, strict=True):
        assert document.answer == answer
        expected = [
            gold_against_rival(*loaded, prompt, answer, layer)
            for layer in (None, *range(len(report.layers)))
        ]
        assert document.gold == pytest.approx(expected, abs=2e-6)
    right = [document.gold[0] > 0.5 for document in report.documents]
    assert report.plain.accuracy.right == sum(right)
    assert report.plain.robust_accuracy is not None
    pairs = zip(right[::2], right[1::2], strict=True)
    assert report.plain.robust_accuracy.right == sum(map(all, pairs))


def test_labels_may_differ_between_prompts(loaded: tuple[Any, Any], tmp_path: Path) -> None:
    shared = ablate(*loaded, prompts=STORIES, labels=NAMES, answers=ANSWERS)
    labels = [NAMES if number % 2 else NAMES[::-1] for number in range(len(STORIES))]
    own = ablate(*loaded, prompts=STORIES, labels=labels, answers=ANSWERS)
    assert own.documents == shared.documents
    assert own.plain.robust_accuracy is None  # every prompt is a group
    own.write(tmp_path / "layers.json")
    assert read_layers(tmp_path / "layers.json").to_text() == own.to_text()
    pairs = [sorted({answer, "Alice" if answer == "Bob" else "Bob"}) for answer in ANSWERS]
    fewer = ablate(*loaded, prompts=STORIES, labels=pairs, answers=ANSWERS)
    for document, of_all in zip(fewer.documents, own.documents, strict=True):
        assert all(p >= q - 1e-6 for p, q in zip(document.gold, of_all.gold, strict=True))


def test_labels_that_differ_in_the_space_before_them_are_told_apart(tmp_path: Path) -> None:
    words = ("<unk>", "▁Bob", "Bob", "▁Alice", "Alice", "▁Who", "?", "▁(")
    tokenizer = Tokenizer(
        WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(prepend_scheme="always"),
            *(pre_tokenizers.Split(sign, "isolated") for sign in ("?", "▁(")),
        ]
    )
    # As that of Llama 2, which leaves out the first space.
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    sentencepiece = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")
    report = ablate(
        small_model("llama"),
        sentencepiece,
        prompts=["Who?", "Who? ("],
        labels=["Bob", "Alice"],
        answers=["Bob", "Alice"],
    )
    assert report.model.labels == ("▁Bob", "Bob", "▁Alice", "Alice")
    report.write(tmp_path / "layers.json")
    assert read_layers(tmp_path / "layers.json") == report


def test_the_first_prompt_of_a_group_is_patched(loaded: tuple[Any, Any], tmp_path: Path) -> None:
    report = patch(*loaded, prompts=STORIES, labels=NAMES, answers=ANSWERS, groups=GROUPS)
    rows = range(0, len(STORIES), 2)
    assert [(pair.original, pair.altered) for pair in report.pairs] == [(r, r + 1) for r in rows]
    for pair in report.pairs:
        runs = [
            gold_against_rival(*loaded, STORIES[row], ANSWERS[pair.altered], None)
            for row in (pair.original, pair.altered)
        ]
        assert [pair.original_run, pair.altered_run] == pytest.approx(runs, abs=2e-6)
        assert pair.patched[0] == pytest.approx(pair.original_run, abs=2e-6)
    report.write(tmp_path / "patching.json")
    assert read_patching(tmp_path / "patching.json").pairs == report.pairs


@pytest.mark.parametrize("name", ["sweep", "cloze"])
def test_the_example_notebooks_run(name: str) -> None:
    content = json.loads((ROOT / "examples" / f"{name}.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    shown = []
    for cell in cells:
        *body, last = ast.parse(cell).body
        exec(compile(ast.Module(body, []), name, "exec"), names)
        if isinstance(last, ast.Expr):
            shown.append(eval(compile(ast.Expression(last.value), name, "eval"), names))
        else:
            exec(compile(ast.Module([last], []), name, "exec"), names)
    assert any(hasattr(value, "_repr_png_") for value in shown)
    assert any(hasattr(value, "_repr_markdown_") for value in shown)
