"""Results of a long run, appended as they come, so that a killed run goes on where it was.

A journal is a JSON-lines file. Its first line says what the run is; each other line holds the
results of one unit of work. What a kill leaves is at worst a last line cut off, which is taken off
when the run goes on. Several processes write a journal each.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pragworld_tasks.errors import InputError


class Journal:
    """The journal of one process.

    Attributes:
        done: results by the number of their unit, of this journal and of its siblings.
    """

    def __init__(self, target: Path, run: Mapping[str, Any], process: int = 0) -> None:
        """Opens the journal of a run, and reads what is done already.

        Args:
            target: the file that the run is to write in the end; journals lie beside it.
            run: what identifies the run. A journal of another one is refused.
            process: the number of this process.

        Raises:
            InputError: the place cannot be written to, or holds the journal of another run.
        """
        self._target = target
        self._head = json.dumps(dict(run), sort_keys=True)
        self._path = _path(target, process)
        self.done: dict[int, Any] = {}
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            for path in _journals(target):
                self.done |= dict(self._read(path))
            self._take_off_what_was_cut_off()
            self._stream = self._path.open("a", encoding="utf-8")
            if self._path.stat().st_size == 0:
                self._append(self._head)
        except OSError as error:
            raise InputError(f"{error.filename}: {error.strerror}; name another place") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()

    def add(self, unit: int, results: Any) -> None:
        """Appends the results of a unit; they are on the disk when this returns."""
        self.done[unit] = results
        self._append(json.dumps([unit, results]))

    def reread(self) -> None:
        """Takes in what other processes have done meanwhile."""
        for path in _journals(self._target):
            self.done |= dict(self._read(path))

    @staticmethod
    def remove_all(target: Path) -> None:
        """Removes the journals of a run, once what it was for is written."""
        for path in _journals(target):
            path.unlink(missing_ok=True)

    def _append(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def _read(self, path: Path) -> Iterator[tuple[int, Any]]:
        lines = path.read_text(encoding="utf-8").split("\n")
        whole = lines[:-1]  # what stands behind the last line break was cut off, or is empty
        if whole and whole[0] != self._head:
            raise InputError(
                f"{path}: results of another run (model, data, settings or OMP_NUM_THREADS "
                "differ); remove it, or name another --out"
            )
        for line in whole[1:]:
            unit, results = json.loads(line)
            yield unit, results

    def _take_off_what_was_cut_off(self) -> None:
        if self._path.exists():
            content = self._path.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                with self._path.open("r+b") as stream:
                    stream.truncate(whole)


def _path(target: Path, process: int) -> Path:
    return target.with_name(f".{target.name}.journal-{process}")


def _journals(target: Path) -> list[Path]:
    beginning = _path(target, 0).name.removesuffix("0")
    return sorted(path for path in target.parent.iterdir() if path.name.startswith(beginning))
