"""Joining the shards of `pragworld-tasks collect`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import json_bytes, write_files
from pragworld_tasks.sensitivity.collection import (
    Chunk,
    corrupt_settings,
    first_round,
    read_settings,
)
from pragworld_tasks.shards import Shard, check_shards


def merge_collected(folders: Sequence[Path], out: Path, overwrite: bool = False) -> None:
    """Join the folders that `collect` wrote with `shard` to the one that it writes without.

    Args:
        folders: The folders of all shards, in any order.
        out: The folder to write, in which `collect` can resume, for instance to top up.
        overwrite: Whether it may hold responses already.

    Raises:
        InputError: A folder does not hold a shard, or not all of it, the folders are not all shards
            of one run, each once, or the result cannot be written.
    """
    read = [(folder, *_read_settings(folder / "collect.json")) for folder in folders]
    ordered = check_shards(read)
    shards = {folder: shard for folder, shard, _ in read}
    content = next(settings for folder, _, settings in read if folder == ordered[0])
    files = {}
    for name, task in content["tasks"].items():
        try:
            plan = first_round(task.pop("prompts"), task["repeats"], content["chunk"])
            if not plan:
                raise ValueError("a task has no prompts")
        except (LookupError, TypeError, ValueError) as error:
            raise corrupt_settings(ordered[0] / "collect.json") from error
        parts: dict[str, bytes] = {}
        for folder in ordered:
            own = shards[folder].units(plan)
            parts |= _read_chunks(folder / f"samples_{name}.jsonl", shards[folder], own)
        files[out / f"samples_{name}.jsonl"] = b"".join(parts[chunk.name] for chunk in plan)
    if out.resolve() in {folder.resolve() for folder in folders}:
        raise InputError(f"{out}: holds one of the shards; choose another --out")
    write_files({**files, out / "collect.json": json_bytes(content)}, overwrite)


def _read_settings(path: Path) -> tuple[Shard, dict[str, Any]]:
    """Return the shard that `collect` says it wrote, and what else it says."""
    content = read_settings(path)
    try:
        return Shard(**content.pop("shard")), content
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: not of a shard; give folders that `pragworld-tasks collect --shard` wrote"
        ) from error


def _read_chunks(path: Path, shard: Shard, chunks: Sequence[Chunk]) -> dict[str, bytes]:
    """Return the lines of each chunk of a shard, by the name of the chunk.

    Raises:
        InputError: The file cannot be read, or chunks lack documents, or have one twice or one that
            is not theirs.
    """
    by_name = {chunk.name: chunk for chunk in chunks}
    lines: dict[str, dict[int, bytes]] = {name: {} for name in by_name}
    try:
        content = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            sample = json.loads(line)
            chunk, document = by_name[sample["chunk"]], sample["doc_id"]
            known = document in lines[chunk.name]
        except (LookupError, TypeError, ValueError) as error:
            raise InputError(
                f"{path}, line {number}: not a response of shard {shard}; remove the line and "
                "rerun the shard"
            ) from error
        if known or document not in chunk.documents:
            fault = "occurs twice" if known else f"is not of the chunk {chunk.name!r}"
            raise InputError(
                f"{path}, line {number}: document {document} {fault}; rerun the command of shard "
                f"{shard}, which removes the line"
            )
        lines[chunk.name][document] = line + b"\n"
    done = [chunk for chunk in chunks if len(lines[chunk.name]) == len(chunk.documents)]
    if len(done) < len(chunks):
        raise InputError(
            f"{path}: shard {shard} has {len(done)} of its {len(chunks)} chunks; rerun its command "
            "to resume"
        )
    return {name: b"".join(own.values()) for name, own in lines.items()}
