"""Run records: what they hold, and that one which contradicts itself is refused."""

import copy
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_runs import refused

import pragworld_tasks as pt
from pragworld_tasks.cli import main
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.prompts import evaluation_prompt, label_prompt
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation import scoring
from pragworld_tasks.evaluation.metrics import bootstrap_intervals
from pragworld_tasks.evaluation.run_record import RunRecord, read_run_records
from pragworld_tasks.evaluation.runs import find_runs
from pragworld_tasks.evaluation.task_metrics import score_likelihoods, score_response, to_records
from pragworld_tasks.harness import split_dataset
from pragworld_tasks.leaderboard.runs import load_runs
from pragworld_tasks.leaderboard.submission import to_submissions

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


PROMPT = ("arguments", "gen_args_0", "arg_0")


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
        elif record["row"] == 2:
            response = ""
        lines.append(
            {
                "doc": record,
                "target": record["answer"],
                "arguments": {
                    "gen_args_0": {
                        "arg_0": f"<user>{evaluation_prompt(record)}<model>",
                        "arg_1": {"do_sample": False, "max_gen_toks": 1024},
                    }
                },
                "resps": [[response]],
                "filtered_resps": [response],
                "filter": "none",
                **score_response(record, [response]),
            }
        )
    path = out / f"samples_pragworld_generated_{DATE}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path / "out"


def record_in(path: Path) -> RunRecord:
    (record,) = read_run_records(path).values()
    return record


def record_of(folder: Path, documents: list[Document]) -> RunRecord:
    (source,) = find_runs([str(folder)], None)
    return source.to_record(source.score(documents))


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


def test_alterations_have_no_effect_on_entity_tracking(tmp_path: Path) -> None:
    """Dialogues of the domain everyday have no amounts, and alterations of nothing else."""
    task, settings = "pragworld_generated_entity_tracking", {"groups": 2, "domains": "everyday"}
    altered = {**settings, "alterations": "Quantity Change", "flips": 0.5}
    logged = split_dataset("generated_entity_tracking", **altered)["test"].to_list()
    assert logged == split_dataset("generated_entity_tracking", **settings)["test"].to_list()
    results = {**RESULTS, "configs": {task: {"metadata": altered}}}
    (tmp_path / f"results_{DATE}.json").write_text(json.dumps(results))
    samples = [json.dumps({"doc": doc, "filtered_resps": ["no"]}) + "\n" for doc in logged]
    (tmp_path / f"samples_{task}_{DATE}.jsonl").write_text("".join(samples))
    (run,) = load_runs([str(tmp_path)])
    (tmp_path / "run.json").write_bytes(run.record.to_bytes())
    (again,) = load_runs([str(tmp_path / "run.json")])
    assert again.record == run.record
    assert list(again.documents) == list(run.documents)


def test_half_a_character_is_replaced_where_it_is_read(folder: Path, tmp_path: Path) -> None:
    """JSON can name one, and a model's output can hold one; UTF-8 has none."""
    half = "(yes)\ud800"
    (results,) = folder.rglob("results_*.json")
    results.write_text(json.dumps(RESULTS | {"system_instruction": half}))
    (samples,) = folder.rglob("samples_*.jsonl")

    def change(line: Any) -> None:
        put(*PROMPT, value=half + line["arguments"]["gen_args_0"]["arg_0"])(line)
        if line["doc"]["row"] == 0:
            respond(f"{half} \U0001f642")(line)

    edit_samples(samples.parent, change)
    (run,) = load_runs([str(folder)])
    assert run.record.answers[0].response == "(yes)\ufffd \U0001f642"
    assert run.record.environment.system_instruction == "(yes)\ufffd"
    content = run.record.model_dump(mode="json")
    content["answers"][0]["response"] = half
    path = tmp_path / "record.json"
    path.write_text(json.dumps(content))
    assert record_in(path).answers[0].response == "(yes)\ufffd"
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
    main(["score", str(odd), str(samples)])
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
    path.write_bytes(record_of(folder, documents).to_bytes())
    (run,) = load_runs([str(path)])  # generates the documents from the settings
    (source,) = find_runs([str(folder)], None)
    assert run.report.metrics == source.score(documents).metrics
    assert read_run_records(path) == {"": run.record}
    assert run.name == "base + adapter"


