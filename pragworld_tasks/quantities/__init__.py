"""Read the one final number out of a free-form answer: `read_quantity(response, unit, prompt)`."""


def read_quantity(response: str, unit: str, prompt: str = "") -> float | None:
    """Return the final number of an answer in a unit, or None if the answer gives none.

    That number is the one that the answer concludes with or recommends, a total and not its parts.
    A range counts as its middle. If an answer offers alternatives without preferring one, the
    middle one of three counts, or else the middle of the least and the greatest. Other units are
    converted, and signs dropped.

    Args:
        response: A model's response.
        unit: The unit of the result: a unit that pint knows (`kg`, `hour`), money (`dollar`,
            `million dollar`), a noun for what is counted (`truck`), or any of these per something
            (`dollar / month`).
        prompt: The prompt of the response. Numbers that only repeat the prompt's do not count.

    Raises:
        InputError: `unit` is not a unit. No response raises an error.

    Examples:
        >>> read_quantity("The flight takes 3 hours. Plan on 5 hours in total.", "minute")
        300.0
        >>> read_quantity("You'd lose 2 to 3 kg.", "kg")
        2.5
    """
    # Patterns are compiled on this import, which takes a tenth of a second.
    from pragworld_tasks.quantities.candidates import ParsedAnswer
    from pragworld_tasks.quantities.choice import choose, find_options, shipped_weights
    from pragworld_tasks.quantities.mentions import read_target
    from pragworld_tasks.quantities.plain_text import to_plain_text

    answer = ParsedAnswer(to_plain_text(response), read_target(unit, prompt))
    return choose(find_options(answer, shipped_weights())).value
