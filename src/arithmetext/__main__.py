"""`python -m arithmetext` and `nt`: run the command line, and end quietly on an early interrupt."""

import os
import sys


def main() -> None:
    try:
        from .cli import main as run

        run()
    except KeyboardInterrupt:  # while the imports of the command line run; it handles later ones
        sys.stderr.write("nt: interrupted\n")
        sys.stderr.flush()
        os._exit(130)


if __name__ == "__main__":
    main()
