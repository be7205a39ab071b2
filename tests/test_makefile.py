"""What the Makefile hands to its commands."""

import os
import subprocess

from places import ROOT


def make(*arguments: str, makefile: str = "include Makefile", **environment: str) -> str:
    """What make prints, PRAGWORLD_DATA being unset unless it is given."""
    inherited = {name: value for name, value in os.environ.items() if name != "PRAGWORLD_DATA"}
    process = subprocess.run(
        ["make", "--silent", "--file", "-", *arguments],
        input=makefile,
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**inherited, **environment},
    )
    return process.stdout


def test_eval_without_a_model_takes_ours_on_generated_dialogues_as_it_is() -> None:
    command = make("--dry-run", "eval")
    assert "pretrained=pragworld_tasks/tiny" in command
    assert "--include_path" not in command  # the tasks are linked
    assert "--tasks pragworld_generated " in command
    assert "--apply_chat_template" not in command


def test_eval_of_a_model_takes_the_manual_split_and_a_chat_template_unless_told_otherwise() -> None:
    command = make("--dry-run", "eval", "MODEL=some/model")
    assert "pretrained=some/model" in command
    assert "--tasks pragworld_manual " in command
    assert "--apply_chat_template" in command
    command = make("--dry-run", "eval", "MODEL=some/model", "ARGS=", "TASKS=pragworld_mc")
    assert "--tasks pragworld_mc " in command
    assert "--apply_chat_template" not in command


def test_all_targets_see_the_data_that_the_user_names_or_none() -> None:
    probe = 'include Makefile\nprobe: ; @echo "data: $$PRAGWORLD_DATA"'
    assert make("probe", makefile=probe) == "data: \n"
    assert make("probe", makefile=probe, PRAGWORLD_DATA="/elsewhere") == "data: /elsewhere\n"
