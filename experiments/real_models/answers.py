"""What a model answers, before or after training: the observations of a study."""

import hashlib
import pydoc_data.topics
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

import pragworld_tasks as pt
from pragworld_interp import ablate
from pragworld_tasks.data.documents import Document, documents_digest
from pragworld_tasks.dialogues.settings import ALTERATION_SHARES
from pragworld_tasks.evaluation.runs import find_runs
from pragworld_tasks.files import read_json
from pragworld_tasks.text import format_interval
from pragworld_train.run_record import RUN_FILE

SETTINGS = tomllib.loads(Path(__file__).with_name("settings.toml").read_text(encoding="utf-8"))
DIGITS = 6


def generated(split: str, groups: int, seed: int = 0) -> list[Document]:
    """Return dialogues without the alteration that training holds out."""
    held_out = SETTINGS["training"]["held_out_alteration"]
    trained = {name: share for name, share in ALTERATION_SHARES.items() if name != held_out}
    domains = SETTINGS["generator"]["domains"].split(",")
    settings: dict[str, Any] = {"split": split, "groups": groups, "seed": seed, "domains": domains}
    return pt.generate(**settings, alterations=trained)


def splits() -> dict[str, list[Document]]:
    """Return the documents of each split that models answer.

    Where an alteration is held out, every flip of a generated group may be of that kind. The test
    split is therefore generated without it, and its variants are a split of their own.
    """
    groups, held_out = SETTINGS["answers"]["groups"], SETTINGS["training"]["held_out_alteration"]
    domains = SETTINGS["generator"]["domains"].split(",")
    apart = pt.generate(groups=groups, domains=domains, held_out_alteration=held_out)
    return {
        "test": generated("test", groups),
        "held_out": [document for document in apart if document.alteration == held_out],
        "manual": pt.load("manual"),
        "tracking": pt.load("entity_tracking"),
    }


def texts() -> dict[str, list[str]]:
    """Return texts that no arm is trained on: conversations, and prose of Python's manual."""
    manual = [document.context for document in pt.load("manual") if document.is_original]
    settings, topics = SETTINGS["answers"], pydoc_data.topics.topics
    prose = [topics[name][: settings["characters"]] for name in sorted(topics)]
    return {"conversations": manual, "prose": prose[: settings["topics"]]}


def digest_of(of_kind: list[str]) -> str:
    """Return a digest of texts: Python's manual differs from version to version."""
    return hashlib.sha256("\0".join(of_kind).encode()).hexdigest()[:16]


def load(folder: Path, adapter: Path | None, dtype: str) -> tuple[Any, Any]:
    """Return a model, with an adapter if there is one, and its tokenizer."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    if adapter is not None:
        model = PeftModel.from_pretrained(model, str(adapter)).get_base_model()
    return model.eval(), AutoTokenizer.from_pretrained(folder)


def answer(model: Any, tokenizer: Any, documents: list[Document], template: bool) -> list[float]:
    """Return the probability of every gold answer, and print the accuracy.

    They are those of the plain run of a sweep, which shares the beginnings of prompts. The sweep is
    of the last layer, at which it costs least.
    """
    last = model.config.get_text_config().num_hidden_layers - 1
    report = ablate(model, tokenizer, documents, layers=[last], chat_template=template)
    gold = [round(document.gold[0], DIGITS) for document in report.documents]
    accuracy = report.plain.accuracy
    print(f"{accuracy.percent:.1f} % ({format_interval(accuracy.interval, '.1f')})", flush=True)
    return gold


def observe(folder: Path, adapter: Path | None, template: bool, dtype: str) -> dict[str, Any]:
    """Return the probability of every gold answer, and the log-likelihood of every text."""
    model, tokenizer = load(folder, adapter, dtype)
    answers = {}
    for name, documents in splits().items():
        print(name, end=": ")
        gold = answer(model, tokenizer, documents, template)
        answers[name] = {"digest": documents_digest(documents), "gold": gold}
    likelihoods = {}
    for name, of_kind in texts().items():
        values = [[*log_likelihood(model, tokenizer, text)] for text in of_kind]
        likelihoods[name] = {"digest": digest_of(of_kind), "sums_and_tokens": values}
    record = None if adapter is None else read_json(adapter / RUN_FILE)
    return {
        "dtype": dtype,
        "answers": answers,
        "texts": likelihoods,
        "layers": record and {key: record["layers"][key] for key in ("amplified", "suppressed")},
        "loss": record and [[row["step"], row["loss"]] for row in record["log"] if "loss" in row],
    }


@torch.no_grad()
def log_likelihood(model: Any, tokenizer: Any, text: str) -> Iterator[float]:
    """Yield the log-likelihood of a text, and its number of tokens after the first."""
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    logits = model(ids).logits[0, :-1].float()
    found = logits.log_softmax(-1).gather(1, ids[0, 1:, None])
    yield round(found.sum().item(), 3)
    yield len(found)


def read_run(folder: Path) -> dict[str, Any]:
    """Return lm-eval's metrics of a task in a folder, and the answers where they are yes or no.

    An answer that is neither is "-".
    """
    (path,) = folder.rglob("results_*.json")
    ((task, metrics),) = read_json(path)["results"].items()
    found: dict[str, Any] = {
        "metrics": {
            name: value for name, value in metrics.items() if isinstance(value, float | int)
        }
    }
    if not task.endswith("articulation"):
        (run,) = find_runs([str(folder)])
        found["answers"] = "".join((answer.answer or "-")[0] for answer in run.predictions.answers)
    return found
