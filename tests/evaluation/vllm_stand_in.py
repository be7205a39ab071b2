"""A program that is called as `vllm serve` is and answers as it does, for small models on a CPU.

    LOG=requests.jsonl PYTHONPATH=tests python tests/evaluation/vllm_stand_in.py serve MODEL --port 8000 --data-parallel-size 2

Each of the copies that --data-parallel-size asks for is a process of its own. Connections go to them
in turn. The first line of the log is this process's id; each request adds a line with its copy and
what it asked for. Text is always generated greedily.
"""

import argparse
import itertools
import json
import os
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from servers import JsonHandler
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizer

# The options of vLLM 0.33.0 that the examples use, of `make_arg_parser` in
# vllm/entrypoints/common/cli_args.py and `EngineArgs.add_cli_args` in vllm/engine/arg_utils.py.
_OPTIONS = {
    "--host": str,
    "--port": int,
    "--data-parallel-size": int,
    "--tensor-parallel-size": int,
    "--max-model-len": int,
    "--seed": int,
}


class Engine:
    """A model, of which one request at a time is computed."""

    def __init__(self, folder: str) -> None:
        self.name = folder
        self.model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer: PreTrainedTokenizer = AutoTokenizer.from_pretrained(folder)
        self._lock = threading.Lock()
        self._generated: dict[tuple[int, ...], str] = {}

    def generate(self, tokens: Sequence[int], count: int, stop: Sequence[str]) -> str:
        """Return the greedy continuation of a prompt, without special tokens."""
        key = (*tokens, count)
        with self._lock, torch.inference_mode():
            if key not in self._generated:
                ids = torch.tensor([tokens])
                mask = torch.ones_like(ids)
                output = self.model.generate(
                    ids, attention_mask=mask, do_sample=False, max_new_tokens=count
                )
                new = output[0, len(tokens) :]
                self._generated[key] = self.tokenizer.decode(new, skip_special_tokens=True)
        text = self._generated[key]
        return min((text.partition(word)[0] for word in stop), key=len, default=text)

    def log_probabilities(self, tokens: Sequence[int]) -> dict[str, list[Any]]:
        """Return those of a prompt's tokens and of the greedy next one, in vLLM's layout."""
        with self._lock, torch.inference_mode():
            logits = self.model(torch.tensor([tokens])).logits[0]
        rows = logits.log_softmax(-1)
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
    """A connection to a copy of the model."""

    engine: Engine
    copy: int
    log: Path

    def do_GET(self) -> None:  # noqa: N802
        """Tell that the server is ready, at `/health`."""
        self.send(200 if self.path == "/health" else 404, b"", "text/plain")

    def post(self, body: Any) -> None:
        """Reply to a request for a completion."""
        asked = {name: body[name] for name in ("temperature", "seed", "max_tokens")}
        _append(self.log, {"copy": self.copy, "path": self.path, **asked})
        assert body["model"] == self.engine.name
        if self.path == "/v1/chat/completions":
            self._chat(body)
        elif self.path == "/v1/completions":
            self._continue(body)
        else:
            self.reply(404, {"detail": "Not Found"})

    def _chat(self, body: Any) -> None:
        engine = self.engine
        tokens = engine.tokenizer.apply_chat_template(
            body["messages"], add_generation_prompt=True, return_dict=True
        )["input_ids"]
        text = engine.generate(tokens, body["max_tokens"], body["stop"])
        self.complete(text, len(tokens))

    def _continue(self, body: Any) -> None:
        choices: list[dict[str, Any]] = []
        for prompt in body["prompt"]:
            if body.get("echo"):
                assert (body["logprobs"], body["max_tokens"]) == (1, 1)
                shown = self.engine.log_probabilities(prompt)
                choice = {"text": "".join(shown["tokens"]), "logprobs": shown}
            else:
                text = self.engine.generate(prompt, body["max_tokens"], body["stop"])
                choice = {"text": text}
            choices.append({"index": len(choices), "finish_reason": "length", **choice})
        self.reply(200, {"object": "text_completion", "choices": choices})


def _append(log: Path, line: Any) -> None:
    with log.open("a") as stream:  # short lines are written whole, whoever else writes
        stream.write(json.dumps(line) + "\n")


def _answer(connections: socket.socket) -> None:
    """Answer requests on the connections that come in, until the process that sends them ends."""
    while True:
        _, files, _, _ = socket.recv_fds(connections, 1, 1)
        if not files:
            os._exit(0)
        connection = socket.socket(fileno=files[0])
        arguments = (connection, ("127.0.0.1", 0), None)
        threading.Thread(target=Handler, args=arguments, daemon=True).start()


def main() -> None:
    """Serve until the process is killed."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    for name, kind in _OPTIONS.items():
        parser.add_argument(name, type=kind)
    options = parser.parse_args()
    torch.set_num_threads(1)
    Handler.log = Path(os.environ["LOG"])
    _append(Handler.log, os.getpid())
    Handler.engine = Engine(options.model)
    pairs = [
        socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for _ in range(options.data_parallel_size)
    ]
    for Handler.copy, (_, connections) in enumerate(pairs):
        if os.fork() == 0:
            for ours, _ in pairs:
                ours.close()
            _answer(connections)
    with socket.create_server((options.host, options.port), backlog=128) as server:
        for ours, _ in itertools.cycle(pairs):
            connection, _ = server.accept()
            socket.send_fds(ours, [b" "], [connection.fileno()])
            connection.close()


if __name__ == "__main__":
    main()
