"""Submissions to the leaderboard: what `verify` accepts, and every forgery that it refuses."""

import io
import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest
from command_runs import refused
from json_lines import read_lines, write_lines
from lm_eval.utils import hash_string

from pragworld_tasks.cli import main
from pragworld_tasks.data.prompts import evaluation_prompt, label_prompt
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.evaluation.run_record import read_run_records
from pragworld_tasks.evaluation.task_metrics import data_set_rows, score_likelihoods, score_response
from pragworld_tasks.leaderboard.boards import load_runs

SETTINGS = {"groups": 3, "seed": 5}
DOCUMENTS = generate_documents(**SETTINGS)
OTHER = {"yes": "no", "no": "yes"}
GENERATION = {"do_sample": False, "max_gen_toks": 1024}
DATE = "2026-01-02T03-04-05.678"
MODEL_ARGS = {
    "pretrained": "someone/base",
    "peft": "someone/adapter",
    "load_in_4bit": True,
    "token": "hf_secret",
}
RESULTS: dict[str, Any] = {
    "config": {"model": "hf", "model_args": MODEL_ARGS},
    "configs": {
        "pragworld_generated": {
            "output_type": "generate_until",
            "generation_kwargs": GENERATION,
            "metadata": {"version": 1.0, "pretrained": "someone/base", **SETTINGS},
        }
    },
    "chat_template": "{{ messages }}",
}
REQUEST = ("arguments", "gen_args_0")
PROMPT = (*REQUEST, "arg_0")
Change = Callable[[Any], None]


def write_run(folder: Path, task: str, results: Any, samples: list[Any]) -> Path:
    folder.mkdir(parents=True)
    (folder / f"results_{DATE}.json").write_text(json.dumps(results))
    write_lines(folder / f"samples_{task}_{DATE}.jsonl", samples)
    return folder


def logged(
    record: Any, prompt: str, asked: list[Any], responses: list[Any], scores: Any
) -> dict[str, Any]:
    """Return the sample of a document: a prompt, and what each request asks after it."""
    arguments = {
        f"gen_args_{number}": {"arg_0": f"<user>{prompt}<model>", "arg_1": value}
        for number, value in enumerate(asked)
    }
    resps = [[response] for response in responses]
    given = {"arguments": arguments, "resps": resps, "filtered_resps": responses, "filter": "none"}
    sample = {"doc_id": record["row"], "doc": record, "target": record["answer"], **given, **scores}
    return sample | hashes(sample)


