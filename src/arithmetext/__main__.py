"""`python -m arithmetext` and `nt`: run the command line, and end quietly on an early interrupt."""

import os
import sys


def main() -> None:
    # Torch's threads wait for each other after every operation. They should sleep meanwhile, or the
    # other cores are kept busy while another program has one of them (docs/log.md). OpenMP reads
    # this when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        from .cli import main as run

        run()
    except KeyboardInterrupt:  # while the imports of the command line run; it handles later ones
        sys.stderr.write("nt: interrupted\n")
        sys.stderr.flush()
        os._exit(130)


if __name__ == "__main__":
    main()
