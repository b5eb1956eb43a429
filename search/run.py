"""`python -m search.run`: the main job."""

from search.study.signals import Interrupts, interruptible


def _work(interrupts: Interrupts) -> None:
    from search.cli.app import run_command  # takes a while, and Ctrl-C may come meanwhile

    run_command(interrupts)


if __name__ == "__main__":
    interruptible(_work)
