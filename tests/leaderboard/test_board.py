"""The leaderboard's pages: their figures, what is in them, and how they are written."""

import csv
import json
import re
import shlex
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import lxml.html
import numpy as np
import pytest
from board_sites import layer_reports, make_run, sensitivity_report
from pandas import DataFrame, cut
from places import SAMPLES

from pragworld_interp import EXAMPLES, read_patching
from pragworld_tasks.cli import main
from pragworld_tasks.data.documents import Answer
from pragworld_tasks.data.sources import FILES, read_split
from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.dialogues.settings import TrackingSettings
from pragworld_tasks.dialogues.tracking import tracking_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.comparison import compare_scores
from pragworld_tasks.evaluation.published import published_rows
from pragworld_tasks.evaluation.run_record import EnvironmentRecord, ModelRecord
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.evaluation.statistics import calibrate
from pragworld_tasks.layers.report import by_title
from pragworld_tasks.leaderboard.board_command import write_site
from pragworld_tasks.leaderboard.boards import Board, load_runs, make_boards
from pragworld_tasks.leaderboard.dialogues_page import LONGEST_RESPONSE, dialogues_content
from pragworld_tasks.leaderboard.pages import render_site
from pragworld_tasks.leaderboard.run_page import lm_eval_command
from pragworld_tasks.text import format_interval, format_p, format_percent, format_points


def _page(path: Path) -> Any:
    return lxml.html.parse(str(path), lxml.html.HTMLParser(encoding="utf-8")).getroot()


def _rows(page: Any, attribute: str, value: str) -> list[list[str]]:
    """Return the texts of the cells of the table with an attribute, row by row."""
    rows = page.xpath(f"//table[@{attribute}=$value]//tr", value=value)
    return [[" ".join(" ".join(cell.itertext()).split()) for cell in row] for row in rows]


def _check(share: Share, cell: Any) -> None:
    """Check a cell's figures, to the last digit and as they are read."""
    shown = [float(cell.get(f"data-{name}", "nan")) for name in ("value", "low", "high")]
    expected = [share.percent, *share.interval]
    assert shown == pytest.approx(expected, rel=0, abs=0, nan_ok=True)
    assert (cell.get("data-right"), cell.get("data-total")) == (str(share.right), str(share.total))
    assert cell.xpath("string(span[@class='percent'])") == format_percent(share.percent)
    for interval in cell.xpath("span[@class='interval']/text()"):
        assert interval == format_interval(share.interval)


def test_every_share_is_that_of_score(board: Board, site: Path) -> None:
    page = _page(site / "index.html")
    for run in board.runs:
        cells = page.xpath("//tbody[@data-run=$name]//td[@data-right]", name=run.name)
        assert {cell.get("data-key") for cell in cells} == {*run.report.metrics}
        for cell in cells:
            _check(run.report.metrics[cell.get("data-key")], cell)
    (sure,) = (run.report for run in board.runs if run.name == "sure")
    page = _page(site / board.run_pages["sure"])
    breakdowns = [
        share
        for classes in sure.breakdowns.values()
        for by_gold in classes.values()
        for share in by_gold.values()
        if share.total
    ]
    cells = page.xpath("//tr[@data-metric or @data-class]/td[@data-right]")
    for share, cell in zip([*sure.metrics.values(), *breakdowns], cells, strict=True):
        _check(share, cell)
    assert page.xpath("//tr/@data-metric") == list(sure.metrics)


def test_ranks_and_the_models_that_are_not_told_apart_are_shown(board: Board, site: Path) -> None:
    rows = _rows(_page(site / "index.html"), "class", "leaderboard")[1:]
    for run, row, detail in zip(board.models, rows[::2], rows[1::2], strict=True):
        rank = board.ranks[run.name]
        alike = {
            other.name: p
            for other in board.models
            if other is not run and (p := compare_scores(run.report, other.report).p) >= 0.05
        }
        assert board.alike(run.name) == pytest.approx(alike)
        assert row[1].startswith(run.name)
        assert (row[0], row[-1]) == (f"{rank.place} {rank.low} to {rank.high}", str(len(alike)))
        for name, p in alike.items():
            assert f"{name} (p = {p:.3g})" in detail[0]
        outside = sum(not rank.low <= board.ranks[name].place <= rank.high for name in alike)
        assert (f"leaves out {outside} of them" in detail[0]) == (outside > 0)


