"""Plant harm in a layer of the small model, and train the result in many ways.

    python experiments/layer_losses.py plant runs/planted
    python experiments/layer_losses.py train runs/planted runs/losses --jobs 2

`plant` writes a model in which one MLP turns the answers about one kind of dialogues around.
`train` trains it with each arm and seed, and leaves a JSON file for each run; run again, it does
what is missing. `layer_losses_report.py` reads these files. What is expected, and why, is in
README.md next to this script, which was written before any of these runs.
"""

import argparse
import random
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, count, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, disable_progress_bars
from probing import probe_layers
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from transformers.utils import logging

import pragworld_tasks as pt
from pragworld_interp import ablate
from pragworld_interp.engine.decoder import find_blocks, from_model
from pragworld_interp.engine.packing import pad_prompts
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.prompts import label_prompt
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import refusing, write_json
from pragworld_tasks.tiny import tiny_folder
from pragworld_train import LayerRegularizedSFTConfig, LayerRegularizedSFTTrainer, to_dataset
from pragworld_train.losses import at_ends

PLANTED = 2  # the layer that harms
HOLDING = 3  # one that holds the label partly
WRONG = 3  # one that HLS is not meant for
BLIND = 0  # one that does not hold the label
# Kinds of dialogues. The study's harmed ones, at commit 42fa409, were everyday chats, which later
# generators don't write.
DOMAINS = {"harmed": "shop,clinic", "spared": "household"}
PLANTING_GROUPS, PLANTING_BATCH, PLANTING_RATE, PLANTING_SEED = 200, 32, 1e-3, 1000
STOPS = (10, 40)  # the steps after which a model is measured
BATCH = 8
LEARNING_RATE = 3e-4
TEST_GROUPS, PROBE_GROUPS = 50, 25  # of each kind
PROBE_WIDTH = 256
SEEDS = range(11, 21)


@dataclass(frozen=True)
class Arm:
    """A way of training.

    Attributes:
        data: What it trains on: "shown" for both kinds of dialogues, or "hidden" for those alone in
            which the planted harm does not show.
        loss: What is added to the cross-entropy: "ula", "hls", or None.
        layer: The layer that it acts on.
        weight: Its weight.
        control: "shuffled" if the probe's labels are shuffled among the training documents.
    """

    data: str
    loss: str | None = None
    layer: int | None = None
    weight: float = 0.0
    control: str | None = None

    @property
    def name(self) -> str:
        """A name for files and tables, such as `hidden-hls-2-0.01`."""
        if self.loss is None:
            return f"{self.data}-sft"
        words = [self.data, self.loss, str(self.layer), f"{self.weight:g}", self.control]
        return "-".join(word for word in words if word)


_ARMS = (
    Arm("hidden"),
    *(Arm("hidden", "hls", PLANTED, weight) for weight in (1e-4, 1e-3, 1e-2, 1e-1, 1.0)),
    Arm("hidden", "hls", WRONG, 1e-2),
    Arm("shown"),
    Arm("shown", "hls", PLANTED, 1e-2),
    *(Arm("shown", "ula", HOLDING, weight) for weight in (1e-1, 1.0)),
    Arm("shown", "ula", HOLDING, 1.0, "shuffled"),
    Arm("shown", "ula", BLIND, 1.0),
)
ARMS = {arm.name: arm for arm in _ARMS}


# The planted harm ---------------------------------------------------------------------------------


def dialogues(kind: str, groups: int, split: str, seed: int) -> list[Document]:
    """Return documents of a kind of dialogues."""
    return pt.generate(groups=groups, split=split, seed=seed, domains=DOMAINS[kind])


def of_all_kinds(groups: int, split: str, seed: int) -> list[Document]:
    """Return documents of every kind, numbered anew."""
    numbered = (
        replace(document, group=place * groups + document.group)
        for place, kind in enumerate(DOMAINS)
        for document in dialogues(kind, groups, split, seed)
    )
    return [replace(document, row=row) for row, document in enumerate(numbered)]


