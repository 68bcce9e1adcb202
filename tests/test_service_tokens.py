"""Tokens: only hashes are kept, roles are kept apart, a file that others may read is refused."""

import hashlib
import json
import os
import stat

import pytest

from noregret.cli import app as command
from noregret.service.tokens import ROLES, Tokens, checked_roles


@pytest.fixture
def file(tmp_path):
    return tmp_path / "tokens.json"


def test_the_file_has_hashes_and_no_token(file):
    tokens = Tokens(file)
    secret = tokens.add("app", "decide,report")
    text = file.read_text()
    assert secret not in text
    assert secret.rsplit("_", 1)[1] not in text
    (record,) = json.loads(text)["tokens"]
    assert record["hash"] == hashlib.sha256(secret.encode()).hexdigest()
    assert record["roles"] == ["decide", "report"]
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600


def test_a_token_is_found_and_nothing_that_resembles_it_is(file):
    tokens = Tokens(file)
    secret = tokens.add("app", "decide").encode()
    other = tokens.add("nurse", "read").encode()
    assert tokens.find(secret).name == "app"
    assert tokens.find(other).name == "nurse"
    for i in range(len(secret)):  # one character changed, anywhere
        changed = secret[:i] + (b"A" if secret[i : i + 1] != b"A" else b"B") + secret[i + 1 :]
        assert tokens.find(changed) is None
    mixed = other[:11] + secret[11:]  # the id of one with the secret of the other
    for wrong in (
        b"",
        b"nr_",
        secret[:-1],
        secret + b"A",
        b" " + secret,
        secret.upper(),
        mixed,
        b"\xff" * 60,
        b"x" * 10**6,
    ):
        assert tokens.find(wrong) is None
    assert Tokens(file).find(secret).name == "app"  # from the file


def test_every_token_is_another(file):
    tokens = Tokens(file)
    assert len({tokens.add("app", "read") for _ in range(20)}) == 20
    assert len(tokens) == 20


def test_a_token_may_do_what_its_roles_say_where_it_says(file):
    tokens = Tokens(file)
    everywhere = tokens.find(tokens.add("a", "decide").encode())
    here = tokens.find(tokens.add("b", ["admin", "read"], ["clinic"]).encode())
    assert [role for role in ROLES if everywhere.may(role, "any")] == ["decide"]
    assert here.may("read", "clinic")
    assert here.may("read", None)  # what is about no programme in particular
    assert not here.may("read", "school")
    assert not here.may("decide", "clinic")


def test_a_token_that_is_taken_away_is_nobodys_without_a_restart(file):
    serving, elsewhere = Tokens(file), Tokens(file)
    secret = elsewhere.add("app", "decide").encode()
    assert serving.find(secret) is None
    assert serving.refresh()
    assert serving.find(secret) is not None
    assert not serving.refresh()  # nothing changed
    assert elsewhere.remove("app") == 1
    serving.refresh()
    assert serving.find(secret) is None
    file.unlink()
    serving.refresh()
    assert len(serving) == 0


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused(file, mode):
    Tokens(file).add("app", "read")
    file.chmod(mode)
    with pytest.raises(ValueError, match=r"tokens: .* may be read by others .* chmod 600"):
        Tokens(file)


RECORD = '{"tokens": [{"name": "a", "id": "1", "hash": "%s", "roles": ["%s"]}]}'


@pytest.mark.parametrize(
    "text",
    ["[]", "{", '{"tokens": 3}', '{"tokens": [{}]}', RECORD % ("00", "read"), RECORD % (64 * "z", "read"),
     RECORD % (64 * "0", "king")],
)  # fmt: skip
def test_a_file_of_something_else_is_refused_in_a_sentence(file, text):
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(ValueError, match="is not a file of tokens"):
        Tokens(file)


@pytest.mark.parametrize("roles", ["king", "decide,king", "", [], "Decide"])
def test_roles_that_are_none(roles):
    with pytest.raises(ValueError, match="role must be"):
        checked_roles(roles)


@pytest.mark.parametrize("name", ["", "the app", "a" * 81, "-a", 3])
def test_names_that_are_none(file, name):
    with pytest.raises(ValueError, match="name must be letters"):
        Tokens(file).add(name, "read")


def told(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        command(list(arguments))
    return ended.value.code, capsys.readouterr()


def test_the_command_says_a_token_once_and_takes_it_away(file, capsys):
    code, said = told(capsys, "token", "app", "--role", "decide,report", "--programme", "clinic", "--tokens", str(file))
    assert code == 0
    found = Tokens(file).find(said.out.strip().encode())
    assert (found.name, found.roles, found.programmes) == ("app", ("decide", "report"), ("clinic",))
    assert told(capsys, "token", "app", "--revoke", "--tokens", str(file))[0] == 0
    assert len(Tokens(file)) == 0
    for arguments in (("app",), ("app", "--revoke"), ("app", "--role", "king")):
        code, said = told(capsys, "token", *arguments, "--tokens", str(file))
        assert code == 2
        assert said.err.startswith("noregret: ")
        assert said.err.count("\n") == 1