def test_groups_of_any_numbers_are_shown_once_whatever_the_order_of_documents(
    tmp_path: Path,
) -> None:
    mixed = sorted(generate_documents(groups=3), key=lambda document: document.is_original)
    documents = [
        replace(document, row=row, group=10 * document.group - 7)
        for row, document in enumerate(mixed)
    ]
    wrong = [document.answer if document.group != 13 else "unclear" for document in documents]
    runs = [make_run("all right", documents), make_run("third wrong", documents, wrong)]
    (board,) = make_boards(runs)
    write_site(render_site([board]), tmp_path / "site", overwrite=False)
    page = _page(tmp_path / "site" / f"{board.slug}-compare.html")
    data = json.loads(page.get_element_by_id("data").text)  # for the page's script
    assert data["numbers"] == [-7, 3, 13]
    assert data["right"] == ["111", "110"]
    assert 'id="group--7"' in (tmp_path / "site" / f"{board.slug}-dialogues.html").read_text()
    for number, views in dialogues_content(board)["groups"]:
        own = [document for document in documents if document.group == number]
        assert [view.item.document for view in views] == [own[-1], *own[:-1]]
        changed = [any(piece.change != "same" for piece in chain(*view.context)) for view in views]
        assert changed == [False] + [True] * (len(own) - 1)


def test_runs_on_the_same_texts_share_a_board_only_if_they_share_groups() -> None:
    documents = generate_documents(groups=2)
    own = [replace(document, split="own") for document in documents]
    moved = [replace(document, group=9 - document.group) for document in own]
    second = make_run("b", own)
    boards = make_boards([make_run("a", documents), second, make_run("c", own)])
    assert [[one.name for one in board.runs] for board in boards] == [["a"], ["b", "c"]]
    assert [board.title for board in boards] == ["generated", "own"]
    with pytest.raises(InputError, match=r"^c and b: the same texts, but other groups"):
        make_boards([second, make_run("c", moved)])


def test_runs_on_a_split_without_alterations_are_told_apart_by_conversations() -> None:
    documents = list(tracking_documents(TrackingSettings(groups=12)))
    # Five conversations wrong as a whole: many documents, but few that are independent.
    some = [
        {"yes": "no", "no": "yes"}[document.answer] if document.group < 5 else document.answer
        for document in documents
    ]
    runs = [make_run("all right", documents), make_run("five wrong", documents, some)]
    (board,) = make_boards(runs)
    (comparison,) = board.comparisons.values()
    assert comparison.on_documents.p < 1e-6
    assert comparison.by_group == (5, 0, 2 / 2**5)
    assert board.alike("all right") == {"five wrong": 2 / 2**5}


def test_every_figure_of_a_layer_is_that_of_its_report(site: Path) -> None:
    page = _page(site / "layers.html")
    for title, report in by_title(layer_reports()).items():
        head, *rows = _rows(page, "data-layers", title)
        assert len(head) == 8
        for row, layer in zip(rows, report.layers, strict=True):
            robust, accuracy = layer.robust_accuracy, layer.accuracy
            assert robust
            assert row == [
                layer.target.name,
                format_percent(accuracy.share.percent),
                format_points(accuracy.points),
                format_interval(accuracy.interval),
                format_points(robust.points),
                *(format_p(layer.holm), layer.sign, layer.evidence),
            ]
    clear = layer_reports()[0]
    selected = [clear.selected(role, "evidence") for role in ("useful", "harmful")]
    assert selected == [[1], [3]]
    assert len(page.xpath("//*[contains(@class, 'evident')]")) == 2
    patching = read_patching(EXAMPLES / "patching.json")
    average = patching.averages()["all"]
    shown = _rows(page, "data-patched", "tiny")[1:]
    assert [row[1] for row in shown] == [f"{p:.3f}" for p in average.probability]


