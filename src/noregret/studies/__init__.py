"""Studies: worlds x agents x seeds written down once, run anywhere, resumed at will.

A study file (`load`) is expanded into cells, an engine runs those that are missing (`run`), a folder of Parquet files
keeps what came of them (`Results`)."""

from .cell import Cell
from .cell_file import Finished
from .results import Failure, Results
from .running import run
from .study import Study, load

__all__ = ["Cell", "Failure", "Finished", "Results", "Study", "load", "run"]
