"""How the project is laid out: who imports whom, what a name means, what an import costs."""

import ast
import doctest
import importlib
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from places import ROOT

PACKAGES = ("pragworld_tasks", "pragworld_interp", "pragworld_train")
# Each package may import itself and those named here.
MAY_IMPORT = {
    "pragworld_tasks": set[str](),
    "pragworld_interp": {"pragworld_tasks"},
    "pragworld_train": {"pragworld_tasks", "pragworld_interp"},
}
HARNESS = "pragworld_tasks.harness"
# The rooms of `pragworld_tasks`, from low to high. Each may import itself, those before it, and the
# modules of the root, of which only the entries import rooms.
ROOMS = (
    *("tiny", "web", "data", "dialogues", "text_alterations", "quantities", "evaluation"),
    *("grouped", "sensitivity", "layers", "authoring", "leaderboard"),
)
ENTRIES = {HARNESS, "pragworld_tasks.cli", "pragworld_tasks.link"}
# By name, `data` also finds the documents of the generator, which makes them.
UPWARD = {("pragworld_tasks.data.splits", "dialogues")}
README_LINES = 160
# How many lines of Python each room may have. Raising one is a decision that a commit of its own
# explains; what a room gains, another gives up.
BUDGETS = {
    "pragworld_tasks/*.py": 1_489,
    "pragworld_tasks/data": 1_154,
    "pragworld_tasks/evaluation": 2_716,
    "pragworld_tasks/grouped": 537,
    "pragworld_tasks/sensitivity": 2_083,
    "pragworld_tasks/quantities": 1_443,
    "pragworld_tasks/leaderboard": 1_290,
    "pragworld_tasks/authoring": 1_978,
    "pragworld_tasks/tiny": 16,
    "pragworld_tasks/web": 30,
    "pragworld_tasks/layers": 1_936,
    "pragworld_tasks/dialogues": 3_753,
    "pragworld_tasks/text_alterations": 2_575,
    "pragworld_interp": 4_857,
    "pragworld_train": 2_699,
}
TASK_LINES = 21_000  # of `pragworld_tasks` as a whole
# Tests of the rooms of `pragworld_tasks`, of the two other packages, and all there are.
TASK_TEST_LINES, OTHER_TEST_LINES = 11_600, 6_500
TEST_LINES = 20_000
DOCS_WORDS, DOCS_PAGES = 18_000, 16


