"""Where splits come from, and the download, against a real HTTP server that misbehaves on demand."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow
import pytest
from places import SAMPLES
from pyarrow import parquet

from pragworld_tasks.data.sources import (
    FILES,
    cache_folder,
    fetch,
    load_split,
    locate,
    parquet_path,
)
from pragworld_tasks.errors import InputError

# Its file has never been seen whole here, so that a stand-in passes for it.
SYNTHETIC = FILES["synthetic"]


def stand_in() -> bytes:
    """A file that the check takes for the released split: as many groups, rows and answers."""
    header = (
        "Local Context,Question,Answer,Perturbation?,Perturbation Category,Perturbation Effect\r\n"
    )
    ends = ["FALSE,-,Not applicable"] * SYNTHETIC.groups
    ends += ["TRUE,Negation,Possible"] * (SYNTHETIC.documents - SYNTHETIC.groups)
    golds = ["yes"] * SYNTHETIC.yes + ["no"] * (SYNTHETIC.documents - SYNTHETIC.yes)
    rows = [
        f'"A: I’m here.\r\nB: Hm.",Is A here?,{gold},{end}\r\n'
        for gold, end in zip(golds, ends, strict=True)
    ]
    return (header + "".join(rows)).encode()


CONTENT = stand_in()
Behaviour = Callable[[BaseHTTPRequestHandler], None]


def send(content: bytes, status: int = 200, length: int | None = None) -> Behaviour:
    def behaviour(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(length or len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return behaviour


class Server:
    """An HTTP server that answers one request after the other as it was told to."""

    def __init__(self) -> None:
        self.behaviours: list[Behaviour] = []
        self.requests: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append(self.path)
                server.behaviours[min(len(server.requests), len(server.behaviours)) - 1](self)

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
    monkeypatch.setattr("urllib3.util.retry.time.sleep", lambda _: None)
    yield server
    server.http.shutdown()
    server.http.server_close()


def left_in_cache() -> list[str]:
    return [path.name for path in cache_folder().rglob("*") if path.is_file()]


def test_download_and_then_the_cache(server: Server) -> None:
    server.behaviours = [send(b"busy", 503), send(b"busy", 429), send(CONTENT)]
    assert locate("synthetic") is None
    path = fetch("synthetic")
    assert path.read_bytes() == CONTENT
    assert len(load_split("synthetic")) == 2158
    assert fetch("synthetic") == path
    assert server.requests == ["/files/synthetic_final.csv"] * 3
    assert left_in_cache() == ["synthetic_final.csv"]


@pytest.mark.parametrize(
    ("behaviour", "requests", "expected"),
    [
        (send(b"no", 404), 1, "404 Client Error"),
        (send(b"no", 500), 5, "too many 500 error responses"),
        (send(CONTENT[:9000], length=len(CONTENT)), 1, "bytes read"),
        (send(b"<html>Please sign in</html>"), 1, "line 1: no column 'Local Context' in"),
        (send(CONTENT.decode().replace("’", "é").encode("latin-1")), 1, "not UTF-8"),
        (send(CONTENT.replace(b"FALSE", b"PERHA")), 1, "unknown flag 'PERHA'"),
        (
            send(CONTENT.replace(b"here?,yes,", b"here??,no,", 1)),
            1,
            "not the released file: documents, groups and yes answers: 2,158, 494 and 1,073 inst",
        ),
    ],
)
def test_a_failed_download_says_why_and_leaves_nothing(
    server: Server, behaviour: Behaviour, requests: int, expected: str
) -> None:
    server.behaviours = [behaviour]
    with pytest.raises(InputError, match=expected) as failure:
        fetch("synthetic")
    message = str(failure.value)
    assert message.startswith("split 'synthetic' is not on this machine and could not be download")
    assert f" {server.url}/synthetic_final.csv: " in message
    assert "\n" not in message
    assert len(server.requests) == requests
    assert left_in_cache() == []


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (
            {"PRAGWORLD_URL": "http://127.0.0.1:9/nobody-listens"},
            "Connection refused.*copy the file",
        ),
        ({"PRAGWORLD_URL": "mirror/of/files"}, "No scheme supplied"),
        ({"PRAGWORLD_CACHE": __file__}, "Not a directory"),
        ({"PRAGWORLD_DATA": "/nowhere"}, "^PRAGWORLD_DATA=/nowhere: no such folder; correct or un"),
    ],
)
def test_a_place_that_cannot_be_used_is_named(
    server: Server, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    server.behaviours = [send(CONTENT)]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=expected):
        load_split("synthetic")


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
    server.behaviours = [send(CONTENT)]
    assert len(load_split("synthetic")) == 2158
    assert f"PRAGWORLD_DATA={tmp_path} has no synthetic_final.csv" in caplog.text


def test_a_file_that_is_not_the_released_one_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", str(SAMPLES))
    load_split("manual")
    assert (
        "is not the released file: documents, groups and yes answers: 10, 3 and 4 instead of "
        "500, 88 and 277"
    ) in caplog.text


def test_released_files_pass_the_check_of_a_download(
    server: Server, released: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for split in ("manual", "entity_tracking"):
        content = (released / FILES[split].path).read_bytes()
        server.behaviours = [send(content)]
        assert fetch(split).read_bytes() == content


def test_a_dataset_of_the_hub_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = FILES["manual"].read(SAMPLES / FILES["manual"].path)
    path = tmp_path / parquet_path("manual")
    path.parent.mkdir()
    rows = [{**asdict(document), "disputed": False} for document in documents]
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    monkeypatch.setenv("PRAGWORLD_DATA", str(tmp_path))
    assert load_split("manual") == documents
