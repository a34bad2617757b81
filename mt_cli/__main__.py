"""Where the command `mt` begins."""

import signal
import sys

from mt_cli.errors import is_out_of_memory


def main() -> None:
    # Until a command changes it, Ctrl-C ends the process at once: a KeyboardInterrupt would print a traceback, or be
    # swallowed by a library that is being imported, which would then go on half loaded.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from mt_cli import cli
    except (ImportError, MemoryError, OSError) as error:
        if not is_out_of_memory(error):
            raise
        sys.exit("error: out of memory while loading Python's libraries; close other programs, or raise ulimit -v")
    cli.main()


if __name__ == "__main__":
    main()
