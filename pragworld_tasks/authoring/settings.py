"""The settings of an authoring run, and the part of them that its requests depend on."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pragworld_tasks.authoring.prompts import Prompts
from pragworld_tasks.authoring.records import Seed
from pragworld_tasks.chat import Endpoint
from pragworld_tasks.data.documents import Document, documents_digest
from pragworld_tasks.errors import InputError
from pragworld_tasks.journal import SHOWN
from pragworld_tasks.text import join_names


@dataclass(frozen=True)
class Seat:
    """A place in a panel.

    Attributes:
        model: the model's name.
        endpoint: its endpoint's place in `PanelSettings.endpoints`.
        sample: tells apart samples of models of one name, at all endpoints.
    """

    model: str
    endpoint: int
    sample: int


@dataclass(frozen=True)
class PanelSettings:
    """How documents are labelled.

    Attributes:
        endpoints: the endpoints; the first is that of `--base-url` where there is one.
        seats: the members of the panel.
        prompts: the prompts.
        temperature: the sampling temperature.
        agree: how many votes have to be the same; None for the rule of `agreement`.

    Raises:
        InputError: A number is out of range.
    """

    endpoints: tuple[Endpoint, ...]
    seats: tuple[Seat, ...]
    prompts: Prompts
    temperature: float = 1.0
    agree: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise InputError(f"--temperature {self.temperature:g}: must be at least 0")
        if self.agree is not None and not len(self.seats) / 2 < self.agree <= len(self.seats):
            raise InputError(
                f"--agree {self.agree}: must be more than half of the panel's {len(self.seats)} "
                "members, and not more than there are"
            )

    @property
    def identity(self) -> dict[str, Any]:
        """What its requests depend on, as JSON values.

        Models of one name at several endpoints are told apart by their URLs. Otherwise the name is
        enough, for a server may move.
        """
        used = {(seat.model, seat.endpoint) for seat in self.seats}
        times = Counter(model for model, _ in {*used, (self.endpoints[0].model, 0)})
        return {
            "panel": [
                [
                    seat.model,
                    self.endpoints[seat.endpoint].url if times[seat.model] > 1 else seat.endpoint,
                    seat.sample,
                ]
                for seat in self.seats
            ],
            "temperature": self.temperature,
        }


@dataclass(frozen=True)
class AuthoringSettings:
    """What is written, and how it is labelled.

    Attributes:
        seeds: the seed conversations.
        panel: how documents are labelled. Its first endpoint's model writes them.
        groups: the number of groups with labels.
        turns: the number of turns of a conversation.
        variants: the most alterations of a conversation.
        random_seed: the seed of the random draws.
    """

    seeds: tuple[Seed, ...]
    panel: PanelSettings
    groups: int
    turns: int = 16
    variants: int = 5
    random_seed: int = 0

    @property
    def identity(self) -> dict[str, Any]:
        """What its requests depend on, as JSON values."""
        return {
            "seeds": _digest([seed.model_dump() for seed in self.seeds]),
            "model": self.panel.endpoints[0].model,
            **self.panel.identity,
            "turns": self.turns,
            "variants": self.variants,
            "seed": self.random_seed,
            "prompts": {name: digest[:8] for name, digest in self.panel.prompts.digests.items()},
        }


@dataclass(frozen=True)
class LabellingSettings:
    """Documents that exist, and how they are labelled.

    Attributes:
        documents: the documents, with the labels that they have.
        panel: how they are labelled.
    """

    documents: Sequence[Document]
    panel: PanelSettings

    @property
    def identity(self) -> dict[str, Any]:
        """What its requests depend on, as JSON values."""
        return {
            "documents": documents_digest(self.documents),
            **self.panel.identity,
            "prompts": {"label": self.panel.prompts.digests["label"][:8]},
        }


def settings_difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Name the settings of two runs that differ, as users give them; "" if none do.

    Args:
        before: the `identity` or the goal of a run.
        now: that of another one.

    Examples:
        >>> settings_difference({"seeds": "5d41", "turns": 16}, {"seeds": "7d79", "turns": 12})
        'other seeds, --turns 16, not 12'
        >>> settings_difference({"agree": None}, {"agree": 3})
        'no --agree, not --agree 3'
    """
    if ("documents" in before) != ("documents" in now) and "panel" in now:
        return "--documents, not --seeds" if "documents" in before else "--seeds, not --documents"
    return ", ".join(
        _difference(name, before.get(name), new)
        for name, new in now.items()
        if before.get(name) != new
    )


def _difference(name: str, before: Any, now: Any) -> str:
    if name in ("seeds", "documents"):
        return f"other {name}"
    if name == "prompts" and isinstance(before, dict):
        changed = [prompt for prompt in now if before.get(prompt) != now[prompt]]
        shown = [*changed[:SHOWN], *(["…"] if len(changed) > SHOWN else [])]
        return f"other prompts ({', '.join(shown)})"
    if name == "panel" and isinstance(before, list):
        panels = [_panel_text(panel) for panel in (before, now)]
        if panels[0] == panels[1]:
            return "the panel's models on other servers"
        return f"the panel {panels[0]}, not {panels[1]}"
    texts = [
        f"--{name} {value}" if value is not None else f"no --{name}" for value in (before, now)
    ]
    if None not in (before, now):
        texts[1] = str(now)
    return ", not ".join(texts)


def _panel_text(panel: Sequence[Sequence[Any]]) -> str:
    """Return the models of a panel, as in `large and 2 samples of small`."""
    models = Counter(str(model) for model, *_ in panel)
    names = [
        f"{times} samples of {model}" if times > 1 else model for model, times in models.items()
    ]
    return join_names(names)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
