"""Routes of the pages, and what each puts together."""

import asyncio
import atexit
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ...journal.errors import JournalDamaged, JournalUnavailable
from ...journal.event import Who
from ...live.people import LONGEST
from ...report.blocks import Row, Section, Table, Text
from ...report.rendering import PACKAGE as REPORT
from . import entry, person
from .about import About, about
from .aside import Aside
from .blocks import rebuilt
from .dashboard import alarm_section, alarms_of, moment, sections, summary, tiles
from .entry import COOKIE, HEADERS, ROOT, SIGN_IN, Find, page
from .follower import Follower
from .state import latencies, service_section

PACKAGE = Path(__file__).parent
EVERY = 5  # seconds between two looks of a page
FRESH = 2.0  # seconds for which sections made of the figures are good
SHARE = 20.0  # times as long as they took to make: with many people they are made more rarely
MORE = 1.1  # times as many people ended: the evidence is asked for again
STALE = 600.0  # seconds after which it is asked for again, where anything happened
WAIT = 2.5  # seconds that a person's page waits for the process beside
AGAINST = "Against the house rule"
MOODS = {"ready": "good", "paused": "bad", "failed": "bad"}
ASSETS = {"move.js": "text/javascript", "icon.svg": "image/svg+xml"}


def routes(host: Any, find: Find, requests: Any = None, aside: Any = None) -> list[Route]:
    """Routes for an application: `pages` of `service.app.App`.

    host      has `programmes`, name -> `Programme`
    find      from a token as it was sent (b"" without one) to who they are, with may(role, programme), or None where it
              is nobody's: `Tokens.find`; for a demonstration `lambda sent: EVERYTHING`
    requests  `service.metrics.Requests`, for latencies; None: they are not shown
    aside     who answers long questions; None: a process beside this one, which ends with it, or when idle"""
    if aside is None:
        aside = Aside()
        atexit.register(aside.close)
    pages = Pages(host, find, requests, aside)
    return [
        Route("/", pages.home),
        Route(ROOT, pages.programmes),
        Route(f"{ROOT}/{{name}}", pages.programme),
        Route(f"{ROOT}/{{name}}/person", pages.person),
        Route(SIGN_IN, pages.sign_in, methods=["GET", "POST"]),
        Route("/pages/sign-out", pages.sign_out, methods=["POST"]),
        Route("/pages/{asset}", pages.asset),
    ]


class Watched:
    """What the pages keep of one programme."""

    def __init__(self, programme: Any, aside: Any) -> None:
        self.programme, self.aside = programme, aside
        self.journal = programme.open_journal()  # of its own, for reading: the writer's is never waited for
        self.about: About = about(programme.settings)
        self.follower = Follower(self.journal, self._erased)
        self._made: tuple[float, Any] = (0.0, None)  # until when it is good, and what
        self._evidence: tuple[float, int, int, Any] | None = None  # when, people ended, event, answer
        self._asked: tuple[int, Any] | None = None

    def _erased(self) -> None:
        """Somebody was: what names people is not kept."""
        self._made = (0.0, None)
        self.aside.forget()

    def view(self) -> dict[str, Any]:
        """Everything from the figures, made at most every two seconds, and in a twentieth of the time at most."""
        self.follower.look()
        until, view = self._made
        began = time.monotonic()
        if view is not None and began < until and view["number"] > 0:
            return dict(view)
        with self.follower as figures:
            view = {
                "number": figures.number, "tiles": tiles(figures), "summary": summary(figures, self.about),
                "sections": sections(figures, self.about), "people": figures.people,
                "ended": figures.kinds["end"], "last": figures.last_time,
                "alarms": list(figures.alarms),
            }  # fmt: skip
        now = time.monotonic()
        self._made = now + max(FRESH, SHARE * (now - began)), view
        return dict(view)

    def evidence(self, ended: int, number: int) -> tuple[dict[str, Any] | None, bool]:
        """(the newest answer, whether another is being made). Asked for when a tenth more people have ended, or after
        ten minutes."""
        if self._asked is not None and self._asked[1].done():
            then, future = self._asked
            answer = future.result() if future.exception() is None else {"error": "there is no answer"}
            self._evidence = time.monotonic(), then, int(answer.get("number", 0)), answer
            self._asked = None
        old = self._evidence
        late = old is not None and time.monotonic() - old[0] > STALE and number > old[2]
        if self._asked is None and ended and (old is None or ended >= MORE * old[1] + 1 or late):
            journal = self.journal
            question = {
                "ask": "evidence", "url": journal.url, "programme": journal.programme,
                "house": self.about.house.tolist(), "shadow": self.about.shadow,
            }  # fmt: skip
            self._asked = ended, self.aside.ask(f"evidence {journal.programme} {number}", question)
        return (None if old is None else old[3]), self._asked is not None


