"""Tests of what an agent assumes, along the way: `watch` is called with every episode that is learned."""

from .._jit import inlined

SIZE = 8  # numbers that the test keeps


@inlined
def watch(evidence, upper, n, path):
    """evidence [8] <- after an episode of n steps for which the upper values were `upper` [H+1, S]; [0, 0]: none."""
