"""Truths that a declared model does not have, and how soon that is noticed.

    python tests/wrong_models.py                    the tables of docs/evidence-model.md, some minutes

A truth gives P(y | s, a, x) and mean rewards for individual k; contexts are (1, u)/sqrt 2 with u on the unit sphere."""

import argparse
import math
import warnings

import numpy as np

import noregret as nr
from noregret.problem.log import LoggedEpisode

KINDS = ("right", "steep", "link", "interaction", "drift", "bound", "rewards", "reward drift", "slow reward drift")
SIZES = (3, 2, 3, 3)  # S, A, H, d


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Truth:
    """One of KINDS; size: how far from the model, 1 a lot. People: so many will come."""

    def __init__(self, kind, size=1.0, seed=0, people=1000, sizes=SIZES):
        S, A, H, d = sizes
        g = self.g = np.random.default_rng((KINDS.index(kind), seed))
        self.kind, self.size, self.people, length = kind, size, people, 12.0 if kind == "steep" else 3.0
        told = length / (1.0 + 2.0 * size) if kind == "bound" else length
        self.problem = nr.Problem(S, A, H, d, weight_bound=told, reward_bound=math.sqrt(2.0), initial_states=(0,))
        self.W, self.other, self.bent = (self.rows(length) for _ in range(3))
        self.level = g.uniform(0.2, 0.8, (S, A))
        slope = g.standard_normal((S, A, d - 1))
        slope *= (np.minimum(self.level, 1 - self.level) / np.linalg.norm(slope, axis=-1))[..., None]
        self.theta = math.sqrt(2.0) * np.concatenate([self.level[..., None], slope], axis=-1)
        self.sign = g.choice([-1.0, 1.0], (S, A))

    def rows(self, length):
        S, A, d = self.problem.n_states, self.problem.n_actions, self.problem.context_dim
        made = self.g.standard_normal((S, A, S, d))
        made *= length / np.linalg.norm(made, axis=-1, keepdims=True)
        made[:, :, -1] = 0.0
        return made

    def context(self):
        u = self.g.standard_normal(self.problem.context_dim - 1)
        return np.concatenate([[1.0], u / np.linalg.norm(u)]) / math.sqrt(2.0)

    def transitions(self, x, k):
        """[S, A, S']"""
        z, late = self.W @ x, k >= self.people / 2
        if self.kind == "link":  # curved logits
            z = (1.0 - self.size) * z + self.size * z * np.abs(z)
        elif self.kind == "interaction":
            z = z + self.size * self.bent[..., 0] * 4.0 * x[1] * x[2] / 3.0
        elif self.kind == "drift" and late:
            z = (1.0 - self.size) * z + self.size * (self.other @ x)
        return softmax(z)

    def rewards(self, x, k):
        """[S, A]"""
        m = self.theta @ x
        if self.kind == "rewards":
            m = m + self.size * 0.5 * self.sign * (4.0 * x[1] * x[1] - 1.0)
        elif self.kind == "reward drift" and k >= self.people / 2:
            m = (1.0 - self.size) * m + self.size * (1.0 - m)
        elif self.kind == "slow reward drift":
            part = self.size * k / self.people
            m = (1.0 - part) * m + part * (1.0 - m)
        return np.clip(m, 0.0, 1.0)

    def log(self):
        """Of everybody, by uniformly random actions."""
        p, g, made = self.problem, self.g, []
        for k in range(self.people):
            x = p.context(self.context())
            P, r = self.transitions(x, k).cumsum(-1), self.rewards(x, k)
            states, actions, rewards = [0], g.integers(0, p.n_actions, p.horizon), []
            for a in actions:
                rewards.append(float(g.random() < r[states[-1], a]))
                states.append(min(int((P[states[-1], a] < g.random()).sum()), p.n_states - 1))
            chances = np.full(p.horizon, 1.0 / p.n_actions)
            made.append(LoggedEpisode(k, x, np.array(states), actions, np.array(rewards), chances))
        return nr.Log(p, tuple(made))

    def shortfall(self, x, k, policy):
        """V* - V^pi at the start."""
        P, r = self.transitions(x, k), self.rewards(x, k)
        best = own = np.zeros(self.problem.n_states)
        for h in range(self.problem.horizon - 1, -1, -1):
            Q, own_Q = r + P @ best, r + P @ own
            best, own = Q.max(1), own_Q[np.arange(len(own)), policy[h]]
        return float(best[0] - own[0])


def certificates(kind, size, seed, people, **options):
    """(people until an alarm, people until the first plan whose certificate is below its shortfall); None: never."""
    truth = Truth(kind, size, seed, people)
    agent, g, false, noticed = nr.LRORL(truth.problem, **options), truth.g, None, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(people):
            x = truth.problem.context(truth.context())
            plan = agent.begin_episode(x)
            if plan.certificate is None:
                return k, false
            if false is None and truth.shortfall(x, k, plan.policy) > plan.certificate + 1e-9:
                false = k
            P, r, s = truth.transitions(x, k).cumsum(-1), truth.rewards(x, k), 0
            for _ in range(truth.problem.horizon):
                a = agent.act(s)
                reward = float(g.random() < r[s, a])
                s = min(int((P[s, a] < g.random()).sum()), truth.problem.n_states - 1)
                agent.observe(reward, s)
            agent.end_episode()
    return noticed, false


def found(kind, size, seed, people):
    """(level, likeliest, ln e of it) of a check of the whole log."""
    made = nr.check_model(Truth(kind, size, seed, people).log())
    return made.level, made.likeliest, max(a.log_e for a in made.alarms)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, default=10)
    parser.add_argument("--people", type=int, default=2000)
    asked = parser.parse_args()
    print(f"check_model of a log: {asked.worlds} worlds, red after 500 and {asked.people} people, likeliest kinds")
    for kind in KINDS[2:]:
        for size in (0.25, 0.5, 1.0):
            said = []
            for people in (500, asked.people):
                made = [found(kind, size, seed, people) for seed in range(asked.worlds)]
                red = [m for m in made if m[0] == "red"]
                kinds = {k: sum(m[1] == k for m in red) for k in {m[1] for m in red}}
                said.append(f"{len(red)} (median ln e {np.median([m[2] for m in made]):.0f}) {kinds}")
            print(f"{kind} {size}: {'; '.join(said)}", flush=True)
    print(f"LR-ORL: alarms, false certificates, and which came first, {asked.people} people")
    for kind in KINDS[2:]:
        for size in (0.5, 1.0):
            made = [certificates(kind, size, seed, asked.people) for seed in range(asked.worlds)]
            alarms = [a for a, _ in made if a is not None]
            false = [(a, f) for a, f in made if f is not None]
            median = int(np.median(alarms)) if alarms else None
            print(
                f"{kind} {size}: noticed {len(alarms)} (median {median}), false certificate in {len(false)}", flush=True
            )


if __name__ == "__main__":
    main()
