"""The Inspect task and the Hub's description of the benchmark, in an environment with inspect_ai.

PRAGWORLD_INSPECT names the Python of that environment: the versions that inspect_ai needs are not
those of our own. It takes pragworld from this checkout.
"""

import json
import math
import os
import re
import subprocess

import hub_dataset
import pytest
from places import ROOT, SAMPLES

from pragworld_tasks.data.prompts import evaluation_prompt
from pragworld_tasks.data.sources import FILES, read_split
from pragworld_tasks.evaluation.metrics import shown_tallies
from pragworld_tasks.evaluation.scoring import score

# A model of Inspect's that answers by the length of the prompt, and what both tasks measure of it.
SCRIPT = """
import json, sys
from pathlib import Path
import huggingface_hub
from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model
sys.path.insert(0, sys.argv[1])
from pragworld import pragworld

replies = json.loads(sys.argv[2])
def reply(messages, tools, tool_choice, config):
    text = replies[len(messages[-1].text) % len(replies)]
    output = ModelOutput.from_content("mockllm/model", text)
    output.usage = ModelUsage()  # else the mock downloads a tokenizer to count with
    return output
def run(task, **limit):
    model = get_model("mockllm/model", custom_outputs=reply, memoize=False)
    (log,) = eval(task, model=model, display="none", log_dir="logs", **limit)
    assert log.status == "success", log.error.message
    return {name: found.value for name, found in log.results.scores[0].metrics.items()}

huggingface_hub.hf_hub_download = lambda repo_id, filename, **_: str(Path(repo_id, filename))
figures = [run(pragworld()), run(pragworld(), limit=6), run("hf/me/mine/pragworld_manual_acc")]
print(json.dumps(figures))
"""
REPLIES = ("Yes.", "(No)\nbecause", "Perhaps", "no", "I'd say yes.")


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, float]]:
    """What Inspect reports of the task, of its first six samples, and of the Hub's task."""
    python = os.environ.get("PRAGWORLD_INSPECT")
    if not python:
        pytest.skip("an environment with inspect_ai: set PRAGWORLD_INSPECT to its Python")
    folder = tmp_path_factory.mktemp("inspect")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAGWORLD_DATA", str(SAMPLES))
        hub_dataset.main(["--out", str(folder / "me" / "mine")])
    environment = {"PRAGWORLD_DATA": str(SAMPLES), "PYTHONPATH": str(ROOT)}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(folder / "cache")}
    process = subprocess.run(
        [python, "-c", SCRIPT, str(ROOT / "examples" / "inspect"), json.dumps(REPLIES)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **environment},
    )
    assert process.returncode == 0, process.stderr
    printed: list[dict[str, float]] = json.loads(process.stdout.splitlines()[-1])
    return printed


DOCUMENTS = read_split("manual", SAMPLES / FILES["manual"].path)
RESPONSES = [REPLIES[len(evaluation_prompt(document)) % len(REPLIES)] for document in DOCUMENTS]


def expected(documents: int) -> dict[str, float]:
    """What we make of the first documents."""
    arrays = score(DOCUMENTS[:documents], RESPONSES[:documents]).arrays
    shares = shown_tallies(arrays, "manual")
    values = {name: tally.share for name, tally in shares.items()}
    values |= {f"{name}_stderr": tally.standard_error for name, tally in shares.items()}
    return {name: value for name, value in values.items() if not math.isnan(value)}


def test_inspect_reports_our_figures(figures: list[dict[str, float]]) -> None:
    assert figures[0] == pytest.approx(expected(len(DOCUMENTS)))


def test_a_limited_run_counts_complete_groups(figures: list[dict[str, float]]) -> None:
    assert [document.group for document in DOCUMENTS] == [0] * 4 + [1] * 4 + [2] * 2
    limited, complete = expected(6), expected(4)
    for values, is_robust in ((limited, False), (complete, True)):
        for name in [name for name in values if name.startswith("robust") != is_robust]:
            del values[name]
    assert figures[1] == pytest.approx(limited | complete)


def test_the_hubs_task_reports_accuracy(figures: list[dict[str, float]]) -> None:
    answers = [re.match(r"[\W_]*(yes|no)\b", response.lower()) for response in RESPONSES]
    right = [
        answer is not None and answer[1] == document.answer
        for document, answer in zip(DOCUMENTS, answers, strict=True)
    ]
    assert 0 < sum(right) < len(right)
    assert figures[2]["accuracy"] == pytest.approx(sum(right) / len(right))
