"""Find the useful and harmful layers of any Hugging Face decoder.

Import names from here; each is loaded when it is first used. Only `ablate`, `patch` and `trace`,
which sweep a model in memory, need torch, and only figures need matplotlib. The command
`pragworld-interp` loads models by name, resumes interrupted sweeps, and runs on several devices.

>>> from pragworld_interp import EXAMPLES, read_layers
>>> report = read_layers(EXAMPLES / "layers.json")
>>> report.selected("useful"), report.selected("useful", by="sign")
([], [0, 1, 2])
"""

from typing import TYPE_CHECKING

from pragworld_tasks import lazy_exports

if TYPE_CHECKING:
    from pragworld_interp.notebook import ablate, patch, trace
    from pragworld_tasks.layers import EXAMPLES
    from pragworld_tasks.layers.ablation_report import (
        LayerReport,
        accuracy_figure,
        read_layers,
    )
    from pragworld_tasks.layers.comparison import LayerComparison
    from pragworld_tasks.layers.comparison import compare_reports as compare
    from pragworld_tasks.layers.layer_statistics import StatisticsSettings
    from pragworld_tasks.layers.patching_report import (
        PatchingReport,
        patching_figure,
        read_patching,
    )
    from pragworld_tasks.layers.settings import Target
    from pragworld_tasks.layers.token_report import TokenReport, read_patched_tokens

__all__ = [
    "EXAMPLES",
    "LayerComparison",
    "LayerReport",
    "PatchingReport",
    "StatisticsSettings",
    "Target",
    "TokenReport",
    "ablate",
    "accuracy_figure",
    "compare",
    "patch",
    "patching_figure",
    "read_layers",
    "read_patched_tokens",
    "read_patching",
    "trace",
]

__getattr__, __dir__ = lazy_exports(__name__)
