"""The figures on the pages about results and labels, recomputed from the released answers.

Commands on these pages run in `test_docs.py`. Here are the tables and claims that no command prints.
"""

import operator
import re
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from places import ROOT, SAMPLES
from scipy.stats import spearmanr

from pragworld_tasks.data.breakdowns import question_type
from pragworld_tasks.data.documents import ALTERATIONS, Document
from pragworld_tasks.data.label_readings import label_readings
from pragworld_tasks.data.sources import FILES, read_split
from pragworld_tasks.evaluation.comparison import compare_scores
from pragworld_tasks.evaluation.published import (
    majority_answers,
    published_answers,
    published_models,
)
from pragworld_tasks.evaluation.scoring import ScoreReport, Share, score
from pragworld_tasks.evaluation.statistics import Bools, mcnemar
from pragworld_tasks.grouped.item_analysis import Item, analyze_items
from pragworld_tasks.layers.layer_statistics import holm

RESULTS, LABELS, METRICS, BENCHMARKS = (
    (ROOT / name).read_text()
    for name in ("docs/results.md", "docs/labels.md", "docs/metrics.md", "benchmarks/README.md")
)
Rows = list[dict[str, str]]


def table(page: str, header: str) -> Rows:
    """Return the one table of a page with a column of that name: its rows, as cells by header."""
    tables = re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE)
    (text,) = [text for text in tables if header in text.partition("\n")[0]]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    return [dict(zip(lines[0], row, strict=True)) for row in lines[2:]]


def says(page: str, *claims: str) -> None:
    """Check that a page has these words, however its lines are broken."""
    text = " ".join(page.split())
    assert [claim for claim in claims if claim not in text] == []


def row_numbers(cell: str) -> list[int]:
    """The rows that a cell such as "126 to 128, 130" names."""
    rows: list[int] = []
    for part in re.split(r", | and ", cell):
        first, _, last = part.partition(" to ")
        rows += range(int(first), int(last or first) + 1)
    return rows


@pytest.fixture(scope="module")
def documents(released: Path) -> list[Document]:
    return read_split("manual", released / FILES["manual"].path)


@pytest.fixture(scope="module")
def reports(documents: list[Document]) -> dict[str, ScoreReport]:
    """The reports of all models, the best first."""
    scored = {model: score(documents, published_answers(model)) for model in published_models()}
    return dict(
        sorted(scored.items(), key=lambda model: (-model[1].robust_acc, model[0].casefold()))
    )


@pytest.fixture(scope="module")
def readers(documents: list[Document]) -> ScoreReport:
    return score(documents, majority_answers())


@pytest.fixture(scope="module")
def items(reports: dict[str, ScoreReport]) -> list[Item]:
    return analyze_items(reports)


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_the_example_of_the_first_pages(name: str, items: list[Item]) -> None:
    page = (ROOT / name).read_text()
    group = [item for item in items if item.document.group == 70]
    original, altered = group[0], group[3]
    lines = re.findall(r"^> \*\*(\w:)\*\* (.+?)(?:<br>)?$", page, re.MULTILINE)
    shown = "\n".join(map(" ".join, lines))
    first = re.sub(r"\*\*\$5\*\*(.*) \*\(altered: \*\*\$1\*\*\)\*", r"$5\1", shown)
    assert first in original.document.context
    assert first.replace("$5", "$1") in altered.document.context
    assert f"*{original.document.question}* | Original: $5 | Altered: $1 |" in page
    for model in ("Llama-3.3-70B-Instruct", "gpt-3.5-turbo"):
        assert f"| {model} | {original.answers[model]} | {altered.answers[model]}" in page
    assert {item.answers["gpt-3.5-turbo"] for item in group} == {"yes"}
    says(page, "This group has six questions", "it is right four times")
    assert [item.document.answer for item in group].count("yes") == 4
    both = zip(original.answers.values(), altered.answers.values(), strict=True)
    assert [*both].count(("yes", "yes")) == 7


def with_interval(share: Share) -> str:
    return f"{share.percent:.2f} ({share.interval.low:.0f} to {share.interval.high:.0f})"


def test_the_table_of_results(reports: dict[str, ScoreReport], readers: ScoreReport) -> None:
    shown = table(RESULTS, "p, next row")
    assert [row["Model"] for row in shown] == [*reports, "*readers of the labels*"]
    scored = [*reports.values(), readers]
    for row, report, following in zip(shown, scored, [*scored[1:-1], None, None], strict=True):
        assert row["Published (98 groups)"] == with_interval(report.released["robust_acc"])
        assert row["Corrected (88 groups)"] == with_interval(report.metrics["robust_acc"])
        undisputed = report.metrics["robust_acc_undisputed"]
        assert row["Undisputed (87 groups)"] == with_interval(undisputed)
        assert undisputed.total == 87
        assert row["`acc`"] == f"{report.acc:.2f}"
        assert row["Unreadable"] == str(report.metrics["unreadable"].right)
        groups = compare_scores(report, following).on_groups if following else None
        assert row["p, next row"] == (f"{groups.p:.3g}" if groups else "")


