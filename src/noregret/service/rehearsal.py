"""A rehearsal: somebody who does not exist is met on a copy of the agent before it is called ready, so that whatever is
compiled, or read from the compiler's cache, is there when the first person comes."""

import numpy as np

from ..live.several import Live

NOBODY = "nobody, a rehearsal"


def rehearse(live: Live) -> None:
    """Begin, act, observe, end and learn, on a copy; `live` is not changed."""
    copy = Live.from_bytes(live.snapshot()())
    for who in copy.open:
        copy.abandon(who)
    problem = copy.agent.problem
    x = np.zeros(problem.context_dim)
    x[0] = min(1.0, problem.context_bound)
    copy.begin(NOBODY, x)
    state = int(problem.starts[0])
    action = copy.act(NOBODY, state).action
    after = next(s for s in range(problem.n_states) if problem.can_follow(s, state, action))
    copy.observe(NOBODY, float("nan"), after)
    copy.end(NOBODY)
