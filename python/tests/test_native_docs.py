"""The examples in docstrings are tests."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["model", "solver", "training", "sampling", "comparing", "distributed"])
def test_examples_of_docstrings(name):
    module = importlib.import_module(f"dyweight.{name}")
    found = doctest.testmod(module)
    assert found.attempted > 0 and found.failed == 0
