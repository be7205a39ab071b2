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

# Its file has never been seen whole here, so that a stand-in passes for it.
SYNTHETIC = FILES["synthetic"]
FETCH = (sys.executable, "-m", "pragworld_tasks", "data", "fetch", "synthetic")


def stand_in() -> bytes:
    """A file that the check takes for the released split: as many groups, rows and letters."""
    header = (
        "Local Context,Question,Answer,Perturbation?,Perturbation Category,Perturbation Effect\r\n"
    )
    ends = ["FALSE,-,Not applicable"] * SYNTHETIC.groups
    ends += ["TRUE,Negation,Possible"] * (SYNTHETIC.documents - SYNTHETIC.groups)
    golds = ["yes"] * SYNTHETIC.yes + ["no"] * (SYNTHETIC.documents - SYNTHETIC.yes)
    rows = [
        f'"A: I’m here.\r\nB: ",Is A here?,{gold},{end}\r\n'
        for gold, end in zip(golds, ends, strict=True)
    ]
    # As many letters as are missing, spread over the contexts.
    missing = SYNTHETIC.characters - len(header) - sum(map(len, rows))
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


def web_page(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 200, b"<html><body>Please sign in</body></html>")


def garbage(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 200, bytes(range(128, 256)) * 1000)


def other_encoding(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 200, CONTENT.decode().replace("’", "é").encode("latin-1"))


def other_rows(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 200, CONTENT.replace(b"FALSE", b"PERHA"))


def other_answer(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 200, CONTENT.replace(b"here?,yes,", b"here??,no,", 1))


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:  # until the client closes the connection
        handler.wfile.write(bytes(65_536))


def of_a_terabyte(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(10**12))
    handler.end_headers()
    while True:
        handler.wfile.write(bytes(65_536))


def changed(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 200, CONTENT.replace(b"Is A here?", b"Is B here, too?"))


def status(code: int) -> Behaviour:
    return lambda handler: send(handler, code, b"no")


