"""`python -m translucid` is `translucid`."""

from translucid.cli import main

if __name__ == "__main__":
    main()
