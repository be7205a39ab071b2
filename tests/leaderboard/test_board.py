"""The leaderboard's pages: their figures, what is in them, and how they are written."""

import csv
import html
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from board_sites import layer_reports, sensitivity_report, small_board, write_board
from browser_pages import HOSTILE, HOSTILE_NAME
from command_runs import refused
from places import SAMPLES

from pragworld_interp import EXAMPLES, read_patching
from pragworld_tasks.cli import main
from pragworld_tasks.data.documents import Answer, Document
from pragworld_tasks.data.sources import FILES
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.dialogues.tracking import tracking_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.comparison import compare_scores
from pragworld_tasks.evaluation.run_record import EnvironmentRecord, ModelRecord, to_record
from pragworld_tasks.evaluation.scoring import Share, score
from pragworld_tasks.evaluation.task_metrics import to_records
from pragworld_tasks.layers.ablation_report import p_text
from pragworld_tasks.layers.files import by_title
from pragworld_tasks.layers.page import color_of
from pragworld_tasks.leaderboard import pages
from pragworld_tasks.leaderboard.board_command import write_site
from pragworld_tasks.leaderboard.boards import Board, BoardRun, load_runs, make_boards
from pragworld_tasks.leaderboard.dialogues_page import LONGEST_RESPONSE, dialogues_content
from pragworld_tasks.leaderboard.pages import published_rows, render_site
from pragworld_tasks.leaderboard.run_page import calibrate, lm_eval_command
from pragworld_tasks.text import format_interval, format_percent, format_points


@pytest.fixture(scope="module")
def board() -> Board:
    return small_board()


