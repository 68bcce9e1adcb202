"""`noregret serve`: everything put together, and taken apart again when it is told to stop.

On SIGTERM or SIGINT no connection is taken any more, what is in flight is answered (30 seconds at most), the programmes
take a snapshot and let go of their journals, and the process ends with status 0."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from ..compiler.announcements import announce_with
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
    settings = [load_programme(file) for file in files]
    known = None if tokens is None else Tokens(tokens)
    if known is not None and not len(known):
        raise ValueError(
            f"tokens: {tokens} has none, say noregret token NAME --role admin,read,decide,report, or --demo"
        )
    if port:
        free(host, port)
    log = Log()
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
        service.host.start(asyncio.get_running_loop())
        try:
            yield
        finally:
            service.aside.close()
            await asyncio.to_thread(service.host.keep)
            await asyncio.to_thread(service.host.stop)
            service.log.note("stopped")
            sys.stderr.flush()

    return life
