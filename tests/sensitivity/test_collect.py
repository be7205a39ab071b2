"""`pragworld-tasks collect`: lm-eval in chunks, killed, resumed and topped up."""

import gc
import json
import math
import re
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import requests
from command_runs import Program, refused, run_program
from servers import serve
from warm_client import KILLED

from pragworld_tasks.cli import main
from pragworld_tasks.errors import InputError
from pragworld_tasks.quantities import read_quantity
from pragworld_tasks.sensitivity.collection import (
    CollectionSettings,
    _in_complete_chunks,
    collect,
)
from pragworld_tasks.sensitivity.paraphrases import shipped_paraphrases
from pragworld_tasks.tiny import tiny_folder

TASK = "world_model_travel_commute"


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of two paraphrases, which make six prompts."""
    path = tmp_path_factory.mktemp("few") / "few.jsonl"
    wordings = [wording.text for wording in shipped_paraphrases("travel_commute")[:2]]
    path.write_text("".join(json.dumps({"text": wording}) + "\n" for wording in wordings))
    return path


def with_small_model(few: Path, output: Path, *more: str) -> tuple[str, ...]:
    return (
        *("collect", "--tasks", TASK, "--output_path", str(output), "--chunk", "1"),
        *("--model", "hf", "--model_args", f"pretrained={tiny_folder()}", "--batch_size", "25"),
        *("--gen_kwargs", "max_gen_toks=6", "--metadata", json.dumps({"paraphrases": str(few)})),
        *more,
    )


def over_http(server: str, few: Path, output: Path, *more: str) -> tuple[str, ...]:
    address = f"model=known,base_url={server}/v1/chat/completions,num_concurrent=4,auth_token=key"
    return (
        *("collect", "--tasks", TASK, "--output_path", str(output), "--chunk", "3"),
        *("--model", "local-chat-completions", "--model_args", address, "--apply_chat_template"),
        *("--metadata", json.dumps({"paraphrases": str(few)}), *more),
    )


def samples(output: Path) -> list[dict[str, Any]]:
    (path,) = output.rglob(f"samples_{TASK}.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def whole(few: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an undisturbed run of the small model."""
    folder = tmp_path_factory.mktemp("whole")
    process = run_program("pragworld-tasks", *with_small_model(few, folder))
    assert process.returncode == 0, process.stderr
    assert [sample["doc_id"] for sample in samples(folder)] == list(range(6))
    return folder


def test_a_killed_run_resumes_with_the_same_responses(
    few: Path, whole: Path, tmp_path: Path
) -> None:
    killed = tmp_path / "killed"
    program = Program("pragworld-tasks", *with_small_model(few, killed), log=tmp_path / "log")
    while program.runs():
        time.sleep(0.02)
        if list(killed.rglob("samples_*")) and len(samples(killed)) >= 2:
            break
    assert program.stop(signal.SIGKILL) == KILLED, (tmp_path / "log").read_text()
    before = samples(killed)
    assert 2 <= len(before) < 6
    (path,) = killed.rglob("samples_*")
    with path.open("a") as stream:  # what a kill in the middle of writing leaves
        stream.write(json.dumps({**before[0], "doc_id": 5, "chunk": "0: 5,6"}) + '\n{"doc_id"')
    process = run_program("pragworld-tasks", *with_small_model(few, killed))
    assert process.returncode == 0, process.stderr
    assert samples(killed)[: len(before)] == before
    assert samples(killed) == samples(whole)
    texts = [response for sample in samples(whole) for response in sample["resps"][0]]
    assert len(texts) == 6 * 50
    assert len(set(texts)) > 100


