"""The way in: what it takes to import the rest is long enough for somebody to press Ctrl-C."""

import sys


def main() -> None:
    try:
        from hotlap import cli
    except KeyboardInterrupt:
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
