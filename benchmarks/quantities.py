"""Time the reader of quantities on answers of 600 tokens, and on texts that could take long.

python benchmarks/quantities.py
"""

import statistics
import sys
import time
from pathlib import Path

from pragworld_tasks.files import read_json_lines
from pragworld_tasks.quantities import read_quantity
from pragworld_tasks.sensitivity.open_questions import fill_slot, questions

ANSWERS = Path(__file__).parents[1] / "tests" / "answers"
CHARACTERS = 2400  # of 600 tokens
ROUNDS = 5
LIMIT = 3.0  # milliseconds for an answer of 600 tokens
LONGEST = 50_000  # characters
SECONDS = 4.0  # for a text of that many
# Pieces of which a pattern that backtracks would take minutes to read many.
PIECES = (
    *("7", "$", "-", "$5-", "5 hours ", "$5 ", "|5 hours", "*", "{", "\\boxed{", "\\frac{", "_"),
    *("half a ", "one hundred and ", "1,", "1.", "1/2 ", "- 5 hours: 3\n", "a:", "**5 hours** "),
    *("2:30 ", "what you ", "can't ", "if you ", "= 5 hours + ", "<br", "[", "<think>", " ", "\n"),
    *("no ", "nothing ", "5 hours + ", "\u2013", "(", "case "),
)


def milliseconds_an_answer() -> float:
    """Return the median over rounds of the time for an answer of 600 tokens."""
    requests = []
    for _, row in read_json_lines(ANSWERS / "quantities_fresh_development.jsonl"):
        question = questions()[row["task"]]
        prompt = fill_slot(question.prompt, row["slot"])
        if len(row["response"]) > CHARACTERS / 2:  # several of one answer would repeat its cues
            requests.append((row["response"], question.unit, prompt))
    characters = sum(len(response) for response, _, _ in requests)
    times = []
    for _ in range(ROUNDS + 1):  # the first one fills caches
        start = time.process_time()
        for request in requests:
            read_quantity(*request)
        times.append(time.process_time() - start)
    return 1000 * statistics.median(times[1:]) * CHARACTERS / characters


def longest() -> tuple[float, str]:
    """Return the most seconds that a text of repeated pieces takes, and the piece."""
    times = []
    for piece in PIECES:
        text = piece * (LONGEST // len(piece))
        start = time.process_time()
        read_quantity(text, "hour", "How many hours?")
        read_quantity(text, "million dollar", "How much over 10 years?")
        times.append((time.process_time() - start, piece))
    return max(times)


def main() -> None:
    """Print both times, and exit with an error if a limit is broken."""
    typical, (worst, piece) = milliseconds_an_answer(), longest()
    print(f"an answer of 600 tokens: {typical:.1f} ms (limit {LIMIT:.0f} ms)")
    print(f"{LONGEST:,} characters at most, of {piece!r}: {worst:.1f} s (limit {SECONDS:.0f} s)")
    sys.exit(typical > LIMIT or worst > SECONDS)


if __name__ == "__main__":
    main()
