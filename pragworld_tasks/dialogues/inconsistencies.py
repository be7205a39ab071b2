"""Sentences that contradict common sense, for the alteration "Injecting Inconsistent Data".

Half of them leave all answers as they are. The others say that the things moved to another place,
or that they no longer exist, by means that no world has. All are in the past tense or have a modal
verb, so they fit one thing as well as several.
"""

from pragworld_tasks.dialogues.world import NOWHERE, Oddity

# `{things}` stands for the things with their article, `{place}` for a place with its article.
_STAYING: tuple[str, ...] = (
    "Whenever somebody laughs, {things} will hum.",
    "At midnight {things} turned into silver, and at dawn back again.",
    "In the dark {things} will glow and recite poems.",
    "According to the label, {things} came from the moon.",
    "When nobody looked, {things} sang a lullaby.",
    "On Sundays {things} can speak Latin.",
    "Last night {things} dreamt of the sea.",
    "A wizard once painted {things} with moonlight.",
    "A ghost bought the shadow of {things}.",
    "Every time somebody claps, {things} will change colour.",
    "In the year 3000 {things} won a chess tournament.",
    "Yesterday {things} played the violin for a dragon.",
    "The colder it gets, the louder {things} will snore.",
    "Every full moon {things} will float a hand above the floor.",
    "My grandmother bought {things} tomorrow, at half past thirty.",
    "In the mirror {things} wore tiny hats.",
    "Twice a day {things} must be fed with starlight.",
    "The smell of {things} can stop every clock in the city.",
    "A hundred years ago {things} ruled a small kingdom.",
    "Since the last eclipse {things} could be heard whispering.",
    "A doctor found that {things} had a heartbeat.",
)
_MOVING: tuple[str, ...] = (
    "But later {things} walked over to {place} without any help.",
    "But then {things} grew legs and moved to {place}.",
    "But an hour later {things} flew to {place} on tiny wings.",
    "But then {things} melted and took shape again in {place}.",
    "But when the clock ran backwards, {things} slipped through the wall into {place}.",
    "But at midnight a spell carried {things} to {place}.",
    "But then {things} rolled uphill all the way to {place}.",
    "But a gust of moonlight blew {things} over to {place}.",
    "But then {things} swam through the air to {place}.",
    "But {things} got homesick and marched off to {place}.",
    "But when the rooster meowed, {things} jumped to {place}.",
    "But then {things} sank through the floor and came out in {place}.",
    "But at the stroke of thirteen {things} tiptoed to {place}.",
    "But a rainbow came by and brought {things} to {place}.",
)
_VANISHING: tuple[str, ...] = (
    "But at midnight {things} vanished into thin air.",
    "But then {things} turned into smoke and blew away.",
    "But a moment later {things} dissolved in a beam of moonlight.",
    "But when somebody sneezed, {things} faded away for good.",
    "But then {things} turned into butterflies and flew off through the roof.",
    "But the last eclipse wiped {things} out of existence.",
    "But a wizard turned {things} into a gust of wind.",
    "But then a hungry cloud swallowed {things}.",
    "But {things} existed only until the rooster meowed.",
    "But then {things} burst like a soap bubble, and nothing was left.",
)


def inconsistent_sentence(oddity: Oddity, things: str, place: str) -> str:
    """Return a sentence that contradicts common sense.

    >>> inconsistent_sentence(Oddity("hall", 0), "the pears", "the hall")
    'But later the pears walked over to the hall without any help.'

    Args:
        oddity: What the sentence says has become of the things.
        things: The things, with their article.
        place: The place of the oddity with its article, or "" if it has none.
    """
    sentences: tuple[str, ...]
    if oddity.place is None:
        sentences = _STAYING
    else:
        sentences = _VANISHING if oddity.place == NOWHERE else _MOVING
    return sentences[oddity.wording % len(sentences)].format(things=things, place=place)
