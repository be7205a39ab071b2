"""Where splits come from, and the download, against a real HTTP server that misbehaves on demand."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

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
    read_split,
)
from pragworld_tasks.errors import InputError


def stand_in() -> bytes:
    """A file that the check takes for the released split: as many groups, rows and answers."""
    header = (
        "Local Context,Question,Answer,Perturbation?,Perturbation Category,Perturbation Effect\r\n"
    )
    documents, groups, yes = FILES["synthetic"].counts
    ends = ["FALSE,-,Not applicable"] * groups
    ends += ["TRUE,Negation,Possible"] * (documents - groups)
    golds = ["yes"] * yes + ["no"] * (documents - yes)
    rows = [
        f'"A: I’m here.\r\nB: Hm.",Is A here?,{gold},{end}\r\n'
        for gold, end in zip(golds, ends, strict=True)
    ]
    return (header + "".join(rows)).encode()


CONTENT = stand_in()
CUT = CONTENT[:9000]


class Server(BaseHTTPRequestHandler):
    """Gives one answer after the other, the last of them again and again."""

    url: ClassVar[str]
    answers: ClassVar[list[tuple[int, bytes]]]  # status and content
    requests: ClassVar[list[str]]

    def do_GET(self) -> None:
        status, content = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.requests.append(self.path)
        self.send_response(status)
        self.send_header("Content-Length", str(len(CONTENT if content is CUT else content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[Server]]:
    """A server in place of GitHub, an empty cache, and no time lost between attempts."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        Server.url = f"http://127.0.0.1:{server.server_port}/files"
        Server.answers, Server.requests = [(200, CONTENT)], []
        monkeypatch.setenv("PRAGWORLD_URL", Server.url)
        monkeypatch.setenv("PRAGWORLD_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr("urllib3.util.retry.time.sleep", lambda _: None)
        yield Server
        server.shutdown()


def left_in_cache() -> list[str]:
    return [path.name for path in cache_folder().rglob("*") if path.is_file()]


def test_download_and_then_the_cache(server: type[Server]) -> None:
    server.answers = [(503, b"busy"), (429, b"busy"), (200, CONTENT)]
    assert locate("synthetic") is None
    path = fetch("synthetic")
    assert path.read_bytes() == CONTENT
    assert len(load_split("synthetic")) == 2158
    assert fetch("synthetic") == path
    assert server.requests == ["/files/synthetic_final.csv"] * 3
    assert left_in_cache() == ["synthetic_final.csv"]


@pytest.mark.parametrize(
    ("content", "status", "requests", "expected"),
    [
        (b"no", 404, 1, "404 Client Error"),
        (b"no", 500, 5, "too many 500 error responses"),
        (CUT, 200, 1, "bytes read"),
        (b"<html>Please sign in</html>", 200, 1, "line 1: no column 'context' in"),
        (CONTENT.decode().replace("’", "é").encode("latin-1"), 200, 1, "not UTF-8"),
        (CONTENT.replace(b"here?,yes,", b"here??,no,", 1), 200, 1, r", 1073\) instead of .*, 1074"),
    ],
)
def test_a_failed_download_says_why_and_leaves_nothing(
    server: type[Server], content: bytes, status: int, requests: int, expected: str
) -> None:
    server.answers = [(status, content)]
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
        ({"PRAGWORLD_URL": "http://127.0.0.1:9/nobody"}, "Connection refused.*copy the file"),
        ({"PRAGWORLD_URL": "mirror/of/files"}, "No scheme supplied"),
        ({"PRAGWORLD_CACHE": __file__}, "Not a directory"),
        ({"PRAGWORLD_DATA": "/nowhere"}, "^PRAGWORLD_DATA=/nowhere: no such folder; correct or un"),
    ],
)
def test_a_place_that_cannot_be_used_is_named(
    server: type[Server], monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=expected):
        load_split("synthetic")


def test_what_a_named_folder_lacks_is_looked_for_elsewhere_and_said(
    server: type[Server],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", str(tmp_path))
    assert len(load_split("synthetic")) == 2158
    assert f"PRAGWORLD_DATA={tmp_path} has no synthetic_final.csv" in caplog.text


def test_a_file_that_is_not_the_released_one_is_said(
    sample_data: None, caplog: pytest.LogCaptureFixture
) -> None:
    load_split("manual")
    assert "is not the released file: documents, groups and yes answers: (10, 3, 4)" in caplog.text


def test_released_files_pass_the_check_of_a_download(
    server: type[Server], released: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for split in ("manual", "entity_tracking"):
        content = (released / FILES[split].path).read_bytes()
        server.answers = [(200, content)]
        assert fetch(split).read_bytes() == content


def test_a_dataset_of_the_hub_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = read_split("manual", SAMPLES / FILES["manual"].path)
    path = tmp_path / parquet_path("manual")
    path.parent.mkdir()
    rows = [{**document.to_dict(), "disputed": False} for document in documents]
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    monkeypatch.setenv("PRAGWORLD_DATA", str(tmp_path))
    assert load_split("manual") == documents
