"""The study: one base model, several ways of training over several seeds, all measured alike.

Every run has a folder with its settings. Each step of a run is a process of its own that leaves a
file or a folder, so that an interrupted study resumes there and every number can be reproduced by
hand.
"""

import fcntl
import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Any

import yaml
from tqdm import tqdm

from pragworld_tasks.command_line import at_least, launched_processes
from pragworld_tasks.data import sources
from pragworld_tasks.data.splits import GENERATED
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import refusing, write_json, write_whole
from pragworld_train.arguments import RunSettings, changed_settings, parse_settings
from pragworld_train.config import check_model
from pragworld_train.data import load_document_set
from pragworld_train.evaluation import base_model, evaluation_metadata, trained_model
from pragworld_train.experiments.arms import BASE, StudyRun, draw_layers
from pragworld_train.experiments.study_files import (
    check_evaluation,
    check_layers,
    check_probes,
    check_training,
)
from pragworld_train.experiments.study_report import make_study_report
from pragworld_train.lm_eval_process import run_lm_eval, run_logged
from pragworld_train.run_record import RUN_FILE

_SCHEMA = {"schema": "pragworld-study", "version": 1}
_TASKS = ["pragworld_generated_mc", "pragworld_generated_perplexity"]
_SPLITS = ("test", "test_vocabulary")  # that all runs are evaluated on
# Settings that a study makes itself, or that would do the same to every run.
_REFUSED = (
    *("seed", "evaluate", "evaluate_tasks", "retain", "resume_from_checkpoint"),
    *("push_to_hub", "hub_model_id", "hub_token", "chat_template_path", "documents"),
)


@dataclass(frozen=True)
class Study:
    """A study and the runs that it consists of.

    Attributes:
        settings: Settings that all runs share. Their output folder is that of the study.
        runs: The runs; the base model is the first.
        environment: Environment variables of the processes.
    """

    settings: RunSettings
    runs: list[StudyRun]
    environment: dict[str, str]


