"""Reports that draw themselves, which sweeps from Python and the readers of files return."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.figures import Horizontal, Metric, accuracy_figure, patching_figure
from pragworld_tasks.layers.identities import model_titles
from pragworld_tasks.layers.layer_report import By, LayerReport
from pragworld_tasks.layers.patching_report import (
    PatchedProbability,
    PatchingReport,
    average_effects,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Ablated(LayerReport):
    """What `ablate` and `read_layers` return: a layer report that draws itself."""

    def plot(
        self,
        path: str | Path | None = None,
        metric: Metric = "accuracy",
        by: By = "evidence",
        horizontal: Horizontal | None = None,
    ) -> "Figure":
        """Draw the accuracy by ablated layer; see `accuracy_figure`."""
        return accuracy_figure({model_titles([self.model])[0]: self}, path, metric, by, horizontal)

    def _repr_markdown_(self) -> str:
        return self.to_text()


class Patched(PatchingReport):
    """What `patch` and `read_patching` return: a patching report that draws itself."""

    def plot(
        self,
        path: str | Path | None = None,
        by_alteration: bool = False,
        horizontal: Horizontal | None = None,
    ) -> "Figure":
        """Draw the patched probability by layer; see `patching_figure`.

        Raises:
            InputError: No pair is kept.
        """
        if not self.kept_by_alteration():
            raise InputError("no pair is kept, so there is nothing to show")
        title, panels = patching_panels([self], by_alteration)
        return patching_figure(panels, path, title, horizontal)

    def _repr_markdown_(self) -> str:
        return self.to_text()


def patching_panels(
    reports: Sequence[PatchingReport], by_alteration: bool = False
) -> tuple[str, dict[str, dict[str, PatchedProbability]]]:
    """Return a title and the panels of a figure of reports on the same documents and positions."""
    titles = model_titles([report.model for report in reports])
    panels: dict[str, dict[str, PatchedProbability]] = {}
    for title, report in zip(titles, reports, strict=True):
        groups = report.kept_by_alteration()
        for name, pairs in (groups if by_alteration else {"": groups["all"]}).items():
            panels.setdefault(name, {})[title] = average_effects(pairs)
    first = reports[0]
    return f"residuals patched at {first.place}: {first.data.split}", panels
