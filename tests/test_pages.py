"""The pages: who may see them, that hostile text stays text, and what stands on them."""

import asyncio
import html
import json
import re
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import quote

import numpy as np
import pytest
from starlette.applications import Starlette

import noregret as nr
from noregret.journal.event import Entry
from noregret.journal.journal import Journal
from noregret.report.board_evidence import gain_sentence
from noregret.service.pages import answering, charts, entry, routes, routing
from noregret.service.pages.about import about
from noregret.service.pages.aside import Aside
from noregret.service.pages.evidence import UNKNOWN, found_in, log_of
from noregret.service.pages.state import latencies
from noregret.service.programme_file import programme_from
from noregret.service.tokens import EVERYTHING, Tokens
from told import SETTINGS, Answered, P, Programme, host_of, told

NASTY = "<script>alert(1)</script>\"'&<b>"


def app_of(*programmes, find=lambda sent: EVERYTHING, aside=None, requests=None):
    return Starlette(routes=routes(host_of(*programmes), find, requests, aside or Answered({"error": "not asked"})))


def get(app, path, method="GET", body=b"", **headers):
    """(status, headers, text) of one request, by the application's own interface."""
    plain, _, query = path.partition("?")
    sent = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    if body:
        sent.append((b"content-type", b"application/x-www-form-urlencoded"))
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": plain, "raw_path": plain.encode(), "query_string": query.encode(), "root_path": "", "headers": sent,
        "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    told_back = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        told_back.append(message)

    asyncio.run(app(scope, receive, send))
    found = {k.decode(): v.decode() for k, v in told_back[0]["headers"]}
    return told_back[0]["status"], found, b"".join(m.get("body", b"") for m in told_back[1:]).decode()


def figure(text, key):
    return int(re.search(rf'data-figure="{key}">([\d,]+)<', text)[1].replace(",", ""))


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "clinic.db"
    told(path, 30, keys=[NASTY, "a/b?c#d%2F", "..", 7, "ünï \u202e x"]).close()
    return Programme(path)


# Who may ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def tokens(tmp_path):
    return Tokens(tmp_path / "tokens.json")


def test_without_a_token_there_is_the_sign_in_form_and_nothing_else(clinic, tokens):
    app = app_of(clinic, find=tokens.find)
    for path in ("/programmes", "/programmes/clinic", "/programmes/clinic/person?key=7", "/programmes/nobody"):
        status, headers, text = get(app, path)
        assert (status, text) == (303, "")
        assert headers["location"] == f"/pages/sign-in?to={quote(path, safe='')}"
        status, _, _ = get(app, path, cookie=f"{entry.COOKIE}=nr_00000000_{43 * 'A'}")
        assert status == 303
    status, _, text = get(app, "/pages/sign-in?to=%2Fprogrammes%2Fclinic")
    assert status == 200
    assert 'name="to" value="/programmes/clinic"' in text


def test_a_token_of_the_role_read_signs_in_and_others_do_not(clinic, tokens):
    app, secret = app_of(clinic, find=tokens.find), tokens.add("nurse", "read", ["clinic"])
    other, wrong = tokens.add("app", "decide,report"), tokens.add("elsewhere", "read", ["school"])
    status, headers, _ = get(app, "/pages/sign-in", "POST", f"token={secret}&to=%2Fprogrammes%2Fclinic".encode())
    assert (status, headers["location"]) == (303, "/programmes/clinic")
    cookie = headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/programmes"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    behind = get(app, "/pages/sign-in", "POST", f"token={secret}".encode(), x_forwarded_proto="https")[1]
    assert "Secure" in behind["set-cookie"]
    assert get(app, "/programmes/clinic", cookie=cookie.split(";")[0])[0] == 200
    assert get(app, "/programmes/clinic", authorization=f"Bearer {secret}")[0] == 200
    for bad in (other, wrong):
        status, _, text = get(app, "/programmes/clinic", authorization=f"Bearer {bad}")
        assert status == 403
        assert "The clinic" not in text
        assert "The clinic" not in get(app, "/programmes", authorization=f"Bearer {bad}")[2]
    status, _, text = get(app, "/pages/sign-in", "POST", b"token=" + NASTY.encode() + b"&to=/")
    assert status == 403
    assert "That is no token of this service." in text
    status, headers, _ = get(app, "/pages/sign-out", "POST")
    assert status == 303
    assert f'{entry.COOKIE}=""' in headers["set-cookie"]