@pytest.fixture(scope="module")
def site(board: Board, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_board(board, tmp_path_factory.mktemp("board") / "site")


class _Page(HTMLParser):
    """The start tags of a page with the text right behind each, and all text by parent tag."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.text.append("")

    def handle_data(self, data: str) -> None:
        if self.text:
            self.text[-1] += data

    def cells(self, *marks: str) -> Iterator[tuple[str | None, dict[str, str | None], list[str]]]:
        """Yield the mark of the row, the attributes and the texts of each cell with a figure."""
        mark = None
        for number, (tag, attributes) in enumerate(self.tags):
            mark = next((attributes[name] for name in marks if name in attributes), mark)
            if tag == "td" and "data-right" in attributes:
                end = next(
                    later
                    for later in range(number + 1, len(self.tags) + 1)
                    if later == len(self.tags) or self.tags[later][0] not in ("span", "svg", "rect")
                )
                yield mark, attributes, [text.strip() for text in self.text[number:end]]

    def rows(self, attribute: str, value: str) -> list[list[str]]:
        """Return the texts of the cells of a table that has the attribute, row by row."""
        rows: list[list[str]] = []
        inside = False
        for (tag, attributes), text in zip(self.tags, self.text, strict=True):
            if tag == "table":
                inside = attributes.get(attribute) == value
            elif inside and tag == "tr":
                rows.append([])
            elif inside and tag in ("td", "th"):
                rows[-1].append(text.strip())
            elif inside and rows and rows[-1] and tag in ("bdi", "span"):
                rows[-1][-1] = f"{rows[-1][-1]} {text.strip()}".strip()
        return rows

    def data(self) -> Any:
        """Return the data that the page's script reads."""
        places = [
            number
            for number, (_, attributes) in enumerate(self.tags)
            if attributes.get("id") == "data"
        ]
        return json.loads(self.text[places[0]])


def _check(share: Share, attributes: dict[str, str | None], texts: list[str]) -> None:
    """Check a cell's figures, to the last digit and as they are read."""
    shown = [float(attributes.get(f"data-{name}") or "nan") for name in ("value", "low", "high")]
    expected = [share.percent, *share.interval]
    assert shown == pytest.approx(expected, rel=0, abs=0, nan_ok=True)
    assert (attributes["data-right"], attributes["data-total"]) == (
        str(share.right),
        str(share.total),
    )
    assert format_percent(share.percent) in texts
    assert len(texts) < 3 or format_interval(share.interval) in texts


def test_every_figure_of_the_leaderboard_is_that_of_score(board: Board, site: Path) -> None:
    reports = {run.name: run.report for run in board.runs}
    seen = set()
    for name, attributes, texts in _Page(site / "index.html").cells("data-run"):
        assert name
        metric = attributes["data-key"] or ""
        _check(reports[name].metrics[metric], attributes, texts)
        seen.add((name, metric))
    assert len(seen) == len(reports) * len(reports["good"].metrics)


def test_every_figure_of_a_run_is_that_of_score(board: Board, site: Path) -> None:
    (run,) = (run for run in board.runs if run.name == "sure")
    cells = list(_Page(site / board.run_pages["sure"]).cells("data-metric", "data-class"))
    metrics = [cell for cell in cells if cell[0] in run.report.metrics]
    assert [name for name, *_ in metrics] == list(run.report.metrics)
    for name, attributes, texts in metrics:
        assert name
        _check(run.report.metrics[name], attributes, texts)
    breakdowns = [
        share
        for classes in run.report.breakdowns.values()
        for by_gold in classes.values()
        for share in by_gold.values()
        if share.total
    ]
    for share, (_, attributes, texts) in zip(breakdowns, cells[len(metrics) :], strict=True):
        _check(share, attributes, texts)


def test_every_comparison_of_two_runs_is_that_of_compare_scores(board: Board, site: Path) -> None:
    data = _Page(site / f"{board.slug}-compare.html").data()
    assert data["runs"] == [run.name for run in board.runs]
    for first, run in enumerate(board.runs):
        assert data["percents"][first] == [
            format_percent(share.percent) for share in run.report.metrics.values()
        ]
        for second, other in enumerate(board.runs):
            if first == second:
                continue
            comparison = compare_scores(run.report, other.report)
            pair = data["pairs"][f"{first}-{second}"]
            assert [cells[:2] for cells in pair["differences"]] == [
                [format_points(difference.points), format_interval(difference.interval)]
                for difference in comparison.differences.values()
            ]
            tests = (comparison.on_groups, comparison.by_group, comparison.on_documents)
            assert [shown[1:] for shown in pair["tests"]] == [
                [*test[:2], f"{test.p:.3g}"] for test in tests if test
            ]
            assert (pair["p"], pair["differ"]) == (f"{comparison.p:.3g}", comparison.p < 0.05)
            only_first = sum(
                (right, wrong) == ("1", "0")
                for right, wrong in zip(data["right"][first], data["right"][second], strict=True)
            )
            assert comparison.on_groups
            assert only_first == comparison.on_groups.only_first


def test_ranks_and_the_models_that_are_not_told_apart_are_shown(board: Board, site: Path) -> None:
    page = _Page(site / "index.html")
    shown = {
        row[1].split(" ")[0]: (row[0], row[-1]) for row in page.rows("class", "leaderboard")[1::2]
    }
    text = (site / "index.html").read_text()
    for run in board.models:
        rank = board.ranks[run.name]
        alike = {
            other.name: comparison.p
            for other in board.models
            if other is not run
            for comparison in [compare_scores(run.report, other.report)]
            if comparison.p >= 0.05
        }
        assert board.alike(run.name) == pytest.approx(alike)
        key = run.name.split(" ")[0]
        assert shown[key] == (f"{rank.place} {rank.low} to {rank.high}", str(len(alike)))
        for name, p in alike.items():
            assert f"<bdi>{html.escape(name)}</bdi> (p&nbsp;=&nbsp;{p:.3g})" in text


def make_run(name: str, documents: Sequence[Document], responses: Sequence[str | None]) -> BoardRun:
    """A run that gives these responses."""
    report = score(documents, responses)
    return BoardRun(name, to_record(report, ModelRecord(name=name)), report)


def test_groups_of_any_numbers_are_linked_by_their_own(tmp_path: Path) -> None:
    documents = [
        replace(document, group=10 * document.group - 7)
        for document in generate_documents(groups=3)
    ]
    right = [document.answer for document in documents]
    wrong = [document.answer if document.group != 13 else "unclear" for document in documents]
    runs = [make_run("all right", documents, right), make_run("third wrong", documents, wrong)]
    (board,) = make_boards(runs)
    write_site(render_site([board]), tmp_path / "site", overwrite=False)
    data = _Page(tmp_path / "site" / f"{board.slug}-compare.html").data()
    assert data["numbers"] == [-7, 3, 13]
    assert dict(zip(data["runs"], data["right"], strict=True)) == {
        "all right": "111",
        "third wrong": "110",
    }
    assert 'id="group--7"' in (tmp_path / "site" / f"{board.slug}-dialogues.html").read_text()


def test_a_group_is_shown_once_whatever_the_order_of_its_documents() -> None:
    mixed = sorted(generate_documents(groups=2), key=lambda document: document.is_original)
    documents = [replace(document, row=row) for row, document in enumerate(mixed)]
    (board,) = make_boards([make_run("one", documents, [one.answer for one in documents])])
    groups = dialogues_content(board)["groups"]
    assert len(groups) == 2
    for number, views in groups:
        shown = [view.document for view in views]
        own = [document for document in documents if document.group == number]
        assert shown == [own[-1], *own[:-1]]
        changed = [
            any(piece.change != "same" for line in view.context for piece in line) for view in views
        ]
        assert changed == [False] + [True] * (len(own) - 1)


def test_runs_on_the_same_texts_share_a_board_only_if_they_share_groups() -> None:
    documents = generate_documents(groups=2)
    own = [replace(document, split="own") for document in documents]
    moved = [replace(document, group=9 - document.group) for document in own]
    gold = [document.answer for document in documents]
    first, second = make_run("a", documents, gold), make_run("b", own, gold)
    boards = make_boards([first, second, make_run("c", own, gold)])
    assert [[one.name for one in board.runs] for board in boards] == [["a"], ["b", "c"]]
    assert [board.title for board in boards] == ["generated", "own"]
    with pytest.raises(InputError, match=r"^c and b: the same texts, but other groups"):
        make_boards([second, make_run("c", moved, gold)])


def test_runs_on_a_split_without_alterations_are_told_apart_by_conversations() -> None:
    documents = list(tracking_documents(GeneratorSettings(groups=12)))
    gold = [document.answer for document in documents]
    # Five conversations wrong as a whole: many documents, but few that are independent.
    some = [
        {"yes": "no", "no": "yes"}[document.answer] if document.group < 5 else document.answer
        for document in documents
    ]
    runs = [make_run("all right", documents, gold), make_run("five wrong", documents, some)]
    (board,) = make_boards(runs)
    (comparison,) = board.comparisons.values()
    assert comparison.on_documents.p < 1e-6
    assert comparison.by_group == (5, 0, 2 / 2**5)
    assert board.alike("all right") == {"five wrong": 2 / 2**5}


def test_every_figure_of_a_layer_is_that_of_its_report(site: Path) -> None:
    page = _Page(site / "layers.html")
    for title, report in by_title(layer_reports()).items():
        head, *rows = page.rows("data-layers", title)
        assert len(head) == 8
        for row, layer in zip(rows, report.layers, strict=True):
            robust = layer.robust_accuracy
            assert robust
            assert row == [
                layer.target.name,
                format_percent(layer.accuracy.share.percent),
                format_points(layer.accuracy.difference.points),
                format_interval(layer.accuracy.difference.interval),
                format_points(robust.difference.points),
                p_text(layer.holm),
                layer.sign,
                layer.evidence,
            ]
    clear = layer_reports()[0]
    assert (clear.selected("useful", "evidence"), clear.selected("harmful", "evidence")) == (
        [1],
        [3],
    )
    colors = [attributes.get("class") for tag, attributes in page.tags if tag == "rect"]
    assert colors.count("evident") == 2
    assert [color_of(layer.accuracy.difference.points) for layer in clear.layers] == [
        color for color in colors[13 : 13 + 6] if color != "evident"
    ]
    patching = read_patching(EXAMPLES / "patching.json")
    average = patching.averages()["all"]
    shown = page.rows("data-patched", "tiny")[1:]
    assert [row[1] for row in shown] == [f"{p:.3f}" for p in average.probability]


def test_every_share_of_sensitivity_is_that_of_its_report(site: Path) -> None:
    page = _Page(site / "sensitivity.html")
    report = sensitivity_report()
    for domain in ("travel", "own"):
        rows = page.rows("data-domain", domain)[1:]
        means = [mean for mean in report.domains if mean.domain == domain]
        for row, mean in zip(rows, means, strict=True):
            floors = [task.floor for task in report.tasks_of(mean.model, domain)]
            shown = [
                *(mean.published[name] for name in ("ps", "as")),
                mean.unbiased["as"],
                *(mean.published[name] for name in ("mu", "mvs")),
            ]
            texts = [f"{share.value:.3f} ± {share.standard_error:.3f}" for share in shown]
            texts.insert(2, f"{sum(floors) / len(floors):.3f}")
            assert row == [mean.model, "", *texts, str(mean.questions)]


def test_every_document_is_on_the_page_of_dialogues(board: Board, site: Path) -> None:
    page = _Page(site / "generated-dialogues.html")
    rows = [
        int(attributes["data-row"] or -1) for _, attributes in page.tags if "data-row" in attributes
    ]
    assert rows == list(range(len(board.documents)))
    text = re.sub(r"<del>.*?</del>|<[^>]+>", "", (site / "generated-dialogues.html").read_text())
    for document in board.documents[:20]:
        assert " ".join(document.question.split()) in text
    letters = {"yes": "y", "no": "n", None: "-"}
    for shown, run in zip(page.data()["runs"], board.runs, strict=True):
        assert shown["answers"] == "".join(
            letters[answer] for answer in run.report.predictions.ours
        )


def test_hostile_text_opens_and_closes_no_tag(site: Path, board: Board) -> None:
    for path in site.glob("*.html"):
        page = _Page(path)
        names = {tag for tag, _ in page.tags}
        assert not names & {"img", "marquee", "iframe", "style"}
        assert sum(tag == "script" for tag, _ in page.tags) <= 2
        assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
        policies = [
            attributes["content"] or ""
            for _, attributes in page.tags
            if attributes.get("http-equiv") == "Content-Security-Policy"
        ]
        assert "default-src 'none'" in policies[0]
        assert "unsafe" not in policies[0]
    runs = _Page(site / "generated-dialogues.html").data()["runs"]
    (responses,) = (run["responses"] for run in runs if run["name"] == HOSTILE_NAME)
    assert responses[: len(HOSTILE)] == [text.strip() for text in HOSTILE]
    assert HOSTILE_NAME in {
        attributes.get("data-run") for _, attributes in _Page(site / "index.html").tags
    }


def test_a_long_response_is_cut_between_characters() -> None:
    documents = generate_documents(groups=1)
    responses = ["no " + 1000 * "x" + " so: yes", "是" * LONGEST_RESPONSE]
    given = [responses[document.row % 2] for document in documents]
    (board,) = make_boards([make_run("run", documents, given)])
    long, chinese = dialogues_content(board)["data"]["runs"][0]["responses"][:2]
    assert long == f"no {297 * 'x'} … (1011 characters) … {142 * 'x'} so: yes"
    assert set(chinese) <= set("是 … (500 characters)")
    assert len(chinese.encode()) < LONGEST_RESPONSE


# Pure functions -----------------------------------------------------------------------------------


def test_calibration_is_that_of_counting() -> None:
    random = np.random.default_rng(1)
    yes = [*(float(value) for value in random.random(98)), 0.5, 0.5]
    gold: list[Answer] = ["yes" if value < 0.5 else "no" for value in random.random(100)]
    calibration = calibrate(yes, gold)
    error = 0.0
    for part in calibration.bins:
        highest = 101 if part.high == 100 else part.high
        inside = [
            (max(share, 1 - share), share > 0.5 if answer == "yes" else share < 0.5)
            for share, answer in zip(yes, gold, strict=True)
            if part.low <= 100 * max(share, 1 - share) < highest
        ]
        assert (part.right, part.total) == (sum(right for _, right in inside), len(inside))
        assert part.confidence == pytest.approx(100 * sum(sure for sure, _ in inside) / len(inside))
        error += abs(100 * part.right - part.total * part.confidence) / len(yes)
    assert sum(part.total for part in calibration.bins) == len(yes)
    assert calibration.error == pytest.approx(error)
    squares = [(share - (answer == "yes")) ** 2 for share, answer in zip(yes, gold, strict=True)]
    assert calibration.brier == pytest.approx(sum(squares) / len(yes))


def test_published_rows_are_those_of_the_tables() -> None:
    tables = {split: Counter(row.table for row in published_rows(split)) for split in FILES}
    assert tables == {
        "manual": {1: 10, 2: 8, 15: 4},
        "synthetic": {1: 10},
        "entity_tracking": {3: 18},
    }
    rows = {(row.table, row.model.split(" ")[0]): row.percents for row in published_rows("manual")}
    with (SAMPLES / "published_figures.csv").open(encoding="utf-8") as stream:
        for line in csv.DictReader(stream):
            if line["split"] == "manual":
                assert rows[int(line["table"]), line["model"]][line["metric"]] == line["percent"]


def test_turns_ago_count_every_document_once() -> None:
    documents = list(tracking_documents(GeneratorSettings(groups=3)))
    report = score(documents, [document.answer for document in documents])
    classes = report.breakdowns["turns ago"]
    counted = [share for by_gold in classes.values() for share in by_gold.values()]
    assert sum(share.total for share in counted) == len(documents)
    assert all(share.right == share.total for share in counted)
    zero = [document for document in documents if document.turns_ago == 0]
    assert sum(share.total for share in classes["0"].values()) == len(zero)


def test_the_rebuilt_command_is_one_that_lm_eval_reads(tmp_path: Path) -> None:
    documents = generate_documents(groups=3, seed=5)
    record = make_run("run", documents, [document.answer for document in documents]).record
    assert lm_eval_command(record) is None
    ran = record.model_copy(
        update={
            "model": ModelRecord(name="some/base", chat_template=True),
            "environment": EnvironmentRecord(
                task="pragworld_generated",
                backend="hf",
                model_args={"pretrained": "some/base", "max_memory": {"0": "1GB"}},
                generation={"until": ["\n"], "temperature": 0},
                system_instruction="Be brief; don't $(explain).",
            ),
            "data": record.data.model_copy(update={"generator": {"groups": 3, "seed": 5}}),
        }
    )
    command = lm_eval_command(ran)
    assert command
    from lm_eval._cli.harness import HarnessCLI

    options = HarnessCLI()._parser.parse_args(["run", *shlex.split(command)[1:]])
    assert options.model_args == ran.environment.model_args
    assert options.gen_kwargs == ran.environment.generation
    assert options.metadata == ran.data.generator
    assert options.system_instruction == ran.environment.system_instruction
    assert options.apply_chat_template


def test_runs_of_one_name_are_numbered(tmp_path: Path) -> None:
    documents = generate_documents(groups=1)
    path = tmp_path / "samples.jsonl"
    lines = [json.dumps({"doc": doc, "filtered_resps": ["no"]}) for doc in to_records(documents)]
    path.write_text("\n".join(lines))
    assert [run.name for run in load_runs([str(path)] * 3)] == [
        "samples",
        "samples (2)",
        "samples (3)",
    ]


def test_runs_of_one_name_have_pages_of_their_own(board: Board) -> None:
    runs = [
        replace(run, name=name)
        for run, name in zip(board.runs, ("a b", "a-b", "A/B", "c"), strict=True)
    ]
    pages = Board("generated", runs).run_pages
    assert len(set(pages.values())) == len(runs)
    assert all(re.fullmatch(r"[a-z0-9-]+\.html", page) for page in pages.values())


# The folder and the command -----------------------------------------------------------------------


def test_only_a_folder_that_it_wrote_is_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "site"
    write_site([("index.html", "first"), ("old.html", "")], out, overwrite=False)
    with pytest.raises(InputError, match="exists; pass --overwrite"):
        write_site([], out, overwrite=False)
    (out / "notes.html").write_text("mine")
    write_site([("index.html", "second")], out, overwrite=True)
    assert (out / "index.html").read_text() == "second"
    assert not (out / "old.html").exists()
    (out / "pragworld-board.txt").unlink()
    for overwrite in (False, True):
        with pytest.raises(InputError, match="is no site that `board` wrote; pass another folder"):
            write_site([("index.html", "third")], out, overwrite)
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        "index.html": "second",
        "notes.html": "mine",
    }


