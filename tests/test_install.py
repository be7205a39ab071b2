"""The distributions: what they contain, and the wheel installed in an environment of its own."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from places import ROOT, SAMPLES

TASK = "pragworld_manual_mc"
PACKAGES = ("pragworld_tasks", "pragworld_interp", "pragworld_train")


class Environment:
    """A new virtual environment, whose commands run outside the checkout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)

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
        constraints = str(ROOT / "constraints.txt")
        process = self.run("python", "-m", "pip", "install", "-q", "-c", constraints, *arguments)
        assert process.returncode == 0, process.stderr


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("distributions")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def environment(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with the wheel and its required dependencies."""
    (wheel,) = distributions.glob("pragworld-*.whl")
    environment = Environment(tmp_path_factory.mktemp("install") / "environment")
    environment.install(str(wheel))
    return environment


def assert_linked_task_runs(environment: Environment, tasks: Path) -> None:
    """Link the tasks, run one by its name alone, and unlink them."""
    folder = tasks / "pragworld"
    process = environment.run("pragworld-tasks", "link")
    assert process.stdout == f"linked 45 tasks and groups in {folder}\n", process.stderr
    process = environment.run("lm_eval", "--model", "dummy", "--tasks", TASK)
    assert process.returncode == 0, process.stderr
    assert "robust_acc_published" in process.stdout
    process = environment.run("pragworld-tasks", "unlink")
    assert process.stdout == f"unlinked 45 tasks and groups from {folder}\n", process.stderr
    assert not folder.exists()


def package_files(folder: Path) -> set[str]:
    """Return the files of the three packages and the task files, as the wheel names them."""
    paths = [path for package in PACKAGES for path in (folder / package).rglob("*")]
    names = {path.relative_to(folder).as_posix() for path in paths if path.is_file()}
    tasks = {f"pragworld_tasks/task_configs/{p.name}" for p in (folder / "task_configs").iterdir()}
    return {name for name in names | tasks if "__pycache__" not in name}


def test_the_wheel_holds_the_packages_with_their_data_and_nothing_else(distributions: Path) -> None:
    (path,) = distributions.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == package_files(ROOT)
    suffixes = {Path(name).suffix for name in names} | {Path(name).name for name in names}
    assert suffixes >= {".yaml", ".toml", ".jsonl", ".safetensors", "tokenizer.json", "py.typed"}


def test_the_sdist_holds_what_is_needed_to_test_it(distributions: Path) -> None:
    (path,) = distributions.glob("*.tar.gz")
    with tarfile.open(path) as sdist:
        tops = {Path(name).parts[1] for name in sdist.getnames()}
    assert tops >= {*PACKAGES, "task_configs", "tests", "docs", "pyproject.toml", "constraints.txt"}
    assert tops >= {"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile"}
    assert not tops & {".ci", ".github", ".venv", ".git", "results", "site"}


def test_it_works_without_torch_and_transformers(environment: Environment) -> None:
    code = "import importlib.util as u; print(u.find_spec('torch'), u.find_spec('transformers'))"
    assert environment.run("python", "-c", code).stdout == "None None\n"


def test_linked_into_an_installed_lm_eval(environment: Environment) -> None:
    (site_packages,) = environment.folder.glob("lib/python*/site-packages")
    path = environment.run("pragworld-tasks", "path").stdout.strip()
    assert path == str(site_packages / "pragworld_tasks" / "task_configs")
    assert_linked_task_runs(environment, site_packages / "lm_eval" / "tasks")
    process = environment.run("lm_eval", "--model", "dummy", "--tasks", TASK)
    assert process.returncode != 0  # once it is unlinked


def test_linked_into_an_editable_lm_eval(environment: Environment, tmp_path: Path) -> None:
    (site_packages,) = environment.folder.glob("lib/python*/site-packages")
    source = tmp_path / "lm-evaluation-harness"
    # Leave out most of lm-eval's own tasks, because there are many.
    shutil.copytree(
        site_packages / "lm_eval",
        source / "lm_eval",
        ignore=lambda folder, names: (
            [name for name in names if (Path(folder) / name).is_dir() and name != "arc"]
            if Path(folder).name == "tasks"
            else []
        ),
    )
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "lm_eval"\nversion = "0.4.13"\n'
        '[project.scripts]\nlm_eval = "lm_eval.__main__:cli_evaluate"\n'
        '[tool.setuptools.packages.find]\ninclude = ["lm_eval*"]\n'
    )
    environment.install("--upgrade", "setuptools>=70.1")
    environment.install("--no-build-isolation", "--no-deps", "--editable", str(source))
    assert not (site_packages / "lm_eval").exists()
    assert_linked_task_runs(environment, source / "lm_eval" / "tasks")


def test_commands_of_the_installed_package(environment: Environment) -> None:
    listed = environment.run("pragworld-tasks", "list")
    assert listed.stdout.count("\n") == 45
    assert "pragworld_manual Manual split (500 questions, 88 groups)" in " ".join(
        listed.stdout.split()
    )
    help_ = environment.run("pragworld-tasks", "--help").stdout
    for command in ("link", "path", "list", "data", "generate", "alter", "tiny", "score"):
        assert command in help_


def test_the_small_model_and_the_generator_come_along(environment: Environment) -> None:
    folder = Path(environment.run("pragworld-tasks", "tiny").stdout.strip())
    assert folder.is_relative_to(environment.folder)
    names = {path.name for path in folder.iterdir()}
    assert names >= {"config.json", "model.safetensors", "tokenizer.json", "training.json"}
    process = environment.run("pragworld-tasks", "generate", "--show", "--groups", "1")
    assert process.stdout.startswith("Group 0"), process.stderr