def test_merged_shards_are_one_run_byte_for_byte_although_one_was_killed(
    few: Path, whole: Path, tmp_path: Path
) -> None:
    divided, merged = with_small_model(few, tmp_path / "divided", "--shard"), tmp_path / "merged"
    program = Program("pragworld-tasks", *divided, "2/2", log=tmp_path / "log")
    while program.runs() and not any(path.stat().st_size for path in tmp_path.rglob("samples_*")):
        time.sleep(0.01)
    assert program.stop(signal.SIGKILL) == KILLED, (tmp_path / "log").read_text()
    second = next(tmp_path.rglob("shard-2-of-2"))
    first = second.with_name("shard-1-of-2")
    merge = ["merge", str(second), str(first), "--out", str(merged)]
    process = run_program("pragworld-tasks", *divided, "1/2")
    assert process.returncode == 0, process.stderr
    with refused("shard-2-of-2/samples_.*: shard 2/2 has [12] of its 3 chunks; rerun its command"):
        main(merge)
    process = run_program("pragworld-tasks", *divided, "2/2")
    assert process.returncode == 0, process.stderr
    with refused("shard 2/2 of the run that .*shard-1-of-2 is of: missing"):
        main(["merge", str(first), "--out", str(merged)])
    with refused("collect.json: not of a shard; give folders that"):
        main(["merge", str(first), str(next(whole.rglob("collect.json")).parent), *merge[-2:]])
    main(merge)
    (original,) = (path.parent for path in whole.rglob("collect.json"))
    names = {f"samples_{TASK}.jsonl", "collect.json"}
    assert {path.name for path in original.iterdir()} == names
    for name in names:
        assert (merged / name).read_bytes() == (original / name).read_bytes()


def test_a_rerun_repeats_no_prompt_and_tops_up_those_that_lack_readable_responses(
    few: Path, tmp_path: Path
) -> None:
    with serve("answer_server.py", "--readable", "0.6") as server:

        def asked() -> int:
            requests_: int = requests.get(server, timeout=5).json()["requests"]
            return requests_

        arguments = over_http(server, few, tmp_path)
        for _ in range(2):
            process = run_program("pragworld-tasks", *arguments)
            assert process.returncode == 0, process.stderr
            assert asked() == 6 * 50
        assert len(samples(tmp_path)) == 6
        assert "auth_token" not in next(tmp_path.rglob("collect.json")).read_text()

        (file,) = tmp_path.rglob("samples_*.jsonl")
        content = file.read_text()
        file.write_text(content + content.splitlines(keepends=True)[0])
        main([*arguments])
        assert asked() == 6 * 50
        assert file.read_text() == content

        process = run_program("pragworld-tasks", *arguments, "--top_up", "9")
        assert process.returncode == 0, process.stderr
        assert "still have fewer" not in process.stdout
        assert 6 * 50 * 1.4 < asked() < 6 * 50 * 2.5
        assert max(sample["round"] for sample in samples(tmp_path)) > 1
        assert asked() == sum(len(sample["resps"][0]) for sample in samples(tmp_path))

        with refused("collected with seed 1234, not 5"):
            main([*arguments, "--seed", "5"])
        cooler = f"tasks.{TASK}.generation_kwargs.temperature 1.0, not 0.5"
        with refused(f"collected with chunk 3, not 4, and {cooler}; use that again"):
            main([*arguments, "--chunk", "4", "--gen_kwargs", "temperature=0.5"])
        other = tmp_path / "other.jsonl"
        other.write_text(few.read_text().replace("{distance_km} ", "about {distance_km} "))
        with refused(f"collected with tasks.{TASK}.documents"):
            main([*over_http(server, other, tmp_path)])
        with refused(f"collected with tasks.{TASK}.generation_kwargs.temperature 1.0, not 0.5"):
            main([*arguments, "--gen_kwargs", "temperature=0.5"])
        recorded = next(tmp_path.rglob("collect.json"))
        kept = recorded.rename(tmp_path / "kept.json")
        with refused(f"collect.json: missing, beside samples_{TASK}.jsonl; restore it, or choose"):
            main([*arguments])
        kept.rename(recorded)

    readable: Counter[int] = Counter()
    for sample in samples(tmp_path):
        for response in sample["resps"][0]:
            value = read_quantity(response, "minute", sample["doc"]["prompt"])
            readable[sample["doc_id"]] += value is not None
    assert all(readable[prompt] >= 50 for prompt in range(6))
    (path,) = tmp_path.rglob("samples_*")
    assert path.parent.name == "known"
    main(["decompose", str(path), "--json", str(tmp_path / "found.json"), "--draws", "20"])
    (found,) = json.loads((tmp_path / "found.json").read_text())["tasks"]
    assert found["responses"] == sum(len(sample["resps"][0]) for sample in samples(tmp_path))
    assert found["prompts"] == 6


