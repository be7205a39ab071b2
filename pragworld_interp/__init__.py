"""Find the useful and harmful layers of any Hugging Face decoder.

Import names from here; each is loaded when it is first used. Only `ablate`, `patch` and `trace`,
which sweep a model in memory, need torch, and only figures need matplotlib. The command
`pragworld-interp` loads models by name, resumes interrupted sweeps, and runs on several devices.

>>> from pragworld_interp import EXAMPLES, read_layers
>>> report = read_layers(EXAMPLES / "layers.json")
>>> report.selected("useful"), report.selected("harmful")
([0, 1], [])
"""

from pathlib import Path
from typing import TYPE_CHECKING

from pragworld_tasks.lazy import lazy_exports

if TYPE_CHECKING:
    from pragworld_interp.comparison import LayerComparison
    from pragworld_interp.comparison import compare_reports as compare
    from pragworld_interp.figures import accuracy_figure, alterations_figure, patching_figure
    from pragworld_interp.layer_report import LayerReport, SweepSettings
    from pragworld_interp.layer_statistics import recompute_report
    from pragworld_interp.notebook import ablate, patch, trace
    from pragworld_interp.patching_report import PatchingReport, average_effects
    from pragworld_interp.power import Detectable, detectable_before_sweep
    from pragworld_interp.report_files import (
        read_layer_files,
        read_layers,
        read_patching,
        read_patching_panels,
    )
    from pragworld_interp.reports import Ablated, Patched
    from pragworld_interp.sweep_shards import merge_shards
    from pragworld_interp.targets import Target
    from pragworld_interp.trace_files import Traced, read_trace
    from pragworld_interp.trace_heatmap import trace_figure
    from pragworld_interp.trace_report import TraceReport

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
    "merge_shards",
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

# Reports of the small model, to try things on: layers.json and patching.jsonl.
EXAMPLES = Path(__file__).parent / "examples"

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Ablated": "reports:Ablated",
        "Detectable": "power:Detectable",
        "LayerComparison": "comparison:LayerComparison",
        "LayerReport": "layer_report:LayerReport",
        "Patched": "reports:Patched",
        "PatchingReport": "patching_report:PatchingReport",
        "SweepSettings": "layer_report:SweepSettings",
        "Target": "targets:Target",
        "TraceReport": "trace_report:TraceReport",
        "Traced": "trace_files:Traced",
        "ablate": "notebook:ablate",
        "accuracy_figure": "figures:accuracy_figure",
        "alterations_figure": "figures:alterations_figure",
        "average_effects": "patching_report:average_effects",
        "compare": "comparison:compare_reports",
        "detectable_before_sweep": "power:detectable_before_sweep",
        "merge_shards": "sweep_shards:merge_shards",
        "patch": "notebook:patch",
        "patching_figure": "figures:patching_figure",
        "read_layer_files": "report_files:read_layer_files",
        "read_layers": "report_files:read_layers",
        "read_patching": "report_files:read_patching",
        "read_patching_panels": "report_files:read_patching_panels",
        "read_trace": "trace_files:read_trace",
        "recompute_report": "layer_statistics:recompute_report",
        "trace": "notebook:trace",
        "trace_figure": "trace_heatmap:trace_figure",
    },
)
