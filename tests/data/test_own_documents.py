"""Test documents of a user's own: their file, the lm-eval tasks, and every command that takes it."""

import csv
import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from json_lines import read_lines, write_lines
from lm_eval_runs import LmEval
from own_documents import MILK, SOME, TEA, to_document
from pandas import DataFrame

import pragworld_interp as interp_api
import pragworld_tasks as pt
from pragworld_interp import cli as interp
from pragworld_tasks import harness
from pragworld_tasks.cli import main
from pragworld_tasks.data.document_files import read_documents, write_documents
from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.responses import read_predictions
from pragworld_tasks.grouped.item_analysis import items_csv
from pragworld_tasks.layers.ablation_report import read_layers
from pragworld_tasks.tiny import tiny_folder
from pragworld_train.arguments import TrainArguments
from pragworld_train.data import load_document_set, to_dataset

WITHOUT_ALTERATIONS = {"acc", "yes_acc", "no_acc", "unreadable"}
WITH_ALTERATIONS = {"robust_acc", "original_acc", "altered_acc", "flip_acc", "invariant_acc"}
OF_BASES = {"entailed_acc", "excluded_acc", "undetermined_acc"}


def generate(path: Path) -> Path:
    main(["generate", "--groups", "5", "--seed", "7", "--split", "test", "--out", str(path)])
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("mine") / "documents.jsonl")


def test_what_a_line_leaves_out_follows_from_the_others(tmp_path: Path) -> None:
    sugar = {**TEA, "question": "Is the tea sweet?", "answer": "no", "group": None}
    path = write_lines(tmp_path / "mine.jsonl", [SOME, MILK, TEA, sugar])
    some, milk, tea, alone = read_documents(path)
    assert [document.group for document in (some, milk, tea, alone)] == [40, 7, 40, 41]
    assert [document.is_original for document in (some, milk, tea, alone)] == [False, *[True] * 3]
    assert (some.effect, some.alteration) == ("flip", "Quantifier Change")
    assert (tea.effect, tea.alteration, tea.basis, tea.split) == (None, None, None, "own")
    head = {"labels": ["yes", "no"]}  # as without it
    (same, first) = read_documents(write_lines(path, [head, {**SOME, "answer": "yes"}, TEA]))
    assert (first.labels, first.to_dict()) == (tea.labels, {**tea.to_dict(), "row": 1})
    assert same.effect == "invariant"


def test_groups_keep_their_numbers_whatever_these_are(tmp_path: Path, file: Path) -> None:
    lines = read_lines(file)
    numbers = [-5, 1, 3, 4, 2**63 - 1]
    numbered = [{**line, "group": numbers[line["group"]]} for line in lines]
    lines = [{"labels": ["no", "yes"]}, *numbered]
    documents = read_documents(write_lines(tmp_path / "mine.jsonl", lines))
    assert [document.group for document in documents] == [line["group"] for line in numbered]
    kept = pt.score(documents, ["yes"] * len(documents))
    assert kept.metrics == pt.score(read_documents(file), ["yes"] * len(documents)).metrics
    table = csv.DictReader(items_csv(pt.analyze_items({"run": kept})).splitlines())
    assert [int(item["group"]) for item in table] == [line["group"] for line in numbered]


def test_a_table_without_a_seed_index_is_grouped_by_its_originals(tmp_path: Path) -> None:
    path = generate(tmp_path / "mine.csv")
    numbered = read_documents(path)
    path.write_text(path.read_text().replace("Seed Index", "Something", 1))
    assert read_documents(path) == numbered


