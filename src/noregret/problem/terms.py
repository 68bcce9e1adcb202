"""Features of pairs from tables of attributes, by name: what `Design.from_tables` understands.

A table has a value per state, or per action. Numbers are taken as they are, text is a category: a column per value, in
the order in which values first appear. A term is a product of factors joined by *; the columns of a product are all
products of its factors' columns.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import checks as check
from ..checks import Floats

Column = tuple[str, Floats]  # a name, and numbers that can be broadcast to [S, A, S']

_MOVES = {"change": lambda v: v, "rise": lambda v: np.maximum(v, 0.0), "fall": lambda v: np.maximum(-v, 0.0)}
_FACTORS = "state.NAME, action.NAME, next.NAME, change.NAME, rise.NAME, fall.NAME, state, action, next, stay or 1"


class Tables:
    """Attributes of S states and A actions."""

    def __init__(self, states: Mapping[str, Any] | None, actions: Mapping[str, Any] | None) -> None:
        self.states, self.n_states = _table("states", states)
        self.actions, self.n_actions = _table("actions", actions)

    def column(self, of: str, name: str, factor: str) -> NDArray[Any]:
        table = self.actions if of == "action" else self.states
        return check.known(f"attribute (in {factor!r}) of {'actions' if of == 'action' else 'states'}", name, table)


def _table(name: str, given: Mapping[str, Any] | None) -> tuple[dict[str, NDArray[Any]], int]:
    """Columns of one length, as numbers or as text, and that length."""
    table = check.mapping(name, given)
    if not table:
        raise ValueError(f"{name} must have at least one attribute, such as {{'name': [...]}}")
    made: dict[str, NDArray[Any]] = {}
    for key, value in table.items():
        column = check.anything(f"{name}[{key!r}]", value)
        kind = column.dtype.kind
        if not isinstance(key, str) or column.ndim != 1 or not column.size or kind not in "biufU":
            raise ValueError(f"{name}[{key!r}] must be a list of numbers, or of text")
        made[key] = column if kind == "U" else check.finite(f"{name}[{key!r}]", column.astype(np.float64))
    lengths = {key: column.size for key, column in made.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{name} must have columns of one length, got {lengths}")
    return made, next(iter(lengths.values()))


def _spread(of: str, values: Floats) -> Floats:
    """One number per state, action or next state, laid along its axis of [S, A, S']."""
    return np.asarray(values, float).reshape({"state": (-1, 1, 1), "action": (1, -1, 1), "next": (1, 1, -1)}[of])


def _factor(tables: Tables, factor: str, after: bool) -> list[Column]:
    """The columns of one factor. after=False: next states play no part."""
    of, dot, name = factor.partition(".")
    S, A = tables.n_states, tables.n_actions
    if not after and of in ("next", "stay", *_MOVES):
        raise ValueError(f"terms of a reward must be about states and actions, got the factor {factor!r}")
    if factor == "1":
        return [("1", np.ones((1, 1, 1)))]
    if factor == "stay":
        return [("stay", np.eye(S)[:, None, :])]
    if factor in ("state", "action", "next"):
        n = A if factor == "action" else S
        return [(f"{factor}={i}", _spread(factor, np.arange(n) == i)) for i in range(n)]
    if dot and name and of in ("state", "action", "next"):
        column = tables.column(of, name, factor)
        if column.dtype.kind != "U":
            return [(factor, _spread(of, column))]
        return [(f"{factor}={value}", _spread(of, column == value)) for value in dict.fromkeys(column.tolist())]
    if dot and name and of in _MOVES:
        column = tables.column(of, name, factor)
        if column.dtype.kind == "U":
            raise ValueError(f"terms: {factor!r} needs numbers, states[{name!r}] is text")
        return [(factor, _MOVES[of](_spread("next", column) - _spread("state", column)))]
    raise ValueError(f"terms must be products of {_FACTORS}, got the factor {factor!r}")


def _moderated(term: str, contexts: Sequence[str] | None) -> tuple[str, NDArray[np.bool_] | None]:
    """(the product, which entries of the context go with it or None for all) of "product by name, name"."""
    product, by, listed = term.partition(" by ")
    if not by:
        return product, None
    if contexts is None:
        raise ValueError(f"contexts must be given, the names of the entries of a context: {term!r} names some")
    known = {str(name): i for i, name in enumerate(contexts)}
    made = np.zeros(len(known), bool)
    for name in listed.split(","):
        made[check.known("entry of the context", name.strip(), known)] = True
    return product, made


def columns_of(
    tables: Tables, terms: Sequence[str], after: bool, contexts: Sequence[str] | None = None
) -> tuple[Floats, list[str], NDArray[np.bool_] | None]:
    """Features [S, A, S', q], their names, and their moderators [q, d] where some have any; [S, A, 1, q] where next
    states play no part."""
    if isinstance(terms, str) or not isinstance(terms, Sequence) or not terms:
        raise ValueError(
            f"terms must be a list of texts such as 'action.dose * change.health', got {check.shown(terms)}"
        )
    made: dict[str, Floats] = {}
    moderators: list[NDArray[np.bool_] | None] = []
    for term in terms:
        if not isinstance(term, str):
            raise ValueError(f"terms must be texts, got {check.shown(term)}")
        whole, entries = _moderated(term, contexts)
        factors = [_factor(tables, factor.strip(), after) for factor in whole.split("*")]
        for columns in itertools.product(*factors):
            product = np.ones((1, 1, 1))
            for _, values in columns:
                product = product * values
            name = " * ".join(name for name, _ in columns)
            if name in made:
                raise ValueError(f"terms must differ, {name!r} is there twice")
            made[name] = product
            moderators.append(entries)
    shape = tables.n_states, tables.n_actions, tables.n_states if after else 1
    check.memory(f"a design with {len(made)} features", 16.0 * shape[0] * shape[1] * shape[2] * len(made))
    features = np.stack([np.broadcast_to(values, shape) for values in made.values()], axis=-1)
    if contexts is None or all(entries is None for entries in moderators):
        return features, list(made), None
    everything = np.ones(len(contexts), bool)
    return features, list(made), np.stack([everything if e is None else e for e in moderators])


def blocks_of(tables: Tables, factors: str | Sequence[str]) -> tuple[NDArray[np.int64], list[str]]:
    """The block of every pair [S, A], and the blocks' names: pairs that agree in all factors are in one."""
    listed = [factors] if isinstance(factors, str) else list(factors)
    S, A = tables.n_states, tables.n_actions
    keys: NDArray[Any] = np.full((S, A), "", dtype=object)
    for factor in listed:
        of, dot, name = str(factor).partition(".")
        if of not in ("state", "action") or bool(dot) != bool(name):
            raise ValueError(
                f"blocks must be factors of states and actions such as 'action', got {check.shown(factor)}"
            )
        n = A if of == "action" else S
        values = tables.column(of, name, factor) if name else np.arange(n)
        said = np.array(
            [f"{factor} {value:g}" if values.dtype.kind == "f" else f"{factor} {value}" for value in values]
        )
        keys = keys + np.where(keys == "", "", ", ") + (said[None, :] if of == "action" else said[:, None])
    order = {key: b for b, key in enumerate(dict.fromkeys(keys.ravel().tolist()))}
    block = np.array([order[key] for key in keys.ravel()], np.int64).reshape(S, A)
    return block, list(order) if listed else ["block 0"]
