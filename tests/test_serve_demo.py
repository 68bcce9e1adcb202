"""`noregret serve-demo`, as somebody who tries it would see it."""

import signal
import subprocess
import sys

import pytest

import noregret as nr

pytest.importorskip("msgspec", reason="the extra `serve` is not installed: the demo is not tested")
pytestmark = pytest.mark.deep


@pytest.mark.long
def test_the_demo_decides_and_stops_cleanly(tmp_path):
    """It says where the dashboard is and what was decided first; after Ctrl-C nobody is left open, and the journal is
    folded again to the same."""
    words = [sys.executable, "-m", "noregret", "serve-demo", "--port", "0", "--folder", str(tmp_path), "--rate", "100"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as run:
        said = []
        for line in run.stdout:
            said.append(line)
            if "first decision" in line:
                run.send_signal(signal.SIGINT)
        assert run.wait(120) == 0, said
    assert any("dashboard  http://127.0.0.1:" in line and "/programmes/clinic" in line for line in said)
    assert said[-1].startswith("stopped")
    with nr.Journal(tmp_path / "journal.db", "clinic", create=False) as journal:
        kinds = [event.kind for event in journal.events()]
        assert kinds.count("begin") == kinds.count("end") + kinds.count("withdraw") > 0
        assert journal.lock(), "the server is still there"
        if journal.snapshots():  # the agent may not have been ready yet
            assert nr.replay(journal).ok
