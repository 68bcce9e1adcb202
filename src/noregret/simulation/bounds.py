"""Bounds on the regret of a run from what the agent itself saw, beside the true regret that only a simulation knows.

    returns   (i)   sum_k (V_{k,0}(s_0) - G_k) + u_{H/2}(K)                G_k the return observed
    bonuses   (ii)  sum_{k,h} min(2 phi_{k,h}, H - h) + u_{sigma_H}(K)     phi the whole bonus at the pair visited

(`theory.bounds`). Both hold in all episodes at once, together with the confidence sets, with the agent's probability:
they are about different martingales, so each takes half of the share of delta that the sets leave.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import Floats
from ..theory import bounds


def regret_bounds(agent: Any, diagnostics: dict[str, Floats], episodes: NDArray[np.int64]) -> dict[str, Floats]:
    """name -> [seeds, points], from the diagnostics of a run; empty where the agent guarantees nothing of the kind."""
    delta = getattr(agent, "regret_delta", None)
    if delta is None or not {"excess", "bonuses"} <= diagnostics.keys():
        return {}
    H = agent.problem.horizon

    def deviations(sigma: float) -> Floats:
        return np.array([bounds.martingale_deviation(sigma, float(k), 0.5 * delta) for k in episodes])

    return {
        "returns": diagnostics["excess"] + deviations(bounds.return_sigma(H)),
        "bonuses": diagnostics["bonuses"] + deviations(bounds.trajectory_sigma(H)),
    }
