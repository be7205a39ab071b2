"""Train `pragworld-tiny`, the small model that comes with pragworld, from scratch.

    python examples/train_pragworld_tiny.py FOLDER
    python examples/train_pragworld_tiny.py FOLDER --seed 2 --steps 500     # another model, sooner
    python examples/train_pragworld_tiny.py FOLDER --start OTHER            # continue training

A training sequence is a generated dialogue followed by many questions. Each question attends to the
dialogue and not to the other questions. The dialogues are unaltered ones of the split `train`. Five
choices make the model learn within hours on a CPU:

- Two heads of the first layer are initialized to attend to the previous token, the others to tokens
  that resemble their own. This is what it takes to find a name in the dialogue and the words next
  to it. Without it, training stays at chance for a thousand steps, and what follows is luck.
- Lessons start easy, with few words and short dialogues, and become harder as long as the accuracy
  allows. Few questions are about names that the dialogue lacks. With many such questions, the model
  first learns whether a name occurs, and learns late or never which names belong together.
- Some questions are open ("Where are the pears?"): the model learns to copy an answer before it
  learns to check one.
- At the second-to-last line of the prompt, the model is trained to predict the evidence for the
  answer, such as the place of the pears. Evaluation does not use this prediction.
- A small loss on the text of the dialogue is added.

The settings, the versions and the log of the training go to `training.json` next to the weights.
"""

