"""`python -m kreach` is the `kreach` command."""

from kreach.cli import main

if __name__ == "__main__":
    main()
