"""The one exception that reaches a person at the terminal."""


class UserError(Exception):
    """What was received, what was expected and how to mend it, in one line.

    The command line prints it without a traceback and exits with 1.
    """
