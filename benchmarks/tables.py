"""What `noregret bench` prints: tables of the measurements."""

from rich.console import Console
from rich.table import Table

from benchmarks import measure
from benchmarks.peers import SIZE, compare
from noregret.agents import names


def show(console: Console, sizes: str, rounds: int, sets: bool, system: bool, peers: bool) -> None:
    """Measure what was asked for, and print it."""
    if peers:
        _print_peers(console, rounds)
        return
    wanted = [] if sizes.strip() == "none" else [s.strip() for s in sizes.split(",")]
    for name in wanted:
        if name not in measure.SIZES:
            raise ValueError(f"unknown size {name!r} (sizes: {', '.join(measure.SIZES)}, or none)")
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("GLM-ORL, exact regret")
    for column in ("episodes/s", "twin", "ratio", "wanted", "rearranged", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    with console.status("") as status:
        for name in wanted:
            status.update(f"{name}: {rounds} rounds")
            size, r = measure.SIZES[name], measure.single_threaded_speeds(name, rounds)
            shape = f"{name} S={size.n_states} A={size.n_actions} d={size.context_dim} H={size.horizon}"
            table.add_row(
                shape, f"{r.fused:,.0f}", f"{r.twin:,.0f}", _mark(r.to_twin, size.wanted), f"{size.wanted:g}x",
                f"{r.rearranged:,.0f}", f"{r.to_rearranged:.1f}x",
            )  # fmt: skip
    if wanted:
        console.print(table)
    if sets:
        _print_sets(console, rounds)
    if not system:
        return
    other = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("what a user waits for", "measured", "wanted"):
        other.add_column(column, justify="left" if column.startswith("what") else "right", no_wrap=True)
    with console.status("") as status:
        status.update("latency")
        begin, end = measure.latency()
        other.add_row("live begin_episode, medium (median)", f"{begin:.1f} us", "25 us")
        other.add_row("live end_episode, medium (median)", f"{end:.1f} us", "")
        status.update("two threads against one")
        other.add_row("two threads against one", f"{measure.scaling():.2f}x", "1.8x")
        status.update("memory: a million episodes")
        less, more = measure.memory()
        other.add_row("peak memory, 10,000 episodes", f"{less:.0f} MiB", "")
        other.add_row("peak memory, 1,000,000 episodes", f"{more:.0f} MiB", "the same")
        status.update("compiling with an empty cache")
        cold, warm = measure.compile_times(names())
        limits = {"glm-orl": "10 s", **dict.fromkeys(("glm-rlsvi", "epsilon-greedy", "certainty-equivalence"), "2 s")}
        for name, seconds in cold.items():
            other.add_row(f"first use of {name}", f"{seconds:.1f} s", limits.get(name, ""))
        other.add_row("all of them in the next process", f"{sum(warm.values()):.1f} s", "")
    console.print(other)


def _print_sets(console: Console, rounds: int) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("LR-ORL, certificate and exact regret")
    for column in ("episodes/s", "twin", "ratio", "rearranged", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    with console.status(f"LR-ORL: {rounds} rounds"):
        r = measure.single_threaded_speeds("sets", rounds)
    S, A, H, d = measure.SETS
    table.add_row(
        f"S={S} A={A} d={d} H={H}", f"{r.fused:,.0f}", f"{r.twin:,.0f}", f"{r.to_twin:.1f}x", f"{r.rearranged:,.0f}",
        f"{r.to_rearranged:.1f}x",
    )  # fmt: skip
    console.print(table)


def _print_peers(console: Console, rounds: int) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for i, column in enumerate(("peer", "episodes/s", "ours", "episodes/s", "ratio", "wanted")):
        table.add_column(column, justify="left" if i in (0, 2) else "right", no_wrap=True)
    with console.status(f"{rounds} rounds"):
        for found in compare(rounds):
            theirs = "not found" if found.theirs is None else f"{found.theirs:,.0f}"
            ratio = "" if found.ratio is None else _mark(found.ratio, found.peer.wanted)
            ours = f"{found.ours:,.0f}"
            table.add_row(found.peer.name, theirs, found.peer.ours, ours, ratio, f"{found.peer.wanted:g}x")
    S, A, H = SIZE
    console.print(f"one tabular MDP, S={S} A={A} H={H}; ours with exact regret in every episode", highlight=False)
    console.print(table)


def _mark(ratio: float, wanted: float) -> str:
    return f"[green]{ratio:.0f}x[/]" if ratio >= wanted else f"[red]{ratio:.1f}x[/]"
