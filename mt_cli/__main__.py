"""Where the command `mt` begins."""

import signal


def main() -> None:
    # Until a command says otherwise, Ctrl-C ends the process as the system ends one. Python's KeyboardInterrupt would
    # show where it was, or be swallowed by libraries that are just loading, which then go on half loaded.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from mt_cli import cli

    cli.main()


if __name__ == "__main__":
    main()
