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


def test_eval_without_a_model_takes_the_samples_unless_told_otherwise() -> None:
    assert "on tests/samples." in make("--dry-run", "eval")
    assert "on /elsewhere." in make("--dry-run", "eval", PRAGWORLD_DATA="/elsewhere")
    assert "tests/samples" not in make("--dry-run", "eval", "MODEL=some/model")


def test_other_targets_see_the_data_that_the_user_names_or_none() -> None:
    probe = 'include Makefile\nprobe: ; @echo "data: $$PRAGWORLD_DATA"'
    assert make("probe", makefile=probe) == "data: \n"
    assert make("probe", makefile=probe, PRAGWORLD_DATA="/elsewhere") == "data: /elsewhere\n"
