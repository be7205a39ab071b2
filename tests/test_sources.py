"""Where splits come from, and the download, against a real HTTP server that misbehaves on demand."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from places import SAMPLES

from pragworld_tasks.data import sources
from pragworld_tasks.data.sources import FILES, cache_folder, fetch, load_split, locate
from pragworld_tasks.errors import InputError

MANUAL = FILES["manual"]
FETCH = (sys.executable, "-m", "pragworld_tasks", "data", "fetch", "manual")


def stand_in() -> bytes:
    """A file that the check takes for the released manual split: as many groups, rows and letters."""
    header = (
        "Local Context,Question,Answer,Perturbation?,Perturbation Target,"
        "Perturbation Category,Perturbation Effect\r\n"
    )
    ends = ["FALSE,None,-,-"] * MANUAL.groups
    ends += ["TRUE,Context,Negation,Flip"] * (MANUAL.documents - MANUAL.groups)
    golds = ["Yes"] * MANUAL.yes + ["No"] * (MANUAL.documents - MANUAL.yes)
    rows = [
        f'"A: I’m here.\r\nB: ",Is A here?,{gold},{end}\r\n'
        for gold, end in zip(golds, ends, strict=True)
    ]
    # As many letters as are missing, spread over the contexts.
    missing = MANUAL.characters - len(header) - sum(map(len, rows))
    each, more = divmod(missing, len(rows))
    filled = [
        row.replace("B: ", "B: " + "m" * (each + (number < more)), 1)
        for number, row in enumerate(rows)
    ]
    return (header + "".join(filled)).encode()


CONTENT = stand_in()
Behaviour = Callable[[BaseHTTPRequestHandler], None]


def send(handler: BaseHTTPRequestHandler, status: int, content: bytes, length: int = -1) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(content) if length < 0 else length))
    handler.end_headers()
    handler.wfile.write(content)


def whole(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 200, CONTENT)


def rest(handler: BaseHTTPRequestHandler) -> None:
    start = int(handler.headers["Range"].removeprefix("bytes=").removesuffix("-"))
    send(handler, 206, CONTENT[start:])


def cut_off(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 200, CONTENT[: len(CONTENT) // 2], length=len(CONTENT))


def garbage(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 200, b"<html><body>Please sign in</body></html>")


def changed(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 200, CONTENT.replace(b"Is A here?", b"Is B here, too?"))


def status(code: int) -> Behaviour:
    return lambda handler: send(handler, code, b"no")


def slowly(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(CONTENT)))
    handler.end_headers()
    for start in range(0, len(CONTENT), 70_000):
        handler.wfile.write(CONTENT[start : start + 70_000])
        handler.wfile.flush()
        threading.Event().wait(0.4)  # not sleep(), which the fixture switches off


class Server:
    """An HTTP server that answers one request after the other as it was told to."""

    def __init__(self) -> None:
        self.behaviours: list[Behaviour] = []
        self.requests: list[tuple[str, str | None]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append((self.path, self.headers["Range"]))
                behaviour = server.behaviours[min(len(server.requests), len(server.behaviours)) - 1]
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it was killed
                    behaviour(self)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}/files"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    """A server in place of GitHub, an empty cache, and no time lost between attempts."""
    server = Server()
    monkeypatch.setenv("PRAGWORLD_URL", server.url)
    monkeypatch.setenv("PRAGWORLD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("pragworld_tasks.data.sources.time.sleep", lambda _: None)
    yield server
    server.http.shutdown()
    server.http.server_close()


def left_in_cache() -> list[str]:
    """The files in the cache, locks aside."""
    files = cache_folder().rglob("*") if cache_folder().exists() else []
    return [path.name for path in files if path.is_file() and path.suffix != ".lock"]


def test_download_and_then_the_cache(server: Server) -> None:
    server.behaviours = [whole]
    assert locate("manual") is None
    path = fetch("manual")
    assert path.read_bytes() == CONTENT
    assert len(load_split("manual")) == 500
    assert fetch("manual") == path
    assert server.requests == [("/files/Manual_Dataset_500_Final.csv", None)]
    assert left_in_cache() == ["Manual_Dataset_500_Final.csv"]


def test_a_download_cut_off_half_way_is_resumed(server: Server) -> None:
    server.behaviours = [cut_off, rest]
    assert fetch("manual").read_bytes() == CONTENT
    (_, first), (_, second) = server.requests
    assert first is None
    # All that was received, but for the last piece (64 KiB at most).
    start = int(str(second).removeprefix("bytes=").removesuffix("-"))
    assert len(CONTENT) // 2 - 65_536 <= start <= len(CONTENT) // 2


def test_a_download_starts_over_where_the_server_cannot_resume(server: Server) -> None:
    server.behaviours = [cut_off, whole]
    assert fetch("manual").read_bytes() == CONTENT


def test_a_download_starts_over_where_what_is_there_does_not_fit(server: Server) -> None:
    partial = cache_folder() / "Manual_Dataset_500_Final.csv.partial"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"x" * 1000)
    server.behaviours = [rest, whole]
    assert fetch("manual").read_bytes() == CONTENT


def test_errors_of_the_server_are_tried_again(server: Server) -> None:
    server.behaviours = [status(500), status(503), whole]
    assert fetch("manual").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("behaviour", "requests", "expected"),
    [
        (status(404), 1, "the server answered 404"),
        (status(500), sources.ATTEMPTS, "the server answered 500"),
        (garbage, 1, "a web page, not a data file"),
        (changed, 1, "characters instead of 375830"),
        (cut_off, sources.ATTEMPTS, "the connection failed"),
    ],
)
def test_a_failed_download_says_why_and_leaves_nothing(
    server: Server, behaviour: Behaviour, requests: int, expected: str
) -> None:
    server.behaviours = [behaviour]
    with pytest.raises(InputError, match=expected) as failure:
        fetch("manual")
    assert "set PRAGWORLD_DATA to a clone of" in str(failure.value)
    assert len(server.requests) == requests
    assert left_in_cache() == []


def test_two_processes_download_once(server: Server) -> None:
    server.behaviours = [slowly]
    processes = [subprocess.Popen(FETCH, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert outputs[0] == outputs[1] == f"manual: {cache_folder() / MANUAL.path}\n"
    assert len(server.requests) == 1


def test_a_killed_download_is_resumed(server: Server) -> None:
    server.behaviours = [slowly, rest]
    process = subprocess.Popen(FETCH)
    partial = cache_folder() / "Manual_Dataset_500_Final.csv.partial"
    for _ in range(200):
        if partial.exists() and partial.stat().st_size:
            break
        threading.Event().wait(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert fetch("manual").read_bytes() == CONTENT
    assert str(server.requests[1][1]).startswith("bytes=")
    assert left_in_cache() == ["Manual_Dataset_500_Final.csv"]


def test_without_network_the_message_says_what_to_do(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    environment = {
        **os.environ,
        "PRAGWORLD_URL": "http://127.0.0.1:9/nobody-listens",
        "PRAGWORLD_CACHE": str(cache),
    }
    process = subprocess.run(FETCH, capture_output=True, text=True, env=environment)
    assert process.returncode == 2
    assert "Traceback" not in process.stderr
    *retries, message = process.stderr.splitlines()
    assert len(retries) == sources.ATTEMPTS - 1
    assert "split 'manual' is not on this machine" in message
    assert "Connection refused" in message
    assert "set PRAGWORLD_DATA to a clone of https://github.com/SachinVashisth/PRAGWORLD" in message
    assert f"copy the file to {cache}" in message
    assert "run `pragworld-tasks data fetch manual`" in message


def test_a_named_folder_comes_first(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", str(SAMPLES))
    assert len(load_split("manual")) == 10
    assert server.requests == []


def test_what_a_named_folder_lacks_is_looked_for_elsewhere_and_said(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", str(tmp_path))
    server.behaviours = [whole]
    assert len(load_split("manual")) == 500
    assert f"PRAGWORLD_DATA={tmp_path} has no Manual_Dataset_500_Final.csv" in caplog.text


def test_a_named_folder_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", "/nowhere/at/all")
    with pytest.raises(InputError, match="PRAGWORLD_DATA=/nowhere/at/all: no such folder"):
        load_split("manual")


def test_a_cache_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PRAGWORLD_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match="set PRAGWORLD_CACHE to another folder"):
        fetch("manual")


def test_a_full_disk_is_named_and_leaves_nothing(server: Server) -> None:
    server.behaviours = [whole]
    limited = ["bash", "-c", 'ulimit -f 100; trap "" XFSZ; exec "$@"', "bash", *FETCH]
    process = subprocess.run(limited, capture_output=True, text=True)
    assert process.returncode == 2
    assert "Traceback" not in process.stderr
    assert process.stderr.endswith("File too large; set PRAGWORLD_CACHE to another folder\n")
    assert left_in_cache() == []


def test_an_address_that_is_none_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PRAGWORLD_CACHE", str(tmp_path))
    monkeypatch.setenv("PRAGWORLD_URL", "mirror/of/files")
    with pytest.raises(InputError, match="No scheme supplied"):
        fetch("manual")


def test_a_file_that_is_not_the_released_one_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", str(SAMPLES))
    load_split("manual")
    assert (
        "is not the released file: 10 documents instead of 500; 3 groups instead of 88; "
        "4 answers yes instead of 277"
    ) in caplog.text


def test_released_files_pass_the_check_of_a_download(
    server: Server, released: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send_released(handler: BaseHTTPRequestHandler) -> None:
        send(handler, 200, (released / handler.path.removeprefix("/files/")).read_bytes())

    server.behaviours = [send_released]
    for split in ("manual", "entity_tracking"):
        assert fetch(split).read_bytes() == (released / FILES[split].path).read_bytes()
