"""Compare ways of training one model over several seeds: train, evaluate, ablate and probe each.

    python experiments/study.py runs/study --seeds 1 2 3 --model_name_or_path MODEL --use_peft \
      --useful_layers 0 1 --harmful_layers 4 --ula_weight 1e-3 --hls_weight 1e-3

All other settings are those of `pragworld-train`, for all runs. Each step of a run is a command
that leaves a file or a folder. Run again, the script does what is missing, and writes study.md and
study.png.
"""

import argparse
import itertools
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from study_report import BASE, StudyRun, make_study_report

from pragworld_interp.run.loading import load_config
from pragworld_tasks.data import sources
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import write_json, write_whole
from pragworld_tasks.link import task_folder
from pragworld_train.arguments import RunSettings, parse_settings
from pragworld_train.data import load_document_set
from pragworld_train.run_record import RUN_FILE

ARMS = {
    "sft": "plain SFT",
    "ula": "SFT with amplification of useful layers",
    "hls": "SFT with suppression of harmful layers",
    "ula_hls": "SFT with both",
    "random_layers": "SFT with both, on as many layers drawn at random",
    "originals_only": "plain SFT on as many documents, none of them altered",
}
PROBES = Path(__file__).with_name("probing.py")


class Step(NamedTuple):
    """A step of a run.

    Attributes:
        result: The file or folder that it leaves.
        command: The command.
        folder: The folder that the command writes, which becomes `result` in the end; None if it
            writes `result` itself.
    """

    result: Path
    command: list[str]
    folder: Path | None = None