@pytest.mark.parametrize(
    "to", ["//evil.example", "https://evil.example", "/programmes//evil", "/programmes\\evil", "/v1/programmes",
           "/programmesx", "javascript:alert(1)", "/programmes/a\nSet-Cookie: b=c"],
)  # fmt: skip
def test_nobody_is_sent_elsewhere_after_signing_in(to):
    assert entry.own_path(to) == "/programmes"


def test_a_sign_in_form_of_a_megabyte_is_refused(clinic, tokens):
    secret = tokens.add("nurse", "read")
    body = b"x=" + b"y" * 1_000_000 + b"&token=" + secret.encode()
    assert get(app_of(clinic, find=tokens.find), "/pages/sign-in", "POST", body)[0] == 403


def test_every_page_allows_nothing_from_elsewhere(clinic):
    app = app_of(clinic)
    for path in ("/programmes", "/programmes/clinic", "/programmes/clinic/person?key=7", "/pages/sign-in",
                 "/pages/style.css", "/pages/move.js", "/pages/icon.svg", "/pages/other"):  # fmt: skip
        _, headers, text = get(app, path)
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        if headers["content-type"].startswith("text/html"):
            assert headers["cache-control"] == "no-store"
            assert not re.search(r"<(style|script)[^>]*>[^<]", text), "inline style or script"
            assert not re.search(r"""\s(style|on\w+)=["']""", text), "an attribute that the policy refuses"
            assert not re.search(r"""(src|href|action)=["']?(https?:)?//""", text)
    assert get(app, "/")[1]["location"] == "/programmes"


# What stands there --------------------------------------------------------------------------------------------------
def test_the_dashboard_has_the_journal_s_numbers(clinic):
    _, _, text = get(app_of(clinic), "/programmes/clinic")
    with clinic.open_journal() as journal:
        events = list(journal.events())
    kinds = [e.kind for e in events]
    assert figure(text, "people") == kinds.count("begin") == 30
    assert figure(text, "ended") == kinds.count("end")
    assert figure(text, "open") == 3
    assert figure(text, "decisions") == kinds.count("decide")
    assert f"As of event {len(events):,}" in text
    assert events[-1].chain.hex() in text
    house = sum(e.kind == "decide" and e.payload["by"] == "house" for e in events)
    assert f"the house rule {house:,} (" in text
    assert "the agent did not answer in time" in text


def test_nobody_has_come_yet(tmp_path):
    Journal(str(tmp_path / "empty.db"), "clinic").close()
    status, _, text = get(app_of(Programme(tmp_path / "empty.db")), "/programmes/clinic")
    assert status == 200
    assert "Nobody has come yet." in text
    assert figure(text, "people") == 0


def test_unknown_programmes_people_and_visits(clinic):
    app = app_of(clinic)
    assert get(app, "/programmes/other")[0] == 404
    for query in (
        "",
        "?key=",
        "?key=" + 300 * "k",
        "?key=8",
        "?key=-",
        "?key=" + 30 * "9",
        "?key=%FF%00",
        "?key=7&key=8",
    ):
        assert get(app, f"/programmes/clinic/person{query}")[0] == 404
    status, _, text = get(app, f"/programmes/clinic/person?key={quote('<i>nobody')}")
    assert status == 404
    assert "<i>" not in text
    assert get(app, "/programmes/clinic/person?key=7&visit=99999999999999999999")[0] == 200


