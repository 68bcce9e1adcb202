"""`noregret serve`: everything put together, and taken apart again when it is told to stop.

On SIGTERM or SIGINT no connection is taken any more, what is in flight is answered (30 seconds at most), the programmes
take a snapshot and let go of their journals, and the process ends with status 0.

However it ends, short of SIGKILL, the log says why: the first line is written before any journal is opened, what is
raised has a line, and a crash of compiled code (SIGSEGV, SIGBUS, SIGABRT) leaves the stacks of all threads."""

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..compiler.announcements import announce_with
from ..storage.version import __version__
from . import pages
from .app import App, Service
from .hosting import Host
from .logs import Handler, Log
from .pages.aside import Aside
from .programme_file import load_programme
from .tokens import EVERYTHING, Token, Tokens
from .wire import free, server


def run(files: Sequence[Path], journal: str, host: str, port: int, tokens: Path | None) -> None:
    """Serve until a signal comes. tokens: the file, None: nobody needs one. Says its address on stdout once requests
    are taken."""
    log = Log()
    with said_why(log):
        _run(log, files, journal, host, port, tokens)


@contextlib.contextmanager
def said_why(log: Log) -> Iterator[None]:
    """No end without a word. A ValueError is a sentence about what was asked for: whoever called says it."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # a stderr that is no file
        faulthandler.enable()
    main, before = threading.current_thread() is threading.main_thread(), None
    if main:  # until uvicorn has its own: by default Python ends without a word

        def told(*_: Any) -> None:
            log.note("stopped", before="serving")
            raise SystemExit(0)

        before = signal.signal(signal.SIGTERM, told)
    try:
        yield
    except (ValueError, SystemExit):
        raise
    except BaseException as error:
        log.failure("ended", error, process=os.getpid())
        raise
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)
        log.flush()


def _run(log: Log, files: Sequence[Path], journal: str, host: str, port: int, tokens: Path | None) -> None:
    settings = [load_programme(file) for file in files]
    known = None if tokens is None else Tokens(tokens)
    if known is not None and not len(known):
        raise ValueError(
            f"tokens: {tokens} has none, say noregret token NAME --role admin,read,decide,report, or --demo"
        )
    if port:
        free(host, port)
    log.note("starting", process=os.getpid(), version=__version__)
    handler = Handler(log)
    logging.getLogger().addHandler(handler)
    try:
        aside = Aside()
        service = Service(None, known, log, aside)
        service.host = Host(journal, settings, service.on_answers)
        where = f"[{host}]" if ":" in host else host

        def told(at: int) -> None:
            log.note("serving", port=at, programmes=len(service.host.programmes), demo=known is None)
            print(f"http://{where}:{at}", flush=True)

        find = nobody_asks if known is None else known.find
        app = App(service, pages.routes(service.host, find, service.requests, aside), hosted(service))
        with announce_with(lambda line: log.note("compiling", said=line)):
            server(app, host, port, service.tick, told).run()
    except SystemExit as end:
        if end.code:
            log.note("ended", status=str(end.code), process=os.getpid())
        raise
    finally:
        logging.getLogger().removeHandler(handler)
        log.flush()


def nobody_asks(sent: bytes) -> Token:
    """With `--demo`, whoever looks may look."""
    return EVERYTHING


def hosted(service: Service) -> Any:
    """The programmes' life around that of the application."""

    @contextlib.asynccontextmanager
    async def life() -> AsyncIterator[None]:
        try:
            service.host.start(asyncio.get_running_loop())
        except Exception as error:
            service.log.failure("the programmes could not be started", error)
            raise
        try:
            yield
        finally:
            service.aside.close()
            await asyncio.to_thread(service.host.keep)
            await asyncio.to_thread(service.host.stop)
            service.log.note("stopped")
            sys.stderr.flush()

    return life
