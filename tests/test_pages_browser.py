"""The pages in a real browser: Chromium, at two widths, light and dark, with nobody, one and many people.

Chromium is Debian's; where it is missing, or Playwright is, these tests say so and are skipped."""

import re
import shutil
import socket
import threading
import time
import urllib.request
from collections import Counter
from urllib.parse import quote

import pytest
import uvicorn
from starlette.applications import Starlette

from noregret.journal.journal import Journal
from noregret.service.pages import routing
from noregret.service.tokens import EVERYTHING, Tokens
from told import Answered, P, Programme, Teller, crowd, host_of, settings, told

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: pages are not looked at in a browser"),
]
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
NASTY = "<img src=x onerror=alert(1)><script>alert(2)</script>"
SIZES = [(375, "light"), (375, "dark"), (1280, "light"), (1280, "dark")]
PEOPLE = {"nobody": 0, "one": 1, "some": 30, "many": 2_000}


def named(path, name):
    made = Programme(path, settings(name, f"{NASTY} {name}"))
    made.open_journal = lambda: Journal(str(path), "clinic")
    with made.open_journal() as journal:
        made.kinds = Counter(e.kind for e in journal.events())
    return made


class Served:
    """A server on loopback, in a thread."""

    def __init__(self, routes):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(Starlette(routes=routes), port=self.port, log_level="error", lifespan="off")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def stop(self):
        self.server.should_exit = True
        self.thread.join(10.0)


@pytest.fixture(scope="module")
def programmes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    Journal(str(folder / "nobody.db"), "clinic").close()
    told(folder / "one.db", 1, open_people=1, keys=[NASTY]).close()
    told(folder / "some.db", 30, keys=[NASTY, "x" * 200]).close()
    crowd(folder / "many.db", PEOPLE["many"])
    return {name: named(folder / f"{name}.db", name) for name in PEOPLE}


@pytest.fixture(scope="module")
def site(programmes):
    made = Served(routing.routes(host_of(*programmes.values()), lambda sent: EVERYTHING, None, Answered()))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield made
        made.close()


