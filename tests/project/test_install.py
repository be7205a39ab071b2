"""The distributions: what they contain, and the wheel installed in an environment of its own.

The wheel's dependencies are linked from the environment of the tests. Where PRAGWORLD_LONG is set, pip
installs them.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from importlib.metadata import Distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from places import ROOT, SAMPLES
from servers import ChatServer

TASK, COMMUTE = "pragworld_manual_mc", "world_model_travel_commute"
TINY = ROOT / "pragworld_tasks" / "tiny"
PACKAGES = ("pragworld_tasks", "pragworld_interp", "pragworld_train")


class Environment:
    """A new virtual environment, whose commands run outside the checkout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        (self.site_packages,) = folder.glob("lib/python*/site-packages")

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PRAGWORLD_DATA": str(SAMPLES)}
        environment.pop("PYTHONPATH", None)
        return subprocess.run(
            [str(self.bin / command), *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=environment,
        )

    def install(self, *arguments: str) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install", "-q"]
        command = [*pip, "-c", str(ROOT / "constraints.txt"), *arguments]
        process = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
        assert process.returncode == 0, process.stderr

    def link_dependencies(self, wheel: Distribution) -> None:
        """Link what a distribution requires. lm-eval is copied: tests change it."""
        for distribution in required(wheel):
            names = {file.parts[0] for file in distribution.files or ()}
            for name in names - {"..", "__pycache__"}:
                source = Path(str(distribution.locate_file(name)))
                target = self.site_packages / name
                if distribution.name == "lm_eval":
                    shutil.copytree(source, target, ignore=most_tasks)
                elif not target.exists():
                    target.symlink_to(source)
        script = self.bin / "lm_eval"
        script.write_text(f"#!{self.bin}/python\nimport lm_eval.__main__ as m\nm.cli_evaluate()\n")
        script.chmod(0o755)


def required(distribution: Distribution) -> list[Distribution]:
    """Return the installed distributions that one requires, without its extras."""
    found: dict[tuple[str, str], Distribution] = {}  # by name and extra
    waiting = [(distribution, "")]
    while waiting:
        dependent, extra = waiting.pop()
        for requirement in map(Requirement, dependent.requires or ()):
            if not requirement.marker or requirement.marker.evaluate({"extra": extra}):
                dependency = metadata.distribution(requirement.name)
                new = {(dependency.name, wanted) for wanted in ("", *requirement.extras)} - {*found}
                found |= dict.fromkeys(new, dependency)
                waiting += [(dependency, wanted) for _, wanted in new]
    return [dependency for (_, extra), dependency in found.items() if not extra]


def most_tasks(folder: str, names: list[str]) -> list[str]:
    """Return which files of lm-eval to leave out of a copy: most of its tasks, and its cache."""
    tasks = Path(folder).name == "tasks"
    few = [name for name in names if Path(folder, name).is_dir() and tasks and name != "arc"]
    return [*few, ".cache"]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("distributions")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def environment(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    (wheel,) = distributions.glob("pragworld-*.whl")
    environment = Environment(tmp_path_factory.mktemp("install") / "environment")
    if os.environ.get("PRAGWORLD_LONG"):
        environment.install(str(wheel))
    else:
        environment.install("--no-deps", str(wheel))
        (installed,) = metadata.distributions(
            name="pragworld", path=[str(environment.site_packages)]
        )
        environment.link_dependencies(installed)
    return environment


@pytest.mark.skipif(
    "PRAGWORLD_LONG" not in os.environ, reason="installs torch three times; set PRAGWORLD_LONG"
)
@pytest.mark.parametrize(
    ("extras", "command", "printed"),
    [
        (
            "",
            "lm_eval --model local-chat-completions --apply_chat_template --limit 3 "
            "--model_args model=known,base_url={url}/chat/completions --tasks " + COMMUTE,
            "|mvs ",
        ),
        (
            "[hf]",
            "lm_eval --model hf --model_args pretrained={tiny} --tasks pragworld_generated "
            "--limit 8",
            "robust_acc",
        ),
        (
            "[interp]",
            "pragworld-interp ablate --model {tiny} --split generated --metadata {groups} "
            "--out layers.json",
            "without ablation: accuracy",
        ),
        (
            "[train]",
            "pragworld-train --model_name_or_path {tiny} --useful_layers 1 --use_peft "
            "--dataset_config {groups} --max_steps 1 --output_dir tuned",
            "tuned",
        ),
    ],
)
def test_each_extra_is_enough_for_its_command(
    extras: str, command: str, printed: str, distributions: Path, tmp_path: Path
) -> None:
    (wheel,) = distributions.glob("pragworld-*.whl")
    environment = Environment(tmp_path / "environment")
    environment.install(f"{wheel}{extras}")
    assert environment.run("pragworld-tasks", "link").returncode == 0
    with ChatServer(lambda _: "It takes 60 minutes.").running() as server:
        words = command.format(url=server.url, tiny=TINY, groups='{"groups":2}').split()
        process = environment.run(*words)
    assert process.returncode == 0, process.stderr
    assert printed in process.stdout + process.stderr


def test_the_wheel_holds_the_packages_with_their_data_and_nothing_else(distributions: Path) -> None:
    (path,) = distributions.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]
    files = {path.relative_to(ROOT).as_posix() for path in paths}
    assert names == {name for name in files if "__pycache__" not in name}
    suffixes = {Path(name).suffix for name in names} | {Path(name).name for name in names}
    assert suffixes >= {".yaml", ".toml", ".jsonl", ".safetensors", "tokenizer.json"}
    assert names >= {f"{package}/py.typed" for package in PACKAGES}


def test_the_sdist_holds_what_is_needed_to_test_it(distributions: Path) -> None:
    (path,) = distributions.glob("*.tar.gz")
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    samples = {path.relative_to(ROOT).as_posix() for path in SAMPLES.rglob("*") if path.is_file()}
    assert names >= samples  # which .gitignore may not name
    tops = {name.partition("/")[0] for name in names}
    assert tops >= {*PACKAGES, "tests", "docs", "pyproject.toml", "constraints.txt"}
    assert tops >= {"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile"}
    assert not tops & {".ci", ".github", ".venv", ".git", "results", "site"}


def test_citation_readme_and_changelog_name_the_same_release() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text()
    version, date = re.findall(r"^## \[([\d.]+)\] - ([\d-]+)$", changelog, re.MULTILINE)[0]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], str(citation["date-released"])) == (version, date)
    assert f"pragworld-{version}-py3-none-any.whl" in (ROOT / "README.md").read_text()
    assert project["version"] == version or ".dev" in project["version"]


def test_it_works_without_torch_and_transformers(environment: Environment) -> None:
    code = "import importlib.util as u; print(u.find_spec('torch'), u.find_spec('transformers'))"
    assert environment.run("python", "-c", code).stdout == "None None\n"


def test_linked_into_an_installed_lm_eval(environment: Environment) -> None:
    site_packages = environment.site_packages
    path = environment.run("pragworld-tasks", "path").stdout.strip()
    assert path == str(site_packages / "pragworld_tasks" / "task_configs")
    folder = site_packages / "lm_eval" / "tasks" / "pragworld"
    process = environment.run("pragworld-tasks", "link")
    assert process.stdout == f"linked 48 tasks and groups in {folder}\n", process.stderr
    process = environment.run("lm_eval", "--model", "dummy", "--tasks", TASK)
    assert process.returncode == 0, process.stderr
    assert "robust_acc_published" in process.stdout
    process = environment.run("pragworld-tasks", "link", "--remove")
    assert process.stdout == f"unlinked 48 tasks and groups from {folder}\n", process.stderr
    process = environment.run("lm_eval", "--model", "dummy", "--tasks", TASK)
    assert process.returncode != 0  # once it is unlinked
