"""What a run will take, before anything is sent: requests, tokens and dollars."""

from dataclasses import dataclass

from pragworld_tasks.authoring.prompts import Prompts
from pragworld_tasks.authoring.settings import AuthoringSettings, LabellingSettings

_CHARACTERS = 4  # of English text in a token, about
_LINE = 40  # characters of an utterance, about
_ENTITIES_REPLY, _EDITS_REPLY, _QUESTION_REPLY, _VOTE_REPLY = 60, 60, 30, 40  # tokens, about
_ALTERED_BY_MODEL = 0.2  # of the variants, about: the rules alter the others
_ASKED_BY_MODEL = 0.5  # of the questions: the others come from templates


@dataclass(frozen=True)
class RequestEstimate:
    """What a run takes if everything passes the checks.

    Attributes:
        requests: the number of requests.
        prompt_tokens: the tokens of their prompts.
        reply_tokens: the tokens of the replies.
        most: how many times as much it takes at most.
    """

    requests: float
    prompt_tokens: float
    reply_tokens: float
    most: int = 1

    def to_text(self, prices: tuple[float, float] | None) -> str:
        """Return a line, with dollars at prices per million tokens of prompts and of replies."""
        tokens = f"{_rounded(self.prompt_tokens)} tokens of prompts and "
        tokens += f"{_rounded(self.reply_tokens)} of replies"
        text = f"about {_rounded(self.requests)} requests, {tokens}"
        if prices:
            dollars = (self.prompt_tokens * prices[0] + self.reply_tokens * prices[1]) / 1e6
            text += f", ${dollars:.2f}"
        if self.most > 1:
            text += (
                f"; more if the checks drop conversations: at most {self.most} times as many, for "
                f"{self.most} attempts a group"
            )
        return text


def estimate_authoring(settings: AuthoringSettings, attempts_a_group: int) -> RequestEstimate:
    """Return what it takes to write and label documents.

    Args:
        settings: the settings.
        attempts_a_group: the most attempts for each group.
    """
    prompts, panel, groups = settings.panel.prompts, settings.panel, settings.groups
    conversation = "x" * (settings.turns * _LINE)
    used = settings.seeds[:groups]
    seeds = [
        _tokens(prompts, f"entities.{seed.kind}", conversation=seed.conversation) for seed in used
    ]
    writing = [
        _tokens(prompts, f"conversation.{seed.kind}", seed=seed.conversation) for seed in used
    ]
    edits, asking, voting = (
        _tokens(prompts, name, conversation=conversation)
        for name in ("alteration", "question", "label")
    )
    votes = groups * (1 + settings.variants) * len(panel.seats)
    by_model = groups * settings.variants * _ALTERED_BY_MODEL
    asked = groups * _ASKED_BY_MODEL
    return RequestEstimate(
        len(seeds) + groups + by_model + asked + votes,
        sum(seeds)
        + groups * sum(writing) / len(writing)
        + by_model * edits
        + asked * asking
        + votes * voting,
        len(seeds) * _ENTITIES_REPLY
        + groups * (len(conversation) / _CHARACTERS * 2 + _ENTITIES_REPLY)  # JSON takes as much
        + by_model * _EDITS_REPLY
        + asked * _QUESTION_REPLY
        + votes * _VOTE_REPLY,
        attempts_a_group,
    )


def estimate_labelling(settings: LabellingSettings) -> RequestEstimate:
    """Return what it takes to label documents that exist."""
    panel = settings.panel
    prompts = [
        _tokens(panel.prompts, "label", conversation=document.context, question=document.question)
        for document in settings.documents
    ]
    votes = len(prompts) * len(panel.seats)
    return RequestEstimate(votes, len(panel.seats) * sum(prompts), votes * _VOTE_REPLY)


def _tokens(prompts: Prompts, name: str, **values: str) -> float:
    """Return the tokens of a prompt with values in some slots, and a few words in the others."""
    few_words = dict.fromkeys(prompts.templates[name].slots, "x" * _LINE)
    prompt = prompts.fill(name, **{**few_words, **values})
    return (len(prompt.system) + len(prompt.user)) / _CHARACTERS


def _rounded(number: float) -> str:
    """Return a number with two significant digits.

    Examples:
        >>> _rounded(7418), _rounded(3.2), _rounded(1234567)
        ('7,400', '3', '1,200,000')
    """
    return f"{int(float(f'{number:.2g}')):,}"
