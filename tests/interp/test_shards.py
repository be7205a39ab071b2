"""Shards of a run: which units they get, and which files make a whole."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_runs import refused
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_reports import make_documents

from pragworld_interp import (
    EXAMPLES,
    Ablated,
    merge_shards,
    read_layers,
    read_patching,
    read_patching_panels,
)
from pragworld_interp.cli import main
from pragworld_interp.packing import work_units
from pragworld_interp.positions import PromptParts
from pragworld_interp.sweep_shards import SweepShard, write_shard
from pragworld_interp.tokenization import TokenizedPrompt, group_prompts
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.serialization import encode
from pragworld_tasks.shards import Shard, check_enough_units, parse_shard

PROMPT = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@settings(max_examples=30)
@given(
    st.lists(st.lists(PROMPT, min_size=1, max_size=3), min_size=1, max_size=12),
    st.integers(1, 5),
    st.booleans(),
    st.randoms(),
)
def test_each_group_is_in_one_shard_whatever_the_order_of_the_documents(
    prompts: list[list[list[int]]], count: int, trees: bool, random: Any
) -> None:
    documents = make_documents([len(own) for own in prompts])
    rows = [TokenizedPrompt(ids, PromptParts()) for own in prompts for ids in own]

    def divide(order: Sequence[int]) -> list[list[list[int]]]:
        """Return the groups of each unit of each shard."""
        groups = group_prompts([documents[n] for n in order], [rows[n] for n in order])
        units = work_units(groups, trees, budget=16)
        numbers = [[group.documents[0].group for group in unit] for unit in units]
        shards = [Shard(number, count) for number in range(1, count + 1)]
        return [[*shard.units(numbers)] for shard in shards]

    order = [*range(len(rows))]
    shards = divide(order)
    everything = [group for units in shards for unit in units for group in unit]
    assert sorted(everything) == [*range(len(prompts))]
    sizes = [len(units) for units in shards]
    assert max(sizes) - min(sizes) <= 1
    random.shuffle(order)
    assert divide(order) == shards


@pytest.mark.parametrize("text", ["0/4", "1/0", "1", "1/4/4", "-1/4", "a/b", "1 / 4", ""])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=f"^--shard {text}: must be a number from 1, a slash"):
        parse_shard(text)


def test_lists_without_files_are_refused() -> None:
    with pytest.raises(InputError, match=r"^there are no shards to join; give"):
        merge_shards([])
    with pytest.raises(InputError, match=r"^there are no patching reports to read; give"):
        read_patching_panels([])


def test_a_shard_beyond_the_last_one_is_refused() -> None:
    error = "^--shard 4/3: there are 3 shards; the number must be from 1 to 3$"
    with pytest.raises(InputError, match=error):
        parse_shard("4/3")


def test_a_run_has_no_more_shards_than_batches() -> None:
    check_enough_units(Shard(1, 3), "abc", "a smaller --chunk")
    with pytest.raises(InputError, match=r"^--shard 1/4: the run has 3 batches.* at most 3 shards"):
        check_enough_units(Shard(1, 4), "abc", "a smaller --chunk")


def test_a_shard_has_no_pairs_of_the_whole_run_to_compare_estimates_on(tmp_path: Path) -> None:
    command = ("patch", "--model", "none", "--split", "generated", "--out", str(tmp_path / "out"))
    with refused("--method attribution: .* pass --check-pairs 0, or leave out --shard"):
        main([*command, "--method", "attribution", "--shard", "1/2"])


@pytest.fixture(scope="module")
def report() -> Ablated:
    """The example report of `ablate`."""
    return read_layers(EXAMPLES / "layers.json")


@pytest.fixture
def ablated(report: Ablated, tmp_path: Path) -> list[Path]:
    """That report in three shards."""
    run = {
        **{name: encode(getattr(report, name)) for name in ("model", "data", "intervention")},
        "targets": encode(report.targets),
    }
    return write_shards(tmp_path, SweepShard("ablate", Shard(1, 3), 0, run), report.documents)


def write_shards(folder: Path, head: SweepShard, results: Sequence[Any]) -> list[Path]:
    paths = []
    for number in (1, 2, 3):
        own = [result for result in results if result.group % 3 == number % 3]
        paths.append(folder / f"{head.command}.shard-{number}-of-3")
        write_shard(paths[-1], replace(head, shard=Shard(number, 3), results=len(own)), own)
    return paths


def test_merged_shards_of_ablate_are_the_report(ablated: list[Path], tmp_path: Path) -> None:
    assert merge_shards([ablated[1], ablated[2], ablated[0]]) == read_layers(
        EXAMPLES / "layers.json"
    )
    out = tmp_path / "new" / "layers.json"
    main(["merge", *map(str, ablated), "--out", str(out)])
    read_layers(EXAMPLES / "layers.json").write(tmp_path / "whole")
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()
    with refused("layers.json exists; pass --overwrite"):
        main(["merge", *map(str, ablated), "--out", str(out)])


def test_merged_shards_of_patch_are_the_report(tmp_path: Path) -> None:
    report = read_patching(EXAMPLES / "patching.jsonl")
    run = {name: encode(getattr(report, name)) for name in ("model", "data", "positions", "method")}
    paths = write_shards(tmp_path, SweepShard("patch", Shard(1, 3), 0, run), report.pairs)
    merge_shards(paths).write(tmp_path / "merged")
    assert (tmp_path / "merged").read_bytes() == (EXAMPLES / "patching.jsonl").read_bytes()


def test_shards_with_the_same_rows_are_refused(ablated: list[Path]) -> None:
    row = json.loads(ablated[0].read_text().splitlines()[1])["row"]
    head, line, *rest = ablated[1].read_text().splitlines()
    ablated[1].write_text("\n".join([head, json.dumps({**json.loads(line), "row": row}), *rest]))
    with pytest.raises(InputError, match=r"shard-1-of-3 and the other shards: a row is .* twice"):
        merge_shards(ablated)


def test_shards_without_some_of_the_pairs_or_with_the_same_are_refused(tmp_path: Path) -> None:
    report = read_patching(EXAMPLES / "patching.jsonl")
    run = {name: encode(getattr(report, name)) for name in ("model", "data", "positions", "method")}
    run["pairs"] = len(report.pairs)
    head = SweepShard("patch", Shard(1, 3), 0, run)
    merge_shards(write_shards(tmp_path, head, report.pairs))
    error = rf"shard-1-of-3 and the other shards: there are {len(report.pairs) - 1} pairs, but"
    with pytest.raises(InputError, match=error):
        merge_shards(write_shards(tmp_path, head, report.pairs[:-1]))
    same = replace(report.pairs[0], group=report.pairs[0].group + 1)  # which is in another shard
    with pytest.raises(InputError, match=r"rows .* are no pair, or here twice; write them again"):
        merge_shards(write_shards(tmp_path, head, [*report.pairs[:-1], same]))


def head_changed(path: Path, change: Callable[[Any], object]) -> None:
    head, _, rest = path.read_text().partition("\n")
    content = json.loads(head)
    change(content)
    path.write_text(f"{json.dumps(content)}\n{rest}")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([0, 2], r"shard 2/3 of the run that .*shard-1-of-3 is of: missing; run it"),
        ([1], r"shard 1/3, 3/3 of the run"),
        ([0, 1, 1, 2], r"shard-2-of-3: given twice"),
    ],
)
def test_shards_that_are_not_a_whole_are_named(
    files: list[int], message: str, ablated: list[Path]
) -> None:
    with pytest.raises(InputError, match=message):
        merge_shards([ablated[number] for number in files])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda head: head["run"]["model"].update(name="other"), "shard-2-of-3: a shard of another run than .*shard-1-of-3, with model.name 'other', not 'pragworld_tasks/tiny'"),
        (lambda head: head["run"]["data"].update(fingerprint="0"), "with data.fingerprint '0', not"),
        (lambda head: head["run"].update(versions={"torch": "1"}), "with versions .*'1'"),
        (lambda head: head["run"]["intervention"].update(seed=3), "with intervention.seed 3, not None"),
        (lambda head: head["shard"].update(count=4), "shard-2-of-3: shard 2/4, but .* is shard 1/3"),
        (lambda head: head["shard"].update(number=3), "shard-3-of-3: shard 3/3, as is .*shard-2-of-3"),
        (lambda head: head["shard"].update(number=7), "shard-2-of-3, line 1: there is no shard 7/3"),
        (lambda head: head.update(version=2), "shard-2-of-3: the file has version 2"),
        (lambda head: head.update(schema="x"), "shard-2-of-3: the schema is 'x'"),
        (lambda head: head.update(command="trace"), "line 1: command is \"trace\", not one of"),
        (lambda head: head["run"].pop("targets"), "line 1: run has no 'targets'"),
        (lambda head: head.update(results=99), "results, but line 1 states 99; is the file cut off"),
    ],
)  # fmt: skip
def test_a_foreign_or_damaged_shard_is_named(
    change: Callable[[Any], object], message: str, ablated: list[Path]
) -> None:
    head_changed(ablated[1], change)
    with pytest.raises(InputError, match=message):
        merge_shards(ablated)


def test_a_damaged_line_is_named(ablated: list[Path]) -> None:
    lines = ablated[1].read_text().splitlines(keepends=True)
    record = json.loads(lines[2])
    for gold in (record["gold"][:-1], [*record["gold"][:-1], 1.5]):
        ablated[1].write_text(
            "".join([*lines[:2], json.dumps({**record, "gold": gold}) + "\n", *lines[3:]])
        )
        with pytest.raises(InputError, match=r"shard-2-of-3, row 2 \(line 3\): not 6 probabil"):
            merge_shards(ablated)
    ablated[1].write_text("".join([*lines[:2], lines[1], *lines[3:]]))
    with pytest.raises(
        InputError, match=r"shard-2-of-3, row 2 \(line 3\): a result that is here tw"
    ):
        merge_shards(ablated)
