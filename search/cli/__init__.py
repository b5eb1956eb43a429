"""The command line: parses, calls one function of a room below, prints."""

from search.cli.app import main, run_main

__all__ = ["main", "run_main"]
