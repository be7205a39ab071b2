"""Run the command `pragworld-interp` as `python -m pragworld_interp`."""

from pragworld_interp.cli import main

main()