def slowly(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(CONTENT)))
    handler.end_headers()
    for start in range(0, len(CONTENT), len(CONTENT) // 5):
        handler.wfile.write(CONTENT[start : start + len(CONTENT) // 5])
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
    assert locate("synthetic") is None
    path = fetch("synthetic")
    assert path.read_bytes() == CONTENT
    assert len(load_split("synthetic")) == 2158
    assert fetch("synthetic") == path
    assert server.requests == [("/files/synthetic_final.csv", None)]
    assert left_in_cache() == ["synthetic_final.csv"]


def test_a_download_cut_off_half_way_is_resumed(server: Server) -> None:
    server.behaviours = [cut_off, rest]
    assert fetch("synthetic").read_bytes() == CONTENT
    (_, first), (_, second) = server.requests
    assert first is None
    # All that was received, but for the last piece (64 KiB at most).
    start = int(str(second).removeprefix("bytes=").removesuffix("-"))
    assert len(CONTENT) // 2 - 65_536 <= start <= len(CONTENT) // 2


def test_a_download_starts_over_where_the_server_cannot_resume(server: Server) -> None:
    server.behaviours = [cut_off, whole]
    assert fetch("synthetic").read_bytes() == CONTENT


def test_a_download_starts_over_where_what_is_there_does_not_fit(server: Server) -> None:
    partial = cache_folder() / "synthetic_final.csv.partial"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"x" * 1000)
    server.behaviours = [rest, whole]
    assert fetch("synthetic").read_bytes() == CONTENT


def test_errors_of_the_server_are_tried_again(server: Server) -> None:
    server.behaviours = [status(500), status(503), whole]
    assert fetch("synthetic").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("behaviour", "requests", "expected"),
    [
        (status(404), 1, "the server answered 404"),
        (status(500), sources.ATTEMPTS, "the server answered 500"),
        (web_page, 1, "not the released file: it looks like a web page"),
        (garbage, 1, "not the released file: it is not text in UTF-8"),
        (other_encoding, 1, "not the released file: it is not text in UTF-8"),
        (other_rows, 1, "not the released file: its rows cannot be read"),
        (other_answer, 1, "not the released file: 1,073 yes answers instead of 1,074"),
        (changed, 1, "not the released file: it has .* characters instead of 2804889"),
        (endless, 1, "not the released file: it has more than 5609778 bytes"),
        (of_a_terabyte, 1, "not the released file: it has more than 5609778 bytes"),
        (cut_off, sources.ATTEMPTS, "the connection failed"),
    ],
)
def test_a_failed_download_says_why_and_leaves_nothing(
    server: Server, behaviour: Behaviour, requests: int, expected: str
) -> None:
    server.behaviours = [behaviour]
    with pytest.raises(InputError, match=expected) as failure:
        fetch("synthetic")
    message = str(failure.value)
    assert f"correct or unset PRAGWORLD_URL={server.url}; set PRAGWORLD_DATA to a clone" in message
    assert "encoding" not in message
    assert ".partial" not in message
    assert "\n" not in message
    assert len(server.requests) == requests
    assert left_in_cache() == []


def test_no_more_is_written_than_twice_the_file(server: Server) -> None:
    server.behaviours = [endless]
    blocks = 2 * SYNTHETIC.characters // 1024 + 1  # of a disk that has no room for more
    limited = ["bash", "-c", f'ulimit -f {blocks}; trap "" XFSZ; exec "$@"', "bash", *FETCH]
    process = subprocess.run(limited, capture_output=True, text=True)
    assert process.returncode == 2
    assert "it has more than 5609778 bytes" in process.stderr
    assert process.stderr.count("\n") == 1


def test_what_is_added_to_a_part_counts_too(server: Server) -> None:
    """A server that resumes without end, and another copy of it."""

    def endless_rest(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(206)
        handler.end_headers()
        while True:
            handler.wfile.write(bytes(65_536))

    partial = cache_folder() / "synthetic_final.csv.partial"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(CONTENT)
    server.behaviours = [endless_rest, whole]
    assert fetch("synthetic").read_bytes() == CONTENT


def test_without_a_mirror_none_is_named(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.delenv("PRAGWORLD_URL")
    monkeypatch.setattr("pragworld_tasks.data.sources._GITHUB", server.url)
    server.behaviours = [status(404)]
    with pytest.raises(InputError, match="Do one of these: set PRAGWORLD_DATA") as failure:
        fetch("synthetic")
    assert "PRAGWORLD_URL" not in str(failure.value)


def test_two_processes_download_once(server: Server) -> None:
    server.behaviours = [slowly]
    processes = [subprocess.Popen(FETCH, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert outputs[0] == outputs[1] == f"synthetic: {cache_folder() / SYNTHETIC.path}\n"
    assert len(server.requests) == 1


def test_a_killed_download_is_resumed(server: Server) -> None:
    server.behaviours = [slowly, rest]
    process = subprocess.Popen(FETCH)
    partial = cache_folder() / "synthetic_final.csv.partial"
    for _ in range(200):
        if partial.exists() and partial.stat().st_size:
            break
        threading.Event().wait(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert fetch("synthetic").read_bytes() == CONTENT
    assert str(server.requests[1][1]).startswith("bytes=")
    assert left_in_cache() == ["synthetic_final.csv"]


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
    assert "split 'synthetic' is not on this machine" in message
    assert "Connection refused" in message
    assert "set PRAGWORLD_DATA to a clone of https://github.com/SachinVashisth/PRAGWORLD" in message
    assert f"copy the file to {cache}" in message
    assert "run `pragworld-tasks data fetch synthetic`" in message


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
    assert len(load_split("synthetic")) == 2158
    assert f"PRAGWORLD_DATA={tmp_path} has no synthetic_final.csv" in caplog.text


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
        fetch("synthetic")


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
        fetch("synthetic")


def test_a_file_that_is_not_the_released_one_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", str(SAMPLES))
    load_split("manual")
    assert (
        "is not the released file: 10 documents instead of 500; 3 groups instead of 88; "
        "4 yes answers instead of 277"
    ) in caplog.text


def test_released_files_pass_the_check_of_a_download(
    server: Server, released: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send_released(handler: BaseHTTPRequestHandler) -> None:
        send(handler, 200, (released / handler.path.removeprefix("/files/")).read_bytes())

    server.behaviours = [send_released]
    for split in ("manual", "entity_tracking"):
        assert fetch(split).read_bytes() == (released / FILES[split].path).read_bytes()
