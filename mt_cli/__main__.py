"""Where the command `mt` begins."""

import signal


def main() -> None:
    # Ctrl-C while this loads ends it as it ends any command: Python would show where it was.
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from mt_cli import cli

    signal.signal(signal.SIGINT, handler)
    cli.main()


if __name__ == "__main__":
    main()
