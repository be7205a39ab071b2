"""A small leaderboard for tests, with names and responses that try to be more than text."""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from browser_pages import HOSTILE, HOSTILE_NAME
from layer_reports import make_documents, make_report, random_report, to_yes

from pragworld_interp import EXAMPLES
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.evaluation.responses import AnswerRecord, Predictions
from pragworld_tasks.evaluation.run_record import EnvironmentRecord, ModelRecord, RunKind
from pragworld_tasks.evaluation.runs import NamedRun
from pragworld_tasks.evaluation.scoring import score
from pragworld_tasks.files import write_json
from pragworld_tasks.layers.ablation_report import LayerReport
from pragworld_tasks.layers.page import read_sweeps
from pragworld_tasks.leaderboard.board_command import write_site
from pragworld_tasks.leaderboard.boards import Board, BoardRun, make_boards
from pragworld_tasks.leaderboard.pages import render_site
from pragworld_tasks.sensitivity.report import (
    SensitivityReport,
    decompose_samples,
    read_decompositions,
)
from pragworld_tasks.sensitivity.samples import ModelSamples, SampledPrompt


def make_run(
    name: str,
    documents: Sequence[Document],
    answers: Sequence[str | None] | Predictions | None = None,
    model: ModelRecord | None = None,
    source: RunKind = "responses",
    **ran: Any,
) -> BoardRun:
    """Return a run that gives these answers, else the gold ones; `NamedRun` takes the rest."""
    report = score(documents, answers or [document.answer for document in documents])
    model = model or ModelRecord(name=name)
    run = NamedRun(name, source, report.split, report.predictions, model, **ran)
    return BoardRun(name, run.to_record(report), report)


def likelier(yes: Iterable[float]) -> Predictions:
    """Return the likelier labels by the probabilities of yes; none where it is 0.5."""
    pairs = [(math.log(p), math.log(1 - p)) for p in yes]
    return Predictions([AnswerRecord.of_likelihoods(row, logs) for row, logs in enumerate(pairs)])


@cache
def small_board(groups: int = 8) -> Board:
    """Return a board of four runs on generated dialogues, of which one says how sure it is."""
    documents = generate_documents(groups=groups, seed=3)
    random = Random(0)

    def answers(share: float) -> list[str]:
        """Return the gold answer to a share of the documents, and no to the others."""
        return [document.answer if random.random() < share else "no" for document in documents]

    sure = [0.5 + random.random() / 2 * (1 if said == "yes" else -1) for said in answers(0.6)]
    names = ("name", "revision", "adapter", "dtype", "quantization")
    model = ModelRecord.model_validate(dict.fromkeys(names, HOSTILE_NAME))
    texts = {f"a{HOSTILE_NAME}": f"1{HOSTILE_NAME}", f"b{HOSTILE_NAME}": f'"2{HOSTILE_NAME}'}
    ran = {
        **dict.fromkeys(("task", "backend", "date"), HOSTILE_NAME),
        **dict.fromkeys(("generation", "packages"), texts),
        "model_args": {"pretrained": HOSTILE_NAME},
        "system_instruction": f"{HOSTILE_NAME}\n{HOSTILE[1]}",
    }
    environment = EnvironmentRecord.model_validate(ran)
    hostile = [HOSTILE[row % len(HOSTILE)] for row in range(len(documents))]
    runs = [
        make_run("good", documents, answers(0.95)),
        make_run("middling", documents, answers(0.7)),
        make_run("sure", documents, likelier(sure)),
        make_run(HOSTILE_NAME, documents, hostile, model, environment=environment),
    ]
    (board,) = make_boards(runs)
    return board


@cache
def layer_reports() -> tuple[LayerReport, LayerReport]:
    """Return a report with a useful and a harmful layer by evidence, and a hostile, deeper one."""
    documents = make_documents([5] * 40)
    random = np.random.default_rng(0)
    shares = (0.6, 0.6, 0.2, 0.6, 0.95)  # right in the plain run, then with each layer ablated
    right = [(random.random(len(documents)) < share).tolist() for share in shares]
    clear = make_report(documents, to_yes(documents, right), "org/clear")
    return clear, random_report(7, name=HOSTILE_NAME)


@cache
def sensitivity_report() -> SensitivityReport:
    """Return the decompositions of two models on a question of two domains and on an own one."""
    random = np.random.default_rng(1)
    effects, samples = {"org/worded": 1.0, HOSTILE_NAME: 0.0}, []
    for model, question in product(effects, ("travel_miami", "travel_sydney", "own")):
        prompts = []
        for intent, paraphrase in product(range(3), range(4)):
            values = random.normal(effects[model] * (9 * intent + paraphrase), 1, 6).tolist()
            prompts.append(SampledPrompt(intent, paraphrase, "slot", tuple(values), False))
        samples.append(ModelSamples(Path(question), model, question, "hours", tuple(prompts), ()))
    return decompose_samples(samples, draws=50)


def write_board(board: Board, folder: Path) -> Path:
    """Write the site of a board, with pages of layers and sensitivity, whose files go beside it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    files = [EXAMPLES / "patching.json"]
    for number, report in enumerate(layer_reports()):
        files.append(folder.parent / f"layers_{number}.json")
        report.write(files[-1])
    decomposition = folder.parent / "decomposition.json"
    write_json(decomposition, sensitivity_report().to_json())
    site = render_site([board], read_sweeps(files), read_decompositions([decomposition]))
    write_site(site, folder, overwrite=False)
    return folder
