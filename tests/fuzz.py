"""Lets atheris look for bytes that a reader does not survive; `make fuzz`.

    python tests/fuzz.py [TARGET ...] [--seconds 600]

Each target of `fuzz_targets.py` gets so many seconds in a process of its own, beginning with whole files. What is found
is left in the present folder as `TARGET-crash-...`, and belongs into `test_fuzz_targets.py` once it is understood.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import atheris
from torch import _weights_only_unpickler as unpickler

# What leads the search: branches taken in our code, and in the readers written in Python that it relies on.
with atheris.instrument_imports(include=["mt_cli", "yaml", "zipfile", "gzip", "json"]):
    from fuzz_targets import TARGETS, examples

unpickler.Unpickler.load = atheris.instrument_func(unpickler.Unpickler.load)


def search(target: str, seconds: int, folder: str) -> None:
    """Does not return: the process ends with the search."""
    for number, data in enumerate(examples(target)):
        Path(folder, str(number)).write_bytes(data)
    # Slow inputs are no findings here: a busy machine is slow.
    options = [f"-max_total_time={seconds}", "-timeout=1200", "-rss_limit_mb=4096", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={target}-", folder], TARGETS[target])
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], metavar="TARGET", help="all by default")
    parser.add_argument("--seconds", type=int, default=600, help="for each target")
    parser.add_argument("--here", metavar="FOLDER", help=argparse.SUPPRESS)  # search one target in this process
    arguments = parser.parse_args()
    if arguments.here:
        search(arguments.targets[0], arguments.seconds, arguments.here)
    failed = []
    for target in arguments.targets or TARGETS:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, target, "--seconds", str(arguments.seconds), "--here", folder]
            answer = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
        n_runs = re.search(r"number_of_executed_units: (\d+)", answer.stderr)
        print(
            f"{target}: {int(n_runs[1]) if n_runs else 0:,} inputs, {'FAILED' if answer.returncode else 'all survived'}",
            flush=True,
        )
        if answer.returncode:
            failed.append(target)
            print(answer.stderr[-4000:], file=sys.stderr, flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
