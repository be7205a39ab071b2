"""The vocabulary of the generated dialogues: people, things and places.

Each word list has two parts. The held-out words occur in the split `test_vocabulary` and nowhere
else.
"""

from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Literal, NamedTuple, get_args

Domain = Literal["household", "shop", "clinic", "everyday", "conversation"]
VocabularyPart = Literal["regular", "held out"]
NounNumber = Literal["plural", "singular", "mass"]


class Names(NamedTuple):
    """People, things and places.

    Attributes:
        agents: People's names.
        things: What people put somewhere: nouns in the plural or the singular, or mass nouns.
        places: Rooms and other places that things are "in". In the domain "everyday", the things
            are events, and the places are the times that they are at.
    """

    agents: tuple[str, ...]
    things: tuple[str, ...]
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """The two speakers of a dialogue.

    Attributes:
        labels: The speaker labels of the utterances. The first speaker asks, the second replies.
        names: How a question refers to the two speakers.
    """

    labels: tuple[str, str]
    names: tuple[str, str]


def _split(text: str) -> tuple[str, ...]:
    """Return the words of a text, or its comma-separated parts if it has commas."""
    return tuple(filter(None, text.split("," if "," in text else None)))


# The household has the names that are common in the released dialogues, the other domains more.
_HOUSEHOLD_WOMEN = _split(
    "Emma Mia Lily Chloe Aria Isabella Elizabeth Olivia Sophia Amelia Grace Hannah Ella Ava Emily "
    "Abigail Charlotte Madison"
)
_HOUSEHOLD_MEN = _split(
    "Noah Owen Jack Lucas Jayden Hunter Logan Oliver Ethan Liam Henry Samuel Nathan Carter "
    "Alexander Aiden Benjamin Jackson William Mason"
)
_WOMEN = _split(
    "Emma Mia Lily Chloe Aria Isabella Elizabeth Olivia Sophia Amelia Grace Hannah Ella Nora Zoe "
    "Ruby Clara Alma Ines Leila Priya Yuki Fatima Ingrid Teresa Wanda Abigail Naomi Esther Carmen"
)
_MEN = _split(
    "Noah Owen Jack Lucas Jayden Hunter Logan Oliver Ethan Liam Henry Samuel Daniel Leo Max Oscar "
    "Felix Hugo Ivan Omar Kenji Mateo Diego Ravi Anton Victor Simon Walter Jonas Peter Gavin "
    "Dennis"
)
_HELD_OUT_WOMEN = _split("Daisy Violet Ivy Matilda Beatrice Freya Odette Thandi Mei Rosalind")
_HELD_OUT_MEN = _split("Arthur Bruno Caleb Dmitri Edgar Finn Gustav Hassan Igor Kwame")
WOMEN = frozenset(_HOUSEHOLD_WOMEN + _WOMEN + _HELD_OUT_WOMEN)
_AGENTS: dict[VocabularyPart, tuple[str, ...]] = {
    "regular": _WOMEN + _MEN,
    "held out": _HELD_OUT_WOMEN + _HELD_OUT_MEN,
}

