"""The Makefile: which commands its targets run, with which arguments."""

import subprocess

from places import ROOT


def make(*arguments: str, makefile: str = "include Makefile") -> str:
    process = subprocess.run(
        ["make", "--silent", "--file", "-", *arguments],
        input=makefile,
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return process.stdout


def test_eval_uses_a_chat_template_for_other_models_than_the_small_one() -> None:
    command = make("--dry-run", "eval")
    assert "pretrained=pragworld_tasks/tiny" in command
    assert "--tasks pragworld_generated " in command
    assert "--apply_chat_template" not in command
    command = make("--dry-run", "eval", "MODEL=some/model")
    assert "pretrained=some/model" in command
    assert "--tasks pragworld_manual " in command
    assert "--apply_chat_template" in command


def test_the_board_shows_the_runs_that_there_are() -> None:
    assert "board some/run --out board --overwrite" in make("--dry-run", "board", "RUNS=some/run")
    probe = "include Makefile\nprobe: ; @echo $(RUNS)"
    expected = "results" if any(ROOT.glob("results/*")) else "--demo"
    assert make("probe", makefile=probe) == f"{expected}\n"
