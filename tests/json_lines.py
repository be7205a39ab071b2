"""Files of JSON lines, as lm-eval and users write them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def to_lines(records: Iterable[Any]) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def write_lines(path: Path, records: Iterable[Any]) -> Path:
    """Write a file of records into a folder, which need not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_lines(records))
    return path


def read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
