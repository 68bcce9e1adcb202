"""Who may look, and what every page says about itself: sign-in by token, and headers that allow nothing from elsewhere.

The token is kept in a cookie that scripts cannot read (HttpOnly), that other sites cannot send (SameSite=Strict), and
that only these pages get. The API does not look at it, so nothing can be changed with it."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

COOKIE = "noregret_token"
ROOT = "/programmes"
SIGN_IN = "/pages/sign-in"
LONGEST = 4096  # bytes of a sign-in form
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Find = Callable[[bytes], Any]


def sent(request: Request) -> bytes:
    """The token of the request: of the cookie, or of an Authorization header; b"" without one."""
    header = request.headers.get("authorization", "")
    if header[:7].lower() == "bearer ":
        return header[7:].strip().encode("latin-1", "replace")
    return request.cookies.get(COOKIE, "").encode("utf-8", "replace")


def page(text: str, status: int = 200) -> Response:
    return HTMLResponse(text, status, headers=HEADERS)


def to_sign_in(request: Request) -> Response:
    """The sign-in form, and back to where they were."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{SIGN_IN}?to={quote(request.url.path + query, safe='')}", 303, HEADERS)


def own_path(text: str) -> str:
    """A path of these pages, or the list of programmes: nobody is sent to another site after signing in."""
    plain = text.split("?")[0]
    good = plain == ROOT or plain.startswith(f"{ROOT}/")
    return text if good and "\\" not in text and "//" not in plain and text.isprintable() else ROOT


async def form_of(request: Request) -> dict[str, str]:
    """Fields of a small form (application/x-www-form-urlencoded); what is too long, or no form, has none."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            return {}
    found = {}
    for pair in body.decode("utf-8", "replace").split("&"):
        name, _, value = pair.partition("=")
        found[name] = unquote(value.replace("+", " "))
    return found


def signed_in(request: Request, token: str, to: str) -> Response:
    """Back to the pages, with the cookie: over TLS alone where they came by TLS, here or at a proxy before us."""
    secure = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
    made = RedirectResponse(own_path(to), 303, HEADERS)
    made.set_cookie(
        COOKIE, token, max_age=12 * 3600, path=ROOT, httponly=True, samesite="strict",
        secure=secure,
    )  # fmt: skip
    return made


def signed_out() -> Response:
    made = RedirectResponse(SIGN_IN, 303, HEADERS)
    made.delete_cookie(COOKIE, path=ROOT, httponly=True, samesite="strict")
    return made
