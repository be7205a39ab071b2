"""`python -m pragworld_train` is `pragworld-train`; launchers of several processes want it so."""

from pragworld_train.cli import main

main()