def test_what_the_page_says_of_the_table(
    documents: list[Document], reports: dict[str, ScoreReport], readers: ScoreReport
) -> None:
    best, *others = reports.values()
    assert best.released["robust_acc"].percent < best.robust_acc
    losses = [report.released["robust_acc"].percent - report.robust_acc for report in others]
    assert min(losses) > 0
    gains = [report.robust_acc_undisputed - report.robust_acc for report in reports.values()]
    says(
        RESULTS,
        f"answers {best.robust_acc:.0f} % of the groups",
        f"[readers of the labels](labels.md) reach {readers.robust_acc:.0f} %",
        f"but the first, by up to {max(losses):.1f} points",
        f"by {min(gains):.1f} to {max(gains):.1f} points",
        f"right on all {best.metrics['robust_acc'].right} groups that Llama-3.3-70B answers correctly",
    )
    test = compare_scores(best, readers).on_groups
    assert test
    assert test.only_first == 0
    sizes = Counter(document.released_group for document in documents)
    extra = [
        sizes[document.released_group]
        for document in documents
        if document.released_is_original and not document.is_original
    ]
    assert (len(extra), min(extra), max(extra)) == (10, 1, 3)
    lost = reports["DeepSeek-Coder-V2-Lite-Instruct"].predictions.ours
    assert [row for row, answer in enumerate(lost) if answer is None] == [54, 55, 440, 443, 444]


def test_which_models_can_be_told_apart(
    documents: list[Document], reports: dict[str, ScoreReport]
) -> None:
    group = np.array([document.group for document in documents])
    disputed = np.array([readings.is_disputed for readings in label_readings()])
    # Whether each model is robust on each group: all documents, and the undisputed ones.
    robust = {
        model: [
            [report.arrays.correct[counts & (group == number)].all() for number in range(88)]
            for counts in (np.ones_like(disputed), ~disputed)
        ]
        for model, report in reports.items()
    }
    models = list(reports)
    pairs = list(combinations(models, 2))

    def tests(way: int) -> list[float]:
        right = {model: np.array(robust[model][way]) for model in models}
        return [mcnemar(right[first], right[second]).p for first, second in pairs]

    def different(p: list[float]) -> set[tuple[str, str]]:
        return {pair for pair, value in zip(pairs, p, strict=True) if value < 0.05}

    corrected = different(list(holm(tests(0))))
    first_nine, tenth, last_four = models[:9], models[9], models[10:]
    assert tenth == "Qwen2.5-7B-Instruct"
    apart = {(high, low) for high in first_nine for low in last_four}
    apart |= {(tenth, low) for low in last_four[2:]}
    assert len(apart) == 38
    assert corrected == apart | {(models[0], "gpt-3.5-turbo"), (models[0], tenth)}
    assert len(pairs) == 91
    says(RESULTS, f"{len(corrected)} of {len(pairs)} pairs differ", "38 of the 40 pairs")
    low, high = (f"{reports[models[place]].robust_acc:.0f}" for place in (7, 0))
    says(RESULTS, f"robust accuracy ranges from {high} to {low} %")

    uncorrected = different(tests(0))
    says(RESULTS, f"Without the correction, {len(uncorrected)} pairs")
    more = {second for first, second in uncorrected - corrected if first == models[0]}
    assert more == set(models[4:8])
    assert uncorrected & set(pairwise(models)) == {(models[9], models[10])}
    undisputed = different(list(holm(tests(1))))
    assert undisputed == corrected | {(models[9], models[10])}
    says(RESULTS, f"{len(undisputed)} pairs differ after the correction")

    accuracies = [reports[model].acc for model in last_four]
    yes = 100 * (next(iter(reports.values())).arrays.gold == 0).mean()
    says(
        RESULTS,
        f"accuracy is {min(accuracies):.0f} to {max(accuracies):.0f} %",
        f"a model that always answers yes has {yes:.0f} %",
    )
    points = {
        (first, second): reports[first].robust_acc - reports[second].robust_acc
        for first, second in combinations(models[:10], 2)
    }
    assert {pair for pair in points if points[pair] > 12} <= uncorrected
    assert not {pair for pair in points if points[pair] < 10} & uncorrected


