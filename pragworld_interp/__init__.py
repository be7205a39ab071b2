"""Find the useful and harmful layers of any Hugging Face decoder.

Import names from here; each is loaded when it is first used. Only `ablate`, `patch` and `trace`,
which sweep a model in memory, need torch, and only figures need matplotlib. The command
`pragworld-interp` loads models by name, resumes interrupted sweeps, and runs on several devices.

>>> from pragworld_interp import EXAMPLES, read_layers
>>> report = read_layers(EXAMPLES / "layers.json")
>>> report.selected("useful"), report.selected("harmful")
([0, 1], [])
"""

from typing import TYPE_CHECKING

from pragworld_tasks.lazy import lazy_exports

if TYPE_CHECKING:
    from pragworld_interp.notebook import ablate, patch, trace
    from pragworld_tasks.layers import EXAMPLES
    from pragworld_tasks.layers.comparison import LayerComparison
    from pragworld_tasks.layers.comparison import compare_reports as compare
    from pragworld_tasks.layers.figures import accuracy_figure, alterations_figure, patching_figure
    from pragworld_tasks.layers.layer_report import LayerReport, SweepSettings
    from pragworld_tasks.layers.layer_statistics import recompute_report
    from pragworld_tasks.layers.patching_report import PatchingReport, average_effects
    from pragworld_tasks.layers.power import Detectable, detectable_before_sweep
    from pragworld_tasks.layers.report_files import (
        read_layer_files,
        read_layers,
        read_patching,
        read_patching_panels,
    )
    from pragworld_tasks.layers.reports import Ablated, Patched
    from pragworld_tasks.layers.targets import Target
    from pragworld_tasks.layers.trace_files import Traced, read_trace
    from pragworld_tasks.layers.trace_heatmap import trace_figure
    from pragworld_tasks.layers.trace_report import TraceReport

__all__ = [
    "EXAMPLES",
    "Ablated",
    "Detectable",
    "LayerComparison",
    "LayerReport",
    "Patched",
    "PatchingReport",
    "SweepSettings",
    "Target",
    "TraceReport",
    "Traced",
    "ablate",
    "accuracy_figure",
    "alterations_figure",
    "average_effects",
    "compare",
    "detectable_before_sweep",
    "patch",
    "patching_figure",
    "read_layer_files",
    "read_layers",
    "read_patching",
    "read_patching_panels",
    "read_trace",
    "recompute_report",
    "trace",
    "trace_figure",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "EXAMPLES": "pragworld_tasks.layers:EXAMPLES",
        "Ablated": "pragworld_tasks.layers.reports:Ablated",
        "Detectable": "pragworld_tasks.layers.power:Detectable",
        "LayerComparison": "pragworld_tasks.layers.comparison:LayerComparison",
        "LayerReport": "pragworld_tasks.layers.layer_report:LayerReport",
        "Patched": "pragworld_tasks.layers.reports:Patched",
        "PatchingReport": "pragworld_tasks.layers.patching_report:PatchingReport",
        "SweepSettings": "pragworld_tasks.layers.layer_report:SweepSettings",
        "Target": "pragworld_tasks.layers.targets:Target",
        "TraceReport": "pragworld_tasks.layers.trace_report:TraceReport",
        "Traced": "pragworld_tasks.layers.trace_files:Traced",
        "ablate": "notebook:ablate",
        "accuracy_figure": "pragworld_tasks.layers.figures:accuracy_figure",
        "alterations_figure": "pragworld_tasks.layers.figures:alterations_figure",
        "average_effects": "pragworld_tasks.layers.patching_report:average_effects",
        "compare": "pragworld_tasks.layers.comparison:compare_reports",
        "detectable_before_sweep": "pragworld_tasks.layers.power:detectable_before_sweep",
        "patch": "notebook:patch",
        "patching_figure": "pragworld_tasks.layers.figures:patching_figure",
        "read_layer_files": "pragworld_tasks.layers.report_files:read_layer_files",
        "read_layers": "pragworld_tasks.layers.report_files:read_layers",
        "read_patching": "pragworld_tasks.layers.report_files:read_patching",
        "read_patching_panels": "pragworld_tasks.layers.report_files:read_patching_panels",
        "read_trace": "pragworld_tasks.layers.trace_files:read_trace",
        "recompute_report": "pragworld_tasks.layers.layer_statistics:recompute_report",
        "trace": "notebook:trace",
        "trace_figure": "pragworld_tasks.layers.trace_heatmap:trace_figure",
    },
)
