"""Result files of several models, read together for a figure or a comparison."""

from collections.abc import Sequence
from pathlib import Path

from pragworld_interp.identities import model_titles
from pragworld_interp.layer_report import LayerReport, read_layers
from pragworld_interp.patching_report import (
    PatchedProbability,
    average_effects,
    is_patching_file,
    read_patching,
)
from pragworld_tasks.errors import InputError


def read_layer_files(paths: Sequence[str | Path]) -> dict[str, LayerReport]:
    """Read layer reports and return them by a short, unique title of each model.

    Raises:
        InputError: A file is not a layer report.

    Examples:
        >>> from pragworld_interp import EXAMPLES, read_layer_files
        >>> list(read_layer_files([EXAMPLES / "layers.json"]))
        ['tiny']
    """
    for path in paths:
        if is_patching_file(path):
            raise InputError(
                f"{path}: written by `pragworld-interp patch`; give files of `ablate` only"
            )
    reports = [read_layers(path) for path in paths]
    return dict(zip(model_titles([report.model for report in reports]), reports, strict=True))


def read_patching_panels(
    paths: Sequence[str | Path], by_alteration: bool = False
) -> tuple[str, dict[str, dict[str, PatchedProbability]]]:
    """Read patching reports and average the effects of the pairs that are kept.

    Args:
        paths: The files.
        by_alteration: Whether each alteration gets a panel, next to the one of all pairs.

    Returns:
        A title, and the panels of `figures.patching_figure`.

    Raises:
        InputError: A file is not a patching report, keeps no pair, or is of other documents or
            positions than the first one.
    """
    reports = [read_patching(path) for path in paths]
    first = reports[0]
    titles = model_titles([report.model for report in reports])
    panels: dict[str, dict[str, PatchedProbability]] = {}
    for path, title, report in zip(paths, titles, reports, strict=True):
        if (report.data, report.positions) != (first.data, first.positions):
            raise InputError(
                f"{path}: patched on other documents or positions than {paths[0]}; patch all "
                "models on the same"
            )
        groups = report.kept_by_alteration()
        if not groups:
            raise InputError(f"{path}: no pair is kept, so there is nothing to show")
        for name, pairs in (groups if by_alteration else {"": groups["all"]}).items():
            panels.setdefault(name, {})[title] = average_effects(pairs)
    return f"residuals patched at {first.positions} aligned positions: {first.data.split}", panels
