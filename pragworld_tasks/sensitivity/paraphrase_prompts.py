"""The prompts with which a model paraphrases a prompt and judges its paraphrases.

The paper (arXiv 2506.16584) has two methods: translation through two languages and back (section 4
and C.1), and participants of a survey, whom the model plays (appendices C and D). A judge then
keeps what "express the same underlying request" (section 4). Its prompt is not published; ours is
our own.
"""

from dataclasses import dataclass

from pragworld_tasks.chat import Connection, Request
from pragworld_tasks.evaluation.answers import read_answer
from pragworld_tasks.sensitivity.languages import language_chain
from pragworld_tasks.sensitivity.paraphrases import Paraphrase
from pragworld_tasks.sensitivity.wrapping import unwrap

# The paper's words.
_TRANSLATOR = (
    "You are a professional translator. Translate the user text to {language}. "
    "Return *only* the translation\u2014no commentary."
)
# The paper's words. Its surveys all end with this topic, whatever they are about.
_PARTICIPANT = (
    "You are simulating a survey participant who needs to write a question to an AI assistant"
)
TOPIC = " about transportation and travel"
_SURVEY = """\
Scenario:
{scenario}

Your Task:
Imagine you are using an AI chatbot.
In your own words, craft a single question you would ask the AI to help you.
Do not copy the scenario verbatim\u2014rephrase it naturally.
{placeholder}
Now, please write your prompt. Submit only one prompt."""
_JUDGE = (
    "You compare two prompts written for an AI assistant. Words in braces are placeholders. "
    "Answer with yes or no, and nothing else."
)
_JUDGMENT = """\
First prompt:
{prompt}

Second prompt:
{text}

Do the two prompts express the same underlying request? Answer yes or no."""


# Translation --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Translation:
    """Paraphrasing by translation; each candidate has its own chain of languages.

    Attributes:
        prompt: The base prompt.
        model: The translator.
        temperature: Its sampling temperature.
        seed: The seed of the chains.
    """

    prompt: str
    model: str
    temperature: float
    seed: int

    async def __call__(self, connection: Connection, number: int) -> Paraphrase:
        """Return the base prompt, translated through two languages and back to English.

        Raises:
            UnansweredError: A request has no usable reply.
            InputError: The endpoint cannot be used.
        """
        languages = language_chain(self.seed, number)
        text = self.prompt
        for language in (*languages, "English"):
            label = f"translation {number} to {language}"
            system = _TRANSLATOR.format(language=language)
            request = Request(label, self.model, system, text, self.temperature, number)
            text = unwrap(await connection.ask(request), self.prompt)
        return Paraphrase(text, f"translation: {', '.join(languages)}; model {self.model}")


# Survey -------------------------------------------------------------------------------------------


def participant_prompt(topic: str = TOPIC) -> str:
    """Return the system message of a survey, on the paper's topic, another (` about …`) or none."""
    return f"{_PARTICIPANT}{topic}."


def survey_task(scenario: str, slot: str) -> str:
    """Return the message to a participant.

    Args:
        scenario: What the participant wants to know. Its last line may say how to use the slot, as
            that of `OpenQuestion.survey` does; otherwise such a line is added.
        slot: The slot, with its braces.
    """
    situation, line_break, last = scenario.strip().rpartition("\n")
    if not line_break or slot not in last:
        situation = scenario.strip()
        last = (
            f"When referring to what stands for it, use the placeholder {slot} instead of a "
            "specific name or number."
        )
    return _SURVEY.format(scenario=situation.strip(), placeholder=last)


@dataclass(frozen=True)
class Survey:
    """Paraphrasing by survey; one participant writes each candidate.

    Attributes:
        system: The system message; see `participant_prompt`.
        task: The message; see `survey_task`.
        prompt: The base prompt.
        model: The model that plays the participants.
        temperature: Its sampling temperature. At 0 all candidates are the same.
    """

    system: str
    task: str
    prompt: str
    model: str
    temperature: float

    async def __call__(self, connection: Connection, number: int) -> Paraphrase:
        """Return what participant `number` writes.

        Raises:
            UnansweredError: The request has no usable reply.
            InputError: The endpoint cannot be used.
        """
        label = f"survey participant {number}"
        request = Request(label, self.model, self.system, self.task, self.temperature, number)
        text = unwrap(await connection.ask(request), self.prompt)
        return Paraphrase(text, f"survey; model {self.model}")


# The judge ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judge:
    """A model that judges paraphrases of one prompt.

    Attributes:
        prompt: The base prompt.
        model: The judge, at temperature 0.
    """

    prompt: str
    model: str

    async def __call__(self, connection: Connection, text: str) -> bool | None:
        """Return whether a text makes the same request; None if the verdict is unreadable.

        Raises:
            UnansweredError: The request has no usable reply.
            InputError: The endpoint cannot be used.
        """
        user = _JUDGMENT.format(prompt=self.prompt, text=text)
        request = Request("judge", self.model, _JUDGE, user, temperature=0.0)
        answer = read_answer(await connection.ask(request))
        return None if answer is None else answer == "yes"
