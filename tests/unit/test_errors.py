import pytest

from hotlap import errors


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.HotlapError, 1),
        (errors.UsageError, 2),
        (errors.RecordError, 2),
        (errors.CommandFailed, 3),
        (errors.NothingMeasured, 4),
        (errors.Interrupted, 130),
    ],
)
def test_each_error_has_the_exit_code_scripts_rely_on(kind, code):
    error = kind("what happened")
    assert error.exit_code == code
    assert str(error) == "what happened"
    assert isinstance(error, errors.HotlapError)


def test_every_error_stands_in_the_tree_with_its_exit_code():
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.HotlapError)
    ]
    assert len(kinds) == 6
    for kind in kinds:
        assert kind.__name__ in errors.__doc__
        if kind is not errors.HotlapError:
            line = next(line for line in errors.__doc__.splitlines() if kind.__name__ in line)
            assert f"{kind.exit_code}:" in line


@pytest.mark.parametrize("kind", [errors.CommandFailed, errors.NothingMeasured])
def test_the_commands_own_output_travels_with_the_error(kind):
    assert kind("failed", output="Traceback").output == "Traceback"
    assert kind("failed").output == ""


def test_a_record_that_cannot_be_read_is_a_wrong_request():
    assert issubclass(errors.RecordError, errors.UsageError)