def put(*place: str | int, value: Any) -> Callable[[Any], None]:
    """A change of a record's JSON at a place."""

    def change(content: Any) -> None:
        for key in place[:-1]:
            content = content[key]
        content[place[-1]] = value

    return change


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", "not a run record: source: Field required"),
        ('{"schema_version": 1}', "a run record of version 1, and this is version 2; write it"),
        ("[]", "not a run record"),
        ("{", "not JSON"),
    ],
)
def test_what_is_no_record_is_refused_in_one_line(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(InputError, match=expected) as refusal:
        record_in(path)
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


def test_results_of_lm_eval_are_no_answers(folder: Path, tmp_path: Path) -> None:
    (results,) = map(str, folder.rglob("results_*.json"))
    out = ["--out", str(tmp_path / "new")]
    for command in (
        ["score", results],
        ["board", results, *out],
        ["record", results, *out],
        ["submit", results, "--to", "model-card", "--card", "README.md", *out],
    ):
        with refused(
            r"lm-eval's results, which hold no answers; pass their folder, or the samples_\*"
        ):
            main(command)


def test_the_folder_of_a_record_is_read_as_the_record(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submission = tmp_path / "mine"
    main(["record", str(folder), "--out", str(submission)])
    (run,) = load_runs([str(submission)])
    (expected,) = load_runs([str(submission / "record.json")])
    assert (run.name, run.record) == (expected.name, expected.record)
    assert run.record.model.adapter == "someone/adapter"


def test_runs_with_other_seeds_are_told_so(tmp_path: Path) -> None:
    first, second = (pt.generate(groups=2, seed=seed) for seed in (1, 2))
    path = tmp_path / "samples.jsonl"
    path.write_text(
        "".join(
            json.dumps({"doc": record, "filtered_resps": ["Yes."]}) + "\n"
            for record in to_records(second)
        )
    )
    with pytest.raises(InputError, match=r"row 0 of the generated .*: settings, seeds or files"):
        pt.read_predictions([path], first)


# Submissions --------------------------------------------------------------------------------------


@pytest.fixture
def submission(folder: Path, tmp_path: Path) -> Path:
    out = tmp_path / "submissions" / "mine"
    main(["record", str(folder), "--out", str(out)])
    return out


def edit_samples(folder: Path, change: Callable[[Any], None], row: int | None = None) -> None:
    """Change the sample of a row, or all samples."""
    (path,) = folder.glob("samples_*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines if row is None else [lines[row]]:
        change(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def edit_record(submission: Path, change: Callable[[Any], None]) -> None:
    path = submission / "record.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def respond(response: str) -> Callable[[Any], None]:
    """A change of a sample to another response."""

    def change(line: Any) -> None:
        line.update(resps=[[response]], filtered_resps=[response])

    return change


def assert_refused(submission: Path, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that `verify` refuses a submission in one line that matches."""
    capsys.readouterr()
    with refused("1 of 1 submissions are refused"):
        main(["verify", str(submission)])
    (line,) = capsys.readouterr().out.splitlines()
    assert re.search(expected, line), line
    assert line.isprintable()


def assert_accepted(submission: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    main(["verify", str(submission)])
    assert "robust_acc" in capsys.readouterr().out


def to_plain(submission: Path, around: tuple[str, str] = ("", "")) -> None:
    """Change a submission to one without a chat template."""
    before, behind = around

    def change(line: Any) -> None:
        put(*PROMPT, value=f"{before}{evaluation_prompt(line['doc'])}{behind}")(line)

    edit_samples(submission, change)
    edit_record(submission, put("model", "chat_template", value=False))


def to_likelier(submission: Path, documents: list[Document]) -> None:
    """Change a submission to one that compares the likelihoods of yes and no."""
    (samples,) = submission.glob("samples_*.jsonl")
    task = "pragworld_generated_mc"

    def change(line: Any) -> None:
        likelihoods = [["-1.5", "False"], ["-0.5", "True"]]
        prompt = f"<user>{label_prompt(line['doc'])}<model>"
        line.update(
            resps=[[pair] for pair in likelihoods],
            filtered_resps=likelihoods,
            **score_likelihoods(line["doc"], [(-1.5, False), (-0.5, True)]),
            arguments={
                f"gen_args_{number}": {"arg_0": prompt, "arg_1": f" {label}"}
                for number, label in enumerate(("yes", "no"))
            },
        )

    edit_samples(submission, change)
    samples.rename(samples.with_name(f"samples_{task}_{DATE}.jsonl"))
    results = copy.deepcopy(RESULTS)
    metadata = RESULTS["configs"]["pragworld_generated"]["metadata"]
    results["configs"] = {task: {"output_type": "multiple_choice", "metadata": metadata}}
    (submission / f"results_{DATE}.json").write_text(json.dumps(results))
    (submission / "record.json").unlink()
    (submission / "record.json").write_bytes(record_of(submission, documents).to_bytes())
    (submission / f"results_{DATE}.json").unlink()


def test_a_submission_is_verified(submission: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {path.suffix for path in submission.iterdir()} == {".json", ".jsonl"}
    capsys.readouterr()
    main(["verify", str(submission)])
    assert capsys.readouterr().out.startswith(
        f"{submission}: base + adapter, generated: robust_acc"
    )
    assert [path.name for path in submission.parent.iterdir()] == ["mine"]


def prompt_after(text: str) -> Callable[[Any], None]:
    """A change of a sample to one whose prompt stands behind a text."""
    return lambda line: put(*PROMPT, value=text + evaluation_prompt(line["doc"]))(line)


@pytest.mark.parametrize(
    ("row", "change", "expected"),
    [
        (0, respond("I can't say"), "row 0: the answer is None, but"),
        (2, respond("hm"), "row 2: the response is 'hm', but '' in"),
        (1, put("doc", "question", value="Is it?"), "the response is to another question"),
        (1, put("doc", "answer", value="maybe"), "not a sample of a pragworld task"),
        (1, put("doc", "leak", value="me"), "'doc' is not the document of row 1"),
        (1, put("target", value="maybe"), "row 1 .*: 'target' is 'maybe', but the gold answer is"),
        (1, put("comment", value="me"), "row 1 .* has 'comment', which lm-eval does not log"),
        (1, put("acc", value=0.5), r"row 1 .*: 'acc' is 0.5, but by the response [01]\.0"),
        (
            1,
            put("robust_acc", value=[0, 0, 1, 1.0]),
            "row 1 .*: 'robust_acc' is .* by the response",
        ),
        (0, put(*PROMPT, value="Is it raining?"), "the prompt is not that of pragworld_generated"),
        (1, put(*PROMPT, value="Is it raining?"), "row 1: the prompt is not that of pragworld_gen"),
        (1, put(*PROMPT, value={"role": "user"}), "row 1: the prompt is not that of pragworld_gen"),
        (
            1,
            lambda line: put(*PROMPT, value=label_prompt(line["doc"]))(line),
            "row 1: the prompt is not that of pragworld_generated",
        ),
        (1, prompt_after("The answer is no. "), "row 1: .* or other text stands around it"),
        (
            0,
            put("arguments", "gen_args_0", "arg_1", "do_sample", value=True),
            "generated with do_sample True, but record.json says False",
        ),
        (0, put("arguments", "gen_args_0", "arg_1", value=None), "no settings of generation"),
        (None, put("arguments", "gen_args_0", "arg_1", value=" x"), "no settings of generation"),
        (0, put("arguments", "gen_args_0", "arg_2", value=" x"), "'arguments' are not lm-eval's"),
        (0, put("arguments", "gen_args_1", value={}), "2 requests instead of 1"),
        (0, put("arguments", value={}), "no 'arguments'"),
        (0, put("arguments", value={"a": 3}), "'arguments' are not lm-eval's"),
        (0, put("resps", value=[["(maybe)"]]), "not the responses in 'resps'"),
        (0, put("resps", 0, value=["(yes)", "(no)"]), "not the responses in 'resps'"),
        (0, put("filter", value="best"), "'filter' is 'best', but our tasks have none"),
    ],
)
def test_samples_that_differ_are_refused_with_the_row(
    submission: Path,
    capsys: pytest.CaptureFixture[str],
    row: int | None,
    change: Callable[[Any], None],
    expected: str,
) -> None:
    edit_samples(submission, change, row)
    assert_refused(submission, expected, capsys)


@pytest.mark.parametrize("values", [("no", " yes"), (" yes.", " no"), (" yes", None)])
def test_continuations_are_those_of_the_task(
    submission: Path,
    documents: list[Document],
    capsys: pytest.CaptureFixture[str],
    values: tuple[str, str | None],
) -> None:
    to_likelier(submission, documents)
    edit_record(submission, put("environment", "generation", value={"temperature": 9}))
    assert_refused(submission, "pragworld_generated_mc generates nothing", capsys)
    edit_record(submission, put("environment", "generation", value={}))
    assert_accepted(submission, capsys)
    edit_samples(  # as with a chat template
        submission, lambda line: put("arguments", "gen_args_0", "arg_1", value="yes")(line)
    )
    assert_accepted(submission, capsys)
    for number, value in enumerate(values):
        edit_samples(submission, put("arguments", f"gen_args_{number}", "arg_1", value=value))
    assert_refused(submission, "row 0 .*the continuation is .* instead of '(yes|no)'", capsys)


def test_without_a_chat_template_only_the_system_instruction_stands_around_a_prompt(
    submission: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to_plain(submission)
    assert_accepted(submission, capsys)
    for around in (("Think step by step. ", ""), ("", "\nThink step by step.")):
        to_plain(submission, around)
        assert_refused(submission, "names no chat template, but around the prompt", capsys)
    to_plain(submission, ("Be brief.", ""))
    edit_record(submission, put("environment", "system_instruction", value="Be brief."))
    assert_accepted(submission, capsys)
    to_plain(submission)
    assert_refused(submission, "names no chat template, but around the prompt", capsys)


def test_the_messages_of_a_chat_are_read(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server applies its own template: lm-eval logs messages, and no template."""
    (results,) = folder.rglob("results_*.json")
    results.write_text(json.dumps(RESULTS | {"chat_template": "", "system_instruction": "Hi."}))

    def change(line: Any) -> None:
        messages = [
            {"role": "system", "content": "Hi."},
            {"role": "user", "content": evaluation_prompt(line["doc"])},
        ]
        put(*PROMPT, value=[json.dumps(messages)])(line)

    edit_samples(results.parent, change)
    out = tmp_path / "chat"
    main(["record", str(folder), "--out", str(out)])
    assert_accepted(out, capsys)
    record = record_in(out / "record.json")
    assert record.model.chat_template


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (put("answers", 1, "response", value="I can't say"), "row 1: "),
        (put("metrics", "acc", "right", value=1), "metrics, acc, right: 1 in the record"),
        (put("data", "digest", value="0" * 64), "the record is on other documents"),
        (put("source", value="published"), "a submission is a run of lm_eval"),
        (put("source", value="responses"), "a submission is a run of lm_eval"),
        (put("model", "name", value="someone/other"), "of the model someone/other . someone/adap"),
        (put("model", "adapter", value=None), "but its environment.model_args load someone/base"),
        (put("environment", "model_args", value={}), "model_args load none"),
        (
            put("model", "quantization", value=None),
            "quantization: None, but .*model_args give 4bit",
        ),
        (put("model", "revision", value="/data/me/x y\n"), "model.revision: '/data/me/x y"),
        (put("model", "dtype", value="a" * 201), "model.dtype: 'aaa.* at most 200"),
        (put("environment", "task", value="pragworld_manual"), "not samples of the task"),
        (put("environment", "backend", value="hf\n::error"), r"environment.backend: 'hf\\n::err"),
        (put("environment", "model_args", "api_key", value="hf_secret"), "model_args: holds a sec"),
        (
            put("environment", "generation", "a", value="\u202e"),
            "environment.generation: must have",
        ),
        (put("environment", "generation", "\x1b[2J", value=1), "environment.generation: must have"),
        (put("environment", "system_instruction", value="a\0"), "system_instruction: must have no"),
        (put("environment", "packages", "a", value="\u2067"), r"packages: '\\u2067' must be print"),
        (put("environment", "packages", value=dict.fromkeys(map(str, range(21)), "1")), "21 pack"),
        (put("environment", "date", value="yesterday"), "'yesterday' is not a date"),
        (put("environment", "seconds", value=math.inf), "seconds: Input should be a finite number"),
        (put("environment", "seconds", value=math.nan), "seconds: Input should be a finite number"),
        (put("model", "parameters", value=10**4000), "parameters: .*less than or equal to"),
        (put("environment", "seconds", value=-1), "seconds: .*greater than or equal to 0"),
        (put("data", "generator", "groups", value=20_000), "data.groups: 3, but .* 20000 groups"),
        (put("data", "generator", "more", value=1), "data.generator: must have groups, seed"),
        (put("data", "generator", "seed", value=0.5), "data.generator: seed must be an integer"),
    ],
)
def test_a_changed_record_is_refused(
    submission: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Any], None],
    expected: str,
) -> None:
    edit_record(submission, change)
    assert_refused(submission, expected, capsys)


@pytest.mark.parametrize(
    "name",
    [
        "org/\u202emodel",
        "org/model\n::error title=x::y",
        "org/m\x1b[2J",
        "label readers (majority)",
        "org/" + "a" * 200,
    ],
)
def test_a_name_that_no_model_has_is_refused(
    submission: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    def change(content: Any) -> None:
        content["model"]["name"] = content["environment"]["model_args"]["pretrained"] = name

    edit_record(submission, change)
    assert_refused(submission, "is not the name of a model", capsys)


@pytest.mark.parametrize(
    "name", ["gpt-4o", "ft:gpt-4o-mini:lab::abc", "accounts/lab/models/m@2", "lab/Model-1.5B_it"]
)
def test_models_of_hubs_and_of_apis_can_be_submitted(
    submission: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    def change(content: Any) -> None:
        content["model"] |= {"name": name, "adapter": None, "quantization": None}
        content["environment"]["model_args"] = {"model": name}

    edit_record(submission, change)
    assert_accepted(submission, capsys)


def test_ends_of_intervals_may_differ_as_random_draws_do(
    submission: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = submission / "record.json"
    (run,) = load_runs([str(path)])
    edit_record(submission, put("metrics", "acc", "low", value=0.5))
    assert_accepted(submission, capsys)
    (changed,) = load_runs([str(path)])
    assert changed.report.metrics == run.report.metrics
    (metrics,) = [one.metrics() for one in to_submissions([changed])]
    low = next(metric.share.low for metric in metrics if metric.name == "acc")
    assert low == run.report.interval("acc")[0]


def test_values_nested_too_deeply_stop_no_other_submission(
    submission: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nested: Any = {}
    for _ in range(900):
        nested = {"a": nested}
    settings = ("arguments", "gen_args_0", "arg_1")
    changes: tuple[tuple[Callable[..., None], Callable[[Any], None]], ...] = (
        (edit_samples, put(*settings, value=nested)),
        (edit_samples, put("resps", value=nested)),
        (edit_samples, put(*PROMPT, value=nested)),
    )
    folders = [tmp_path / str(number) for number in range(len(changes))]
    for folder, (edit, change) in zip(folders, changes, strict=True):
        shutil.copytree(submission, folder)
        edit(folder, change)
    capsys.readouterr()
    with refused("3 of 4 submissions are refused"):
        main(["verify", *map(str, folders), str(submission)])
    *deep, fine = capsys.readouterr().out.splitlines()
    assert len(deep) == 3
    assert "robust_acc" in fine


def test_many_generated_documents_are_refused_before_they_are_generated(
    submission: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit_record(submission, put("data", "groups", value=10**9))
    edit_record(submission, put("data", "generator", "groups", value=10**9))
    assert_refused(submission, "1000000000 groups; a submission has at most 2000", capsys)


def test_nothing_else_is_in_a_submission(
    submission: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (submission / "page\n::error.html").write_text("<script>")
    assert_refused(submission, r"holds page\\n::error.html; a submission has record.json", capsys)


def test_what_is_no_submission_is_refused(
    submission: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with refused("mine exists; remove it, or choose another name"):
        main(["record", str(folder), "--out", str(submission)])
    (results,) = folder.rglob("results_*.json")
    content = json.loads(results.read_text())
    content["config"]["model_args"] = "pretrained=/models/tiny"
    results.write_text(json.dumps(content))
    with refused(
        r"the model \./tiny is a folder, which nobody else can evaluate; publish the model"
    ):
        main(["record", str(folder), "--out", str(tmp_path / "folder")])
    assert not (tmp_path / "folder").exists()
    (tmp_path / "empty").mkdir()
    with refused("2 of 2 submissions are refused"):
        main(["verify", str(tmp_path / "empty"), str(tmp_path / "missing")])
    shown = capsys.readouterr().out
    assert "holds 0 files samples_*.jsonl and no record.json" in shown
    assert "missing: no such folder" in shown


def test_a_submission_runs_no_code_of_its_own(
    submission: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The task that a record names decides which file of functions is loaded."""
    (tmp_path / "evil.yaml").write_text("doc_to_text: !function evil.run\n")
    witness = tmp_path / "witness"
    (tmp_path / "evil.py").write_text(f"open({str(witness)!r}, 'w')\n\ndef run(doc): ...\n")
    for task in (str(tmp_path / "evil"), "../evil", "_written", None):
        edit_record(submission, put("environment", "task", value=task))
        assert_refused(submission, "not samples of the task", capsys)
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


@pytest.mark.parametrize(
    ("folders", "endings"),
    [
        (("out/__data__me__runA__final", "out/__data__me__runB__final"), (" (runA)", " (runB)")),
        (("runA/out/.__final", "runB/out/.__final"), (" (runA)", " (runB)")),
        (("a/x/.__final", "a/y/.__final", "b/x/.__final"), (" (a/x)", " (y)", " (b/x)")),
        (("out/.__final", "out/.__final"), (", generated (1)", ", generated (2)")),
    ],
)
def test_models_in_folders_of_one_name_are_told_apart_by_no_more_than_needed(
    folder: Path, tmp_path: Path, folders: Sequence[str], endings: Sequence[str]
) -> None:
    (written,) = folder.iterdir()
    results = written / f"results_{DATE}.json"
    content = json.loads(results.read_text())
    content["config"]["model_args"] = {"pretrained": "/data/me/some/final"}
    results.write_text(json.dumps(content))
    places = [tmp_path / name for name in folders]
    for place in {*places}:
        shutil.copytree(written, place)
    runs = load_runs(list(map(str, places)))
    assert [run.name for run in runs] == [f"final{ending}" for ending in endings]
    records = [tmp_path / "records" / name / "record.json" for name in "ab"]
    for path, run in zip(records, runs, strict=False):
        path.parent.mkdir(parents=True)
        path.write_bytes(run.record.to_bytes())
    assert [run.name for run in load_runs(list(map(str, records)))] == ["final (a)", "final (b)"]