@pytest.mark.parametrize("key", [NASTY, "a/b?c#d%2F", "..", "7", "ünï \u202e x"])
def test_every_key_has_its_page_whatever_it_is_made_of(clinic, key):
    status, _, text = get(app_of(clinic), f"/programmes/clinic/person?key={quote(key, safe='')}")
    assert status == 200
    assert f"<h1>{html.escape(key, quote=False)[:3]}" in text
    assert "<script>alert" not in text


def test_hostile_text_stays_text_everywhere(tmp_path):
    """In keys, titles, names of states, actions and features, reasons, alarms, facts and answers of the process."""
    states, actions = [f"{NASTY}{i}" for i in range(2)], [f"{NASTY}{i}" for i in range(3)]
    settings = programme_from({
        "programme": {"name": "nasty", "title": NASTY},
        "problem": {"state_names": states, "action_names": actions, "feature_names": [NASTY, "y"], "horizon": 2,
                    "context_dim": 2, "weight_bound": 1.0, "reward_bound": 1.0},
        "agent": {"name": "certified-psrl"}, "house": {"rule": {s: actions[0] for s in states}},
    })  # fmt: skip
    noon, path = "2026-01-01T12:00:00+00:00", tmp_path / "nasty.db"
    with Journal(str(path), "nasty") as journal:
        journal.write([Entry("made", noon, None, {"agent": NASTY, "live": {"order": NASTY}})])
        for k in range(12):
            who = f"{NASTY}{k}"
            journal.write([
                Entry("begin", noon, who, {"x": {NASTY: f"{NASTY}{k % 2}", "sex": "f"}}, json.dumps({"reason": NASTY})),
                Entry("decide", noon, who, {"step": 0, "state": k % 2, "action": k % 3, "by": "house"},
                      json.dumps({"reason": NASTY, "certificate": 1.0})),
                Entry("decide", noon, who, {"step": 1, "state": NASTY, "action": NASTY, "by": "agent"}, NASTY),
            ])  # fmt: skip
        journal.write([Entry("alarm", noon, None, {"what": NASTY, "sentence": NASTY})])
    programme = Programme(path, settings)
    programme.state, programme.alarms = NASTY, [{"what": NASTY, "sentence": NASTY + "2", "time": NASTY}]
    programme.facts = lambda: {"head": 3, NASTY: NASTY, "house": {NASTY: 1}, "alarms": programme.alarms}
    rows = [{"group": NASTY, "level": NASTY, "what": NASTY}]
    evidence = {
        "number": 1, "people": 30, "sentence": NASTY, "today": [NASTY], "alerts": [NASTY], "level": NASTY,
        "sections": [{"key": "gain", "title": NASTY, "blocks": [
            {"caption": NASTY, "rows": rows, "notes": [NASTY], "words": []}, {"text": NASTY, "kind": "note"}]}],
    }  # fmt: skip
    person = {
        "policy": [[0, 1], [1, 2]], "values": [[1.0, 1.0]] * 3, "lower": None, "upper": None, "start": 1, "folded": 3,
        "steps": [
            {"step": 0, "state": 1, "rows": [{"action": NASTY, "advised": True, "value": 1.0, "deviation": None,
             "lower": 0.0, "upper": 2.0, "best": None}], "effects": [[NASTY, 1.0, 1.0]], "against": 1,
             "advantage": 1.0},
            {"step": 1, "state": 0, "rows": [], "sentence": NASTY},
        ],
        "checks": [{"same": False, "number": 1, "what": NASTY, "recorded": NASTY, "again": NASTY}],
        "reproduced": False, "seconds": 1.0, "guarantee": NASTY,
    }  # fmt: skip
    for answer in (evidence | person, {"error": NASTY}):
        app = app_of(programme, aside=Answered(answer))
        with Journal(str(path), "nasty") as journal:
            if "error" not in answer:
                journal.write([Entry("end", noon, f"{NASTY}0", {"wait": 0})])
        who = quote(f"{NASTY}0", safe="")
        for place in ("/programmes", "/programmes/nasty", "/programmes/nasty", f"/programmes/nasty/person?key={who}"):
            status, _, text = get(app, place)
            assert status == 200
            assert html.escape(NASTY, quote=False)[:20] in text
            body = re.sub(r'<script src="/pages/move.js" defer></script>', "", text)
            assert "<script" not in body
            assert "<b>&lt;" not in body or place.endswith(who)  # plans have actions in bold, escaped
            assert "alert(1)</script" not in body


