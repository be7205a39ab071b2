"""Shards of an evaluation by the real lm_eval command: one run, whoever does its parts."""

import json
import re
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_runs import Program, refused, run_program
from lm_eval_runs import read_strictly
from places import SAMPLES
from warm_client import KILLED

from pragworld_tasks.cli import main
from pragworld_tasks.errors import InputError
from pragworld_tasks.harness import generated_dataset, question_dataset
from pragworld_tasks.leaderboard.runs import load_runs
from pragworld_tasks.link import task_folder
from pragworld_tasks.tiny import tiny_folder

# A group of the three released splits, generated text, likelihoods of whole texts.
TASKS = ("pragworld_mc", "pragworld_generated_label", "pragworld_generated_perplexity")
# What depends on when and where lm-eval ran, and the cache that a shard resumes from.
VOLATILE = (
    *("date", "total_evaluation_time_seconds"),
    *("pretty_env_info", "git_hash", "upper_git_hash"),
)


def command(output: Path, **metadata: Any) -> tuple[str, ...]:
    return (
        *("--model", "hf", "--model_args", f"pretrained={tiny_folder()}", "--batch_size", "1"),
        *("--include_path", str(task_folder()), "--tasks", ",".join(TASKS), "--log_samples"),
        *("--output_path", str(output), "--use_cache", str(output.with_suffix(".cache"))),
        *("--metadata", json.dumps({"groups": 5, **metadata})),
    )


def cached(path: Path) -> int:
    """Return how many responses lm-eval's cache has."""
    if not path.exists():
        return 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        try:
            return int(database.execute("select count(*) from unnamed").fetchone()[0])
        except sqlite3.OperationalError:  # not made yet, or being written
            return 0


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole run, and with the same run in two shards, one of them killed."""
    folder = tmp_path_factory.mktemp("runs")
    second = command(folder / "second", shard="2/2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAGWORLD_DATA", str(SAMPLES))
        program = Program("lm_eval", *second, log=folder / "log")
        while program.runs() and not cached(folder / "second.cache_rank0.db"):
            time.sleep(0.005)
        assert program.stop(signal.SIGKILL) == KILLED, (folder / "log").read_text()
        assert not (folder / "second").exists()
        commands = (command(folder / "whole"), command(folder / "first", shard="1/2"), second)
        for arguments in commands:
            process = run_program("lm_eval", *arguments)
            assert process.returncode == 0, process.stderr
    assert re.search(r"Cached requests: [1-9]", process.stderr)
    return folder


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", str(SAMPLES))


def results(folder: Path) -> Path:
    (path,) = folder.rglob("results_*.json")
    return path


def test_merged_shards_are_a_single_run_although_one_was_killed(runs: Path, tmp_path: Path) -> None:
    second = shutil.copytree(runs / "second", tmp_path / "second")
    # As lm-eval's Python function records arguments that it gets as a text.
    arguments = f"pretrained={tiny_folder()},max_retries=9"
    other = {"device": "another machine's", "model_args": arguments}
    edit(results(second), lambda content: content["config"].update(other))
    # All runs here are forks of one process. The functions of others lie elsewhere.
    text, moved = re.subn("(?<= at )0x[0-9a-f]+", "0x1", results(second).read_text())
    assert moved
    results(second).write_text(text)
    main(["merge", str(second), str(runs / "first"), "--out", str(tmp_path / "merged")])
    merged, whole = results(tmp_path / "merged"), results(runs / "whole")

    def by_task(file: Path) -> dict[str, bytes]:
        date = file.stem.removeprefix("results_")
        return {
            path.name.removesuffix(f"_{date}.jsonl"): path.read_bytes()
            for path in file.parent.glob("samples_*")
        }

    assert len(by_task(whole)) == 5
    assert by_task(merged) == by_task(whole)
    contents = []
    for path in (merged, whole):
        content = read_strictly(path.read_text())
        for name in VOLATILE:
            assert content.pop(name, None) is not None or name.endswith("git_hash")
        assert content["config"].pop("use_cache")
        contents.append(json.dumps(content, indent=2))
    assert contents[0] == contents[1]
    assert "pragworld_mc" in json.loads(contents[0])["groups"]


def test_shards_are_no_runs_and_merged_they_are(runs: Path, tmp_path: Path) -> None:
    folders = [str(runs / name) for name in ("first", "second")]
    for folder in folders:
        with pytest.raises(InputError, match=r"shard ./2 of a run, .*; pass a whole run"):
            load_runs([folder], "generated")
    for task in ("pragworld_generated_label", "pragworld_manual"):
        files = [str(path) for path in runs.rglob(f"samples_{task}*") if "whole" not in path.parts]
        with pytest.raises(InputError, match=r"shard ./2 of a run, .*; pass a whole run"):
            load_runs(files)
    main(["merge", *folders, "--out", str(tmp_path)])
    (merged,), (whole,) = (
        load_runs([str(folder)], "generated") for folder in (tmp_path, runs / "whole")
    )
    assert merged.report.to_json() == whole.report.to_json()
    assert merged.record.data == whole.record.data


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Change the first line of samples, or results."""
    head, end, rest = path.read_text().partition("\n" if path.suffix == ".jsonl" else "\0")
    content = json.loads(head)
    change(content)
    path.write_text(json.dumps(content) + end + rest)


