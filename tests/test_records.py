"""Run records: what they hold, and that one which contradicts itself is refused."""

import copy
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_runs import refused

from pragworld_tasks.cli import main
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation import scoring
from pragworld_tasks.evaluation.metrics import bootstrap_intervals
from pragworld_tasks.evaluation.prompts import evaluation_prompt, label_prompt
from pragworld_tasks.evaluation.runs import find_runs
from pragworld_tasks.evaluation.scoring import score
from pragworld_tasks.evaluation.task_metrics import to_records
from pragworld_tasks.leaderboard.private_values import public_values
from pragworld_tasks.leaderboard.rebuilt_command import lm_eval_command
from pragworld_tasks.leaderboard.record import RunRecord, read_record, to_record
from pragworld_tasks.leaderboard.runs import load_runs

SETTINGS = {"groups": 3, "seed": 5}
DATE = "2026-01-02T03-04-05.678"
RESULTS: dict[str, Any] = {
    "config": {
        "model": "hf",
        "model_args": {
            "pretrained": "someone/base",
            "peft": "someone/adapter",
            "load_in_4bit": True,
            "token": "hf_secret",
            "extra_body": {"api_key": "hf_secret", "top_k": 1},
            "base_url": "https://me:hf_secret@api.example.com/v1?api_key=hf_secret",
            "tokenizer": "someone/tokenizer",
            "add_bos_token": True,
        },
        "model_dtype": "torch.bfloat16",
        "model_revision": "main",
        "model_sha": "abc123",
        "model_num_parameters": 1000,
        "gen_kwargs": {"max_gen_toks": 1024},
    },
    "configs": {
        "pragworld_generated": {
            "generation_kwargs": {"do_sample": False, "max_gen_toks": 200},
            "metadata": {"version": 1.0, "pretrained": "someone/base", **SETTINGS},
        }
    },
    "date": 1767323045.0,
    "total_evaluation_time_seconds": "12.5",
    "lm_eval_version": "0.4.13",
    "transformers_version": "5.23.0",
    "model_name": "someone/adapter",
    "chat_template": "{{ messages }}",
    "system_instruction": None,
}


@pytest.fixture
def documents() -> list[Document]:
    return generate_documents(**SETTINGS)


@pytest.fixture
def folder(documents: list[Document], tmp_path: Path) -> Path:
    """What lm-eval writes: a model that is right but for row 1, and says nothing to row 2."""
    out = tmp_path / "out" / "someone__adapter"
    out.mkdir(parents=True)
    (out / f"results_{DATE}.json").write_text(json.dumps(RESULTS))
    lines = []
    for record in to_records(documents):
        response = f"({record['answer']})\nBecause."
        if record["row"] == 1:
            response = "No." if record["answer"] == "yes" else "Yes."
        lines.append(
            {
                "doc": record,
                "arguments": {
                    "gen_args_0": {
                        "arg_0": f"<user>{evaluation_prompt(record)}<model>",
                        "arg_1": {"do_sample": False, "max_gen_toks": 1024},
                    }
                },
                "filtered_resps": ["" if record["row"] == 2 else response],
                "unreadable": 0.0,
            }
        )
    path = out / f"samples_pragworld_generated_{DATE}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path / "out"


def record_of(folder: Path, documents: list[Document]) -> RunRecord:
    (source,) = find_runs([str(folder)], None)
    return to_record(source, score(documents, source.read(documents)))


def test_a_record_says_what_ran_and_how(folder: Path, documents: list[Document]) -> None:
    record = record_of(folder, documents)
    model = record.model
    assert (model.name, model.adapter, model.revision) == (
        "someone/base",
        "someone/adapter",
        "abc123",
    )
    assert (model.dtype, model.quantization, model.chat_template) == ("bfloat16", "4bit", True)
    environment = record.environment
    assert environment.generation == {"do_sample": False, "max_gen_toks": 1024}
    assert environment.packages == {"lm_eval": "0.4.13", "transformers": "5.23.0"}
    assert (environment.date, environment.seconds) == ("2026-01-02T03:04:05+00:00", 12.5)
    assert record.data.generator is not None
    assert record.data.generator["groups"] == 3
    assert record.answers[2].answer is None


