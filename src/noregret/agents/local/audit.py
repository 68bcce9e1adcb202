"""Bets against the model (`estimators.audit`) of agents with online sets, before an episode is learned."""

import math

from ...compiler.jit import inlined, kernel
from ...compiler.slots import slot
from ...estimators.audit import (
    bet_outcome,
    bet_reward,
    count_outcome,
    fill_features,
    fill_step,
    met,
    reward_mean,
    shared_logits,
)
from ...estimators.likelihood.precision import logits_at


@inlined
def bet_step(par, state, work, x, h, path):
    """Bets on step h, whose logits are in work.audit.z; returns ln p(y)/p_table(y)."""
    rules, audit, w, layout = par.audit, state.audit, work.audit, par.layout
    s, a, after, y, better = path.states[h], path.actions[h], path.states[h + 1], 0, 0.0
    n = layout.count[s, a]
    fill_step(rules, h, w.f)
    if n > 1:
        for j in range(n):
            if layout.outcomes[s, a, j] == after:
                y = j
        said, table = count_outcome(audit, w, s, a, n, y)
        audit.worth[3] -= said
        audit.worth[4] -= table
        better = said - table
        bet_outcome(rules, audit, w, s, a, n, y)
    if rules.rewards > 0 and not math.isnan(path.rewards[h]):
        mean = reward_mean(par.rewards, state.rewards, s, a, x)
        bet_reward(rules, audit, w, s, a, mean, path.rewards[h], par.rewards.offset)
    return better


@kernel
def audit_pairs(par, state, work, x, n, path):
    """Bets on an episode of n steps, by the sets of pairs."""
    better = 0.0
    fill_features(par.audit, x, work.audit.f)
    for h in range(n):
        s, a = path.states[h], path.actions[h]
        logits_at(state.transitions.weights[s, a], x, par.layout.count[s, a], work.audit.z)
        better += bet_step(par, state, work, x, h, path)
    met(state.audit, better)


@kernel
def audit_blocks(par, state, work, x, n, path):
    """The same where pairs share weights."""
    better = 0.0
    fill_features(par.audit, x, work.audit.f)
    for h in range(n):
        shared_logits(par.transitions, state.transitions, path.states[h], path.actions[h], x, work.audit.z)
        better += bet_step(par, state, work, x, h, path)
    met(state.audit, better)


call_audit = slot("audit")  # (par, state, work, x, n, path)