def test_the_command_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = str(tmp_path / "site")
    with refused("name runs, or pass --demo"):
        main(["board", "--out", out])
    with refused("--demo shows what comes with the package"):
        main(["board", "published:all", "--demo", "--out", out])
    monkeypatch.delenv("PRAGWORLD_DATA", raising=False)
    monkeypatch.setenv("PRAGWORLD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PRAGWORLD_URL", "nowhere")
    with refused("PRAGWORLD_DATA"):
        main(["board", "--demo", "--out", out])
    assert not Path(out).exists()


def test_released_runs_stand_beside_their_published_figures(
    released: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", str(released))
    runs = ["published:gpt-3.5-turbo", "published:Llama-3.3-70B-Instruct", "readings:majority"]
    out = tmp_path / "site"
    main(["board", *runs, "--out", str(out)])
    assert "3 runs on manual" in capsys.readouterr().out
    page = _Page(out / "index.html")
    shown = {
        (name, attributes["data-key"]): texts[1]
        for name, attributes, texts in page.cells("data-run")
    }
    for row in published_rows("manual"):
        if row.model.startswith("gpt-3.5-turbo"):
            assert shown["gpt-3.5-turbo", "robust_acc-released"] == row.percents["robust_acc"]
    assert shown["label readers (majority)", "robust_acc"] == "93.18"
    (run,) = load_runs(runs[:1])
    cells = list(_Page(out / "manual-run-gpt-3-5-turbo.html").cells("data-metric"))
    for metric, share in run.report.published.items():
        _, (_, attributes, texts) = (cell for cell in cells if cell[0] == metric)
        _check(share, attributes, texts)
    classes = {
        attributes.get("data-run"): attributes.get("class")
        for tag, attributes in page.tags
        if tag == "tbody"
    }
    assert classes["label readers (majority)"] == "ceiling"
    dialogues = _Page(out / "manual-dialogues.html")
    assert sum("data-disputed" in attributes for _, attributes in dialogues.tags) == 17


def test_a_figure_without_an_interval_is_shown_as_such() -> None:
    macros: Any = pages._environment().get_template("macros.html").module
    known = macros.share_cell(Share(right=3, total=4, low=50.0, high=100.0))
    assert 'data-low="50.0"' in known
    assert "whisker" in known
    of_one_group = macros.share_cell(Share(right=3, total=4))
    assert "75.00" in of_one_group
    assert '<span class="interval">-</span>' in of_one_group
    assert "nan" not in of_one_group