class Watched:
    """A page that notes everything it should not do."""

    def __init__(self, browser, site, width=1280, scheme="light", script=True):
        self.site, self.width, self.wrong = site, width, []
        self.context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, java_script_enabled=script
        )
        self.page = self.context.new_page()
        self.page.on("console", lambda said: self.wrong.append(f"console: {said.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.wrong.append("a dialog"), dialog.dismiss()))
        self.page.on("request", self._asked)

    def _asked(self, request):
        if not request.url.startswith(f"{self.site.url}/"):
            self.wrong.append(f"asked for {request.url}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def go(self, path):
        answer = self.page.goto(f"{self.site.url}{path}")
        wide = self.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= self.width, f"{path} is {wide} wide"
        return answer.status

    def figure(self, key):
        return int(self.page.inner_text(f'[data-figure="{key}"]').replace(",", ""))


@pytest.mark.slow
def test_ten_thousand_people(browser, tmp_path):
    """All sizes, numbers and time: once the 40,000 events are counted, the dashboard is there in half a second."""
    crowd(tmp_path / "crowd.db", 10_000)
    site = Served(routing.routes(host_of(Programme(tmp_path / "crowd.db")), lambda sent: EVERYTHING, None, Answered()))
    for width, scheme in SIZES:
        with Watched(browser, site, width, scheme) as seen:
            for _ in range(100):
                seen.go("/programmes/clinic")
                if "As of event 40,001," in seen.page.inner_text("header"):
                    break
                time.sleep(0.2)
            assert (seen.figure("people"), seen.figure("decisions"), seen.figure("ended")) == (10_000, 10_000, 10_000)
            began = time.perf_counter()
            with urllib.request.urlopen(f"{site.url}/programmes/clinic") as answer:
                answer.read()
            assert time.perf_counter() - began < 0.5
            assert seen.wrong == []
    site.stop()


@pytest.mark.study(first=1)
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_every_page_fits_asks_nobody_else_and_has_the_journal_s_numbers(browser, site, programmes, width, scheme):
    with Watched(browser, site, width, scheme) as seen:
        assert seen.go("/programmes") == 200
        assert seen.page.locator(".cards li").count() == len(PEOPLE)
        dark = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (dark == "rgb(255, 255, 255)") == (scheme == "light")
        for name, people in PEOPLE.items():
            assert seen.go(f"/programmes/{name}") == 200
            kinds = programmes[name].kinds
            for _ in range(50):  # events are read in slices
                if f"As of event {kinds.total():,}," in seen.page.inner_text("header") or not kinds:
                    break
                time.sleep(0.2)
                seen.go(f"/programmes/{name}")
            assert seen.figure("people") == kinds["begin"] == people
            assert (seen.figure("decisions"), seen.figure("ended")) == (kinds["decide"], kinds["end"])
        assert seen.go(f"/programmes/some/person?key={quote(NASTY)}") == 200
        assert seen.page.inner_text("h1") == NASTY
        assert seen.page.locator("table.plan td").count() == P.n_states * P.horizon
        assert seen.page.locator("table.plan td.met").count() == P.horizon
        assert "Reproduced." in seen.page.inner_text("#audit")
        assert seen.go(f"/programmes/some/person?key={'x' * 200}") == 200
        assert seen.go("/programmes/some/person?key=nobody") == 404
        assert seen.go("/pages/sign-in") == 200
        assert [w for w in seen.wrong if "404" not in w] == []


def test_the_dashboard_moves_and_keeps_its_place(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(routing, "EVERY", 1)
    monkeypatch.setattr(routing, "FRESH", 0.0)
    path = tmp_path / "moving.db"
    with Journal(str(path), "clinic") as journal:
        teller = Teller(journal)
        teller.visit(0, "first", 1)
        teller.flush()
        site = Served(
            routing.routes(host_of(Programme(path)), lambda sent: EVERYTHING, None, Answered({"error": "no"}))
        )
        with Watched(browser, site, 375) as seen:
            seen.go("/programmes/clinic")
            assert seen.figure("people") == 1
            seen.page.evaluate("scrollTo(0, 300)")
            teller.visit(1, NASTY, 2)
            teller.flush()
            seen.page.locator('[data-figure="people"]', has_text="2").wait_for()
            assert seen.figure("decisions") == 3
            assert seen.page.evaluate("scrollY") == 300
            site.stop()  # the service goes away: the page stays as it was
            seen.page.wait_for_timeout(1500)
            assert seen.figure("people") == 2
            assert [w for w in seen.wrong if "Failed to load resource" not in w] == []


def test_everything_is_there_without_javascript(browser, site):
    with Watched(browser, site, script=False) as seen:
        seen.page.goto(f"{site.url}/programmes/some")
        assert seen.figure("people") == 30
        assert re.search(r'<noscript><meta http-equiv="refresh" content="\d+"', seen.page.content())
        seen.page.fill("#key", "person 20")
        seen.page.click("text=Show")
        assert seen.page.inner_text("h1") == "person 20"
        seen.page.click("text=some")
        assert seen.page.url.endswith("/programmes/some")
        assert seen.wrong == []


@pytest.mark.long
def test_signing_in_with_a_form(browser, programmes, tmp_path):
    tokens = Tokens(tmp_path / "tokens.json")
    secret = tokens.add("nurse", "read", ["some"])
    site = Served(routing.routes(host_of(*programmes.values()), tokens.find, None, Answered({"error": "no"})))
    with Watched(browser, site, 375, "dark") as seen:
        seen.go("/programmes/some")
        assert "sign-in" in seen.page.url
        seen.page.fill("#token", "nr_wrong")
        seen.page.click("text=Sign in >> nth=-1")
        assert "no token" in seen.page.inner_text(".warning")
        seen.page.fill("#token", secret)
        seen.page.click("button")
        assert seen.page.url == f"{site.url}/programmes/some"
        assert seen.figure("people") == 30
        assert secret not in seen.page.content()
        assert secret not in seen.page.evaluate("document.cookie")
        seen.go("/programmes")
        assert seen.page.locator(".cards li").count() == 1
        assert seen.go("/programmes/many") == 403
        seen.go("/programmes")
        seen.page.click("text=Sign out")
        seen.go("/programmes/some")
        assert "sign-in" in seen.page.url
        assert [w for w in seen.wrong if "403" not in w] == []
    site.stop()


@pytest.mark.long
def test_printed_pages_have_no_forms_and_keep_their_tables(browser, site):
    with Watched(browser, site) as seen:
        seen.go("/programmes/some")
        seen.page.emulate_media(media="print", color_scheme="dark")
        assert not seen.page.is_visible("nav")
        assert not seen.page.is_visible(".find")
        assert seen.page.is_visible("#decisions table")
        assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert len(seen.page.pdf()) > 10_000
