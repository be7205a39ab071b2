"""Templates of web pages: everything that is filled in is escaped."""

from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


def page_environment(package: str, folder: str) -> Environment:
    """Return an environment of the templates in a package's folder, and of those that all share.

    Args:
        package: the dotted name of the package.
        folder: the name of the folder in it.
    """
    return Environment(
        loader=ChoiceLoader(
            [PackageLoader(package, folder), PackageLoader(__package__, "templates")]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def style_of(package: str, folder: str) -> str:
    """Return the style that all pages share, and after it the `style.css` in a package's folder."""
    shared = files(__package__) / "templates" / "shared.css"
    own = files(package) / folder / "style.css"
    return "\n".join(sheet.read_text(encoding="utf-8") for sheet in (shared, own))
