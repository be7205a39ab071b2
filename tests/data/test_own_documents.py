"""Test documents of a user's own: their file, the lm-eval tasks, and every command that takes it."""

import csv
import json
from pathlib import Path
from statistics import fmean

import pytest
from json_lines import read_lines, write_lines
from lm_eval_runs import LmEval
from own_documents import MILK, SOME, TEA, to_document
from pandas import DataFrame

import pragworld_tasks as pt
from pragworld_interp import cli as interp
from pragworld_tasks import harness
from pragworld_tasks.cli import main
from pragworld_tasks.data.document_files import read_documents, write_documents
from pragworld_tasks.data.documents import ALTERATIONS, Document
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.item_analysis import items_csv
from pragworld_tasks.layers.ablation_report import read_layers
from pragworld_tasks.tiny import tiny_folder
from pragworld_train.arguments import TrainArguments
from pragworld_train.data import load_document_set

GENERATED = {"groups": 5, "seed": 7, "split": "test"}
WITHOUT_ALTERATIONS = {"acc", "yes_acc", "no_acc", "unreadable"}
WITH_ALTERATIONS = {"robust_acc", "original_acc", "altered_acc", "flip_acc", "invariant_acc"}
OF_BASES = {"entailed_acc", "excluded_acc", "undetermined_acc"}


def generate(path: Path) -> Path:
    """Let `pragworld-tasks generate` write a file."""
    options = [word for name, value in GENERATED.items() for word in (f"--{name}", str(value))]
    main(["generate", *options, "--out", str(path)])
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents that were generated."""
    return generate(tmp_path_factory.mktemp("mine") / "documents.jsonl")


# The file -----------------------------------------------------------------------------------------


def test_what_a_line_leaves_out_follows_from_the_others(tmp_path: Path) -> None:
    sugar = {**TEA, "question": "Is the tea sweet?", "answer": "no"}
    del sugar["group"]
    path = write_lines(tmp_path / "mine.jsonl", [SOME, MILK, TEA, sugar])
    some, milk, tea, alone = read_documents(path)
    assert [document.group for document in (some, milk, tea, alone)] == [40, 7, 40, 41]
    assert [document.is_original for document in (some, milk, tea, alone)] == [False, *[True] * 3]
    assert (some.effect, some.alteration) == ("flip", "Quantifier Change")
    assert (tea.effect, tea.alteration, tea.basis, tea.split) == (None, None, None, "own")
    (same, _) = read_documents(write_lines(path, [{**SOME, "answer": "yes"}, TEA]))
    assert same.effect == "invariant"


def test_groups_keep_their_numbers_whatever_these_are(tmp_path: Path, file: Path) -> None:
    lines = read_lines(file)
    numbers = [-5, 1, 3, 4, 2**63 - 1]
    numbered = [{**line, "group": numbers[line["group"]]} for line in lines]
    documents = read_documents(write_lines(tmp_path / "mine.jsonl", numbered))
    assert [document.group for document in documents] == [line["group"] for line in numbered]
    kept = pt.score(documents, ["yes"] * len(documents))
    assert kept.metrics == pt.score(read_documents(file), ["yes"] * len(documents)).metrics
    table = csv.DictReader(items_csv(pt.analyze_items({"run": kept})).splitlines())
    assert [int(item["group"]) for item in table] == [line["group"] for line in numbered]


def test_the_seed_index_of_a_table_is_the_group(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    write_documents([to_document(MILK), to_document(SOME), to_document(TEA)], path)
    milk, some, tea = read_documents(path)  # the variant comes before its original
    assert (milk.group, some.group, tea.group, some.effect) == (7, 40, 40, "flip")


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


# The tasks ----------------------------------------------------------------------------------------


def test_lm_eval_prints_the_metrics_counted_by_hand(
    lm_eval: LmEval, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluation = lm_eval(
        *("--model", "hf", "--model_args", f"pretrained={tiny_folder()}", "--batch_size", "64"),
        *("--tasks", "pragworld_own_mc", "--log_samples"),
        *("--metadata", json.dumps({"documents": str(file)})),
    )
    assert evaluation.returncode == 0, evaluation.log
    lines = read_lines(file)
    samples = evaluation.samples("pragworld_own_mc")
    right: list[bool] = []
    for line, sample in zip(lines, samples, strict=True):
        (yes, _), (no, _) = sample["filtered_resps"]
        right.append((float(yes) > float(no)) == (line["answer"] == "yes"))

    def share(name: str, value: object) -> float:
        return fmean(hit for line, hit in zip(lines, right, strict=True) if line[name] == value)

    groups: dict[int, list[bool]] = {}
    for line, hit in zip(lines, right, strict=True):
        groups.setdefault(line["group"], []).append(hit)
    expected = {
        "robust_acc": fmean(all(hits) for hits in groups.values()),
        "acc": fmean(right),
        "yes_acc": share("answer", "yes"),
        "no_acc": share("answer", "no"),
        "original_acc": share("is_original", True),
        "altered_acc": share("is_original", False),
        "flip_acc": share("effect", "flip"),
        "invariant_acc": share("effect", "invariant"),
        "entailed_acc": share("basis", "entailed"),
        "excluded_acc": share("basis", "excluded"),
        "undetermined_acc": share("basis", "undetermined"),
        "unreadable": 0.0,
    }
    shown = evaluation.metrics("pragworld_own_mc")
    assert {name: shown[name] for name in expected} == pytest.approx(expected)
    assert [
        Document(**{name: sample["doc"][name] for name in Document.__slots__}) for sample in samples
    ] == read_documents(file)
    main(["score", str(evaluation.samples_file("pragworld_own_mc"))])
    assert capsys.readouterr().out.startswith(f"own: {len(lines)} documents, 5 groups\n")


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


# The other commands -------------------------------------------------------------------------------


def test_score_reads_responses_to_documents_of_a_users_own(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = read_documents(file)
    responses = str(
        write_lines(tmp_path / "answers.jsonl", [{"response": "Yes."} for _ in documents])
    )
    main(["score", responses, "--documents", str(file)])
    result = pt.score(documents, ["Yes."] * len(documents))
    assert capsys.readouterr().out == f"{result.to_text()}\n"


def test_layers_are_swept_on_the_file(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "layers.json"
    options = ["--model", str(tiny_folder()), "--limit", "2", "--layers", "0", "--out", str(out)]
    interp.main(["ablate", "--documents", str(file), *options])
    data = read_layers(out).data
    first = [document for document in read_documents(file) if document.group < 2]
    assert (data.split, data.documents, data.generator) == ("own", len(first), None)


def test_what_is_left_out_of_training(file: Path) -> None:
    everything = load_document_set(TrainArguments(documents=str(file)))
    assert (everything.documents, everything.name) == (read_documents(file), "own")
    for alteration in ALTERATIONS:
        settings = TrainArguments(documents=str(file), held_out_alteration=alteration)
        kept = load_document_set(settings).documents
        assert kept == [one for one in everything.documents if one.alteration != alteration]
    with pytest.raises(InputError, match=r"^own: .* no other documents"):
        everything.other_split("validation")