class Pages:
    """One method a page."""

    def __init__(self, host: Any, find: Find, requests: Any, aside: Any) -> None:
        self.host, self.find, self.requests, self.aside = host, find, requests, aside
        self._watched: dict[str, Watched] = {}
        self._style = b"".join((folder / name).read_bytes() for folder, name in _SHEETS)
        self._templates = Environment(
            loader=FileSystemLoader([PACKAGE, REPORT]), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        self._templates.filters["entry"] = _entry
        self._templates.filters["kind"] = lambda block: type(block).__name__

    # Who may --------------------------------------------------------------------------------------------------------
    def _may(self, request: Request, name: str | None) -> bool | None:
        """Whether they may read this; None: nobody is signed in."""
        token = self.find(entry.sent(request))
        return None if token is None else bool(token.may("read", name))

    def _refused(self, request: Request, may: bool | None) -> Response:
        if may is None:
            return entry.to_sign_in(request)
        return self._message("Not for this token", "This token may not read that. Sign out to use another one.", 403)

    def _render(self, template: str, status: int = 200, **told: Any) -> Response:
        told = {"every": 0, "links": [], "signed": False} | told
        return page(self._templates.get_template(template).render(**told), status)

    def _message(self, title: str, words: str, status: int) -> Response:
        return self._render("message.html.j2", status, title=title, words=words, links=[("Programmes", ROOT)])

    async def sign_in(self, request: Request) -> Response:
        if request.method != "POST":
            to = entry.own_path(request.query_params.get("to", ROOT))
            return self._render("sign_in.html.j2", title="Sign in", wrong="", to=to)
        form = await entry.form_of(request)
        token, to = form.get("token", "").strip(), entry.own_path(form.get("to", ROOT))
        if not token or self.find(token.encode("utf-8", "replace")) is None:
            wrong = "That is no token of this service."
            return self._render("sign_in.html.j2", 403, title="Sign in", wrong=wrong, to=to)
        return entry.signed_in(request, token, to)

    async def sign_out(self, request: Request) -> Response:
        return entry.signed_out()

    async def home(self, request: Request) -> Response:
        return RedirectResponse(ROOT, 303, HEADERS)

    async def asset(self, request: Request) -> Response:
        name, headers = request.path_params["asset"], HEADERS | {"Cache-Control": "max-age=300"}
        if name == "style.css":
            return Response(self._style, media_type="text/css", headers=headers)
        if name not in ASSETS:
            return self._message("Not here", "There is no such page.", 404)
        return Response((PACKAGE / name).read_bytes(), media_type=ASSETS[name], headers=headers)

    # Pages ----------------------------------------------------------------------------------------------------------
    async def programmes(self, request: Request) -> Response:
        if self._may(request, None) is None and self.find(entry.sent(request)) is None:
            return entry.to_sign_in(request)
        shown = []
        for name, programme in sorted(dict(self.host.programmes).items()):
            if self._may(request, name):
                facts, title = programme.facts(), programme.settings.programme.title
                shown.append({
                    "target": f"{ROOT}/{quote(name, safe='')}", "title": title or name, "state": programme.state,
                    "mood": MOODS.get(programme.state, ""), "words": f"{name}, {facts.get('head', 0):,} events",
                })  # fmt: skip
        nothing = "There is no programme that this token may read."
        return self._render(
            "programmes.html.j2", title="Programmes", programmes=shown, nothing=nothing, every=EVERY,
            links=[("Programmes", ROOT)], signed=COOKIE in request.cookies,
        )  # fmt: skip

    def _programme(self, request: Request) -> "Watched | Response":
        name = request.path_params["name"]
        may = self._may(request, name)
        if not may:
            return self._refused(request, may)
        programme = self.host.programmes.get(name)
        if programme is None:
            return self._message("Not here", "There is no programme of this name.", 404)
        watched = self._watched.get(name)
        if watched is None or watched.programme is not programme:
            watched = self._watched[name] = Watched(programme, self.aside)
        return watched

    def _either(self, request: Request, make: Callable[[Watched, Request], Response]) -> Response:
        """The page, or why there is none."""
        try:
            found = self._programme(request)
            return found if isinstance(found, Response) else make(found, request)
        except JournalUnavailable as error:
            return self._message("Not now", f"The journal cannot be read just now: {error}.", 503)
        except JournalDamaged as error:
            return self._message("Damaged", f"The journal cannot be read: {error}.", 503)

    async def programme(self, request: Request) -> Response:
        return await _aside(self._either, request, self._dashboard)

    def _dashboard(self, watched: Watched, request: Request) -> Response:
        programme, told = watched.programme, watched.about
        view, facts, state = watched.view(), programme.facts(), str(programme.state)
        answer, busy = watched.evidence(view["ended"], view["number"])
        alarms = alarms_of(view["alarms"], facts)
        alerts = [sentence for _, what, sentence in alarms if what != "snapshot"][-3:]
        sentences, parts = list(view["summary"]), list(view["sections"])
        if view["people"]:
            gain, said, more = _evidence(answer, busy)
            parts = [*parts[:4], *gain, *parts[4:]]
            sentences += said
            alerts += [text for text in more if text not in alerts]
        chain = watched.journal.chain.hex() if view["number"] else ""
        parts.append(alarm_section(alarms, None if answer is None else answer.get("level")))
        head = max(int(facts.get("head", 0)), view["number"])
        parts.append(service_section(state, facts | {"head": head}, latencies(self.requests), chain))
        lead = f"{told.name}. As of event {view['number']:,}" + (f" of {head:,}" if head > view["number"] else "")
        lead += f", {moment(view['last'])} UTC." if view["last"] else "."
        if watched.follower.error:
            alerts.append(f"The journal cannot be read just now ({watched.follower.error}).")
        links = [("Summary", "#summary"), *((s.title, f"#{s.key}") for s in parts)]
        return self._render(
            "programme.html.j2", title=told.title, state=state, mood=MOODS.get(state, ""), lead=lead, alerts=alerts,
            tiles=view["tiles"], summary=sentences, sections=parts, links=links, every=EVERY,
            signed=COOKIE in request.cookies,
            finder=f"{ROOT}/{quote(told.name, safe='')}/person",
        )  # fmt: skip

    async def person(self, request: Request) -> Response:
        return await _aside(self._either, request, self._person)

    def _person(self, watched: Watched, request: Request) -> Response:
        key, kind = request.query_params.get("key", ""), request.query_params.get("kind", "")
        told, journal = watched.about, watched.journal
        back = f"{ROOT}/{quote(told.name, safe='')}"
        who, came = _found(journal, key, kind)
        if not came:
            words = "Nobody of this key has come, or their data were erased."
            return self._render(
                "person.html.j2", 404, title="Not here", lead=words, facts=[], sections=[], back=back,
                programme=told.title, links=[("Dashboard", back)],
            )  # fmt: skip
        number = request.query_params.get("visit", "")
        at = int(number) if number.isdecimal() and len(number) < 9 and int(number) < len(came) else len(came) - 1
        visit = came[at]
        question = {
            "ask": "person", "url": journal.url, "programme": journal.programme, "who": who,
            "begin": visit.begin.number,
        }  # fmt: skip
        future = self.aside.ask(f"person {journal.programme} {visit.key}", question)
        parts, ready = _explained(visit, future, told)
        if len(came) > 1:
            parts.append(_others(came, at, back, key, kind))
        return self._render(
            "person.html.j2", title=str(who), lead="", facts=person.facts_of(visit, told), sections=parts, back=back,
            programme=told.title, links=[("Dashboard", back), *((s.title, f"#{s.key}") for s in parts)],
            every=EVERY if ready else 2, signed=COOKIE in request.cookies,
        )  # fmt: skip


_SHEETS = ((REPORT, "style.css"), (PACKAGE, "pages.css"))


async def _aside(function: Callable[..., Response], *arguments: Any) -> Response:
    """In a thread: the loop that answers callers goes on meanwhile."""

    def made() -> Response:
        try:
            return function(*arguments)
        except StopIteration as error:  # no future takes it, and the caller would wait for ever
            raise RuntimeError("a page could not be made") from error

    return await asyncio.get_running_loop().run_in_executor(None, made)


def _entry(text: str) -> Markup:
    """A cell of a table: text is escaped, what was made here is not."""
    return escape(text)


def _found(journal: Any, key: str, kind: str) -> tuple[Who, list[person.Visit]]:
    """(key, visits) of somebody named by text: a key that is text, or a number written so."""
    tried: list[Who] = [key] if kind != "number" and 0 < len(key) <= LONGEST else []
    digits = key.removeprefix("-")
    if digits.isdecimal() and digits.isascii() and len(digits) < 20 and -(2**63) <= int(key) < 2**63:
        tried.append(int(key))
    for who in tried:
        came = person.visits(journal.of(who))
        if came:
            return who, came
    return key, []


def _explained(visit: person.Visit, future: Any, told: About) -> tuple[list[Section], bool]:
    """(sections, whether the process beside has answered)."""
    until = time.monotonic() + WAIT
    while not future.done() and time.monotonic() < until:
        time.sleep(0.02)
    path = person.path_section(visit, told)
    if not future.done():
        words = "The plan is being made again from the journal; this page shows it when that is done."
        return [Section("plan", "The plan", [Text(words)]), path], False
    answer = future.result() if future.exception() is None else {"error": "there is no answer"}
    if "error" in answer:
        words = f"The plan cannot be made again from the journal: {answer['error']}."
        return [Section("plan", "The plan", [Text(words, "warning")]), path], True
    plan, why = person.plan_section(visit, answer, told), person.why_section(answer, told)
    return [plan, path, why, person.audit_section(answer)], True


def _others(came: list[person.Visit], at: int, back: str, key: str, kind: str) -> Section:
    """Links to the other times that they came."""
    more = f"&kind={quote(kind, safe='')}" if kind else ""
    rows = []
    for i, one in enumerate(came):
        target = f"{back}/person?key={quote(key, safe='')}{more}&visit={i}"
        text = Markup('<a href="{}">{}</a>').format(target, f"{moment(one.begin.time)}")
        rows.append(Row({"came": text if i != at else f"{moment(one.begin.time)} (shown)", "now": one.fate}))
    return Section("visits", "Other times", [Table("Every time they came", rows, words={"now"})])


def _evidence(answer: dict[str, Any] | None, busy: bool) -> tuple[list[Section], list[str], list[str]]:
    """(sections, sentences of the summary, alarms) of what the process beside found."""
    if answer is None:
        words = "Being computed." if busy else "Nobody has ended yet."
        return [Section("gain", AGAINST, [Text(words)])], [], []
    if "error" in answer:
        words = f"The value against the house rule cannot be told: {answer['error']}."
        return [Section("gain", AGAINST, [Text(words)])], [], []
    made = [rebuilt(section) for section in answer["sections"]]
    if not any(s.key == "gain" for s in made):
        made.insert(0, Section("gain", AGAINST, [Text(answer["sentence"])]))
    as_of = f"As of event {answer['number']:,}, {answer['people']:,} people who ended."
    as_of += " Being computed again." if busy else ""
    for section in made:
        section.blocks.insert(0, Text(as_of, "note"))
        if section.key == "gain":
            section.title = AGAINST
    return made, [answer["sentence"], *answer["today"]] if answer["people"] else [], list(answer["alerts"])
