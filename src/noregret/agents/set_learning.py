"""How the agents with local sets learn from an episode: one kernel of each kind of transition sets (`agents.sets`)."""

import math

from .._jit import inlined, kernel
from ..estimators.likelihood_ratio import likelihood_kron, together
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
        if par.estimates == 1:
            reward_step(par.means, state.means, par.refresh, s, a, reward, x, norm, work.zx, work.gram)
        if reward_due(par.rewards, state.rewards, s, a) == 1:
            reward_refresh(par.rewards, state.rewards, work.rewards, state.store, s, a)


@inlined
def enter(state, x, k):
    """The context of the episode into the store."""
    if state.store.contexts.shape[0] > 0:
        for b in range(x.shape[0]):
            state.store.contexts[k, b] = x[b]


@kernel
def learn_together(layout, par, state, work, used, count, x, n, path, norm, known, covariances):
    """All visits of pairs work.who, so many, the first at steps work.cursor."""
    A, left = layout.count.shape[1], used
    work.used[0] = used
    together(par.open, (par, state, work, count, x, known, covariances))
    while left > 0:
        left = 0
        for i in range(8):
            h = work.cursor[i] if i < used else n
            work.y[i] = -1
            if h < n:
                s, a = work.who[i] // A, work.who[i] % A
                work.y[i] = slot_of(layout, s, a, path.states[h + 1])
                h += 1
                while h < n and not (path.states[h] == s and path.actions[h] == a):
                    h += 1
                work.cursor[i] = h
                left += 1 if h < n else 0
        together(par.visit, (par, state, work, count, norm))
    together(par.close, (par, state, work, count, x))


@kernel
def learn_outcomes(layout, par, state, work, x, n, path, norm, known, covariances):
    """The outcomes of an episode. Pairs know nothing of each other: all visits of a pair are learned together, and up
    to eight pairs with the same number of outcomes. known and covariances: as in `likelihood_open`."""
    if par.kron == 1:
        for h in range(n):
            s, a = path.states[h], path.actions[h]
            y = slot_of(layout, s, a, path.states[h + 1])
            likelihood_kron(par, state, work, layout.count[s, a], s, a, y, x, norm)
        return
    least = 0
    while True:
        count, used = -1, 0
        for h in range(n):
            here = layout.count[path.states[h], path.actions[h]]
            count = here if here > least and (count < 0 or here < count) else count
        if count < 0:
            return
        for h in range(n):
            s, a, first = path.states[h], path.actions[h], 1
            if layout.count[s, a] == count and count == 1:  # nothing to learn
                state.samples[s, a] += 1
            elif layout.count[s, a] == count:
                for i in range(h):
                    first = 0 if path.states[i] == s and path.actions[i] == a else first
                if first == 1:
                    work.who[used], work.cursor[used] = s * layout.count.shape[1] + a, h
                    used += 1
            if used == 8 or (used > 0 and h == n - 1):
                learn_together(layout, par, state, work, used, count, x, n, path, norm, known, covariances)
                used = 0
        least = count


@inlined
def still_described(work, x):
    """Whether work.local is about this context, and nothing has been learned since."""
    alike = True
    for b in range(x.shape[0]):
        alike = alike and work.described[b] == x[b]
    return alike


@inlined
def learn_posterior(par, state, work, x, n, path, norm):
    """The sampler, where there is one."""
    if state.sampler.samples.shape[0] > 0:
        learn_outcomes(par.layout, par.sampler, state.sampler, work.sampler, x, n, path, norm, 0, work.local.packed)


@kernel
def learn_online(par, state, work, x, k, n, path):
    norm = norm_of(x)
    enter(state, x, k)
    if state.transitions.samples.shape[0] > 0:
        sets, scratch, known = state.transitions, work.transitions, int(still_described(work, x))
        learn_outcomes(par.layout, par.transitions, sets, scratch, x, n, path, norm, known, work.local.packed)
    work.described[0] = math.nan
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