def test_every_share_of_sensitivity_is_that_of_its_report(site: Path) -> None:
    page = _page(site / "sensitivity.html")
    report = sensitivity_report()
    for domain in ("travel", "own"):
        rows = _rows(page, "data-domain", domain)[1:]
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


def test_hostile_text_opens_and_closes_no_tag(site: Path) -> None:
    for path in site.glob("*.html"):
        page = _page(path)
        assert not page.xpath(
            "//img | //marquee | //iframe | //style | //@*[starts-with(name(), 'on')]"
        )
        assert len(page.xpath("//script")) <= 2
        (policy,) = page.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


def test_unreadable_responses_same_answers_and_added_runs_are_marked(tmp_path: Path) -> None:
    documents = read_split("manual", SAMPLES / FILES["manual"].path)
    mute = make_run("mute", documents, ["The answer is no."] * 7 + ["", "", "Yes or no"])
    paper = make_run("paper", documents, source="published")
    boards = make_boards([mute, make_run("clear", documents), paper])
    write_site(render_site(boards), tmp_path / "site", overwrite=False)
    page = _page(tmp_path / "site" / "index.html")
    tags = page.xpath("//tbody[@data-run]//th/span[contains(@class, 'tag')]")
    assert [" ".join(tag.text_content().split()) for tag in tags] == [
        *("same answers as paper", "added", "same answers as clear", "released"),
        *("30.00 % unreadable", "added"),
    ]
    assert "max_gen_toks" in tags[-2].get("title")
    opened = _page(tmp_path / "site" / "manual-compare.html").xpath("//option[@selected]")
    labels = [(run.text, run.getparent().get("label")) for run in opened]
    assert labels == [("clear", "Added"), ("mute", "Added")]
    cells = page.xpath("//td[@data-key='robust_acc-released']")
    assert [cell.text_content().split()[:2] for cell in cells][-1] == ["not", "applicable"]
    (reasons,) = _page(tmp_path / "site" / "manual-run-mute.html").xpath("//p[@data-unreadable]")
    assert reasons.text_content().startswith("Unreadable: 3 (2 empty, 1 both). 3 of 10 responses")


def test_a_long_response_is_cut_between_characters() -> None:
    documents = generate_documents(groups=1)
    responses = ["no " + 1000 * "x" + " so: yes", "是" * LONGEST_RESPONSE]
    given = [responses[document.row % 2] for document in documents]
    (board,) = make_boards([make_run("run", documents, given)])
    long, chinese = dialogues_content(board)["data"]["runs"][0]["responses"][:2]
    assert long == f"no {297 * 'x'} … (1011 characters) … {142 * 'x'} so: yes"
    assert set(chinese) <= set("是 … (500 characters)")
    assert len(chinese.encode()) < LONGEST_RESPONSE


def test_calibration_is_that_of_counting() -> None:
    random = np.random.default_rng(1)
    yes = [*(float(value) for value in random.random(98)), 0.5, 0.5]
    gold: list[Answer] = ["yes" if value < 0.5 else "no" for value in random.random(100)]
    calibration = calibrate(yes, gold)
    counted = DataFrame({"yes": yes, "is_yes": [answer == "yes" for answer in gold]})
    counted["sure"] = 100 * np.maximum(counted.yes, 1 - counted.yes)
    counted["right"] = np.where(counted.is_yes, counted.yes > 0.5, counted.yes < 0.5)
    bins = counted.groupby(cut(counted.sure, [50, 60, 70, 80, 90, 101], right=False))
    sums = bins[["right", "sure"]].sum()
    assert [part.right for part in calibration.bins] == sums.right.tolist()
    assert [part.total for part in calibration.bins] == bins.size().tolist()
    assert [part.confidence for part in calibration.bins] == pytest.approx(bins.sure.mean())
    assert calibration.error == pytest.approx((100 * sums.right - sums.sure).abs().sum() / len(yes))
    assert calibration.brier == pytest.approx(((counted.yes - counted.is_yes) ** 2).mean())


