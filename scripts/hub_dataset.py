"""Write the benchmark as a dataset repository of the Hugging Face Hub.

    python scripts/hub_dataset.py --out pragworld-dataset --name OWNER/NAME
    hf upload OWNER/NAME pragworld-dataset --repo-type dataset

The folder holds a Parquet file for each split, a dataset card, a licence, and the `eval.yaml` by
which the Hub knows a benchmark (https://huggingface.co/docs/hub/eval-results). The manual and
entity-tracking splits are downloaded where necessary; the synthetic split is included if it is on
this machine. `datasets.load_dataset` and PRAGWORLD_DATA take the folder.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pragworld_tasks.data.documents import Document, ReleasedSplit, Split, documents_digest
from pragworld_tasks.data.label_readings import LabelReadings, readings_of
from pragworld_tasks.data.prompts import evaluation_prompt, label_prompt
from pragworld_tasks.data.sources import (
    COMMIT,
    FILES,
    HUB_DATASET,
    REPOSITORY,
    deviation,
    load_split,
    locate,
    parquet_path,
)
from pragworld_tasks.leaderboard.hub import hub_task_ids

if TYPE_CHECKING:
    from pyarrow import Schema

TEMPLATES = Path(__file__).with_name("templates")
# The released splits lack the others.
_LACKED = ("turns_ago", "basis", "labels", "prompt")
_COLUMNS = tuple(field.name for field in fields(Document) if field.name not in _LACKED)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the folder that the arguments name, or those of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True, type=Path, help="a new folder")
    parser.add_argument(
        "--name",
        default=HUB_DATASET,
        help="name that it will have on the Hub, for its card; default: %(default)s",
    )
    options = parser.parse_args(arguments)
    names: list[ReleasedSplit] = ["manual", "entity_tracking"]
    if locate("synthetic"):
        names.append("synthetic")
    splits: dict[ReleasedSplit, list[Document]] = {name: load_split(name) for name in names}
    write_new_folder(options.out, dataset_files(splits, options.name), parser)
    print(f"{', '.join(splits)}: written to {options.out}")


def write_new_folder(
    folder: Path, files: Mapping[str, bytes], parser: argparse.ArgumentParser
) -> None:
    """Write files by their paths into a folder that does not exist."""
    if folder.exists():
        parser.error(f"{folder} exists; remove it, or name another folder")
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def fill_template(template: str, **values: Any) -> str:
    """Return a template of plain text with the values filled in; nothing is escaped."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.get_template(template).render(values)


def dataset_files(
    splits: Mapping[ReleasedSplit, Sequence[Document]], name: str = HUB_DATASET
) -> dict[str, bytes]:
    """Return the files of the repository by their paths.

    Args:
        splits: the documents of each split that the repository shall have.
        name: name of the repository on the Hub, for the examples of its card.
    """
    described = [_description(split, documents) for split, documents in splits.items()]
    card = fill_template(
        "dataset_card.md.jinja",
        name=name,
        splits=described,
        readings=_reading_counts(splits.get("manual", ())),
        size=_size(sum(map(len, splits.values()))),
        repository=REPOSITORY,
        commit=COMMIT,
        version=version("pragworld"),
    )
    return {
        "README.md": card.encode(),
        "LICENSE": (TEMPLATES / "dataset_license.txt").read_bytes(),
        "eval.yaml": fill_template("eval.yaml.jinja", splits=described).encode(),
        **{parquet_path(split): to_parquet(documents) for split, documents in splits.items()},
    }


def _description(split: ReleasedSplit, documents: Sequence[Document]) -> dict[str, Any]:
    """Return what the card and `eval.yaml` say about a split.

    The prompt is the paper's for the split. Inspect replaces `{prompt}` by the question, which is
    the sample's input, and `{context}` by the sample's metadata.
    """
    prompt = label_prompt if split == "entity_tracking" else evaluation_prompt
    return {
        "name": split,
        "path": parquet_path(split),
        "released": FILES[split].path,
        "documents": len(documents),
        "groups": len({document.group for document in documents}),
        "yes": sum(document.answer == "yes" for document in documents),
        "digest": documents_digest(documents),
        "deviation": deviation(documents),
        "tasks": list(hub_task_ids(f"pragworld_{split}").values()),
        "prompt": prompt({"context": "{context}", "question": "{prompt}"}),
    }


def _reading_counts(documents: Sequence[Document]) -> dict[str, int]:
    readings = [read for read in readings_of(documents) if read]
    if not readings:
        return {}
    return {
        "disputed": sum(read.is_disputed for read in readings),
        "undetermined": sum(read.is_undetermined for read in readings),
    }


def _size(documents: int) -> str:
    """Return the Hub's category of a dataset's size."""
    return "n<1K" if documents < 1000 else "1K<n<10K"


# Parquet files ------------------------------------------------------------------------------------


def to_parquet(documents: Sequence[Document]) -> bytes:
    """Return the content of the Parquet file of a split."""
    from pyarrow import BufferOutputStream, Table, parquet

    table = Table.from_pylist(_records(documents), schema=_schema(documents[0].split))
    stream = BufferOutputStream()
    parquet.write_table(table, stream)
    content: bytes = stream.getvalue().to_pybytes()
    return content


def _records(documents: Sequence[Document]) -> list[dict[str, Any]]:
    return [
        {**document.to_dict(), **(_label_record(readings) if readings else {})}
        for document, readings in zip(documents, readings_of(documents), strict=True)
    ]


def _label_record(readings: LabelReadings) -> dict[str, Any]:
    return {
        "disputed": readings.is_disputed,
        "undetermined": readings.is_undetermined,
        "readings": readings.readings,
        "readings_sure": readings.sure,
        "reasons": readings.reasons,
    }


def _schema(split: Split) -> "Schema":
    import pyarrow

    integer, text, boolean = pyarrow.int64(), pyarrow.string(), pyarrow.bool_()
    types = {"row": integer, "group": integer, "released_group": integer}
    types |= {"is_original": boolean, "released_is_original": boolean}
    columns = {name: types.get(name, text) for name in _COLUMNS}
    if split == "manual":
        columns |= {"disputed": boolean, "undetermined": boolean}
        columns |= {"readings": pyarrow.list_(text), "readings_sure": pyarrow.list_(boolean)}
        columns |= {"reasons": pyarrow.list_(text)}
    return pyarrow.schema(list(columns.items()))


if __name__ == "__main__":
    main()
