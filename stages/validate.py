"""Validate params.yaml, upstream of everything: `python -m stages.validate`."""

from rapt import files, params
from stages import run


def main() -> None:
    """Stop with a line for each problem, or leave the constant that every root stage depends on."""
    params.load()
    with files.atomic("data/params.ok") as scratch:
        scratch.write_text("ok\n")


if __name__ == "__main__":
    run(main)
