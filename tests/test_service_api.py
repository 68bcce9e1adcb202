"""A real service in a process of its own: whole visits, stops and restarts, and schemathesis over everything it says of
itself."""

import concurrent.futures
import contextlib
import io
import json
import signal
import socket
import threading
import time
import uuid
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, checks
from schemathesis.core.parameters import ParameterLocation

import noregret as nr
import serving as lab
from noregret.cli import app as command
from noregret.service.client import Refused
from noregret.service.pages.entry import COOKIE
from noregret.service.tokens import Tokens
from serving import ask

pytestmark = pytest.mark.deep
FILE = Path(__file__).with_name("programme_clinic.toml")
BANDIT = """
[programme]
name = "food"
[problem]
n_states = 1
action_names = ["pasta", "ice cream", "juice", "salad"]
horizon = 1
weight_bound = 1.0
reward_bound = 2.0
[encoder]
categories = { taste_preference = ["salty", "sweet"], time_of_day = ["morning", "night"] }
other = ["time_of_day"]
[agent]
name = "certified-psrl"
[house]
rule = { "0" = "salad" }
[learning]
order = "end"
"""


class Running:
    """A service's address, process, folder and tokens."""

    def __init__(self, folder):
        self.folder, self.file = folder, folder / "tokens.json"
        self.journal = f"sqlite:///{folder}/journal.sqlite"
        tokens = Tokens(self.file)
        self.all = tokens.add("all", "decide,report,read,admin")
        self.reader = tokens.add("reader", "read")

    @contextlib.contextmanager
    def started(self, *files):
        more = [part for file in files for part in ("--programme", str(file))]
        told = ("-m", "noregret", "serve", *more, "--journal", self.journal, "--port", "0", "--tokens", str(self.file))
        with open(self.folder / "log", "ab") as log, lab.process(*told, stderr=log) as (port, run):
            self.port, self.run = port, run
            yield self

    def ready(self, seconds=120):
        until = time.monotonic() + seconds
        while ask(self.port, "GET", "/ready")[0] != 200:
            assert time.monotonic() < until, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.1)
        return self

    def stop(self):
        self.run.send_signal(signal.SIGTERM)
        return self.run.wait(60)

    def ask(self, method, path, body=None, key=None, **more):
        return ask(self.port, method, path, body, self.all, key, **more)

    def client(self, **more):
        return nr.Client(f"http://127.0.0.1:{self.port}", "clinic", self.all, **more)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Running(tmp_path_factory.mktemp("service")).started(FILE) as running:
        yield running.ready()


def visit(client, who, steps=6, x=None):
    """Somebody's whole visit; its answers."""
    told = [client.begin(who, x or {"age": 0.5, "marker": 1.0})]
    state = "moderate"
    for step in range(steps):
        told.append(client.decide(who, state, step=step))
        state = {"moderate": "mild", "mild": "moderate", "severe": "moderate"}[state]
        told.append(client.outcome(who, state, reward=0.5, step=step))
    return [*told, client.end(who)]


# Visits ---------------------------------------------------------------------------------------------------------------
def test_a_visit(service):
    begun, decided, noted, *_, ended = visit(service.client(), "Ms B")
    assert set(begun["plan"]) == {"moderate"}
    assert decided["action"] in ("wait", "drug A", "drug B")
    assert decided["by"] in ("agent", "house")
    assert decided["step"] == noted["step"] == 0
    assert ended["number"] > decided["number"]
    status, person, _ = service.ask("GET", "/v1/programmes/clinic/people/Ms%20B")
    assert status == 200
    assert [event["kind"] for event in person["events"]] == ["begin", *["decide", "outcome"] * 6, "end"]
    assert person["events"][0]["payload"]["x"] == {"age": 0.5, "marker": 1.0}


def test_the_shadow_report_and_the_alarms(service):
    visit(service.client(), "Mr S", 1)
    status, answer, _ = service.ask("GET", "/v1/programmes/clinic/shadow", timeout=300)
    assert status == 200
    assert answer["shadow"]["people"] >= 1
    assert answer["shadow"]["lower"] <= answer["shadow"]["upper"]
    assert service.ask("GET", "/v1/programmes/clinic/alarms")[1] == {"alarms": []}