# The things, in the plural, in the singular and mass nouns, and the places of each domain.
_NOUNS: dict[Domain, dict[VocabularyPart, tuple[str, str, str, str]]] = {
    "household": {
        "regular": (
            "oranges,apples,grapes,peaches,limes,pears,plums,turnips,pumpkins,beans,carrots,"
            "potatoes,strawberries,lettuces,eggplants,cherries,bananas,radishes,pineapples,"
            "grapefruits,peas,green peppers,cabbages,watermelons",
            "persimmon,sweet potato,onion,melon,coconut,cauliflower",
            "asparagus,celery,corn,broccoli",
            "kitchen,garage,cellar,attic,pantry,hall,playroom,bedroom,living room,office,sunroom,"
            "workshop,closet,den,patio,porch,staircase,crawlspace,lounge,study,TV room,back yard,"
            "front yard,bathroom,dining room,garden,basement,hallway,master bedroom,laundry",
        ),
        "held out": (
            "apricots figs parsnips walnuts olives courgettes shallots quinces",
            "papaya avocado artichoke",
            "oatmeal cinnamon kale",
            "larder,conservatory,nursery,greenhouse,laundry room",
        ),
    },
    "shop": {
        "regular": (
            "lamps kettles mirrors blankets candles cushions teapots vases clocks umbrellas "
            "notebooks scarves baskets tablecloths mugs frames stools curtains toasters backpacks "
            "helmets gloves belts suitcases",
            "telescope ladder globe typewriter guitar rug tent bicycle",
            "ribbon,string,paint,wrapping paper,glue,fabric,wool,tape",
            "lobby,storeroom,basement,warehouse,showroom,back room,stockroom,front aisle,"
            "back office,loading bay,delivery van,sale corner,upper gallery,annexe",
        ),
        "held out": (
            "lanterns ladles doormats corkscrews hammocks easels saucers padlocks",
            "harp anvil accordion",
            "varnish charcoal twine",
            "shed,courtyard,vault,kiosk,side passage",
        ),
    },
    "clinic": {
        "regular": (
            "tablets bandages syringes samples prescriptions thermometers plasters crutches charts "
            "letters slings inhalers swabs needles masks aprons splints capsules ointments towels "
            "pillows forms gowns lancets",
            "wheelchair microscope stretcher file walker monitor trolley toolbox",
            "gauze,cotton wool,disinfectant,shampoo,insulin,saline,bleach,lotion",
            "pharmacy,laboratory,waiting room,ward,treatment room,ambulance,staff room,"
            "consulting room,reception area,X-ray room,examination room,linen room,changing room,"
            "archive",
        ),
        "held out": (
            "catheters stethoscopes vials pipettes bedpans wristbands scalpels braces",
            "incubator defibrillator centrifuge",
            "iodine plasma talcum",
            "isolation room,scanner room,infirmary,dispensary,recovery room",
        ),
    },
}
_DAYS = "Monday Tuesday Wednesday Thursday Friday"
_NOUNS["everyday"] = {
    "regular": (
        "",
        "picnic,barbecue,book club,rehearsal,birthday party,garden party,game night,"
        "farewell dinner,housewarming,film night,hiking trip,yard sale,cooking class,"
        "family lunch,staff meeting,photo session,quiz,bake sale,street fair,flat viewing,"
        "video call,dance lesson,chess evening,team breakfast,choir practice,museum visit,"
        "boat trip,parents' meeting,planning meeting,farewell drink,dentist appointment,"
        "haircut,driving lesson,car inspection,eye test,vet visit,grocery run,"
        "trip to the bank,house cleaning,passport renewal,piano lesson,parcel pickup",
        "",
        ",".join(f"{day} {part}" for day in _DAYS.split() for part in ("morning", "afternoon")),
    ),
    "held out": (
        "",
        "wine tasting,poetry reading,costume ball,pottery workshop,bicycle tour,brunch,jam session,"
        "table tennis match,charity run,karaoke night,guided walk,language exchange,tyre change,"
        "trip to the tailor,window cleaning",
        "",
        "Saturday evening,Sunday evening,Saturday night,Sunday night,Saturday noon,Sunday noon",
    ),
}
_EVENTS = frozenset(_split(",".join(nouns[1] for nouns in _NOUNS["everyday"].values())))
_TIMES = frozenset(_split(",".join(nouns[3] for nouns in _NOUNS["everyday"].values())))
_NUMBERS: dict[str, NounNumber] = {
    thing: number
    for parts in _NOUNS.values()
    for nouns in parts.values()
    for number, text in zip(get_args(NounNumber), nouns, strict=False)
    for thing in _split(text)
}
DOMAINS: tuple[Domain, ...] = tuple(_NOUNS)  # those that dialogues are composed for


@cache
def domain_vocabulary(domain: Domain, part: VocabularyPart) -> Names:
    """Return the regular vocabulary of a domain, or the one that is held out for a test split.

    >>> domain_vocabulary("shop", "held out").places
    ('shed', 'courtyard', 'vault', 'kiosk', 'side passage')
    """
    *things, places = map(_split, _NOUNS[domain][part])
    agents = _AGENTS[part]
    if (domain, part) == ("household", "regular"):
        agents = _HOUSEHOLD_WOMEN + _HOUSEHOLD_MEN
    return Names(agents, tuple(chain(*things)), places)


def number_of(thing: str) -> NounNumber:
    """Return whether a noun is in the plural or the singular, or a mass noun.

    >>> number_of("pears"), number_of("ladder"), number_of("glue")
    ('plural', 'singular', 'mass')
    """
    return _NUMBERS[thing]


# Prompt 1 says that the conversation is "between Bob and Alice", so all of them are. Alice asks, as
# in the released dialogues.
CASTS = (
    Cast(("Alice", "Bob"), ("Alice", "Bob")),
    Cast(("Alice", "Bob"), ("the woman", "the man")),
)

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


def is_event(thing: str) -> bool:
    """Return whether a noun names an event."""
    return thing in _EVENTS


def is_time(place: str) -> bool:
    """Return whether a name of the slot for places names a time."""
    return place in _TIMES


def singular(thing: str) -> str:
    """Return the singular of a noun in the plural."""
    return _SINGULARS.get(thing, thing.removesuffix("s"))
