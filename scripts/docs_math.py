"""Show ```math blocks of the documentation as MathML, which browsers draw without a script.

GitHub shows the same blocks as formulas. `mkdocs.yml` names this file as a hook.
"""

from typing import Any

from latex2mathml.converter import convert


def on_config(config: Any) -> None:
    """Have the extension for fenced blocks call `to_mathml` for those of the language `math`."""
    fence = {"name": "math", "class": "math", "format": to_mathml}
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [fence]}


def to_mathml(formula: str, *_arguments: object, **_settings: object) -> str:
    """Return a formula in LaTeX as a line of its own in MathML."""
    return f'<div class="math">{convert(formula, display="block")}</div>'