def run_study(words: Sequence[str], arms: Sequence[str], seeds: Sequence[int], jobs: int) -> None:
    """Run what is left of a study, write its report and print the tables.

    Args:
        words: Settings of `pragworld-train` for all runs, as on its command line.
        arms: The ways of training.
        seeds: The seeds of each.
        jobs: The number of runs at a time.

    Raises:
        InputError: The settings do not make a study, a step fails, or the folder holds a study
            with other settings.
    """
    if jobs < 1:
        raise InputError(f"--jobs {jobs}: must be at least 1")
    settings, changed = parse_settings(words), changed_settings(words)
    _check(settings, changed, arms, seeds)
    threads = max(1, (os.cpu_count() or 1) // jobs)
    runs = _plan_runs(settings, changed, arms, seeds)
    study = Study(settings, runs, {"OMP_NUM_THREADS": str(threads)})
    _write_plan(runs)
    steps = [step for run in runs for step in _steps(study, run)]
    for step in steps:
        if step.result.exists():
            step.check()
    with (
        tqdm(total=len(steps), desc="study", unit="step", disable=None) as progress,
        ThreadPoolExecutor(jobs) as pool,
    ):
        ended = Event()
        try:
            list(pool.map(lambda run: _complete(study, run, progress, ended), runs))
        finally:  # before the pool waits for the steps that are running
            ended.set()
    script_args, training_args, _ = settings
    useful, harmful = training_args.amplified, training_args.suppressed
    report = make_study_report(runs, useful, harmful, script_args.held_out_alteration)
    folder = Path(training_args.output_dir)
    write_json(folder / "study.json", {**_SCHEMA, **report.to_json()})
    write_whole(folder / "study.md", report.to_text().encode())
    report.draw(folder / "study.png")
    print(report.to_text())


# The plan -----------------------------------------------------------------------------------------


def _check(
    settings: RunSettings, changed: dict[str, Any], arms: Sequence[str], seeds: Sequence[int]
) -> None:
    """Refuse settings that a study cannot have."""
    script_args, training_args, model_args = settings
    if launched_processes() > 1:
        raise InputError("study: it starts its own processes; run it without a launcher")
    if refused := [name for name in _REFUSED if name in changed]:
        instead = "use --seeds" if refused[0] == "seed" else "leave it out"
        raise InputError(f"--{refused[0]}: not a setting of a study; {instead}")
    at_least(script_args, evaluate_groups=1, evaluate_batch_size=1)
    report = training_args.layer_report()
    if report is not None and str((report.data.generator or {}).get("split")).startswith("test"):
        raise InputError(
            f"layers {training_args.layers}: chosen on test documents, which the study evaluates; "
            'ablate on others: --metadata \'{"split": "validation"}\''
        )
    if script_args.dataset_name != GENERATED:
        raise InputError("--dataset_name: a study trains on generated dialogues; leave it out")
    if len({*seeds}) < len(seeds):
        raise InputError(f"--seeds {' '.join(map(str, seeds))}: must all be different")
    if not all(0 <= seed < 2**32 for seed in seeds):
        raise InputError(f"--seeds {' '.join(map(str, seeds))}: must be from 0 to {2**32 - 1}")
    if len({*arms}) < len(arms):
        raise InputError(f"--arms {' '.join(arms)}: must all be different")
    for layers, weight, regularized in (
        (training_args.amplified, "--ula_weight", {"ula", "ula_hls", "random_layers"}),
        (training_args.suppressed, "--hls_weight", {"hls", "ula_hls", "random_layers"}),
    ):
        if not layers and (lacking := [arm for arm in arms if arm in regularized]):
            raise InputError(
                f"study: {lacking[0]} needs {weight} and layers; set both, or choose other --arms"
            )
    if model_args.load_in_4bit or model_args.load_in_8bit:
        raise InputError(
            "--load_in_4bit and --load_in_8bit: lm-eval would load the model without them; leave "
            "them out"
        )


def _plan_runs(
    settings: RunSettings, changed: dict[str, Any], arms: Sequence[str], seeds: Sequence[int]
) -> list[StudyRun]:
    """Return the base model, and each arm with each seed, with the settings of each."""
    script_args, training_args, model_args = settings
    training_args.model_init_kwargs = {
        **(training_args.model_init_kwargs or {}),
        "revision": model_args.model_revision,
    }
    layer_count = check_model(training_args, model_args.model_name_or_path)
    documents = load_document_set(
        script_args.dataset_name,
        script_args.dataset_config,
        script_args.dataset_train_split,
        script_args.held_out_alteration,
    ).documents
    for split in _SPLITS:  # not every domain has both
        GeneratorSettings.from_metadata({**evaluation_metadata(script_args), "split": split})
    generator = json.loads(script_args.dataset_config)
    useful, harmful = training_args.amplified, training_args.suppressed
    plain = {"ula_weight": 0.0, "hls_weight": 0.0}
    both = {
        "ula_weight": training_args.ula_weight,
        "hls_weight": training_args.hls_weight,
        "useful_layers": useful,
        "harmful_layers": harmful,
    }
    # As many originals as there are documents in the other arms, for as many steps.
    originals = json.dumps({**generator, "groups": len(documents)})
    by_arm: dict[str, dict[str, Any]] = {
        "sft": plain,
        "ula": {**both, "hls_weight": 0.0},
        "hls": {**both, "ula_weight": 0.0},
        "ula_hls": both,
        "random_layers": both,
        "originals_only": {**plain, "originals_only": True, "dataset_config": originals},
    }
    shared = {"report_to": "none", "save_total_limit": 2, **changed}
    for name in ("layers", "layer_selection"):
        shared.pop(name, None)
    folder = Path(training_args.output_dir)
    evaluated = {
        **asdict(base_model(settings)),
        "groups": script_args.evaluate_groups,
        "manual": sources.locate("manual") is not None,
        "held_out_alteration": script_args.held_out_alteration,
        "dataset_config": generator,
    }
    runs = [StudyRun(BASE, 0, folder / BASE, evaluated)]
    for seed, arm in itertools.product(seeds, arms):
        place = folder / f"{arm}-seed{seed}"
        own = {**shared, **by_arm[arm], "seed": seed, "output_dir": str(place / "model")}
        if arm == "random_layers":
            drawn = draw_layers(layer_count, useful, harmful, seed)
            own["useful_layers"], own["harmful_layers"] = drawn
        runs.append(StudyRun(arm, seed, place, own))
    return runs


def _write_plan(runs: Sequence[StudyRun]) -> None:
    """Write the settings of every run, or refuse a folder in which they are others."""
    for run in runs:
        with refusing(run.folder):
            run.folder.mkdir(parents=True, exist_ok=True)
        path = run.folder / "config.yaml"
        text = yaml.safe_dump(run.settings, sort_keys=True)
        if path.is_file() and path.read_text(encoding="utf-8") != text:
            raise InputError(
                f"{path}: a study with other settings; choose another --output_dir, or remove it"
            )
        write_whole(path, text.encode())


# The steps ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """A step of a run.

    Attributes:
        result: The file or folder that it leaves.
        work: Does the step while holding a lock.
        check: Refuses a result that is not that of the step.
    """

    result: Path
    work: Callable[[int], None]
    check: Callable[[], None]


def _steps(study: Study, run: StudyRun) -> list[_Step]:
    """Return the steps of a run, in order."""
    settings, out = study.settings, run.folder / "model"
    script_args, training_args, _ = settings
    model = base_model(settings) if run.arm == BASE else trained_model(settings, out)
    metadata = evaluation_metadata(script_args)

    def evaluate(split: str, tasks: Sequence[str]) -> _Step:
        evaluation = model, tasks, run.folder / split, {**metadata, "split": split}

        def work(lock: int) -> None:
            batch_size = script_args.evaluate_batch_size
            run_lm_eval(*evaluation, batch_size, study.environment, (lock,))

        return _Step(run.folder / split, work, lambda: check_evaluation(*evaluation))

    def command(module: str, *words: str) -> Callable[[int], None]:
        def work(lock: int) -> None:
            name = f"{run.arm}, seed {run.seed}, {module} {words[0]}"
            log = run.folder / f"{module}_{words[0].strip('-')}.txt"
            line = [sys.executable, "-m", module, *words]
            run_logged(line, log, name, study.environment, (lock,))

        return work

    def train(lock: int) -> None:
        if not any(out.glob("checkpoint-*")):
            shutil.rmtree(out, ignore_errors=True)
        config = ("--config", str(run.folder / "config.yaml"))
        command("pragworld_train", *config, "--resume_from_checkpoint", "last")(lock)
        for checkpoint in out.glob("checkpoint-*"):  # large, and no longer needed
            shutil.rmtree(checkpoint)

    options = ["--model", model.name, "--dtype", model.dtype]
    options += ["--adapter", model.adapter] if model.adapter else []
    options += ["--revision", model.revision] if model.revision else []
    options += ["--chat-template"] if model.chat_template else []
    options += ["--trust-remote-code"] if model.trust_remote_code else []
    data = ["--split", GENERATED, "--metadata", json.dumps(metadata)]
    held_out = script_args.held_out_alteration
    probe = ["--groups", str(script_args.evaluate_groups), "--seed", str(run.seed)]
    probe += ["--probe_hidden_size", str(training_args.probe_hidden_size)]
    probe += ["--held_out_alteration", held_out] if held_out else []
    layers, probes = run.folder / "layers.json", run.folder / "probes.json"
    # The manual split is evaluated together with another, for which lm-eval runs anyway.
    manual = ["pragworld_manual_mc"] if study.runs[0].settings["manual"] else []
    ablate = command("pragworld_interp", "ablate", *options, *data, "--out", str(layers))
    fit = command("pragworld_train", "probe", *options, *probe, "--out", str(probes))
    groups = script_args.evaluate_groups
    trained = [] if run.arm == BASE else [_Step(out / RUN_FILE, train, lambda: check_training(out))]
    return [
        *trained,
        evaluate(_SPLITS[0], [*_TASKS, *manual]),
        evaluate(_SPLITS[1], _TASKS[:1]),
        _Step(layers, ablate, lambda: check_layers(layers, model, metadata)),
        _Step(probes, fit, lambda: check_probes(probes, model, groups)),
    ]


def _complete(study: Study, run: StudyRun, progress: "tqdm[Any]", ended: Event) -> None:
    """Work on the steps of a run whose results are missing, until the study has ended."""
    with _locked(run.folder) as lock:
        for step in _steps(study, run):
            if ended.is_set():
                return
            try:
                if not step.result.exists():
                    step.work(lock)
            except BaseException:  # which would be raised after the runs before this one
                ended.set()
                raise
            progress.update()


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Lock a run's folder. Processes that inherit the lock keep it if the study is killed."""
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tqdm.write(f"{folder}: waiting for another process to finish there", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)
