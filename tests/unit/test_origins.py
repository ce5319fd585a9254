import json

from hotlap import origins
from hotlap.generators import is_generator


class Described(type):
    """As Cython's functions: asked of the type, `__module__` is what reads it from an instance."""

    @property
    def __module__(cls):
        return property()


class Function(metaclass=Described):
    pass


def test_a_type_is_of_the_library_its_module_is_in():
    assert origins.module(json.JSONDecoder) == "json.decoder"
    assert origins.library(json.JSONDecoder) == "json"
    assert origins.library(int) == "builtins"


def test_a_type_that_does_not_tell_its_module_is_of_none():
    assert not isinstance(Function.__module__, str)
    assert (origins.module(Function), origins.library(Function)) == ("", "")
    assert not is_generator(Function())
