"""How a verb changes an agent: in one compiled call, so that no interruption comes between.

Python may stop at any line: Ctrl-C, or no memory left. A kernel runs to its end. So the kernel that plans or learns and
the clock that says so are written by the same call: afterwards the agent is as before the verb or as after it. The
`clock`, int64 [4], holds what follows; `told` what it is to say afterwards.

    episode   individuals met so far
    step      steps of the open episode whose outcome was observed
    asked     1: an action was taken at this step, its outcome is not known yet
    open      1: an episode is open

Room for what is learned is made before, and arrays that are replaced by longer ones are put in place by one assignment.
"""

from ..compiler.jit import entrance, inlined
from ..compiler.slots import slot
from .refutation import bet_on_returns

# An agent's kernels (`agents.base`), called with where its par, state and work lie
call_plan = slot("plan", heads=3)  # (x, k, out)
call_learn = slot("learn", heads=3)  # (x, k, n, path)
call_replan = slot("replan", heads=3)  # (x, k, n, path, out)


@inlined
def copy(source, to):
    for i in range(to.shape[0]):
        to[i] = source[i]


@inlined
def put(source, to):
    for s in range(to.shape[0]):
        for a in range(to.shape[1]):
            to[s, a] = source[s, a]


@entrance
def opened(plan, agent, args, kept, others, masks, clock, told):
    """Plan, args (x, k, out), with the actions available to this person; then keep the context and these, forget whose
    actions they were, and open. masks [S, A]: theirs; everybody's; what planners look at; what is kept."""
    put(masks[0], masks[2])
    call_plan(plan, agent, args)
    put(masks[1], masks[2])
    put(masks[0], masks[3])
    copy(args[0], kept)
    others[:] = False
    copy(told, clock)


@entrance
def observed(replan, agent, args, reward, next_state, clock, told):
    """The outcome of the last of n steps, args (x, k, n, path, out); then plan the rest anew."""
    n, path = args[2], args[3]
    path.rewards[n - 1] = reward
    path.states[n] = next_state
    call_replan(replan, agent, args)
    copy(told, clock)


@entrance
def learned(learn, agent, args, evidence, upper, clock, told):
    """Close, test what is assumed, learn, args (x, k, n, path): whatever a kernel may refuse, nothing is learned
    twice."""
    copy(told, clock)
    bet_on_returns(evidence, upper, args[2], args[3])
    call_learn(learn, agent, args)
