"""`python -m search`."""

from search.cli.app import main

if __name__ == "__main__":
    main()
