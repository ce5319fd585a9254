"""What is tried again when nobody said for which errors."""

import pytest

from hotlap.data.attempts import RETRY, Attempts


class Answered(Exception):
    def __init__(self, **said):
        self.__dict__.update(said)


class ClientConnectionError(Exception):
    """As aiohttp calls it."""


class ServerDisconnectedError(ClientConnectionError):
    pass


@pytest.mark.parametrize(
    ("problem", "again"),
    [
        (Answered(status=503), True),
        (Answered(code=429), True),
        (Answered(status_code=504), True),
        (Answered(status=404), False),
        (Answered(code="503"), False),
        (Answered(), False),
        (ServerDisconnectedError(), True),
        (ConnectionResetError(), True),
        (ValueError(), False),
        (FileNotFoundError(), False),
    ],
)
def test_what_may_be_over_soon_is_tried_again(problem, again):
    assert (Attempts(retries=1).pause(problem, 1) is not None) == again


def test_who_says_for_which_errors_is_taken_at_the_word():
    attempts = Attempts(retries=1, retry=(ValueError,))
    assert attempts.pause(Answered(status=503), 1) is None
    assert attempts.pause(ValueError(), 1) is not None
    assert Attempts(retries=1, retry=tuple(RETRY)).pause(Answered(status=503), 1) is not None
