"""A model that plays translator, judge and extractor."""

import json
import re

from servers import Body

from pragworld_tasks.sensitivity.paraphrasing import LANGUAGES

# What the first and the second language of a chain add.
ADDED = {
    language: (f"As they ask in {language}:", f"{language} thanks you.") for language in LANGUAGES
}


def play(body: Body) -> str:
    """Reply as a model; it depends on the words of the request alone.

    Translations through Swahili lose the slot, through Finnish add a number, and through Vietnamese
    a line break. The judge rejects those through Hebrew, and babbles about those through Hindi.
    """
    system, user = (message["content"] for message in body["messages"])
    if match := re.match(r"You are a professional translator\. .* to (\w+)\.", system):
        return json.dumps({"translation": _translate(user, match[1])}, ensure_ascii=False)
    if system.startswith("You compare two prompts"):
        second = user.partition("Second prompt:")[2]
        if any(words in second for words in ADDED["Hindi"]):
            return "As an AI, I love prompts."
        is_same = not any(words in second for words in ADDED["Hebrew"])
        return json.dumps({"same_request": is_same})
    return str(user).rpartition("=> ")[2]  # as an extractor


def _translate(text: str, language: str) -> str:
    """Translate a text; one that is not English carries the languages of its chain."""
    header = re.search(r"\[([\w ]+)\] ", text)
    languages = [*(header[1].split() if header else ()), language]
    base = text.replace(header[0], "") if header else text
    if language != "English":
        return f"[{' '.join(languages)}] {base}"
    first, second, _ = languages
    if "Swahili" in languages:
        base = re.sub(r"\{\w+\}", "somewhere", base)
    if "Finnish" in languages:
        base += " I have 777 euros."
    if "Vietnamese" in languages:
        base += "\nIs that clear?"
    same = {"Russian": "German"}  # both add the same
    return f"{ADDED[same.get(first, first)][0]} {base} {ADDED[same.get(second, second)][1]}"
