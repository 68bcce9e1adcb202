"""The standing of a person: what their own events allow next, and what a request becomes as an event.

Rebuilt from `journal.of(who)` alone, so that it needs no agent. Whatever passes here the fold takes, with one exception
that other people's events decide: whether somebody who has ended was learned already. `late` says that a request
depends on it; then the player is asked."""

import math
from typing import Any

import msgspec

from .. import checks as check
from ..checks import Floats
from ..problem.encoder import Encoder
from ..problem.masks import allowed_actions, check_policy
from ..problem.problem import Problem
from .asking import Refusal

Payload = dict[str, Any]


class Standing(msgspec.Struct, gc=False):
    """visits: how often they began; open, ended; states, actions: of the steps decided (an action is not known before
    its claim, and not needed), rewards: of those observed, nan where it was not told; mask [S, A] or None: what is left
    to them. Many are remembered: with tuples, and without a part in cycles, they cost the collector nothing."""

    visits: int = 0
    open: bool = False
    ended: bool = False
    states: tuple[int, ...] = ()
    actions: tuple[int | None, ...] = ()
    rewards: tuple[float, ...] = ()
    mask: Any = None

    @property
    def step(self) -> int:
        return len(self.rewards)

    @property
    def asked(self) -> bool:
        return len(self.actions) > len(self.rewards)

    def take(self, kind: str, told: Payload, problem: Problem) -> None:
        """After this event."""
        if kind == "begin":
            self.visits += 1
            self.open, self.ended = True, False
            self.states, self.actions, self.rewards = (), (), ()
            barred = told.get("unavailable")
            self.mask = None if barred is None else allowed_actions(problem, barred)
        elif kind == "decide":
            if not self.states:
                self.states = (told["state"],)
            self.actions += (told["action"],)
        elif kind in ("outcome", "reward", "correction"):
            self._told(told)
        elif kind == "end" or (kind == "withdraw" and told.get("learn")):
            self.open, self.ended = False, True
        elif kind == "withdraw":
            self.open = self.ended = False

    def _told(self, told: Payload) -> None:
        h, r = told["step"], told["reward"]
        if told.get("next_state") is not None:
            if h == len(self.rewards):
                self.rewards += (math.nan,)
            self.states = (*self.states[: h + 1], told["next_state"], *self.states[h + 2 :])
        if r is not None:
            self.rewards = (*self.rewards[:h], float(r), *self.rewards[h + 1 :])


