"""The roots of the error classes. Each class says who must act."""


class MooringError(Exception):
    """Base of every error of ours; never raised itself. Messages: lower case, no full stop, the next step if there is
    one.
    """


class ConfigError(MooringError):
    """A flag, file or environment variable is wrong at start. exit_code: 2 for a flag that can't be read, 1 for an
    unusable value.
    """

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class InvariantError(MooringError):
    """We must act: something happened that the code rules out. Carries the story of the object."""


def first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that the others followed from: groups keep the order in which their tasks failed."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
