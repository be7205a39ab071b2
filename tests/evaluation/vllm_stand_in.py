"""A program that is called as `vllm serve` is and answers as it does, for small models on a CPU.

    LOG=requests.jsonl PYTHONPATH=tests python tests/evaluation/vllm_stand_in.py serve MODEL --port 8000

The first line of the log has the options and the id of the process. Each request adds a line with what it asked for. Text is
always generated greedily.
"""

import argparse
import functools
import json
import os
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from servers import JsonHandler
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizer

# The options of vLLM 0.33.0 that the examples use, of `make_arg_parser` in
# vllm/entrypoints/common/cli_args.py and `EngineArgs.add_cli_args` in vllm/engine/arg_utils.py.
_COUNTS = ("port", "data-parallel-size", "tensor-parallel-size", "max-model-len", "seed")
_ONE_AT_A_TIME = threading.Lock()


class Engine:
    """A model on a CPU."""

    def __init__(self, folder: str) -> None:
        self.name = folder
        self.model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer: PreTrainedTokenizer = AutoTokenizer.from_pretrained(folder)

    @functools.cache  # noqa: B019 - the engine lives as long as the program
    def generate(self, tokens: tuple[int, ...], count: int) -> str:
        """Return the greedy continuation of a prompt, without special tokens."""
        ids = torch.tensor([tokens])
        mask = torch.ones_like(ids)
        with torch.inference_mode():
            output = self.model.generate(
                ids, attention_mask=mask, do_sample=False, max_new_tokens=count
            )
        new = output[0, len(tokens) :]
        text: str = self.tokenizer.decode(new, skip_special_tokens=True)
        return text

    def log_probabilities(self, tokens: list[int]) -> dict[str, list[Any]]:
        """Return those of a prompt's tokens and of the greedy next one, in vLLM's layout."""
        with torch.inference_mode():
            rows = self.model(torch.tensor([tokens])).logits[0].log_softmax(-1)
        best = rows.argmax(-1).tolist()
        echoed = [*tokens, best[-1]]
        name = self.tokenizer.convert_ids_to_tokens
        values: list[float | None] = [None]
        tops: list[dict[str, float] | None] = [None]
        for row, token, top in zip(rows, echoed[1:], best, strict=True):
            values.append(float(row[token]))
            tops.append({name(index): float(row[index]) for index in (token, top)})
        return {"tokens": name(echoed), "token_logprobs": values, "top_logprobs": tops}


class Handler(JsonHandler):
    """A connection to the model."""

    engine: Engine

    def do_GET(self) -> None:  # noqa: N802
        """Tell that the server is ready, at `/health`."""
        self.send(200 if self.path == "/health" else 404, b"", "text/plain")

    def post(self, body: Any) -> None:
        assert body["model"] == self.engine.name
        with _ONE_AT_A_TIME:
            _log({name: body[name] for name in ("temperature", "seed", "max_tokens")})
            if self.path == "/v1/chat/completions":
                tokens = self.engine.tokenizer.apply_chat_template(
                    body["messages"], add_generation_prompt=True, return_dict=True
                )["input_ids"]
                self.complete(self._text(tokens, body), len(tokens))
            else:
                assert self.path == "/v1/completions"
                choices = [
                    {"index": index, "finish_reason": "length", **self._choice(prompt, body)}
                    for index, prompt in enumerate(body["prompt"])
                ]
                self.reply(200, {"object": "text_completion", "choices": choices})

    def _choice(self, prompt: list[int], body: Any) -> dict[str, Any]:
        if not body.get("echo"):
            return {"text": self._text(prompt, body)}
        assert (body["logprobs"], body["max_tokens"]) == (1, 1)
        shown = self.engine.log_probabilities(prompt)
        return {"text": "".join(shown["tokens"]), "logprobs": shown}

    def _text(self, tokens: list[int], body: Any) -> str:
        text = self.engine.generate(tuple(tokens), body["max_tokens"])
        return min((text.partition(word)[0] for word in body["stop"]), key=len, default=text)


def _log(line: Any) -> None:
    with Path(os.environ["LOG"]).open("a") as stream:
        stream.write(json.dumps(line) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--host")
    for name in _COUNTS:
        parser.add_argument(f"--{name}", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    Handler.engine = Engine(options.model)
    ThreadingHTTPServer.request_queue_size = 128
    server = ThreadingHTTPServer((options.host, options.port), Handler)
    _log({**vars(options), "process": os.getpid()})
    server.serve_forever()


if __name__ == "__main__":
    main()
