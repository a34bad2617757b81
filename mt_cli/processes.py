"""Which of the processes that `torchrun` started this one is, by the variables that it sets; without torch."""

from __future__ import annotations

import os

_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def n_processes() -> int:
    """1 where `torchrun` started none: clusters set some of the variables for every job."""
    is_started = all(os.environ.get(name) for name in _VARIABLES)
    return int(os.environ["WORLD_SIZE"]) if is_started else 1


def rank() -> int:
    return int(os.environ["RANK"]) if n_processes() > 1 else 0


def local_rank() -> int:
    """Its number among those of this machine."""
    return int(os.environ["LOCAL_RANK"]) if n_processes() > 1 else 0
