"""Paraphrases by translation through two languages and back (arXiv 2506.16584, section 4, C.1)."""

import random
from dataclasses import dataclass

from pragworld_tasks.endpoint import Connection
from pragworld_tasks.request_journal import Request
from pragworld_tasks.sensitivity.paraphrases import Paraphrase

# The paper's fifteen. A chain goes through at least one of the first three, which are the farthest
# from English.
DISTANT = ("Chinese", "Japanese", "Arabic")
LANGUAGES = (
    *DISTANT,
    *("Turkish", "Finnish", "Korean", "Polish", "German", "Russian"),
    *("Indonesian", "Vietnamese", "Hindi", "Swahili", "Spanish", "Hebrew"),
)
# The paper's words.
SYSTEM = (
    "You are a professional translator. Translate the user text to {language}. "
    "Return *only* the translation\u2014no commentary."
)


def chain(seed: int, number: int) -> tuple[str, str]:
    """The two languages that candidate `number` goes through.

    Any two different ones in any order are equally likely, if one is among `DISTANT`. The same seed
    and number give the same on every machine.
    """
    chance = random.Random(f"{seed} {number}")
    while True:
        first, second = chance.sample(LANGUAGES, 2)
        if first in DISTANT or second in DISTANT:
            return first, second


@dataclass(frozen=True)
class Translation:
    """The method: a base prompt, translated along a chain of its own for each candidate.

    Attributes:
        prompt: the base prompt.
        model: which translates.
        temperature: at which it does.
        seed: of the chains.
    """

    prompt: str
    model: str
    temperature: float
    seed: int

    async def __call__(self, connection: Connection, number: int) -> Paraphrase:
        """The base prompt, through two languages and back to English.

        Raises:
            Unanswered, EndpointError: see `Connection.ask`.
        """
        languages = chain(self.seed, number)
        text = self.prompt
        for language in (*languages, "English"):
            text = await connection.ask(
                Request(
                    label=f"translation {number} to {language}",
                    model=self.model,
                    system=SYSTEM.format(language=language),
                    user=text,
                    temperature=self.temperature,
                    draw=number,
                )
            )
        return Paraphrase(text, f"translation: {', '.join(languages)}; model {self.model}")
