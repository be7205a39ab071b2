"""What requests to a model take: their number, tokens and price."""

from dataclasses import dataclass, fields


@dataclass
class Usage:
    """Numbers of requests and tokens.

    Attributes:
        answered: Requests that the server answered in this run.
        reused: Requests of this run that the server answered in an earlier one.
        prompt_tokens: Tokens of the prompts of both.
        reply_tokens: Tokens of the replies to both.
        uncounted: Replies of which the server did not count the tokens.
    """

    answered: int = 0
    reused: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    uncounted: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of prompts and replies."""
        return self.prompt_tokens + self.reply_tokens

    def cost(self, prices: tuple[float, float]) -> float:
        """Return the dollars, at prices per million tokens of prompts and of replies."""
        return (self.prompt_tokens * prices[0] + self.reply_tokens * prices[1]) / 1e6

    def count(self, tokens: tuple[int, int] | None) -> None:
        """Count the tokens of a reply."""
        self.prompt_tokens += tokens[0] if tokens else 0
        self.reply_tokens += tokens[1] if tokens else 0
        self.uncounted += not tokens

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum, such as that of several connections: `sum(usages, Usage())`."""
        return Usage(
            *(getattr(self, field.name) + getattr(other, field.name) for field in fields(Usage))
        )

    def to_text(self, prices: tuple[float, float] | None = None) -> str:
        """Return a line on the requests, the tokens and, at prices, the dollars."""
        text = (
            f"{self.answered:,} requests answered, {self.reused:,} reused from earlier runs; "
            f"tokens of both: {self.prompt_tokens:,} of prompts, {self.reply_tokens:,} of replies"
        )
        if prices:
            text += f"; ${self.cost(prices):.4f}"
        if self.uncounted:
            text += f"; the server did not count those of {self.uncounted:,} replies"
        return text
