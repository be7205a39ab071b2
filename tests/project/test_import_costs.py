"""What importing the tasks and starting their command must not load."""

import subprocess
import sys


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
