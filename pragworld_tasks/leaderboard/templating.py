"""The templates in `templates/`."""

from importlib.resources import files
from typing import Any


def template_text(name: str) -> str:
    """Return the text of a file in `templates/`."""
    return (files(__package__) / "templates" / name).read_text(encoding="utf-8")


def fill_template(template: str, **values: Any) -> str:
    """Return a template of plain text with the values filled in; nothing is escaped."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(template_text(template)).render(values)
