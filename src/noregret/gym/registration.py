"""The worlds by Gymnasium's ids."""

IDS = {
    "noregret/Clinic-v0": "clinic",
    "noregret/HardLinear-v0": "hard-linear",
    "noregret/HardLogit-v0": "hard-logit",
    "noregret/Programme-v0": "programme",
    "noregret/RandomLinear-v0": "random-linear",
    "noregret/RandomLogit-v0": "random-logit",
    "noregret/RiverSwimLogit-v0": "riverswim-logit",
    "noregret/SharedLogit-v0": "shared-logit",
    "noregret/SparseLogit-v0": "sparse-logit",
}


def register() -> None:
    """Tell Gymnasium of the worlds in `IDS`; nothing where it is not installed or knows them already.

    Gymnasium since 1.0 loads no plugins by itself: `import noregret.gym` comes first, or the id says it,
    `gymnasium.make("noregret.gym:noregret/Clinic-v0")`."""
    try:
        import gymnasium
    except ImportError:
        return
    for id, world in IDS.items():
        if id not in gymnasium.registry:
            gymnasium.register(id, entry_point="noregret.gym.env:make", kwargs={"name": world})