@pytest.mark.long
def test_a_decision_is_audited(service):
    visit(service.client(), "Mr A/1", 2)
    path = "/v1/programmes/clinic/people/Mr%20A%2F1/audit"
    until = time.monotonic() + 300  # the process beside gives way to everybody, and may have to compile
    while (got := service.ask("GET", f"{path}/1"))[0] == 503:
        assert time.monotonic() < until
    status, answer, _ = got
    assert (status, answer["who"], answer["step"]) == (200, "Mr A/1", 1), answer
    assert answer["audit"]["reproduced"] is True
    for step, wrong in (("2", 404), ("x", 422), ("-1", 422), ("9" * 30, 422)):
        assert service.ask("GET", f"{path}/{step}")[0] == wrong


@pytest.mark.parametrize(
    ("verb", "body", "status", "sentence"),
    [
        ("decide", {"state": "well"}, 422, "state"), ("decide", {"state": "mild"}, 422, "state"),
        ("decide", {"state": "moderate", "action": "drug C"}, 422, "action"),
        ("outcome", {"next_state": "mild"}, 409, "decided"),
        ("reward", {"step": 0, "reward": 0.5}, 409, "outcome"), ("begin", {"x": {"age": 1, "marker": 0}}, 409, "open"),
        ("close", {}, 409, "open"), ("decide", {"state": "moderate", "step": 4}, 409, "step 0"),
    ],
)  # fmt: skip
def test_verbs_at_the_wrong_time_are_refused_in_a_sentence(service, verb, body, status, sentence):
    if service.ask("GET", "/v1/programmes/clinic/people/late")[0] == 404:
        service.client().begin("late", {"age": None, "marker": 0.0})
    got, answer, _ = service.ask("POST", f"/v1/programmes/clinic/people/late/{verb}", body, uuid.uuid4().hex)
    assert (got, sentence in answer["error"]) == (status, True), answer


def test_somebody_unknown_and_contexts_that_cannot_be(service):
    client = service.client()
    with pytest.raises(Refused) as error:
        client.decide("nobody", "moderate")
    assert error.value.status == 404
    for x in ({"age": 0.5}, {"age": "old", "marker": 1.0}, [1.0], []):
        with pytest.raises(Refused) as error:
            client.begin("odd", x)
        assert error.value.status == 422
    assert service.ask("GET", "/v1/programmes/clinic/people/odd")[0] == 404  # nothing was written


def test_paused_the_house_rule_decides(service):
    client = service.client()
    paused = service.ask("POST", "/v1/programmes/clinic/pause", None, "p1")
    assert (paused[0], service.ask("GET", "/v1/programmes/clinic")[1]["state"]) == (200, "paused")
    client.begin("paused", {"age": 0.0, "marker": 0.0})
    made = client.decide("paused", "moderate")
    assert (made["by"], made["reason"], made["action"], made["probability"]) == ("house", "paused", "drug A", 1.0)
    assert ask(service.port, "GET", "/ready")[0] == 200
    assert service.ask("POST", "/v1/programmes/clinic/resume", None, "p2")[0] == 200
    assert (
        service.ask("POST", "/v1/programmes/clinic/pause", None, "p1")[:2] == paused[:2]
    )  # said again, not done again
    assert service.ask("GET", "/v1/programmes/clinic")[1]["state"] == "ready"
    assert service.ask("GET", "/v1/programmes/clinic")[1]["facts"]["house"]["paused"] >= 1


def test_somebody_is_erased_and_the_export_has_the_others(service):
    client = service.client()
    visit(client, "erase me", 1)
    visit(client, "keep me", 1)
    until = time.monotonic() + 30
    while (got := service.ask("POST", "/v1/programmes/clinic/erase", {"who": "erase me"}, f"e{time.time()}"))[0] == 503:
        assert time.monotonic() < until, got
        time.sleep(0.2)
    assert (got[0], got[1]["erased"]) == (200, 4), got
    assert service.ask("GET", "/v1/programmes/clinic/people/erase%20me")[0] == 404
    status, data, _ = service.ask("GET", "/v1/programmes/clinic/export")
    assert status == 200
    assert b"erase me" not in data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = [name for name in archive.namelist() if name.endswith(".parquet")]
        tables = {Path(name).stem: pq.read_table(io.BytesIO(archive.read(name))) for name in files}
    assert {"decisions", "outcomes", "people", "events"} <= set(tables)
    assert any("keep me" in str(who) for who in tables["decisions"]["who"].to_pylist())
    with nr.Journal(service.journal, "clinic", create=False) as journal:
        assert journal.verify()


