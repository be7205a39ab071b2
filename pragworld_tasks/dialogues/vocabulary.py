"""The words of the generated dialogues: who, what, where, in three domains.

Each list has two parts. The held-out words occur in the split `test_vocabulary` and nowhere else.
"""

from dataclasses import dataclass
from typing import Literal

Domain = Literal["household", "shop", "clinic"]
Vocabulary = Literal["regular", "held out"]


@dataclass(frozen=True, slots=True)
class Words:
    """What a dialogue may be about.

    Attributes:
        agents: people's names.
        things: what is put somewhere, in the plural.
        places: rooms and the like, which things are "in".
    """

    agents: tuple[str, ...]
    things: tuple[str, ...]
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """The two who speak.

    Attributes:
        labels: what stands before their utterances; the first asks, the second replies.
        names: what a question calls them.
    """

    labels: tuple[str, str]
    names: tuple[str, str]


def _list(text: str) -> tuple[str, ...]:
    """The words of a text; where it has commas, what stands between them."""
    return tuple(text.split("," if "," in text else None))


_WOMEN = _list(
    "Emma Mia Lily Chloe Aria Isabella Elizabeth Olivia Sophia Amelia Grace Hannah Ella Nora Zoe "
    "Ruby Clara Alma Ines Leila Priya Yuki Fatima Ingrid Teresa Wanda Abigail Naomi Esther Carmen"
)
_MEN = _list(
    "Noah Owen Jack Lucas Jayden Hunter Logan Oliver Ethan Liam Henry Samuel Daniel Leo Max Oscar "
    "Felix Hugo Ivan Omar Kenji Mateo Diego Ravi Anton Victor Simon Walter Jonas Peter Gavin "
    "Dennis"
)
_HELD_OUT_WOMEN = _list("Daisy Violet Ivy Matilda Beatrice Freya Odette Thandi Mei Rosalind")
_HELD_OUT_MEN = _list("Arthur Bruno Caleb Dmitri Edgar Finn Gustav Hassan Igor Kwame")
WOMEN = frozenset(_WOMEN + _HELD_OUT_WOMEN)
_AGENTS = _WOMEN + _MEN
_HELD_OUT_AGENTS = _HELD_OUT_WOMEN + _HELD_OUT_MEN

_WORDS: dict[Domain, dict[Vocabulary, Words]] = {
    "household": {
        "regular": Words(
            _AGENTS,
            _list(
                "oranges apples grapes peaches limes pears plums turnips cabbages pumpkins beans "
                "carrots onions potatoes watermelons strawberries lettuces eggplants cherries "
                "bananas mangoes lemons radishes tomatoes"
            ),
            _list(
                "kitchen,garage,cellar,attic,pantry,hall,playroom,bedroom,living room,office,"
                "sunroom,workshop,closet,den"
            ),
        ),
        "held out": Words(
            _HELD_OUT_AGENTS,
            _list("apricots figs parsnips walnuts olives melons shallots quinces"),
            _list("larder,conservatory,nursery,greenhouse,laundry room"),
        ),
    },
    "shop": {
        "regular": Words(
            _AGENTS,
            _list(
                "lamps kettles mirrors blankets candles cushions teapots vases clocks umbrellas "
                "notebooks scarves baskets tablecloths mugs frames stools curtains toasters "
                "backpacks helmets gloves hats suitcases"
            ),
            _list(
                "lobby,storeroom,basement,warehouse,showroom,back room,stockroom,front aisle,"
                "back office,loading bay,delivery van,sale corner,upper gallery,annexe"
            ),
        ),
        "held out": Words(
            _HELD_OUT_AGENTS,
            _list("lanterns ladles doormats corkscrews hammocks easels saucers padlocks"),
            _list("shed,courtyard,vault,kiosk,side passage"),
        ),
    },
    "clinic": {
        "regular": Words(
            _AGENTS,
            _list(
                "tablets bandages syringes samples prescriptions thermometers plasters crutches "
                "charts letters slings inhalers swabs needles masks aprons splints capsules "
                "ointments towels pillows forms gowns lancets"
            ),
            _list(
                "pharmacy,laboratory,waiting room,ward,treatment room,ambulance,staff room,"
                "consulting room,reception area,X-ray room,examination room,linen room,"
                "changing room,"
                "archive"
            ),
        ),
        "held out": Words(
            _HELD_OUT_AGENTS,
            _list("catheters stethoscopes vials pipettes bedpans wristbands scalpels braces"),
            _list("isolation room,scanner room,infirmary,dispensary,recovery room"),
        ),
    },
}
DOMAINS: tuple[Domain, ...] = tuple(_WORDS)


def words(domain: Domain, vocabulary: Vocabulary) -> Words:
    """The words of a domain: those of every split, or those of `test_vocabulary` alone."""
    return _WORDS[domain][vocabulary]


CASTS: dict[Domain, tuple[Cast, ...]] = {
    "household": (
        Cast(("Alice", "Bob"), ("Alice", "Bob")),
        Cast(("Bob", "Alice"), ("Bob", "Alice")),
    ),
    "shop": (Cast(("Buyer", "Seller"), ("the buyer", "the seller")),),
    "clinic": (
        Cast(("Doctor", "Patient"), ("the doctor", "the patient")),
        Cast(("Patient", "Doctor"), ("the patient", "the doctor")),
    ),
}

_SINGULARS = {
    "peaches": "peach",
    "radishes": "radish",
    "potatoes": "potato",
    "tomatoes": "tomato",
    "mangoes": "mango",
    "cherries": "cherry",
    "strawberries": "strawberry",
    "scarves": "scarf",
    "crutches": "crutch",
}


def singular(thing: str) -> str:
    """The singular of one of the things."""
    return _SINGULARS.get(thing, thing.removesuffix("s"))
