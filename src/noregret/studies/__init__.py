"""Studies: worlds x agents x seeds written down once, run anywhere, resumed at will.

A study file (`load`) is expanded into cells, an engine runs those that are missing (`run`), a folder of Parquet files
keeps what came of them (`Results`)."""

from .cell import Cell
from .cell_file import Finished
from .results import Failure, Results
from .running import run
from .study import Study, load
from .trial import TrialPlan, plan_trial

__all__ = ["Cell", "Failure", "Finished", "Results", "Study", "TrialPlan", "load", "plan_trial", "run"]
