"""`python -m pragworld_tasks` is `pragworld-tasks`."""

from pragworld_tasks.cli import main

main()
