"""The documentation: its commands and code run as shown and print what is shown.

A block that cannot run as it is has a comment before it, which readers of the page do not see:

    <!-- not run: needs a GPU -->               never runs
    <!-- takes minutes -->                      runs where PRAGWORLD_LONG is set
    <!-- needs the released files -->           runs where PRAGWORLD_DATA is set
    <!-- tested as: COMMAND -->                 runs the command instead, on less data

The second and third may name a command to run instead, too. Whether a block runs or not, what it
imports has to exist, and the arguments of its commands have to be valid for the real parsers. A `text` block, or a table behind the comment
`<!-- output -->`, is part of the output of the command or code before it, in whole lines; `…`
stands for anything. Any other block that has a title is a file, which later blocks of the page use.
"""

import itertools
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from command_runs import commands_of, parsers, programs
from lm_eval._cli.harness import HarnessCLI
from places import ROOT, SAMPLES
from warm_commands import PARSE_ONLY

import pragworld_interp
import pragworld_tasks
import pragworld_train
from pragworld_tasks.link import task_folder, task_names
from pragworld_train.arguments import make_parser

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = ("bash", "python")
# What reads the text of a file; any text is `bibtex`, `math` and `text`.
FORMATS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "jsonl": lambda text: [json.loads(line) for line in text.splitlines()],
    "toml": tomllib.loads,
    "yaml": lambda text: list(yaml.compose_all(text)),
    **dict.fromkeys(("bibtex", "math", "text"), str),
}
# What the commands of a checkout refer to.
CHECKOUT = (
    *("Makefile", "benchmarks", "constraints.txt", "examples", "experiments", "pragworld_tasks"),
    *("pyproject.toml", "scripts", "tests"),
)
# Programs of others, and what is done in their place.
PROGRAMS = {
    **dict.fromkeys(
        ("curl", "git", "hf", "inspect", "pip", "pytest", "sky", "transformers", "vllm"), ""
    ),
    # The first job of an array, at once.
    "sbatch": "set -e; SLURM_ARRAY_TASK_ID=1 SLURM_JOB_ID=1 SLURM_NNODES=1 SLURMD_NODENAME=node\n"
    'export "${!SLURM@}"; while [[ $1 == --* && $1 != --wrap ]]; do shift; done\n'
    'if [[ $1 != --wrap ]]; then bash "$@" >&2; fi; echo 1',
    "srun": 'exec "$@"',
    "make": 'exec /usr/bin/make --dry-run "$@" > /dev/null',
    # What they launch is the module behind -m.
    **dict.fromkeys(
        ("accelerate", "torchrun"),
        'while [ "$1" != -m ]; do shift; done\n'
        'command=$(echo "$2" | sed s/^pragworld_/pragworld-/); shift 2\n'
        'exec "$command" "$@"',
    ),
}

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)(?P<settings>.*)$")
_TITLE = re.compile(r'title="([^"]+)"')
_MARKER = re.compile(
    r"<!-- (not run|takes minutes|needs the released files|tested as|output)(?:: (.+))? -->"
)
_INLINE_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; what it has not is empty."""

    place: str  # for messages
    language: str
    title: str  # the name of the file that it shows
    marker: str  # the name of the comment before it
    remark: str  # the rest of that comment
    section: str
    text: str

    @property
    def is_output(self) -> bool:
        return self.language == "text" and not self.title


def read_blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, and the tables that show output."""
    blocks: list[Block] = []
    marker, section = ("", ""), ""
    lines = iter(page.read_text(encoding="utf-8").splitlines())
    for line in lines:
        place = f"{page.relative_to(ROOT)}, block {len(blocks) + 1} under {section!r}"
        if fence := _FENCE.match(line):
            inside = itertools.takewhile(lambda line: line.strip() != "```", lines)
            text = "".join(f"{line.removeprefix(fence['indent'])}\n" for line in inside)
            title = "".join(_TITLE.findall(fence["settings"]))
            blocks.append(Block(place, fence["language"], title, *marker, section, text))
        elif marker[0] == "output" and line:
            table = [line, *itertools.takewhile(bool, lines)]
            blocks.append(Block(place, "text", "", *marker, section, "\n".join(table)))
        if line.strip():
            comment = _MARKER.fullmatch(line.strip())
            marker = (comment[1], comment[2] or "") if comment else ("", "")
            section = line if line.startswith("#") else section
    return blocks


