"""A small leaderboard for tests, with names and responses that try to be more than text."""

from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from browser_pages import HOSTILE, HOSTILE_NAME
from layer_reports import make_documents, make_report, to_yes

from pragworld_interp import EXAMPLES
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.evaluation.responses import AnswerRecord, Predictions
from pragworld_tasks.evaluation.run_record import EnvironmentRecord, ModelRecord, to_record
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

NAMES = ("good", "middling", "sure", HOSTILE_NAME)


@cache
def small_board(groups: int = 8) -> Board:
    """Return a board of four runs on generated dialogues, of which one says how sure it is."""
    documents = generate_documents(groups=groups, seed=3)
    random = Random(0)
    shares = dict(zip(NAMES, (0.95, 0.7, 0.6, 0), strict=True))
    runs = []
    for name, share in shares.items():
        gold = [document.answer for document in documents]
        answers = [answer if random.random() < share else "no" for answer in gold]
        predictions = Predictions.from_responses(
            [HOSTILE[row % len(HOSTILE)] for row in range(len(gold))]
            if name == HOSTILE_NAME
            else answers
        )
        if name == "sure":
            yes = [0.5 + (random.random() / 2) * (1 if said == "yes" else -1) for said in answers]
            chosen = zip(answers, yes, strict=True)
            predictions = Predictions(
                [
                    AnswerRecord(row=row, answer=answer, released=answer, yes=probability)
                    for row, (answer, probability) in enumerate(chosen)
                ]
            )
        runs.append(_run(name, documents, predictions))
    (board,) = make_boards(runs)
    return board


def _run(name: str, documents: list[Document], predictions: Predictions) -> BoardRun:
    record = to_record(score(documents, predictions), ModelRecord(name=name))
    if name == HOSTILE_NAME:
        texts = {f"{key}{name}": f"{value}{name}" for key, value in (("a", "1"), ("b", '"2'))}
        record = record.model_copy(
            update={
                "model": ModelRecord(
                    name=name, revision=name, adapter=name, dtype=name, quantization=name
                ),
                "environment": EnvironmentRecord(
                    task=name,
                    backend=name,
                    model_args=texts,
                    generation=texts,
                    system_instruction=f"{name}\n{HOSTILE[1]}",
                    packages=texts,
                    date=name,
                ),
            }
        )
    return BoardRun(name, record, score(documents, record.predictions))


@cache
def layer_reports() -> tuple[LayerReport, LayerReport]:
    """Return a report with a useful and a harmful layer by evidence, and a hostile, deeper one."""
    documents = make_documents([5] * 40)
    random = np.random.default_rng(0)
    shares = (0.6, 0.6, 0.2, 0.6, 0.95)  # right in the plain run, then with each layer ablated
    right = [(random.random(len(documents)) < share).tolist() for share in shares]
    return (
        make_report(documents, to_yes(documents, right), "org/clear"),
        make_report(documents, random.random((len(documents), 8)), HOSTILE_NAME),
    )


@cache
def sensitivity_report() -> SensitivityReport:
    """Return the decompositions of two models on a question of two domains and on an own one."""
    random = np.random.default_rng(1)
    samples = []
    for model, effect in (("org/worded", 1.0), (HOSTILE_NAME, 0.0)):
        for question in ("travel_miami", "travel_sydney", "own"):
            prompts = tuple(
                SampledPrompt(intent, paraphrase, "slot", values, copied=False)
                for intent in range(3)
                for paraphrase in range(4)
                for values in [
                    tuple(
                        float(value)
                        for value in random.normal(effect * (9 * intent + paraphrase), 1, 6)
                    )
                ]
            )
            samples.append(ModelSamples(Path(question), model, question, "hours", prompts, ()))
    return decompose_samples(samples, draws=50)


def write_board(board: Board, folder: Path) -> Path:
    """Write the site of a board, with the pages of layers and sensitivity, and return its folder.

    The files behind these pages are written beside the folder.
    """
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
