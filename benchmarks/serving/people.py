"""Simulated people, each with a context, luck of their own, and the next thing to ask.

The truth is a world's: next states by softmax(W[s, a] x), rewards 0 or 1 with mean theta[s, a]'x. It is computed in
NumPy for a block of people at a time, so that a step costs a bisection: the generator must be cheaper than the server.
Everything random is a function of (seed, person)."""

import random
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from noregret.worlds import World, random_logit

BLOCK = 50  # people whose models are computed together: half a millisecond


class Told(msgspec.Struct):
    """What is read of an answer; the rest is skipped."""

    action: int | str | None = None
    step: int | None = None
    by: str | None = None
    reason: str | None = None
    number: int | None = None


answered = msgspec.json.Decoder(Told).decode
written = msgspec.json.encode


def medium(seed: int = 0) -> World:
    """The world of the figures: S=10 A=4 H=10 d=8."""
    return random_logit(10, 4, 10, 8, seed=seed)


class Person:
    """Somebody under way: `ask` says the next request, `told` takes its answer.

    late     steps whose reward is told later than their next state
    ending   "end", or "withdraw" for the few who leave
    """

    __slots__ = (
        "chances",
        "ending",
        "horizon",
        "late",
        "luck",
        "means",
        "name",
        "pending",
        "phase",
        "state",
        "step",
        "x",
    )

    def __init__(self, name: str, x: list[float], chances: Any, means: Any, luck: random.Random, horizon: int) -> None:
        self.name, self.x, self.chances, self.means, self.luck = name, x, chances, means, luck
        self.step, self.state, self.phase, self.horizon, self.pending = 0, 0, "begin", horizon, 0.0
        self.late: list[tuple[int, float]] = []
        self.ending = "withdraw" if luck.random() < 0.005 else "end"

    def ask(self) -> tuple[str, str, dict[str, Any]]:
        """(verb, key, body) of what they need next. Asking twice gives the same."""
        h, name = self.step, self.name
        if self.phase == "begin":
            return "begin", f"{name}/begin", {"x": self.x}
        if self.phase == "decide":
            return "decide", f"{name}/decide/{h}", {"state": self.state, "step": h}
        if self.phase == "outcome":
            reward = None if self.late and self.late[-1][0] == h else self.pending
            return "outcome", f"{name}/outcome/{h}", {"step": h, "next_state": self.state, "reward": reward}
        if self.phase == "reward":
            step, reward = self.late[-1]
            return "reward", f"{name}/reward/{step}", {"step": step, "reward": reward}
        if self.ending == "withdraw":
            return "withdraw", f"{name}/withdraw", {"learn": True}
        return "end", f"{name}/end", {}

    def told(self, answer: Told) -> bool:
        """Take the answer to `ask`; whether there is more to come."""
        if self.phase == "decide":
            self._happen(answer.action)
            self.phase = "outcome"
        elif self.phase == "begin":
            self.phase = "decide"
        elif self.phase == "outcome":
            self.step += 1
            over = self.step == self.horizon or (self.ending == "withdraw" and self.step == 3)
            self.phase = "decide" if not over else "reward" if self.late else "end"
        elif self.phase == "reward":
            self.late.pop()
            self.phase = "reward" if self.late else "end"
        else:
            return False
        return True

    def ahead(self) -> tuple[str, str, dict[str, Any]] | None:
        """The request after the next, where it is known already: a decision in the state that the outcome brings."""
        if self.phase != "outcome" or self.step + 1 == self.horizon or self.ending == "withdraw":
            return None
        h = self.step + 1
        return "decide", f"{self.name}/decide/{h}", {"state": self.state, "step": h}

    def _happen(self, action: Any) -> None:
        s, a = self.state, action
        row, luck = self.chances[s, a], self.luck
        self.state = min(bisect_right(row, luck.random()), len(row) - 1)
        self.pending = 1.0 if luck.random() < self.means[s, a] else 0.0
        if luck.random() < 0.05:
            self.late.append((self.step, self.pending))


def people(world: World, seed: int = 0, prefix: str = "p", start: int = 0) -> Iterator[Person]:
    """One after another, for ever. `prefix` sets the keys of one run apart from another's."""
    horizon, block = world.problem.horizon, start // BLOCK
    d, count = world.problem.context_dim, block * BLOCK
    while True:
        g = np.random.default_rng([seed, block])
        u = g.standard_normal((BLOCK, d - 1))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        x = np.concatenate([np.ones((BLOCK, 1)), u], axis=1) / np.sqrt(2.0)  # as `random_logit`'s source has it
        logits = np.einsum("saij,nj->nsai", world.weights, x)
        P = np.exp(logits - logits.max(axis=-1, keepdims=True))
        chances = np.cumsum(P / P.sum(axis=-1, keepdims=True), axis=-1)
        means = np.einsum("saj,nj->nsa", world.reward_weights, x)
        for i in range(BLOCK):
            if count >= start:
                luck = random.Random(f"{seed}/{count}")
                yield Person(f"{prefix}{count}", x[i].tolist(), chances[i], means[i], luck, horizon)
            count += 1
        block += 1