def test_entity_tracking_and_table_3(released: Path) -> None:
    documents = read_split("entity_tracking", released / FILES["entity_tracking"].path)
    lines = (SAMPLES / "published_figures.csv").read_text().splitlines()
    differences = []
    for _, split, model, metric, percent in (line.split(",") for line in lines[1:]):
        if split == "entity_tracking":
            report = score(documents, published_answers(model, "entity_tracking"))
            differences.append(abs(report.released[metric].percent - float(percent)))
    says(RESULTS, f"differ by up to {max(differences):.1f} points")


def test_the_table_of_disputed_labels(documents: list[Document], items: list[Item]) -> None:
    rows: list[int] = []
    for line in table(LABELS, "Why it is disputed"):
        for row in row_numbers(line["Rows"]):
            rows.append(row)
            document, readings = documents[row], label_readings()[row]
            unsure = 3 - sum(readings.sure)
            note = {0: "", 2: " (two unsure)", 3: " (all unsure)"}[unsure]
            assert line["Group"] == str(document.group)
            assert line["Question"] == " ".join(document.question.split())
            assert line["Gold"] == document.answer
            assert line["Readings"] == ", ".join(readings.readings) + note
            assert line["Models"] == str(items[row].right)
    assert sorted(rows) == [item.document.row for item in items if item.is_disputed]
    assert len(rows) == 17


def test_how_the_readers_agree() -> None:
    gold = [row.gold for row in label_readings()]
    readers = [[row.answers[number] for row in label_readings()] for number in range(3)]
    same = [sum(map(operator.eq, answers, gold)) for answers in readers]
    pairs = {sum(map(operator.eq, *pair)) for pair in combinations(readers, 2)}
    says(
        LABELS,
        "with {}, {} and {} of the 500 labels".format(*same),
        f"each pair of readers agrees on {min(pairs)} or {max(pairs)}",
    )


def test_what_the_page_says_of_the_labels(documents: list[Document], items: list[Item]) -> None:
    disputed = [item for item in items if item.is_disputed]
    against = [
        model
        for model in items[0].answers
        if not any(item.answers[model] == item.document.answer for item in disputed)
    ]
    names = {model.removesuffix("-Instruct").removesuffix("-instruct") for model in against}
    assert names == {"Qwen2.5-72B", "Llama-3.1-8B", "Phi-3.5-mini", "gpt-3.5-turbo"}
    readings = label_readings()
    sure = [row for row in readings if row.is_disputed and all(row.sure)]
    assert {row.row for row in sure} >= {*range(125, 129), *range(130, 135), 366}
    undetermined = [row.row for row in readings if row.is_undetermined]
    (listed,) = re.findall(r"The rows are ([^.]+)\.", " ".join(LABELS.split()))
    assert row_numbers(listed) == undetermined
    groups = {documents[row].group for row in undetermined}
    says(LABELS, f"On {len(undetermined)} rows in {len(groups)} groups")

    assert score(documents, ["no"] * 500).metrics["undetermined_acc"].percent == 100


def test_the_metrics_of_gpt_35(reports: dict[str, ScoreReport]) -> None:
    report = reports["gpt-3.5-turbo"]
    shown = {row["Metric"].strip("`"): row for row in table(METRICS, "Published (Table 1)")}
    assert list(shown) == list(report.metrics)
    for name, share in report.metrics.items():
        figure = f"{share.right}/{share.total} = {share.percent:.2f}"
        assert shown[name]["GPT-3.5, manual split"] in (figure, figure.partition(" = ")[0])


class Answers:
    """How the models answer the manual split: arrays of documents, or of [models, documents].

    `original` says whether the answer to the original of a document's group is as labelled.
    """

    def __init__(self, items: list[Item], models: list[str]) -> None:
        documents = [item.document for item in items]
        self.correct = np.array(
            [[item.answers[model] == item.document.answer for item in items] for model in models]
        )
        self.group = np.array([document.group for document in documents])
        first = {document.group: document.row for document in documents if document.is_original}
        self.original = self.correct[:, [first[document.group] for document in documents]]
        self.yes = np.array([document.answer == "yes" for document in documents])
        self.flips = np.array([document.effect == "flip" for document in documents])
        self.keeps = np.array([document.effect == "invariant" for document in documents])
        self.disputed = np.array([item.is_disputed for item in items])
        self.kind = np.array([question_type(document) for document in documents])
        self.alteration = np.array([document.alteration or "" for document in documents])

    def accuracy(self, covered: Bools, models: slice = slice(None)) -> str:
        return f"{100 * self.correct[models][:, covered].mean():.1f}"

    def given_the_original(self, covered: Bools, models: slice = slice(None)) -> str:
        """The same, of models that answer the group's original as labelled."""
        return f"{100 * self.share_given_the_original(covered, models):.1f}"

    def share_given_the_original(self, covered: Bools, models: slice) -> float:
        original = self.original[models][:, covered]
        return float(self.correct[models][:, covered][original].mean())


