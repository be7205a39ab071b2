"""Reports of sweeps over the layers of a model: statistics, files, tables and figures.

`pragworld_interp` sweeps models and writes these reports, `pragworld_train` chooses layers by them,
and the board shows them. They need no torch.
"""

from pathlib import Path

# Reports of the small model, to try things on: layers.json and patching.json.
EXAMPLES = Path(__file__).parent / "examples"
