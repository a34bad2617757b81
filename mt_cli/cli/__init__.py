"""The command line: `app.py` runs it, and each command has a file of its own."""

from mt_cli.cli.app import main

__all__ = ["main"]
