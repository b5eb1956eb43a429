"""`python -m search`."""

from search.study.signals import Interrupts, interruptible


def _work(interrupts: Interrupts) -> None:
    from search.cli.app import command  # takes a while, and Ctrl-C may come meanwhile

    command(interrupts)


if __name__ == "__main__":
    interruptible(_work)
