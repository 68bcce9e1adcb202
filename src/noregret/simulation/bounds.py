"""Bounds on the regret of a run from what the agent itself saw, beside the true regret that only a simulation knows.

    returns        (i)   sum_k (V_{k,0}(s_0) - G_k) + u_{H/2}(K)                G_k the return observed
    bonuses        (ii)  sum_{k,h} min(2 phi_{k,h}, H - h) + u_{sigma_H}(K)     phi the whole bonus at the pair visited
    certificates         sum_k certificate_k                                    where plans are certified

(`theory.bounds`). All hold in all episodes at once, together with the confidence sets, with the agent's probability:
(i) and (ii) are about different martingales, so each takes half of the share of delta that the sets leave.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import Floats
from ..theory import bounds


def regret_bounds(agent: Any, diagnostics: dict[str, Floats], episodes: NDArray[np.int64]) -> dict[str, Floats]:
    """name -> [seeds, points], from the diagnostics of a run; empty where the agent guarantees nothing of the kind."""
    delta = getattr(agent, "regret_delta", None)
    if delta is None or "excess" not in diagnostics:
        return {}
    H, both = agent.problem.horizon, "bonuses" in diagnostics

    def deviations(sigma: float) -> Floats:
        share = 0.5 * delta if both else delta
        unit = agent.problem.scale.unit
        return np.array([unit * bounds.martingale_deviation(sigma, float(k), share) for k in episodes])

    made = {"returns": diagnostics["excess"] + deviations(bounds.return_sigma(H))}
    if both:
        made["bonuses"] = diagnostics["bonuses"] + deviations(bounds.trajectory_sigma(H))
    if "certificate" in diagnostics:
        made["certificates"] = diagnostics["certificate"]
    return made
