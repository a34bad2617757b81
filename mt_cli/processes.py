"""Which of the processes that `torchrun` started this one is; without torch."""

import os


def n_processes() -> int:
    """1 where `torchrun` started none: clusters set some of its variables for every job."""
    of_torchrun = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return int(os.environ["WORLD_SIZE"]) if all(map(os.environ.get, of_torchrun)) else 1


def rank() -> int:
    return int(os.environ["RANK"]) if n_processes() > 1 else 0


def local_rank() -> int:
    """Its number among those of this machine."""
    return int(os.environ["LOCAL_RANK"]) if n_processes() > 1 else 0
