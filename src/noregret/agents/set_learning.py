"""How the agents with local sets learn from an episode: one kernel of each kind of transition sets (`agents.sets`)."""

import math

from .._jit import inlined, kernel
from ..estimators.likelihood_ratio import likelihood_close, likelihood_open, likelihood_visit
from ..estimators.mixture import apply_mixture, mixture_due
from ..estimators.reward_sets import reward_due, reward_learn, reward_refresh
from ..estimators.rewards import reward_step
from ..estimators.sign_union import sign_union_step
from ..estimators.store import remember
from .glm import norm_of, slot_of


@inlined
def learn_rest(par, state, work, k, h, s, a, y, reward, x, norm):
    """What all kinds learn: the store, the reward."""
    if state.store.contexts.shape[0] > 0:
        remember(state.store, k, h, s, a, y, -1.0 if math.isnan(reward) else reward)
    if not math.isnan(reward):
        reward_learn(par.rewards, state.rewards, work.rewards, s, a, reward, x, norm)
        reward_step(par.means, state.means, par.sampler.refresh, s, a, reward, x, norm, work.zx, work.gram)
        if reward_due(par.rewards, state.rewards, s, a) == 1:
            reward_refresh(par.rewards, state.rewards, work.rewards, state.store, s, a)


@inlined
def enter(state, x, k):
    """The context of the episode into the store."""
    if state.store.contexts.shape[0] > 0:
        for b in range(x.shape[0]):
            state.store.contexts[k, b] = x[b]


@kernel
def learn_outcomes(layout, par, state, work, x, n, path, norm):
    """The outcomes of an episode, all visits of a pair at its first one: pairs know nothing of each other."""
    for h in range(n):
        s, a, seen = path.states[h], path.actions[h], 0
        for i in range(h):
            seen += 1 if path.states[i] == s and path.actions[i] == a else 0
        if seen == 0:
            m, visits = layout.count[s, a], 0
            likelihood_open(par, state, work, m, s, a, x)
            for i in range(h, n):
                if path.states[i] == s and path.actions[i] == a:
                    y = slot_of(layout, s, a, path.states[i + 1])
                    likelihood_visit(par, state, work, m, s, a, y, x, norm)
                    visits += 1
            likelihood_close(par, state, work, m, s, a, x, visits)


@inlined
def learn_posterior(par, state, work, x, n, path, norm):
    """The sampler, where there is one."""
    if state.sampler.samples.shape[0] > 0:
        learn_outcomes(par.layout, par.sampler, state.sampler, work.sampler, x, n, path, norm)


@kernel
def learn_online(par, state, work, x, k, n, path):
    norm = norm_of(x)
    enter(state, x, k)
    if state.transitions.samples.shape[0] > 0:
        learn_outcomes(par.layout, par.transitions, state.transitions, work.transitions, x, n, path, norm)
    learn_posterior(par, state, work, x, n, path, norm)
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        y = slot_of(par.layout, s, a, path.states[h + 1])
        learn_rest(par, state, work, k, h, s, a, y, path.rewards[h], x, norm)


@kernel
def learn_stored(par, state, work, x, k, n, path):
    norm = norm_of(x)
    enter(state, x, k)
    learn_posterior(par, state, work, x, n, path, norm)
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        y = slot_of(par.layout, s, a, path.states[h + 1])
        learn_rest(par, state, work, k, h, s, a, y, path.rewards[h], x, norm)
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
        sign_union_step(par.transitions, state.transitions, work.transitions, count, s, a, y, x, norm)
        learn_rest(par, state, work, k, h, s, a, y, path.rewards[h], x, norm)
