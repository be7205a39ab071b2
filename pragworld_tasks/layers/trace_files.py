"""Traces that draw themselves, and reading their files."""

from pathlib import Path
from typing import TYPE_CHECKING

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json
from pragworld_tasks.layers.serialization import UnfitError, check_schema, check_writer, decode
from pragworld_tasks.layers.trace_heatmap import trace_figure
from pragworld_tasks.layers.trace_report import PART_TITLES, SCHEMA, SCHEMA_VERSION, TraceReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Traced(TraceReport):
    """What `trace` and `read_trace` return: the report of a trace that draws itself."""

    def plot(self, path: str | Path | None = None) -> "Figure":
        """Draw a heat map of layers and tokens; see `trace_figure`."""
        return trace_figure(self, path)

    def _repr_markdown_(self) -> str:
        return self.to_text()


def read_trace(path: str | Path) -> Traced:
    """Read the report that `pragworld-interp patch --row` or `TraceReport.write` wrote.

    Raises:
        InputError: The file is missing, malformed, inconsistent, or of another version.
    """
    check_writer(path, SCHEMA)
    content = read_json(path)
    check_schema(path, content, SCHEMA, SCHEMA_VERSION)
    try:
        report: Traced = decode(Traced, content, "")
        _check_trace(report)
    except (UnfitError, OverflowError) as error:
        raise InputError(f"{path}: {error}; write the file again") from error
    return report


def _check_trace(report: TraceReport) -> None:
    """Raise `UnfitError` if parts of a report contradict each other."""
    layers = report.model.layers
    traced: list[tuple[str, tuple[float, ...]]] = []
    for number, token in enumerate(report.tokens):
        place = f"tokens[{number}]"
        if token.position != number:
            raise UnfitError(f"{place} has the position {token.position}")
        if len({token.source is None, token.source_text is None, token.patched is None}) > 1:
            raise UnfitError(f"{place} must have source, source_text and patched, or none of them")
        if token.patched is not None:
            traced.append((f"{place}.patched", token.patched))
    names = [part.part for part in report.parts]
    if names != [name for name in PART_TITLES if name in names]:
        raise UnfitError(f"parts are {', '.join(names)}, not once each and in order")
    for part in report.parts:
        traced.append((f"parts, {part.part}", part.patched))
    sourced = [token.part for token in report.tokens if token.patched is not None]
    counts = {name: sourced.count(name) for name in PART_TITLES if name in sourced}
    if counts != {part.part: part.tokens for part in report.parts}:
        raise UnfitError("the parts do not have the tokens that are listed")
    for place, patched in traced:
        if len(patched) != layers:
            raise UnfitError(f"{place} has {len(patched)} layers, the model {layers}")
    runs = [("original_run", (report.original_run,)), ("altered_run", (report.altered_run,))]
    for place, probabilities in [*runs, *traced]:
        if not all(0 <= p <= 1 for p in probabilities):
            raise UnfitError(f"{place} has a number that is not a probability")
