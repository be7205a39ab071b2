"""Test `pragworld-tiny` by evaluating it, and the script that trains it."""

import json
from pathlib import Path
from typing import Any

import torch
from command_runs import run_program
from places import ROOT
from transformers import AutoModelForCausalLM, AutoTokenizer

import pragworld_tasks as pt
from pragworld_tasks.data.prompts import evaluation_prompt, label_prompt
from pragworld_tasks.dialogues.vocabulary import DOMAINS
from pragworld_tasks.evaluation.answers import likelier_answer
from pragworld_tasks.evaluation.metrics import tallies, to_arrays
from pragworld_tasks.tiny import tiny_folder


def test_it_is_clearly_above_chance_and_not_robust() -> None:
    """On new dialogues about things and places, with Prompt 2 and the likelier label as the answer."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder(), padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(tiny_folder()).eval()
    test = pt.generate(groups=40, seed=20_261_121, domains=DOMAINS)
    labels = tokenizer.convert_tokens_to_ids(["Ġyes", "Ġno"])
    answers = []
    for start in range(0, len(test), 32):
        prompts = [label_prompt(document) for document in test[start : start + 32]]
        with torch.no_grad():
            batch = tokenizer(prompts, return_tensors="pt", padding=True)
            logits = model(**batch, logits_to_keep=1).logits[:, -1, labels]
        answers += [likelier_answer([float(yes), float(no)]) for yes, no in logits]
    found = tallies(to_arrays(test, answers))
    assert found["acc"].share >= 0.75
    assert found["robust_acc"].share <= found["acc"].share - 0.15


def test_it_is_small_and_its_labels_are_single_tokens() -> None:
    assert (tiny_folder() / "model.safetensors").stat().st_size <= 8_000_000
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder())
    for word in (" yes", " no", "yes", "no"):
        assert len(tokenizer(word, add_special_tokens=False)["input_ids"]) == 1
    for prompt in (evaluation_prompt, label_prompt):
        text = prompt({"context": "Alice: Hello, Zoë!\nBob: 12 “figs”?", "question": "Why?"})
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
        assert tokenizer.unk_token_id not in ids


def check_files(folder: Path) -> dict[str, Any]:
    """Check the names of transformers 4 and the model's size, and return the record of training."""
    config, tokenizer, record = (
        json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("config", "tokenizer_config", "training")
    )
    # Without them it refuses the tokenizer, and answers otherwise without a word.
    assert config["rope_theta"] == config["rope_parameters"]["rope_theta"]
    assert tokenizer["tokenizer_class"] == "PreTrainedTokenizerFast"
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.config.vocab_size == len(AutoTokenizer.from_pretrained(folder))
    assert record["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert isinstance(record, dict)
    return record


def test_its_record_is_beside_it_and_the_training_script_saves_such_a_folder(
    tmp_path: Path,
) -> None:
    record = check_files(tiny_folder())
    assert record["settings"]["steps"] == record["course"][-1]["step"]
    script = ROOT / "examples" / "train_pragworld_tiny.py"
    shape = ("--layers", "2", "--width", "64", "--feed_forward", "64")
    quick = ("--steps", "3", "--dialogues", "2", "--tokenizer_dialogues", "50", "--seed", "5")
    run_program("python", script, tmp_path / "model", *shape, *quick)
    settings = check_files(tmp_path / "model")["settings"]
    assert (settings["seed"], settings["steps"]) == (5, 3)
