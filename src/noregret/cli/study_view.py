"""What a run looks like on a terminal, and in a log."""

import time
from collections import defaultdict, deque
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from ..simulation.checkpoint import episodes_done
from ..studies.engines import Engine
from ..studies.results import Results
from ..studies.running import Watcher
from ..studies.work import Answer, Task

RECENT = 20.0  # seconds over which the speed is taken
STARTING = "workers start, and compile what is not in the cache yet"
LINES = 10.0  # seconds between two lines where there is no terminal


class View(Watcher):
    """Cells done, running, failed, episodes per second, time left; failures as they come."""

    def __init__(self, console: Console) -> None:
        self.console, text = console, TextColumn("{task.description}")
        self.bars = Progress(BarColumn(), text, console=console, refresh_per_second=4, disable=not console.is_terminal)

    def begin(self, results: Results, engine: Engine, left: list[Any]) -> None:
        self.start = self.said = time.monotonic()
        self.slots, self.total, self.before = engine.slots, len(results.study.cells), len(results.done())
        self.left = {cell.id: cell.episodes for cell in left}
        for cell in left:
            kept = results.checkpoint(cell.id)
            self.left[cell.id] -= 0 if kept is None else episodes_done(kept, cell.run)
        self.kind = {cell.id: (cell.agent, cell.world) for cell in left}
        self.done = self.failed = self.running = 0
        self.speeds: dict[Any, list[float]] = defaultdict(lambda: [0.0, 0.0])  # seconds, episodes
        self.recent: deque[tuple[float, int]] = deque()
        self.last = ""  # cell that was done
        self.bars.start()
        self.task = self.bars.add_task("", total=max(self.total, 1))
        self._show()

    def answered(self, task: Task, answer: Answer, facts: dict[str, Any]) -> None:
        now, key = time.monotonic(), answer.id
        self.recent.append((now, answer.episodes))
        while self.recent and self.recent[0][0] < now - RECENT:
            self.recent.popleft()
        self.left[key] = task.cell.episodes - answer.done
        if answer.result is not None:
            self.done += 1
            del self.left[key]
            spent = self.speeds[self.kind[key]]
            spent[0] += facts["seconds"]
            spent[1] += task.cell.episodes
            self.last = task.cell.describe()
        elif answer.failure is not None:
            self.failed += 1
            del self.left[key]
            why = answer.failure.strip().splitlines()[-1]
            self.console.print(Text(f"failed  {key}  {task.cell.describe()}\n        {why}", style="red"))

    def say(self, line: str) -> None:
        self.console.print(Text(line, style="yellow"))

    def tick(self, running: int) -> None:
        self.running = running
        self._show()

    def end(self) -> None:
        self.running, self.said = 0, -LINES
        self._show()
        self.bars.stop()

    def _show(self) -> None:
        """The bar; where there is no terminal, a line from time to time."""
        text = f"{escape(self._line())}\n[dim]{escape(self.last)}" if self.last else escape(self._line())
        self.bars.update(self.task, completed=self.before + self.done, description=text)
        if self.bars.disable and time.monotonic() - self.said > LINES:
            self.said = time.monotonic()
            self.console.print(self._line(), highlight=False)

    # ---------------------------------------------------------------------------------------------------------------
    def _rate(self) -> float:
        span = min(max(time.monotonic() - self.start, 1e-3), RECENT)
        return sum(n for _, n in self.recent) / span

    def _time_left(self) -> str:
        """From the processor time an episode took, per agent and world where some are done; at first, when workers
        compile more than they run, from the number of cells."""
        spent, run = (sum(v[i] for v in self.speeds.values()) for i in (0, 1))
        if not self.left:
            return "0 s"
        if run == 0.0:
            return "?"
        if spent < 0.2 * self.slots * (elapsed := time.monotonic() - self.start):
            return _duration(elapsed * len(self.left) / self.done)
        wanted = 0.0
        for key, episodes in self.left.items():
            seconds, seen = self.speeds.get(self.kind[key], (0.0, 0.0))
            wanted += episodes * (seconds / seen if seen else spent / run)
        return _duration(wanted / min(self.slots, len(self.left)))

    def _line(self) -> str:
        parts = [f"{self.before + self.done}/{self.total} cells", f"{self.running} running"]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self._rate():,.0f} episodes/s", f"{_duration(time.monotonic() - self.start)}"]
        if not self.speeds and self.left:
            return f"{parts[0]}: {STARTING}, {parts[-1]}"
        return ", ".join([*parts, f"{self._time_left()} left"])


def _duration(seconds: float) -> str:
    s = round(seconds)
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return f"{s // 60} min {s % 60:02d} s"
    return f"{s // 3600} h {s % 3600 // 60:02d} min"
