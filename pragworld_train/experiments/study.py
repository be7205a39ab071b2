"""The experiment as a command: `pragworld-train study`.

From one base model, several ways of training over several seeds, all measured alike: plain SFT,
amplification, suppression and both; and the controls, SFT on as many documents none of which is
altered, and both losses on layers drawn at random. Every run is a folder with its settings, and
every step in it is a process of its own that leaves a file; so a study that was killed goes on
where it was, and each number can be made again by hand.
"""

import argparse
import fcntl
import itertools
import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from tqdm import tqdm

from pragworld_interp.loading import Model
from pragworld_tasks.data import sources
from pragworld_tasks.data.splits import GENERATED
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import write_json, write_whole
from pragworld_train import artifacts as outcome
from pragworld_train import data
from pragworld_train.cli import parsed, parser
from pragworld_train.config import check_model
from pragworld_train.evaluation import run_lm_eval, run_logged
from pragworld_train.experiments import study_report
from pragworld_train.experiments.study_report import Result

ARMS = {
    "sft": "plain SFT",
    "ula": "SFT and amplification of useful layers",
    "hls": "SFT and suppression of harmful layers",
    "ula_hls": "SFT and both",
    "random_layers": "SFT and both, on as many layers drawn at random",
    "originals_only": "plain SFT on as many documents, none of them altered",
}
BASE = "base"  # the model before training
TASKS = ["pragworld_generated_mc", "pragworld_generated_perplexity"]
SCHEMA = {"schema": "pragworld-study", "version": 1}


@dataclass(frozen=True)
class Run(Result):
    """One way of training with one seed.

    Attributes:
        arm: one of `ARMS`, or `BASE`.
        seed: of training; 0 for `BASE`, which has none.
        folder: of its own.
        settings: that it is trained with, as a YAML file for --config has them; of `BASE`, what all
            runs are asked.
    """

    settings: dict[str, Any]


@dataclass(frozen=True)
class Study:
    """What is done.

    Attributes:
        folder: with everything.
        runs: the base model first.
        useful, harmful: the layers.
        held_out: the alteration that training does without.
        groups: generated groups that each evaluation asks about.
        metadata: settings of the generated documents that evaluations ask.
        manual: whether the manual split is on this machine.
        threads: of each process.
        base: the model that training begins with.
        use_peft: whether an adapter is trained.
        batch_size: of lm-eval.
        probe_hidden_size: of the probes that are fitted to every run.
    """

    folder: Path
    runs: tuple[Run, ...]
    useful: tuple[int, ...]
    harmful: tuple[int, ...]
    held_out: str | None
    groups: int
    metadata: dict[str, Any]
    manual: bool
    threads: int
    base: Model
    use_peft: bool
    batch_size: int
    probe_hidden_size: int


def main(arguments: Sequence[str]) -> None:
    """Runs `pragworld-train study`."""
    own = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="pragworld-train study",
        description="Trains a model in every way over several seeds, evaluates each result, "
        "ablates it again, and writes tables (study.md, study.json) and a figure (study.png). A "
        "killed study goes on where it was.",
        epilog="All settings of pragworld-train are taken as well, for all runs: the model, the "
        "layers, the weights, the data (see pragworld-train --help). --output_dir is the study's "
        f"folder. The arms: {'; '.join(f'{name}, {what}' for name, what in ARMS.items())}.",
    )
    own.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="default: 1 2 3")
    own.add_argument(
        "--arms", nargs="+", choices=ARMS, default=list(ARMS), help="ways of training; default: all"
    )
    own.add_argument(
        "--jobs", type=int, default=1, help="runs at a time, on a share of the processors each"
    )
    options, words = own.parse_known_args(arguments)
    if options.jobs < 1:
        raise InputError(f"--jobs {options.jobs}: at least one is needed")
    study = _planned(words, options.arms, options.seeds, options.jobs)
    _keep_plan(study)
    steps = [step for run in study.runs for step in _steps(study, run)]
    with (
        tqdm(total=len(steps), desc="study", unit="step", disable=None) as bar,
        ThreadPoolExecutor(options.jobs) as pool,
    ):
        list(pool.map(lambda run: _do(study, run, bar), study.runs))
    report = study_report.report(study.runs, study.useful, study.harmful, study.held_out)
    write_json(study.folder / "study.json", {**SCHEMA, **study_report.to_json(report)})
    text = study_report.to_text(report)
    write_whole(study.folder / "study.md", text.encode())
    study_report.figure(report, study.folder / "study.png")
    print(text)


# The plan -----------------------------------------------------------------------------------------