def prose(page: Path) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def shows(shown: str, printed: str) -> bool:
    """Return whether whole lines of what was printed are shown, `…` standing for anything."""
    shown, printed = (re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE) for text in (shown, printed))
    pattern = ".*?".join(map(re.escape, re.split(r"\.\.\.|…", shown.strip("\n"))))
    return re.search(f"^{pattern}$", printed, re.DOTALL | re.MULTILINE) is not None


class Shell:
    """A folder for the blocks of a page, and a shell for their commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in CHECKOUT:
            (folder / name).symlink_to(ROOT / name)
        others = folder / ".programs"
        others.mkdir()
        for name, script in PROGRAMS.items():
            (others / name).write_text(f"#!/bin/bash\n{script}\n")
            (others / name).chmod(0o755)
        self._path = f"{programs()}:{others}:/usr/bin:/bin"

    def run(self, commands: str, place: str, **environment: str) -> str:
        """Run commands until one fails, which must not happen, and return what they print."""
        process = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.folder,
            env={
                "PATH": self._path,
                "HOME": str(self.folder),
                "HF_HUB_OFFLINE": "1",
                "OMP_NUM_THREADS": "1",
                "PRAGWORLD_DATA": str(SAMPLES),
                **environment,
            },
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, f"{place}:\n{process.stdout}{process.stderr}"
        return process.stdout


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_runs_as_shown(page: Path, shell: Shell) -> None:
    blocks = read_blocks(page)
    for number, block in enumerate(blocks):
        if block.language in COMMANDS:
            printed = run_block(block, shell)
            following = blocks[number + 1 : number + 2]
            if printed is not None and following and following[0].is_output:
                shown = following[0]
                assert shows(shown.text, printed), f"{shown.place}: not printed:\n{printed}"
        elif block.is_output:
            before = blocks[number - 1] if number else block
            assert before.language in COMMANDS, f"{block.place}: the output of what?"
            assert before.section == block.section, f"{block.place}: the output of what?"
        else:
            assert block.language in FORMATS, f"{block.place}: language {block.language!r}"
            FORMATS[block.language](block.text)
            if block.title:
                path = shell.folder / block.title
                path.parent.mkdir(exist_ok=True)
                path.write_text(block.text)


def test_a_job_that_is_on_no_page_has_valid_arguments(shell: Shell) -> None:
    shell.run("OUT=. sbatch examples/slurm/collect.sbatch model", "collect", **{PARSE_ONLY: "1"})


def run_block(block: Block, shell: Shell) -> str | None:
    """Check the arguments in a block, run it, and return what it prints; None if it cannot run."""
    commands = block.text
    if block.language == "python":
        (shell.folder / "block.py").write_text(block.text)
        commands = "python block.py"
    if block.marker:
        shell.run("cd() { :; }\n" + commands, block.place, **{PARSE_ONLY: "1"})
    environment = {}
    match block.marker:
        case "not run":
            assert block.remark, f"{block.place}: say why it is not run"
            return None
        case "takes minutes":
            if not os.environ.get("PRAGWORLD_LONG"):
                return None
        case "needs the released files":
            released = os.environ.get("PRAGWORLD_RELEASED")
            if not released:
                return None
            environment["PRAGWORLD_DATA"] = released
    return shell.run(block.remark or commands, block.place, **environment)


def test_tasks_exist() -> None:
    files = "\n".join(path.read_text() for path in task_folder().glob("*.yaml"))
    tags = ", ".join(re.findall(r"^tag: \[(.+)\]", files, re.MULTILINE)).split(", ")
    packages = [path.name for path in ROOT.iterdir()]
    known = {*task_names(), *tags, *packages, "pragworld_split"}
    known |= {f"{task}_{metric}" for task in known for metric in ("acc", "robust_acc")}  # the Hub's
    name = re.compile(r"(?<![\w/])(?:pragworld|world_model)_\w+\b(?![./])")
    for page in PAGES:
        assert set(name.findall(page.read_text())) <= known, page


def test_files_exist() -> None:
    for page in PAGES:
        for code in _INLINE_CODE.findall(prose(page)):
            if re.fullmatch(r"(?:pragworld_\w+|tests|examples|benchmarks)/[\w./]*", code):
                assert (ROOT / code).exists(), f"{page}: {code}"


def test_every_command_is_described() -> None:
    pages = "\n".join(page.read_text() for page in PAGES)
    assert {"pragworld-tasks score", "pragworld-interp patch", "pragworld-train"} <= set(parsers())
    assert [command for command in parsers() if command not in pages] == []


def test_options_exist() -> None:
    of_lm_eval = dict(commands_of(HarnessCLI()._parser, "lm_eval"))
    every = (*parsers().values(), *of_lm_eval.values(), make_parser())
    actions = [action for parser in every for action in parser._actions]
    known = {option for action in actions for option in action.option_strings}
    known |= {"--nproc_per_node", "--config_file"}  # torchrun's and accelerate's
    known |= {"--array", "--requeue", "--dry-run"}  # of sbatch and hf jobs
    known |= {"--generation-config", "--host", "--no-enable-prefix-caching"}  # vllm's
    for page in PAGES:
        for code in _INLINE_CODE.findall(prose(page)):
            shown = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", code))
            script = re.match(r"python (\S+\.py)", code)
            text = (ROOT / script[1]).read_text(encoding="utf-8") if script else ""
            own = set(re.findall(r"--[a-z][\w-]*", text))
            assert shown <= known | own, f"{page}: {code}"


def test_links_of_the_files_outside_the_site() -> None:
    for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md"):
        page = ROOT / name
        for target in re.findall(r"\]\((?!https?:|\.\./\.\./)([^)]+)\)", page.read_text()):
            path, _, anchor = target.partition("#")
            linked = page.parent / path if path else page
            assert linked.exists(), f"{name}: {target}"
            if anchor:
                headings = re.findall(r"^#+ (.+)$", linked.read_text(), re.MULTILINE)
                slugs = {
                    re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings
                }
                assert anchor in slugs, f"{name}: {target}"


def test_the_site_builds_without_warnings_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    external = re.compile(
        r"<(?:script|img|iframe|source)[^>]+src=\"?(?:https?:)?//|<link[^>]+href=\"?(?:https?:)?//"
        r"|url\([\"']?(?:https?:)?//|@import"
    )
    pages = [*tmp_path.rglob("*.html"), *tmp_path.rglob("*.css"), *tmp_path.rglob("*.svg")]
    assert len(pages) > len(PAGES)
    assert [page.name for page in pages if external.search(page.read_text())] == []


@pytest.mark.parametrize("package", [pragworld_tasks, pragworld_interp, pragworld_train])
def test_the_api_page_lists_every_public_name(package: ModuleType) -> None:
    page = (ROOT / "docs" / "reference.md").read_text()
    listed = re.findall(rf"^::: {package.__name__}\.(\w+)$", page, re.MULTILINE)
    assert sorted(listed) == sorted(package.__all__)
    _, section = page.split(f"\n## `{package.__name__}`", 1)
    described = re.findall(r"^\| `(\w+)` \|", section.partition("\n## ")[0], re.MULTILINE)
    assert sorted(described) == sorted(package.__all__)
