"""Run the study of a model: teach it, sweep it, train every arm and seed, answer and sweep again.

    python experiments/real_models/study.py smollm2 models/smollm2 runs/smollm2

Each step leaves a file in `results/`, and is skipped if the file is there; an interrupted step
resumes. `report.py` makes tables and figures of the files. Settings are in `settings.toml`.
"""

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from answers import SETTINGS, answer, generated, load, observe, read_run
from lessons import ADAPTER, RECORD, merge, teach

from pragworld_interp import LayerReport, read_layers, read_patching
from pragworld_tasks.files import write_json, write_whole
from pragworld_train.run_record import RUN_FILE

RESULTS = Path(__file__).with_name("results")
BASE, TAUGHT = "base", "taught"  # the model before and after the lessons, before all arms
DTYPES = ("float32", "bfloat16")
SFT = "sft"  # the arm that others are compared with
read_once = cache(read_layers)  # all arms have their layers from one sweep, which stays as it is
LIKELIER = ("_mc", "_articulation")  # tasks in which nothing is written
LOSSES: dict[str, Any] = {"ula": "useful", "hls": "harmful"}


class Study(NamedTuple):
    """A model that is studied.

    Attributes:
        name: Its name in the settings.
        model: Its folder.
        out: The folder of the taught model, adapters, journals and logs, which is not kept.
        results: The folder of the files that are.
        dtype: The type in which models are trained and run.
    """

    name: str
    model: Path
    out: Path
    results: Path
    dtype: str = DTYPES[0]

    @property
    def taught(self) -> Path:
        """The folder of the taught model, from which all arms start."""
        return self.out / TAUGHT

    @property
    def template(self) -> list[str]:
        """The option that applies the chat template, if the model has one."""
        return ["--chat-template"] * SETTINGS["models"][self.name]["chat_template"]


class Step(NamedTuple):
    """A step: the file that it leaves, and the function that writes it."""

    result: Path
    do: Callable[[], None]