@pytest.mark.usefixtures("our_tasks_only")
def test_a_server_that_refuses_is_quoted_once(
    few: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    with (
        serve("chat_server.py", "--log", str(tmp_path / "log"), "--forbid") as server,
        refused(f"{TASK}: lm_eval failed with ClientResponseError .403, message='Forbidden', url="),
    ):
        arguments = over_http(server.removesuffix("/v1"), few, tmp_path / "runs")
        main([*arguments, "--system_instruction", "Be brief."])
    gc.collect()  # at the latest now, asyncio logs errors that nobody awaited
    for once in (" may not.", "Exception:ClientResponseError"):
        assert caplog.text.count(once) == 1
    assert "Bearer …" in caplog.text
    assert "Bearer sk-1" not in caplog.text
    assert "never retrieved" not in caplog.text


def write_shards(folder: Path) -> list[Path]:
    """Write the two shards of a run of six documents in chunks of two, as `collect` does."""
    shards = []
    for number, chunks in ((1, [(0, 1), (4, 5)]), (2, [(2, 3)])):
        shard = folder / f"shard-{number}-of-2"
        shard.mkdir()
        settings = {
            "chunk": 2,
            "shard": {"number": number, "count": 2},
            "tasks": {TASK: {"prompts": 6, "repeats": 1}},
        }
        (shard / "collect.json").write_text(json.dumps(settings))
        lines = [
            json.dumps({"doc_id": document, "chunk": f"0: {','.join(map(str, chunk))}"}) + "\n"
            for chunk in chunks
            for document in chunk
        ]
        (shard / f"samples_{TASK}.jsonl").write_text("".join(lines))
        shards.append(shard)
    return shards


@pytest.mark.parametrize(
    ("document", "chunk", "message"),
    [
        (0, "0: 0,1", "line 2: document 0 occurs twice; rerun the command of shard 1/2, which"),
        (4, "0: 0,1", "line 2: document 4 is not of the chunk '0: 0,1'; rerun the command of"),
        (2, "0: 2,3", "line 2: not a response of shard 1/2; remove the line and rerun the shard"),
    ],
)
def test_a_line_twice_or_of_another_document_stands_for_none_that_is_missing(
    document: int, chunk: str, message: str, tmp_path: Path
) -> None:
    shards = write_shards(tmp_path)
    merge = ["merge", *map(str, shards), "--out", str(tmp_path / "merged")]
    path = shards[0] / f"samples_{TASK}.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    lines[1] = json.dumps({"doc_id": document, "chunk": chunk}) + "\n"
    path.write_text("".join(lines))
    with refused(re.escape(message)):
        main(merge)
    assert not (tmp_path / "merged").exists()


def test_a_rerun_removes_lines_of_other_documents_and_redoes_what_lacks_one() -> None:
    lines = [("0: 0,1", 0), ("0: 0,1", 4), ("0: 2", 2), ("0: 2", 2), ("0: 2", 7)]
    assert _in_complete_chunks(lines) == [False, False, True, False, False]


@pytest.mark.parametrize("tasks", [[], {TASK: {}}, {TASK: {"prompts": 6, "repeats": "all"}}])
def test_shards_with_corrupt_settings_are_not_merged(tasks: object, tmp_path: Path) -> None:
    settings = {"shard": {"number": 1, "count": 1}, "tasks": tasks}
    (tmp_path / "collect.json").write_text(json.dumps(settings))
    with refused("collect.json: not settings as `pragworld-tasks collect` writes them; restore"):
        main(["merge", str(tmp_path), "--out", str(tmp_path / "merged")])


def test_a_shard_is_not_replaced_by_the_whole_run(tmp_path: Path) -> None:
    shards = write_shards(tmp_path)
    before = [path.read_bytes() for shard in shards for path in sorted(shard.iterdir())]
    for out in (shards[0], tmp_path / "." / "shard-2-of-2"):
        with refused(f"^{out}: holds one of the shards; choose another --out$"):
            main(["merge", *map(str, shards), "--out", str(out), "--overwrite"])
    assert [path.read_bytes() for shard in shards for path in sorted(shard.iterdir())] == before


@pytest.mark.parametrize("change", [{"prompts": 0}, {"prompts": -1}])
def test_shards_of_no_prompts_are_not_merged(change: dict[str, int], tmp_path: Path) -> None:
    shards = write_shards(tmp_path)
    for shard in shards:
        settings = json.loads((shard / "collect.json").read_text())
        settings["tasks"][TASK] |= change
        (shard / "collect.json").write_text(json.dumps(settings))
        (shard / f"samples_{TASK}.jsonl").unlink()
    with refused("collect.json: not settings as `pragworld-tasks collect` writes them; restore"):
        main(["merge", *map(str, shards), "--out", str(tmp_path / "merged")])


@pytest.mark.usefixtures("our_tasks_only")
def test_a_chunk_does_not_warn_of_the_groups_that_it_cuts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    metadata = json.dumps({"groups": 1})
    task = ("--tasks", "pragworld_generated", "--metadata", metadata, "--chunk", "2")
    main(["collect", "--model", "dummy", *task, "--output_path", str(tmp_path)])
    (path,) = tmp_path.rglob("samples_*")
    assert len(path.read_text().splitlines()) > 2
    assert "lack documents" not in caplog.text


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"chunk": 1.5}, "--chunk 1.5: must be a whole number"),
        ({"chunk": "3"}, "--chunk '3': must be a whole number"),
        ({"top_up": math.nan}, "--top_up nan: must be a whole number"),
        ({"seed": None}, "--seed None: must be a whole number"),
    ],
)
def test_numbers_that_are_not_whole_are_refused(
    setting: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=f"^{message}$"):
        collect(CollectionSettings(TASK, tmp_path, model="dummy", **setting))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tasks", "none"), "no task 'none'"),
        (("--tasks", TASK, "--model", "none"), "--model none: unknown to lm_eval"),
        (("--tasks", "pragworld_generated_mc"), "generates no text; run it with lm_eval"),
        (("--tasks", "pragworld_generated", "--top_up", "1"), "--top_up is for the world_model"),
        (("--tasks", TASK, "--chunk", "0"), "--chunk 0: must be at least 1"),
        (("--tasks", TASK, "--seed", "-1"), "--seed -1: must be at least 0"),
        (("--tasks", TASK, "--shard", "3/2"), "--shard 3/2: there are 2 shards; the number must"),
        (("--tasks", TASK, "--shard", "1/11"), "--shard 1/11: the run has 10 batches"),
        (("--tasks", TASK, "--shard", "1/2", "--top_up", "1"), "--top_up: which prompts lack"),
        (("--tasks", TASK, "--gen_kwargs", "foo"), "'foo': not like name=value,name=value"),
        (("--tasks", TASK, "--metadata", "{"), "--metadata '{': not JSON"),
        (("--tasks", TASK, "--include_path", "none"), "--include_path none: not a folder; name"),
    ],
)
@pytest.mark.usefixtures("our_tasks_only")
def test_a_mistake_is_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    with refused(re.escape(message)):
        main(["collect", "--model", "dummy", "--output_path", str(tmp_path), *arguments])
    assert list(tmp_path.iterdir()) == []
