"""Runs of lm_eval whose figures would be wrong without a word end before their first request."""

import json
import re
from pathlib import Path

import pytest
from json_lines import write_lines
from lm_eval_runs import Evaluation, LmEval
from servers import ChatServer

from pragworld_tasks.tiny import tiny_folder

TINY = f"--model hf --model_args pretrained={tiny_folder()} --batch_size 64"
# No server is there, so a request would end the run with another line.
SERVED = "--model local-completions --model_args tokenizer_backend=huggingface,model="
SERVED += f"{tiny_folder()},base_url=http://127.0.0.1:9/v1"


def last_line(evaluation: Evaluation) -> str:
    assert "Traceback" not in evaluation.log
    return evaluation.log.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "task", "metadata", "line"),
    [
        ("--num_fewshot 2", "pragworld_generated", {}, "--num_fewshot 2: the pragworld tasks are"),
        ("", "pragworld_generated_perplexity", {"Seed": 5}, "'Seed' is not .*'seed', 'split'"),
        (
            "--model_args max_length=9",
            "pragworld_manual,world_model_travel_miami",
            {"repeats": 2, "groups": 1},
            "--metadata: 'groups' is not a setting of the tasks of this run; "
            r"they have \['paraphrases', 'repeats'\]$",
        ),
        ("", "world_model_travel_miami", {"repeats": "ten"}, "'ten' must be a whole number abov"),
        (
            f"{SERVED} --gen_kwargs max_gen_toks=1870",
            "pragworld_generated_label",
            {"groups": 1, "domains": "household"},
            r"the prompt of document \d has \d{3} tokens, and lm-eval would cut it to 177; pass a "
            "smaller max_gen_toks in --gen_kwargs, or a larger max_length in --model_args if",
        ),
        (f"{SERVED} --gen_kwargs max_gen_toks=4096", "pragworld_generated", {}, "cut it to 0;"),
        (
            f"--model_args pretrained={'long/' * 60}model",
            "pragworld_generated",
            {"groups": 1},
            "--output_path .*: File name too long; lm-eval writes to a folder named after the model",
        ),
        (f"{SERVED},max_length=200", "pragworld_generated_mc", {}, "would cut it to 199; pass a"),
        (f"{TINY} --gen_kwargs max_gen_toks=2000", "pragworld_generated", {}, "cut it to 48;"),
    ],
)
def test_the_run(lm_eval: LmEval, options: str, task: str, metadata: object, line: str) -> None:
    words = ("--model", "dummy", *options.split(), "--tasks", task)
    found = last_line(lm_eval(*words, "--metadata", json.dumps(metadata), status=1))
    assert re.search(line, found), found


def test_a_cache_of_responses_belongs_to_one_model(
    lm_eval: LmEval, model_arguments: tuple[str, ...], tmp_path: Path
) -> None:
    options = f"--use_cache {tmp_path}/cache --tasks pragworld_generated_mc".split()
    options += ["--metadata", '{"groups": 1}']
    runs = [lm_eval(*TINY.split(), *options) for _ in range(2)]
    assert "Requests remaining: 0" in runs[1].log
    line = last_line(lm_eval(*model_arguments, *options, status=1))
    assert line.startswith(f"--use_cache {tmp_path}/cache_rank0.db: holds responses of /")


def test_a_cache_of_requests_does_not_bring_those_of_other_settings(lm_eval: LmEval) -> None:
    options = f"{TINY} --cache_requests true --log_samples --tasks pragworld_generated_mc".split()
    for seed in (1, 2):
        run = lm_eval(*options, "--metadata", json.dumps({"groups": 2, "seed": seed}))
        for sample in run.samples("pragworld_generated_mc"):
            assert sample["doc"]["context"] in sample["arguments"]["gen_args_0"]["arg_0"]


def test_long_prompts_are_named_and_responses_in_parts_are_read(
    lm_eval: LmEval, tmp_path: Path
) -> None:
    """Some servers cut long prompts, and others put the model's thoughts before its response."""
    parts = [{"type": "thinking", "thinking": "No?"}, {"type": "text", "text": "Yes."}]
    reply = {"choices": [{"index": 0, "message": {"role": "assistant", "content": parts}}]}
    document = {"context": "Ann: Tea.\n" * 1000, "question": "Is it?", "answer": "yes", "group": 0}
    path = write_lines(tmp_path / "own.jsonl", [document])
    with ChatServer(lambda body: reply).running() as server:
        run = lm_eval(
            *("--model", "local-chat-completions", "--apply_chat_template", "--model_args"),
            f"model=played,base_url={server.url}/chat/completions",
            *("--tasks", "pragworld_own", "--metadata", json.dumps({"documents": str(path)})),
            "--log_samples",
        )
    assert run.samples("pragworld_own")[0]["resps"] == [["Yes."]]
    assert run.metrics("pragworld_own")["acc"] == 1
    assert re.search("the prompt of document 0 has 1.... characters, whose tokens", run.log)
