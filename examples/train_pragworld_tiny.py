"""Trains `pragworld-tiny`, the small model that comes with pragworld, from nothing.

    python examples/train_pragworld_tiny.py FOLDER
    python examples/train_pragworld_tiny.py FOLDER --seed 2 --steps 500     # another, sooner

Every training sequence is a generated dialogue with many questions behind it, each of which sees
the dialogue and not the other questions. The dialogues are of the split `train`, and none is
altered. What makes the model learn on a CPU within an hour:

- Two heads of its first layer start out looking at the token before, the others at tokens that are
  like the one that looks: what it takes to find something said earlier, and what was said beside
  it. Without them it stands at chance for a thousand steps, and then gets on as luck would have it.
- Lessons are easy at first: few words, short dialogues. While it answers well enough they become
  harder, little by little. Only a few noes are about what is not in the dialogue at all: with many,
  whether a word occurs is learned first, and what goes with what then comes late, or never.
- Open questions ("Where are the pears?") stand among the yes/no ones: copying an answer is learned
  before checking one.
- On the prompt's line before the last it learns to say to itself what the answer rests on (the
  place where the pears are), and on the last line it answers. Nobody sees what it says to itself.
- There is a small loss on the dialogue's own text.

Settings, versions and the course of the training go to `training.json` beside the weights.
"""

import argparse
import contextlib
import ctypes
import json
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from pragworld_tasks.dialogues.compose import Dialogue, compose, utterances
from pragworld_tasks.dialogues.grammar import NUMBERS
from pragworld_tasks.dialogues.questions import (
    FORMS,
    Kind,
    Question,
    askable,
    by_answer,
    evaluate,
    question_text,
)
from pragworld_tasks.dialogues.settings import GENERATOR_VERSION, SPLIT_SHARES
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.topics import TOPICS
from pragworld_tasks.dialogues.vocabulary import DOMAINS, WOMEN, Vocabulary, domain_vocabulary
from pragworld_tasks.dialogues.world import REPLIER, Mentioned, State, interpret, mentioned
from pragworld_tasks.evaluation.prompts import evaluation_prompt, label_prompt


@dataclass(frozen=True)
class Settings:
    """Of a training run.

    Attributes:
        steps: of training, each on one batch.
        layers, width, heads, feed_forward: of the model.
        vocabulary: of the tokenizer, in tokens, before the prompts' parts.
        dialogues: in a batch.
        questions: about so many at most, behind each dialogue.
        matrix_rate, other_rate: learning rates of Muon, for the layers' matrices, and of AdamW.
        warm_up: share of the training in which the learning rates rise.
        text_loss: weight of the loss on the dialogue's own text.
        pass_mark: accuracy on yes/no questions at which lessons become harder.
        stride: by how much, of the way from the easiest to those of the test split.
        cool_down: share of the training at the end in which the learning rates fall to nothing.
        threads: of the CPU.
    """

    seed: int = 1
    steps: int = 1500
    layers: int = 5
    width: int = 128
    heads: int = 4
    feed_forward: int = 256
    vocabulary: int = 1536
    dialogues: int = 32
    questions: int = 12
    matrix_rate: float = 0.01
    other_rate: float = 0.004
    warm_up: float = 0.01
    weight_decay: float = 0.01
    text_loss: float = 0.1
    pass_mark: float = 0.75
    stride: float = 0.05
    cool_down: float = 0.35
    threads: int = 2


# The tokenizer ------------------------------------------------------------------------------------

_BEGIN, _END, _PAD = "<s>", "</s>", "<pad>"
_DIALOGUE, _QUESTION = "@dialogue@", "@question@"
_OPEN = "Answer:"  # a third prompt, for open questions, that only training has


def prompt_parts() -> dict[str, tuple[str, str, str, str]]:
    """Each prompt in four: before the dialogue, before the question, behind it, the last line."""
    parts = {}
    for name, prompt in (("evaluation", evaluation_prompt), ("label", label_prompt)):
        filled = prompt({"context": _DIALOGUE, "question": _QUESTION})
        head, rest = filled.split(_DIALOGUE)
        middle, tail = rest.split(_QUESTION)
        last = "Your answer:\n(" if name == "evaluation" else "Label:"
        parts[name] = head, middle, tail.removesuffix(last), last
    parts["open"] = (*parts["label"][:3], _OPEN)
    return parts