LABEL = "samples_pragworld_generated_label_*"


@pytest.mark.parametrize(
    ("pattern", "change", "message"),
    [
        ("results_*", lambda content: content["config"].update(model_sha="x"), "second.*: a shard of another run than .*first.*, with config.model_sha 'x', not ''"),
        ("results_*", lambda content: content["configs"]["pragworld_generated_label"]["metadata"].update(groups=6), "with configs.pragworld_generated_label.metadata.groups 6, not 5"),
        ("results_*", lambda content: content["configs"]["pragworld_generated_label"]["metadata"].update(shard="1/2"), "results_.*: not of a shard"),
        ("results_*", lambda content: [config["metadata"].update(shard="1/2") for config in content["configs"].values()], "second.*: shard 1/2, as is .*first.*json; remove one of the two, or leave it out"),
        ("results_*", lambda content: content.pop("config"), "results_.*: not of a shard"),
        (LABEL, lambda sample: sample["doc"].update(answer="maybe"), "line 1.*: another one than document"),
        (LABEL, lambda sample: sample.update(doc_id=99), "line 1.*: not a document of shard 2/2"),
        (LABEL, lambda sample: sample.update(resps=[["I don't know."]]), "pragworld_generated_label, document .*: filtered_resps of the sample is not what its responses give"),
        (LABEL, lambda sample: sample.update(unreadable=0.5), "document .*: unreadable of the sample is not"),
        (LABEL, lambda sample: sample.update(resps=5), "document .*: not lm-eval's 'resps'"),
    ],
)  # fmt: skip
def test_a_foreign_or_damaged_shard_is_named(
    pattern: str, change: Callable[[Any], object], message: str, runs: Path, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        shutil.copytree(runs / name, tmp_path / name)
    (path,) = (tmp_path / "second").rglob(pattern)
    edit(path, change)
    with refused(message):
        main(["merge", str(tmp_path), "--out", str(tmp_path / "merged")])


def test_what_is_no_whole_is_named(runs: Path, tmp_path: Path) -> None:
    first, out = str(runs / "first"), str(tmp_path / "out")
    with refused("shard 2/2 of the run that .*first.* is of: missing"):
        main(["merge", first, "--out", out])
    with refused("whole.*: not of a shard"):
        main(["merge", first, str(runs / "whole"), "--out", out])
    with refused(r"tmp.*: no results_\*.json"):
        main(["merge", first, str(tmp_path), "--out", out])
    second = shutil.copytree(runs / "second", tmp_path / "second")
    (samples,) = second.rglob("samples_pragworld_generated_label*")
    head, *others = samples.read_text().splitlines(keepends=True)
    for lines, message in (
        (others, r"samples_pragworld_generated_label.*: shard 2/2 has \d+ of its \d+ documents"),
        ([head, head, *others], r"\(line 2\): document 0 occurs twice"),
    ):
        samples.write_text("".join(lines))
        with refused(message):
            main(["merge", first, str(second), "--out", out])
    assert not Path(out).exists()


def test_each_group_is_in_one_shard() -> None:
    whole = generated_dataset(groups=7)["test"].to_list()
    shards = [
        generated_dataset(groups=7, shard=f"{number}/3")["test"].to_list() for number in (1, 2, 3)
    ]
    for number, shard in enumerate(shards):
        assert shard == [record for record in whole if record["group"] % 3 == number]


@pytest.mark.parametrize(
    ("shard", "message"),
    [
        ("3/2", "--metadata: shard 3/2: there are 2 shards; the number must be from 1 to 2"),
        (2, "--metadata: shard 2: must be"),
        ("1/3", "shard 1/3: there are 2 groups, which cannot be cut; use at most 2 shards"),
    ],
)
def test_what_is_no_shard_is_refused(shard: object, message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        generated_dataset(groups=2, shard=shard)


def test_the_world_model_tasks_have_no_shards() -> None:
    with pytest.raises(SystemExit, match="divide them by `pragworld-tasks collect --shard`"):
        question_dataset("travel_commute", shard="1/2")