def main() -> None:
    """Run what is left of a study, and print its report."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], metavar="SEED")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=[*ARMS], metavar="ARM")
    options, settings = parser.parse_known_args()
    try:
        run_study(options.out, options.arms, options.seeds, settings)
    except InputError as error:
        parser.error(str(error))


def run_study(out: Path, arms: Sequence[str], seeds: Sequence[int], words: list[str]) -> None:
    """Run what is left of a study, write its report and print its tables.

    Args:
        out: The folder of the study.
        arms: Names in `ARMS`.
        seeds: The seeds of each arm.
        words: Settings of `pragworld-train` for all runs.

    Raises:
        InputError: The folder is that of a study with other settings, or a setting is impossible.
    """
    settings = parse_settings(words)
    settings.training_args.resolve_layers()
    out.mkdir(parents=True, exist_ok=True)
    plan = out / "study.json"
    content = {"settings": words}
    if plan.exists() and json.loads(plan.read_text()) != content:  # whose runs would be compared
        raise InputError(f"{plan}: a study with other settings; choose another folder")
    write_json(plan, content)
    runs = [StudyRun(BASE, 0, out / BASE)]
    runs += [
        StudyRun(arm, seed, out / f"{arm}-seed{seed}")
        for seed, arm in itertools.product(seeds, arms)
    ]
    for run in runs:
        run.folder.mkdir(exist_ok=True)
        for step in steps(settings, words, run):
            if not step.result.exists():
                do(step, run.folder / "log.txt")
    training_args, held_out = settings.training_args, settings.script_args.held_out_alteration
    report = make_study_report(runs, training_args.amplified, training_args.suppressed, held_out)
    write_whole(out / "study.md", report.to_text().encode())
    report.draw(out / "study.png")
    print(report.to_text())


def steps(settings: RunSettings, words: list[str], run: StudyRun) -> Iterator[Step]:
    """Yield the steps of a run, in order."""
    script_args, _, model_args = settings
    folder, python = run.folder, [sys.executable, "-m"]
    name, adapter = str(model_args.model_name_or_path), None
    if run.arm != BASE:
        saved = folder / "model"
        training = [*words, *arm_settings(settings, run), "--output_dir", str(saved)]
        resumed = [*training, "--report_to", "none", "--resume_from_checkpoint", "last"]
        yield Step(saved / RUN_FILE, [*python, "pragworld_train", *resumed])
        name, adapter = (name, str(saved)) if model_args.use_peft else (str(saved), None)
    arguments = f"pretrained={name},dtype={model_args.dtype}" + (f",peft={adapter}" * bool(adapter))
    generator = json.loads(script_args.dataset_config)
    metadata: dict[str, Any] = {"groups": script_args.evaluate_groups}
    metadata |= {key: generator[key] for key in ("seed", "domains") if key in generator}
    held_out = script_args.held_out_alteration
    metadata |= {"held_out_alteration": held_out} if held_out else {}
    tasks = ["pragworld_generated_mc", "pragworld_generated_perplexity"]
    tasks += ["pragworld_manual_mc"] if sources.locate("manual") else []
    for split, chosen in (("test", tasks), ("test_vocabulary", tasks[:1])):
        partial = folder / f"{split}.partial"
        lm_eval = [*python, "lm_eval", "--model", "hf", "--model_args", arguments]
        lm_eval += ["--include_path", str(task_folder()), "--tasks", ",".join(chosen)]
        lm_eval += ["--metadata", json.dumps({**metadata, "split": split}), "--log_samples"]
        lm_eval += ["--batch_size", str(script_args.evaluate_batch_size)]
        lm_eval += ["--output_path", str(partial)]
        lm_eval += ["--apply_chat_template"] if script_args.chat_template else []
        yield Step(folder / split, lm_eval, partial)
    model = ["--model", name, "--dtype", str(model_args.dtype)]
    model += ["--adapter", adapter] if adapter else []
    model += ["--chat-template"] if script_args.chat_template else []
    layers, probes = folder / "layers.json", folder / "probes.json"
    data = ["--split", "generated", "--metadata", json.dumps(metadata), "--out", str(layers)]
    yield Step(layers, [*python, "pragworld_interp", "ablate", *model, *data])
    data = ["--groups", str(script_args.evaluate_groups), "--seed", str(run.seed)]
    data += ["--held-out-alteration", held_out] if held_out else []
    yield Step(probes, [sys.executable, str(PROBES), *model, *data, "--out", str(probes)])


def arm_settings(settings: RunSettings, run: StudyRun) -> list[str]:
    """Return what a run sets besides the settings of all runs."""
    script_args, training_args, model_args = settings
    words = ["--seed", str(run.seed)]
    useful, harmful = training_args.amplified, training_args.suppressed
    if run.arm in ("sft", "hls", "originals_only"):
        words += ["--ula_weight", "0"]
    if run.arm in ("sft", "ula", "originals_only"):
        words += ["--hls_weight", "0"]
    if run.arm == "random_layers":
        count = load_config(str(model_args.model_name_or_path)).get_text_config().num_hidden_layers
        drawn = draw_layers(count, useful, harmful, run.seed)
        for option, layers in zip(("--useful_layers", "--harmful_layers"), drawn, strict=True):
            words += [option, *map(str, layers)] if layers else []
    if run.arm == "originals_only":  # as many originals as there are documents in the other arms
        documents = load_document_set(script_args).documents
        config = {**json.loads(script_args.dataset_config), "groups": len(documents)}
        words += ["--originals_only", "true", "--dataset_config", json.dumps(config)]
    return words


def draw_layers(
    count: int, useful: list[int], harmful: list[int], seed: int
) -> tuple[list[int], list[int]]:
    """Draw as many layers of each kind at random, but not those given."""
    generator = random.Random(seed)
    while True:
        layers = generator.sample(range(count), len(useful) + len(harmful))
        drawn = sorted(layers[: len(useful)]), sorted(layers[len(useful) :])
        if drawn != (sorted(useful), sorted(harmful)):
            return drawn


def do(step: Step, log: Path) -> None:
    """Run the command of a step, with its output in a log.

    Raises:
        InputError: The command fails.
    """
    print(step.result, flush=True)
    if step.folder:
        shutil.rmtree(step.folder, ignore_errors=True)
    with log.open("a") as output:
        process = subprocess.run(step.command, stdout=output, stderr=output)
    if process.returncode:
        raise InputError(f"{step.result}: the command failed; see {log}")
    if step.folder:
        step.folder.rename(step.result)


if __name__ == "__main__":
    main()
