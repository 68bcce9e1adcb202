"""The mathematics as small pure functions, named after what they compute.

The estimators and agents call them, directly or from their kernels; where a hot loop inlines one instead (widths), a
test compares the two.

`constants`: curvature and smoothness of the links. `radii`: squared radii of the confidence sets around an online
Newton estimate. `widths`: from a set around the weights to distances between distributions, and reward intervals.
`bandits`: radii of the bandit algorithms. `bounds`: regret and mistakes. `likelihood_bounds`: regret of agents over
likelihood-ratio sets. `lower`: the two-state chain of the lower bound. `pac`: visits, radii and mistakes of Rmax.
"""

from . import bandits, bounds, constants, likelihood_bounds, lower, pac, radii, widths

__all__ = ["bandits", "bounds", "constants", "likelihood_bounds", "lower", "pac", "radii", "widths"]
