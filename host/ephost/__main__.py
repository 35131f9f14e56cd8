"""``python -m ephost``: the command line."""

from ephost.cli import main

main(prog_name="ephost")