def test_a_programme_is_made_over_http_and_ranks(service):
    toml = {"content-type": "application/toml"}
    status, answer, _ = service.ask("POST", "/v1/programmes", BANDIT.encode(), headers=toml)
    assert (status, answer["name"]) == (201, "food")
    assert service.ask("POST", "/v1/programmes", BANDIT.encode(), headers=toml)[0] == 201  # the same again
    other = BANDIT.replace("2.0", "3.0").encode()
    assert service.ask("POST", "/v1/programmes", other, headers=toml)[0] == 409
    actions = [{"id": name, "features": [{"n": 1}]} for name in ("pasta", "ice cream", "juice", "salad")]
    context = [{"user": {"taste_preference": "sweet"}}, {"time_of_day": "noon"}]
    path = "/v1/programmes/food/personalizer/v1.0"
    until = time.monotonic() + 60
    while True:
        told = {"actions": actions, "contextFeatures": context, "excludedActions": ["juice"], "eventId": "e/1"}
        status, answer, _ = service.ask("POST", f"{path}/rank", told)
        if status != 503:
            break
        assert time.monotonic() < until
        time.sleep(0.1)
    assert status == 201, answer
    assert answer["rewardActionId"] == answer["ranking"][0]["id"] != "juice"
    assert {one["id"]: one["probability"] for one in answer["ranking"]}["juice"] == 0.0
    assert service.ask("POST", f"{path}/events/e%2F1/reward", {"value": 1.0})[0] == 204
    assert service.ask("POST", f"{path}/events/e%2F1/reward", {"value": 1.0})[0] == 204
    assert service.ask("POST", f"{path}/events/e%2F1/reward", {"value": 0.0})[0] == 409
    assert service.ask("POST", f"{path}/events/never/reward", {"value": 0.0})[0] == 404
    assert service.ask("POST", "/v1/programmes/clinic/rank", {"actions": actions})[0] == 409  # six steps


@pytest.mark.skipif(not find_spec("azure"), reason="azure-cognitiveservices-personalizer is not installed")
def test_the_client_of_personalizer(service):
    from azure.cognitiveservices.personalizer import PersonalizerClient, models
    from msrest.authentication import CognitiveServicesCredentials

    service.ask("POST", "/v1/programmes", BANDIT.encode(), headers={"content-type": "application/toml"})
    endpoint = f"http://127.0.0.1:{service.port}/v1/programmes/food"
    client = PersonalizerClient(endpoint, CognitiveServicesCredentials(service.all))
    actions = [models.RankableAction(id=name, features=[{"n": 1}]) for name in ("pasta", "salad")]
    told = models.RankRequest(actions=actions, context_features=[{"taste_preference": "sweet", "time_of_day": "night"}])
    answer = client.rank(told)
    assert answer.reward_action_id in ("pasta", "salad")
    client.events.activate(answer.event_id)
    client.events.reward(answer.event_id, 1.0)


def test_pages_are_for_those_who_may_read(service):
    status, _, headers = ask(service.port, "GET", "/programmes/clinic")
    assert (status, headers["location"].split("?")[0]) == (303, "/pages/sign-in")
    assert ask(service.port, "GET", "/programmes/clinic", headers={"cookie": f"{COOKIE}={service.reader}"})[0] == 200
    decide = Tokens(service.file).add("decider", "decide")
    time.sleep(0.3)
    assert ask(service.port, "GET", "/programmes/clinic", headers={"cookie": f"{COOKIE}={decide}"})[0] != 200


