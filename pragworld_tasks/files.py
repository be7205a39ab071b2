"""Reading text and JSON lines with places for messages, and writing whole files."""

import contextlib
import errno
import functools
import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

from pragworld_tasks.errors import InputError

_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_ESCAPED_HALF = re.compile(r"\\ud[89a-f]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a file, for messages: rows count records from 0, lines are an editor's.

    A file that is not text has rows only.
    """

    path: str | Path
    row: int
    line: int | None

    @property
    def short(self) -> str:
        """The place within the file, in words."""
        return f"row {self.row}" if self.line is None else f"line {self.line}"

    def refuse(self, reason: str) -> NoReturn:
        """Raise the `InputError` that names this place and the reason."""
        line = "" if self.line is None else f" (line {self.line})"
        raise InputError(f"{self.path}, row {self.row}{line}: {reason}")


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file with its line breaks unchanged.

    Raises:
        InputError: The file cannot be read, is not UTF-8, or is a web page saved under the name of
            a data file.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, raw.count(b"\n", 0, error.start) + 1) from error
    _refuse_web_page(path, text)
    return text


@functools.cache
def read_package_toml(package: str, name: str) -> Mapping[str, Any]:
    """Return the TOML file of a name that ships with a package, read once."""
    return tomllib.loads((files(package) / name).read_text(encoding="utf-8"))


def read_json(path: str | Path) -> Any:
    """Return the content of a JSON file, with `whole_characters` only.

    Raises:
        InputError: The file cannot be read or is not JSON.
    """
    text = read_text(path)
    try:
        return _parse(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: {_not_json(error, 'is the file cut off?')}") from error


def read_json_lines(path: str | Path) -> Iterator[tuple[Where, dict[str, Any]]]:
    """Yield the objects of a JSON-lines file, each with its place. Blank lines are skipped.

    Lines are read as they are needed, so that the first one of a large file costs little. Strings
    have `whole_characters` only.

    Raises:
        InputError: A line is not a JSON object, or the file holds none.
    """
    row = 0
    for line, text in _lines(Path(path)):
        where = Where(Path(path), row, line)
        try:
            record = _parse(text)
        except (ValueError, RecursionError) as error:
            hint = "is the line cut off?" if row else "each line must be a JSON object"
            where.refuse(_not_json(error, hint))
        if not isinstance(record, dict):
            where.refuse("not a JSON object; each line must be one")
        yield where, record
        row += 1
    if row == 0:
        raise InputError(f"{path}: empty; each line must be a JSON object")


def whole_characters(text: str) -> str:
    r"""Return a text with U+FFFD in place of each half of a character.

    JSON can name half a character (`"\ud800"`), and a model's broken output or a file name can hold
    one, but UTF-8 has no such thing: the text could not be written again.

    Examples:
        >>> whole_characters("no\ud800, no \U0001f642")
        'no�, no 🙂'
    """
    return _HALF_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", text)


def json_object(text: str, option: str) -> dict[str, Any]:
    """Parse the JSON object that was passed to an option.

    Raises:
        InputError: The text is not a JSON object.
    """
    try:
        given = _parse(text)
    except (ValueError, RecursionError) as error:
        reason = _not_json(error, "pass an object such as '{\"groups\": 20}'")
        raise InputError(f"{option} {text!r:.80}: {reason}") from error
    if not isinstance(given, dict):
        raise InputError(f"{option} {text!r:.80}: not a JSON object")
    return given


def check_output(path: Path, overwrite: bool) -> None:
    """Refuse a file that could not be written, before the work whose result it will hold.

    Args:
        path: the file to write later.
        overwrite: whether it may exist.

    Raises:
        InputError: The file exists, or it cannot be written.
    """
    try:
        if _is_stream(path):
            return
        path = path.resolve()
        if path.is_file() and not overwrite:
            raise InputError(f"{path} exists; pass --overwrite, or another name")
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        partial = _partial_of(path)
        if not partial.exists():  # left by a killed run, or being written now
            partial.touch()
            partial.unlink(missing_ok=True)  # processes of one run check at a time
    except OSError as error:
        raise _not_writable(path, error) from error


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON, all of it or nothing.

    Raises:
        InputError: The file cannot be written.
    """
    write_whole(path, json_bytes(content))


def json_bytes(content: Mapping[str, Any]) -> bytes:
    """Return the content of a JSON file."""
    return (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside `path`, then rename it, so that `path` is never incomplete.

    Raises:
        InputError: The file cannot be written.
    """
    if not _is_stream(path):
        path = path.resolve()  # so that a symbolic link stays one
    partial = _partial_of(path)
    try:
        if path.exists() and not path.is_file():  # a stream; a folder raises
            path.write_bytes(content)
        else:
            partial.write_bytes(content)
            partial.replace(path)
    except OSError as error:
        _discard(partial)
        raise _not_writable(path, error) from error


@contextlib.contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn what the system says about a path to be written into an `InputError`."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror or error}); use another name"
        ) from error


def check_new(paths: Iterable[Path], overwrite: bool) -> None:
    """Refuse to replace files, unless told to, and to replace folders at all.

    Raises:
        InputError: A file exists and must not be replaced, or is a folder.
    """
    for path in paths:
        with refusing(path):
            if path.exists() and not overwrite:
                raise InputError(f"{path} exists; pass --overwrite, or another folder")
            if path.is_dir():
                raise InputError(f"{path} is a folder; remove it, or pass another folder")


def write_files(contents: Mapping[Path, bytes], overwrite: bool) -> None:
    """Write several files and the folders that they are in, all of them or none.

    Args:
        contents: contents by path.
        overwrite: whether the files may exist.

    Raises:
        InputError: A file exists, or cannot be written; those that exist are as they were.
    """
    check_new(contents, overwrite)
    with contextlib.ExitStack() as undo:
        staged: dict[Path, Path] = {}
        for name, content in contents.items():
            with refusing(name):
                path = name.resolve()  # so that a symbolic link stays one
                for folder in reversed(path.parents):
                    if not folder.exists():
                        folder.mkdir()
                        undo.callback(folder.rmdir)
                staged[path] = _partial_of(path)
                undo.callback(_discard, staged[path])
                staged[path].write_bytes(content)
        _put_in_place(staged)
        undo.pop_all()


@contextlib.contextmanager
def without_empty_folders(folder: Path) -> Iterator[None]:
    """Remove a folder, and those that it is in, if an error leaves them new and empty."""
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for path in created:
                path.rmdir()
        raise


def write_folder(folder: Path, contents: Mapping[str, bytes], overwrite: bool) -> None:
    """Write a folder, all of it or nothing.

    Args:
        folder: the folder to write.
        contents: the contents of its files, by their paths inside it.
        overwrite: whether the folder may exist and hold older versions of these files.

    Raises:
        InputError: The folder holds files that would be replaced without `overwrite`, or lost with
            it, or cannot be written.
    """
    with refusing(folder):
        present = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    if present and not overwrite:
        raise InputError(f"{folder} exists; pass --overwrite, or another name")
    if foreign := sorted(present - set(contents)):
        raise InputError(
            f"{folder} holds {foreign[0]}, which would be lost; remove it, or pass another name"
        )
    replace_folder(folder, contents)


def replace_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write a folder beside `folder`, then rename it, so that `folder` is never incomplete.

    Args:
        folder: the folder to write. Whatever it holds is lost.
        contents: the contents of its files, by their paths inside it.

    Raises:
        InputError: The folder cannot be written; if it exists, it is as it was.
    """
    folder = folder.resolve()
    partial = _partial_of(folder)
    with refusing(folder):
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        _discard(partial)  # of a run that was killed
        partial.mkdir(parents=True)
        try:
            for name, content in contents.items():
                path = partial / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            _put_in_place({folder: partial})
        finally:
            _discard(partial)


def _is_stream(path: Path) -> bool:
    """Return whether a path is a pipe or a terminal, such as /dev/stdout."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _partial_of(path: Path) -> Path:
    return path.with_name(path.name + ".partial")


def _not_writable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path}: {error.strerror}; choose a file that can be written")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line of a UTF-8 file that is not blank."""
    is_first = True
    try:
        with path.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                try:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise _not_utf8(path, number) from error
                if not text.strip():
                    continue
                if is_first:
                    _refuse_web_page(path, text)
                    is_first = False
                yield number, text
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str | Path, error: OSError) -> InputError:
    remedy = "; name a file in it" if isinstance(error, IsADirectoryError) else ""
    return InputError(f"{path}: {error.strerror}{remedy}")


def _parse(text: str) -> Any:
    """Return what JSON says, with whole characters only.

    `json` joins two escaped halves to the character that they are of. What is left stands alone.

    Raises:
        ValueError: The text is not JSON, or an object has a name twice, of which `json` would keep
            the last.
    """
    content = json.loads(text, object_pairs_hook=_object)
    return _with_whole_characters(content) if _ESCAPED_HALF.search(text) else content


class _RepeatedNameError(ValueError):
    """An object of JSON has a name twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise _RepeatedNameError(f"{repeated!r} is in one object twice; write it once")
    return content


def _not_json(error: ValueError | RecursionError, hint: str) -> str:
    """Return what is wrong with a text that `_parse` refuses, and what to do."""
    return str(error) if isinstance(error, _RepeatedNameError) else f"not JSON ({error}); {hint}"


def _with_whole_characters(content: Any) -> Any:
    if isinstance(content, str):
        return whole_characters(content)
    if isinstance(content, list):
        return [_with_whole_characters(value) for value in content]
    if isinstance(content, dict):
        return {
            whole_characters(name): _with_whole_characters(value) for name, value in content.items()
        }
    return content


def _refuse_web_page(path: str | Path, text: str) -> None:
    if re.match(r"\s*<(!doctype|html|\?xml)", text, re.IGNORECASE):
        raise InputError(f"{path}, line 1: a web page, not a data file; download the raw file")


def _not_utf8(path: str | Path, line: int) -> InputError:
    return InputError(f"{path}, line {line}: not UTF-8; save the file in that encoding")


def _put_in_place(staged: Mapping[Path, Path]) -> None:
    """Rename each file or folder to its place, all of them or none.

    What was in a place waits beside it under another name until all are in theirs. A file is
    copied there, so that a kill never leaves its place empty.

    Args:
        staged: what to rename, by its place.
    """
    replaced = {path: path.with_name(path.name + ".replaced") for path in staged}
    with contextlib.ExitStack() as undo:
        for path, partial in staged.items():
            with refusing(path):
                _discard(replaced[path])  # of a run that was killed
                if path.is_file():
                    undo.callback(_discard, replaced[path])
                    shutil.copy2(path, replaced[path])
                    partial.replace(path)
                    undo.callback(replaced[path].replace, path)
                    continue
                if path.exists():
                    path.rename(replaced[path])
                    undo.callback(replaced[path].rename, path)
                partial.rename(path)
                undo.callback(path.rename, partial)
        undo.pop_all()
    for old in replaced.values():
        _discard(old)


def _discard(path: Path) -> None:
    """Remove a file or a folder, if it is there and can be removed."""
    with contextlib.suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
