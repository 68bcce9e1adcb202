"""`noregret serve` and `noregret token`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(
    *,
    programme: Annotated[
        list[Path] | None, typer.Option(help="a programme's file, TOML or JSON; may be given again", show_default=False)
    ] = None,
    journal: Annotated[
        str, typer.Option(help="where everything is written: a file, sqlite:///..., or postgresql://...")
    ] = "noregret.sqlite",
    host: Annotated[str, typer.Option(help="address to listen at; others than this machine need a proxy with TLS")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="0: any that is free", min=0, max=65535)] = 8080,
    tokens: Annotated[Path, typer.Option(help="the file of tokens, as noregret token writes it")] = Path("tokens.json"),
    demo: Annotated[bool, typer.Option("--demo", help="no tokens: whoever reaches the port may do everything")] = False,
) -> None:
    """Decisions over HTTP: programmes, each with one writer, a journal, and a house rule that always answers.

    SIGTERM ends it: what is in flight is answered, a snapshot is taken. Logs are JSON lines on stderr.

    Example: noregret serve --programme clinic.toml --journal clinic.sqlite --demo"""
    try:
        from ..service.serving import run
    except ImportError as error:
        raise ValueError(f"serve needs what the extra installs: pip install 'noregret[serve]' ({error})") from None
    if demo and host not in LOCAL:
        raise ValueError(f"demo is for this machine alone: host must be {LOCAL[0]}, got {host}")
    run(programme or [], journal, host, port, None if demo else tokens)


def token(
    name: Annotated[str, typer.Argument(help="whose it is", show_default=False)],
    *,
    role: Annotated[str, typer.Option(help="of decide, report, read, admin; several with commas")] = "",
    programme: Annotated[list[str] | None, typer.Option(help="only for this one; may be given again")] = None,
    tokens: Annotated[Path, typer.Option(help="the file; made if it is not there, its owner's alone")] = (
        Path("tokens.json")
    ),
    revoke: Annotated[bool, typer.Option("--revoke", help="take all tokens of this name away")] = False,
) -> None:
    """Make a token. It is said once, on stdout; the file keeps a hash of it.

    Example: noregret token app --role decide,report"""
    from ..service.tokens import Tokens

    file = Tokens(tokens)
    if revoke:
        gone = file.remove(name)
        if not gone:
            raise ValueError(f"name: {tokens} has no token of {name}")
        print(f"{gone} taken away", file=sys.stderr)
        return
    if not role:
        raise ValueError("role must be given: decide, report, read, admin, or several with commas")
    print(file.add(name, role, programme))