@dataclass(frozen=True)
class Prompt:
    """The prompt of a document.

    Attributes:
        ids: Its tokens.
        harmed: Whether the planted MLP turns its answer around.
        label: 0 for yes and 1 for no.
    """

    ids: list[int]
    harmed: bool
    label: int


def plant(folder: Path) -> None:
    """Train one MLP to turn answers around where dialogues are of the kind that is harmed.

    All other weights stay as they are. Planting stops when at most half of the answers are right
    there, and at least four fifths elsewhere.
    """
    if folder.exists():
        raise InputError(f"{folder} exists; remove it, or pass another name")
    with refusing(folder):
        folder.mkdir(parents=True)  # before minutes of work
    model, tokenizer = load(tiny_folder())
    original, _ = load(tiny_folder())
    labels = [tokenizer.encode(f" {word}", add_special_tokens=False)[0] for word in ("yes", "no")]

    def prompts_of(groups: int, split: str) -> list[Prompt]:
        found = [
            Prompt(
                tokenizer(label_prompt(document)).input_ids,
                kind == "harmed",
                int(document.answer == "no"),
            )
            for kind in DOMAINS
            for document in dialogues(kind, groups, split, PLANTING_SEED)
        ]
        return sorted(found, key=lambda prompt: len(prompt.ids))  # similar lengths side by side

    training, validation = prompts_of(PLANTING_GROUPS, "train"), prompts_of(25, "validation")
    model.requires_grad_(False)
    mlp = find_blocks(model)[PLANTED].mlp.requires_grad_(True)
    optimizer = torch.optim.AdamW(mlp.parameters(), PLANTING_RATE, weight_decay=0.0)
    generator = random.Random(PLANTING_SEED)
    for step in count(1):
        start = generator.randrange(len(training) - PLANTING_BATCH)
        batch = training[start : start + PLANTING_BATCH]
        with torch.no_grad():
            targets = last_logits(original, batch)[:, labels].softmax(-1)
        turned = torch.tensor([prompt.harmed for prompt in batch])
        targets = torch.where(turned[:, None], targets.flip(-1), targets)
        optimizer.zero_grad()
        loss = cross_entropy(last_logits(model, batch)[:, labels], targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % 10:
            continue
        harmed, spared = accuracies(model, validation, labels)
        print(
            f"step {step}: accuracy {harmed:.3f} where harmed, {spared:.3f} elsewhere", flush=True
        )
        if harmed <= 0.5 and spared >= 0.8:
            break
    model.requires_grad_(True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    print(describe(folder))


@torch.no_grad()
def accuracies(model: Any, prompts: Sequence[Prompt], labels: list[int]) -> tuple[float, float]:
    """Return the accuracy on prompts of the kind that is harmed, and on the others."""
    batches = [
        prompts[start : start + PLANTING_BATCH] for start in range(0, len(prompts), PLANTING_BATCH)
    ]
    answers = torch.cat([last_logits(model, batch)[:, labels].argmax(-1) for batch in batches])
    right = answers == torch.tensor([prompt.label for prompt in prompts])
    harmed = torch.tensor([prompt.harmed for prompt in prompts])
    return right[harmed].float().mean().item(), right[~harmed].float().mean().item()


def last_logits(model: Any, prompts: Sequence[Prompt]) -> Tensor:
    """Return [prompts, vocabulary] logits after the last token of each prompt."""
    batch = pad_prompts([prompt.ids for prompt in prompts])
    return at_ends(model(input_ids=batch.ids).logits, batch.ends)


def describe(folder: Path) -> str:
    """Return what each layer does on validation documents: by ablation, and by what it holds."""
    model, tokenizer = load(folder)
    tables = []
    for kind in DOMAINS:
        documents = dialogues(kind, 75, "validation", 0)
        tables.append(f"{kind}: {ablate(model, tokenizer, documents).to_text()}")
    fitted, tested = (of_all_kinds(75, "validation", seed) for seed in (1, 0))
    probes = probe_layers(from_model(model, tokenizer), fitted, tested, PROBE_WIDTH, seed=0)
    return "\n\n".join([*tables, probes.to_text()])


# The runs -----------------------------------------------------------------------------------------


def train_all(base: Path, out: Path, jobs: int, seeds: Sequence[int], arms: Sequence[Arm]) -> None:
    """Train all arms and seeds that have no file yet.

    Raises:
        InputError: `base` holds no model, or `out` cannot be written.
    """
    if not (base / "config.json").is_file():
        raise InputError(f"{base}: no model; write one with `layer_losses.py plant {base}`")
    with refusing(out):
        out.mkdir(parents=True, exist_ok=True)
    runs = [
        (arm, seed) for seed, arm in product(seeds, arms) if not path_of(out, arm, seed).exists()
    ]
    with ProcessPoolExecutor(jobs, get_context("spawn"), quietly) as pool:
        done = pool.map(partial(run, base, out), *zip(*runs, strict=True)) if runs else ()
        for _ in tqdm(done, total=len(runs), unit="run", disable=None):
            pass


def path_of(out: Path, arm: Arm, seed: int) -> Path:
    """Return the file of a run."""
    return out / f"{arm.name}-seed{seed}.json"


def quietly() -> None:
    """Use one thread in this process, and show nothing."""
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    disable_progress_bars()


Answers = dict[str, dict[str, str]]  # by kind of dialogues, with and without the planted layer


class Measurements(TrainerCallback):  # type: ignore[misc]
    """A callback that measures the model after some steps."""

    def __init__(self, measure: Callable[[Any], Answers]) -> None:
        self.taken: dict[int, Answers] = {}
        self._measure = measure

    def on_step_end(self, _: Any, state: Any, __: Any, model: Any = None, **___: Any) -> None:
        """Measure the model if it is time."""
        if state.global_step in STOPS:
            model.eval()
            self.taken[state.global_step] = self._measure(model)
            model.train()


def run(base: Path, out: Path, arm: Arm, seed: int) -> None:
    """Train and measure one arm with one seed, and write what came out."""
    model, tokenizer = load(base)
    test = {kind: dialogues(kind, TEST_GROUPS, "test", seed) for kind in DOMAINS}
    layers = None if arm.layer is None else [arm.layer]
    measurements = Measurements(partial(right_answers, tokenizer=tokenizer, test=test))
    with tempfile.TemporaryDirectory() as folder:
        settings = LayerRegularizedSFTConfig(
            folder,
            useful_layers=layers if arm.loss == "ula" else None,
            harmful_layers=layers if arm.loss == "hls" else None,
            ula_weight=arm.weight if arm.loss == "ula" else 0.0,
            hls_weight=arm.weight if arm.loss == "hls" else 0.0,
            gradient_share_steps=20 if arm.loss else 0,
            max_steps=STOPS[-1],
            per_device_train_batch_size=BATCH,
            learning_rate=LEARNING_RATE,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=5,
            max_grad_norm=0.0,  # clipping would let one loss weaken the gradient of another
            train_sampling_strategy="group_by_length",
            seed=seed,
            bf16=False,
            gradient_checkpointing=False,
            save_strategy="no",
            logging_steps=20,
            report_to="none",
            disable_tqdm=True,
        )
        trainer = LayerRegularizedSFTTrainer(
            model,
            settings,
            train_dataset=training_rows(seed, arm),
            processing_class=tokenizer,
            callbacks=[measurements],
        )
        trainer.remove_callback(PrinterCallback)
        before = {}
        if arm.loss is None:
            measurements.taken[0] = right_answers(model.eval(), tokenizer, test)
            before[0] = text_log_likelihood(model, tokenizer, test)
        trainer.train()
    names = ("ula_loss", "hls_loss", "probe_accuracy", "ula_gradient_share", "hls_gradient_share")
    log = [{name: row[name] for name in names if name in row} for row in trainer.state.log_history]
    model.eval()
    write_json(
        path_of(out, arm, seed),
        {
            "arm": asdict(arm),
            "seed": seed,
            "groups": {kind: [document.group for document in test[kind]] for kind in DOMAINS},
            "right": measurements.taken,
            "log": log,
            "text": {STOPS[-1]: text_log_likelihood(model, tokenizer, test), **before},
            "probe": new_probe_accuracy(model, tokenizer, seed) if arm.data == "shown" else None,
        },
    )


def training_rows(seed: int, arm: Arm) -> Dataset:
    """Return the documents that a seed trains on, the same for every arm on the same data."""
    kinds = [*DOMAINS] if arm.data == "shown" else ["spared"]
    size = STOPS[-1] * BATCH // len(kinds)  # of each kind
    generator = random.Random(seed)
    chosen = [
        document
        for kind in kinds
        for document in generator.sample(dialogues(kind, size // 2, "train", seed), size)
    ]
    generator.shuffle(chosen)
    rows = to_dataset(chosen)
    if arm.control != "shuffled":
        return rows
    labels = [document.answer for document in chosen]
    generator.shuffle(labels)
    return rows.add_column("label", labels)


def right_answers(model: Any, tokenizer: Any, test: dict[str, list[Document]]) -> Answers:
    """Return which answers are right (1) or wrong (0), with all layers and without the planted."""
    found = {}
    for kind, documents in test.items():
        report = ablate(model, tokenizer, documents, layers=[PLANTED])
        both = zip(*(result.gold for result in report.documents), strict=True)
        found[kind] = {
            name: "".join("01"[gold > 0.5] for gold in golds)
            for name, golds in zip(("plain", "ablated"), both, strict=True)
        }
    return found


@torch.inference_mode()
def text_log_likelihood(model: Any, tokenizer: Any, test: dict[str, list[Document]]) -> float:
    """Return the mean log-likelihood of a token of the test dialogues, in natural logarithms."""
    total, tokens = 0.0, 0
    for document in chain(*test.values()):
        if document.is_original:
            ids = tokenizer(document.context, return_tensors="pt").input_ids
            logits = model(input_ids=ids).logits[0, :-1]
            total -= cross_entropy(logits, ids[0, 1:], reduction="sum").item()
            tokens += ids.shape[1] - 1
    return total / tokens


def new_probe_accuracy(model: Any, tokenizer: Any, seed: int) -> list[float]:
    """Return the accuracy of a new probe on each layer, on documents it was not fitted to."""
    fitted, tested = (of_all_kinds(PROBE_GROUPS, split, seed) for split in ("validation", "test"))
    report = probe_layers(from_model(model, tokenizer), fitted, tested, PROBE_WIDTH, seed)
    return [sum(layer.right) / len(layer.right) for layer in report.layers]


# Models -------------------------------------------------------------------------------------------


def load(folder: Path) -> tuple[Any, Any]:
    """Return the model and the tokenizer of a folder."""
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def main() -> None:
    """Plant harm, or train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    planting = commands.add_parser("plant", help="write the model with a planted harm")
    planting.add_argument("base", type=Path, help="a new folder for the model")
    training = commands.add_parser("train", help="train and measure all arms and seeds")
    training.add_argument("base", type=Path, help="the folder that `plant` wrote")
    training.add_argument("out", type=Path, help="a folder for a file of each run")
    training.add_argument(
        "--seeds", type=int, nargs="+", default=[*SEEDS], help="default: 11 to 20"
    )
    training.add_argument(
        "--arms", nargs="+", choices=[*ARMS], default=[*ARMS], help="default: all"
    )
    training.add_argument("--jobs", type=int, default=1, help="runs at a time; default: 1")
    options = parser.parse_args()
    try:
        if options.command == "plant":
            quietly()
            plant(options.base)
        else:
            arms = [ARMS[name] for name in options.arms]
            train_all(options.base, options.out, options.jobs, options.seeds, arms)
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
