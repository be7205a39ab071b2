"""`python -m pragworld_interp` is `pragworld-interp`."""

from pragworld_interp.cli import main

main()
