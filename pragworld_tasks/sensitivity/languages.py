"""The languages through which a prompt is translated (arXiv 2506.16584, section 4 and C.1)."""

import random

# The paper's fifteen, each with stems of its words for "translation". A chain has at least one of
# the first three, the farthest from English.
TRANSLATION_WORDS = {
    "Chinese": "翻译|翻譯|译文|譯文",
    "Japanese": "翻訳|訳文",
    "Arabic": "ترجم",
    "Turkish": "çevir",
    "Finnish": "käännö|käänne",
    "Korean": "번역",
    "Polish": "tłumacz|przetłumacz|przekład",
    "German": "übersetz",
    "Russian": "перевод|переве[дл]",
    "Indonesian": "terjemah",
    "Vietnamese": "bản dịch|dịch sang",
    "Hindi": "अनुवाद",
    "Swahili": "tafsiri",
    "Spanish": "traduc",
    "Hebrew": "תרגום|מתורגם",
}
LANGUAGES = tuple(TRANSLATION_WORDS)
DISTANT = LANGUAGES[:3]


def language_chain(seed: int, number: int) -> tuple[str, str]:
    """Return the two languages of candidate `number`.

    Any two different languages, in any order, are equally likely if one is among `DISTANT`. The
    same seed and number give the same languages on every machine.
    """
    generator = random.Random(f"{seed} {number}")
    while True:
        first, second = generator.sample(LANGUAGES, 2)
        if first in DISTANT or second in DISTANT:
            return first, second