def main() -> None:
    """Run the steps that are left, in order."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", choices=SETTINGS["models"])
    parser.add_argument("model", type=Path, help="folder of the model, from fetch.py")
    parser.add_argument("out", type=Path, help="folder of adapters, journals and logs")
    parser.add_argument("--seeds", type=int, nargs="+", default=SETTINGS["seeds"])
    parser.add_argument("--arms", nargs="+", choices=SETTINGS["arms"], default=[*SETTINGS["arms"]])
    parser.add_argument("--pilot", type=int, metavar="SEED", help="try the budget with plain SFT")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        default=DTYPES[0],
        help="bfloat16 is faster on processors that multiply in it; default: %(default)s",
    )
    options = parser.parse_args()
    results = options.results / options.name
    study = Study(options.name, options.model, options.out, results, options.dtype)
    study.results.mkdir(parents=True, exist_ok=True)
    study.out.mkdir(parents=True, exist_ok=True)
    if options.pilot is not None:
        try_budget(study, options.pilot)
        return
    for step in steps(study, options.seeds, options.arms):
        if not step.result.exists():
            print(step.result, flush=True)
            step.do()


def steps(study: Study, seeds: list[int], arms: list[str]) -> Iterator[Step]:
    """Yield all steps, those first that others need or that say most."""
    yield answering(study, BASE)
    settings = SETTINGS["lessons"] | SETTINGS["models"][study.name].get("lessons", {})
    lessons = partial(teach, settings, study.model, study.out / "lessons", study.results)
    yield Step(study.results / RECORD, partial(lessons, bool(study.template)))
    yield Step(
        study.taught / "config.json",
        partial(merge, study.model, study.results / ADAPTER, study.taught),
    )
    yield answering(study, TAUGHT)
    yield sweeping(study, TAUGHT)
    for seed in seeds:
        for arm in arms:
            if not all(arm_layers(study, arm, seed).values()):
                print(f"{arm}: left out, for want of layers")
                continue
            run = f"{arm}-seed{seed}"
            observed = [answering(study, run)]
            if arm in SETTINGS["swept"]:
                observed.append(sweeping(study, run))
            if not all(step.result.exists() for step in observed):
                yield Step(study.out / run / RUN_FILE, partial(train, study, arm, seed))
                yield from observed
    patched = study.results / "patching.json"
    yield Step(patched, partial(interp, study, "patch", study.out / patched.name, patched))
    for task in SETTINGS["formats"]["tasks"]:
        for template in {bool(study.template), False}:
            yield evaluating(study, task, template)
    for task in SETTINGS["formats"]["more"]:
        yield evaluating(study, task, bool(study.template))
    for scale in SETTINGS["sampling"]["scales"]:
        decomposed = study.results / f"world-model-{scale}.json"
        yield Step(decomposed, partial(decompose_answers, study, scale, decomposed))


def command(study: Study, *words: str) -> None:
    """Run a Python module, with its output in a log."""
    with (study.out / "log.txt").open("a") as log:
        subprocess.run([sys.executable, "-m", *words], stdout=log, stderr=log, check=True)


def options_of(settings: dict[str, Any]) -> list[str]:
    """Return settings as options of a command."""
    return [word for name, value in settings.items() for word in (f"--{name}", str(value))]


# Training -----------------------------------------------------------------------------------------


def train(study: Study, arm: str, seed: int) -> None:
    """Train an adapter."""
    settings = SETTINGS["arms"][arm]
    groups = SETTINGS["training"]["max_steps"] * 8 // 3  # each has more than three documents
    generator = {**SETTINGS["generator"], "groups": groups, "seed": seed}
    words = ["--model_name_or_path", str(study.taught), "--use_peft", *study.template]
    words += ["--seed", str(seed), "--output_dir", str(study.out / f"{arm}-seed{seed}")]
    words += ["--dataset_config", json.dumps(generator), "--resume_from_checkpoint", "last"]
    words += ["--dtype", study.dtype, "--bf16", str(study.dtype == "bfloat16")]
    for loss, layers in arm_layers(study, arm, seed).items():
        words += [f"--{loss}_weight", str(settings[loss])]
        words += [f"--{LOSSES[loss]}_layers", *map(str, layers)]
    command(study, "pragworld_train", *words, *options_of(SETTINGS["training"]))


def try_budget(study: Study, seed: int) -> None:
    """Train plain SFT with a seed that does not count, and print its accuracy in validation."""
    train(study, SFT, seed)
    model, tokenizer = load(study.taught, study.out / f"{SFT}-seed{seed}", study.dtype)
    documents = generated("validation", SETTINGS["sweeps"]["pilot_groups"], seed)
    answer(model, tokenizer, documents, bool(study.template))


def arm_layers(study: Study, arm: str, seed: int) -> dict[str, list[int]]:
    """Return the layers of each loss of an arm: those chosen, or as many others drawn at random."""
    settings = SETTINGS["arms"][arm]
    if not settings:
        return {}
    report = read_once(study.results / f"layers-{TAUGHT}.json")
    chosen = {loss: choose(report, role)[0] for loss, role in LOSSES.items()}
    if settings.get("random"):
        others = sorted({*range(report.model.layers)}.difference(*chosen.values()))
        draw = random.Random(seed).sample
        chosen = {loss: sorted(draw(others, len(chosen[loss]))) for loss in LOSSES}
    return {loss: chosen[loss] for loss in LOSSES if loss in settings}


def choose(report: LayerReport, role: Any) -> tuple[list[int], str]:
    """Return the layers of a role, and the first rule of the plan that finds any."""
    if layers := report.selected_layers(role):
        return layers, "evidence"
    rule, layers = "sign under every replacement", report.selected_layers(role, by="sign")
    if not layers:
        zeros = report.by_replacement["zero"]
        rule, layers = "sign with zeros", [n for n, row in enumerate(zeros) if row.sign == role]
    change = dict.fromkeys(layers, 0.0)
    for results in report.by_replacement.values():
        for layer in layers:
            change[layer] += abs(results[layer].accuracy.points)
    largest = sorted(layers, key=lambda layer: -change[layer])
    return sorted(largest[: SETTINGS["sweeps"]["most_by_sign"]]), rule


# Observations -------------------------------------------------------------------------------------


def answering(study: Study, run: str) -> Step:
    """Return the step in which a model answers all questions."""

    def write() -> None:
        folder = study.model if run == BASE else study.taught
        adapter = None if run in (BASE, TAUGHT) else study.out / run
        content = observe(folder, adapter, bool(study.template), study.dtype)
        write_whole(result, f"{json.dumps(content)}\n".encode())  # a line, for it has many numbers

    result = study.results / f"answers-{run}.json"
    return Step(result, write)


def sweeping(study: Study, run: str) -> Step:
    """Return the step that ablates the MLP of each layer."""

    def sweep() -> None:
        words = ["--replacement", "all"] if run == TAUGHT else ["--adapter", str(study.out / run)]
        interp(study, "ablate", study.out / result.name, result, *words)

    result = study.results / f"layers-{run}.json"
    return Step(result, sweep)


def interp(study: Study, action: str, whole: Path, result: Path, *words: str) -> None:
    """Sweep validation dialogues, and keep what the report needs."""
    settings = {"groups": SETTINGS["sweeps"]["groups"], "seed": SETTINGS["sweeps"]["seed"]}
    metadata = json.dumps({**SETTINGS["generator"], **settings, "split": "validation"})
    model = ["--model", str(study.taught), "--dtype", study.dtype, *study.template, *words]
    data = ["--split", "generated", "--metadata", metadata, "--out", str(whole)]
    if not whole.exists():  # as it would after a run that was killed here
        command(study, "pragworld_interp", action, *model, *data)
    report: Any = (read_patching if action == "patch" else read_layers)(whole)
    model, changed = report.model, {}
    names = {"name": study.name, "adapter": model.adapter and Path(model.adapter).name}
    if action == "ablate":
        changed["documents"] = tuple(replace(row, direct=()) for row in report.documents)
    replace(report, model=replace(model, **names), **changed).write(result)


def evaluating(study: Study, task: str, template: bool) -> Step:
    """Return the step in which lm-eval runs a task on the model before training."""
    name = f"{task}{'-template' * template}"
    settings = SETTINGS["formats"]

    def write() -> None:
        words = ["--batch_size", str(settings["batch"])]
        if not task.endswith(LIKELIER):
            words += ["--gen_kwargs", f"max_gen_toks={settings['tokens']}"]
        evaluate(study, study.out / name, [task], template, *words)
        write_json(result, read_run(study.out / name))

    result = study.results / f"format-{name}.json"
    return Step(result, write)


def decompose_answers(study: Study, scale: str, result: Path) -> None:
    """Sample answers of the model before training to open questions, and decompose their values."""
    settings, out = SETTINGS["sampling"], study.out / "world-model"
    if not any(out.rglob("samples_*")):
        words = ["--gen_kwargs", f"max_gen_toks={settings['tokens']}"]
        words += ["--batch_size", str(settings["batch"])]
        evaluate(study, out, settings["tasks"], bool(study.template), *words)
    samples = map(str, sorted(out.rglob("samples_world_model_*.jsonl")))
    whole = out / result.name
    words = ["--scale", scale, "--json", str(whole), "--overwrite"]
    command(study, "pragworld_tasks", "decompose", *samples, *words)
    found, kept = json.dumps(str(study.model)), json.dumps(study.name)
    write_whole(result, whole.read_text(encoding="utf-8").replace(found, kept).encode())


def evaluate(study: Study, out: Path, tasks: list[str], template: bool, *more: str) -> None:
    """Run lm_eval on the model before training, so that it resumes."""
    words = ["--model", "hf", "--model_args", f"pretrained={study.model},dtype={study.dtype}"]
    words += ["--apply_chat_template"] * template
    words += ["--tasks", ",".join(tasks), "--output_path", str(out), *more]
    command(study, "pragworld_tasks", "collect", *words)


if __name__ == "__main__":
    main()