def hashes(sample: Any) -> dict[str, str]:
    """Return lm-eval's digests of a sample."""
    document = json.dumps(sample["doc"], indent=2, ensure_ascii=False)
    texts = {"doc": document, "target": sample["target"]}
    texts["prompt"] = "".join(sample["arguments"]["gen_args_0"]["arg_0"])
    return {f"{name}_hash": hash_string(text) for name, text in texts.items()}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that lm-eval wrote, and its submission.

    The model is right but for row 1, and says nothing to row 2.
    """
    runs = tmp_path_factory.mktemp("runs")
    samples = []
    for record in data_set_rows(DOCUMENTS):
        response = f"({record['answer']})\nBecause."
        if record["row"] == 1:
            response = OTHER[record["answer"]]
        elif record["row"] == 2:
            response = ""
        scores = score_response(record, [response])
        samples.append(logged(record, evaluation_prompt(record), [GENERATION], [response], scores))
    submit(write_run(runs / "out", "pragworld_generated", RESULTS, samples), runs / "mine")
    return runs


@pytest.fixture
def submission(runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs / "mine", tmp_path / "submission"))


def put(*place: str | int, value: Any) -> Change:

    def change(content: Any) -> None:
        for key in place[:-1]:
            content = content[key]
        content[place[-1]] = value

    return change


def fitting(change: Change) -> Change:
    """A change of a sample together with its digests."""

    def change_with_digests(line: Any) -> None:
        change(line)
        line.update(hashes(line))

    return change_with_digests


def put_link(path: Path) -> None:
    path.symlink_to(path.rename(path.parents[1] / "elsewhere"))


def put_pipe(path: Path) -> None:
    """Put a pipe, which nobody writes to, in the place of a file."""
    path.unlink()
    os.mkfifo(path)


def respond(*responses: Any) -> Change:
    return lambda line: line.update(
        resps=[[response] for response in responses], filtered_resps=[*responses]
    )


def prompt_after(text: str, prompt: Callable[[Any], str] = evaluation_prompt) -> Change:
    """A change of a sample to one whose prompt stands behind a text."""
    return fitting(lambda line: put(*PROMPT, value=text + prompt(line["doc"]))(line))


def edit(submission: Path, where: str | int, change: Change) -> None:
    """Change the sample of a row, "all" samples, their "file", or the "record"."""
    (path,) = submission.glob("record.json" if where == "record" else "samples_*.jsonl")
    if where == "file":
        change(path)
        return
    contents = [json.loads(path.read_text())] if where == "record" else read_lines(path)
    for content in [contents[where]] if isinstance(where, int) else contents:
        change(content)
    write_lines(path, contents)


def verdict(submission: Path) -> str:
    with redirect_stdout(io.StringIO()) as printed, suppress(SystemExit):
        main(["verify", str(submission)])
    (line,) = printed.getvalue().splitlines()
    assert line.isprintable()
    return line


def submit(run: Path, out: Path) -> Path:
    main(["submit", str(run), "--to", "leaderboard", "--out", str(out)])
    return out


def test_a_submission_is_verified_and_holds_no_secret(submission: Path) -> None:
    assert re.search(r"someone/base, generated: robust_acc \d", verdict(submission))
    assert "hf_secret" not in (submission / "record.json").read_text()
    (record,) = read_run_records(submission / "record.json").values()
    (run,) = load_runs([str(submission)])  # generates the documents from the settings
    assert run.name == "base + adapter"
    assert run.record == record
    # Ends of intervals may differ, as random draws do.
    edit(submission, "record", put("metrics", "acc", "low", value=0.5))
    assert "robust_acc" in verdict(submission)
    (run,) = load_runs([str(submission)])
    assert run.report.metrics["acc"].low != 0.5
    assert run.report.unreadable_reasons == {"empty": 1}

    def as_older_versions_wrote_it(content: Any) -> None:
        del content["unreadable_reasons"], content["against"]
        for answer in content["answers"]:
            del answer["reason"]

    edit(submission, "record", as_older_versions_wrote_it)
    assert "robust_acc" in verdict(submission)


@pytest.mark.parametrize(
    ("where", "change", "expected"),
    [
        # Answers and labels.
        (0, respond("I can't say"), "answers, row 0.answer is '(yes|no)', but should be None"),
        (1, put("target", value="maybe"), "row 1 .*target is 'maybe', but should be"),
        (1, put("doc", "answer", value=OTHER[DOCUMENTS[1].answer]), r"row 1 .*doc\.answer is"),
        ("record", put("answers", 1, "response", value="I can't say"), "answers, row 1.response is"),
        ("record", put("answers", 1, "answer", value=None), "answers, row 1.answer is None"),
        (1, put("resps", value=[["hm"]]), "row 1 .*resps, row 0, row 0 is 'hm', but should be"),
        # Documents.
        (1, put("doc", "question", value="Is it?"), "are to other contexts and questions"),
        (1, put("doc", "group", value=77), r"row 1 .*doc\.group is 77, but should be 0"),
        (1, put("doc", "row", value="1"), r"row 1 .*doc\.row is '1', but should be 1"),
        (1, put("doc_id", value=99), "row 1 .*the task has no row 99"),
        (1, put("doc_id", value=True), "row 1 .*doc_id: Input should be a valid integer"),
        (1, put("doc_hash", value="0" * 64), "row 1 .*doc_hash is '0000.* but should be"),
        (1, put("target_hash", value=hash_string("maybe")), "row 1 .*target_hash is "),
        (1, lambda line: line.pop("prompt_hash"), "row 1 .*prompt_hash is None, but should be"),
        ("record", put("data", "digest", value="0" * 64), "data.digest is"),
        ("record", put("data", "groups", value=1), "data.groups is 1, but should be 3"),
        ("record", put("data", "split", value="generated_entity_tracking"), "no domain 'conversation'"),
        ("record", lambda record: record["data"].update(split="other", generator=None), "responses for 2574 doc"),
        ("record", put("data", "generator", "groups", value=10**9), "has at most 2000 groups"),
        # Figures.
        (1, put("acc", value=0.5), r"row 1 .*acc is 0.5, but should be [01]\.0"),
        (1, put("robust_acc", value=[0, 0, 1, 1.0]), "row 1 .*robust_acc, row 2 is 1, but should be"),
        ("record", put("metrics", "acc", "right", value=1), "metrics.acc.right is 1, but should be"),
        ("record", put("metrics", "acc", "percent", value=100.0), "metrics.acc.percent is 100.0"),
        ("record", put("published", "robust_acc", "percent", value=99.0), "published.robust_acc.perc"),
        ("record", put("breakdowns", "length", value={}), "breakdowns.length.* is None"),
        ("record", put("intervals", value="99 %"), "intervals is '99 %'"),
        # What was asked, and when.
        (0, fitting(put(*PROMPT, value="Is it raining?")), "the prompt is not the task's"),
        (1, prompt_after("<user>", label_prompt), "row 1 .*the prompt is not the task's"),
        (1, prompt_after("The answer is no. "), "row 1 .*other text stands around the prompt"),
        ("all", prompt_after(""), "lacks the chat template or system prompt"),
        (0, put(*REQUEST, "arg_1", "do_sample", value=True), "asked for .*'do_sample': True"),
        ("record", put("model", "chat_template", value=False), "around the prompt stands something"),
        ("record", put("environment", "date", value="2999-01-31"), "began on 2999-01-31, which is yet to"),
        ("record", put("environment", "date", value="soon"), r"environment\.date: Invalid isoformat"),
        # Files.
        ("record", put("runs", value=[1]), "runs: Extra inputs are not permitted"),
        ("record", put("a\x1b[31mb", value=1), r"not a run record: a\?\[31mb: Extra inputs"),
        ("record", put("environment", "backend", value="\x1b[31m"), r"backend is '\\x1b\[31m', but"),
        ("record", put("environment", "model_args", "revision", value="\ud800"), "surrogates not all"),
        ("file", put_link, "jsonl: not a regular file of 200 MB or less"),
        ("file", put_pipe, "jsonl: not a regular file of 200 MB or less"),
        ("file", lambda path: os.truncate(path, 200_000_001), "jsonl: not a regular file of 200 MB or"),
        ("file", lambda path: path.with_name("page.html").touch(), "samples_.*jsonl and nothing else"),
        ("file", lambda path: path.rename(f"{path.parent}/samples_x_2999-01-02T03-04-05.6.jsonl"),
         "jsonl: logged on a day that is yet to come"),
        # The model.
        ("record", put("source", value="published"), "source is 'published', but should be"),
        ("record", put("model", "name", value="/models/mine"), r"\./mine: a folder, which nobody else"),
        ("record", put("environment", "model_args", "pretrained", value="a/b\x1b[31m\u202ec\nd"),
         r"model.name is 'someone/base', but should be 'a/b\?\[31m\?c d'"),
        ("record", put("model", "quantization", value=None), "model.quantization is None.* '4bit'"),
        ("record", put("environment", "model_args", "api_key", value="hf_x"), "api_key is 'hf_x'"),
        ("record", put("environment", "backend", value="hf-ablated"), "not what a model answers"),
    ],
)  # fmt: skip
def test_a_forged_submission_is_refused(
    submission: Path, where: str | int, change: Change, expected: str
) -> None:
    edit(submission, where, change)
    assert re.search(f"refused: .*{expected}", verdict(submission))


def test_likelihoods_are_verified_with_their_continuations(tmp_path: Path) -> None:
    task = "pragworld_generated_mc"
    config = {"output_type": "multiple_choice", "metadata": SETTINGS}
    likelihoods = [["-1.5", "False"], ["-0.5", "True"]]
    samples = []
    for record in data_set_rows(DOCUMENTS):
        scores = score_likelihoods(record, [(-1.5, False), (-0.5, True)])
        asked = [" yes", " no"]
        samples.append(logged(record, label_prompt(record), asked, likelihoods, scores))
    folder = write_run(tmp_path / "mc", task, {**RESULTS, "configs": {task: config}}, samples)
    out = submit(folder, tmp_path / "mine")
    assert "robust_acc" in verdict(out)
    edit(out, "all", put(*REQUEST, "arg_1", value="yes"))  # as with a chat template
    assert "robust_acc" in verdict(out)
    edit(out, "all", put(*REQUEST, "arg_1", value="no"))
    assert re.search("row 0 .*asked for 'no', not for 'yes'", verdict(out))
    edit(folder, 1, respond(["-1.5", "False"], ["0.5", "True"]))
    with refused("row 1 .*: a log-likelihood is above 0"):
        submit(folder, tmp_path / "likely")


def test_without_a_chat_template_a_prompt_follows_the_system_prompt(submission: Path) -> None:
    edit(submission, "record", put("model", "chat_template", value=False))
    edit(submission, "all", prompt_after(""))
    assert "robust_acc" in verdict(submission)
    edit(submission, "all", prompt_after("Think step by step. "))
    assert "around the prompt stands something else" in verdict(submission)
    system = put("environment", "system_instruction", value="Think step by step. ")
    edit(submission, "record", system)
    assert "robust_acc" in verdict(submission)


def test_the_messages_of_a_chat_are_read(runs: Path, tmp_path: Path) -> None:
    """A server applies its own template: lm-eval logs messages, and no template."""
    folder = Path(shutil.copytree(runs / "out", tmp_path / "out"))
    (results,) = folder.rglob("results_*.json")
    results.write_text(json.dumps(RESULTS | {"chat_template": "", "system_instruction": "Hi."}))

    def change(line: Any) -> None:
        said = {"system": "Hi.", "user": evaluation_prompt(line["doc"])}
        messages = [{"role": role, "content": text} for role, text in said.items()]
        put(*PROMPT, value=[json.dumps(messages, ensure_ascii=False)])(line)

    edit(folder, "all", fitting(change))
    assert "robust_acc" in verdict(submit(folder, tmp_path / "chat"))


def test_samples_are_of_the_task_that_the_record_names(submission: Path, runs: Path) -> None:
    """Another split's task, or likelihoods as answers to a task that reads texts."""
    (path,) = submission.glob("samples_*.jsonl")
    path.rename(path.with_name(path.name.replace("generated", "manual")))
    edit(submission, "record", put("environment", "task", value="pragworld_manual"))
    assert "pragworld_manual is not a task with questions on the split gen" in verdict(submission)
    folder = Path(shutil.copytree(runs / "out", submission.parent / "out"))
    edit(folder, "all", respond(["-1.5", "False"], ["-0.5", "True"]))
    with refused("row 0 .*the task has another number of requests and responses"):
        submit(folder, submission.parent / "new")