def test_secrets_are_left_out(folder: Path, documents: list[Document], tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    record = record_of(folder, documents)
    record.write(path)
    assert "hf_secret" not in path.read_text()
    assert record.environment.model_args == {
        "pretrained": "someone/base",
        "peft": "someone/adapter",
        "load_in_4bit": True,
        "extra_body": {"top_k": 1},
        "base_url": "https://api.example.com/v1",
        "tokenizer": "someone/tokenizer",
        "add_bos_token": True,
    }


@pytest.mark.parametrize(
    ("value", "public"),
    [
        ("/data/me/models/mine/", "./mine"),
        ("~/models/mine", "./mine"),
        ("../mine", "./mine"),
        ("C:\\Users\\me\\mine", "./mine"),
        ("\\\\server\\me\\mine", "./mine"),
        ("/data/John Smith/mine", "./mine"),
        ("--lora mine=/data/me/adapter,rank=8", "--lora mine=./adapter,rank=8"),
        ({"/data/me/a": [{"b": "/data/me/c"}]}, {"./a": [{"b": "./c"}]}),
        ("someone/model", "someone/model"),
        ("accounts/someone/models/mine", "accounts/someone/models/mine"),
        (["\n\n", "</s>", "and/or", "/"], ["\n\n", "</s>", "and/or", "/"]),
        ("http://localhost:8000/v1", "PRIVATE_ADDRESS"),
        ("http://gpu7:8000/v1", "PRIVATE_ADDRESS"),
        ("http://gpu7.lan/v1", "PRIVATE_ADDRESS"),
        ("http://10.0.0.7/v1", "PRIVATE_ADDRESS"),
        ("http://[::1]:8000/v1", "PRIVATE_ADDRESS"),
        ("file:///data/me/mine", "PRIVATE_ADDRESS"),
        ("grpc://me:hf_secret@gpu7", "PRIVATE_ADDRESS"),
        ("https://example.com:hf/secret@api.example.com/v1", "PRIVATE_ADDRESS"),
        ("localhost:8000", "PRIVATE_ADDRESS"),
        ("--host 10.0.0.7:8000 --tp 2", "--host PRIVATE_ADDRESS --tp 2"),
        ("0.4.13", "0.4.13"),
        ("see http://gpu7/v1?a=b and /data/me/mine", "see PRIVATE_ADDRESS and ./mine"),
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        (True, True),
    ],
)
def test_what_only_one_machine_knows_is_left_out(
    folder: Path, documents: list[Document], value: Any, public: Any
) -> None:
    (path,) = folder.rglob("results_*.json")
    content = copy.deepcopy(RESULTS)
    content["config"]["model_args"] |= {"server": {"nested": value}}
    content["config"]["gen_kwargs"] |= {"nested": [value]}
    path.write_text(json.dumps(content))
    environment = record_of(folder, documents).environment
    assert environment.model_args["server"] == {"nested": public}
    assert environment.generation["nested"] == [public]


@pytest.mark.parametrize("piece", ["a.", "_auth", "=.", " /", "http://", "a-b+", "~/a ", "1.1"])
def test_a_record_of_a_stranger_is_read_quickly(piece: str) -> None:
    """A pattern that backtracks over all of a long text would take minutes."""
    text = piece * (100_000 // len(piece))
    start = time.perf_counter()
    public_values({text + "!": [text]})
    assert time.perf_counter() - start < 2


def test_a_record_of_a_stranger_shows_no_folder_either(
    folder: Path, documents: list[Document]
) -> None:
    content = record_of(folder, documents).model_dump(mode="json")
    content["model"] |= {"name": "/data/me/base", "adapter": "/data/me/adapter"}
    content["environment"]["model_args"] = {"base_url": "http://gpu7:8000", "token": "hf_secret"}
    record = RunRecord.model_validate(content)
    assert (record.model.name, record.model.adapter) == ("./base", "./adapter")
    assert record.environment.model_args == {"base_url": "PRIVATE_ADDRESS"}
    assert "PRIVATE_ADDRESS" in str(lm_eval_command(record))


def test_half_a_character_is_replaced_where_it_is_read(folder: Path, tmp_path: Path) -> None:
    """JSON can name one, and a model's output can hold one; UTF-8 has none."""
    half = "(yes)\ud800"
    (samples,) = folder.rglob("samples_*.jsonl")
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    lines[0]["filtered_resps"] = [f"{half} \U0001f642"]
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (results,) = folder.rglob("results_*.json")
    names = {"model_name": f"someone/{half}", "system_instruction": half}
    results.write_text(json.dumps(RESULTS | names))
    (run,) = load_runs([str(folder)])
    assert run.record.answers[0].response == "(yes)\ufffd \U0001f642"
    assert run.record.environment.system_instruction == "(yes)\ufffd"
    content = run.record.model_dump(mode="json")
    content["answers"][0]["response"] = half
    path = tmp_path / "record.json"
    path.write_text(json.dumps(content))
    assert read_record(path).answers[0].response == "(yes)\ufffd"
    eee = ["--model-name", "a/b", "--organization", "Lab", "--relationship", "other"]
    out = str(tmp_path / "out")
    main(["submit", str(folder), "--to", "every-eval-ever", "--out", out, *eee])
    main(["record", str(folder), "--out", str(tmp_path / "mine")])
    main(["verify", str(tmp_path / "mine")])
    main(["board", str(path), str(folder), "--out", str(tmp_path / "site")])


def test_an_odd_file_name_fits_into_a_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (samples,) = folder.rglob("samples_*.jsonl")
    odd = samples.with_name(os.fsdecode(b"caf\xe9|.jsonl"))  # in Latin-1
    odd.write_bytes(samples.read_bytes())
    main(["score", "--responses", str(odd), str(samples)])
    shown = capsys.readouterr().out
    assert "caf\ufffd\\|.jsonl" in shown
    lines = [line for line in shown.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1


def test_the_figures_of_a_run_are_computed_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    def count(tallies: Any) -> Any:
        counted.append(len(tallies))
        return bootstrap_intervals(tallies)

    monkeypatch.setattr(scoring, "bootstrap_intervals", count)
    load_runs([str(folder)])
    assert len(counted) == 3  # of the metrics, by the released scoring, and of the breakdowns


def test_a_record_read_again_gives_the_metrics_of_score(
    folder: Path, documents: list[Document], tmp_path: Path
) -> None:
    path = tmp_path / "record.json"
    record_of(folder, documents).write(path)
    (run,) = load_runs([str(path)])  # generates the documents from the settings
    (source,) = find_runs([str(folder)], None)
    expected = score(documents, source.read(documents)).to_json()
    assert run.report.to_json() == expected
    assert read_record(path) == run.record
    assert run.name == "base + adapter"


def put(*place: str | int, value: Any) -> Callable[[Any], None]:
    """A change of a record's JSON at a place."""

    def change(content: Any) -> None:
        for key in place[:-1]:
            content = content[key]
        content[place[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (put("answers", 1, "answer", value=None), "row 1: the record has the answers None and"),
        (put("answers", 0, "response", value="I can't say"), "row 0: .* reads as None"),
        (put("answers", 0, "row", value=7), "not one answer for each of"),
        (put("data", "digest", value="0" * 64), "on other documents"),
        (put("data", "documents", value=9999), "documents of the record: 9999 instead of"),
        (put("data", "groups", value=1), "groups of the record: 1 instead of 3"),
        (put("data", "split", value="manual"), "split of the record: manual instead of"),
        (put("intervals", value="99 %"), "intervals of the record: 99 % instead of"),
        (put("breakdowns", "mine", value={}), "breakdowns of the record"),
        (put("metrics", "acc", "right", value=1), "metrics, acc: right is 1 in the record, but"),
        (put("metrics", "acc", "low", value=99.0), "metrics, acc: low is 99.0"),
        (put("published", "robust_acc", "percent", value=100.0), "published, robust_acc: percent"),
        (
            put("breakdowns", "length", value={}),
            "breakdowns, length: the record has other classes than",
        ),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(
    folder: Path,
    documents: list[Document],
    change: Callable[[Any], None],
    expected: str,
) -> None:
    content = record_of(folder, documents).model_dump(mode="json")
    RunRecord.model_validate(content).report(documents)
    changed = copy.deepcopy(content)
    change(changed)
    with pytest.raises(InputError, match=expected) as refusal:
        RunRecord.model_validate(changed).report(documents)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", "not a run record of version 1: source: Field required"),
        ('{"schema_version": 2}', "schema_version: Input should be 1"),
        ("[]", "not a run record"),
        ("{", "not JSON"),
    ],
)
def test_what_is_no_record_is_refused_in_one_line(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(InputError, match=expected) as refusal:
        read_record(path)
    assert "\n" not in str(refusal.value)


def test_published_runs_and_readers_have_names_of_their_own(released: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAGWORLD_DATA", str(released))
        runs = load_runs(["published:gpt-3.5-turbo", "readings:majority"])
    assert [(run.name, run.record.source) for run in runs] == [
        ("gpt-3.5-turbo", "published"),
        ("label readers (majority)", "readings"),
    ]
    assert round(runs[0].report.robust_acc, 2) == 42.05


# Submissions --------------------------------------------------------------------------------------


@pytest.fixture
def submission(folder: Path, tmp_path: Path) -> Path:
    out = tmp_path / "submissions" / "mine"
    main(["record", str(folder), "--out", str(out)])
    return out


def edit_sample(submission: Path, row: int, change: Callable[[Any], None]) -> None:
    (path,) = submission.glob("samples_*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines[row])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_submission_is_verified(submission: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {path.suffix for path in submission.iterdir()} == {".json", ".jsonl"}
    capsys.readouterr()
    main(["verify", str(submission)])
    assert capsys.readouterr().out.startswith(
        f"{submission}: base + adapter, generated: robust_acc"
    )
    assert [path.name for path in submission.parent.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("row", "change", "expected"),
    [
        (0, put("filtered_resps", value=["I can't say"]), "row 0: the answer is None, but"),
        (2, put("filtered_resps", value=["hm"]), "row 2: the response is 'hm', but '' in"),
        (1, put("doc", "question", value="Is it?"), "the response is to another question"),
        (1, put("doc", "answer", value="maybe"), "contradict the digest of their documents"),
        (
            1,
            put("arguments", "gen_args_0", "arg_0", value="Is it raining?"),
            "row 1: the prompt is not that of pragworld_generated",
        ),
        (
            1,
            lambda line: put("arguments", "gen_args_0", "arg_0", value=label_prompt(line["doc"]))(
                line
            ),
            "row 1: the prompt is not that of pragworld_generated",
        ),
        (
            0,
            put("arguments", "gen_args_0", "arg_1", "do_sample", value=True),
            "generated with do_sample True, but record.json says False",
        ),
        (
            1,
            lambda line: put(
                "arguments",
                "gen_args_0",
                "arg_0",
                value=f"The answer is {line['doc']['answer']}. {evaluation_prompt(line['doc'])}",
            )(line),
            "row 1: the prompt is not that of pragworld_generated, or other text stands around it",
        ),
        (0, put("arguments", "gen_args_0", "arg_1", value=None), "no settings of generation"),
        (0, put("arguments", value={}), "no 'arguments'"),
        (0, put("arguments", value={"a": 3}), "'arguments' are not lm-eval's"),
    ],
)
def test_samples_that_differ_are_refused_with_the_row(
    submission: Path,
    capsys: pytest.CaptureFixture[str],
    row: int,
    change: Callable[[Any], None],
    expected: str,
) -> None:
    edit_sample(submission, row, change)
    with refused("1 of 1 submissions are refused"):
        main(["verify", str(submission)])
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (put("answers", 1, "response", value="(no)"), "row 1: "),
        (put("metrics", "acc", "right", value=1), "metrics, acc: right is 1 in the record"),
        (put("data", "digest", value="0" * 64), "the record is on other documents"),
        (put("source", value="published"), "its answers come with the package"),
        (put("source", value="responses"), "a submission is a run of lm_eval"),
        (put("model", "name", value="/models/mine"), "is a folder, which nobody else"),
        (put("environment", "task", value="pragworld_manual"), "not samples of the task"),
        (put("environment", "model_args", "api_key", value="hf_secret"), "model_args: holds a sec"),
        (put("environment", "generation", "a", value="/data/me/b"), "generation: holds a secret, "),
        (put("model", "adapter", value="/data/me/adapter"), "adapter: holds a secret, or a folder"),
    ],
)
def test_a_changed_record_is_refused(
    submission: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Any], None],
    expected: str,
) -> None:
    path = submission / "record.json"
    content = json.loads(path.read_text())
    if content["answers"][1]["answer"] == "no":  # so that "(no)" contradicts it
        content["answers"][1]["answer"] = content["answers"][1]["released"] = "yes"
    change(content)
    path.write_text(json.dumps(content))
    with refused("1 of 1 submissions are refused"):
        main(["verify", str(submission)])
    assert expected in capsys.readouterr().out


def test_what_is_no_submission_is_refused(
    submission: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with refused("mine exists; remove it, or choose another name"):
        main(["record", str(folder), "--out", str(submission)])
    (tmp_path / "empty").mkdir()
    with refused("2 of 2 submissions are refused"):
        main(["verify", str(tmp_path / "empty"), str(tmp_path / "missing")])
    shown = capsys.readouterr().out
    assert "holds 0 files samples_*.jsonl and no record.json" in shown
    assert "missing: no such folder" in shown


def test_a_submission_runs_no_code_of_its_own(
    submission: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The task that a record names decides which file of functions is loaded."""
    (submission / "evil.yaml").write_text("doc_to_text: !function evil.run\n")
    witness = submission / "witness"
    (submission / "evil.py").write_text(f"open({str(witness)!r}, 'w')\n\ndef run(doc): ...\n")
    path = submission / "record.json"
    content = json.loads(path.read_text())
    for task in (str(submission / "evil"), "../evil", "_written", None):
        content["environment"]["task"] = task
        path.write_text(json.dumps(content))
        with refused("1 of 1 submissions are refused"):
            main(["verify", str(submission)])
        assert "not samples of the task" in capsys.readouterr().out
    assert not witness.exists()


def test_models_of_one_name_are_shown_with_their_developers(folder: Path, tmp_path: Path) -> None:
    names = ("someone/base", "other/base", "/data/me/base", "other/base", "other/alone")
    paths = [str(tmp_path / f"{number}.json") for number in range(len(names))]
    (run,) = load_runs([str(folder)])
    content = run.record.model_dump(mode="json")
    content["model"]["adapter"] = None
    for name, path in zip(names, paths, strict=True):
        content["model"]["name"] = name
        Path(path).write_text(json.dumps(content))
    assert [run.name for run in load_runs(paths)] == [
        "someone/base",
        "other/base, generated (1)",
        "./base",
        "other/base, generated (2)",
        "alone",
    ]


def test_only_runs_of_one_name_are_numbered(folder: Path, released: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAGWORLD_DATA", str(released))
        runs = load_runs([str(folder), str(folder), "published:gpt-3.5-turbo"])
    assert [run.name for run in runs] == [
        "base + adapter, generated (1)",
        "base + adapter, generated (2)",
        "gpt-3.5-turbo",
    ]
