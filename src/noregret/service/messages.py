"""What goes over the wire, once: msgspec reads requests by these Structs, and OpenAPI is made of the same.

Requests are strict: a field that is not named here is refused, so a misspelt `nextstate` is not an outcome without one.
Numbers are finite (JSON has no NaN, and msgspec refuses 1e999). A reward that is not known yet is null. What a state,
an action or a context may be in a programme is looked at later, by those who know it."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Name = Annotated[str, Meta(max_length=200)]
Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Step = Annotated[int, Meta(ge=0, le=2**31 - 1, description="steps are counted from 0")]
State = Annotated[Number | Name, Meta(description="a state, by name or number")]
Action = Annotated[Number | Name, Meta(description="an action, by name or number")]
Value = float | Annotated[str, Meta(max_length=1000)] | bool | None
Row = dict[Annotated[str, Meta(max_length=200)], Value]
Vector = Annotated[list[float], Meta(max_length=4096)]


class _Request(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A body that says no more than it may. What was left out and what was null are one, also for the caller's key."""


class Begin(_Request, kw_only=True):
    """Somebody comes: a context, as numbers or as a row of the programme's columns."""

    x: Annotated[Vector | Row, Meta(description="numbers, or a row: column -> value")]
    unavailable: Annotated[
        Annotated[list[Number | Name], Meta(max_length=1000)] | None,
        Meta(description="actions that this person cannot get"),
    ] = None


class Decide(_Request, kw_only=True):
    """What now, in this state? With `action`, somebody else has chosen, and it is recorded."""

    state: State
    action: Action | None = None
    step: Step | None = None


class Outcome(_Request, kw_only=True):
    """What the action of a step led to. `reward` null: later. Told again for a step, it is a correction."""

    next_state: State
    reward: float | None = None
    step: Step | None = None


class Reward(_Request, kw_only=True):
    """The reward of an earlier step: one that was not known, or a correction."""

    step: Step
    reward: float


class End(_Request, kw_only=True):
    """The person's steps are over. `wait`: how many more people begin before they are learned, or "close": as many as
    it takes until `close`; left out: what the programme says."""

    wait: Number | Literal["close"] | UnsetType = UNSET


class Close(_Request):
    """Nothing more is waited for."""


class Withdraw(_Request, kw_only=True):
    """The person leaves. `learn`: whether the steps seen so far are learned."""

    learn: bool = False


class Erase(_Request, kw_only=True):
    """Whose values are to be erased. The chain stays verifiable."""

    who: Annotated[str, Meta(min_length=1, max_length=200)]


class Nothing(_Request):
    """No fields."""


class Begun(Struct, kw_only=True):
    """The plan made for somebody, in short."""

    who: str
    episode: int | None
    plan: Annotated[dict[str, int | str] | None, Meta(description="state to begin in -> first action")]
    certificate: float | None
    referred: bool | None
    by: Literal["agent", "house"]
    reason: str | None
    version: str
    number: int


class Decided(Struct, kw_only=True):
    """An action, with who chose it and how likely it was. `reason`: why the house rule answered, if it did."""

    who: str
    step: int
    state: int | str
    action: int | str
    probability: float | None
    certificate: float | None
    referred: bool | None
    by: Literal["agent", "house", "caller"]
    reason: str | None
    version: str
    number: int


class Noted(Struct, kw_only=True):
    """It is in the journal under this number."""

    who: str
    number: int
    step: int | None = None


class Known(Struct, kw_only=True):
    """A programme of this service."""

    name: str
    title: str
    state: str


class Listed(Struct):
    """The programmes that this token may see."""

    programmes: list[Known]


class Described(Known, kw_only=True):
    """A programme and what is counted of it."""

    facts: dict[str, Any]


class Done(Struct, kw_only=True):
    """It is in the journal under this number, and is so from there on."""

    who: None
    number: int


class Erased(Struct):
    """How many events of the person were erased."""

    who: str
    erased: int


class Happened(Struct, kw_only=True):
    """One event of a person. `payload` null: erased."""

    number: int
    kind: str
    time: str
    payload: dict[str, Any] | None


class Person(Struct, kw_only=True):
    """All that the journal has of a person."""

    who: str
    events: list[Happened]


class Audited(Struct, kw_only=True):
    """One decision, folded again now: what was known, the plan, the certificate, and whether it came out the same."""

    who: str
    step: int
    audit: dict[str, Any]


class Alarms(Struct):
    """Alarms about the model and drift, newest first."""

    alarms: list[dict[str, Any]]


class ShadowReport(Struct):
    """The agent's value less the house rule's, for the people who came last: bounds, and whether lower >= 0."""

    people: int
    lower: float | None
    upper: float | None
    certified: bool
    sentence: str


class Shadow(Struct):
    """The agent beside the house rule: whether it is certified not to be worse."""

    shadow: ShadowReport


class Health(Struct):
    """The process answers."""

    status: Literal["ok"]
    version: str


class Ready(Struct):
    """Each programme's state, by name."""

    ready: bool
    programmes: dict[str, str]


class Failure(Struct):
    """What is wrong, in one sentence."""

    error: str


class RankableAction(Struct):
    """Something to choose from. Features of actions belong to the programme's design and are not read here."""

    id: Annotated[str, Meta(min_length=1, max_length=256)]
    features: Annotated[list[dict[str, Any]], Meta(max_length=100)]


class RankRequest(Struct, rename="camel"):
    """Personalizer's request: which of these actions, in this context?"""

    actions: Annotated[list[RankableAction], Meta(min_length=1, max_length=50)]
    context_features: Annotated[list[dict[str, Any]], Meta(max_length=100)] | None = None
    excluded_actions: Annotated[list[Annotated[str, Meta(max_length=256)]], Meta(max_length=50)] | None = None
    event_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    defer_activation: bool | None = None


class RankedAction(Struct):
    """An action and the chance with which it was to be chosen; null where the agent does not say."""

    id: str
    probability: float | None


class RankResponse(Struct, rename="camel"):
    """Personalizer's answer: show `rewardActionId`, and report the reward of `eventId`."""

    ranking: list[RankedAction]
    event_id: str
    reward_action_id: str


class RewardRequest(Struct):
    """Personalizer's reward of an event."""

    value: float


class RewardOfEvent(_Request, kw_only=True, rename="camel"):
    """The reward of an event of `/rank`."""

    event_id: Annotated[str, Meta(min_length=1, max_length=200)]
    value: float


class PersonalizerError(Struct):
    """Personalizer's error: a code and a sentence."""

    code: str
    message: str


class ErrorResponse(Struct):
    """Personalizer's body of errors."""

    error: PersonalizerError


class Created(Struct, kw_only=True):
    """A programme that was made."""

    name: str
    state: str
    title: str = ""
