"""Entry point of the `ebo` command and of `python -m ebo`.

It imports next to nothing itself, so that Ctrl-C is in hand from the first moment.
"""

import sys

from ebo.interrupt import Interruptible


def main() -> None:
    """Run the command line."""
    try:
        with Interruptible():
            from ebo.cli import main as run
        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
