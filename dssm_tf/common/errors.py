"""The exceptions that reach a person at the terminal."""


class UserError(Exception):
    """What was received, what was expected and how to mend it, in one line.

    The command line prints it without a traceback and exits with 1.
    """


class OptionError(UserError):
    """A problem with what an option was given.

    Attributes:
        option: such as `--input`; a command that calls it otherwise puts its own name there.
        problem: the rest of the line.
    """

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"{option} {problem}")
        self.option = option
        self.problem = problem


class NoClicks(UserError):
    """A system that learns from clicks alone got none to learn from."""
