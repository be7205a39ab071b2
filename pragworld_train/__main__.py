"""Run `pragworld-train` as `python -m pragworld_train`, which launchers such as torchrun need."""

from pragworld_train.cli import main

main()
