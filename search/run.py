"""`python -m search.run`: the main job."""

from search.cli.app import run_main

if __name__ == "__main__":
    run_main()
