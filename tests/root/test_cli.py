"""The command `pragworld-tasks`, its data commands above all. Others are tested with what they do."""

import shutil
from pathlib import Path

import pytest
from command_runs import refused, run_command
from places import SAMPLES

from pragworld_interp import cli as interp
from pragworld_tasks.cli import main
from pragworld_tasks.data.audit import audit
from pragworld_tasks.data.readers import read_manual
from pragworld_tasks.data.sources import FILES


def test_status_says_where_each_split_is(tmp_path: Path) -> None:
    manual = tmp_path / "data" / FILES["manual"].path
    manual.parent.mkdir()
    shutil.copy(SAMPLES / FILES["manual"].path, manual)
    cache = str(tmp_path / "cache")
    process = run_command(
        "data", "status", PRAGWORLD_DATA=str(manual.parent), PRAGWORLD_CACHE=cache
    )
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    assert lines[0] == f"PRAGWORLD_DATA: {manual.parent}"
    assert lines[1].startswith(f"cache: {cache}")
    assert lines[2].startswith(f"manual: {manual} (named folder)")
    assert lines[3].startswith("synthetic: not on this machine")
    assert lines[4].startswith("entity_tracking: not on this machine")


def test_check_prints_an_audit() -> None:
    process = run_command("data", "check", PRAGWORLD_DATA=str(SAMPLES))
    assert process.returncode == 0, process.stderr
    manual, synthetic, entity_tracking = process.stdout.split("\n  from ")[:3]
    assert "manual: 10 documents in 3 groups (4 as the released scoring counts them)" in manual
    assert "answers: no 6, yes 4" in manual
    assert "Not Altered 3" in manual
    assert "effects: invariant 4, flip 3" in manual
    assert "effect contradicts the labels in rows 5\n" in manual
    assert (
        "not the released file: 10 documents instead of 500; 3 groups instead of 88; 4 " in manual
    )
    assert "synthetic: 7 documents in 3 groups\n" in synthetic
    assert "entity_tracking: 5 documents in 2 groups\n" in entity_tracking


def test_an_audit_counts_one_document_and_group_in_the_singular() -> None:
    first = read_manual(SAMPLES / FILES["manual"].path)[:1]
    text = audit(first).to_text()
    assert text.startswith("manual: 1 document in 1 group\n")
    assert "1 document instead of 500; 1 group instead of 88" in text


def test_check_of_the_released_files_finds_what_is_known(released: Path) -> None:
    splits = ("manual", "entity_tracking")
    process = run_command("data", "check", *splits, PRAGWORLD_DATA=str(released))
    assert process.returncode == 0, process.stderr
    assert "manual: 500 documents in 88 groups (98 as the released scoring counts them)" in (
        process.stdout
    )
    assert "effect contradicts the labels in rows 40, 125, 344, 433\n" in process.stdout
    assert "not the released file" not in process.stdout


def test_check_names_the_row_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / FILES["manual"].path
    path.write_bytes((SAMPLES / FILES["manual"].path).read_bytes().replace(b"Negation", b"Nope"))
    process = run_command("data", "check", "manual", PRAGWORLD_DATA=str(tmp_path))
    assert process.returncode == 2
    assert process.stdout.startswith(f"manual: {path}, row 1 (line 6): unknown category 'Nope'")
    assert process.stderr == "1 of 1 files cannot be used; see above\n"


def test_check_without_data_says_what_to_do(tmp_path: Path) -> None:
    process = run_command("data", "check", PRAGWORLD_CACHE=str(tmp_path))
    assert process.returncode == 2
    assert process.stderr == (
        "no data to check; set PRAGWORLD_DATA or run `pragworld-tasks data fetch`\n"
    )


def test_check_of_a_folder_goes_on_after_a_bad_file(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES, tmp_path, dirs_exist_ok=True)
    (tmp_path / FILES["manual"].path).write_text("<html>")
    process = run_command("data", "check", "--folder", str(tmp_path))
    assert process.returncode == 2
    assert "manual: " in process.stdout
    assert "a web page, not a data file" in process.stdout
    assert "entity_tracking: 5 documents in 2 groups" in process.stdout
    assert process.stderr == "1 of 3 files cannot be used; see above\n"


def test_check_of_a_folder_that_does_not_exist_names_it(tmp_path: Path) -> None:
    process = run_command("data", "check", "--folder", str(tmp_path / "typo"))
    assert process.returncode == 2
    assert process.stderr == (
        f"{tmp_path}/typo: no such folder; pass one laid out like the released repository\n"
    )


def test_unknown_splits_are_refused() -> None:
    process = run_command("data", "status", "automatic")
    assert process.returncode == 2
    assert (
        process.stderr
        == "split 'automatic' does not exist; choose from manual, synthetic, entity_tracking\n"
    )


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (["author", "--seeds", "seeds.jsonl", "--wrong"], "pragworld-tasks author"),
        (["data", "status", "--wrong"], "pragworld-tasks data status"),
        (["--wrong", "data", "status"], "pragworld-tasks"),
    ],
)
def test_an_unknown_option_is_refused_with_the_usage_of_its_command(
    words: list[str], program: str
) -> None:
    with refused(f"^{program}: error: unrecognized arguments: --wrong$") as stderr:
        main(words)
    assert stderr.getvalue().startswith(f"usage: {program} [")


def test_no_command_replaces_what_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    samples = Path("results", "samples_pragworld_manual.jsonl")
    documents = '{"context": "A: Hi.", "question": "Does A greet?", "answer": "yes"}\n'
    texts = {Path("answers.jsonl"): '{"response": "Yes."}\n', Path("own.jsonl"): documents}
    texts[samples] = "{}\n"
    for path, text in texts.items():
        path.write_text(text)
    Path("link.jsonl").symlink_to("answers.jsonl")
    own = ["--documents", "own.jsonl"]
    trace = ["trace", *own, "--row", "0", "--model", "gone"]
    for run, arguments, name in (
        (
            main,
            ["score", *own, "--responses", "answers.jsonl", "--items", "answers.jsonl"],
            "items",
        ),
        (main, ["score", *own, "--responses", "answers.jsonl", "--items", "link.jsonl"], "items"),
        (main, ["score", *own, "--responses", "answers.jsonl", "--json", "own.jsonl"], "json"),
        (main, ["score", "--responses", "manual:answers.jsonl", "--json", "answers.jsonl"], "json"),
        (main, ["score", "--responses", "results", "--items", str(samples)], "items"),
        (interp.main, [*trace, "--out", "own.jsonl"], "out"),
        (interp.main, ["plot", "own.jsonl", "--out", "own.jsonl"], "out"),
        (interp.main, ["compare", "own.jsonl", "--json", "own.jsonl"], "json"),
    ):
        with refused(rf"^--{name} .*: an input of this command, which would be lost; use another"):
            run([*arguments, *(["--overwrite"] if arguments[0] != "plot" else [])])
    assert {path: path.read_text() for path in texts} == texts
    score = ["score", *own, "--responses", "answers.jsonl", "--json", "results/score.json"]
    main(score)
    main([*score, "--overwrite"])