@pytest.mark.parametrize(
    ("name", "separator"),
    [("a.csv", ","), ("a.csv", ";"), ("a.csv", "|"), ("a.tsv", "\t"), ("a.parquet", ""), ("a.jsonl", "")],
)  # fmt: skip
def test_names_case_separators_and_further_columns_are_free(
    tmp_path: Path, name: str, separator: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    records = DataFrame([MILK | {"Topic": "a|b;c"}, TEA, SOME]).fillna("")
    records["answer"], records["alteration"] = (
        " " + records.answer.str.upper(),
        records.alteration.str.lower(),
    )
    records = records.rename(columns={"context": "LOCAL_CONTEXT", "group": "Seed Index"})
    if path.suffix == ".parquet":
        records.to_parquet(path)
    elif path.suffix == ".jsonl":
        records.to_json(path, orient="records", lines=True)
    else:
        records.to_csv(path, sep=separator)  # with pandas' index
    plain = read_documents(write_lines(tmp_path / "plain.jsonl", [MILK, TEA, SOME]))
    assert read_documents(path) == plain
    rows = harness.split_dataset("own", documents=str(path))["test"]
    assert rows["Topic"] == ["a|b;c", "", ""]
    main(["data", "check", str(path)])
    assert capsys.readouterr().out.startswith(
        "own: 3 documents in 2 groups\n  answers: no 2, yes 1"
    )


def test_a_context_may_be_as_long_in_a_table_as_elsewhere(tmp_path: Path) -> None:
    long = {**TEA, "context": "Ann: Tea. " * 16_000}
    write_documents([to_document(long)], tmp_path / "mine.csv")
    assert [one.context for one in read_documents(tmp_path / "mine.csv")] == [long["context"]]


def labelled(path: Path, *labels: str) -> Path:
    """Documents with three labels, and variants by a name of ours, of which one keeps the answer."""
    bases = {"All": "entailed", "None": "excluded", "Some": "undetermined", "Both": "entailed"}
    kinds = [*bases.items()]
    answers = dict(zip(("entailed", "excluded", "undetermined"), labels, strict=True))
    lines: list[dict[str, Any]] = [{"labels": labels}]
    for group, room in enumerate(("hall", "attic", "cellar")):
        for place, (some, basis) in enumerate(kinds[group:] + kinds[:group]):
            context = f"Ann: Where is the tea?\nBen: {some} of it is in the {room}."
            line = {"context": context, "question": f"Is it in the {room}?", "group": group}
            edit = {"basis": basis, "alteration": "Edit" if place else None}
            lines.append({**line, **edit, "answer": answers[basis]})
    return write_lines(path, lines)


def test_lm_eval_prints_the_metrics_counted_by_hand(
    lm_eval: LmEval, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = labelled(tmp_path / "mine.jsonl", *(labels := ("Yes", "No", "Don't know")))
    evaluation = lm_eval(
        *("--model", "hf", "--model_args", f"pretrained={tiny_folder()}", "--batch_size", "64"),
        *("--tasks", "pragworld_own_mc,pragworld_own_label", "--log_samples"),
        *("--metadata", json.dumps({"documents": str(path)})),
    )
    documents = read_documents(path)
    for task in ("pragworld_own_mc", "pragworld_own_label"):
        responses = [sample["filtered_resps"] for sample in evaluation.samples(task)]
        if task == "pragworld_own_mc":
            likelihoods = [[float(own) for own, _ in of_labels] for of_labels in responses]
            answers = [labels[own.index(max(own))] for own in likelihoods]
        else:
            answers = [text.strip().capitalize() for (text,) in responses]
        right = [one.answer == answer for one, answer in zip(documents, answers, strict=True)]

        def share(name: str, value: object, right: list[bool] = right) -> float:
            found = zip(documents, right, strict=True)
            return fmean(hit for document, hit in found if getattr(document, name) == value)

        groups = [right[start : start + 4] for start in range(0, 12, 4)]
        expected = {
            "robust_acc": fmean(map(all, groups)),
            "acc": fmean(right),
            "yes_acc": share("answer", "Yes"),
            "no_acc": share("answer", "No"),
            "acc_don_t_know": share("answer", "Don't know"),
            "original_acc": share("is_original", True),
            "altered_acc": share("is_original", False),
            **{f"{effect}_acc": share("effect", effect) for effect in ("flip", "invariant")},
            **{f"{name}_acc": share("basis", name) for name in ("entailed", "excluded")},
            "undetermined_acc": share("basis", "undetermined"),
            "unreadable": 0.0,
        }
        shown = evaluation.metrics(task)
        names = {name for name in shown if "_stderr" not in name} - {"alias", "sample_len"}
        assert {name: shown[name] for name in names} == pytest.approx(expected)
        logged = read_predictions(evaluation.samples_file(task))
        assert (logged.logged, logged.ours) == (documents, answers)
        main(["score", str(evaluation.samples_file(task))])
        printed = capsys.readouterr().out
        assert printed.startswith("own: 12 documents, 3 groups\n")
        assert all(f"gold {label} " in printed for label in labels)
    assert "label i.e. either Yes, No or Don't know.\nLabel:" in pt.label_prompt(documents[0])
    write_lines(tmp_path / "a.jsonl", [{"response": text} for (text,) in responses])
    main(["score", str(tmp_path / "a.jsonl"), "--documents", str(path)])
    assert capsys.readouterr().out == printed


def test_labels_and_a_prompt_of_the_metadata_replace_those_of_the_file(tmp_path: Path) -> None:
    path = labelled(tmp_path / "mine.jsonl", "Yes", "No", "Don't know")
    labels, prompt = ["DON'T KNOW", "no", "yes", "maybe"], "{{ question }} {{ labels|join('/') }}\n"
    rows = harness.split_dataset("own", documents=str(path), labels=labels, prompt=prompt)["test"]
    assert [rows[0][name] for name in ("answer", "effect", "labels")] == ["yes", None, labels]
    assert harness.document_labels(rows[0]) == tuple(labels)
    for form in (pt.evaluation_prompt, pt.label_prompt):
        assert form(rows[0]) == "Is it in the hall? DON'T KNOW/no/yes/maybe\n"
    likelihoods = [(-2.0, True), (-3.0, False), (-1.0, False), (float("-inf"), False)]
    assert harness.score_likelihoods(rows[0], likelihoods)["acc"] == 1
    assert harness.score_response(rows[0], ["I don't know."])["acc"] == 0


@pytest.mark.parametrize(
    ("records", "names"),
    [
        ([TEA, MILK], WITHOUT_ALTERATIONS),
        ([TEA, {**MILK, "basis": "undetermined"}], WITHOUT_ALTERATIONS | OF_BASES),
        ([TEA, MILK, SOME], WITHOUT_ALTERATIONS | WITH_ALTERATIONS),
    ],
)
def test_every_document_is_counted_in_the_same_metrics(
    tmp_path: Path, records: list[object], names: set[str]
) -> None:
    """Processes that evaluate parts of the documents would wait for each other otherwise."""
    path = write_lines(tmp_path / "mine.jsonl", records)
    for record in harness.split_dataset("own", documents=str(path))["test"]:
        for items in (
            harness.score_response(record, ["No."]),
            harness.score_likelihoods(record, [(-1.0, True), (-2.0, False)]),
        ):
            assert {name for name in items if not name.endswith("_stderr")} == names


def test_layers_are_swept_on_the_file(file: Path, tmp_path: Path, loaded: tuple[Any, Any]) -> None:
    three = labelled(tmp_path / "three.jsonl", "yes", "no", "some")
    for path in (file, three):
        documents, out = read_documents(path), path.with_suffix(".json")
        command = ["ablate", "--model", str(tiny_folder()), "--layers", "0", "--out", str(out)]
        command += ["--documents"]
        interp.main([*command, str(path)])
        data = (report := read_layers(out)).data
        assert (data.split, data.documents, data.generator) == ("own", len(documents), None)
    loaded[0].save_pretrained(base := tmp_path / "base")  # without a tokenizer, which is not needed
    interp.main([*command, str(three), "--revert", str(base), "--overwrite"])
    assert all(one.gold[0] == one.gold[1] for one in read_layers(out).documents)
    of_prompts: dict[str, Any] = {
        "prompts": [pt.label_prompt(document) for document in documents],
        "answers": [document.answer for document in documents],
        "groups": [document.group for document in documents],
        "labels": ["yes", "no", "some"],
    }
    by_prompts = interp_api.ablate(*loaded, **of_prompts, layers=[0])
    by_documents = interp_api.ablate(*loaded, documents, layers=[0])
    assert report.documents == by_documents.documents
    assert [one.gold for one in report.documents] == [one.gold for one in by_prompts.documents]


def test_what_is_left_out_of_training(file: Path, tmp_path: Path) -> None:
    everything = load_document_set(TrainArguments(documents=str(file)))
    assert (everything.documents, everything.name) == (read_documents(file), "own")
    three = labelled(tmp_path / "three.jsonl", "Yes", "No", "Don't know")
    for path, alteration in [*((file, name) for name in ALTERATIONS), (three, "Edit")]:
        settings = TrainArguments(documents=str(path), held_out_alteration=alteration)
        kept = load_document_set(settings).documents
        assert kept == [one for one in read_documents(path) if one.alteration != alteration]
    assert to_dataset(kept)["completion"] == [" Yes", " No", " Don't know"]
    with pytest.raises(InputError, match=r"^own: .* no other documents"):
        everything.other_split("validation")
