"""Linking the tasks into lm-eval's folder. tests/project/test_install.py does it with real installations."""

import functools
from pathlib import Path

import lm_eval
import pytest
from lm_eval.tasks import TaskManager
from lm_eval.tasks._yaml_loader import load_yaml
from places import ROOT

from pragworld_tasks.cli import main
from pragworld_tasks.errors import InputError
from pragworld_tasks.link import link, task_files, task_folder, task_names, unlink
from pragworld_tasks.tiny import tiny_folder


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The task folder of an lm-eval that stands in for the installed one."""
    tasks = tmp_path / "lm_eval" / "tasks"
    tasks.mkdir(parents=True)
    monkeypatch.setattr(lm_eval, "__file__", str(tmp_path / "lm_eval" / "__init__.py"))
    return tasks


def linked(tasks: Path) -> dict[str, Path]:
    return {path.name: path.resolve() for path in (tasks / "pragworld").iterdir()}


def test_the_commands_say_what_they_did_and_may_be_repeated(
    tasks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tasks / "pragworld"
    for command, printed in (
        ("link", f"linked 48 tasks and groups in {folder}"),
        ("link", f"linked 48 tasks and groups in {folder}"),
        ("path", f"{task_folder()}"),
        ("path model", f"{tiny_folder()}"),
        ("link --remove", f"unlinked 48 tasks and groups from {folder}"),
        ("link --remove", f"unlinked 0 tasks and groups from {folder}"),
    ):
        main(command.split())
        assert capsys.readouterr() == (f"{printed}\n", "")
        if command == "link":
            assert linked(tasks) == {path.name: path for path in task_files()}
    assert not folder.exists()


def test_older_links_are_replaced_and_what_somebody_else_placed_there_stays(tasks: Path) -> None:
    folder = tasks / "pragworld"
    folder.mkdir()
    for name in ("pragworld_manual.yaml", "pragworld_old.yaml"):
        (folder / name).symlink_to(f"/gone/task_configs/{name}")
    (folder / "mine.yaml").write_text("task: mine")
    (folder / "other.yaml").symlink_to("/somewhere/else/other.yaml")
    link()
    others = {"mine.yaml", "other.yaml"}
    assert linked(tasks).keys() == {path.name for path in task_files()} | others
    unlink()
    assert linked(tasks).keys() == others
    (folder / "mine.yaml").rename(folder / "pragworld_manual.yaml")
    with pytest.raises(InputError, match=r"pragworld: File exists; pass --include_path .* to lm"):
        link()


def test_no_links_are_placed_where_lm_eval_finds_the_tasks(
    tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the package's entry point, which lm-eval does not read yet."""
    scan = functools.partialmethod(TaskManager.__init__, include_path=str(task_folder()))
    link()
    monkeypatch.setattr(TaskManager, "__init__", scan)
    assert link().startswith("lm-eval finds the tasks by the package's entry point")
    assert not (tasks / "pragworld").exists()


CONFIGS = [load_yaml(path, resolve_func=False) for path in task_files()]


def test_the_pages_name_every_task_and_tag() -> None:
    pages = [ROOT / "docs" / name for name in ("evaluate.md", "sensitivity.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    tags = {tag for config in CONFIGS for tag in config.get("tag", [])}
    names = {name for name in {*task_names(), *tags} if not name.startswith("world_model_")}
    names |= {"world_model_own", "world_model_small"}
    assert {name for name in names if f"`{name}`" not in text} == set()


def test_a_tag_or_group_asks_a_model_for_one_kind_of_thing() -> None:
    """A chat API cannot compute likelihoods, and responses would be lost together with them."""
    members = {config["group"]: config["task"] for config in CONFIGS if "group" in config}
    types = {config["task"]: config["output_type"] for config in CONFIGS if "group" not in config}
    for config in CONFIGS:
        for tag in config.get("tag", []):
            members.setdefault(tag, []).append(config["task"])

    def types_of(name: str) -> set[str]:
        if name in types:
            return {types[name]}
        inner = (part["group"] if isinstance(part, dict) else part for part in members[name])
        return set().union(*map(types_of, inner))

    kinds = {name: {kind == "generate_until" for kind in types_of(name)} for name in members}
    assert kinds["pragworld_written"] == {True}
    assert kinds["pragworld_likelihood"] == {False}
    assert {name for name, found in kinds.items() if len(found) != 1} == set()
