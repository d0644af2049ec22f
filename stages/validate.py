"""Validate params.yaml and fill in its defaults, upstream of all: `python -m stages.validate`."""

from rapt import params, paths
from rapt.utils import files
from stages import run


def main() -> None:
    """Stop with a line for each problem, or write the params that the other stages depend on."""
    files.write_json(paths.EFFECTIVE, params.load().model_dump(mode="json"))


if __name__ == "__main__":
    run(main)
