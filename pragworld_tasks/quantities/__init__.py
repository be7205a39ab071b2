"""One final number out of a long free-form answer: `read_quantity(response, unit, prompt)`."""

from pragworld_tasks.quantities.reading import read_quantity

__all__ = ["read_quantity"]