# Stops ----------------------------------------------------------------------------------------------------------------
@pytest.mark.long
def test_told_to_stop_it_answers_what_is_in_flight_and_the_next_goes_on(tmp_path):
    """Callers ask without a pause while SIGTERM comes: the process ends with 0, whatever was acknowledged is in the
    journal, and after the restart the same key gets the same answer."""
    running = Running(tmp_path)
    acknowledged, refused = [], threading.Event()

    def caller(client, name):
        for i in range(10_000):
            try:
                who = f"{name}-{i}"
                acknowledged.append((who, client.begin(who, {"age": 0.0, "marker": 1.0}, key=who)))
            except (ConnectionError, Refused):
                refused.set()
                return

    with running.started(FILE), concurrent.futures.ThreadPoolExecutor(4) as pool:
        running.ready()
        asked = [pool.submit(caller, running.client(patience=0.0), f"caller{n}") for n in range(4)]
        time.sleep(1.5)
        assert running.stop() == 0
        for future in asked:
            future.result(30)
    assert refused.is_set()
    assert len(acknowledged) > 20
    with nr.Journal(running.journal, "clinic", create=False) as journal:
        written = {event.number: event.who for event in journal.events(kinds=["begin"])}
        kept = journal.snapshots()[0].number  # the last one was taken at the end
        assert journal.head - kept <= 2
        assert journal.verify()
    for who, answer in acknowledged:
        assert written[answer["number"]] == who
    with running.started(FILE):
        client = running.client()
        for who, answer in acknowledged[:: max(1, len(acknowledged) // 20)]:
            assert client.begin(who, {"age": 0.0, "marker": 1.0}, key=who) == answer
        assert running.stop() == 0
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]  # every one of them is JSON
    assert [line["event"] for line in lines if "event" in line].count("stopped") == 2
    assert not any("caller1-0" in str(line) for line in lines)


@pytest.mark.long
def test_what_cannot_be_served_is_one_sentence(tmp_path, capsys):
    bad = tmp_path / "bad.toml"
    bad.write_text(FILE.read_text().replace("horizon = 6", "horizon = 0"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for arguments, sentence in (
            (("--tokens", str(tmp_path / "none.json")), "has none, say noregret token"),
            (("--demo", "--host", "0.0.0.0"), "demo is for this machine alone"),
            (("--demo", "--port", port), "cannot be had"),
            (("--demo", "--programme", str(bad)), "horizon"),
        ):
            with pytest.raises(SystemExit) as ended:
                command(["serve", *arguments, "--journal", f"sqlite:///{tmp_path}/j.sqlite"])
            said = capsys.readouterr()
            assert (ended.value.code, said.out) == (2, "")
            assert said.err.startswith("noregret: ")
            assert sentence in said.err


# schemathesis ---------------------------------------------------------------------------------------------------------
def rejected(context, response, case):
    """What the schema forbids is refused; 413 and 431, which schemathesis does not expect, are refusals, too."""
    return None if response.status_code in (413, 431) else checks.negative_data_rejection(context, response, case)


CHECKS = [
    checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
    checks.response_headers_conformance, checks.response_schema_conformance, rejected,
    checks.missing_required_header, checks.unsupported_method, checks.allow_header_conformance,
]  # fmt: skip
NAMES = st.sampled_from(["clinic"] * 6 + ["food", "nowhere"])
PEOPLE = st.sampled_from([f"person {n}" for n in range(6)])


def examined(service, examples, mode):
    """Every operation with so many requests that its schema allows, or forbids; how many there were.

    Tokens are left out of the description, so that a wrong one is not taken for a request that it forbids."""
    told = ask(service.port, "GET", "/openapi.json")[1]
    del told["components"]["securitySchemes"]
    for path in told["paths"].values():
        for operation in path.values():
            operation.pop("security", None)
    schema = schemathesis.openapi.from_dict(told)
    schema.config.update(base_url=f"http://127.0.0.1:{service.port}")
    done, session = 0, requests.Session()
    token = {"authorization": f"Bearer {service.all}"}
    for result in schema.get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=examples, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=operation.as_strategy(generation_mode=mode), name=NAMES, who=PEOPLE, own=st.integers(0, 3))
        def check(case, name, who, own):
            nonlocal done
            path = case.meta.components.get(ParameterLocation.PATH)
            if case.path_parameters and own and path.mode is GenerationMode.POSITIVE:
                known = {"name": name, "who": who, "event": who}  # one in four asks for what is not there
                case.path_parameters |= {key: known[key] for key in known.keys() & case.path_parameters}
            case.call_and_validate(headers=token, checks=CHECKS, session=session, timeout=30)
            done += 1

        try:
            check()
        except Unsatisfiable:
            assert mode is GenerationMode.NEGATIVE, operation.label  # it takes nothing that could be wrong
        except BaseException as error:
            error.add_note(f"operation {operation.label}")
            raise
    return done


@pytest.mark.long
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_schemathesis_finds_no_server_error_and_no_violation(service, mode):
    assert examined(service, 2, mode) > 40


@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_schemathesis_at_length(service, mode):
    done = examined(service, 300, mode)
    print(f"{done} requests")
    assert done > 4000
    with nr.Journal(service.journal, "clinic", create=False) as journal:
        assert journal.verify()
