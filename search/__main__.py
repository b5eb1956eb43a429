"""`python -m search`."""

from search.cli import main

if __name__ == "__main__":
    main()
