"""`mt version`."""


def version() -> None:
    """Print the versions that matter in a bug report."""
    from mt_cli.run.logs import versions

    for package, number in versions().items():
        print(f"{package} {number}")
