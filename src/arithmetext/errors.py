"""The exception for bad input."""


class InputError(ValueError):
    """Bad input; the message says in one line what is wrong and what would be right.

    The command line prints the message and exits with code 2.
    """
