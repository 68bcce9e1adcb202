"""How a database comes to have the tables of today: one file in `versions/` for every version, run by Alembic.

A new version: a new file there, that begins from the one before; the tables in `schema.py`; `schema.VERSION`. Files of
versions that were released are never changed."""
