"""How narrow an interval for the value of a policy can be, by what is assumed: exact, from worlds that know the truth.
The tables of docs/evidence.md.

    python tests/efficiency.py                            a minute of one core
    python tests/efficiency.py --only wrong --runs 40     how far a wrong model moves DR, MDR and plug-in: ten minutes

Given where a person begins, no regular estimator of the mean value of these people has a smaller variance, times their
number, than

    by path     sum_h E[w_h^2 Var(r_h + V_{h+1}(s_{h+1}) | s_h, a_h)]                 Jiang and Li (2016)
    by state    the same with the mean of w_h given x, s_h and a_h in place of w_h    Kallus and Uehara (2020)
    its own     the same with weights 1, people drawn by the policy itself

where nothing is assumed of next states and rewards but, by state, that the past matters through the state alone. DR
with the right Q has the first, MDR with the right Q and visits the second. PDIS has the variance of sum_h w_h r_h about
the mean over all people, which its guess is."""

import argparse
from typing import NamedTuple

import numpy as np

import noregret as nr

HORIZONS, PEOPLE, EXPLORE = (1, 2, 4, 8), 3000, 0.25


class Found(NamedTuple):
    """Of one person: the value, the mean squares of sum_h w_h r_h and sum_h w_h (1 - r_h), and the three bounds."""

    value: float
    square: float
    reflected: float
    by_path: float
    by_state: float
    its_own: float


def of_person(P, r, logging, policy, start):
    """P [S, A, S], mean r [S, A] of rewards that are 0 or 1, chances [H, S, A] of the logger and of the policy."""
    H, S, A = policy.shape
    V, square, reflected = np.zeros((3, H + 1, S))
    ratio = np.divide(policy**2, logging, out=np.zeros_like(policy), where=policy > 0.0)
    noise = np.zeros((H, S, A))
    for h in range(H - 1, -1, -1):
        after = P @ V[h + 1]
        noise[h] = r * (1.0 - r) + P @ V[h + 1] ** 2 - after**2
        V[h] = (policy[h] * (r + after)).sum(1)
        square[h] = (ratio[h] * (r + 2.0 * r * after + P @ square[h + 1])).sum(1)
        other, left = 1.0 - r, (H - h - 1) - after
        reflected[h] = (ratio[h] * (other + 2.0 * other * left + P @ reflected[h + 1])).sum(1)
    paths, ours, theirs = np.zeros((3, S))
    paths[start] = ours[start] = theirs[start] = 1.0
    sums = np.zeros(3)
    for h in range(H):
        state = np.divide(ours**2, theirs, out=np.zeros(S), where=ours > 0.0)
        shares = paths[:, None] * ratio[h], state[:, None] * ratio[h], ours[:, None] * policy[h]
        sums += [(share * noise[h]).sum() for share in shares]
        paths, ours, theirs = (
            np.einsum("sa,sat->t", at, P) for at in (shares[0], shares[2], theirs[:, None] * logging[h])
        )
    return Found(V[0, start], square[0, start], reflected[0, start], *sums)


def chosen(policy, actions):
    return (np.asarray(policy)[..., None] == np.arange(actions)).astype(float)


def widths(world, policy_of, people=300, seed=5):
    """Of 95% intervals for 3,000 people: PDIS, its other side (of 1 - r), and the bounds by path, by state, its own."""
    logging, begins = world.log_chances(EXPLORE), np.asarray(world.initial_state, float)
    rows, share = [], []
    for k in range(people):
        x = world.context(seed, k)
        model = world.transitions(x), world.rewards(x), logging, chosen(policy_of(x), world.problem.n_actions)
        for s in np.flatnonzero(begins):
            rows.append(of_person(*model, s))
            share.append(begins[s] / people)
    mean = np.array(share) @ np.array(rows)
    value, H = mean[0], world.problem.horizon
    variances = mean[1] - value**2, mean[2] - (H - value) ** 2, *mean[3:]
    return 2.0 * 1.96 * np.sqrt(np.array(variances) / PEOPLE)


def wrong(runs, misspecification, people=2000, horizon=4):
    """{estimator: rows (estimate - truth, width, shown)} of the best policies, as far from the rule as it pays to be.
    misspecification: how far the true weights leave the design (`worlds.programme`)."""
    world = nr.worlds.programme(horizon=horizon, context_dim=4, misspecification=misspecification)
    rows = {"DR": [], "MDR": [], "plug-in": []}
    for seed in range(700, 700 + runs):
        log = world.log(people, seed=seed)
        best = np.stack([world.optimal(e.context).policy for e in log])
        true = np.mean([world.values(p, e.context)[0, e.states[0]] for p, e in zip(best, log, strict=True)])
        found = nr.evaluate(best, log, looks="once")
        for name, kept in rows.items():
            row = found.row(name, "asymptotic")
            kept.append((row.estimate - true, 2.0 * row.half_width, row.told))
    return {name: np.array(kept, float) for name, kept in rows.items()}


def print_bounds():
    print(
        "H policy  PDIS   by path  by state  its own    by path/PDIS  by state/PDIS  its own/PDIS  by path/both sides"
    )
    for horizon in HORIZONS:
        world = nr.worlds.programme(horizon=horizon, context_dim=4)
        calls = world.rule.copy()
        calls[:, [3, 5]] = 2
        best = lambda x, world=world: world.optimal(x).policy  # noqa: E731
        for name, policy_of in (("rule", lambda x: world.rule), ("calls", lambda x: calls), ("best", best)):  # noqa: B023
            pdis, other, *bounds = widths(world, policy_of)
            ratios = [bound / pdis for bound in bounds] + [2.0 * bounds[0] / (pdis + other)]
            print(f"{horizon} {name:6}", " ".join(f"{w:8.3f}" for w in (pdis, *bounds)), "  ",
                  " ".join(f"{one:12.2f}" for one in ratios), flush=True)  # fmt: skip


def print_wrong(runs):
    for far in (0.0, 0.5, 1.0):
        for name, rows in wrong(runs, far).items():
            away, wide, told = rows.T
            said = f"misspecification {far}, {name}: mean error {away.mean():+.3f} (+- {away.std() / runs**0.5:.3f})"
            if told.any():
                out, width = (np.abs(away) > 0.5 * wide)[told > 0.0].mean(), wide[told > 0.0].mean()
                said += f", shown {told.mean():.2f}, missed of those {out:.3f}, width {width:.3f}"
            print(said, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--only", default="bounds", choices=("bounds", "wrong"))
    given = parser.parse_args()
    if given.only == "bounds":
        print_bounds()
    else:
        print_wrong(given.runs)


if __name__ == "__main__":
    main()