def _modules() -> dict[str, Path]:
    """Return the file of every module of the three packages, by the module's dotted name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


MODULES = _modules()


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _imported_names(path: Path, package: str = "") -> set[str]:
    """Return every dotted name that a file imports, wherever in the file the import stands.

    A string that is the name of a module counts as an import of it: that is how names are
    exported lazily, and how `import_module` is called.

    Args:
        path: The file.
        package: The package that the file's relative imports start from.

    Returns:
        Names such as `os`, `pragworld_tasks.files` and, for `from pragworld_tasks.files import
        digest`, `pragworld_tasks.files.digest`.
    """
    names = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: 1 - node.level or None] if node.level else []
            source = ".".join([*parents, *([node.module] if node.module else [])])
            names |= {f"{source}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and node.value in MODULES and "." in node.value:
            names.add(node.value)
    return names


def _module_of(name: str) -> str | None:
    """Return which of our modules a dotted name is, or is defined in; None if in none of them."""
    return next((part for part in (name, name.rpartition(".")[0]) if part in MODULES), None)


def _imported_modules(path: Path, package: str = "") -> set[str]:
    """Return which of our modules a file imports."""
    modules = {_module_of(name) for name in _imported_names(path, package)}
    return {module for module in modules if module}


@cache
def _import_graph() -> dict[str, set[str]]:
    """Return the modules that each of our modules imports, itself aside."""
    graph = {}
    for module, path in MODULES.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        graph[module] = _imported_modules(path, package) - {module}
    return graph


def _after(code: str) -> set[str]:
    """Run code in a new interpreter and return the names of the modules that it loaded."""
    program = f"import sys\nbefore = set(sys.modules)\n{code}\nprint(*set(sys.modules) - before)"
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT
    )
    assert process.returncode == 0, process.stderr
    return set(process.stdout.split())


# Imports ------------------------------------------------------------------------------------------


def test_no_import_cycle_not_even_inside_functions_or_for_types_alone() -> None:
    try:
        TopologicalSorter(_import_graph()).prepare()
    except CycleError as error:
        pytest.fail("import cycle: " + " → ".join(error.args[1]))


def test_a_package_imports_only_those_below_it() -> None:
    wrong = [
        f"{module} imports {imported}"
        for module, imports in _import_graph().items()
        for imported in sorted(imports)
        if (below := imported.partition(".")[0]) != (package := module.partition(".")[0])
        and below not in MAY_IMPORT[package]
    ]
    assert not wrong


def test_a_room_imports_only_those_below_it() -> None:
    def room_of(module: str) -> str:
        part = module.split(".")[1] if "." in module else ""
        return part if (ROOT / "pragworld_tasks" / part).is_dir() else ""

    wrong = {
        (module, room)
        for module, imports in _import_graph().items()
        if module.startswith("pragworld_tasks.") and module not in ENTRIES
        for imported in imports
        if (room := room_of(imported))
        and (not room_of(module) or ROOMS.index(room) > ROOMS.index(room_of(module)))
    }
    assert wrong == UPWARD


def test_the_root_has_at_most_ten_modules() -> None:
    names = {path.stem for path in (ROOT / "pragworld_tasks").glob("*.py")}
    assert len(names - {"__init__", "__main__"}) <= 10


def test_the_tasks_name_neither_torch_nor_transformers() -> None:
    wrong = [
        f"{module} imports {name}"
        for module, path in MODULES.items()
        if module.startswith("pragworld_tasks")
        for name in sorted(_imported_names(path))
        if name.partition(".")[0] in {"torch", "transformers", "peft", "trl", "accelerate"}
    ]
    assert not wrong


def test_no_module_of_the_tasks_needs_an_optional_dependency_to_be_imported() -> None:
    modules = [
        module
        for module in MODULES
        if module.startswith("pragworld_tasks") and not module.endswith("__main__")
    ]
    loaded = _after("import " + ", ".join(modules))
    assert loaded >= set(modules)
    assert not loaded & {
        *("torch", "transformers", "peft", "trl", "accelerate"),
        *("matplotlib", "openai", "sentence_transformers"),
    }


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import pragworld_tasks", {"numpy", "scipy", "pandas", "datasets", "lm_eval", "pint"}),
        ("import pragworld_tasks.cli", {"numpy", "datasets", "lm_eval"}),
        (
            "from lm_eval.tasks._yaml_loader import load_yaml\n"
            "from pragworld_tasks.link import task_files\n"
            "for path in task_files(): load_yaml(path, resolve_func=True)",
            {"torch", "transformers"},
        ),
    ],
)
def test_importing_the_package_and_starting_its_commands_and_tasks_loads_nothing_heavy(
    code: str, heavy: set[str]
) -> None:
    loaded = _after(code)
    assert "pragworld_tasks" in loaded
    assert not loaded & heavy


def test_the_harness_is_for_task_files_alone() -> None:
    importers = [module for module, names in _import_graph().items() if HARNESS in names]
    for folder in ("benchmarks", "examples", "docs"):
        for path in (ROOT / folder).rglob("*.py"):
            if HARNESS in _imported_modules(path):
                importers.append(str(path.relative_to(ROOT)))
    assert not importers


# Names --------------------------------------------------------------------------------------------


def _defined_names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of a module defines: functions, classes and constants."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    parts = [part for target in targets for part in ast.walk(target)]
    return {part.id for part in parts if isinstance(part, ast.Name)}


def test_a_public_name_is_defined_in_one_module() -> None:
    definitions = defaultdict(list)
    for module, path in MODULES.items():
        for name in {name for part in _tree(path).body for name in _defined_names(part)}:
            if not name.startswith("_"):
                definitions[name].append(module)
    del definitions["main"]  # every command has one
    twice = {name: modules for name, modules in definitions.items() if len(modules) > 1}
    assert not twice


def test_task_files_name_functions_of_the_harness_alone() -> None:
    """Loading them, as above, shows that the functions are there."""
    texts = [
        path.read_text(encoding="utf-8") for path in (ROOT / "pragworld_tasks").rglob("*.yaml")
    ]
    assert {*re.findall(r"!function\s+([\w.]+)\.\w+", "".join(texts))} == {HARNESS}


@pytest.mark.parametrize("package", PACKAGES)
def test_exported_names_are_there_and_others_are_not(package: str) -> None:
    exporter = importlib.import_module(package)
    assert exporter.__all__
    for name in exporter.__all__:
        assert getattr(exporter, name) is not None
    assert sorted(exporter.__all__) == dir(exporter)
    assert not hasattr(exporter, "wrong")


# Files --------------------------------------------------------------------------------------------


def test_the_readme_is_read_in_five_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= README_LINES


@pytest.mark.parametrize("room", BUDGETS)
def test_a_room_keeps_to_its_budget(room: str) -> None:
    paths = ROOT.glob(room) if room.endswith(".py") else (ROOT / room).rglob("*.py")
    assert _lines(paths) <= BUDGETS[room]


def test_rooms_and_tests_keep_to_their_budgets_together() -> None:
    rooms = [room for room in BUDGETS if room.startswith("pragworld_tasks/")]
    assert sum(BUDGETS[room] for room in rooms) <= TASK_LINES
    tests = ["root", *(Path(room).name for room in rooms if not room.endswith(".py"))]

    def test_lines(*folders: str) -> int:
        return sum(_lines((ROOT / "tests" / folder).rglob("*.py")) for folder in folders)

    assert test_lines(*tests) <= TASK_TEST_LINES
    assert test_lines("interp", "train") <= OTHER_TEST_LINES
    assert test_lines(".") <= TEST_LINES


def test_the_pages_are_few_and_short() -> None:
    pages = [*(ROOT / "docs").glob("*.md")]
    assert len(pages) <= DOCS_PAGES
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= DOCS_WORDS


def _lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def _text_files() -> list[Path]:
    """Return the files that people read: code, pages and settings."""
    folders = (
        *PACKAGES,
        "docs",
        "tests",
        "benchmarks",
        "examples",
        "scripts",
        ".github",
    )
    suffixes = {".py", ".md", ".yaml", ".yml", ".toml", ".cff"}
    paths = [path for path in ROOT.iterdir() if path.suffix in suffixes or path.name == "Makefile"]
    for folder in folders:
        paths += [path for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    return sorted(path for path in paths if path != Path(__file__))


# A design document by its name, as in "ABC.md", "ABC, section 2" and "the definitions of SPEC".
_DOCUMENT = re.compile(r"\b([A-Z]{4,})(?:\.md\b|,? section\b)|\b(SPEC)\b")
# A folder beside the checkout, or one of a developer's machine.
_PLACE = re.compile(r"\.\./shared\b|(?<![\w.$~*/])/(?:work|home|root|Users|opt|mnt)/\w")


def test_no_file_mentions_one_outside_the_repository() -> None:
    documents = {path.stem for path in _text_files() if path.suffix == ".md"}
    wrong = []
    for path in _text_files():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            mentions = [match[1] or match[2] for match in _DOCUMENT.finditer(line)]
            if set(mentions) - documents or _PLACE.search(line):
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not wrong, "\n".join(wrong)


# Examples -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module",
    [module for module, path in MODULES.items() if ">>> " in path.read_text(encoding="utf-8")],
)
def test_the_examples_in_docstrings_run_as_shown(module: str) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testmod(importlib.import_module(module), optionflags=flags).failed == 0
