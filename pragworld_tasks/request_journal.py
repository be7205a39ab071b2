"""Requests to a model and their answers in a file, so that none is asked, or paid for, twice.

A journal is a JSON-lines file. Its first line holds the settings of the run; each other line a
request that was answered. A line is handed to the system as soon as it is there, so a killed
process loses only what was under way; a last line that was cut off is taken off.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from filelock import FileLock, Timeout

from pragworld_tasks.errors import InputError

_HEAD = b'{"settings": '


@dataclass(frozen=True)
class Request:
    """One message to a model.

    Attributes:
        label: for people who read a journal, as `translation 17 to Polish`.
        model: its name at the endpoint.
        system: what it is told to be.
        user: the message.
        temperature: at which it answers.
        draw: tells apart requests that say the same and are to be answered separately.
    """

    label: str
    model: str
    system: str
    user: str
    temperature: float
    draw: int = 0

    @property
    def key(self) -> str:
        """What makes it the same request: all but the label, as a digest."""
        said = [self.model, self.system, self.user, self.temperature, self.draw]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()


@dataclass(frozen=True)
class Answer:
    """What came back.

    Attributes:
        text: of the answer.
        tokens: of the prompt and of the answer; None where the server did not count them.
    """

    text: str
    tokens: tuple[int, int] | None = None


class Journal:
    """The requests of a run that were answered.

    Attributes:
        answers: by the key of the request.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        """Opens a journal, and reads what was answered already.

        Args:
            path: of the file; None keeps the answers in memory only.
            settings: what the answers depend on, as JSON has it. Answers under others are refused.

        Raises:
            InputError: the file cannot be written, is no journal, has other settings, or another
                process has it open.
        """
        self.answers: dict[str, Answer] = {}
        self._path = path
        if path is None:
            return
        self._lock = FileLock(path.with_name(path.name + ".lock"))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = path.open("a", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}; name another place") from error
        try:
            self._lock.acquire(blocking=False)
        except Timeout as error:
            self._stream.close()
            raise InputError(f"{path}: another process is writing it; wait for its end") from error
        try:
            whole = self._read(path, settings)
            os.truncate(path, whole)
            if not whole:
                self._append({"settings": dict(settings)})
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; others may write it then."""
        if self._path is not None:
            with contextlib.suppress(OSError):  # a full disk was reported when it was written to
                self._stream.close()
            with contextlib.suppress(OSError):
                Path(self._lock.lock_file).unlink()  # while we hold it, so that nobody else does
            self._lock.release()

    def add(self, request: Request, answer: Answer) -> None:
        """Adds a request that was answered; it outlives the process when this returns.

        Raises:
            OSError: the disk is full.
        """
        self.answers[request.key] = answer
        if self._path is not None:
            self._append(
                {
                    "key": request.key,
                    "request": request.label,
                    "answer": answer.text,
                    "tokens": answer.tokens,
                }
            )

    def _append(self, record: Mapping[str, Any]) -> None:
        self._stream.write(json.dumps(record, ensure_ascii=False) + "\n")
        self._stream.flush()

    def _read(self, path: Path, settings: Mapping[str, Any]) -> int:
        """Reads the whole lines, and says how many bytes they are; 0 where nothing was answered."""
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        try:
            if content[: len(_HEAD)] != _HEAD[: len(content)]:
                raise ValueError("no journal")
            records = [json.loads(line) for line in content[:whole].splitlines()]
            for record in records[1:]:
                tokens = record["tokens"] and tuple(record["tokens"])
                self.answers[record["key"]] = Answer(record["answer"], tokens)
            difference = _difference(records[0]["settings"], settings) if self.answers else None
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path}: no journal, or a damaged one; remove it, or name another place"
            ) from error
        if difference:
            raise InputError(
                f"{path}: made with {difference}; give that, name another place, or remove the file"
            )
        return whole if self.answers else 0


def _difference(was: Mapping[str, Any], given: Mapping[str, Any]) -> str | None:
    """The first setting that differs, in words."""
    for name in [*given, *was]:
        if was.get(name) != given.get(name):
            return f"{name} {was.get(name)!r:.60}, not {given.get(name)!r:.60}"
    return None
