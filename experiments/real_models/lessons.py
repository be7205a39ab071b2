"""Lessons: teach a model to answer questions about dialogues, before the arms continue from it.

Lessons are those of `examples/train_pragworld_tiny.py`: a generated dialogue of the split `train`
with many questions, easy at first, and harder as long as enough answers are right. They train an
adapter of a few megabytes, which is kept, so that all runs start from the same model wherever they
are made.
"""

import json
import sys
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoTokenizer

from pragworld_interp.prompts.labels import label_tokens, prompt_texts
from pragworld_tasks.data.prompts import label_completion, label_prompt
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.files import write_json

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from train_pragworld_tiny import Lesson, make_lesson

RECORD = "lessons.json"
ADAPTER = "lessons"  # a folder
_OPEN = "\n\nAnswer in a word or two.\nAnswer:"  # ends the prompt of an open question
_UNFINISHED = "unfinished.pt"


class Tree(NamedTuple):
    """A dialogue and its questions as one sequence, in which no question sees another.

    Attributes:
        ids, positions: The tokens, and their positions in the prompt.
        branch: The question that each token belongs to; 0 for the dialogue, which all see.
        targets: The next token where an answer begins or goes on, -1 elsewhere.
    """

    ids: list[int]
    positions: list[int]
    branch: list[int]
    targets: list[int]


def make_tree(lesson: Lesson, tokenizer: Any, template: bool) -> Tree:
    """Tokenize a lesson. What its prompts begin with in common is there once."""
    asked, answers = [], []
    for question in lesson.questions:
        prompt = label_prompt({"context": lesson.context, "question": question.text})
        if question.prompt == "open":
            prompt = prompt[: prompt.rindex("\n\n")] + _OPEN
        asked.append(prompt)
        answer = label_completion(question.answer.strip(" )"), template)
        answers.append(tokenizer(answer, add_special_tokens=False)["input_ids"])
    texts = prompt_texts(tokenizer, asked, template)
    prompts = tokenizer(texts, add_special_tokens=not template)["input_ids"]
    alike = takewhile(lambda column: len({*column}) == 1, zip(*prompts, strict=False))
    common = min(len([*alike]), *(len(prompt) - 1 for prompt in prompts))
    tree = Tree(prompts[0][:common], [*range(common)], [0] * common, [-1] * common)
    for number, (prompt, answer) in enumerate(zip(prompts, answers, strict=True), 1):
        ids = [*prompt[common:], *answer[:-1]]
        tree.ids.extend(ids)
        tree.positions.extend(range(common, common + len(ids)))
        tree.branch.extend([number] * len(ids))
        tree.targets.extend([-1] * (len(ids) - len(answer)) + answer)
    return tree


def batch(trees: Sequence[Tree]) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Return the input of a model, with who sees whom as the mask, and the targets."""
    longest = max(len(tree.ids) for tree in trees)

    def table(values: Callable[[Tree], list[int]], fill: int) -> torch.Tensor:
        return torch.tensor([values(tree) + [fill] * (longest - len(tree.ids)) for tree in trees])

    branch = table(lambda tree: tree.branch, -1)
    seen = (branch[:, None] == 0) | (branch[:, None] == branch[:, :, None])
    inputs = {
        "input_ids": table(lambda tree: tree.ids, 0),
        "position_ids": table(lambda tree: tree.positions, 0),
        "attention_mask": (seen & torch.ones_like(seen).tril())[:, None],
    }
    return inputs, table(lambda tree: tree.targets, -1)


def merge(folder: Path, adapter: Path, out: Path) -> None:
    """Save a model into which an adapter is merged."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    merged: Any = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
    merged.to(torch.bfloat16).save_pretrained(out)
    AutoTokenizer.from_pretrained(folder).save_pretrained(out)


def teach(settings: dict[str, Any], folder: Path, out: Path, results: Path, template: bool) -> None:
    """Train an adapter, and save it with a record. An interrupted training resumes.

    Args:
        settings: Those of lessons, as in the file of settings.
        folder: The model.
        out: The folder of what an interrupted training resumes from.
        results: The folder of the adapter and the record.
        template: Whether to apply the chat template.
    """
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(settings["seed"])
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    lora = {"r": settings["rank"], "lora_alpha": settings["alpha"], "lora_dropout": 0.0}
    config = LoraConfig(target_modules="all-linear", **lora)
    adapted = get_peft_model(model, config)  # changes the model
    weights = [weight for weight in adapted.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, betas=(0.9, 0.98), weight_decay=0.0)
    labels = torch.tensor(label_tokens(tokenizer, template))
    rng = StableRandom(f"lessons {settings['seed']}")
    log: list[dict[str, float]] = []
    difficulty, sums = 0.0, torch.zeros(3)
    out.mkdir(parents=True, exist_ok=True)
    if (out / _UNFINISHED).exists():
        saved = torch.load(out / _UNFINISHED, weights_only=True)
        for weight, value in zip(weights, saved["weights"], strict=True):
            weight.data.copy_(value)
        optimizer.load_state_dict(saved["optimizer"])
        rng.source.setstate((*rng.source.getstate()[:1], tuple(saved["rng"]), None))
        log, difficulty = saved["log"], saved["difficulty"]
    for step in range(int(log[-1]["step"]) + 1 if log else 1, settings["steps"] + 1):
        # Half of the lessons are easier than the difficulty, so that not too much is new at once.
        drawn = [
            difficulty * (1 if rng.happens(0.5) else rng.below(100) / 100)
            for _ in range(settings["dialogues"])
        ]
        lessons = [
            make_lesson(rng, own, 2 + rng.below(2 + round(7 * own)), settings["questions"])
            for own in drawn
        ]
        trees = [make_tree(one, tokenizer, template) for one in lessons if one.questions]
        inputs, targets = batch(trees)
        left = (settings["steps"] - step) / settings["cool_down"]
        for group in optimizer.param_groups:
            group["lr"] = settings["rate"] * min(1.0, step / settings["warm_up"], left)
        hidden = model.model(**inputs, use_cache=False).last_hidden_state
        logits = model.lm_head(hidden[targets >= 0])
        wanted = targets[targets >= 0]
        loss = cross_entropy(logits, wanted)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        asked = torch.isin(wanted, labels)
        right = labels[logits.detach()[asked][:, labels].argmax(-1)] == wanted[asked]
        sums += torch.tensor([loss.item(), right.sum(), asked.sum()])
        if step % settings["logged"] == 0:
            row = {"step": step, "loss": round(sums[0].item() / settings["logged"], 4)}
            row |= {"accuracy": round(float(sums[1] / sums[2]), 4), "difficulty": difficulty}
            print(json.dumps(row), flush=True)
            log.append(row)
            sums.zero_()
            if row["accuracy"] > settings["pass_mark"]:
                difficulty = min(1.0, round(difficulty + settings["stride"], 2))
            state: dict[str, Any] = {"weights": weights, "optimizer": optimizer.state_dict()}
            state |= {"rng": [*rng.source.getstate()[1]], "log": log, "difficulty": difficulty}
            torch.save(state, out / "partial.pt")
            (out / "partial.pt").replace(out / _UNFINISHED)
    config.base_model_name_or_path = folder.name  # not where it is
    adapted.to(torch.bfloat16).save_pretrained(results / ADAPTER)
    (results / ADAPTER / "README.md").unlink()  # a form that nobody filled in
    write_json(results / RECORD, {"settings": settings, "log": log})
    (out / _UNFINISHED).unlink()