def test_published_rows_are_those_of_the_tables() -> None:
    tables = {split: Counter(row.table for row in published_rows(split)) for split in FILES}
    entities = {"entity_tracking": {3: 18}}
    assert tables == {"manual": {1: 10, 2: 8, 15: 4}, "synthetic": {1: 10}, **entities}
    rows = {(row.table, row.model.split(" ")[0]): row.percents for row in published_rows("manual")}
    with (SAMPLES / "published_figures.csv").open(encoding="utf-8") as stream:
        for line in csv.DictReader(stream):
            if line["split"] == "manual":
                assert rows[int(line["table"]), line["model"]][line["metric"]] == line["percent"]


def test_the_rebuilt_command_is_one_that_lm_eval_reads() -> None:
    documents = generate_documents(groups=3, seed=5)
    assert lm_eval_command(make_run("run", documents).record) is None
    environment = EnvironmentRecord(
        task="pragworld_generated",
        backend="hf",
        model_args={"pretrained": "some/base", "layers": "0,2"},
        generation={"until": ["\n"], "temperature": 0},
        system_instruction="Be brief; don't $(explain).",
    )
    model = ModelRecord(name="some/base", chat_template=True)
    ran: dict[str, Any] = {"environment": environment, "generator": {"groups": 3, "seed": 5}}
    command = lm_eval_command(make_run("run", documents, None, model, **ran).record)
    assert command
    from lm_eval._cli.harness import HarnessCLI

    options = HarnessCLI()._parser.parse_args(["run", *shlex.split(command)[1:]])
    assert options.model_args == environment.model_args
    assert options.gen_kwargs == environment.generation
    assert options.metadata == ran["generator"]
    assert options.system_instruction == environment.system_instruction
    assert options.apply_chat_template


def test_runs_of_one_name_have_pages_of_their_own(board: Board) -> None:
    runs = [replace(board.runs[0], name=name) for name in ("a b", "a-b", "A/B", "c")]
    pages = Board("generated", runs).run_pages
    assert len(set(pages.values())) == len(runs)
    assert all(re.fullmatch(r"[a-z0-9-]+\.html", page) for page in pages.values())


def test_only_a_folder_that_it_wrote_is_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "site"
    write_site([("index.html", "first"), ("old.html", "")], out, overwrite=False)
    (out / "notes.html").write_text("mine")
    with pytest.raises(InputError, match="exists; pass --overwrite"):
        write_site([], out, overwrite=False)
    write_site([("index.html", "second")], out, overwrite=True)
    (out / "pragworld-board.txt").unlink()
    with pytest.raises(InputError, match="is no site that `board` wrote; pass another folder"):
        write_site([("index.html", "third")], out, overwrite=True)
    contents = {path.name: path.read_text() for path in out.iterdir()}
    assert contents == {"index.html": "second", "notes.html": "mine"}


def test_released_runs_stand_beside_their_published_figures(
    released_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = ["published:gpt-3.5-turbo", "published:Llama-3.3-70B-Instruct", "readings:majority"]
    out = tmp_path / "site"
    main(["board", *runs, "--out", str(out)])
    assert "3 runs on manual" in capsys.readouterr().out
    page = _page(out / "index.html")

    def shown(run: str, key: str) -> Any:
        return page.xpath(
            "string(//tbody[@data-run=$run]//td[@data-key=$key]/span)", run=run, key=key
        )

    for row in published_rows("manual"):
        if row.model.startswith("gpt-3.5-turbo"):
            assert shown("gpt-3.5-turbo", "robust_acc-released") == row.percents["robust_acc"]
    assert shown("label readers (majority)", "robust_acc") == "93.18"
    (run,) = load_runs(runs[:1])
    of_run = _page(out / "manual-run-gpt-3-5-turbo.html")
    for metric, share in run.report.released.items():
        _, cell = of_run.xpath("//tr[@data-metric=$metric]/td[@data-right]", metric=metric)
        _check(share, cell)
    assert len(_page(out / "manual-dialogues.html").xpath("//*[@data-disputed]")) == 17
