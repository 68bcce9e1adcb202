"""How the agents with local sets learn from an episode: one kernel per kind of transition sets (`describe`)."""

import math

from ...compiler.jit import inlined, kernel
from ...compiler.slots import slot
from ...estimators.linear.sign_union import sign_union_step
from ...estimators.mixture.sets import apply_mixture, mixture_due
from ...estimators.rewards.forms import reward_due, reward_learn, reward_refresh
from ...estimators.store import remember
from ...numerics.linear_algebra import norm_of
from ...problem.layout import slot_of


@inlined
def learn_rest(par, state, work, x, k, h, path):
    """What all kinds learn of step h: the store, the reward."""
    s, a, reward = path.states[h], path.actions[h], path.rewards[h]
    if state.store.contexts.shape[0] > 0:
        y = slot_of(par.layout, s, a, path.states[h + 1])
        remember(state.store, k, h, s, a, y, -1.0 if math.isnan(reward) else reward)
    if not math.isnan(reward):
        reward_learn(par.rewards, state.rewards, work.rewards, s, a, reward, x)
        if par.estimates == 1:
            reward_learn(par.means, state.means, work.rewards, s, a, reward, x)
        if reward_due(par.rewards, state.rewards, s, a) == 1:
            reward_refresh(par.rewards, state.rewards, work.rewards, state.store, s, a)


@inlined
def enter(state, x, k):
    """The context of the episode into the store."""
    if state.store.contexts.shape[0] > 0:
        for b in range(x.shape[0]):
            state.store.contexts[k, b] = x[b]


apply_outcomes = slot("outcomes")  # apply_outcomes(par.outcomes, (layout, par, state, work, x, steps, path))


@inlined
def learn_posterior(par, state, work, x, n, path):
    """The sampler, where there is one."""
    if state.sampler.samples.shape[0] > 0:
        apply_outcomes(par.outcomes, (par.layout, par.sampler, state.sampler, work.sampler, x, n, path))


@kernel
def learn_online(par, state, work, x, k, n, path):
    enter(state, x, k)
    if state.transitions.samples.shape[0] > 0:
        apply_outcomes(par.outcomes, (par.layout, par.transitions, state.transitions, work.transitions, x, n, path))
    learn_posterior(par, state, work, x, n, path)
    for h in range(n):
        learn_rest(par, state, work, x, k, h, path)


@kernel
def learn_stored(par, state, work, x, k, n, path):
    enter(state, x, k)
    learn_posterior(par, state, work, x, n, path)
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        learn_rest(par, state, work, x, k, h, path)
        if mixture_due(par.transitions, state.transitions, work.transitions, state.store, s, a, x) == 1:
            apply_mixture(
                par.transitions.refresh,
                (par.transitions, state.transitions, work.transitions, state.store, s, a, par.log_transition),
            )


@kernel
def learn_linear(par, state, work, x, k, n, path):
    norm = norm_of(x)
    enter(state, x, k)
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        y = slot_of(par.layout, s, a, path.states[h + 1])
        count = par.layout.count[s, a : a + 1]
        sign_union_step(par.transitions, state.transitions, work.transitions, count, (s, a), y, x, norm)
        learn_rest(par, state, work, x, k, h, path)