# The process beside -------------------------------------------------------------------------------------------------
def test_the_page_of_a_person_has_plan_reasons_and_audit(clinic):
    app = app_of(clinic, aside=Answered())
    status, _, text = get(app, f"/programmes/clinic/person?key={quote('person 20')}")
    assert status == 200
    assert text.count('class="a') + text.count("a0 met") >= P.horizon * P.n_states
    assert text.count(" met") == 6
    assert "Reproduced." in text
    assert "(advised)" in text
    assert "Guarantee: if every row" in text
    with clinic.open_journal() as journal:
        begin = next(e for e in journal.of("person 20") if e.kind == "begin")
        question = {"begin": begin.number, "who": "person 20"}
        found = answering.person(journal, question)
    assert found["certificate"] == json.loads(begin.answer)["certificate"]
    assert len(found["checks"]) >= 13  # a certificate, and action and advice of each step
    assert all(c["same"] for c in found["checks"])


def test_a_decision_that_does_not_come_out_again_is_said_to(clinic, tmp_path):
    """The same journal with another action on record for one decision of the agent's, and another certificate."""
    path = tmp_path / "wrong.db"
    with clinic.open_journal() as right, Journal(str(path), "clinic") as wrong:
        own = [e for e in right.of("person 20") if e.kind == "decide" and e.payload["by"] == "agent"]
        for e in right.events():
            payload, answer = e.payload, e.answer
            if e.number == own[-1].number:
                payload = payload | {"action": (payload["action"] + 1) % 3}
            if e.kind == "begin" and e.who == "person 20":
                answer = json.dumps(json.loads(answer) | {"certificate": 0.125})
            wrong.write([Entry(e.kind, e.time, e.who, payload, answer)])
        first = right.snapshots()[-1]
        wrong.keep_snapshot(first.number, right.snapshot(first.number), first.version)
    _, _, text = get(app_of(Programme(path), aside=Answered()), f"/programmes/clinic/person?key={quote('person 20')}")
    assert "Not reproduced." in text
    assert "0.125" in text
    assert "the agent now comes to" in text


@pytest.mark.long
def test_the_evidence_of_a_journal(clinic):
    with clinic.open_journal() as journal:
        found = answering.evidence(journal, {"house": about(SETTINGS).house.tolist()})
        assert found["number"] == journal.head
    assert found["people"] == 27
    assert found["level"] == "green"
    assert [s["key"] for s in found["sections"]] == ["gain", "model"]
    assert found["sentence"] == UNKNOWN
    assert "proved" in found["today"][0]
    assert json.loads(json.dumps(found)) == found
    with clinic.open_journal() as journal:
        beside = answering.evidence(journal, {"house": about(SETTINGS).house.tolist(), "shadow": True})
    assert beside["today"][-1].startswith("Shadow mode: for the last 30 people the agent is not certified")