def test_a_run_is_submitted_once(submission: Path, runs: Path) -> None:
    edit(submission, "record", put("model", "name", value="someone/else"))
    edit(submission, "record", put("environment", "model_args", "pretrained", value="someone/else"))
    with redirect_stdout(io.StringIO()) as printed, refused("1 of 2 submissions are refused"):
        main(["verify", str(submission), str(runs / "mine")])
    accepted, refusal = printed.getvalue().splitlines()
    assert "someone/else, generated" in accepted
    assert f"refused: {runs / 'mine'}: the run of {submission}" in refusal
    to = ("--to", "leaderboard", "--out", str(submission.parent / "new"))
    with refused(r"2 runs, of base . adapter first; pass the samples_\*.jsonl of one"):
        main(["submit", *2 * [str(runs / "out")], *to])


def test_a_submission_runs_no_code_of_its_own(submission: Path, tmp_path: Path) -> None:
    """The task that a record names decides which file of functions is loaded."""
    (tmp_path / "evil.yaml").write_text("doc_to_text: !function evil.run\n")
    witness = tmp_path / "witness"
    (tmp_path / "evil.py").write_text(f"open({str(witness)!r}, 'w')\n\ndef run(doc): ...\n")
    for task in (str(tmp_path / "evil"), "../evil", "_written", None):
        edit(submission, "record", put("environment", "task", value=task))
        assert "not samples of the task" in verdict(submission)
    assert not witness.exists()
