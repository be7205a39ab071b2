"""Templates of web pages: everything that is filled in is escaped."""

from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


def page_environment(folder: str, *packages: str) -> Environment:
    """Return an environment of the templates in packages' folders, and of those that all share.

    Args:
        folder: the name of the folder in each package.
        packages: the dotted names of the packages.
    """
    loaders = [PackageLoader(package, folder) for package in packages]
    return Environment(
        loader=ChoiceLoader([*loaders, PackageLoader(__package__, "templates")]),
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