import argparse
import contextlib
import ctypes
import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.nn.functional import cross_entropy
from transformers import AttentionInterface, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from pragworld_tasks.data.prompts import evaluation_prompt, label_prompt
from pragworld_tasks.dialogues.compose import compose
from pragworld_tasks.dialogues.conversations.templates import templates
from pragworld_tasks.dialogues.conversations.versions import AskedQuestion, Version, drawn
from pragworld_tasks.dialogues.questions import (
    QUESTION_FORMS,
    Question,
    QuestionForm,
    evaluate,
    question_text,
    questions_by_answer,
)
from pragworld_tasks.dialogues.settings import GENERATOR_VERSION, SPLIT_SHARES
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.topics import COMMON_TOPICS
from pragworld_tasks.dialogues.vocabulary import DOMAINS, WOMEN, Names, domain_vocabulary, number_of
from pragworld_tasks.dialogues.world import REPLIER, State, interpret, mentioned
from pragworld_tasks.text import ONES


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of a training run.

    Attributes:
        steps: Number of optimizer steps, each on one batch.
        layers, width, heads, feed_forward: Shape of the model.
        vocabulary: Number of tokens, without those for the parts of the prompts.
        tokenizer_dialogues: Number of dialogues that the tokenizer is trained on.
        dialogues: Number of dialogues in a batch.
        questions: Approximate largest number of questions for each dialogue.
        matrix_rate, other_rate: Learning rates of Muon, for the matrices of the layers, and of
            AdamW, for all other parameters.
        warm_up: Share of the steps in which the learning rates rise.
        text_loss: Weight of the loss on the text of the dialogue.
        pass_mark: Accuracy on yes/no questions above which lessons become harder.
        stride: By how much they become harder, from 0 (easiest) to 1 (as in the test split).
        cool_down: Share of the steps, at the end, in which the learning rates fall to zero.
        threads: Number of CPU threads.
        start: Folder of a model of this script to continue training, with its shape and tokenizer
            and without the easy lessons, or "" for a new model.
    """

    seed: int = 1
    steps: int = 2200
    layers: int = 5
    width: int = 128
    heads: int = 4
    feed_forward: int = 256
    vocabulary: int = 1536
    tokenizer_dialogues: int = 6000
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
    start: str = ""


# The tokenizer ------------------------------------------------------------------------------------

_BEGIN, _END, _PAD = "<s>", "</s>", "<pad>"
_DIALOGUE, _QUESTION = "@dialogue@", "@question@"


def prompt_parts() -> dict[str, tuple[str, str, str, str]]:
    """Split each prompt into four parts: before the dialogue, before and after the question, end.

    The prompt "open", for open questions, exists in training only.
    """
    parts = {}
    for name, prompt in (("evaluation", evaluation_prompt), ("label", label_prompt)):
        filled = prompt({"context": _DIALOGUE, "question": _QUESTION})
        head, rest = filled.split(_DIALOGUE)
        middle, tail = rest.split(_QUESTION)
        last = "Your answer:\n(" if name == "evaluation" else "Label:"
        parts[name] = head, middle, tail.removesuffix(last), last
    parts["open"] = (*parts["label"][:3], "Answer:")
    return parts


def make_tokenizer(vocabulary: int, dialogues: int) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer on dialogues.

    Each part of a prompt is one token, because it is the same for every question.
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
    for _ in range(dialogues):
        lesson = make_lesson(rng, 1.0, 6, 12)
        texts.append(lesson.context)
        texts += [question.text + question.answer for question in lesson.questions]
    tokenizer.train_from_iterator(texts, trainer)
    parts = {part for prompt in prompt_parts().values() for part in prompt}
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


class LessonQuestion(NamedTuple):
    """A question of a lesson.

    Attributes:
        prompt: Name of its prompt in `prompt_parts`.
        text: The question.
        answer: The answer, as the model is to continue the prompt.
        evidence: A word that the answer rests on, or "".
    """

    prompt: str
    text: str
    answer: str
    evidence: str


@dataclass(frozen=True)
class Lesson:
    """A dialogue and questions about it."""

    context: str
    questions: list[LessonQuestion]


# Forms of questions at the beginning, later, and at the end.
_FORMS: tuple[tuple[QuestionForm, ...], ...] = (
    ("the", "any", "left"),
    ("the", "any", "left", "all", "some"),
    QUESTION_FORMS,
)
_SIMPLE_TOPICS = ("done", "somewhere", "not done", "number", "affirmed")
_CONVERSATIONS = 0.4  # of the lessons, at the end
_NARROW = 0.1  # the difficulty up to which only the questions with the answer no change


def _breadth(difficulty: float) -> float:
    """Return how varied words, topics, questions and lengths are: 0 is least, 1 is most."""
    return max(0.0, (difficulty - _NARROW) / (1 - _NARROW))


def make_lesson(rng: StableRandom, difficulty: float, length: int, size: int) -> Lesson:
    """Make a lesson with as many questions whose answer is yes as with the answer no.

    Args:
        rng: Source of randomness.
        difficulty: From 0 to 1. At 0, some questions with the answer no are about names that are
            not in the dialogue. Up to 0.1, the share of these questions falls; the others are about
            names that are there, but not together. From there on, words, domains, topics and kinds
            of questions become more varied.
        length: Number of exchanges in the dialogue.
        size: Approximate number of questions.
    """
    breadth = _breadth(difficulty)
    if rng.happens(_CONVERSATIONS * breadth):
        return _lesson_of_conversation(rng, size)
    easy_share = 0.3 - 0.2 * min(1.0, difficulty / _NARROW)
    forms = _FORMS[rng.happens(2 * breadth) + rng.happens(2 * breadth)]
    domain = rng.choice(DOMAINS) if rng.happens(2 * breadth) else "household"
    vocabulary = _limited(domain_vocabulary(domain, "regular"), breadth)
    if rng.happens(2 * breadth):  # as in the test split: a few given topics, then any
        topics = rng.sample(tuple(COMMON_TOPICS), rng.below(3))
    else:
        simple = _SIMPLE_TOPICS[: 1 + round(4 * min(1.0, 3 * breadth))]
        topics = [rng.choice(simple) for _ in range(length)]
    dialogue = compose(domain, vocabulary, length, topics, rng, SPLIT_SHARES["train"])
    state, names = interpret(dialogue.resolved), mentioned(dialogue.resolved)
    open_questions = rng.sample(list(_open_questions(state)), round(size * (0.4 - 0.3 * breadth)))
    questions = [
        LessonQuestion("open", text, f" {answer}", f" {answer}") for text, answer in open_questions
    ]
    mentioned_together = [{*e.agents, *e.things, *e.places} for e in dialogue.resolved]
    for _ in range(4 * size):
        if len(questions) >= size:
            break
        possible = questions_by_answer(rng.choice(forms), names, state)
        if not possible["yes"]:
            continue
        with_yes = rng.choice(possible["yes"])
        tempting = [
            question
            for question in possible["no"]
            if any(names_.issuperset(filter(None, question[1:4])) for names_ in mentioned_together)
        ]
        with_no: Question | None
        if not possible["no"] or rng.happens(easy_share):
            with_no = _about_others(with_yes, vocabulary, names, state, rng)
            if with_no is None:
                continue
        else:
            use_tempting = tempting and rng.happens(0.6 * breadth)
            with_no = rng.choice(tempting if use_tempting else possible["no"])
        for question, answer in ((with_yes, "yes"), (with_no, "no")):
            question = question._replace(wording=rng.below(60))
            text = question_text(question, domain)
            questions.append(_yes_no_question(rng, text, answer, _evidence(question, state)))
    return Lesson("\n".join(dialogue.lines), rng.shuffled(questions)[: size + 2])


def _yes_no_question(rng: StableRandom, text: str, answer: str, evidence: str) -> LessonQuestion:
    """Return a question with the answer yes or no in one of the two prompts."""
    if rng.happens(0.5):
        return LessonQuestion("evaluation", text, f"{answer})", evidence)
    return LessonQuestion("label", text, f" {answer}", evidence)


def _lesson_of_conversation(rng: StableRandom, size: int) -> Lesson:
    """Make a lesson of a version of a conversation of the split `train`."""
    template = rng.choice([one for one in templates() if one.share in SPLIT_SHARES["train"]])
    choice = drawn(template, rng)
    questions = []
    for question in template.questions:
        asked = {name: choice[name] for name in question.named}
        same = AskedQuestion(template, question, asked)
        questions.append(_yes_no_question(rng, same.text, same.answer(choice), ""))
        if asked:  # and with another detail, or a confused one
            name = rng.choice(tuple(asked))
            free = template.free_values(name, choice)
            partners = [choice[partner] for partner in template.partners[name]]
            if others := partners if partners and rng.happens(0.5) else free:
                other = AskedQuestion(template, question, {**asked, name: rng.choice(others)})
                questions.append(_yes_no_question(rng, other.text, other.answer(choice), ""))
    lines = Version(template, choice).lines
    return Lesson("\n".join(lines), rng.shuffled(questions)[: size + 2])


def _limited(vocabulary: Names, breadth: float) -> Names:
    """Return a quarter of the words at the least breadth, and all of them at the most."""
    share = 0.25 ** (1 - breadth)
    women = [name for name in vocabulary.agents if name in WOMEN]
    men = [name for name in vocabulary.agents if name not in WOMEN]
    return Names(
        (*women[: round(share * len(women))], *men[: round(share * len(men))]),
        vocabulary.things[: max(8, round(share * len(vocabulary.things)))],
        vocabulary.places[: max(5, round(share * len(vocabulary.places)))],
    )


def _about_others(
    question: Question, vocabulary: Names, names: Names, state: State, rng: StableRandom
) -> Question | None:
    """Replace a name in the question by one that the dialogue lacks, so that the answer is no.

    Return None if that fails, for example because the dialogue mentions the whole vocabulary.
    """
    for _ in range(300):
        slot = rng.choice([slot for slot in ("agent", "thing", "place") if getattr(question, slot)])
        known, used = getattr(vocabulary, f"{slot}s"), getattr(names, f"{slot}s")
        if slot == "thing":
            known = [name for name in known if number_of(name) == number_of(question.thing)]
        replacement: dict[str, Any] = {
            slot: rng.choice([name for name in known if name not in used] or known)
        }
        other = question._replace(**replacement)
        if evaluate(other, state) is False and other != question:
            return other
    return None


def _evidence(question: Question, state: State) -> str:
    """Return what the dialogue says about the question in a word: a place, a name, a number."""
    form, agent, thing, place, _ = question
    cells, cell = state.cells.get(thing, {}), state.cell(thing, place)
    if form.endswith("how many"):
        counts = [known.counts[0] for known in cells.values() if len(known.counts) == 1]
        return f" {ONES[counts[0]]}" if counts else " unknown"
    if form in ("the", "any", "some") or form.endswith("where"):
        if cell:
            return f" {place}"
        return f" {next(iter(cells))}" if cells else " unknown"
    if cell is None:
        return " unknown"
    if form == "all":
        return " all" if cell.whole else " some"
    names = {_name(person) for person in cell.agents}
    return f" {agent}" if agent in names else f" {min(names, default='unknown')}"


def _name(agent: str) -> str:
    return "Bob" if agent == REPLIER else agent


def _open_questions(state: State) -> Iterator[tuple[str, str]]:
    """Yield questions whose answer is a word or two, with their answers."""
    for thing, cells in state.cells.items():
        for place, cell in cells.items():
            if cell.whole:
                yield _where(thing), place
            if len(cell.counts) <= 1 and number_of(thing) == "plural":
                count = ONES[cell.counts[0]] if cell.counts else "unknown"
                yield f"How many {thing} are in the {place}?", count
            if len(cell.agents) <= 1:
                name = _name(min(cell.agents)) if cell.agents else "unknown"
                yield f"Who put the {thing} in the {place}?", name
    for thing in state.alternatives:
        yield _where(thing), "unknown"
    for agent, place in sorted(state.went):
        if agent != REPLIER:
            yield f"Where did {agent} go?", place


def _where(thing: str) -> str:
    return f"Where {'are' if number_of(thing) == 'plural' else 'is'} the {thing}?"


# Batches ------------------------------------------------------------------------------------------

Tokens = list[int]


class Batcher:
    """Turns lessons into tensors: each dialogue once, followed by its questions."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.tokenizer = tokenizer
        to_id = tokenizer.convert_tokens_to_ids
        self.parts = {
            name: [to_id(part) for part in parts] for name, parts in prompt_parts().items()
        }
        self.begin, self.end, self.pad = to_id(_BEGIN), to_id(_END), to_id(_PAD)

    def ids(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenize texts."""
        if not texts:
            return []
        return [list(ids) for ids in self.tokenizer(texts, add_special_tokens=False)["input_ids"]]

    def batch(self, lessons: Sequence[Lesson], rng: StableRandom) -> "Batch":
        """Return a batch."""
        rows: list[list[_Piece]] = []
        contexts = self.ids([lesson.context for lesson in lessons])
        for lesson, context in zip(lessons, contexts, strict=True):
            head = self.parts[rng.choice(("evaluation", "label"))][0]
            start = len(context) + 2
            pieces = [_Piece([self.begin, head, *context], 0, [-1, *context, -1])]
            texts = self.ids([question.text for question in lesson.questions])
            answers = self.ids([question.answer for question in lesson.questions])
            evidence = self.ids([question.evidence for question in lesson.questions])
            for question, text, answer, fact in zip(
                lesson.questions, texts, answers, evidence, strict=True
            ):
                _, middle, tail, last = self.parts[question.prompt]
                ids = [middle, *text, tail, last, *answer]
                # The target at the second-to-last line of the prompt is the evidence.
                targets = [-1] * (len(text) + 1) + (fact[:1] or [-1]) + [*answer, self.end]
                pieces.append(_Piece(ids, start, targets))
            rows.append(pieces)
        questions = max(len(pieces) for pieces in rows) - 1
        context_size = max(len(pieces[0].ids) for pieces in rows)
        size = max((len(piece.ids) for pieces in rows for piece in pieces[1:]), default=0)
        sizes = [context_size, *[size] * questions]
        empty = _Piece([], 0, [])

        def table(values: Callable[[_Piece], list[int]], fill: int) -> torch.Tensor:
            padded = [pieces + [empty] * (questions + 1 - len(pieces)) for pieces in rows]
            return torch.tensor(
                [
                    [
                        value
                        for piece, length in zip(pieces, sizes, strict=True)
                        for value in values(piece) + [fill] * (length - len(piece.ids))
                    ]
                    for pieces in padded
                ]
            )

        return Batch(
            ids=table(lambda piece: piece.ids, self.pad),
            positions=table(lambda piece: [piece.start + n for n in range(len(piece.ids))], 0),
            targets=table(lambda piece: piece.targets, -1),
            context_size=context_size,
            size=size,
            contexts=torch.tensor([len(pieces[0].ids) for pieces in rows]),
        )


class _Piece(NamedTuple):
    """A dialogue or a question: its tokens, the position of the first, and the targets."""

    ids: Tokens
    start: int
    targets: Tokens


class Batch(NamedTuple):
    """Dialogues, each followed by its questions. All have the same room, filled up with padding.

    Attributes:
        ids, positions: Of shape (lessons, tokens): the tokens, and their positions in the prompt.
        targets: Of the same shape: the tokens to predict, -1 for none.
        context_size: The room for a dialogue.
        size: The room for a question.
        contexts: The number of tokens of each dialogue, of shape (lessons,).
    """

    ids: torch.Tensor
    positions: torch.Tensor
    targets: torch.Tensor
    context_size: int
    size: int
    contexts: torch.Tensor


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    batch: Batch,
    scaling: float,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Let each question attend to the dialogue and to itself, and to no other question.

    Args:
        module: The layer, which has as many heads for keys and values as for queries.
        query: Of shape (lessons, heads, tokens, size of a head).
        key: Of the same shape.
        value: Of the same shape.
        batch: The batch, which the model passes on as the attention mask.
        scaling: Factor of the scores.
    """
    end, size = batch.context_size, batch.size
    context_key, context_value = key[:, :, :end].transpose(2, 3), value[:, :, :end]
    lowest = torch.finfo(torch.float32).min

    def causal(length: int) -> torch.Tensor:
        return torch.full((length, length), lowest).triu(1)

    scores = query[:, :, :end] @ context_key * scaling + causal(end)
    of_context = scores.softmax(-1, dtype=torch.float32).to(query.dtype) @ context_value
    if not size:
        return of_context.transpose(1, 2), None
    own_query, own_key, own_value = (
        part[:, :, end:].reshape(*part.shape[:2], -1, size, part.shape[3])
        for part in (query, key, value)
    )
    is_padding = torch.arange(end) >= batch.contexts[:, None]
    to_context = query[:, :, end:] @ context_key * scaling + lowest * is_padding[:, None, None]
    to_itself = own_query @ own_key.transpose(3, 4) * scaling + causal(size)
    scores = torch.cat([to_context, to_itself.flatten(2, 3)], dim=-1)
    weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
    from_itself = weights[..., end:].reshape(to_itself.shape) @ own_value
    of_questions = weights[..., :end] @ context_value + from_itself.flatten(2, 3)
    return torch.cat([of_context, of_questions], dim=2).transpose(1, 2), None


# Training -----------------------------------------------------------------------------------------

_LOG_INTERVAL = 25  # steps
_SAVE_INTERVAL = 100


def make_model(settings: TrainingSettings, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """Return the model before training.

    Its attention is initialized to look for tokens that resemble the current one and to copy them,
    as in "mimetic initialization" (Trockman and Kolter 2023, arXiv 2305.09828). Two heads of the
    first layer attend to the previous token instead. A model of this size takes longest to learn
    how to find in the dialogue what the question names, and what is next to it.
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
        _attend_to_previous_token(model, heads=2)
    return model


def _attend_to_previous_token(model: Qwen3ForCausalLM, heads: int) -> None:
    """Make the first heads of the first layer attend to the previous token.

    All embeddings share one direction, from which these heads compute queries and keys that are the
    same for every token. Rotary embeddings rotate both by their positions. A query is rotated back
    by one position, so it matches the key of the previous token. The three fastest frequencies
    suffice to tell that position from all others in a dialogue.
    """
    width, size = model.config.hidden_size, model.config.head_dim
    embeddings, attention = model.model.embed_tokens.weight, model.model.layers[0].self_attn
    common = torch.nn.functional.normalize(torch.randn(width), dim=0)
    embeddings.add_(embeddings.norm(dim=1).mean() * common)
    angles = model.model.rotary_emb.inv_freq[:3]
    key, query = torch.zeros(size), torch.zeros(size)
    key[:3], query[:3] = 1, angles.cos()
    query[size // 2 : size // 2 + 3] = -angles.sin()
    for head in range(heads):
        rows = slice(head * size, (head + 1) * size)
        attention.q_proj.weight[rows] = torch.outer(query, common)
        attention.k_proj.weight[rows] = torch.outer(key, common)
        torch.nn.init.normal_(attention.o_proj.weight[:, rows], std=0.05)


def _keep_freed_memory() -> None:
    """Make glibc keep freed memory: allocating it again for every tensor takes half the time."""
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in ((-1, 2**31 - 1), (-2, 2**28), (-4, 0)):  # trim, top pad, no mmap
            mallopt(option, value)


def _release_freed_memory() -> None:
    """Make glibc release freed memory, which becomes too fragmented to be used again."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def train(settings: TrainingSettings, folder: Path) -> None:
    """Train a model. Save it, its tokenizer and its log in `folder`.

    An interrupted training resumes from the file `unfinished.pt` in the folder.
    """
    torch.set_num_threads(settings.threads)
    _keep_freed_memory()
    before: dict[str, Any] = {}
    if settings.start:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(settings.start)
        model = Qwen3ForCausalLM.from_pretrained(settings.start, dtype=torch.float32)
        before = json.loads((Path(settings.start) / "training.json").read_text(encoding="utf-8"))
    else:
        tokenizer = make_tokenizer(settings.vocabulary, settings.tokenizer_dialogues)
        model = make_model(settings, tokenizer)
    batcher = Batcher(tokenizer)
    AttentionInterface.register("questions apart", attend)
    model.set_attn_implementation("questions apart")
    matrices = [weight for weight in model.model.layers.parameters() if weight.ndim == 2]
    in_matrices = {id(weight) for weight in matrices}
    others = [weight for weight in model.parameters() if id(weight) not in in_matrices]
    optimizers: dict[torch.optim.Optimizer, float] = {
        torch.optim.Muon(
            matrices, lr=settings.matrix_rate, weight_decay=settings.weight_decay, momentum=0.95
        ): settings.matrix_rate,
        torch.optim.AdamW(
            others, lr=settings.other_rate, betas=(0.9, 0.98), weight_decay=0.0
        ): settings.other_rate,
    }
    rng = StableRandom(f"pragworld-tiny {settings.seed}")
    labels = torch.tensor(tokenizer.convert_tokens_to_ids(["yes", "no", "Ġyes", "Ġno"]))
    log: list[dict[str, float]] = []
    start = time.monotonic()
    sums, difficulty, done = [0.0] * 4, float(bool(settings.start)), 0
    unfinished = folder / "unfinished.pt"
    folder.mkdir(parents=True, exist_ok=True)
    if unfinished.exists():
        saved = torch.load(unfinished, weights_only=True)
        if saved["settings"] != asdict(settings):
            raise SystemExit(f"{unfinished}: of other settings; give the same ones, or remove it")
        model.load_state_dict(saved["model"])
        for optimizer, state in zip(optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        log, difficulty = saved["log"], saved["difficulty"]
        rng.source.setstate((*rng.source.getstate()[:1], tuple(saved["rng"]), None))
        done = int(log[-1]["step"])
        start -= 60 * log[-1]["minutes"]
    for step in range(done + 1, settings.steps + 1):
        # One length for a batch keeps padding short. Half of the lessons are easier than the
        # difficulty, so that not too much is new at once.
        length = 2 + rng.below(2 + round(7 * _breadth(difficulty)))
        lessons = [
            make_lesson(
                rng,
                difficulty * (1 if rng.happens(0.5) else rng.below(100) / 100),
                length,
                min(settings.questions, 3 + 2 * length),
            )
            for _ in range(settings.dialogues)
        ]
        batch = batcher.batch(lessons, rng)
        progress = step / settings.steps
        factor = min(1.0, progress / settings.warm_up, (1 - progress) / settings.cool_down)
        for optimizer, rate in optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
        with torch.autocast("cpu", torch.bfloat16):
            hidden = model.model(
                input_ids=batch.ids,
                position_ids=batch.positions,
                attention_mask={"full_attention": batch},
            ).last_hidden_state
            has_target = batch.targets >= 0
            logits = model.lm_head(hidden[has_target])
        is_text = (torch.arange(batch.ids.shape[1]) < batch.context_size).expand_as(has_target)
        targets, is_text = batch.targets[has_target], is_text[has_target]
        losses = cross_entropy(logits.float(), targets, reduction="none")
        answer_loss = losses[~is_text].mean()
        text_loss = losses[is_text].mean() if is_text.any() else torch.zeros(())
        torch.autograd.backward(answer_loss + settings.text_loss * text_loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        is_label = torch.isin(targets, labels)
        correct = logits.detach()[is_label].argmax(-1) == targets[is_label]
        for column, value in enumerate((answer_loss, text_loss, correct.sum(), is_label.sum())):
            sums[column] += value.item()
        if step % _LOG_INTERVAL == 0:
            log.append(
                {
                    "minutes": round((time.monotonic() - start) / 60, 2),
                    "step": step,
                    "answer_loss": round(sums[0] / _LOG_INTERVAL, 4),
                    "text_loss": round(sums[1] / _LOG_INTERVAL, 4),
                    "yes_no_accuracy": round(sums[2] / sums[3], 4),
                    "difficulty": round(difficulty, 2),
                }
            )
            print(json.dumps(log[-1]), flush=True)
            _release_freed_memory()
            if log[-1]["yes_no_accuracy"] > settings.pass_mark:
                difficulty = min(1.0, difficulty + settings.stride)
            sums = [0.0] * 4
            if step % _SAVE_INTERVAL == 0:
                state = {
                    "settings": asdict(settings),
                    "model": model.state_dict(),
                    "optimizers": [optimizer.state_dict() for optimizer in optimizers],
                    "rng": list(rng.source.getstate()[1]),
                    "log": log,
                    "difficulty": difficulty,
                }
                beside = unfinished.with_suffix(".partial")
                torch.save(state, beside)
                beside.replace(unfinished)
    # transformers 4 knows these two by other names. It would take another base without a word.
    model.config.rope_theta = model.config.rope_parameters["rope_theta"]
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings_file = folder / "tokenizer_config.json"
    kept = json.loads(settings_file.read_text(encoding="utf-8"))
    kept["tokenizer_class"] = "PreTrainedTokenizerFast"
    settings_file.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    record = {
        "settings": asdict(settings),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "generator_version": GENERATOR_VERSION,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "course": log,
        **({"started_from": before} if before else {}),
    }
    (folder / "training.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    unfinished.unlink(missing_ok=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder to save the model in")
    settings = parser.add_argument_group("settings", "described in `TrainingSettings`")
    for name, value in asdict(TrainingSettings()).items():
        settings.add_argument(f"--{name}", type=type(value), default=value, help="%(default)s")
    options = vars(parser.parse_args())
    folder = options.pop("folder")
    train(TrainingSettings(**options), folder)


if __name__ == "__main__":
    main()
