"""The command `pragworld-tasks`; its commands are tested with what they do."""

from pathlib import Path

import pytest
from command_runs import refused

from pragworld_interp import cli as interp
from pragworld_tasks.cli import main


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    usage, description, commands, *_ = capsys.readouterr().out.split("\n\n")
    assert usage == "usage: pragworld-tasks [-h] [--version] COMMAND ..."
    assert description.startswith("PragWorld for lm-eval")
    assert "\n    link      make the tasks known to the installed lm-eval\n" in commands


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (["generate", "--wrong"], "pragworld-tasks generate"),
        (["data", "status", "--wrong"], "pragworld-tasks data"),
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
    for run, arguments in (
        (main, ["score", *own, "answers.jsonl", "--items", "answers.jsonl"]),
        (main, ["score", *own, "answers.jsonl", "--items", "link.jsonl"]),
        (main, ["score", *own, "answers.jsonl", "--json", "own.jsonl"]),
        (main, ["score", "manual:answers.jsonl", "--json", "answers.jsonl"]),
        (main, ["decompose", str(samples), "--json", str(samples)]),
        (interp.main, ["compare", "own.jsonl", "--json", "own.jsonl"]),
        (interp.main, ["ablate", *own, "--model", "gone", "--out", "own.jsonl"]),
    ):
        with refused(": an input of this command, which would be lost; use another name$"):
            run([*arguments, "--overwrite"])
    assert {path: path.read_text() for path in texts} == texts
    score = ["score", *own, "answers.jsonl", "--json", "results/score.json"]
    main(score)
    main([*score, "--overwrite"])