def _planned(words: list[str], arms: list[str], seeds: list[int], jobs: int) -> Study:
    script, training, model = parsed(words)
    given = _given(words)
    _check(script, training, arms, seeds, given)
    if model.load_in_4bit or model.load_in_8bit:
        raise InputError("study: quantised models are not evaluated as they are trained; load none")
    training.model_init_kwargs = {
        **(training.model_init_kwargs or {}),
        "revision": model.model_revision,
    }
    count = check_model(training, model.model_name_or_path)
    layers = training.amplified, training.suppressed
    folder = Path(training.output_dir)
    common = {"report_to": "none", "save_total_limit": 2, **given}
    for name in ("layers", "layer_selection"):
        common.pop(name, None)
    weights = {"ula_weight": training.ula_weight, "hls_weight": training.hls_weight}
    found = {"useful_layers": layers[0], "harmful_layers": layers[1]}
    documents = data.chosen(
        script.dataset_name,
        script.dataset_config,
        script.dataset_train_split,
        script.held_out_alteration,
    )
    own: dict[str, dict[str, Any]] = {
        "sft": {"ula_weight": 0.0, "hls_weight": 0.0},
        "ula": {**weights, **found, "hls_weight": 0.0},
        "hls": {**weights, **found, "ula_weight": 0.0},
        "ula_hls": {**weights, **found},
        "random_layers": {**weights},
        "originals_only": {"ula_weight": 0.0, "hls_weight": 0.0, "originals_only": True},
    }
    # As many originals as there are documents otherwise, so as many steps.
    generator = json.loads(script.dataset_config)
    as_many = {**generator, "groups": len(documents.documents)}
    own["originals_only"]["dataset_config"] = json.dumps(as_many)
    base = replace(outcome.base_model(training, model), chat_template=script.chat_template)
    manual = sources.locate("manual") is not None
    asked = {**asdict(base), "groups": script.evaluate_groups, "manual": manual}
    asked |= {"held_out_alteration": script.held_out_alteration, "dataset_config": generator}
    runs = [Run(BASE, 0, folder / BASE, asked)]
    for seed, arm in itertools.product(seeds, arms):
        place = folder / f"{arm}-seed{seed}"
        settings = {**common, **own[arm], "seed": seed, "output_dir": str(place / "model")}
        if arm == "random_layers":
            drawn = _drawn(count, *layers, seed)
            settings |= {"useful_layers": drawn[0], "harmful_layers": drawn[1]}
        runs.append(Run(arm, seed, place, settings))
    return Study(
        folder,
        tuple(runs),
        tuple(layers[0]),
        tuple(layers[1]),
        script.held_out_alteration,
        script.evaluate_groups,
        manual=manual,
        metadata=outcome.asked_for(script),
        threads=max(1, (os.cpu_count() or 1) // jobs),
        base=base,
        use_peft=bool(model.use_peft),
        batch_size=script.evaluate_batch_size,
        probe_hidden_size=training.probe_hidden_size,
    )


# What a study does in its own way, or what would do the same to every run.
_NOT_TAKEN = (
    *("seed", "evaluate", "evaluate_tasks", "retain", "resume_from_checkpoint"),
    *("push_to_hub", "hub_model_id", "hub_token", "chat_template_path"),
)


def _check(
    script: Any, training: Any, arms: list[str], seeds: list[int], given: dict[str, Any]
) -> None:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("study: it starts its own processes; run it without a launcher")
    if refused := [name for name in _NOT_TAKEN if name in given]:
        instead = "; take --seeds" if refused[0] == "seed" else ""
        raise InputError(f"study: it takes no --{refused[0]}{instead}")
    outcome.check_counts(script)
    report = training.layer_report()
    if report is not None and str((report.data.generator or {}).get("split")).startswith("test"):
        raise InputError(
            f"layers {training.layers}: chosen by what they do on test documents, which the study "
            'asks; sweep others: --metadata \'{"split": "validation"}\''
        )
    if script.dataset_name != GENERATED:
        raise InputError("study: it trains on generated dialogues; leave out --dataset_name")
    if len({*seeds}) < len(seeds):
        raise InputError(f"--seeds {' '.join(map(str, seeds))}: one of them twice")
    for needed, weight, of in (
        (training.amplified, "--ula_weight", {"ula", "ula_hls", "random_layers"}),
        (training.suppressed, "--hls_weight", {"hls", "ula_hls", "random_layers"}),
    ):
        if not needed and (lacking := [arm for arm in arms if arm in of]):
            raise InputError(
                f"study: {lacking[0]} needs {weight} and layers; give both, or other --arms"
            )


def _given(words: list[str]) -> dict[str, Any]:
    """The settings that were given, on the command line or in its YAML file, by their names."""
    made = parser()
    usual = vars(made.parse_args([]))
    words = list(words)
    if "--config" in words:
        place = words.index("--config")
        content = yaml.safe_load(Path(words[place + 1]).read_text(encoding="utf-8"))
        content.pop("env", None)
        made.set_defaults_with_config(**content)
        del words[place : place + 2]
    found = vars(made.parse_args(words))
    return {name: value for name, value in found.items() if value != usual[name]}


def _drawn(
    count: int, useful: list[int], harmful: list[int], seed: int
) -> tuple[list[int], list[int]]:
    """As many layers of each kind, at random; not those that were found."""
    generator = random.Random(seed)
    while True:
        layers = generator.sample(range(count), len(useful) + len(harmful))
        drawn = sorted(layers[: len(useful)]), sorted(layers[len(useful) :])
        if drawn != (sorted(useful), sorted(harmful)):
            return drawn


def _keep_plan(study: Study) -> None:
    """Writes every run's settings, or refuses a folder in which they were others."""
    for run in study.runs:
        run.folder.mkdir(parents=True, exist_ok=True)
        path = run.folder / "config.yaml"
        text = yaml.safe_dump(run.settings, sort_keys=True)
        if path.is_file() and path.read_text(encoding="utf-8") != text:
            raise InputError(
                f"{path}: a study with other settings; name another --output_dir, or remove this"
            )
        write_whole(path, text.encode())


# The work -----------------------------------------------------------------------------------------


# Runs a process that holds this open file.
_Work = Callable[[int], None]


@dataclass(frozen=True)
class _Step:
    """A process, and the file or folder that it leaves."""

    leaves: Path
    work: _Work


def _steps(study: Study, run: Run) -> list[_Step]:
    """What is done in a run, in order."""
    out = run.folder / "model"
    base, metadata = study.base, study.metadata
    model = base if run.arm == BASE else outcome.trained_model(base, out, study.use_peft)
    # The manual split goes along with another, for which lm-eval is started anyway.
    manual = ["pragworld_manual_mc"] if study.manual else []
    evaluations = {"test": [*TASKS, *manual], "test_vocabulary": TASKS[:1]}
    steps = []
    if run.arm != BASE:
        steps.append(_Step(out / outcome.FILE, lambda lock: _train(study, run, lock)))
    for name, tasks in evaluations.items():
        steps.append(
            _Step(run.folder / name, _evaluation(study, run, model, name, tasks, metadata))
        )
    common = ["--model", model.name, "--dtype", model.dtype]
    common += ["--adapter", model.adapter] if model.adapter else []
    common += ["--revision", model.revision] if model.revision else []
    ablate = [*common, "--split", GENERATED, "--metadata", json.dumps(metadata)]
    ablate += ["--chat-template"] if model.chat_template else []
    ablate += ["--trust-remote-code"] if model.trust_remote_code else []
    probe = [*common, "--groups", str(study.groups)]
    probe += ["--probe_hidden_size", str(study.probe_hidden_size), "--seed", str(run.seed)]
    probe += ["--held_out_alteration", study.held_out] if study.held_out else []
    probe += ["--chat_template"] if model.chat_template else []
    probe += ["--trust_remote_code"] if model.trust_remote_code else []
    for file, command in (
        ("layers.json", ["pragworld_interp", "ablate", *ablate]),
        ("probes.json", ["pragworld_train", "probe", *probe]),
    ):
        words = [*command, "--out", str(run.folder / file)]
        steps.append(_Step(run.folder / file, _process(study, run, words)))
    return steps


def _do(study: Study, run: Run, bar: "tqdm[Any]") -> None:
    """Does what is left of a run."""
    with _locked(run.folder) as lock:
        for step in _steps(study, run):
            if not step.leaves.exists():
                step.work(lock)
            bar.update()


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Holds a run's folder; a process that is at work in it keeps holding it if we are killed."""
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tqdm.write(f"{folder}: another process is at work there; waiting", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def _train(study: Study, run: Run, lock: int) -> None:
    out = run.folder / "model"
    if not any(out.glob("checkpoint-*")):
        shutil.rmtree(out, ignore_errors=True)
    words = ["pragworld_train", "--config", str(run.folder / "config.yaml")]
    _process(study, run, [*words, "--resume_from_checkpoint", "last"])(lock)
    for checkpoint in out.glob("checkpoint-*"):  # large, and no more needed
        shutil.rmtree(checkpoint)


def _evaluation(
    study: Study, run: Run, model: Model, name: str, tasks: list[str], metadata: dict[str, Any]
) -> _Work:
    def work(lock: int) -> None:
        own = {**metadata, "split": name}
        threads = {"OMP_NUM_THREADS": str(study.threads)}
        batch = study.batch_size
        run_lm_eval(model, tasks, run.folder / name, own, batch, threads, (lock,))

    return work


def _process(study: Study, run: Run, words: list[str]) -> _Work:
    def work(lock: int) -> None:
        what = f"{run.arm}, seed {run.seed}, {' '.join(words[:2])}"
        log = run.folder / f"{words[0]}_{words[1].strip('-')}.txt"
        threads = {"OMP_NUM_THREADS": str(study.threads)}
        run_logged([sys.executable, "-m", *words], log, what, threads, (lock,))

    return work