TEN = slice(10)


@pytest.fixture(scope="module")
def answers(items: list[Item], reports: dict[str, ScoreReport]) -> Answers:
    return Answers(items, list(reports))


def test_how_many_models_answer_as_labelled(answers: Answers, items: list[Item]) -> None:
    right, of_ten = (answers.correct[way].sum(axis=0) for way in (slice(None), TEN))
    says(
        LABELS,
        f"All 14 models answer {(right == 14).sum()} of the 500 questions as labelled, and all 14 "
        f"miss {(right == 0).sum()}. The ten best models all answer {(of_ten == 10).sum()} as labelled "
        f"and all miss {(of_ten == 0).sum()}, so {np.isin(of_ten, (0, 10)).sum()} questions say",
    )
    nobody = [item for item in items if item.right == 0]
    assert [item.document.row for item in nobody if not item.is_disputed] == [231]


def test_sure_and_know(answers: Answers, items: list[Item]) -> None:
    asks = {
        "*sure*": answers.kind == "sure",
        "*know*": answers.kind == "know",
        "all others": ~np.isin(answers.kind, ("sure", "know")),
    }
    for row in table(LABELS, "Question type"):
        members = asks[row["Question type"]] & (answers.yes == (row["Gold"] == "yes"))
        by_model = 100 * answers.correct[:, members].mean(axis=1)
        assert row["Documents"] == str(members.sum())
        assert row["All 14 models"] == answers.accuracy(members)
        assert row["The ten best"] == answers.accuracy(members, TEN)
        assert row["Lowest and highest model"] == f"{by_model.min():.0f} to {by_model.max():.0f}"

    sure = asks["*sure*"] & answers.yes
    never = (~answers.correct[TEN][:, sure].any(axis=1)).sum()
    assert never == 5
    says(LABELS, "Five of them never answer as labelled when gold is yes")
    undisputed = sure & ~answers.disputed
    says(
        LABELS,
        f"Without them, {undisputed.sum()} questions with gold yes remain, and "
        f"{answers.accuracy(undisputed)} % of the answers are as labelled",
    )
    groups = sorted(set(answers.group[sure]))
    robust = sum(
        int(answers.correct[TEN][:, answers.group == group].all(axis=1).sum()) for group in groups
    )
    says(
        LABELS,
        f"spread over {len(groups)} of the 88 groups",
        f"robust in {robust} of {10 * len(groups)} cases",
        f"scores at most {100 * (88 - len(groups)) / 88:.0f} %",
    )


def test_the_table_of_alterations(answers: Answers) -> None:
    rows = table(LABELS, "Flips: documents")
    assert [row["Alteration"] for row in rows] == [*ALTERATIONS, "all"]
    for row in rows:
        of_kind = (answers.alteration == row["Alteration"]) | (row["Alteration"] == "all")
        for effect, members in (("Flips", answers.flips), ("Keeps", answers.keeps)):
            covered = members & of_kind
            assert row[f"{effect}: documents"] == str(covered.sum())
            assert row[f"{effect}: correct"] == answers.accuracy(covered)
            share = answers.given_the_original(covered)
            assert row[f"{effect}: correct if the original is"] == share
    says(
        LABELS,
        f"answers {float(answers.given_the_original(answers.keeps)):.0f} % of the variants that",
        f"only {float(answers.given_the_original(answers.flips)):.0f} % of the variants that",
    )


def test_what_separates_models(answers: Answers, reports: dict[str, ScoreReport]) -> None:
    rows = table(BENCHMARKS, "`flip_acc`")
    assert [row["Model"] for row in rows] == list(reports)
    given = []
    for number, (row, report) in enumerate(zip(rows, reports.values(), strict=True)):
        model = slice(number, number + 1)
        given.append(100 * answers.share_given_the_original(answers.flips, model))
        assert row["`robust_acc`"] == f"{report.robust_acc:.1f}"
        assert row["`original_acc`"] == f"{report.original_acc:.1f}"
        assert row["`flip_acc`"] == f"{report.flip_acc:.1f}"
        keeps, flips = (row[f"{way}, if the original is correct"] for way in ("Keeps", "Flips"))
        assert keeps == answers.given_the_original(answers.keeps, model)
        assert flips == f"{given[-1]:.1f}"
    correlation = spearmanr(given, [report.robust_acc for report in reports.values()]).statistic
    missed = answers.correct[:, answers.flips][~answers.original[:, answers.flips]].mean()
    says(
        LABELS,
        f"models answer {min(given):.0f} to {max(given):.0f} % of the flips correctly",
        f"rank correlation {correlation:.2f}",
        f"Where the 14 models miss the original, {100 * missed:.0f} % of the flips are correct",
    )
