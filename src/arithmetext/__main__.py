"""`python -m arithmetext` and `nt`: run the command line, and end quietly on an early interrupt."""

import os
import sys


def main() -> None:
    # Torch's threads wait for each other after every operation. They should soon fall asleep, or
    # they keep a core busy while another program has the one they wait for (docs/log.md). OpenMP
    # reads this when torch is loaded.
    if not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}:
        os.environ["GOMP_SPINCOUNT"] = "10000"
    try:
        from .cli import main as run

        run()
    except KeyboardInterrupt:  # while the imports of the command line run; it handles later ones
        sys.stderr.write("nt: interrupted\n")
        sys.stderr.flush()
        os._exit(130)


if __name__ == "__main__":
    main()