def make_tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE in which the words of the dialogues are tokens, and so are the prompts' parts.

    Those parts are the same for every question; as one token each they cost next to nothing.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[_BEGIN, _END, _PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    rng = StableRandom("the tokenizer's dialogues")
    texts = []
    for _ in range(6000):
        lesson = make_lesson(rng, 1.0, 6, 12)
        texts.append(lesson.context)
        texts += [f"{question}{answer}" for _, question, answer, _ in lesson.questions]
    tokenizer.train_from_iterator(texts, trainer)
    parts = {part for each in prompt_parts().values() for part in each}
    tokenizer.add_tokens([AddedToken(part, normalized=False) for part in sorted(parts)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{_BEGIN} $A", special_tokens=[(_BEGIN, tokenizer.token_to_id(_BEGIN))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=_BEGIN,
        eos_token=_END,
        pad_token=_PAD,
        model_max_length=2048,
    )


# Lessons ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lesson:
    """A dialogue, and questions about it.

    Attributes:
        questions: of each the prompt it is asked by, its words, the answer, and the word of the
            dialogue that the answer rests on; empty where there is none.
    """

    context: str
    questions: list[tuple[str, str, str, str]]


def make_lesson(rng: StableRandom, difficulty: float, exchanges: int, questions: int) -> Lesson:
    """A dialogue of the training split with questions, as many with the answer yes as with no.

    Args:
        chance: what all is drawn from.
        difficulty: from 0 to 1. At 0 some noes are about somebody or something that is not in the
            dialogue; then nearly all are about what is there, but not together. After that come,
            little by little, more words and domains, topics and kinds of questions.
        exchanges: the dialogue's length.
        questions: about so many.
    """
    breadth = _breadth(difficulty)
    easy = 0.3 - 0.2 * min(1.0, difficulty / _NARROW)
    open_share = 0.4 - 0.3 * breadth
    tempting = 0.6 * breadth
    kinds = _KINDS[rng.happens(2 * breadth) + rng.happens(2 * breadth)]
    domain = rng.choice(DOMAINS) if rng.happens(2 * breadth) else "household"
    known_words = _some_words(domain_vocabulary(domain, "regular"), breadth)
    if rng.happens(2 * breadth):  # as in the test split: a few topics, and others between them
        topics = rng.sample(tuple(TOPICS), rng.below(3))
    else:
        simple = _SIMPLE[: 1 + round(4 * min(1.0, 3 * breadth))]
        topics = [rng.choice(simple) for _ in range(exchanges)]
    dialogue = compose(domain, known_words, exchanges, topics, rng, SPLIT_SHARES["train"])
    state, known = interpret(dialogue.resolved), mentioned(dialogue.resolved)
    asked: list[tuple[str, str, str, str]] = []
    opened = list(_open_questions(state, dialogue))
    for question, answer in rng.sample(opened, round(questions * open_share)):
        asked.append(("open", question, f" {answer}", f" {answer}"))
    spoken_of = [set(exchange.names) for exchange in dialogue.resolved]
    for _ in range(4 * questions):
        if len(asked) >= questions:
            break
        kind = rng.choice(kinds)
        form = rng.choice(FORMS[kind])
        possible = by_answer(askable(form, kind, known, state), state)
        if not possible[True]:
            continue
        yes = rng.choice(possible[True])
        near = [
            candidate
            for candidate in possible[False]
            if any(here.issuperset(filter(None, candidate[2:5])) for here in spoken_of)
        ]
        if not possible[False] or rng.happens(easy):
            another = _about_others(yes, known_words, known, state, rng)
            if another is None:
                continue
            no = another
        else:
            no = rng.choice(near if near and rng.happens(tempting) else possible[False])
        for candidate, word in ((yes, "yes"), (no, "no")):
            worded = candidate._replace(knower=rng.below(2), wording=rng.below(6))
            prompt = "evaluation" if rng.happens(0.5) else "label"
            answer = f"{word})" if prompt == "evaluation" else f" {word}"
            text = question_text(worded, dialogue.cast)
            asked.append((prompt, text, answer, _rests_on(worded, state, dialogue)))
    asked = rng.shuffled(asked)[: questions + 2]
    return Lesson("\n".join(utterances(dialogue)), asked)


# What is asked at first, later, and in the end.
_KINDS: tuple[tuple[Kind, ...], ...] = (
    ("only-entity",),
    ("only-entity", "quantity", "universal", "existential"),
    tuple(FORMS),
)
# What the first dialogues are made of.
_SIMPLE = ("done", "somewhere", "not done", "presence", "quantity")


_NARROW = 0.1  # the difficulty up to which all but the noes stays as it is at first


def _breadth(difficulty: float) -> float:
    """How much there is of words, topics, kinds of questions and length: 0 little, 1 all."""
    return max(0.0, (difficulty - _NARROW) / (1 - _NARROW))


def _some_words(all_words: Vocabulary, breadth: float) -> Vocabulary:
    """A quarter of the words at first, all of them in the end; none is taken away again."""
    share = 0.25 ** (1 - breadth)
    women = [name for name in all_words.agents if name in WOMEN]
    men = [name for name in all_words.agents if name not in WOMEN]
    return Vocabulary(
        (*women[: round(share * len(women))], *men[: round(share * len(men))]),
        all_words.things[: max(8, round(share * len(all_words.things)))],
        all_words.places[: max(5, round(share * len(all_words.places)))],
    )


def _another(names: Sequence[str], mentioned: Sequence[str], rng: StableRandom) -> str:
    """One of the names that is not mentioned, if there is one."""
    return rng.choice([name for name in names if name not in mentioned] or names)


def _about_others(
    question: Question, known: Vocabulary, mentioned: Mentioned, state: State, rng: StableRandom
) -> Question | None:
    """The question with one of its names replaced by one that makes the answer no.

    None where a few tries find none, as where the dialogue mentions all the words there are.
    """
    for _ in range(300):
        slot = rng.choice([slot for slot in ("agent", "thing", "place") if getattr(question, slot)])
        if slot == "agent":
            other = question._replace(agent=_another(known.agents, mentioned.agents, rng))
        elif slot == "thing":
            other = question._replace(thing=_another(known.things, mentioned.things, rng))
        else:
            other = question._replace(place=_another(known.places, mentioned.places, rng))
        if evaluate(other, state) is False and other != question:
            return other
    return None


def _rests_on(question: Question, state: State, dialogue: Dialogue) -> str:
    """What the dialogue says of what is asked about, in a word: a place, a name, a number."""
    form, _, agent, thing, place, *_ = question
    if form in ("told", "agent knows"):
        return ""
    if form == "went":
        places = {there for who, there in state.went if who == agent}
        return f" {place}" if place in places else f" {min(places, default='unknown')}"
    cell = state.cell(thing, place)
    if form in ("any", "some", "where"):
        if cell:
            return f" {place}"
        cells = state.cells.get(thing, {})
        return f" {next(iter(cells))}" if cells else " unknown"
    if cell is None:
        return " unknown"
    if "exactly" in form or form in ("more than", "how many"):
        return f" {NUMBERS[cell.counts[0]]}" if len(cell.counts) == 1 else " unknown"
    if form in ("all", "left all"):
        return " all" if cell.whole else " some"
    names = {_name(who, dialogue) for who in cell.agents}
    asked = _name(agent, dialogue)
    return f" {asked}" if asked in names else f" {min(names, default='unknown')}"


def _name(agent: str, dialogue: Dialogue) -> str:
    return dialogue.cast.names[1].removeprefix("the ") if agent == REPLIER else agent


def _open_questions(state: State, dialogue: Dialogue) -> Iterator[tuple[str, str]]:
    """Questions whose answer is a word or a few of the dialogue."""
    for thing, cells in state.cells.items():
        for place, cell in cells.items():
            if cell.whole:
                yield f"Where are the {thing}?", place
            if len(cell.counts) == 1:
                yield f"How many {thing} are in the {place}?", NUMBERS[cell.counts[0]]
            elif not cell.counts:
                yield f"How many {thing} are in the {place}?", "unknown"
            if len(cell.agents) == 1:
                who = _name(next(iter(cell.agents)), dialogue)
                yield f"Who put the {thing} in the {place}?", who
            elif not cell.by_itself and not cell.agents:
                yield f"Who put the {thing} in the {place}?", "unknown"
    for thing in state.alternatives:
        yield f"Where are the {thing}?", "unknown"
    for agent, place in state.went:
        if agent != REPLIER:
            yield f"Where did {agent} go?", place


# Batches ------------------------------------------------------------------------------------------

Tokens = list[int]


class Batcher:
    """Lessons as tensors: the dialogue once, and each question behind it as if it were alone."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.tokenizer = tokenizer
        self.parts = {
            name: [self._one(part) for part in parts] for name, parts in prompt_parts().items()
        }
        self.begin = tokenizer.convert_tokens_to_ids(_BEGIN)
        self.end = tokenizer.convert_tokens_to_ids(_END)
        self.pad = tokenizer.convert_tokens_to_ids(_PAD)

    def _one(self, part: str) -> int:
        return int(self.tokenizer.convert_tokens_to_ids(part))

    def ids(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of each text."""
        if not texts:
            return []
        return [list(ids) for ids in self.tokenizer(texts, add_special_tokens=False)["input_ids"]]

    def batch(self, lessons: Sequence[Lesson], rng: StableRandom) -> dict[str, torch.Tensor]:
        """Input ids, positions, mask (1, where a token sees another), targets and loss weights."""
        rows: list[tuple[Tokens, list[int], list[int], list[int]]] = []
        contexts = self.ids([lesson.context for lesson in lessons])
        for lesson, context in zip(lessons, contexts, strict=True):
            head = self.parts[rng.choice(("evaluation", "label"))][0]
            ids, kinds = [self.begin, head, *context], [0] * (len(context) + 2)
            positions, targets = list(range(len(ids))), [-1, *context, -1]
            start = len(ids)
            asked = self.ids([question for _, question, _, _ in lesson.questions])
            answers = self.ids([answer for _, _, answer, _ in lesson.questions])
            facts = self.ids([fact for _, _, _, fact in lesson.questions])
            for number, ((prompt, *_), question, answer, fact) in enumerate(
                zip(lesson.questions, asked, answers, facts, strict=True), start=1
            ):
                _, middle, tail, last = self.parts[prompt]
                block = [middle, *question, tail, last, *answer]
                ids += block
                kinds += [number] * len(block)
                positions += range(start, start + len(block))
                # On the line before the last it is to say to itself what the answer rests on.
                targets += [-1] * (len(question) + 1) + (fact[:1] or [-1]) + [*answer, self.end]
            rows.append((ids, kinds, positions, targets))
        longest = max(len(ids) for ids, *_ in rows)
        ids_, kinds_, positions_, targets_ = (
            torch.tensor([row[which] + [fill] * (longest - len(row[0])) for row in rows])
            for which, fill in enumerate((self.pad, -1, 0, -1))
        )
        same = kinds_[:, :, None] == kinds_[:, None, :]
        sees = (same | (kinds_[:, None, :] == 0)) & torch.ones(longest, longest).tril().bool()
        sees |= torch.eye(longest).bool()
        return {
            "ids": ids_,
            "positions": positions_,
            "sees": sees[:, None],
            "targets": targets_,
            "is_text": kinds_ == 0,
        }


_REPORT = 25  # steps from one line of the log to the next

# Training -----------------------------------------------------------------------------------------


def make_model(settings: Settings, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """The model before training.

    Its attention starts out looking for what is like the token that looks, and copying it (as in
    "mimetic initialisation", Trockman and Kolter 2023, arXiv 2305.09828), but for two heads of the
    first layer, which look at the token before. To find in the dialogue what the question names,
    and what stands beside it, is what a model of this size takes longest to learn.
    """
    torch.manual_seed(settings.seed)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=settings.width,
            intermediate_size=settings.feed_forward,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            num_key_value_heads=settings.heads,
            head_dim=settings.width // settings.heads,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6},
            max_position_embeddings=2048,
            initializer_range=0.05,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    with torch.no_grad():
        for layer in model.model.layers:
            attention = layer.self_attn
            torch.nn.init.normal_(attention.q_proj.weight, std=settings.width**-0.5)
            attention.k_proj.weight.copy_(attention.q_proj.weight)
            attention.o_proj.weight.copy_(attention.v_proj.weight.T)
        _look_back(model, heads=2)
    return model


def _look_back(model: Qwen3ForCausalLM, heads: int) -> None:
    """Has the first heads of the first layer look at the token before.

    All embeddings get one direction in common, from which these heads make queries and keys that
    are the same for every token. Rotary embeddings turn them by their positions; a query is turned
    back by one, so that it fits the key of the position before best. The three fastest frequencies
    are enough to tell that position from all others of a dialogue.
    """
    width, size = model.config.hidden_size, model.config.head_dim
    embeddings, attention = model.model.embed_tokens.weight, model.model.layers[0].self_attn
    common = torch.nn.functional.normalize(torch.randn(width), dim=0)
    embeddings.add_(embeddings.norm(dim=1).mean() * common)
    turn = model.model.rotary_emb.inv_freq[:3]
    key, query = torch.zeros(size), torch.zeros(size)
    key[:3], query[:3] = 1, turn.cos()
    query[size // 2 : size // 2 + 3] = -turn.sin()
    for head in range(heads):
        rows = slice(head * size, (head + 1) * size)
        attention.q_proj.weight[rows] = torch.outer(query, common)
        attention.k_proj.weight[rows] = torch.outer(key, common)
        torch.nn.init.normal_(attention.o_proj.weight[:, rows], std=0.05)


def _keep_memory() -> None:
    """Has glibc keep freed memory, since getting it anew for every tensor takes half the time."""
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in ((-1, 2**31 - 1), (-2, 2**28), (-4, 0)):  # trim, top pad, no mmap
            mallopt(option, value)


def _give_memory_back() -> None:
    """Has glibc give back what is free, which in time lies in pieces that nothing fits into."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def train(settings: Settings, folder: Path) -> None:
    """Trains a model and writes it, its tokenizer and its log into `folder`."""
    torch.set_num_threads(settings.threads)
    _keep_memory()
    tokenizer = make_tokenizer(settings.vocabulary)
    batcher = Batcher(tokenizer)
    model = make_model(settings, tokenizer)
    model.set_attn_implementation("eager")  # faster here than the fused kernels of the CPU
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    chosen = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(
            matrices, lr=settings.matrix_rate, weight_decay=settings.weight_decay, momentum=0.95
        ),
        torch.optim.AdamW(others, lr=settings.other_rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    rates = [settings.matrix_rate, settings.other_rate]
    rng = StableRandom(f"pragworld-tiny {settings.seed}")
    labels = torch.tensor(tokenizer.convert_tokens_to_ids(["yes", "no", "Ġyes", "Ġno"]))
    log: list[dict[str, float]] = []
    begun = time.monotonic()
    sums, difficulty = [0.0] * 4, 0.0
    for step in range(1, settings.steps + 1):
        # One length a batch: little padding. Half the lessons are easier, lest much be new at once.
        exchanges = 2 + rng.below(2 + round(7 * _breadth(difficulty)))
        lessons = [
            make_lesson(
                rng,
                difficulty * (1 if rng.happens(0.5) else rng.below(100) / 100),
                exchanges,
                min(settings.questions, 3 + 2 * exchanges),
            )
            for _ in range(settings.dialogues)
        ]
        batch = batcher.batch(lessons, rng)
        done = step / settings.steps
        factor = min(1.0, done / settings.warm_up, (1 - done) / settings.cool_down)
        for optimizer, rate in zip(optimizers, rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
        with torch.autocast("cpu", torch.bfloat16):
            hidden = model.model(
                input_ids=batch["ids"],
                position_ids=batch["positions"],
                attention_mask=torch.where(batch["sees"], 0.0, torch.finfo(torch.float32).min),
            ).last_hidden_state
            wanted = batch["targets"] >= 0
            logits = model.lm_head(hidden[wanted])
        targets, of_text = batch["targets"][wanted], batch["is_text"][wanted]
        losses = cross_entropy(logits.float(), targets, reduction="none")
        answer_loss = losses[~of_text].mean()
        text_loss = losses[of_text].mean() if of_text.any() else torch.zeros(())
        torch.autograd.backward(answer_loss + settings.text_loss * text_loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        is_label = torch.isin(targets, labels)
        right = logits.detach()[is_label].argmax(-1) == targets[is_label]
        for slot, value in enumerate((answer_loss, text_loss, right.sum(), is_label.sum())):
            sums[slot] += value.item()
        if step % _REPORT == 0:
            log.append(
                {
                    "minutes": round((time.monotonic() - begun) / 60, 2),
                    "step": step,
                    "answer_loss": round(sums[0] / _REPORT, 4),
                    "text_loss": round(sums[1] / _REPORT, 4),
                    "yes_no_accuracy": round(sums[2] / sums[3], 4),
                    "difficulty": round(difficulty, 2),
                }
            )
            print(json.dumps(log[-1]), flush=True)
            _give_memory_back()
            if log[-1]["yes_no_accuracy"] > settings.pass_mark:
                difficulty = min(1.0, difficulty + settings.stride)
            sums = [0.0] * 4
    folder.mkdir(parents=True, exist_ok=True)
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    record = {
        "settings": asdict(settings),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "generator_version": GENERATOR_VERSION,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "course": log,
    }
    (folder / "training.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where to save the model")
    defaults = Settings()
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--steps", type=int, default=defaults.steps, help="of training")
    parser.add_argument("--threads", type=int, default=defaults.threads, help="of the CPU")
    options = parser.parse_args()
    settings = replace(defaults, seed=options.seed, steps=options.steps, threads=options.threads)
    train(settings, options.folder)


if __name__ == "__main__":
    main()
