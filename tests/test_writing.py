"""How files are written: whole, private until done, nothing left behind."""

import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

from noregret.storage.atomic import write_whole

LEAVES = """
import os, signal, sys
from noregret.storage.atomic import write_whole

def fill(file):
    file.write(b"people's data")
    file.flush()
    if sys.argv[2] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    print("writing", flush=True)
    sys.stdin.readline()

write_whole(sys.argv[1], fill)
"""


def process(path, what):
    return subprocess.Popen(
        [sys.executable, "-c", LEAVES, str(path), what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def parts(folder):
    return sorted(p.name for p in folder.iterdir() if p.name.endswith(".part"))


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.long
def test_what_a_killed_writer_left_is_removed_by_the_next_and_what_is_being_written_is_not(tmp_path):
    path = tmp_path / "a.npz"
    assert process(path, "die").wait() == -signal.SIGKILL
    (dead,) = parts(tmp_path)
    assert mode(tmp_path / dead) == 0o600
    busy = process(path, "wait")
    assert busy.stdout.readline() == "writing\n"  # it has removed the first
    (alive,) = parts(tmp_path)
    assert alive != dead
    assert mode(tmp_path / alive) == 0o600
    other = tmp_path / ".b.npz.01234567.part"  # another file's
    other.write_bytes(b"")
    write_whole(path, lambda file: file.write(b"mine"))
    assert parts(tmp_path) == sorted([alive, other.name])
    assert path.read_bytes() == b"mine"
    busy.communicate("\n")
    assert busy.returncode == 0
    assert path.read_bytes() == b"people's data"
    assert parts(tmp_path) == [other.name]


def test_a_file_is_private_until_it_has_its_name(tmp_path):
    seen, path = [], tmp_path / "a"
    mask = os.umask(0o027)
    try:
        write_whole(path, lambda file: seen.append(mode(tmp_path / parts(tmp_path)[0])))
        assert seen == [0o600]
        assert mode(path) == 0o640
        path.chmod(0o600)  # its owner's wish
        write_whole(path, lambda file: file.write(b"again"))
        assert mode(path) == 0o600
    finally:
        os.umask(mask)


def test_no_moment_has_another_umask(tmp_path):
    """The umask is the process's: a thread that writes must not change it under another one."""
    asked = []
    real = os.umask
    os.umask = lambda value: asked.append(value) or real(value)
    try:
        threads = [threading.Thread(target=write_whole, args=(tmp_path / str(i), lambda f: None)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        os.umask = real
    assert asked == []
    assert len({mode(p) for p in tmp_path.iterdir()}) == 1


def test_the_folder_is_flushed_after_the_rename(tmp_path, monkeypatch):
    done = []
    real, move = os.fsync, os.replace

    def note(handle):
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        real(handle)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("rename"), move(a, b)))
    write_whole(tmp_path / "a", lambda file: file.write(b"x"))
    assert done == ["file", "rename", "folder"]


def test_a_folder_in_the_place_of_a_file_is_a_sentence(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match=r"path must be that of a file, .*a is a folder"):
        write_whole(tmp_path / "a", lambda file: file.write(b"x"))
    assert os.listdir(tmp_path) == ["a"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def fill(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, fill)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]
