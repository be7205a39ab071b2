"""What may import what, and what importing the tasks must not cost."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

# Each floor may import those below it.
FLOORS = ("pragworld_tasks", "pragworld_interp", "pragworld_train")


def imported(path: Path) -> set[str]:
    """The top-level names of all modules that a file imports anywhere."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module).partition(".")[0])
    return names


@pytest.mark.parametrize("floor", [floor for floor in FLOORS if (ROOT / floor).is_dir()])
def test_each_floor_imports_only_those_below(floor: str) -> None:
    above = set(FLOORS[FLOORS.index(floor) + 1 :])
    files = list((ROOT / floor).rglob("*.py"))
    assert files
    for path in files:
        assert not imported(path) & above, path


def test_the_tasks_never_import_torch() -> None:
    for path in (ROOT / "pragworld_tasks").rglob("*.py"):
        assert not imported(path) & {"torch", "transformers"}, path


def test_what_the_task_files_name_imports_neither_torch_nor_transformers() -> None:
    code = """
import sys
from lm_eval.tasks._yaml_loader import load_yaml
from pragworld_tasks.link import task_files
functions = 0
for path in task_files():
    functions += sum(map(callable, load_yaml(path, resolve_func=True).values()))
print(functions, "torch" in sys.modules, "transformers" in sys.modules)
"""
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    functions, torch, transformers = output.stdout.split()
    assert int(functions) >= 9 * 3
    assert (torch, transformers) == ("False", "False")


def test_commands_start_without_lm_eval_and_datasets() -> None:
    code = "import sys, pragworld_tasks.cli; print({'lm_eval', 'datasets', 'numpy'} & set(sys.modules))"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout == "set()\n"