class Rules:
    """Requests held against a person's standing: `event` gives (kind, payload, late), or a Refusal says why not.

    wait    of an `end` that does not say; masks: whether the agent plans for people who cannot get every action;
    expert  policy [H, S] that people are referred to, None: nobody is"""

    def __init__(
        self, problem: Problem, encoder: Encoder | None, wait: int | None = 0, masks: bool = True, expert: Any = None
    ) -> None:
        self.problem, self.encoder, self.wait, self.masks, self.expert = problem, encoder, wait, masks, expert
        self.verbs = {
            "begin": self._begin, "decide": self._decide, "outcome": self._outcome, "reward": self._reward,
            "end": self._end, "close": self._close, "withdraw": self._withdraw,
        }  # fmt: skip

    def event(self, verb: str, body: Payload, now: Standing) -> tuple[str, Payload, bool]:
        try:
            return self.verbs[verb](body, now)
        except (ValueError, TypeError, OverflowError, LookupError, AttributeError) as error:
            raise Refusal(422, str(error)) from None

    def context(self, x: Any) -> Floats:
        """Of the numbers or the row that a request has."""
        if isinstance(x, dict):
            if self.encoder is None:
                raise ValueError(f"x must be {self.problem.context_dim} numbers: the programme has no encoder")
            x = self.encoder.encode(x)
        return self.problem.context(x, "x")

    def _begin(self, body: Payload, now: Standing) -> tuple[str, Payload, bool]:
        if now.open:
            raise Refusal(409, "this person is open already: end or withdraw them first")
        if "x" not in body:
            raise ValueError("x must be given: the context, or the row that it is made of")
        x, barred = body["x"], body.get("unavailable")
        self.context(x)
        if barred is not None:
            mask = allowed_actions(self.problem, barred)
            if not self.masks:
                raise ValueError("unavailable must be null: this programme's agent cannot plan without actions")
            if self.expert is not None:
                check_policy(
                    self.problem, self.expert, mask, "unavailable: the house rule, which people are referred to,"
                )
        return "begin", {"x": x, "unavailable": barred}, now.ended

    def _decide(self, body: Payload, now: Standing) -> tuple[str, Payload, bool]:
        p, h = self.problem, now.step
        _known(now)
        if not now.open:
            raise Refusal(409, "this person has ended: begin them again first")
        if now.asked:
            raise Refusal(409, f"step {h} is decided and its outcome was not told: tell it first")
        if h == p.horizon:
            raise Refusal(409, f"all {h} steps of this person are taken: end them")
        step, state, action = body.get("step"), body.get("state"), body.get("action")
        if step is not None and check.integer("step", step, 0) != h:
            raise Refusal(409, f"this person is at step {h}, not at step {step}")
        s = p.state(state) if h > 0 else p.started(state)
        if h > 0 and s != now.states[h]:
            raise Refusal(409, f"state must be the next_state told last, {p.state_text(now.states[h])}")
        chosen = None
        if action is not None:
            chosen = p.action(action, s)
            if now.mask is not None and not now.mask[s, chosen]:
                raise ValueError(f"action {p.action_text(chosen)} is not available to this person")
        told = {"step": h, "state": s, "action": chosen, "by": "caller", "probability": None, "advice": None}
        return "decide", told, False

    def _outcome(self, body: Payload, now: Standing) -> tuple[str, Payload, bool]:
        p, n = self.problem, now.step
        _known(now)
        after, reward = p.state(body.get("next_state"), "next_state"), self._rewarded(body)
        step = body.get("step")
        h = check.integer("step", step, 0) if step is not None else n
        if h > n or (h == n and not now.asked):
            raise Refusal(409, f"nothing was decided at step {h}: this person is at step {n}")
        told = {"step": h, "next_state": after, "reward": reward}
        if h == n:
            return "outcome", told, now.ended
        if after != now.states[h + 1] and len(now.actions) > h + 1:
            raise Refusal(
                409, f"next_state of step {h} was {p.state_text(now.states[h + 1])}, in which step {h + 1} was decided"
            )
        same = after == now.states[h + 1] and (reward is None or reward == now.rewards[h])
        return "outcome" if same else "correction", told, now.ended

    def _reward(self, body: Payload, now: Standing) -> tuple[str, Payload, bool]:
        _known(now)
        h, reward = check.integer("step", body.get("step"), 0), self._rewarded(body)
        if h >= now.step:
            raise Refusal(409, f"the outcome of step {h} was not told: this person is at step {now.step}")
        before = now.rewards[h]
        if reward is None and not math.isnan(before):
            raise ValueError(f"reward of step {h} was told, {before:g}: it can be corrected, not unsaid")
        kind = "reward" if math.isnan(before) or reward == before else "correction"
        return kind, {"step": h, "reward": reward}, now.ended

    def _end(self, body: Payload, now: Standing) -> tuple[str, Payload, bool]:
        _known(now)
        if not now.open:
            raise Refusal(409, "this person has ended already")
        wait = body.get("wait", self.wait)
        wait = None if wait is None or wait == "close" else check.integer("wait", wait, 0)
        return "end", {"wait": wait}, False

    def _close(self, body: Payload, now: Standing) -> tuple[str, Payload, bool]:
        _known(now)
        if now.open:
            raise Refusal(409, "this person is open: end them first")
        return "close", {}, True

    def _withdraw(self, body: Payload, now: Standing) -> tuple[str, Payload, bool]:
        _known(now)
        learn = check.flag("learn", body.get("learn", False))
        if now.ended and learn:
            raise Refusal(409, "this person has ended already: their steps are learned")
        return "withdraw", {"learn": learn}, now.ended

    def _rewarded(self, body: Payload) -> float | None:
        given = body.get("reward")
        if given is None:
            return None
        made = self.problem.reward(given)
        if math.isnan(made):
            raise ValueError("reward must be a number, or null where it is not known")
        return made


def _known(now: Standing) -> None:
    if not (now.open or now.ended):
        raise Refusal(404, "nobody of that name has begun" if now.visits == 0 else "this person has withdrawn")