def test_the_log_of_a_journal_is_the_one_that_a_table_of_it_gives(clinic):
    """The same episodes as `read_log` of a table, and the same gain by them; probabilities are made up here."""
    with clinic.open_journal() as journal:
        agent = answering.restored(journal, journal.head)[0].agent
        events = [
            replace(e, payload=e.payload | {"probability": 0.25 + 0.5 * (e.number % 2)}) if e.kind == "decide" else e
            for e in journal.events()
        ]
    ended = {e.who for e in events if e.kind == "end"}
    x = {e.who: e.payload["x"] for e in events if e.kind == "begin" and e.who in ended}
    rows = {(e.who, e.payload["step"]): e.payload for e in events if e.kind == "decide" and e.who in ended}
    after = {(e.who, e.payload["step"]): e.payload for e in events if e.kind == "outcome" and e.who in ended}
    keys = list(x)
    table = {
        "episode": [keys.index(who) for who, _ in rows], "step": [h for _, h in rows],
        "state": [r["state"] for r in rows.values()], "action": [r["action"] for r in rows.values()],
        "probability": [r["probability"] for r in rows.values()],
        "reward": [after[at]["reward"] for at in rows], "next_state": [after[at]["next_state"] for at in rows],
    } | {name: [x[who][j] for who, _ in rows] for j, name in enumerate(P.feature_names)}  # fmt: skip
    plain = nr.read_log(table, P, arrival="key")
    made, came = log_of(events, agent)
    assert len(made) == len(plain) == 27
    assert came == [x[who] for who in keys]
    for one, other in zip(made, plain, strict=True):
        for name in ("context", "states", "actions", "rewards", "probabilities"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    house = about(SETTINGS).house
    found = found_in(events, agent, house)
    gain = nr.evaluate(np.tile(house, (P.horizon, 1, 1)), plain, against="log")
    assert found["sentence"] == gain_sentence(gain)
    row, shown = gain.rows[0], found["sections"][0]["blocks"][1]["rows"][0]
    assert shown["interval"] == f"{0.0 - row.upper:+.3g} to {0.0 - row.lower:+.3g}"
    assert all(int(row["people"]) >= 5 for row in found["sections"][0]["blocks"][1]["rows"])


@pytest.mark.long
def test_a_process_beside_answers_says_errors_and_starts_again(clinic, tmp_path):
    aside = Aside()
    try:
        asked = {"ask": "person", "url": clinic.path, "programme": "clinic", "who": "person 9", "begin": 9_999_999}
        said = aside.ask("one", asked).result(120.0)
        assert "error" in said
        assert aside.ask("one", asked).result(1.0) is said  # not asked again at once
        aside._process.kill()
        assert "error" in aside.ask("two", asked | {"ask": "nothing"}).result(120.0)
        assert "not here" in aside.ask("three", asked | {"url": str(tmp_path / "not here.db")}).result(120.0)["error"]
    finally:
        aside.close()


def test_latencies_are_read_off_the_histogram():
    lines = [f'noregret_request_seconds_bucket{{verb="decide",le="{le}"}} {n}'
             for le, n in (("0.001", 10), ("0.002", 98), ("0.005", 99), ("+Inf", 100))]  # fmt: skip
    said = latencies(SimpleNamespace(lines=lambda: lines))
    assert said == [("latency of decide", "half within 2 ms, 99% within 5 ms (100 requests)")]
    assert latencies(None) == []


def test_axes_have_a_few_round_numbers_whatever_they_show():
    rng = np.random.default_rng(3)
    for high in [*10.0 ** rng.uniform(-9.0, 9.0, 500), 1.0, 9.0, 9.5, 9.999999, 10.0, 4.5]:
        found = charts._ticks(0.0, float(high))
        assert 2 <= len(found) <= 6
        assert found[0] == 0.0
        assert found[-1] <= high * (1.0 + 1e-9)
    for low, high in rng.normal(size=(200, 2)) * 100.0:
        assert len(charts._ticks(min(low, high), max(low, high))) >= 2


def test_a_page_that_fails_is_answered_all_the_same(clinic, monkeypatch):
    """A StopIteration, which no future takes, must not leave a caller waiting."""

    def empty(*_):
        raise StopIteration

    monkeypatch.setattr(routing, "sections", empty)
    with pytest.raises(RuntimeError, match="a page could not be made"):
        get(app_of(clinic), "/programmes/clinic")
