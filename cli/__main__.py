"""`python -m cli` is the `stationpde` command."""

from cli.main import main

main()
