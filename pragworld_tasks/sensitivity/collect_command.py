"""The command `pragworld-tasks collect`."""

import argparse
from pathlib import Path

from pragworld_tasks.command_line import Commands, add_command
from pragworld_tasks.sensitivity.collection import CollectionSettings, collect
from pragworld_tasks.shards import parse_shard


def add_collect(commands: Commands) -> None:
    """Add the command to those of `pragworld-tasks`."""
    command = add_command(
        commands,
        "collect",
        _collect,
        "run lm-eval on a few documents at a time, so that a long run can be resumed",
        description="It runs tasks that generate text and appends their samples to "
        "FOLDER/MODEL/samples_TASK.jsonl, which `pragworld-tasks decompose` reads. Rerun the same "
        "command to resume an interrupted run. With --shard 1/4, it does a quarter of the run; "
        "`merge` joins the quarters.",
        example="pragworld-tasks collect --tasks world_model --output_path runs --top_up 3 \\\n"
        "  --model hf --model_args pretrained=… --apply_chat_template\n"
        "pragworld-tasks collect --tasks world_model --output_path runs --shard 1/4 \\\n"
        "  --model hf --model_args pretrained=… --apply_chat_template",
    )
    command.argument_default = argparse.SUPPRESS  # the defaults are those of CollectionSettings
    command.add_argument("--tasks", required=True, help="tasks or groups, separated by commas")
    command.add_argument("--output_path", required=True, type=Path, metavar="FOLDER")
    command.add_argument(
        "--chunk",
        type=int,
        metavar="N",
        help="documents at a time, which is what an interruption may cost; default: 15",
    )
    command.add_argument(
        "--top_up",
        type=int,
        metavar="ROUNDS",
        help="repeat prompts that lack readable responses, at most so many times; default: 0",
    )
    command.add_argument(
        "--shard",
        metavar="I/N",
        help="do only part I of N, such as 1/4, in FOLDER/MODEL/shard-I-of-N, for `merge`; "
        "default: do all",
    )
    lm_eval = command.add_argument_group("options of lm_eval, which mean the same there")
    lm_eval.add_argument("--model", help="default: hf")
    lm_eval.add_argument("--model_args", help="such as pretrained=…,dtype=bfloat16, or JSON")
    lm_eval.add_argument("--batch_size", help="default: 1")
    lm_eval.add_argument("--max_batch_size", type=int)
    lm_eval.add_argument("--device", help="default: cuda:0, or the CPU if there is none")
    lm_eval.add_argument("--gen_kwargs", help="such as max_gen_toks=1024, or JSON")
    lm_eval.add_argument("--metadata", help="JSON for the tasks")
    lm_eval.add_argument("--include_path", help="a folder of further tasks")
    lm_eval.add_argument("--system_instruction")
    lm_eval.add_argument("--apply_chat_template", nargs="?", const=True, metavar="NAME")
    lm_eval.add_argument("--seed", type=int, help="default: 1234")


def _collect(options: argparse.Namespace) -> None:
    settings = {name: value for name, value in vars(options).items() if name != "run"}
    if "shard" in settings:
        settings["shard"] = parse_shard(settings["shard"])
    collect(CollectionSettings(**settings))
